"""Canonical ordering of rows and labels, so that results do not depend on input order or container."""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._arrays import row_hash
from pmlkit._typing import CSR, Features, FloatArray, IntArray

Table = TypeVar("Table", bound=NDArray[Any])

_ODD = np.uint64(0xD6E8FEB86659FD93)
_MOST_TIES = 50  # ties between symmetric rows that are resolved one by one
# Sparse rows with fewer cells than this are made dense (32 megabytes in double precision).
_SMALL = 1 << 22


@dataclass(frozen=True)
class CanonicalProblem:
    """Rows and candidates in canonical order, and the mapping back to the given order.

    `rows` (n_samples,): original position of each row. `labels` (n_labels,): original position of each label. `cells`
    (n_cells,): original position of each candidate in ``Y.data``.
    """

    X: Features
    Y: CSR
    rows: IntArray
    labels: IntArray
    cells: IntArray

    def cells_as_given(self, values: FloatArray) -> FloatArray:
        """Return values aligned with the given ``Y.data``."""
        given = np.empty_like(values)
        given[self.cells] = values
        return given

    def table_as_given(self, table: Table) -> Table:
        """Return an array of shape (n_samples, n_labels) in the given order."""
        given: Table = np.empty_like(table)
        given[np.ix_(self.rows, self.labels)] = table
        return given


def canonical_problem(X: Features, Y: CSR, *, reorder: bool = True) -> CanonicalProblem:
    """Order rows and labels by their content.

    The result of a support vector machine that stops early, or of a tree that breaks ties, depends on the order of
    its input and on the last bits of its features. A method that solves the canonical problem does not: shuffled
    rows and labels, sparse and dense rows, single and double precision all give the same arrays.

    `Y` (n_samples, n_labels): candidates, with sorted indices. `reorder`: false leaves rows and labels as they are.

    Notes
    -----
    Rows are sorted by a hash of their features, of their candidates and of the other rows with these
    candidates; labels by a hash of the positions of the rows that have them. Only rows (labels) that
    are identical in all this keep their given order.
    """
    rows, labels = _content_order(X, Y) if reorder else (np.arange(Y.shape[0]), np.arange(Y.shape[1]))
    # Counted from one: a stored zero may be dropped when columns are selected.
    counted = sparse.csr_array((np.arange(1, Y.nnz + 1), Y.indices, Y.indptr), Y.shape)[rows][:, labels]
    counted.sort_indices()
    ordered = sparse.csr_array((np.ones(Y.nnz), counted.indices, counted.indptr), Y.shape)
    return CanonicalProblem(plain_rows(X)[rows], ordered, rows, labels, counted.data - 1)


def plain_rows(X: Features, *, dense: bool = False) -> Any:
    """Return rows in double precision, dense where they are small or where `dense` asks for it."""
    if sparse.issparse(X) and (dense or X.shape[0] * X.shape[1] <= _SMALL):
        X = X.toarray()
    return X.astype(np.float64, copy=False)


def _content_order(X: Features, Y: CSR) -> tuple[IntArray, IntArray]:
    columns = sparse.csc_array(Y)
    row_key = _refined(_mixed(row_hash(X, precision=np.float32)), Y, columns)
    own_labels = _sums(_mixed(Y.indices.astype(np.uint64)), Y.indptr)
    for _ in range(_MOST_TIES):
        tied = _tied_row(row_key, own_labels)
        if tied is None:
            break
        # Identical rows whose labels are symmetric: either may come first, and the order of the others follows.
        row_key[tied] += np.uint64(1)
        row_key = _refined(row_key, Y, columns)
    rows = np.argsort(row_key, kind="stable")
    place = np.empty(len(rows), dtype=np.uint64)
    place[rows] = np.arange(len(rows), dtype=np.uint64)
    labels = np.argsort(_sums(_mixed(place)[columns.indices], columns.indptr), kind="stable")
    return rows, labels


def _refined(row_key: NDArray[np.uint64], Y: CSR, columns: CSR) -> NDArray[np.uint64]:
    """Run two rounds of Weisfeiler-Lehman refinement between row and label hashes.

    Identical rows with different labels thereby get different keys.
    """
    for _ in range(2):
        label_key = _mixed(_sums(row_key[columns.indices], columns.indptr))
        row_key = _mixed(row_key + _sums(label_key[Y.indices], Y.indptr))
    return row_key


def _tied_row(row_key: NDArray[np.uint64], own_labels: NDArray[np.uint64]) -> int | None:
    """Return a row that has the same key as another row with different labels, or None."""
    order = np.lexsort((own_labels, row_key))
    same = (row_key[order][1:] == row_key[order][:-1]) & (own_labels[order][1:] != own_labels[order][:-1])
    return int(order[np.argmax(same)]) if same.any() else None


def _mixed(key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of hashes, so that sums of them rarely collide."""
    with np.errstate(over="ignore"):
        key = (key + _ODD) * _ODD
        return np.asarray((key ^ (key >> np.uint64(31))) * _ODD)


def _sums(values: NDArray[np.uint64], indptr: IntArray) -> NDArray[np.uint64]:
    """Return the sums of the segments given by `indptr`, modulo 2**64."""
    total = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(values, dtype=np.uint64)])
    return np.asarray(total[indptr[1:]] - total[indptr[:-1]])
