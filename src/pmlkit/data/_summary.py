"""Counts over the rows and columns of a feature table, the same for dense and CSR."""

import numpy as np
from scipy import sparse

from pmlkit._arrays import row_hash
from pmlkit._typing import Features

__all__ = ["count_constant_features", "count_duplicate_rows"]


def count_duplicate_rows(X: Features) -> int:
    """Return how many rows repeat an earlier row (by a 64-bit hash of the row)."""
    if X.shape[1] == 0:
        return 0
    return int(X.shape[0] - len(np.unique(row_hash(X))))


def count_constant_features(X: Features) -> int:
    """Return how many columns hold one value only; needs no memory for columns without stored values."""
    n_samples, n_features = X.shape
    if not sparse.issparse(X):
        return int((X.min(axis=0) == X.max(axis=0)).sum()) if n_features else 0
    used, counts = np.unique(X.indices, return_counts=True)
    full = used[counts == n_samples]
    # A column with values in some rows only is not constant; one with values in all may be.
    values = X[:, full].data.reshape(n_samples, len(full))
    return int(n_features - len(used) + (values.min(axis=0) == values.max(axis=0)).sum())
