"""Which question a person gets and what is shown of it, as plain data that the browser puts in as text."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from pmlkit._typing import BoolArray, IntArray
from pmlkit._words import shortened
from pmlkit.cleaning.audit import Question
from pmlkit.cleaning.audit.answers import WORDS, find_cells
from pmlkit.cleaning.report import png
from pmlkit.cleaning.review.evidence import FeatureEvidence, ShownFeature, WordEvidence
from pmlkit.cleaning.review.replay import Replay
from pmlkit.exceptions import DataError
from pmlkit.numerics.scaling import scaled

if TYPE_CHECKING:
    from pmlkit.cleaning import CleaningResult

__all__ = ["PAGE", "Cards", "Questions"]

PAGE = 60
"""How many rows a view shows at once."""

_N_SIMILAR = 3
_N_LOOKED_AT = 60
_N_LABEL_LINES = 5
_N_FEATURES, _N_FEW_FEATURES = 24, 4
_SIDE, _SMALL_SIDE = 1600, 400  # pixels of pictures from files
_N_THUMBNAILS = 300
_N_CACHED = 500
_BRIEF, _FULL = 220, 20_000  # letters of a text
_SHORT, _LONG = 160, 1_200
_FILTERS = ("label", "confidence", "text")
_N_AHEAD = 3
_MAX_WORDS = 20
_N_SEARCHES = 8  # whose rows are remembered


class Cards:
    """Build the cards of a cleaning result.

    Parameters
    ----------
    result : CleaningResult
    table : Table, optional
        From `pmlkit.open_table`: its image files and columns are shown.
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
    def _words(self) -> WordEvidence:
        return WordEvidence(self.texts or (), self.result.Y)

    def name(self, row: int) -> str:
        """Return how a row is called."""
        return f"row {row}" if self.result.row_names is None else str(self.result.row_names[row])

    def searched(self, row: int) -> str:
        """Return the text of a row in which a search looks, in lower case."""
        text = self.texts[row] if self.texts is not None else " ".join(str(v[row]) for v in self._searched.values())
        return f"{self.name(row)} {text}".casefold()

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
        Y = self.result.Y
        own = Y.indices[Y.indptr[row] : Y.indptr[row + 1]]
        shown = {"row": row, "name": self.name(row), "labels": [self.result.label_names[k] for k in own.tolist()]}
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
            "name": self.name(row),
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
            return {"image": f"/api/picture?row={row}", "name": self.name(row), "is_large": self.has_files}
        if self.texts is not None:
            return {"words": self._words.marked(self.texts[row], label)}
        return {"features": self._features(row, label, _FULL)}

    @cached_property
    def _evidence(self) -> FeatureEvidence | None:
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
        """The columns of a table that are neither labels nor features: its embeddings alone would tell nobody much."""
        if self._table is None or self._table.is_own:
            return {}
        known = {*self._table.feature_columns.names, *self._table.label_columns, self._table.id_column}
        return {name: self._table.cells(name) for name in self._table.shown_columns if name not in known}

    def _features(self, row: int, label: int, n_letters: int = _BRIEF) -> list[ShownFeature]:
        """Return the features that say most about a label, and what else the table holds about a row."""
        strongest = [] if self._evidence is None else self._evidence.strongest(row, label, _N_FEATURES)
        others = [(name, shortened(str(cells[row]), n_letters), "") for name, cells in self._other_columns.items()]
        return [*strongest, *others][:_N_FEATURES]


class Questions:
    """Choose and show questions.

    Parameters
    ----------
    replay : Replay
    cards : Cards

    Attributes
    ----------
    judged : CleaningResult
        Whose confidences are shown: at first those of the result, later those that learned from the answers.
    """

    def __init__(self, replay: Replay, cards: Cards) -> None:
        self._replay, self._cards = replay, cards
        self._audit, self._result = replay.audit, replay.result
        self.judged: CleaningResult = replay.result
        self._shown: dict[str, tuple[int, dict[str, Any]]] = {}  # which candidate each person has before them
        self._rows_with = lru_cache(maxsize=_N_SEARCHES)(self._find_rows)
        self._ahead = ThreadPoolExecutor(1, thread_name_prefix="pmlkit review cards")

    def close(self) -> None:
        """End making cards ahead."""
        self._ahead.shutdown(wait=False, cancel_futures=True)

    def next(self, who: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return the audit's next question for a person, or the most suspicious one that passes their filter."""
        wanted = {name: str(given.get(name) or "") for name in _FILTERS}
        if any(wanted.values()):
            return self._next_filtered(who, wanted)
        others = {cell for person, (cell, _) in self._shown.items() if person != who}
        ahead = self._audit.upcoming(1 + _N_AHEAD, skip=others)
        if not ahead:
            self._shown.pop(who, None)
            return {"card": None, "done": "Every candidate that can be judged has been answered."}
        for question in ahead[1:]:
            self._ahead.submit(self._cards.card, question.cell)
        return self.show(who, ahead[0])

    def show(self, who: str, question: Question) -> dict[str, Any]:
        """Return the card of a question and remember that the person has it."""
        row, Y = question.row, self._result.Y
        cells = np.arange(int(Y.indptr[row]), int(Y.indptr[row + 1]))
        labels: list[dict[str, Any]] = [
            {
                "label": self._result.label_names[int(Y.indices[cell])],
                "confidence": sure,
                "suspect": cell == question.cell,
                "answer": None if cell == question.cell else (WORDS[self._audit.verdict[cell]] or None),
            }
            for cell, sure in zip(cells.tolist(), self._confidence(cells), strict=True)
        ]
        for entry in labels:
            if entry["suspect"] and self._audit.verdict[question.cell]:
                # Asked again: what is known of it by now would give the earlier answer away.
                entry["confidence"] = 1.0 - float(self._result.doubt[question.cell])
        labels.sort(key=lambda entry: (-entry["confidence"], entry["label"]))
        card = self._cards.card(question.cell)
        self._shown[who] = question.cell, {
            "confidence": round(next(entry["confidence"] for entry in labels if entry["suspect"]), 4),
            "similar_with": [row["row"] for row in card["similar_with"]],
            "similar_without": [row["row"] for row in card["similar_without"]],
        }  # fmt: skip
        return {
            "card": {
                **card, "id": f"{question.cell}", "kind": question.kind, "labels": labels,
                "flagged": (row, question.label) in self._replay.flags,
            }
        }  # fmt: skip

    def shown(self, who: str, cell: int | None) -> dict[str, Any]:
        """Return what a person saw of a candidate, and forget it."""
        last, facts = self._shown.pop(who, (None, {}))
        return facts if last == cell else {}

    def label_cells(self, label: int, text: str) -> IntArray:
        """Return the candidates of a label whose rows hold a text: the least likely first, answered ones at the end."""
        cells = np.flatnonzero(self._result.Y.indices == label)
        cells = cells[np.lexsort((-self._audit.probability[cells], self._audit.verdict[cells] > 0))]
        return self._with_text(cells, text)

    def label_rows(self, cells: IntArray) -> list[dict[str, Any]]:
        """Return rows of one label in a few lines each."""
        return [
            {
                **self._cards.brief(int(self._result.rows[cell]), int(self._result.Y.indices[cell])),
                "confidence": sure,
                "answer": WORDS[self._audit.verdict[cell]] or None,
            }
            for cell, sure in zip(cells.tolist(), self._confidence(cells), strict=True)
        ]

    def _next_filtered(self, who: str, wanted: dict[str, str]) -> dict[str, Any]:
        cells = self._audit.order
        if wanted["label"]:
            names = list(self._result.label_names)
            number = names.index(wanted["label"]) if wanted["label"] in names else -1
            cells = cells[self._result.Y.indices[cells] == number]
        if wanted["confidence"]:
            try:
                limit = float(wanted["confidence"])
            except ValueError:
                raise DataError("The confidence of a filter must be a number.") from None
            cells = cells[np.asarray(self._confidence(cells)) <= limit]
        cells = self._with_text(cells, wanted["text"])
        many = f"{len(cells):,} unanswered labels pass the filter, the most suspicious first."
        note = f"{many} Your own choice is no random sample: the promise comes from questions without a filter."
        if not len(cells):
            return {"card": None, "done": "No unanswered label passes the filter.", "note": ""}
        return {**self.show(who, self._replay.question(int(cells[0]), "selection")), "note": note}

    def _with_text(self, cells: IntArray, text: str) -> IntArray:
        """Return the candidates whose rows hold all words of a text, in their text or name, whatever the case."""
        words = text.casefold().split()[:_MAX_WORDS]
        if not words:
            return cells
        return np.asarray(cells[self._rows_with(tuple(words))[self._result.rows[cells]]])

    def _find_rows(self, words: tuple[str, ...]) -> BoolArray:
        """Return which rows hold all words."""
        shown = map(self._cards.searched, range(self._result.Y.shape[0]))
        return np.fromiter((all(word in text for word in words) for text in shown), bool)

    def _confidence(self, cells: IntArray) -> list[float]:
        if self.judged is self._result:
            found = 1.0 - self._audit.probability[cells]
        else:
            found = self.judged.confidence[self._result.rows[cells], self._result.Y.indices[cells]]
        return [float(value) for value in np.asarray(found).ravel()]
