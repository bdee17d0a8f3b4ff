"""Scaling of features, without making sparse matrices dense."""

from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.sparsefuncs_fast import inplace_csr_row_normalize_l2

from pmlkit._typing import Features, FloatArray

Normalize = Literal["unit", "standard"] | None


def column_scale(X: Features, *, sample_weight: FloatArray | None = None) -> FloatArray:
    """Return each column's standard deviation, with 1 for constant columns."""
    return scale_of_moments(*column_moments(X, sample_weight=sample_weight), X.shape[0])


def column_moments(X: Features, *, sample_weight: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Return each column's mean and variance."""
    if sparse.issparse(X):
        mean, variance = mean_variance_axis(X, axis=0, weights=sample_weight)
        return mean, variance
    mean = np.average(X, axis=0, weights=sample_weight)
    squares = X - mean
    return mean, np.average(np.square(squares, out=squares), axis=0, weights=sample_weight)


def merge_moments(
    first: tuple[int, FloatArray, FloatArray], second: tuple[int, FloatArray, FloatArray]
) -> tuple[int, FloatArray, FloatArray]:
    """Return the number, the mean and the variance of two groups of rows together."""
    if not (first[0] and second[0]):
        return first if first[0] else second
    n = first[0] + second[0]
    one, other = first[0] / n, second[0] / n
    shift = second[1] - first[1]
    return n, first[1] + other * shift, one * first[2] + other * second[2] + one * other * shift**2


def scale_of_moments(mean: FloatArray, variance: FloatArray, n_rows: int) -> FloatArray:
    """Return standard deviations, with 1 for constant columns."""
    # A constant column has a variance of rounding noise: dividing by it would amplify that noise.
    noise = n_rows * np.finfo(variance.dtype).eps
    constant = variance <= noise * variance + (noise * mean) ** 2
    return np.where(constant, 1.0, np.sqrt(variance)).astype(variance.dtype, copy=False)


def scaled(X: Features, normalize: Normalize, scale: FloatArray | None = None) -> Any:
    """Return X with unit rows, with columns divided by `scale`, or as it is.

    Columns are divided but never centred, so that sparse and dense rows give the same
    answer; an intercept takes care of the mean. Rows of zeros stay zero.

    `scale` (n_features,): what `column_scale` gave for the training rows; needed for ``"standard"``.
    """
    if normalize == "unit":
        return _unit_rows(X)
    if normalize == "standard":
        if scale is None:
            raise ValueError('normalize="standard" needs the column scale of the training rows.')
        return sparse.csr_array(X @ sparse.diags_array(1.0 / scale)) if sparse.issparse(X) else X / scale
    return X


def _unit_rows(X: Features) -> Any:
    """Return rows of unit length, however small or large they are."""
    # Copies of rows are saved where they can be: they are what takes memory.
    peak = abs(X).max(axis=1).toarray().ravel() if sparse.issparse(X) else np.maximum(X.max(axis=1), -X.min(axis=1))
    # Divide by the largest entry first: squares of very small or large entries would under- or overflow.
    down = 1.0 / np.where(peak > 0, peak, 1.0).astype(np.float64)
    # As sklearn.preprocessing.normalize divides, without its checks: they take longer than the division of few rows.
    if sparse.issparse(X):
        data = (X.data * np.repeat(down, np.diff(X.indptr))).astype(X.dtype, copy=False)
        levelled = sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)
        inplace_csr_row_normalize_l2(levelled)
        return levelled
    levelled = (X * down[:, None]).astype(X.dtype, copy=False)
    length = np.sqrt(np.einsum("ij,ij->i", levelled, levelled))
    levelled /= np.where(length > 0, length, 1.0)[:, None]
    return levelled
