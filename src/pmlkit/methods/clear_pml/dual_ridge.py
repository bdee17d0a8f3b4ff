r"""Kernel ridge regression on all rows, solved in the dual, with exact leave-one-out scores.

With the doubly centred kernel K, :math:`A = (K + \lambda I)^{-1}` and :math:`\alpha = A (y - \bar y)`, a row's fitted
value is :math:`y_i - \lambda \alpha_i` and its leverage :math:`1 - \lambda A_{ii} + 1/n`. This costs
:math:`O(n^3)` whatever the number of features: the same regression as on landmarks, with every row as one.

The penalty is searched for in single precision: leave-one-out errors at neighbouring penalties differ by much more.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike
from scipy import linalg, sparse

from pmlkit._typing import FloatArray, IntArray
from pmlkit.methods.clear_pml.landmarks import LandmarkKernel, row_blocks
from pmlkit.methods.clear_pml.loo_ridge import forward, walk_penalties

LEAST_REST = 1e-6  # of one minus the leverage
_SMALL = 96


@dataclass(frozen=True)
class DualRidge:
    """Ridge regression of any targets on one set of rows.

    - `factor` (n_samples, n_samples): the lower Cholesky factor of ``K + regularization * I``;
    - `diagonal` (n_samples,): of the inverse of ``K + regularization * I``;
    - `mean` (n_samples,): the column means of the kernel.
    """

    factor: FloatArray
    diagonal: FloatArray
    mean: FloatArray
    regularization: float

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The precision of the computations."""
        return self.factor.dtype

    def fit(self, target: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the targets' means and the dual coefficients."""
        mean = target.mean(axis=0, dtype=np.float64)
        centred = (target - mean).astype(self.dtype)
        return mean, np.asarray(linalg.cho_solve((self.factor, True), centred, overwrite_b=True, check_finite=False))

    def loo_scores(self, target: FloatArray, model: tuple[FloatArray, FloatArray]) -> FloatArray:
        """Return the score of each row by the model fitted to all other rows."""
        rest = _rest(self.regularization, self.diagonal, len(self.diagonal))
        return np.asarray(target - model[1] * (self.regularization / rest).astype(self.dtype)[:, None])

    def on_kernel(self, model: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Return intercepts and coefficients for the kernel with all rows."""
        dual = model[1].astype(np.float64)
        return model[0] - self.mean @ dual, dual


def dual_ridge(kernel: LandmarkKernel, regularization: float, *, dtype: DTypeLike = np.float64) -> DualRidge:
    """Solve the regression for one penalty; the kernel's landmarks are the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.dual_ridge import dual_ridge
    >>> from pmlkit.methods.clear_pml.landmarks import LandmarkKernel
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> target = X[:, :1] ** 2
    >>> ridge = dual_ridge(LandmarkKernel(X, 1.0, linear=False), 0.1)
    >>> scores = ridge.loo_scores(target, ridge.fit(target))
    >>> bool(np.corrcoef(scores[:, 0], target[:, 0])[0, 1] > 0.8)
    True
    """
    values, mean = _lower_kernel(kernel, dtype)
    n_rows = len(values)
    centre, total = mean.astype(dtype), np.asarray(mean.mean(), dtype=dtype)
    for columns in row_blocks(n_rows, n_rows):
        block = values[columns.start :, columns]
        block -= centre[columns]
        block -= centre[columns.start :, None] - total
    return _solved(values, mean, regularization)


def dual_of_values(values: FloatArray, regularization: float) -> DualRidge:
    """Solve the regression for one penalty, from the kernel between the rows."""
    centred, mean = _centred(values)
    return _solved(centred.T, mean, regularization)


def search_in_dual(
    values: FloatArray, target: FloatArray, rows: IntArray | None = None, *, start: float = 3.0
) -> tuple[float, float]:
    """Choose the penalty by the leave-one-out squared error.

    - `values` (n_rows, n_rows): the kernel between the rows;
    - `target` (n_rows, n_targets);
    - `rows`: the rows whose errors are counted, default all;
    - `start`: where the search begins.

    Returns `penalty`, `error`: the smallest error, in units of the targets' variance.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.dual_ridge import search_in_dual
    >>> from pmlkit.methods.clear_pml.landmarks import LandmarkKernel
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> penalty, error = search_in_dual(LandmarkKernel(X, 1.0, linear=False)(X), X[:, :1] ** 2)
    >>> bool(error < 0.3)
    True
    """
    n_rows = len(values)
    centred = _centred(values)[0].astype(np.float32)
    wanted = (target - target.mean(axis=0)).astype(np.float32)
    if rows is not None and len(rows) < n_rows:
        # The last rows of the inverse, and of solutions, need no more than the last corner of the inverse factor.
        order = np.concatenate([np.setdiff1d(np.arange(n_rows), rows), rows])
        centred, wanted = centred[np.ix_(order, order)], wanted[order]
    n_first = n_rows - (n_rows if rows is None else len(rows))
    counted = wanted[n_first:]

    def errors_at(penalty: float) -> FloatArray:
        factor = _factor(centred.copy().T, penalty)
        inverse = _inverse(factor[n_first:, n_first:])
        rest = _rest(penalty, np.einsum("ij,ij->j", inverse, inverse), n_rows)
        left_out = inverse.T @ forward(factor, wanted)[n_first:]
        left_out *= (penalty / rest)[:, None]
        return np.asarray(np.einsum("ij,ij->i", left_out, left_out, dtype=np.float64))

    return walk_penalties(errors_at, counted, start=start)


def _centred(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the doubly centred kernel, and the column means that it had."""
    mean = values.mean(axis=0)
    centred = values - mean
    centred -= mean[:, None] - mean.mean()
    return centred, mean


def _solved(centred: FloatArray, mean: FloatArray, regularization: float) -> DualRidge:
    """Solve the regression in the memory of the centred kernel, of which the lower triangle counts."""
    factor = _factor(centred, regularization)
    inverse = _inverse(factor)
    diagonal = np.empty(len(factor))
    for columns in row_blocks(*factor.shape):
        part = inverse[:, columns]
        diagonal[columns] = np.einsum("ij,ij->j", part, part)
    return DualRidge(factor, diagonal, mean, regularization)


def _factor(centred: FloatArray, penalty: float) -> FloatArray:
    """Return the lower Cholesky factor of the kernel and a penalty, in its place where LAPACK's order allows."""
    centred[np.diag_indices_from(centred)] += np.asarray(penalty, dtype=centred.dtype)
    return np.asarray(linalg.cholesky(centred, lower=True, overwrite_a=True, check_finite=False))


def _inverse(factor: FloatArray) -> FloatArray:
    """Return the inverse of a lower triangular matrix: by halves, as LAPACK is slow with the smallest ones."""
    n_rows = len(factor)
    if n_rows <= _SMALL:
        invert = linalg.get_lapack_funcs("trtri", (factor,))
        return np.asarray(invert(factor, lower=1)[0])
    half = n_rows // 2
    inverse = np.zeros((n_rows, n_rows), dtype=factor.dtype, order="F")
    inverse[:half, :half], inverse[half:, half:] = _inverse(factor[:half, :half]), _inverse(factor[half:, half:])
    product = linalg.get_blas_funcs("trmm", (factor,))
    left = product(-1.0, inverse[:half, :half], np.asfortranarray(factor[half:, :half]), side=1, lower=1, overwrite_b=1)
    inverse[half:, :half] = product(1.0, inverse[half:, half:], left, lower=1, overwrite_b=1)
    return inverse


def _rest(penalty: float, diagonal: FloatArray, n_rows: int) -> FloatArray:
    """Return one minus the leverages."""
    return np.asarray(np.maximum(penalty * diagonal - 1.0 / n_rows, LEAST_REST))


def _lower_kernel(kernel: LandmarkKernel, dtype: DTypeLike) -> tuple[FloatArray, FloatArray]:
    """Return the lower triangle of the kernel between the landmarks, in blocks of columns, and the means of columns."""
    rows = kernel.landmarks.astype(kernel.precision(dtype))
    n_rows, n_features = rows.shape
    values = np.zeros((n_rows, n_rows), dtype=dtype, order="F")
    total = np.zeros(n_rows)
    for columns in row_blocks(n_rows, max(n_rows, n_features)):
        # Of dense rows transposed, as the columns of `values` stand one after the other in memory.
        some, below = rows[columns], rows[columns.start :]
        if sparse.issparse(rows):
            block = LandmarkKernel(some, kernel.width, kernel.linear)(below)
        else:
            block = LandmarkKernel(below, kernel.width, kernel.linear)(some).T
        values[columns.start :, columns] = block
        n_own = columns.stop - columns.start
        total[columns] += block.sum(axis=0, dtype=np.float64)
        total[columns.stop :] += block[n_own:].sum(axis=1, dtype=np.float64)
    return values, total / n_rows
