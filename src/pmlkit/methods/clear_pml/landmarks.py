"""The kernel between all rows and a sample of them, the landmarks (Nystroem's method)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from pmlkit._arrays import row_hash
from pmlkit._typing import Features, FloatArray, IntArray
from pmlkit.numerics.products import as_dense

_BLOCK_CELLS = 2_000_000
_DENSE_CELLS = 80_000_000  # of a sparse matrix, up to which it is made dense for a product
_ROUNDING = 1e-4  # of squared distances of rows of unit length, in squared widths


@dataclass(frozen=True)
class LandmarkKernel:
    """The kernel between rows and landmarks.

    For rows x and z it is ``(g + g^4) / 2`` with ``g = exp(-|x - z|^2 / 2 width^2)``: two Gaussians, one half
    as wide as the other. With `linear` it is ``x.z + g``.
    """

    landmarks: Features
    width: float
    linear: bool

    def __call__(self, X: Features) -> FloatArray:
        """Return the kernel of rows with all landmarks.

        Examples
        --------
        >>> import numpy as np
        >>> from pmlkit.methods.clear_pml.landmarks import LandmarkKernel
        >>> LandmarkKernel(np.array([[1.0, 0.0], [0.0, 1.0]]), 1.0, linear=True)(np.array([[1.0, 0.0]])).round(3)
        array([[2.   , 0.368]])
        """
        return self._values(_inner(X, self.landmarks), _squares(X), _squares(self.landmarks))

    def _values(self, inner: FloatArray, squares: FloatArray, landmark_squares: FloatArray) -> FloatArray:
        """Return the kernel by inner products, whose memory it takes over, and squared lengths."""
        gaussian = np.multiply(inner, 2.0)
        gaussian -= squares[:, None]
        gaussian -= landmark_squares
        np.minimum(gaussian, 0.0, out=gaussian)
        gaussian *= 0.5 / self.width**2
        np.exp(gaussian, out=gaussian)
        if self.linear:
            gaussian += inner
            return gaussian
        np.square(gaussian, out=inner)
        gaussian += np.square(inner, out=inner)
        gaussian *= 0.5
        return gaussian

    def precision(self, dtype: DTypeLike) -> np.dtype[Any]:
        """Return the precision that rows need: that of the result, or double where distances would be lost in it.

        Examples
        --------
        >>> import numpy as np
        >>> from pmlkit.methods.clear_pml.landmarks import LandmarkKernel
        >>> [str(LandmarkKernel(np.eye(2), width, linear=False).precision(np.float32)) for width in (1.0, 1e-3)]
        ['float32', 'float64']
        """
        return np.dtype(np.float64) if np.finfo(dtype).eps > _ROUNDING * self.width**2 else np.dtype(dtype)

    def times(self, X: Features, weights: FloatArray) -> FloatArray:
        """Return ``kernel @ weights`` without ever holding the kernel of all rows."""
        product = np.empty((X.shape[0], weights.shape[1]))
        for rows in row_blocks(X.shape[0], self.landmarks.shape[0]):
            product[rows] = self(X[rows]) @ weights
        return product


HashSample = tuple[NDArray[np.uint64], IntArray]
"""The smallest hashes of rows in ascending order, and the first row of each."""


def smallest_hashes(X: Features, size: int) -> HashSample:
    """Return the smallest different hashes of rows, and the first row that has each: a sample in whatever order.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.landmarks import smallest_hashes
    >>> X = np.array([[1.0], [2.0], [2.0], [3.0]])
    >>> sorted(smallest_hashes(X, 3)[1].tolist())
    [0, 1, 3]
    """
    hashes, first = np.unique(row_hash(X, precision=np.float32), return_index=True)
    return hashes[:size], first[:size]


def merge_smallest(first: HashSample, second: HashSample, size: int) -> HashSample:
    """Return the smallest hashes of two groups of rows; of equal ones the row of the first group."""
    rows = np.concatenate([first[1], second[1]])
    hashes, where = np.unique(np.concatenate([first[0], second[0]]), return_index=True)
    return hashes[:size], rows[where[:size]]


def kernel_between(X: Features, *, linear: bool) -> tuple[LandmarkKernel, FloatArray]:
    """Return the kernel with rows as landmarks, as wide as their mean distance, and its values between these rows.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.landmarks import kernel_between
    >>> kernel, values = kernel_between(np.array([[0.0], [2.0], [4.0]]), linear=False)
    >>> round(kernel.width, 3), bool((values == kernel(kernel.landmarks)).all())
    (2.667, True)
    """
    inner, squares = _inner(X, X), _squares(X)
    kernel = LandmarkKernel(X, _mean_distance(inner, squares), linear)
    return kernel, kernel._values(inner, squares, squares)


def _mean_distance(inner: FloatArray, squares: FloatArray) -> float:
    distance = np.multiply(inner, -2.0)
    distance += squares[:, None]
    distance += squares
    np.sqrt(np.maximum(distance, 0.0, out=distance), out=distance)
    np.fill_diagonal(distance, 0.0)
    n_pairs = len(distance) * (len(distance) - 1)
    mean = float(distance.sum() / n_pairs) if n_pairs else 0.0
    return mean if mean > 1e-6 else 1.0


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Yield slices of rows such that a block of this width stays small."""
    step = max(1, _BLOCK_CELLS // max(1, n_columns))
    for first in range(0, n_rows, step):
        yield slice(first, min(first + step, n_rows))


def _inner(A: Features, B: Features) -> FloatArray:
    if sparse.issparse(A) and sparse.issparse(B) and min(A.shape[0], B.shape[0]) * B.shape[1] <= _DENSE_CELLS:
        # With one side dense the product is dense at once; a sparse one would first have to find its pattern.
        if A.shape[0] < B.shape[0]:
            return np.asarray((B @ A.T.toarray(order="C")).T)
        return np.asarray(A @ B.T.toarray(order="C"))
    return np.asarray(as_dense(A @ B.T))


def _squares(A: Features) -> FloatArray:
    if sparse.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", A, A, dtype=np.float64))
