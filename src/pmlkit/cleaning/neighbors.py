"""Rows that resemble each other: the most similar rows of a few, and all near-duplicates of a table."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from pmlkit._arrays import generator, row_hash
from pmlkit._typing import CSR, Features, FloatArray, IntArray
from pmlkit.numerics.scaling import scaled

__all__ = ["TWINS_LIMIT", "Twins", "most_similar", "twins_that_differ"]

TWINS_LIMIT = 100
"""Pairs of near-duplicates that are looked for; there may be more."""

_BLOCK_ROWS = 50_000
_ASKING_ROWS = 200
_N_BANDS, _BITS = 4, 20
_SAME = 0.98  # cosine from which two rows are near-duplicates


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

    Parameters
    ----------
    X : array or CSR array of shape (n_rows, n_features)
    rows : array of int
        Which rows ask; none of them finds itself.
    k : int, default=10

    Returns
    -------
    neighbor : array of int of shape (len(rows), k)
        Most similar first, equals by row number.
    similarity : array of the same shape

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.neighbors import most_similar
    >>> most_similar(np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), np.array([0]), k=1)[0].tolist()
    [[1]]
    """
    k = min(k, X.shape[0] - 1)
    asking = scaled(X[rows], "unit")
    best = np.full((len(rows), k), -np.inf)
    found = np.full((len(rows), k), -1)
    for first in range(0, X.shape[0], _BLOCK_ROWS) if k else ():
        block = scaled(X[first : first + _BLOCK_ROWS], "unit")
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


def twins_that_differ(X: Features, Y: CSR, *, limit: int = TWINS_LIMIT, random_state: int = 0) -> list[Twins]:
    """Find rows with the same or nearly the same features but different labels.

    Parameters
    ----------
    X : array or CSR array of shape (n_rows, n_features)
    Y : CSR array of shape (n_rows, n_labels)
        Candidates.
    limit : int, default=100
        Pairs to return at the most, identical rows first, then by similarity.
    random_state : int, default=0
        Seed of the random directions by which near rows are brought together. A pair that is merely
        near may be missed; identical rows never are.

    Returns
    -------
    twins : list of Twins
        A group of many identical rows gives a chain of pairs, not all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.neighbors import twins_that_differ
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
    for signature in _signatures(unit, random_state):
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
        # A row without candidates is unlabelled: it contradicts nobody.
        if labels[i] and labels[j] and labels[i] != labels[j]
    )
    return [twin for _, twin in zip(range(limit), twins, strict=False)]


def _chains(keys: IntArray, rows: IntArray) -> Iterator[tuple[int, int]]:
    """Yield neighbours in the order of rows with equal keys."""
    order = rows[np.argsort(keys[rows], kind="stable")]
    same = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
    yield from zip(order[same].tolist(), order[same + 1].tolist(), strict=True)


def _signatures(unit: Features, random_state: int) -> Iterator[IntArray]:
    """Yield hash keys that near rows are likely to share: the signs of random projections."""
    rng = generator(random_state)
    weight = 1 << np.arange(_BITS)
    for _ in range(_N_BANDS):
        direction = rng.standard_normal((unit.shape[1], _BITS)).astype(unit.dtype)
        yield np.asarray(((unit @ direction) > 0) @ weight)


def _cosines(unit: Features, pairs: IntArray) -> FloatArray:
    values = []
    for start, stop in pairwise([*range(0, len(pairs), _BLOCK_ROWS), len(pairs)]):
        a, b = unit[pairs[start:stop, 0]], unit[pairs[start:stop, 1]]
        values.append(np.asarray((a * b).sum(axis=1) if not sparse.issparse(a) else a.multiply(b).sum(axis=1)).ravel())
    return np.concatenate(values)
