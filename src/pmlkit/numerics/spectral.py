"""Features turned to their own axes: one diagonalisation, then every ridge solve is a scaling.

With ``X'X = B diag(squared) B'`` a ridge system is diagonal in the coordinates ``C = B'W``, and
the Frobenius and nuclear norms do not notice the turn. Only the smaller of ``X'X`` and ``XX'``
is ever made, and sparse rows stay sparse.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from pmlkit._typing import CSR, Features, FloatArray
from pmlkit.numerics.products import as_dense

__all__ = ["Rotation", "ShiftedRows", "add_constant_column", "smaller_gram", "spectral_norm"]

# Directions with less than this share of the largest eigenvalue cannot be told from rounding.
_NULL = 1e-11
_MAX_SIDE = 15_000


@dataclass(frozen=True)
class ShiftedRows:
    """Sparse rows that all have the same dense row added: ``X + 1 shift'``, never made dense.

    It knows the products that :class:`Rotation` needs: ``rows @ M``, ``rows.T @ M`` and Grams.

    Parameters
    ----------
    X : CSR array of shape (n_rows, n_features)
    shift : array of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.numerics.spectral import ShiftedRows
    >>> rows = ShiftedRows(sparse.csr_array(np.eye(2)), np.array([1.0, 2.0]))
    >>> rows @ np.eye(2)
    array([[2., 2.],
           [1., 3.]])
    """

    X: CSR
    shift: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and features."""
        n_rows, n_features = self.X.shape
        return n_rows, n_features

    @cached_property
    def T(self) -> "_ShiftedColumns":
        """The transpose, good for products only."""
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
    """Return X with a last column of ones, sparse if X is.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.numerics.spectral import add_constant_column
    >>> add_constant_column(np.array([[2.0], [3.0]]))
    array([[2., 1.],
           [3., 1.]])
    """
    ones = np.ones((X.shape[0], 1))
    if sparse.issparse(X):
        return sparse.csr_array(sparse.hstack([X, sparse.csr_array(ones)], format="csr"))
    return np.hstack([X, ones])


def smaller_gram(X: Any) -> FloatArray:
    """Return ``XX'`` where there are fewer rows than features, else ``X'X``, as a dense array.

    Parameters
    ----------
    X : dense array, CSR array or ShiftedRows of shape (n_rows, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.numerics.spectral import smaller_gram
    >>> smaller_gram(np.array([[3.0, 4.0]]))
    array([[25.]])
    """
    n_rows, n_features = X.shape
    of_rows = n_rows < n_features
    if min(n_rows, n_features) > _MAX_SIDE:
        raise ValueError(
            f"X has {n_rows} rows and {n_features} features: this method diagonalises the smaller of the two Gram "
            f"matrices, which may have at most {_MAX_SIDE} rows. Reduce the features first, for instance with "
            "sklearn.decomposition.TruncatedSVD in a Pipeline."
        )
    if isinstance(X, ShiftedRows):
        return X.gram(of_rows=of_rows)
    return np.asarray(as_dense(X @ X.T if of_rows else X.T @ X), dtype=np.float64)


class Rotation:
    """The thin singular value decomposition of X, applied without ever forming more than needed.

    Writing ``X = A diag(sqrt(squared)) B'`` with rank r: `coordinates` C (r x q) stand for the
    coefficients ``W = B C``.

    Parameters
    ----------
    X : dense array, CSR array or ShiftedRows of shape (n_rows, n_features)

    Attributes
    ----------
    squared : array of shape (r,)
        The squared singular values of X, smallest first, without those that are nothing but
        rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.numerics.spectral import Rotation
    >>> X = np.array([[3.0, 0.0], [4.0, 0.0], [0.0, 2.0]])
    >>> Rotation(X).squared
    array([ 4., 25.])
    """

    def __init__(self, X: Any) -> None:
        squared, vectors = linalg.eigh(smaller_gram(X), driver="evd", overwrite_a=True, check_finite=False)
        kept = squared > _NULL * max(squared[-1], 0.0)
        self.squared: FloatArray = squared[kept]
        self._X = X
        self._wide = X.shape[0] < X.shape[1]
        self._vectors: FloatArray = vectors[:, kept]

    @cached_property
    def _turned(self) -> FloatArray | None:
        """``X B``: for dense rows it costs no more memory than X, and saves a product a step."""
        if self._wide:
            return np.asarray(self._vectors * np.sqrt(self.squared))
        return np.asarray(self._X @ self._vectors) if isinstance(self._X, np.ndarray) else None

    def scores(self, coordinates: FloatArray) -> FloatArray:
        """Return ``X W`` of the coefficients ``W = B C``."""
        if self._turned is not None:
            return np.asarray(self._turned @ coordinates)
        return np.asarray(self._X @ (self._vectors @ coordinates))

    def project(self, U: FloatArray) -> FloatArray:
        """Return ``B' X' U``."""
        if self._turned is not None:
            return np.asarray(self._turned.T @ U)
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


def spectral_norm(A: FloatArray) -> float:
    """Return the largest singular value, from the smaller Gram matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.numerics.spectral import spectral_norm
    >>> round(spectral_norm(np.array([[3.0], [4.0]])), 9)
    5.0
    """
    gram = A @ A.T if A.shape[0] < A.shape[1] else A.T @ A
    last = len(gram) - 1
    if last < 0:
        return 0.0
    largest = linalg.eigvalsh(gram, subset_by_index=(last, last), driver="evr", check_finite=False)[0]
    return float(np.sqrt(max(largest, 0.0)))
