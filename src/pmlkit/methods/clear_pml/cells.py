"""The cells of a block that matter: candidates as they were given, and as a reviewer's answers leave them.

All values of candidates (chances, confidences, targets) are vectors aligned with these cells. Off them, confidences and
targets are zero, so that memory follows the candidates and not rows times labels.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from pmlkit._arrays import row_of_cells
from pmlkit._typing import CSR, BoolArray, FloatArray, IntArray
from pmlkit.methods.clear_pml.landmarks import row_blocks


@dataclass(frozen=True)
class Cells:
    """Cells of the rows that have candidates or answers.

    - `pattern` (n_rows, n_labels): of the given candidates and of those that a reviewer added;
    - `used` (n_block_rows,): which rows of the block these are;
    - `given`, `candidate`, `right`, `wrong` (aligned with ``pattern.data``): the candidates as they were given, and as
      the answers leave them; what was found right, and wrong.
    """

    pattern: CSR
    used: BoolArray
    given: BoolArray
    candidate: BoolArray
    right: BoolArray
    wrong: BoolArray

    @property
    def n_rows(self) -> int:
        """Rows with cells."""
        return int(self.pattern.shape[0])

    def slices(self, width: int = 1) -> Iterator[tuple[slice, slice]]:
        """Yield slices of rows, and of their cells, such that blocks of this width stay small."""
        for rows in row_blocks(self.n_rows, max(width, self.pattern.shape[1])):
            yield rows, slice(self.pattern.indptr[rows.start], self.pattern.indptr[rows.stop])

    def dense(self, values: FloatArray | BoolArray, rows: slice) -> Any:
        """Return values as an array of some rows and all labels, zero off the cells."""
        cells = slice(self.pattern.indptr[rows.start], self.pattern.indptr[rows.stop])
        full = np.zeros((rows.stop - rows.start, self.pattern.shape[1]), dtype=values.dtype)
        full[self.row_numbers(rows), self.pattern.indices[cells]] = values[cells]
        return full

    def at(self, full: FloatArray, rows: slice) -> FloatArray:
        """Return the cells of an array of some rows and all labels, in double precision."""
        cells = slice(self.pattern.indptr[rows.start], self.pattern.indptr[rows.stop])
        return np.asarray(full[self.row_numbers(rows), self.pattern.indices[cells]], dtype=np.float64)

    def row_numbers(self, rows: slice) -> IntArray:
        """Return the row of each cell, counted from the first of some rows."""
        counts = np.diff(self.pattern.indptr[rows.start : rows.stop + 1])
        return np.repeat(np.arange(len(counts)), counts)

    def sparse_values(self, values: FloatArray) -> CSR:
        """Return values as a CSR array."""
        return sparse.csr_array((values, self.pattern.indices, self.pattern.indptr), self.pattern.shape)

    @property
    def side_by_side(self) -> "SideBySide":
        """The layout in which the cells of each row stand side by side."""
        return SideBySide.of(self.pattern)

    def of_all_rows(self) -> "Cells":
        """Return the same cells among all rows of the block, those without cells too."""
        indptr = np.zeros(len(self.used) + 1, dtype=self.pattern.indptr.dtype)
        indptr[1:][self.used] = np.diff(self.pattern.indptr)
        shape = len(self.used), self.pattern.shape[1]
        pattern = sparse.csr_array((self.pattern.data, self.pattern.indices, np.cumsum(indptr)), shape)
        return replace(self, pattern=pattern, used=np.ones(len(self.used), dtype=bool))


@dataclass(frozen=True)
class SideBySide:
    """Cells of each row side by side, in an array as wide as the row with most of them.

    What a row's candidates say about each other does not depend on which labels they are, so that formulas on all
    labels can be computed on these narrow arrays.
    """

    row: IntArray
    place: IntArray
    shape: tuple[int, int]

    @classmethod
    def of(cls, pattern: CSR) -> "SideBySide":
        """Return the layout for a pattern."""
        row = row_of_cells(pattern)
        place = np.arange(pattern.nnz) - pattern.indptr[row]
        return cls(row, place, (pattern.shape[0], int(np.diff(pattern.indptr).max(initial=1))))

    def spread(self, values: Any) -> Any:
        """Return a vector of cells as an array, zero where a row has fewer cells."""
        full = np.zeros(self.shape, dtype=values.dtype)
        full[self.row, self.place] = values
        return full

    def gather(self, full: FloatArray) -> FloatArray:
        """Return an array as a vector of cells."""
        return np.asarray(full[self.row, self.place])


def cells_of_block(Y: CSR, verified: Any = None) -> Cells:
    """Return the cells of a block.

    - `Y` (n_rows, n_labels): candidates.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.methods.clear_pml.cells import cells_of_block
    >>> cells = cells_of_block(sparse.csr_array([[1.0, 1.0], [0.0, 0.0]]), np.array([[-1, 0], [0, 0]]))
    >>> cells.candidate.tolist(), cells.used.tolist()
    ([False, True], [True, False])
    """
    every = Y.shape[1] == 1
    if verified is None:
        used = np.ones(Y.shape[0], dtype=bool) if every else np.diff(Y.indptr) > 0
        pattern = Y if used.all() else Y[used]
        yes, no = np.ones(pattern.nnz, dtype=bool), np.zeros(pattern.nnz, dtype=bool)
        return Cells(pattern, used, yes, yes, no, no)
    right, wrong = read_verified(verified, Y.shape)
    used = np.ones(Y.shape[0], dtype=bool) if every else (np.diff(Y.indptr) > 0) | (right | wrong).any(axis=1)
    given, right, wrong = (table[used] for table in (Y.toarray() > 0, right, wrong))
    pattern = sparse.csr_array((given | right).astype(np.float64))
    where = row_of_cells(pattern), pattern.indices
    candidate = (given | right) & ~wrong
    return Cells(pattern, used, given[where], candidate[where], right[where], wrong[where])


def read_verified(verified: Any, shape: tuple[int, int]) -> tuple[BoolArray, BoolArray]:
    """Return which cells are right, and which wrong, by an array of +1, -1 and 0 (not reviewed).

    - `verified` (n_samples, n_labels);
    - `shape`: of the candidates.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.cells import read_verified
    >>> read_verified(np.array([[1, 0, -1]]), (1, 3))
    (array([[ True, False, False]]), array([[False, False,  True]]))
    """
    values = np.asarray(verified.toarray() if sparse.issparse(verified) else verified)
    if values.shape != shape:
        raise ValueError(f"verified must have the shape of y, {shape}, got {values.shape}.")
    if not np.isin(values, (-1, 0, 1)).all():
        raise ValueError("verified must hold +1 (right), -1 (wrong) and 0 (not reviewed), got other values.")
    return values > 0, values < 0
