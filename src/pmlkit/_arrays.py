"""CSR and read-only arrays, the row of each stored cell, row hashes, and what holds features and labels."""

import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._typing import CSR, BoolArray, Features, IntArray
from pmlkit.exceptions import DataError

_LARGEST, _SMALLEST = 1e30, 1e-100
_HASHED_CELLS = 2**20  # at a time


def as_csr(matrix: Any) -> CSR:
    """Return any sparse matrix as a canonical CSR array with 32-bit indices where they fit.

    Sorted indices, no cell twice; half the memory, and liblinear accepts no others. The input is
    never changed, and nothing is copied that need not be.
    """
    csr = sparse.csr_array(matrix)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    if csr.indices.dtype == np.int32 or max(csr.nnz, *csr.shape) > np.iinfo(np.int32).max:
        return csr
    parts = csr.data, csr.indices.astype(np.int32), csr.indptr.astype(np.int32)
    return sparse.csr_array(parts, shape=csr.shape)


def freeze(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array read-only; it is copied only if its memory is still writeable through another array."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and not owner.flags.writeable:
        owner = owner.base
    if not (owner is None or isinstance(owner, bytes | mmap.mmap)):
        array = np.array(array, order="C")
        array.flags.writeable = False
    return array


def freeze_csr(matrix: CSR) -> CSR:
    """Return a csr_array whose three parts are read-only."""
    matrix = as_csr(matrix)
    parts = (freeze(matrix.data), freeze(matrix.indices), freeze(matrix.indptr))
    frozen = sparse.csr_array(parts, shape=matrix.shape)
    # The constructor may have made new views of the parts, and does not know that they are sorted.
    frozen.data, frozen.indices, frozen.indptr = map(freeze, (frozen.data, frozen.indices, frozen.indptr))
    frozen.has_canonical_format = True
    return frozen


def row_of_cells(matrix: CSR) -> IntArray:
    """Return the row of each stored cell of a CSR array, aligned with ``matrix.data``."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def without_cells(matrix: CSR, removed: BoolArray) -> CSR:
    """Return an indicator without some of its stored cells, as a CSR array of uint8."""
    parts = (~removed).astype(np.uint8), matrix.indices.copy(), matrix.indptr.copy()
    kept = sparse.csr_array(parts, shape=matrix.shape)
    kept.eliminate_zeros()
    return kept


def row_hash(X: Features, *, seed: int = 0, precision: type[np.floating[Any]] = np.float64) -> NDArray[np.uint64]:
    """Hash rows by a sum over their non-zero cells, which neither order nor storage can change.

    `precision`: values are compared at this precision.
    """
    hashes = np.zeros(X.shape[0], dtype=np.uint64)
    n_rows, n_columns = X.shape
    step = max(1, _HASHED_CELLS * n_rows // max(1, X.nnz if sparse.issparse(X) else n_rows * n_columns))
    for first in range(0, n_rows, step):
        block = sparse.csr_array(X[first : first + step])
        cells = _cell_hash(block.data.astype(precision), block.indices.astype(np.uint64) + np.uint64(seed + 1))
        # A running total minus itself is exact in modular arithmetic, and copes with empty rows.
        total = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(cells, dtype=np.uint64)])
        hashes[first : first + step] = np.diff(total[block.indptr])
    return hashes


def _cell_hash(values: NDArray[Any], columns: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash cells by value and column; zero for a zero cell."""
    # Adding zero turns -0.0 into 0.0.
    bits = (values + values.dtype.type(0)).view(f"u{values.itemsize}").astype(np.uint64)
    return np.where(values == 0, np.uint64(0), _mix(_mix(bits) + columns * np.uint64(0x9E3779B97F4A7C15)))


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every bit over all the others (the finaliser of a multiplicative hash)."""
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return bits ^ (bits >> np.uint64(31))


def moderate(X: Features) -> Features:
    """Return features whose products stay finite: values above 1e30 are refused, those below 1e-100 become zero."""
    is_sparse = sparse.issparse(X)
    values: NDArray[Any] = X.data if is_sparse else X
    if not values.size:
        return X
    if max(-values.min(), values.max()) > _LARGEST:
        cell = int(np.argmax(np.abs(values)))
        if is_sparse:
            row, column = int(row_of_cells(X)[cell]), int(X.indices[cell])
        else:
            row, column = (int(i) for i in np.unravel_index(cell, values.shape))
        raise DataError(
            f"X holds {values.flat[cell]:g} in row {row}, column {column}: numbers beyond {_LARGEST:g} overflow when "
            "they are multiplied, so correct or scale them."
        )
    tiny = (np.abs(values) < _SMALLEST) & (values != 0)
    if not tiny.any():
        return X
    X = X.copy()
    (X.data if is_sparse else X)[tiny] = 0.0
    if is_sparse:
        X.eliminate_zeros()
    return X


def move_columns(Y: CSR, target: Sequence[int], n_columns: int) -> CSR:
    """Return a CSR array of `n_columns` columns in which column k of `Y` is column ``target[k]``."""
    cells = Y.tocoo()
    columns = np.asarray(target, dtype=np.int64)[cells.col]
    return sparse.csr_array((cells.data, (cells.row, columns)), shape=(Y.shape[0], n_columns))


def is_table(X: Any) -> bool:
    """Return whether `X` is a `pmlkit.Table` or a `PMLDataset`: features together with labels and their names."""
    # Asked of the class: a DataFrame has an attribute for each of its columns.
    return all(hasattr(type(X), name) for name in ("X", "Y", "label_names"))
