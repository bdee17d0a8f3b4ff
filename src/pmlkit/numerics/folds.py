"""Folds decided by what the rows contain, not by where they stand."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._typing import Features, IntArray

__all__ = ["content_folds"]

# Odd 64-bit constants of a multiplicative hash; any odd numbers with well-mixed bits do.
_MIX = np.uint64(0x9E3779B97F4A7C15)
_STIR = np.uint64(0xBF58476D1CE4E5B9)


def content_folds(X: Features, n_folds: int, *, seed: int = 0) -> IntArray:
    """Assign every row to one of `n_folds` folds by a hash of its content.

    Identical rows always share a fold, so no row is judged by a model that saw its twin;
    reordering the rows reorders the folds with them; sparse and dense rows agree.

    Parameters
    ----------
    X : dense array or CSR array of shape (n_rows, n_features)
    n_folds : int
    seed : int, default=0
        Another seed gives other folds.

    Returns
    -------
    fold : array of int of shape (n_rows,)
        Folds are as equal in size as the twins allow. With fewer distinct rows than
        folds, only as many folds as there are distinct rows are used.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.numerics.folds import content_folds
    >>> fold = content_folds(np.array([[1.0], [2.0], [1.0], [3.0]]), 3)
    >>> bool(fold[0] == fold[2]), sorted(set(fold.tolist()))
    (True, [0, 1, 2])
    """
    keys, twin_of, sizes = np.unique(_row_hash(X, seed), return_inverse=True, return_counts=True)
    # Rows with a twin first, largest group first, each into the smallest fold; the rest, all alike, in turn.
    fold_of_key = np.empty(len(keys), dtype=np.int64)
    filled = np.zeros(n_folds, dtype=np.int64)
    for group in np.flatnonzero(sizes > 1)[np.argsort(-sizes[sizes > 1], kind="stable")]:
        fold_of_key[group] = np.argmin(filled)
        filled[fold_of_key[group]] += sizes[group]
    single = np.flatnonzero(sizes == 1)
    fold_of_key[single] = _fill_evenly(filled, len(single))
    return fold_of_key[twin_of.ravel()]


def _fill_evenly(filled: IntArray, n_items: int) -> IntArray:
    """Return a fold for each of n items, always the emptiest one."""
    target = -(-(filled.sum() + n_items) // len(filled))
    room = np.maximum(target - filled, 0)
    fold = np.repeat(np.arange(len(filled)), room)
    first_slot = np.repeat(np.cumsum(room) - room, room)
    level = filled[fold] + np.arange(len(fold)) - first_slot
    return fold[np.argsort(level, kind="stable")[:n_items]]


def _row_hash(X: Features, seed: int) -> NDArray[np.uint64]:
    """Hash rows by a sum over their non-zero cells, which no order or storage can change."""
    rows = sparse.csr_array(X)
    # float32 bits: the same row in float64 and float32 must land in the same fold.
    values = rows.data.astype(np.float32)
    bits = (values + np.float32(0.0)).view(np.uint32).astype(np.uint64)
    with np.errstate(over="ignore"):
        cell = (rows.indices.astype(np.uint64) + np.uint64(seed + 1)) * _MIX
        cell = (cell ^ (bits + (cell >> np.uint64(29)))) * _STIR
        cell ^= cell >> np.uint64(32)
        cell = np.where(values == 0, np.uint64(0), cell * _MIX)
        total = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(cell, dtype=np.uint64)])
        return np.asarray(total[rows.indptr[1:]] - total[rows.indptr[:-1]])
