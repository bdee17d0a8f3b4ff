r"""Kernel ridge regression on landmarks, with exact leave-one-out scores at the cost of one fit.

With the centred kernel K of the n rows with m landmarks and the kernel M between the landmarks, ridge regression
of targets y fits :math:`\bar y + K (K^\top K + \lambda M)^{-1} K^\top (y - \bar y)`. It is a linear smoother: the
score of a row by the model of all other rows follows from its leverage. With all rows as landmarks this
is ordinary kernel ridge regression.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike
from scipy import linalg

from pmlkit._typing import Features, FloatArray, IntArray
from pmlkit.methods.clear_pml.landmarks import LandmarkKernel, row_blocks

__all__ = [
    "LARGEST_LEVERAGE",
    "LooRidge",
    "RidgeSystem",
    "forward",
    "kernel_between_landmarks",
    "ridge_system",
    "search_penalty",
    "search_regularization",
    "walk_penalties",
]

_REGULARIZATIONS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
LARGEST_LEVERAGE = 1.0 - 1e-6


@dataclass(frozen=True)
class RidgeSystem:
    """The parts of ridge regression that depend on neither the targets nor the penalty.

    Attributes
    ----------
    centred : array of shape (n_rows, n_landmarks)
        The kernel, its columns centred.
    mean : array of shape (n_landmarks,)
    gram, own : arrays of shape (n_landmarks, n_landmarks)
        ``centred.T @ centred``, and the kernel between the landmarks.
    """

    centred: FloatArray
    mean: FloatArray
    gram: FloatArray
    own: FloatArray

    def factor(self, regularization: float) -> FloatArray:
        """Return the lower triangular factor of ``gram + regularization * own``."""
        return np.asarray(
            linalg.cholesky(self.gram + regularization * self.own, lower=True, overwrite_a=True, check_finite=False)
        )

    def solved(self, regularization: float) -> "LooRidge":
        """Return the regression for one penalty; it takes over the memory of `centred`."""
        factor = self.factor(regularization)
        leverage = np.empty(len(self.centred))
        for rows in row_blocks(*self.centred.shape):
            block = forward(factor, self.centred[rows].T).T
            leverage[rows] = np.einsum("ij,ij->i", block, block)
            self.centred[rows] = block
        leverage += 1.0 / len(leverage)
        return LooRidge(self.centred, np.minimum(leverage, LARGEST_LEVERAGE), factor, self.mean)


@dataclass(frozen=True)
class LooRidge:
    """Ridge regression of any targets on one set of rows.

    Attributes
    ----------
    design : array of shape (n_rows, n_landmarks)
        In its columns, the smoother is ``design @ design.T``.
    leverage : array of shape (n_rows,)
        How much of a row's own target its fitted value contains.
    factor : array of shape (n_landmarks, n_landmarks)
    mean : array of shape (n_landmarks,)
    """

    design: FloatArray
    leverage: FloatArray
    factor: FloatArray
    mean: FloatArray

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The precision of the computations."""
        return self.design.dtype

    def fit(self, target: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the targets' means and the coefficients of the design's columns."""
        mean = target.mean(axis=0, dtype=np.float64)
        return mean, self.design.T @ (target - mean).astype(self.design.dtype)

    def loo_scores(self, target: FloatArray, model: tuple[FloatArray, FloatArray]) -> FloatArray:
        """Return the score of each row by the model fitted to all other rows."""
        mean, coef = model
        fitted = self.design @ coef + mean.astype(self.design.dtype)
        keep = (1.0 / (1.0 - self.leverage)).astype(self.design.dtype)[:, None]
        return np.asarray(target - (target - fitted) * keep)

    def on_kernel(self, model: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Return intercepts and coefficients for the kernel with the landmarks itself."""
        mean, coef = model
        dual = linalg.solve_triangular(self.factor, coef.astype(np.float64), trans="T", lower=True, check_finite=False)
        return mean - self.mean @ dual, np.asarray(dual)


def ridge_system(kernel: LandmarkKernel, X: Features, *, dtype: DTypeLike = np.float64) -> RidgeSystem:
    """Compute the kernel of all rows and its moments.

    Parameters
    ----------
    kernel : LandmarkKernel
    X : dense array or CSR array of float64 of shape (n_rows, n_features)
    dtype : float type, default=float64
        Of the (n_rows, n_landmarks) arrays; all sums are float64.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.loo_ridge import ridge_system
    >>> from pmlkit.methods.clear_pml.landmarks import LandmarkKernel
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> target = X[:, :1] ** 2
    >>> ridge = ridge_system(LandmarkKernel(X, 1.0, linear=False), X).solved(0.1)
    >>> scores = ridge.loo_scores(target, ridge.fit(target))
    >>> bool(np.corrcoef(scores[:, 0], target[:, 0])[0, 1] > 0.8)
    True
    """
    own = kernel_between_landmarks(kernel)
    values = np.empty((X.shape[0], len(own)), dtype=dtype)
    total = np.zeros(len(own))
    for rows in row_blocks(*values.shape):
        block = kernel(X[rows])
        total += block.sum(axis=0)
        values[rows] = block
    mean = total / X.shape[0]
    gram = np.zeros_like(own)
    for rows in row_blocks(*values.shape):
        block = values[rows] - mean
        gram += block.T @ block
        values[rows] = block
    return RidgeSystem(values, mean, gram, own)


def kernel_between_landmarks(kernel: LandmarkKernel, known: FloatArray | None = None) -> FloatArray:
    """Return the kernel between the landmarks, safely positive definite."""
    own = kernel(kernel.landmarks) if known is None else known.copy()
    # A row's kernel with itself is 1 or 2: this is far below anything that rows could show.
    own[np.diag_indices_from(own)] += 1e-9 * len(own)
    return own


def search_regularization(
    system: RidgeSystem, target: FloatArray, rows: IntArray, *, start: float = 3.0
) -> tuple[float, float]:
    """Choose the penalty by the leave-one-out squared error.

    The search walks downhill on a grid from where it starts. Of penalties, the strongest counts whose error is within
    one standard error of the smallest: with few rows the smallest is often luck, with many this changes nothing.

    Parameters
    ----------
    system : RidgeSystem
    target : array of shape (n_rows, n_targets)
    rows : array of int
        The rows whose errors are counted; the models are fitted to all.
    start : float, default=3.0
        Where the search begins; from near the answer it takes fewer steps.

    Returns
    -------
    regularization : float
    error : float
        The smallest error, in units of the targets' variance.
    """
    mean = target.mean(axis=0, dtype=np.float64)
    centred = (target - mean).astype(system.centred.dtype)
    moments = (system.centred.T @ centred).astype(np.float64)
    some = system.centred[rows].T.astype(np.float64)
    return search_penalty(system.factor, moments, some, centred[rows], len(target), start=start)


def search_penalty(
    factor_at: Callable[[float], FloatArray],
    moments: FloatArray,
    some: FloatArray,
    wanted: FloatArray,
    n_rows: int,
    *,
    start: float,
) -> tuple[float, float]:
    """Choose the penalty as `search_regularization` does, from the moments of all rows.

    Parameters
    ----------
    factor_at : callable
        The triangular factor of the regression at a penalty.
    moments : array of shape (n_landmarks, n_targets)
        Of the centred kernel rows with the centred targets.
    some : array of shape (n_landmarks, n_some_rows)
        Centred kernel rows whose errors are counted.
    wanted : array of shape (n_some_rows, n_targets)
        Their centred targets.
    n_rows : int
        How many rows the moments are of.
    start : float
        Where the search begins.
    """

    def errors_at(penalty: float) -> FloatArray:
        factor = factor_at(penalty)
        design = forward(factor, some)
        leverage = np.minimum(np.einsum("ji,ji->i", design, design) + 1.0 / n_rows, LARGEST_LEVERAGE)
        left_out = (wanted - design.T @ forward(factor, moments)) / (1.0 - leverage)[:, None]
        return np.asarray(np.einsum("ij,ij->i", left_out, left_out))

    return walk_penalties(errors_at, wanted, start=start)


def walk_penalties(
    errors_of: Callable[[float], FloatArray], wanted: FloatArray, *, start: float
) -> tuple[float, float]:
    """Walk downhill on the grid of penalties, then on to the strongest within one standard error.

    Parameters
    ----------
    errors_of : callable
        The squared leave-one-out error of each counted row at a penalty.
    wanted : array of shape (n_counted_rows, n_targets)
        The centred targets of these rows.
    start : float
        Where the search begins.
    """

    def errors_at(place: int) -> FloatArray:
        return errors_of(_REGULARIZATIONS[place])

    first = min(range(len(_REGULARIZATIONS)), key=lambda place: abs(np.log(_REGULARIZATIONS[place] / start)))
    # Stronger penalties first: one is needed for the standard error in any case.
    neighbor = first + 1 if first + 1 < len(_REGULARIZATIONS) else first - 1
    tried = {place: errors_at(place) for place in (first, neighbor)}
    best = min(tried, key=lambda place: tried[place].mean())
    step = neighbor - first if best == neighbor else first - neighbor
    while 0 <= best + step < len(_REGULARIZATIONS):
        tried[best + step] = errors_at(best + step)
        if tried[best + step].mean() >= tried[best].mean():
            break
        best += step
    variance = float(np.einsum("ij,ij->", wanted, wanted)) / len(wanted)
    error = float(tried[best].mean()) / max(variance, 1e-300)
    chosen = best
    while chosen + 1 < len(_REGULARIZATIONS):
        if chosen + 1 not in tried:
            tried[chosen + 1] = errors_at(chosen + 1)
        excess = tried[chosen + 1] - tried[best]
        if excess.mean() > excess.std() / np.sqrt(len(wanted)):
            break
        chosen += 1
    return _REGULARIZATIONS[chosen], error


def forward(factor: FloatArray, right: FloatArray, *, in_place: bool = False) -> FloatArray:
    """Solve with a lower triangular factor; `in_place` may take over the memory of the right side."""
    return np.asarray(linalg.solve_triangular(factor, right, lower=True, overwrite_b=in_place, check_finite=False))
