"""Centred features for linear models with a free intercept, turned to their own axes where that is cheap."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse

from pmlkit._typing import CSR, Features, FloatArray, IntArray
from pmlkit.numerics.spectral import ShiftedRows, smaller_gram

__all__ = ["CenteredRows", "centered_rows"]

_MAX_SIDE = 2500  # Gram matrices up to this size are diagonalised
_DENSE_PAYS = 1 / 30  # share of non-zero cells from which on a dense product is as fast as a sparse one
_MAX_CELLS = 10_000_000  # sparse rows are not made dense beyond this size
_NULL = 1e-12  # share of the largest eigenvalue below which a direction is rounding noise


@dataclass(frozen=True)
class CenteredRows:
    """Rows minus their mean, in coordinates whose axes are orthogonal or at least cheap.

    An intercept without a penalty does not notice that rows are centred, and a Euclidean
    penalty does not notice a rotation; a solver notices both, by its condition number.

    Attributes
    ----------
    rows : array or ShiftedRows of shape (n_rows, n_axes)
        Knows ``rows @ M`` and ``rows.T @ M``.
    squared : array of shape (n_axes,)
        Sums of squares of the columns of `rows`.
    mean : array of shape (n_features,)
        Mean of the given rows.
    basis : array of shape (n_features, n_axes) or None
        The axes; None where they are the given ones.
    """

    rows: Any
    squared: FloatArray
    mean: FloatArray
    basis: FloatArray | None

    def take(self, chosen: IntArray) -> Any:
        """Return some of the rows."""
        if isinstance(self.rows, ShiftedRows):
            return ShiftedRows(self.rows.X[chosen], self.rows.shift)
        return self.rows[chosen]

    def as_given(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the same linear model for the rows as they were given.

        Parameters
        ----------
        coef : array of shape (n_axes, n_labels)
        intercept : array of shape (n_labels,)

        Returns
        -------
        coef : array of shape (n_features, n_labels)
        intercept : array of shape (n_labels,)
        """
        if self.basis is not None:
            coef = np.asarray(self.basis @ coef)
        return coef, np.asarray(intercept - self.mean @ coef)


def centered_rows(X: Features) -> CenteredRows:
    """Centre rows, and turn them to the eigenvectors of their Gram matrix unless that is large.

    Sparse rows stay as they are, with the mean subtracted from products only, unless they are so
    small and full that products with the turned rows cost no more.

    Parameters
    ----------
    X : dense array or CSR array of shape (n_rows, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.numerics.centered import centered_rows
    >>> centered = centered_rows(np.array([[1.0, 5.0, 2.0], [3.0, 5.0, 2.0]]))
    >>> centered.rows.shape, centered.squared
    ((2, 1), array([2.]))
    """
    X = X.astype(np.float64, copy=False)
    mean = np.asarray(X.mean(axis=0))
    if sparse.issparse(X) and not _turning_pays(X):
        squared = np.asarray(X.multiply(X).sum(axis=0)) - X.shape[0] * mean**2
        return CenteredRows(ShiftedRows(X, -mean), np.maximum(squared, 0.0), mean, None)
    rows = (X.toarray() if sparse.issparse(X) else X) - mean
    if min(rows.shape) > _MAX_SIDE:
        return CenteredRows(rows, np.einsum("ij,ij->j", rows, rows), mean, None)
    squared, vectors = linalg.eigh(smaller_gram(rows), check_finite=False)
    kept = squared > _NULL * max(squared[-1], np.finfo(float).tiny)
    squared, vectors = squared[kept], vectors[:, kept]
    if rows.shape[0] < rows.shape[1]:
        basis = rows.T @ (vectors / np.sqrt(squared))
        return CenteredRows(vectors * np.sqrt(squared), squared, mean, basis)
    return CenteredRows(rows @ vectors, squared, mean, vectors)


def _turning_pays(X: CSR) -> bool:
    n_cells = X.shape[0] * min(X.shape)
    return min(X.shape) <= _MAX_SIDE and n_cells <= _MAX_CELLS and bool(X.nnz >= _DENSE_PAYS * n_cells)
