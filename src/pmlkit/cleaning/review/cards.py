"""What is shown of a question, as plain data that the browser puts in as text: the row, similar rows, the evidence.

Words of a text, numbers and categories are marked where they speak for or against the label.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from pmlkit._typing import CSR, Features, FloatArray
from pmlkit._words import shortened
from pmlkit.cleaning.audit.answers import find_cells
from pmlkit.cleaning.report import png
from pmlkit.exceptions import DataError
from pmlkit.numerics.scaling import scaled

if TYPE_CHECKING:
    from pmlkit.cleaning import CleaningResult

PAGE = 60
"""How many rows a view shows at once."""

MarkedText = list[tuple[str, str]]
"""Pieces of a text in order, each with ``"for"``, ``"against"`` or ``""``."""

ShownFeature = tuple[str, str, str]
"""A feature's name, its value, and ``"for"``, ``"against"`` or ``""``."""

_N_SIMILAR = 3
_N_LOOKED_AT = 60
_N_LABEL_LINES = 5
_N_FEATURES, _N_FEW_FEATURES = 24, 4
_SIDE, _SMALL_SIDE = 1600, 400  # pixels of pictures from files
_N_THUMBNAILS = 300
_N_CACHED = 500
_BRIEF, _FULL = 220, 20_000  # letters of a text
_SHORT, _LONG = 160, 1_200
_WORD = re.compile(r"\b\w\w+\b")
_MAX_ROWS, _MAX_WORDS = 50_000, 50_000  # that word frequencies are counted in and of
_MAX_TEXT = 20_000
_MIN_ROWS = 3  # rows that must hold a word before it can speak
_SMOOTHING = 2.0
_LEAST_RATIO = 0.7  # log ratio from which a word is marked
_N_MARKED = 12
_LEAST = 0.15  # evidence from which a feature is said to speak for or against a label
_LONG_VALUE = 200  # letters of a feature's value
_N_RATIOS = 200  # labels whose ratios are remembered


class Cards:
    """Build the cards of a cleaning result.

    `table`: from `pmlkit.open_table`: its image files and columns are shown.
    """

    def __init__(self, result: "CleaningResult", *, table: Any = None) -> None:
        self.result, self._table = result, table
        self._cache: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()
        self._thumbnail = lru_cache(maxsize=_N_THUMBNAILS)(self._small_picture)

    @cached_property
    def has_files(self) -> bool:
        """Whether rows are shown as pictures from files."""
        return bool(getattr(self._table, "has_images", False))

    @property
    def has_pictures(self) -> bool:
        """Whether rows are shown as pictures."""
        return self.has_files or isinstance(self.result.media, np.ndarray)

    @cached_property
    def room(self) -> str:
        """How much room rows take on a card, the same for all so that nothing moves: a class of the page."""
        if self.has_files:
            return "photos"
        if self.texts is None:
            is_small = not (self.has_pictures or self._other_columns) and len(self._features(0, 0)) <= _N_FEW_FEATURES
            return "short-rows" if is_small else ""
        step = max(len(self.texts) // _N_LOOKED_AT, 1)
        typical, long = np.quantile([len(self.texts[i]) for i in range(0, len(self.texts), step)], [0.5, 0.9])
        return "short-rows" if long <= _SHORT else "long-rows" if typical > _LONG else ""

    @cached_property
    def n_label_lines(self) -> int:
        """How many labels the list of a row's labels has room for, the same for all rows so that nothing moves."""
        n_labels = np.diff(self.result.Y.indptr)
        usual = np.quantile(n_labels[n_labels > 0], 0.9) if n_labels.any() else 1
        return int(np.clip(usual, 2, _N_LABEL_LINES))

    @cached_property
    def texts(self) -> Sequence[str] | None:
        """The rows' texts, or None."""
        media = self.result.media
        return None if media is None or isinstance(media, np.ndarray) else media

    @cached_property
    def _words(self) -> "WordEvidence":
        return WordEvidence(self.texts or (), self.result.Y)

    def searched(self, row: int) -> str:
        """Return the text of a row in which a search looks, in lower case."""
        text = self.texts[row] if self.texts is not None else " ".join(str(v[row]) for v in self._searched.values())
        return f"{self.result.row_name(row)} {text}".casefold()

    @cached_property
    def _searched(self) -> dict[str, Sequence[Any]]:
        categories = () if self._table is None else self._table.feature_columns.categories
        return {**self._other_columns, **{name: self._table.cells(name) for name in categories}}

    def picture(self, row: int, *, is_small: bool = False) -> tuple[bytes, str]:
        """Return the bytes and the media type of a row's picture."""
        if self.has_files:
            return self._thumbnail(row) if is_small else self._table.picture(row, _SIDE)
        if not isinstance(self.result.media, np.ndarray):
            raise DataError("These rows have no pictures.")
        return png(self.result.media[row]), "image/png"

    def _small_picture(self, row: int) -> tuple[bytes, str]:
        return self._table.picture(row, _SMALL_SIDE)  # type: ignore[no-any-return]

    def brief(self, row: int, label: int) -> dict[str, Any]:
        """Return a row in a few lines: a picture or the beginning of its text, and its labels."""
        shown = {"row": row, "name": self.result.row_name(row), "labels": self.result.labels_of(row)}
        if self.has_pictures:
            return shown | {"image": f"/api/picture?row={row}&small=1"}
        if self.texts is not None:
            text = " ".join(self.texts[row].split())
            return shown | {"text": shortened(text, _BRIEF)}
        return shown | {"features": self._features(row, label)[:_N_FEW_FEATURES]}

    def card(self, cell: int) -> dict[str, Any]:
        """Return everything about a question that does not depend on answers."""
        with self._lock:
            if cell in self._cache:
                self._cache.move_to_end(cell)
                return self._cache[cell]
        built = self._build(cell)
        with self._lock:
            self._cache[cell] = built
            if len(self._cache) > _N_CACHED:
                self._cache.popitem(last=False)
        return built

    def _build(self, cell: int) -> dict[str, Any]:
        result = self.result
        row, label = int(result.rows[cell]), int(result.Y.indices[cell])
        reason = result.reasons(np.array([cell]), n_similar=0)[0]
        speaks_for, speaks_against = ([part.text for part in side] for side in (reason.in_favour, reason.against))
        similar_with, similar_without = self._similar(row, label)
        n_similar = len(similar_with) + len(similar_without)
        if similar_with:
            speaks_for.append(f"{len(similar_with)} of the {n_similar} most similar rows have it:")
        if similar_without:
            speaks_against.append(f"{len(similar_without)} of the {n_similar} most similar rows lack it:")
        return {
            "row": row,
            "label": result.label_names[label],
            "name": self.result.row_name(row),
            "content": self._content(row, label),
            "reasons_for": speaks_for,
            "reasons_against": speaks_against,
            "similar_with": [self.brief(other, label) for other in similar_with[:_N_SIMILAR]],
            "similar_without": [self.brief(other, label) for other in similar_without[:_N_SIMILAR]],
        }

    @cached_property
    def _unit_rows(self) -> Any:
        """The features, every row of length one, so that products are cosines."""
        return scaled(self.result.X, "unit")

    def _similar(self, row: int, label: int) -> tuple[list[int], list[int]]:
        """Return the most similar rows that have a label and those that lack it; rows without labels do not count."""
        if self.result.X is None:
            return [], []
        cosine = self._unit_rows @ self._unit_rows[[row]].T
        cosine = np.asarray(cosine.toarray() if sparse.issparse(cosine) else cosine).ravel()
        cosine[row] = 0.0
        cosine[np.diff(self.result.Y.indptr) == 0] = 0.0
        n_looked_at = min(_N_LOOKED_AT, len(cosine))
        nearest = np.argpartition(-cosine, n_looked_at - 1)[:n_looked_at]
        nearest = nearest[np.lexsort((nearest, -cosine[nearest]))]
        nearest = nearest[cosine[nearest] > 0]
        has_it = find_cells(self.result.Y, nearest, np.full(len(nearest), label)) >= 0
        return nearest[has_it].tolist(), nearest[~has_it].tolist()

    def _content(self, row: int, label: int) -> dict[str, Any]:
        if self.has_pictures:
            return {"image": f"/api/picture?row={row}", "name": self.result.row_name(row), "is_large": self.has_files}
        if self.texts is not None:
            return {"words": self._words.marked(self.texts[row], label)}
        return {"features": self._features(row, label, _FULL)}

    @cached_property
    def _evidence(self) -> "FeatureEvidence | None":
        X, table = self.result.X, self._table
        if X is None:
            return None
        if table is None:
            return FeatureEvidence(X, self.result.Y, {f"feature {j}": j for j in range(X.shape[1])})
        names = table.number_features
        categories = {name: table.cells(name) for name in table.feature_columns.categories}
        values = {name: table.cells(name) for name in names}
        return FeatureEvidence(X, self.result.Y, names, categories=categories, values=values)

    @cached_property
    def _other_columns(self) -> dict[str, Sequence[Any]]:
        """The columns of a table that are neither labels nor features: embeddings alone mean little to a person."""
        if self._table is None or self._table.is_own:
            return {}
        known = {*self._table.feature_columns.names, *self._table.label_columns, self._table.id_column}
        return {name: self._table.cells(name) for name in self._table.shown_columns if name not in known}

    def _features(self, row: int, label: int, n_letters: int = _BRIEF) -> list[ShownFeature]:
        """Return the features that say most about a label, and what else the table holds about a row."""
        strongest = [] if self._evidence is None else self._evidence.strongest(row, label, _N_FEATURES)
        others = [(name, shortened(str(cells[row]), n_letters), "") for name, cells in self._other_columns.items()]
        return [*strongest, *others][:_N_FEATURES]


class WordEvidence:
    """Word frequencies of all texts, from which the words that speak for or against a label are read.

    A word's evidence is the logarithm of the ratio of its document frequencies in the rows with and without the
    label, both smoothed towards its overall frequency. It explains the data to a reader; no estimate depends on it.

    Examples
    --------
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.review.cards import WordEvidence
    >>> texts = ["a purring cat", "the cat sleeps", "my cat eats"] + ["the dog barks", "my dog eats", "dog days"]
    >>> evidence = WordEvidence(texts, sparse.csr_array([[1, 0]] * 3 + [[0, 1]] * 3))
    >>> evidence.marked("cat and dog", 0)
    [('cat', 'for'), (' and ', ''), ('dog', 'against')]
    """

    def __init__(self, texts: Sequence[str], Y: CSR) -> None:
        from sklearn.feature_extraction.text import CountVectorizer

        n_samples = len(texts)
        chosen = np.arange(n_samples)
        if n_samples > _MAX_ROWS:
            chosen = np.sort(np.random.default_rng(0).choice(n_samples, _MAX_ROWS, replace=False))
        counter = CountVectorizer(
            binary=True, token_pattern=_WORD.pattern, min_df=_MIN_ROWS, max_features=_MAX_WORDS, dtype=np.float32
        )
        self._Y = sparse.csc_array(Y[chosen])
        try:
            self._words = sparse.csr_array(counter.fit_transform(texts[i][:_MAX_TEXT] for i in chosen.tolist()))
            self._number: dict[str, int] = counter.vocabulary_
        except ValueError:  # no word is in enough texts
            self._words = sparse.csr_array((len(chosen), 0), dtype=np.float32)
            self._number = {}
        self._count = np.asarray(self._words.sum(axis=0)).ravel()
        self._log_ratio = lru_cache(maxsize=_N_RATIOS)(self._log_ratio_of_words)

    def marked(self, text: str, label: int) -> MarkedText:
        """Return a text in pieces, the words that say most about a label marked."""
        text = text[:_MAX_TEXT]
        ratio = self._log_ratio(label)
        found = [(match, self._number.get(match[0].lower())) for match in _WORD.finditer(text)]
        strength = {number: ratio[number] for _, number in found if number is not None}
        strongest = sorted(strength, key=lambda number: -abs(strength[number]))[:_N_MARKED]
        told = {number for number in strongest if abs(strength[number]) >= _LEAST_RATIO}
        pieces: MarkedText = []
        last = 0
        for match, number in found:
            if number in told:
                if match.start() > last:
                    pieces.append((text[last : match.start()], ""))
                pieces.append((match[0], "for" if strength[number] > 0 else "against"))
                last = match.end()
        if last < len(text) or not pieces:
            pieces.append((text[last:], ""))
        return pieces

    def _log_ratio_of_words(self, label: int) -> FloatArray:
        rows = self._Y.indices[self._Y.indptr[label] : self._Y.indptr[label + 1]]
        n_with, n_all = len(rows), self._words.shape[0]
        inside = np.asarray(self._words[rows].sum(axis=0)).ravel()
        share = self._count / max(n_all, 1)
        rate_with = (inside + _SMOOTHING * share) / (n_with + _SMOOTHING)
        rate_without = (self._count - inside + _SMOOTHING * share) / (n_all - n_with + _SMOOTHING)
        return np.asarray(np.log(np.maximum(rate_with, 1e-12) / np.maximum(rate_without, 1e-12)))


class FeatureEvidence:
    """Compare the features of a row with those of the rows with and without a label.

    The evidence of a number is its distance from the mean, times the difference of the means of the rows with the label
    and without it, both in standard deviations; that of a category is the logarithm of the ratio of its shares in these
    rows. It explains the data to a reader; no estimate depends on it.

    `names`: the columns of X that are shown, by name. `categories`: more columns, one value per row. `values`: what is
    shown instead of the numbers in X.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.review.cards import FeatureEvidence
    >>> X, Y = np.array([[1.0, 5.0], [1.2, 4.0], [9.0, 5.0], [8.0, 4.0]]), sparse.csr_array([[1], [1], [0], [0]])
    >>> FeatureEvidence(X, Y, {"size": 0, "age": 1}).strongest(0, 0)
    [('size', '1', 'for'), ('age', '5', '')]
    """

    def __init__(
        self,
        X: Features,
        Y: CSR,
        names: Mapping[str, int],
        *,
        categories: Mapping[str, Sequence[Any]] | None = None,
        values: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        self._X, self._Y = X, Y.tocsc()
        self._names, self._columns = list(names), np.fromiter(names.values(), np.int64, len(names))
        self._values = values or {}
        self._categories = {name: np.array([str(v) for v in cells]) for name, cells in (categories or {}).items()}
        mean = np.asarray(X.mean(axis=0)).ravel()
        square = X.multiply(X).mean(axis=0) if sparse.issparse(X) else (X * X).mean(axis=0)
        deviation = np.sqrt(np.maximum(np.asarray(square).ravel() - mean**2, 0.0))
        self._mean, self._deviation = mean, np.where(deviation > 1e-12, deviation, np.inf)
        self._difference = lru_cache(maxsize=_N_RATIOS)(self._difference_of_means)

    def strongest(self, row: int, label: int, n: int = 24) -> list[ShownFeature]:
        """Return the features of a row that say most about a label, the strongest first."""
        values = self._X[[row]]
        values = np.asarray(values.toarray() if sparse.issparse(values) else values, dtype=np.float64).ravel()
        strength = ((values - self._mean) / self._deviation * self._difference(label))[self._columns]
        if sparse.issparse(self._X):
            strength[values[self._columns] == 0] = 0.0  # what a row lacks is not shown among thousands
        found = []
        for i in np.argsort(-np.abs(strength), kind="stable")[:n].tolist():
            name, column = self._names[i], int(self._columns[i])
            if sparse.issparse(self._X) and values[column] == 0:
                continue
            shown = self._values[name][row] if name in self._values else f"{values[column]:.3g}"
            found.append((abs(strength[i]), name, str(shown), strength[i]))
        for name, cells in self._categories.items():
            ratio = self._log_ratio(cells, row, label)
            found.append((abs(ratio), name, str(cells[row]), ratio))
        found.sort(key=lambda entry: -entry[0])
        return [(name, text[:_LONG_VALUE], _side(value)) for _, name, text, value in found[:n]]

    def _rows_with(self, label: int) -> Any:
        return self._Y.indices[self._Y.indptr[label] : self._Y.indptr[label + 1]]

    def _difference_of_means(self, label: int) -> FloatArray:
        rows, n = self._rows_with(label), self._X.shape[0]
        if not 0 < len(rows) < n:
            return np.zeros(self._X.shape[1])
        inside = np.asarray(self._X[rows].mean(axis=0)).ravel()
        outside = (self._mean * n - inside * len(rows)) / (n - len(rows))
        return np.asarray((inside - outside) / self._deviation)

    def _log_ratio(self, cells: Any, row: int, label: int) -> float:
        rows = self._rows_with(label)
        is_same = cells == cells[row]
        n_same, n_inside, n = int(is_same.sum()), int(is_same[rows].sum()), len(cells)
        share = n_same / n
        inside = (n_inside + _SMOOTHING * share) / (len(rows) + _SMOOTHING)
        outside = (n_same - n_inside + _SMOOTHING * share) / (n - len(rows) + _SMOOTHING)
        return float(np.log(max(inside, 1e-12) / max(outside, 1e-12)))


def _side(value: float) -> str:
    return "" if abs(value) < _LEAST else "for" if value > 0 else "against"
