"""Cross-validation folds by the content of the rows, independent of their order and of their blocks."""

import numpy as np

from pmlkit._arrays import row_hash
from pmlkit._typing import Features, IntArray

RANKED_ROWS = 2**20
"""Rows up to which folds are of equal size. Beyond, the hash alone decides, so that no list of all rows is needed."""


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
