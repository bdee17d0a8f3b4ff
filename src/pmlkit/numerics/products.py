"""Products with matrices that are zero except at the candidates, each by the cheapest of several ways."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._arrays import row_of_cells
from pmlkit._typing import CSR, Features, FloatArray

_BLOCK_CELLS = 2**23
_FEW_LABELS = 64
"""Largest number of labels at which a sparse matrix of candidates is made dense, if it is small."""

_SPARSE_PAYS = 0.025
"""Below this density a sparse product of rows is faster than a dense one."""
_SMALL_PRODUCT, _SMALL_ROWS = 2**25, 2**18
"""Largest number of multiplications, and of cells of dense rows, at which the dense product is always faster."""


def cells_at(table: NDArray[Any], pattern: CSR) -> NDArray[Any]:
    """Return the values of a dense table in the cells that `pattern` holds, aligned with its data."""
    values: NDArray[Any] = table[row_of_cells(pattern), pattern.indices]
    return values


def cells_of_product(left: Features, right: FloatArray, pattern: CSR) -> FloatArray:
    """Return the cells of ``left @ right`` that `pattern` holds, in row blocks."""
    cells = np.empty(pattern.nnz)
    step = max(1, _BLOCK_CELLS // right.shape[1])
    for first in range(0, pattern.shape[0], step):
        last = min(first + step, pattern.shape[0])
        begin, end = pattern.indptr[first], pattern.indptr[last]
        local = np.repeat(np.arange(last - first), np.diff(pattern.indptr[first : last + 1]))
        some = left if last - first == pattern.shape[0] else left[first:last]
        cells[begin:end] = np.asarray(some @ right)[local, pattern.indices[begin:end]]
    return cells


def cells_of_thin_product(left: FloatArray, right: FloatArray, pattern: CSR) -> FloatArray:
    """Return the cells of ``left @ right`` that `pattern` holds, for dense matrices whose common side is short.

    The cost is that of these cells, not of all.
    """
    cells = np.empty(pattern.nnz)
    columns = np.ascontiguousarray(right.T)
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    step = max(1, _BLOCK_CELLS // max(left.shape[1], 1))
    for first in range(0, pattern.nnz, step):
        some = slice(first, first + step)
        cells[some] = np.einsum("ij,ij->i", left[rows[some]], columns[pattern.indices[some]])
    return cells


def transposed_product(left: Features, candidates: CSR) -> FloatArray:
    """Return ``left.T @ candidates`` as a dense array.

    With few labels the product of two sparse matrices, whose answer is dense anyway, costs twice that with a dense one.
    """
    n_samples, n_labels = candidates.shape
    if n_labels <= _FEW_LABELS and n_samples * n_labels <= _BLOCK_CELLS:
        return np.asarray(left.T @ candidates.toarray())
    return as_dense(left.T @ candidates)


def inner_products(A: Features, B: Features) -> FloatArray:
    """Return ``A @ B.T`` as a new dense array, by way of sparse rows where that is faster."""
    n_cells = A.shape[0] * A.shape[1]
    large = n_cells * B.shape[0] > _SMALL_PRODUCT or n_cells > _SMALL_ROWS
    if large and sparse.issparse(A) and A.nnz < _SPARSE_PAYS * n_cells:
        return as_dense(A @ B.T)
    dense = as_dense(A)
    return np.asarray(dense @ (dense if B is A else as_dense(B)).T)


def as_dense(A: Features) -> FloatArray:
    """Return A as a dense array, itself where it is one."""
    return np.asarray(A.toarray() if sparse.issparse(A) else A)
