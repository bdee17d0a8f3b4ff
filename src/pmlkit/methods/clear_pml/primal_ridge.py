r"""Ridge regression on the columns of sparse rows themselves, with exact leave-one-out scores.

With the centred rows X, :math:`B = (X^\top X + \lambda I)^{-1}` and coefficients :math:`w = B X^\top y`, the leverage
of a row is :math:`x_i^\top B x_i + 1/n`. It is the regression of `pmlkit.methods.clear_pml.dual_ridge` with the linear
kernel, at :math:`O(d^3)` for d columns however many rows there are: X'X is a sum over rows. Means are taken out of
the products and not of the rows, which stay sparse.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy import linalg, sparse

from pmlkit._typing import CSR, Features, FloatArray, IntArray
from pmlkit.blocks import Engine, State
from pmlkit.methods.clear_pml.block_ridge import candidate_values
from pmlkit.methods.clear_pml.cells import Cells
from pmlkit.methods.clear_pml.feature_weighting import FeatureWeighting
from pmlkit.methods.clear_pml.landmarks import row_blocks
from pmlkit.methods.clear_pml.loo_ridge import LARGEST_LEVERAGE, search_penalty

_COLUMNS_TO_SEARCH = 1_000  # the first ones, whose regression decides on the penalty
_COLUMNS_IN_DOUBLE = 2_000
_FEWEST_ROWS = 20_000  # of a sparse product: more of them do not stay in the processor's caches,
_CELLS_PER_PRODUCT_ROW = 100  # and fewer would cost less than the sum of the products
_LONG = 16  # rows with more than one in so many cells not zero are multiplied as dense ones


@dataclass(frozen=True)
class LinearKernel:
    """Some columns of rows, in the place of a kernel with landmarks."""

    columns: IntArray

    def __call__(self, X: Features) -> CSR:
        """Return the columns of weighted rows.

        Examples
        --------
        >>> import numpy as np
        >>> from pmlkit.methods.clear_pml.primal_ridge import LinearKernel
        >>> LinearKernel(np.array([2, 0]))(np.array([[1.0, 2.0, 3.0]])).toarray()
        array([[3., 1.]])
        """
        return sparse.csr_array(X)[:, self.columns]

    def times(self, X: Features, weights: FloatArray) -> FloatArray:
        """Return the product of the columns with weights, one row of them per column."""
        return np.asarray(self(X) @ weights)


@dataclass(frozen=True)
class SparseRows:
    """How passes get at the rows of a block, see `pmlkit.methods.clear_pml.block_ridge.RowSource`."""

    def rows(self, source: CSR, some: Any = None, *, width: int = 1) -> Iterator[tuple[slice, CSR]]:
        """Yield slices of the rows (of some rows) and the rows themselves."""
        source = source if some is None else source[some]
        for rows in row_blocks(source.shape[0], width):
            yield rows, source[rows]


@dataclass(frozen=True)
class PrimalRidge:
    """Ridge regression of any targets on the rows of all blocks.

    - `source`, `leverage`, `cells`: weighted columns of the rows, their leverages and `Cells`;
    - `inverse` (n_columns, n_columns): of the centred products of columns, the penalty added;
    - `mean` (n_columns,).
    """

    engine: Engine
    source: State
    leverage: State
    cells: State
    inverse: FloatArray
    mean: FloatArray
    n_rows: int
    rows: SparseRows = SparseRows()

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The precision of the computations."""
        return self.inverse.dtype

    def fit(self, target: State) -> tuple[FloatArray, FloatArray]:
        """Return intercepts and coefficients of the columns."""
        total, products = self.engine.reduce(target_products, self.source, self.cells, target)
        products -= np.outer(self.mean, total)
        coef = self.inverse @ products.astype(self.dtype)
        return total / self.n_rows - self.mean @ coef, coef

    def weights(self, model: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Return intercepts and coefficients for the rows that passes see."""
        return model[0].astype(self.dtype), model[1]

    def on_kernel(self, model: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Return intercepts and coefficients for the columns."""
        return model


def primal_ridge(
    engine: Engine,
    X: State,
    cells: State,
    weighting: FeatureWeighting,
    kernel: LinearKernel,
    *,
    n_rows: int,
    n_cells: int,
    penalty: float | None = None,
    trial: tuple[Features, FloatArray] | None = None,
    start: float = 3.0,
) -> tuple[PrimalRidge, float]:
    """Compute the products of the columns, choose the penalty, and return the regression and its penalty.

    - `engine`, `X`, `cells`: features and `Cells` of the rows;
    - `weighting`, `kernel`: from features to weighted columns, the most telling of them first;
    - `n_rows`, `n_cells`: rows of all blocks, and about how many cells are not zero: columns that do not fit into
      memory are weighted again in each pass;
    - `penalty`: where given, it is not searched for;
    - `trial`: rows whose leave-one-out errors decide on the penalty, by a regression on the first columns and all rows;
    - `start`: where the search begins.
    """
    n_columns = len(kernel.columns)
    dtype = np.dtype(np.float32 if n_columns > _COLUMNS_IN_DOUBLE else np.float64)
    kept = engine.keeps(n_cells * (dtype.itemsize + 4))
    source = engine.map(weighted_columns, X, keep=kept, weighting=weighting, kernel=kernel, dtype=dtype)
    total, gram = engine.reduce(column_products, source)
    mean, gram = total / n_rows, np.require(gram, requirements="W")
    for rows in row_blocks(n_columns, n_columns):
        gram[rows] -= (n_rows * mean[rows, None] * mean).astype(dtype)
    if penalty is None:
        assert trial is not None
        given = engine.map(candidate_values, cells)
        target_total, products = engine.reduce(target_products, source, cells, given)
        first = slice(0, _COLUMNS_TO_SEARCH)
        some = weighted_columns(trial[0], weighting=weighting, kernel=kernel, dtype=dtype)[:, first]
        products = products[first] - np.outer(mean[first], target_total)

        @cache
        def factor_at(strength: float) -> FloatArray:
            return _factor(gram[first, first].astype(np.float64, order="F"), strength)

        penalty, _ = search_penalty(
            factor_at, products, some.toarray().T - mean[first, None], trial[1] - target_total / n_rows, n_rows,
            start=start,
        )  # fmt: skip
    inverse = _inverse(_factor(gram.T, penalty))
    mean_inverse = inverse @ mean.astype(dtype)
    leverage = engine.map(
        leverages,
        source,
        inverse=engine.share(inverse),
        shift=mean_inverse,
        constant=float(mean @ mean_inverse),
        n_rows=n_rows,
    )
    return PrimalRidge(engine, source, leverage, cells, inverse, mean, n_rows), penalty


def weighted_columns(X: Features, *, weighting: FeatureWeighting, kernel: LinearKernel, dtype: DTypeLike) -> CSR:
    """Return the weighted columns of a block."""
    if not X.shape[0]:
        return sparse.csr_array((0, len(kernel.columns)), dtype=dtype)
    rows: CSR = kernel(weighting.transform(X)).astype(dtype)
    return rows


def column_products(rows: CSR) -> tuple[FloatArray, FloatArray]:
    """Return the sums of a block's columns, and the products of all pairs of columns."""
    n_columns = rows.shape[1]
    gram = np.zeros((n_columns, n_columns), dtype=rows.dtype)
    is_long = _is_long(rows)
    short = rows[~is_long]
    for part in _parts(short.shape[0], n_columns * n_columns):
        transposed = sparse.csr_array(short[part].T)
        for some in row_blocks(n_columns, n_columns):
            gram[some] += (transposed[some] @ short[part]).toarray()
    for _, part in SparseRows().rows(rows, is_long, width=n_columns):
        dense = part.toarray()
        gram += dense.T @ dense
    return np.asarray(rows.sum(axis=0, dtype=np.float64)), gram


def target_products(rows: CSR, cells: Cells, target: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the sums of a block's targets, and their products with its columns."""
    table = cells.sparse_values(target)
    products = np.zeros((rows.shape[1], table.shape[1]))
    for part in _parts(rows.shape[0], products.size):
        products += (rows[part].T @ table[part]).toarray()
    return np.asarray(table.sum(axis=0, dtype=np.float64)), products


def leverages(rows: CSR, *, inverse: FloatArray, shift: FloatArray, constant: float, n_rows: int) -> FloatArray:
    """Return the leverages of a block's rows.

    - `rows` (n_block_rows, n_columns);
    - `inverse` (n_columns, n_columns);
    - `shift` (n_columns,), `constant`: the product of the inverse with the columns' means, and that of the means
      with it;
    - `n_rows`: of all blocks.
    """
    square = np.empty(rows.shape[0])
    is_long = _is_long(rows)
    places = np.flatnonzero(is_long)
    for some, part in SparseRows().rows(rows, places, width=rows.shape[1]):
        dense = part.toarray()
        square[places[some]] = np.einsum("ij,ij->i", dense @ inverse, dense)
    # Only cells that are not zero count: rows of about the same length are gathered side by side.
    lengths = np.diff(rows.indptr)
    order = np.argsort(lengths, kind="stable")
    order = order[~is_long[order]]
    while len(order):
        width = max(1, lengths[order[-1]])
        n_side_by_side = max(1, 2_000_000 // width**2)
        chosen, order = order[-n_side_by_side:], order[:-n_side_by_side]
        column = np.zeros((len(chosen), width), dtype=np.intp)
        value = np.zeros((len(chosen), width), dtype=rows.dtype)
        is_cell = np.arange(width) < lengths[chosen, None]
        part = rows[chosen]
        column[is_cell], value[is_cell] = part.indices, part.data
        pairs = inverse[column[:, :, None], column[:, None, :]]
        square[chosen] = np.einsum("ij,ij->i", (pairs @ value[:, :, None])[:, :, 0], value)
    leverage = square - 2.0 * (rows @ shift) + constant + 1.0 / n_rows
    return np.asarray(np.minimum(leverage, LARGEST_LEVERAGE))


def _parts(n_rows: int, n_products: int) -> Iterator[slice]:
    """Yield slices of rows whose products with others are summed at a time."""
    step = max(_FEWEST_ROWS, n_products // _CELLS_PER_PRODUCT_ROW)
    for first in range(0, n_rows, step):
        yield slice(first, min(first + step, n_rows))


def _is_long(rows: CSR) -> Any:
    return np.diff(rows.indptr) > rows.shape[1] // _LONG


def _factor(gram: FloatArray, penalty: float) -> FloatArray:
    """Return the lower triangular factor of a matrix and a penalty, in its place."""
    gram[np.diag_indices_from(gram)] += np.asarray(penalty, dtype=gram.dtype)
    return np.asarray(linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False))


def _inverse(factor: FloatArray) -> FloatArray:
    """Return the inverse of a matrix by its lower triangular factor."""
    (invert,) = linalg.get_lapack_funcs(("potri",), (factor,))
    inverse, _ = invert(factor, lower=1, overwrite_c=1)
    for columns in row_blocks(len(inverse), len(inverse)):
        lower = np.tril(inverse[columns.start :, columns])
        lower[: lower.shape[1]] += np.tril(lower[: lower.shape[1]], -1).T
        inverse[columns.start :, columns], inverse[columns, columns.start :] = lower, lower.T
    return np.asarray(inverse)
