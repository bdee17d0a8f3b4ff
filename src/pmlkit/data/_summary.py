"""Counts over the rows and columns of a feature table, the same for dense and CSR."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._typing import Features

__all__ = ["count_constant_features", "count_duplicate_rows"]

_BLOCK_CELLS = 2**20


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit words (the splitmix64 finaliser): every input bit moves every output bit."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))


def _cell_hashes(values: NDArray[Any], columns: NDArray[Any]) -> NDArray[np.uint64]:
    """Hash of each non-zero cell from its value and its column; zero for a zero cell."""
    value_bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    column_bits = (columns.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return np.where(values == 0, np.uint64(0), _mix(_mix(value_bits) + column_bits))


def _row_hashes(X: Features) -> NDArray[np.uint64]:
    """Sum of the cell hashes of each row, modulo 2**64: equal rows have equal sums, dense or sparse."""
    n_rows, n_features = X.shape
    hashes = np.zeros(n_rows, dtype=np.uint64)
    step = max(1, _BLOCK_CELLS // max(1, n_features if not sparse.issparse(X) else X.nnz // n_rows + 1))
    for start in range(0, n_rows, step):
        block = X[start : start + step]
        if sparse.issparse(block):
            # A running total minus itself is exact in modular arithmetic, and copes with empty rows.
            total = np.concatenate([[np.uint64(0)], np.cumsum(_cell_hashes(block.data, block.indices))])
            hashes[start : start + step] = np.diff(total[block.indptr])
        else:
            hashes[start : start + step] = _cell_hashes(block, np.arange(n_features)).sum(axis=1, dtype=np.uint64)
    return hashes


def count_duplicate_rows(X: Features) -> int:
    """Return how many rows repeat an earlier row (by a 64-bit hash of the row)."""
    if X.shape[1] == 0:
        return 0
    return int(X.shape[0] - len(np.unique(_row_hashes(X))))


def count_constant_features(X: Features) -> int:
    """Return how many columns hold one value only; needs no memory for columns without stored values."""
    n_rows, n_features = X.shape
    if not sparse.issparse(X):
        return int((X.min(axis=0) == X.max(axis=0)).sum()) if n_features else 0
    used, counts = np.unique(X.indices, return_counts=True)
    full = used[counts == n_rows]
    # A column with values in some rows only is not constant; one with values in all may be.
    values = X[:, full].data.reshape(n_rows, len(full))
    return int(n_features - len(used) + (values.min(axis=0) == values.max(axis=0)).sum())
