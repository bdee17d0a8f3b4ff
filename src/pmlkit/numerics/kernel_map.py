"""Features whose inner products are a Gaussian kernel, exactly for few rows and nearly for many."""

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse
from sklearn.metrics.pairwise import rbf_kernel

from pmlkit._typing import Features, FloatArray
from pmlkit.numerics.folds import content_folds

__all__ = ["KernelMap", "kernel_map"]

_NULL = 1e-10  # share of the kernel's diagonal below which a landmark adds nothing but rounding


@dataclass(frozen=True)
class KernelMap:
    """The map ``x -> k(x, landmarks) T^-1`` with the triangular factor T of the landmarks' kernel, ``K = T'T``.

    Attributes
    ----------
    landmarks : array or CSR array of shape (n_landmarks, n_features)
    factor : upper triangular array of shape (n_landmarks, n_landmarks)
    gamma : float
    """

    landmarks: Features
    factor: FloatArray
    gamma: float

    def features(self, X: Features) -> FloatArray:
        """Return the features of rows."""
        kernel = rbf_kernel(X, self.landmarks, gamma=self.gamma)
        return np.asarray(linalg.solve_triangular(self.factor, kernel.T, trans="T", check_finite=False).T)

    def expansion(self, coef: FloatArray) -> FloatArray:
        """Return the coefficients of ``k(x, landmarks)`` for given coefficients of the features."""
        return np.asarray(linalg.solve_triangular(self.factor, coef, check_finite=False))


def kernel_map(X: Features, gamma: float, max_landmarks: int) -> KernelMap:
    """Make the map for the kernel ``exp(-gamma |x - z|^2)``.

    Parameters
    ----------
    X : dense array or CSR array of float64 of shape (n_rows, n_features)
    gamma : float
    max_landmarks : int
        With no more rows than that, all rows are landmarks and the kernel between them is exact. With more,
        about so many rows are chosen by a hash of their content (Nystroem's approximation), whatever their order.

    Notes
    -----
    The kernel of the landmarks is factorised with pivoting; landmarks that are combinations of
    earlier ones (twins, to begin with) are dropped.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.numerics.kernel_map import kernel_map
    >>> X = np.array([[0.0], [1.0], [1.0]])
    >>> features = kernel_map(X, 0.5, 10).features(X)
    >>> (features @ features.T).round(4)
    array([[1.    , 0.6065, 0.6065],
           [0.6065, 1.    , 1.    ],
           [0.6065, 1.    , 1.    ]])
    """
    n_rows = X.shape[0]
    landmarks = X if n_rows <= max_landmarks else X[content_folds(X, -(-n_rows // max_landmarks)) == 0]
    factor, pivot, rank, _ = linalg.lapack.dpstrf(rbf_kernel(landmarks, gamma=gamma), tol=_NULL)
    landmarks = landmarks[pivot[:rank] - 1]
    if sparse.issparse(landmarks):
        landmarks = sparse.csr_array(landmarks)
    return KernelMap(landmarks, np.triu(factor[:rank, :rank]), gamma)
