"""What depends on the content of rows alone, not on their order or container: folds, and an order of the rows."""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._arrays import row_hash
from pmlkit._typing import CSR, Features, FloatArray, IntArray

RANKED_ROWS = 2**20
"""Rows up to which folds are of equal size. Beyond, the hash alone decides, so that no list of all rows is needed."""

Table = TypeVar("Table", bound=NDArray[Any])

_ODD = np.uint64(0xD6E8FEB86659FD93)
_MOST_TIES = 50  # ties between symmetric rows that are resolved one by one
# Sparse rows with fewer cells than this are made dense (32 megabytes in double precision).
_SMALL = 1 << 22


def content_folds(X: Features, n_folds: int, *, seed: int = 0) -> IntArray:
    """Assign every row to one of `n_folds` folds by a hash of its content.

    Identical rows always share a fold, so no row is scored by a model that was fitted on a duplicate of it;
    reordering the rows reorders the folds with them; sparse and dense rows agree.

    Another seed gives other folds. They are as equal in size as the duplicates allow up to `RANKED_ROWS` rows, and as
    equal as chance beyond. With fewer distinct rows than folds, only as many folds as there are distinct rows are used.
    """
    if X.shape[0] > RANKED_ROWS:
        return folds_by_remainder(X, n_folds, seed=seed)
    return folds_of_hashes(*row_hashes(X, seed=seed), n_folds)


def row_hashes(X: Features, *, seed: int = 0) -> tuple[IntArray, IntArray]:
    """Return the hashes of the rows in double and in single precision."""
    exact, rounded = (row_hash(X, seed=seed, precision=precision) for precision in (np.float64, np.float32))
    return exact, rounded


def folds_by_remainder(X: Features, n_folds: int, *, seed: int = 0) -> IntArray:
    """Assign rows to folds by their own hash alone, in single precision."""
    return (row_hash(X, seed=seed, precision=np.float32) % np.uint64(n_folds)).astype(np.int64)


def folds_of_hashes(exact: IntArray, rounded: IntArray, n_folds: int) -> IntArray:
    """Assign rows to folds of equal size by the hashes of all rows."""
    # In single precision, so that a row gets the same fold in float64 and float32; in double precision where
    # single precision would make different rows identical.
    hashes = rounded if len(np.unique(rounded)) == len(np.unique(exact)) else exact
    keys, group_of, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
    # Groups of identical rows first, largest group first, each into the smallest fold; then the single rows in turn.
    fold_of_key = np.empty(len(keys), dtype=np.int64)
    filled = np.zeros(n_folds, dtype=np.int64)
    for group in np.flatnonzero(sizes > 1)[np.argsort(-sizes[sizes > 1], kind="stable")]:
        fold_of_key[group] = np.argmin(filled)
        filled[fold_of_key[group]] += sizes[group]
    single = np.flatnonzero(sizes == 1)
    fold_of_key[single] = _fill_evenly(filled, len(single))
    return fold_of_key[group_of.ravel()]


def _fill_evenly(filled: IntArray, n_items: int) -> IntArray:
    """Return a fold for each of n items, always the emptiest one."""
    target = -(-(filled.sum() + n_items) // len(filled))
    room = np.maximum(target - filled, 0)
    fold = np.repeat(np.arange(len(filled)), room)
    first_slot = np.repeat(np.cumsum(room) - room, room)
    level = filled[fold] + np.arange(len(fold)) - first_slot
    return fold[np.argsort(level, kind="stable")[:n_items]]


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
    """Order rows and labels by their content; without `reorder`, leave them as they are.

    The result of a support vector machine that stops early, or of a tree that breaks ties, depends on the order of
    its input and on the last bits of its features. A method that solves the canonical problem does not: shuffled
    rows and labels, sparse and dense rows, single and double precision all give the same arrays.

    Rows are sorted by a hash of their features, of their candidates (with sorted indices) and of the other rows with
    these candidates; labels by a hash of the positions of the rows that have them. Only rows (labels) that are
    identical in all this keep their given order.
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
