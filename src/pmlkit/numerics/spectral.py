"""Gram matrices and their eigenvectors: coordinates in which least squares is a scaling.

With ``X'X = B diag(squared) B'`` a ridge system is diagonal in the coordinates ``C = B'W``, and the Frobenius and
nuclear norms of W and C are equal. Only the smaller of ``X'X`` and ``XX'`` is ever formed, and sparse rows stay sparse.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from pmlkit._typing import CSR, Features, FloatArray, IntArray
from pmlkit.numerics.products import as_dense

_NULL = 20 * float(np.finfo(np.float64).eps)
"""Times the size of a matrix: eigenvalues below this share of the largest are rounding errors."""
_MAX_SIDE = 15_000
"""Largest Gram matrix that is formed (1.8 GB)."""
_MAX_CENTERED_SIDE = 2500
"""Largest Gram matrix that `centered_rows` diagonalises; beyond, its users are faster without."""
_DENSE_PAYS = 1 / 30
"""Share of non-zero cells from which a dense product is as fast as a sparse one."""
_MAX_CELLS = 10_000_000
"""Sparse rows are not made dense beyond this size."""


@dataclass(frozen=True)
class ShiftedRows:
    """Sparse rows that all have the same dense row added, ``X + 1 shift'``, without making them dense.

    Supports the products that :class:`ThinSVD` needs: ``rows @ M``, ``rows.T @ M`` and Gram matrices.
    """

    X: CSR
    shift: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and features."""
        n_samples, n_features = self.X.shape
        return n_samples, n_features

    @cached_property
    def T(self) -> "_ShiftedColumns":
        """The transpose, for products only."""
        return _ShiftedColumns(self.X.T.tocsr(), self.shift)

    def __matmul__(self, M: FloatArray) -> FloatArray:
        return np.asarray(self.X @ M + self.shift @ M)

    def gram(self, *, of_rows: bool) -> FloatArray:
        """Return the inner products of the rows, or of the columns."""
        if of_rows:
            along = self.X @ self.shift
            return np.asarray((self.X @ self.X.T).toarray() + along[:, None] + along + self.shift @ self.shift)
        cross = np.outer(self.X.sum(axis=0), self.shift)
        shifts = self.shape[0] * np.outer(self.shift, self.shift)
        return np.asarray((self.X.T @ self.X).toarray() + cross + cross.T + shifts)


@dataclass(frozen=True)
class _ShiftedColumns:
    XT: CSR
    shift: FloatArray

    def __matmul__(self, M: FloatArray) -> FloatArray:
        return np.asarray(self.XT @ M + np.multiply.outer(self.shift, M.sum(axis=0)))


def add_constant_column(X: Features) -> Any:
    """Return X with a last column of ones, sparse if X is."""
    ones = np.ones((X.shape[0], 1))
    if sparse.issparse(X):
        return sparse.csr_array(sparse.hstack([X, sparse.csr_array(ones)], format="csr"))
    return np.hstack([X, ones])


def smaller_gram(X: Any) -> FloatArray:
    """Return ``XX'`` where there are fewer rows than features, else ``X'X``, as a dense array."""
    n_samples, n_features = X.shape
    of_rows = n_samples < n_features
    if min(n_samples, n_features) > _MAX_SIDE:
        raise ValueError(
            f"X has {n_samples} rows and {n_features} features: this method needs the smaller of the two Gram "
            f"matrices, which may have at most {_MAX_SIDE} rows. Reduce the features first, for instance with "
            "sklearn.decomposition.TruncatedSVD in a Pipeline."
        )
    if isinstance(X, ShiftedRows):
        return X.gram(of_rows=of_rows)
    return np.asarray(as_dense(X @ X.T if of_rows else X.T @ X), dtype=np.float64)


def eigenpairs(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues, smallest first, and eigenvectors of a Gram matrix, without those that are only rounding."""
    # numpy's, not scipy's: it releases the interpreter's lock, so that other threads can run meanwhile.
    values, vectors = np.linalg.eigh(gram)
    first = int(np.searchsorted(values, _NULL * len(values) * max(float(values[-1]), 0.0), side="right"))
    return values[first:], vectors[:, first:]


class ThinSVD:
    """The thin singular value decomposition of X, applied without forming more of it than needed.

    With ``X = A diag(sqrt(squared)) B'`` of rank r, `coordinates` C of shape (r, n_labels) stand for the coefficients
    ``W = B C``.

    `squared` (r,): the squared singular values of X, smallest first, without those that are only rounding.
    """

    def __init__(self, X: Any) -> None:
        self.squared, self._vectors = eigenpairs(smaller_gram(X))
        self._X = X
        self._wide = X.shape[0] < X.shape[1]

    @cached_property
    def rotated(self) -> FloatArray:
        """``X B``, dense."""
        if self._wide:
            return np.asarray(self._vectors * np.sqrt(self.squared))
        return np.asarray(self._X @ self._vectors)

    @property
    def right(self) -> FloatArray:
        """The right singular vectors B."""
        return np.asarray(self._X.T @ (self._vectors / np.sqrt(self.squared))) if self._wide else self._vectors

    @property
    def _rotated_is_small(self) -> bool:
        """Whether `rotated` takes no more memory than X; it saves a product each time."""
        return self._wide or isinstance(self._X, np.ndarray)

    def scores(self, coordinates: FloatArray) -> FloatArray:
        """Return ``X W`` of the coefficients ``W = B C``."""
        if self._rotated_is_small:
            return np.asarray(self.rotated @ coordinates)
        return np.asarray(self._X @ (self._vectors @ coordinates))

    def project(self, U: FloatArray) -> FloatArray:
        """Return ``B' X' U``."""
        if self._rotated_is_small:
            return np.asarray(self.rotated.T @ U)
        return np.asarray(self._vectors.T @ (self._X.T @ U))

    def coefficients(self, coordinates: FloatArray) -> FloatArray:
        """Return ``W = B C``."""
        if self._wide:
            return np.asarray(self._X.T @ (self._vectors @ (coordinates / np.sqrt(self.squared)[:, None])))
        return np.asarray(self._vectors @ coordinates)

    def solve_ridge(self, rhs: FloatArray, penalty: float) -> FloatArray:
        """Return ``(X'X + penalty I)^-1 rhs``, for any positive penalty."""
        if self._wide:
            inner = self._vectors @ ((self._vectors.T @ (self._X @ rhs)) / (self.squared + penalty)[:, None])
            return np.asarray((rhs - self._X.T @ inner) / penalty)
        shrink = self.squared / (self.squared + penalty)
        return np.asarray((rhs - self._vectors @ (shrink[:, None] * (self._vectors.T @ rhs))) / penalty)


@dataclass(frozen=True)
class CenteredRows:
    """Rows minus their mean, in orthogonal coordinates where these are cheap to compute.

    Centring does not change a linear model with an unpenalised intercept, and a rotation does not change a Euclidean
    penalty; both improve the condition number that a solver meets.

    - `rows` (n_samples, n_axes): supports ``rows @ M`` and ``rows.T @ M``.
    - `squared` (n_axes,): sums of squares of the columns of `rows`.
    - `mean` (n_features,): mean of the given rows.
    - `basis` (n_features, n_axes): the axes; None where they are the given ones.
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
        """Return the same linear model for the rows as they were given."""
        if self.basis is not None:
            coef = np.asarray(self.basis @ coef)
        return coef, np.asarray(intercept - self.mean @ coef)


def centered_rows(X: Features) -> CenteredRows:
    """Centre rows, and rotate them to the eigenvectors of their Gram matrix unless that is large.

    Sparse rows stay sparse, with the mean subtracted in products only, unless they are so small and dense that
    products with the rotated rows cost no more.
    """
    X = X.astype(np.float64, copy=False)
    mean = np.asarray(X.mean(axis=0))
    if sparse.issparse(X) and not _rotating_pays(X):
        squared = np.asarray(X.multiply(X).sum(axis=0)) - X.shape[0] * mean**2
        return CenteredRows(ShiftedRows(X, -mean), np.maximum(squared, 0.0), mean, None)
    rows = (X.toarray() if sparse.issparse(X) else X) - mean
    if min(rows.shape) > _MAX_CENTERED_SIDE:
        return CenteredRows(rows, np.einsum("ij,ij->j", rows, rows), mean, None)
    svd = ThinSVD(rows)
    return CenteredRows(svd.rotated, svd.squared, mean, svd.right)


def _rotating_pays(X: CSR) -> bool:
    n_cells = X.shape[0] * min(X.shape)
    return min(X.shape) <= _MAX_CENTERED_SIDE and n_cells <= _MAX_CELLS and bool(X.nnz >= _DENSE_PAYS * n_cells)


def spectral_norm(A: FloatArray) -> float:
    """Return the largest singular value, from the smaller Gram matrix."""
    gram = A @ A.T if A.shape[0] < A.shape[1] else A.T @ A
    last = len(gram) - 1
    if last < 0:
        return 0.0
    largest = linalg.eigvalsh(gram, subset_by_index=(last, last), driver="evr", check_finite=False)[0]
    return float(np.sqrt(max(largest, 0.0)))
