r"""Kernel ridge regression on all rows, solved in the dual, with exact leave-one-out scores.

With the doubly centred kernel K, :math:`A = (K + \lambda I)^{-1}` and :math:`\alpha = A (y - \bar y)`, a row's fitted
value is :math:`y_i - \lambda \alpha_i` and its leverage :math:`1 - \lambda A_{ii} + 1/n`. This costs
:math:`O(n^3)` whatever the number of features: the same regression as on landmarks, with every row as one.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike
from scipy import linalg

from pmlkit._typing import FloatArray
from pmlkit.methods.clear_pml.landmarks import LandmarkKernel, row_blocks

__all__ = ["LEAST_REST", "DualRidge", "dual_ridge"]

LEAST_REST = 1e-6  # of one minus the leverage


@dataclass(frozen=True)
class DualRidge:
    """Ridge regression of any targets on one set of rows.

    Attributes
    ----------
    factor : array of shape (n_samples, n_samples)
        The lower Cholesky factor of ``K + regularization * I``.
    diagonal : array of shape (n_samples,)
        Of the inverse of ``K + regularization * I``.
    mean : array of shape (n_samples,)
        The column means of the kernel.
    regularization : float
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
        rest = np.maximum(self.regularization * self.diagonal - 1.0 / len(self.diagonal), LEAST_REST)
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
    values[np.diag_indices(n_rows)] += np.asarray(regularization, dtype=dtype)
    factor = linalg.cholesky(values, lower=True, overwrite_a=True, check_finite=False)
    invert = linalg.get_lapack_funcs("trtri", (factor,))
    inverse, _ = invert(factor, lower=1)
    diagonal = np.empty(n_rows)
    for columns in row_blocks(n_rows, n_rows):
        part = inverse[:, columns]
        diagonal[columns] = np.einsum("ij,ij->j", part, part)
    return DualRidge(factor, diagonal, mean, regularization)


def _lower_kernel(kernel: LandmarkKernel, dtype: DTypeLike) -> tuple[FloatArray, FloatArray]:
    """Return the lower triangle of the kernel between the landmarks, in blocks of columns, and the means of columns."""
    rows = kernel.landmarks.astype(dtype)
    n_rows, n_features = rows.shape
    values = np.zeros((n_rows, n_rows), dtype=dtype, order="F")
    total = np.zeros(n_rows)
    for columns in row_blocks(n_rows, max(n_rows, n_features)):
        below = rows[columns.start :]
        block = LandmarkKernel(rows[columns], kernel.width, kernel.linear)(below)
        values[columns.start :, columns] = block
        n_own = columns.stop - columns.start
        total[columns] += block.sum(axis=0, dtype=np.float64)
        total[columns.stop :] += block[n_own:].sum(axis=1, dtype=np.float64)
    return values, total / n_rows
