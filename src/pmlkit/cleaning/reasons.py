"""What speaks for and against a label of a row, which labels are most likely missing, and rows that resemble others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from scipy import sparse

from pmlkit._arrays import generator, row_hash
from pmlkit._typing import CSR, BoolArray, Features, FloatArray, IntArray
from pmlkit.numerics.scaling import scaled

_N_SIMILAR = 10
_N_NAMED = 4
_BLOCK_ROWS = 20_000
_USUAL = 0.5  # share of a label's rows from which another label usually comes with it

TWINS_LIMIT = 100
"""Pairs of near-duplicates that are looked for; there may be more."""

_COMPARED_ROWS = 50_000
_ASKING_ROWS = 200
_N_BANDS, _BITS = 4, 20
_SAME = 0.98  # cosine from which two rows are near-duplicates


@dataclass(frozen=True)
class Part:
    """One thing that speaks for or against a label.

    Attributes
    ----------
    kind : {"score", "similar_rows", "co_labels", "label_noise"}
    supports : bool
        Whether it speaks for the label.
    text : str
    """

    kind: Literal["score", "similar_rows", "co_labels", "label_noise"]
    supports: bool
    text: str


@dataclass(frozen=True)
class Reason:
    """The evidence about one label of one row.

    Attributes
    ----------
    label : str
    score, typical_score : float
        Of the model, for this row and at the median of the rows with the label.
    similar_with, similar_without : tuple of str
        The most similar rows that have the label, and those that lack it, by their names.
    companions : tuple of (str, float, bool)
        Labels that usually come with it: which, on what share of its rows, whether this row has it.
    noise_rate : float
        Estimated share of false ones among the label's candidates; NaN where that cannot be told, or where the row
        does not have the label.
    """

    label: str
    score: float
    typical_score: float
    similar_with: tuple[str, ...]
    similar_without: tuple[str, ...]
    companions: tuple[tuple[str, float, bool], ...]
    noise_rate: float

    @property
    def parts(self) -> list[Part]:
        """All parts, in the order score, similar rows, labels that come with it, how often the label is wrong."""
        parts = [
            Part(
                "score",
                round(self.score, 2) >= round(self.typical_score, 2),  # as it is read
                f"models that never saw this row score it {self.score:.2f}, rows with the label usually "
                f"{self.typical_score:.2f}",
            )
        ]
        n_with, n_without = len(self.similar_with), len(self.similar_without)
        if n_with + n_without:
            lacking = (
                f"{n_without} of the {n_with + n_without} most similar rows lack it{_listed(self.similar_without)}"
            )
            having = f"{n_with} {'has' if n_with == 1 else 'have'} it{_listed(self.similar_with)}"
            parts.append(Part("similar_rows", n_with > n_without, f"{lacking}, {having}"))
        for other, share, is_here in self.companions:
            text = f"usually with {other!r} ({100 * share:.0f} %), {'as' if is_here else 'not'} here"
            parts.append(Part("co_labels", is_here, text))
        if self.noise_rate == self.noise_rate:  # not NaN
            mostly_right = self.noise_rate < 0.5
            share = 1.0 - self.noise_rate if mostly_right else self.noise_rate
            text = f"an estimated {100 * share:.0f} % of {self.label!r} are {'right' if mostly_right else 'wrong'}"
            parts.append(Part("label_noise", mostly_right, text))
        return parts

    @property
    def against(self) -> list[Part]:
        """What speaks against the label."""
        return [part for part in self.parts if not part.supports]

    @property
    def in_favour(self) -> list[Part]:
        """What speaks for the label."""
        return [part for part in self.parts if part.supports]

    def sentence(self) -> str:
        """Return all parts as text, those against the label first.

        Examples
        --------
        >>> from pmlkit.cleaning.reasons import Reason
        >>> print(Reason("cat", 0.02, 0.7, ("4",), ("8", "9"), (("pet", 0.8, True),), 0.6).sentence())
        against: models that never saw this row score it 0.02, rows with the label usually 0.70; 2 of the 3 most
        similar rows lack it (8, 9), 1 has it (4); an estimated 60 % of 'cat' are wrong. For: usually with 'pet'
        (80 %), as here
        """
        texts = []
        for title, parts in (("against", self.against), ("for", self.in_favour)):
            if parts:
                texts.append(f"{title}: " + "; ".join(part.text for part in parts))
        return ". ".join([texts[0], *(text.capitalize()[:1] + text[1:] for text in texts[1:])])

    @property
    def short(self) -> str:
        """The part that says most in least space: what similar rows have, or else the score."""
        return next((part.text for part in self.parts if part.kind == "similar_rows"), self.parts[0].text)


def _are_in(few: IntArray, many: IntArray) -> BoolArray:
    """Tell which of a few numbers are among many ascending ones."""
    if not len(many):
        return np.zeros(len(few), dtype=bool)
    place = np.minimum(np.searchsorted(many, few), len(many) - 1)
    return np.asarray(many[place] == few)


def _listed(rows: Sequence[str]) -> str:
    return f" ({', '.join(rows[:_N_NAMED])}{', …' if len(rows) > _N_NAMED else ''})" if rows else ""


def companions(Y: CSR) -> FloatArray:
    """Return for labels j and k the share of the rows with j that also have k, with zeros on the diagonal.

    Examples
    --------
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.reasons import companions
    >>> companions(sparse.csr_array([[1, 1], [1, 0]])).tolist()
    [[0.0, 0.5], [1.0, 0.0]]
    """
    indicator = Y.astype(np.float64)
    together = (indicator.T @ indicator).toarray()
    count = np.maximum(together.diagonal(), 1.0)
    np.fill_diagonal(together, 0.0)
    return np.asarray(together / count[:, None])


class Explainer:
    """Explain cells of one result, candidates or not, keeping what many of them need.

    `X`: without features nothing is said of similar rows. `Y`: candidates. `scores` (n_samples, n_labels): out-of-fold.
    `noise_rate` (n_labels,): NaN leaves it out. `row_ids`: how rows are called.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.reasons import Explainer
    >>> X, Y = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), sparse.csr_array([[1, 1], [1, 0], [0, 1]])
    >>> scores = np.array([[0.9, 0.2], [0.8, 0.1], [0.1, 0.9]])
    >>> explainer = Explainer(X, Y, scores, np.array([0.1, 0.3]), "ab", range(3))
    >>> explainer.explain(np.array([0]), np.array([1]))[0].similar_without
    ('1',)
    """

    def __init__(
        self,
        X: Features | None,
        Y: CSR,
        scores: FloatArray,
        noise_rate: FloatArray,
        label_names: Sequence[str],
        row_ids: Sequence[object],
    ) -> None:
        self._X, self._Y, self._scores, self._noise_rate = X, Y, scores, noise_rate
        self._label_names, self._row_ids = label_names, row_ids
        self._columns = Y.tocsc()
        self._together = companions(Y)
        self._typical: dict[int, float] = {}

    def explain(self, rows: IntArray, labels: IntArray, *, n_similar: int = _N_SIMILAR) -> list[Reason]:
        """Return the reasons of some cells.

        `rows`, `labels`: the cells to explain. `n_similar`: similar rows to look at. Finding them takes most of the
        time; 0 leaves them out.
        """
        if not len(rows):
            return []
        asked, position = np.unique(rows, return_inverse=True)
        neighbor: IntArray = np.zeros((len(asked), 0), dtype=np.int64)
        speaks: BoolArray = np.zeros((len(asked), 0), dtype=bool)
        if self._X is not None and n_similar:
            neighbor, similarity = most_similar(self._X, asked, n_similar)
            # A neighbour without any candidate says nothing about this one.
            speaks = (similarity > 0) & (np.diff(self._Y.indptr)[neighbor] > 0)
        return [
            self._reason(row, label, neighbor[place][speaks[place]])
            for place, row, label in zip(position.tolist(), rows.tolist(), labels.tolist(), strict=True)
        ]

    def _reason(self, row: int, label: int, similar: IntArray) -> Reason:
        with_label = self._columns.indices[self._columns.indptr[label] : self._columns.indptr[label + 1]]
        if label not in self._typical:
            median = float(np.median(self._scores[with_label, label])) if len(with_label) else float("nan")
            self._typical[label] = median
        has_it = _are_in(similar, with_label)
        mine = set(self._Y.indices[self._Y.indptr[row] : self._Y.indptr[row + 1]].tolist())
        shares = self._together[label]
        usual = np.flatnonzero(shares >= _USUAL)
        usual = usual[np.argsort(-shares[usual], kind="stable")][:2]
        names = self._label_names
        return Reason(
            label=names[label],
            score=float(self._scores[row, label]),
            typical_score=self._typical[label],
            similar_with=self._named(similar[has_it]),
            similar_without=self._named(similar[~has_it]),
            companions=tuple((names[k], float(shares[k]), k in mine) for k in usual.tolist()),
            noise_rate=float(self._noise_rate[label]) if label in mine else float("nan"),
        )

    def _named(self, some: IntArray) -> tuple[str, ...]:
        return tuple(str(self._row_ids[row]) for row in some.tolist())


def most_likely_missing(scores: FloatArray, Y: CSR, labels: IntArray, k: int) -> tuple[IntArray, IntArray]:
    """Return the `k` non-candidates with the highest scores, rows without candidates left out.

    The highest score comes first, equals by row and label. `scores`: out-of-fold. `labels`: those to consider.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.reasons import most_likely_missing
    >>> scores, Y = np.array([[0.9, 0.8], [0.7, 0.6], [0.9, 0.9]]), sparse.csr_array([[1, 0], [0, 1], [0, 0]])
    >>> [part.tolist() for part in most_likely_missing(scores, Y, np.array([0, 1]), 2)]
    [[0, 1], [1, 0]]
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k must be a number of labels (int >= 1), got {k!r}.")
    found: list[tuple[FloatArray, IntArray, IntArray]] = []
    labelled = np.flatnonzero(np.diff(Y.indptr) > 0)
    for start in range(0, len(labelled), _BLOCK_ROWS):
        rows = labelled[start : start + _BLOCK_ROWS]
        free = np.where(Y[rows][:, labels].toarray() > 0, -np.inf, scores[np.ix_(rows, labels)])
        flat = free.ravel()
        n_best = min(k, int(np.isfinite(flat).sum()))
        if n_best:
            least = np.partition(flat, len(flat) - n_best)[len(flat) - n_best]
            best = np.flatnonzero(flat >= least)
            found.append((flat[best], rows[best // len(labels)], labels[best % len(labels)]))
    if not found:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    value, row, label = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((label, row, -value))[:k]
    return row[order], label[order]


@dataclass(frozen=True)
class Twins:
    """Two rows with the same or nearly the same features and different labels.

    Attributes
    ----------
    first, second : int
        Rows, the smaller number first.
    similarity : float
        Cosine of their features; 1 for identical rows.
    only_first, only_second : tuple of int
        Labels that one has and the other lacks.
    """

    first: int
    second: int
    similarity: float
    only_first: tuple[int, ...]
    only_second: tuple[int, ...]


def most_similar(X: Features, rows: IntArray, k: int = 10) -> tuple[IntArray, FloatArray]:
    """Return the `k` rows most similar to each of a few rows, by the cosine of their features.

    Most similar first, equals by row number. `rows`: which rows ask; none of them finds itself.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.reasons import most_similar
    >>> most_similar(np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), np.array([0]), k=1)[0].tolist()
    [[1]]
    """
    k = min(k, X.shape[0] - 1)
    asking = scaled(X[rows], "unit")
    best = np.full((len(rows), k), -np.inf)
    found = np.full((len(rows), k), -1)
    for first in range(0, X.shape[0], _COMPARED_ROWS) if k else ():
        block = scaled(X[first : first + _COMPARED_ROWS], "unit")
        for start in range(0, len(rows), _ASKING_ROWS):
            cosine = asking[start : start + _ASKING_ROWS] @ block.T
            for i in range(cosine.shape[0]):
                value, number = _candidates(cosine, i, k)
                number = number + first
                other = number != rows[start + i]
                best[start + i], found[start + i] = _highest(
                    np.append(best[start + i], value[other]), np.append(found[start + i], number[other]), k
                )
    return found, best


def _candidates(cosine: Any, i: int, k: int) -> tuple[FloatArray, IntArray]:
    """Return the entries of a row, and their columns; of a sparse row the positive ones, if there are enough."""
    if not sparse.issparse(cosine):
        return cosine[i], np.arange(cosine.shape[1])
    part = slice(cosine.indptr[i], cosine.indptr[i + 1])
    value, column = cosine.data[part], cosine.indices[part]
    positive = value > 0
    if positive.sum() > k:
        return value[positive], column[positive]
    line = np.zeros(cosine.shape[1], dtype=value.dtype)
    line[column] = value
    return line, np.arange(len(line))


def _highest(value: FloatArray, number: IntArray, k: int) -> tuple[FloatArray, IntArray]:
    """Return the `k` highest values and their numbers, the highest first, equals by number."""
    if len(value) > k:
        kept = value >= np.partition(value, len(value) - k)[len(value) - k]
        value, number = value[kept], number[kept]
    order = np.lexsort((number, -value))[:k]
    return value[order], number[order]


def twins_that_differ(X: Features, Y: CSR) -> list[Twins]:
    """Find rows with the same or nearly the same features but different labels; many alike give a chain of pairs.

    At most `TWINS_LIMIT` pairs of rows with candidates `Y`: identical rows first, then by similarity. A pair that is
    merely near may be missed, as random directions bring near rows together; identical rows never are.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.reasons import twins_that_differ
    >>> X = np.array([[1.0, 2.0], [0.0, 5.0], [1.0, 2.0]])
    >>> twins_that_differ(X, sparse.csr_array([[1, 0], [1, 0], [1, 1]]))
    [Twins(first=0, second=2, similarity=1.0, only_first=(), only_second=(1,))]
    """
    unit = scaled(X, "unit")
    filled = np.flatnonzero(np.asarray(abs(unit).sum(axis=1)).ravel() > 0)
    pairs: dict[tuple[int, int], float] = {}
    hashes = row_hash(X)
    for i, j in _chains(hashes, filled):
        pairs[i, j] = 1.0
    for signature in _signatures(unit):
        near = np.array([pair for pair in _chains(signature, filled) if pair not in pairs], dtype=np.int64)
        if not len(near):
            continue
        for (i, j), cosine in zip(near.tolist(), _cosines(unit, near), strict=True):
            if cosine >= _SAME:
                pairs[i, j] = 1.0 if hashes[i] == hashes[j] else min(float(cosine), 1.0)
    labels = [frozenset(part.tolist()) for part in np.split(Y.indices, Y.indptr[1:-1])]
    ordered = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    twins = (
        Twins(i, j, similarity, tuple(sorted(labels[i] - labels[j])), tuple(sorted(labels[j] - labels[i])))
        for (i, j), similarity in ordered
        # A row without candidates is unlabelled: it contradicts no other row.
        if labels[i] and labels[j] and labels[i] != labels[j]
    )
    return [twin for _, twin in zip(range(TWINS_LIMIT), twins, strict=False)]


def _chains(keys: IntArray, rows: IntArray) -> Iterator[tuple[int, int]]:
    """Yield neighbours in the order of rows with equal keys."""
    order = rows[np.argsort(keys[rows], kind="stable")]
    same = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
    yield from zip(order[same].tolist(), order[same + 1].tolist(), strict=True)


def _signatures(unit: Features) -> Iterator[IntArray]:
    """Yield hash keys that near rows are likely to share: the signs of random projections."""
    rng = generator(0)
    weight = 1 << np.arange(_BITS)
    for _ in range(_N_BANDS):
        direction = rng.standard_normal((unit.shape[1], _BITS)).astype(unit.dtype)
        yield np.asarray(((unit @ direction) > 0) @ weight)


def _cosines(unit: Features, pairs: IntArray) -> FloatArray:
    values = []
    for start, stop in pairwise([*range(0, len(pairs), _COMPARED_ROWS), len(pairs)]):
        a, b = unit[pairs[start:stop, 0]], unit[pairs[start:stop, 1]]
        values.append(np.asarray((a * b).sum(axis=1) if not sparse.issparse(a) else a.multiply(b).sum(axis=1)).ravel())
    return np.concatenate(values)
