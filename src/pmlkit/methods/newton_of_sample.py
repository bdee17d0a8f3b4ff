r"""Many ridge-penalised logistic regressions at once, for rows that are only seen in passes.

Each regression, a column of the coefficients, minimises

.. math:: \tfrac12 \|w\|^2 + C \sum_i \log(1 + \exp(-y_i \, x_i^T w)),

its last coefficient being the intercept, which is penalised too (as liblinear does). A pass over all rows gives values
and gradients. Steps are Newton steps with the Hessian of a sample of the rows, which needs no pass. What it does
not know of the Hessian is learned from the gradients, as in limited-memory BFGS.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import expit

from pmlkit._typing import CSR, Features, FloatArray, IntArray

_CELLS = 2**21  # of scores at a time
_PAIRS = 4  # of steps and changes of the gradient that are remembered
_TOLERANCE = 1e-16  # of the squared distance to the optimum, measured by the Hessian, which is at least the identity
_FINEST = 1e-20  # likewise, as a share of the objective
_ROUNDING = 1e-12  # share of the objective, below which a difference of two sums over the rows says nothing
_POLISHING = 10  # steps after the objective has stopped telling
_DECREASE = 1e-4  # share of the promised decrease that a step must bring
_HALVINGS = 30

Evaluate = Callable[[FloatArray, IntArray], tuple[FloatArray, FloatArray]]
"""From coefficients and the numbers of their regressions to the objectives and their gradients."""


def loss_and_gradient(
    X: Features, Y: CSR, fold: IntArray, *, coef: FloatArray, label: IntArray, left_out: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the sums over a block's rows of the logistic losses, and their gradients, of every regression.

    `coef` (n_features + 1, n_regressions): the intercepts last. `label`, `left_out` (n_regressions,): the label of each
    regression, and the fold whose rows it does not see (-1: it sees all).
    """
    total, gradient = np.zeros(coef.shape[1]), np.zeros(coef.shape)
    for rows in _slices(X, coef.shape[1]):
        x = X[rows]
        sign = 2.0 * Y[rows][:, label].toarray() - 1.0
        margin = x @ coef[:-1]
        margin += coef[-1]
        margin *= sign
        small = np.exp(-np.abs(margin))
        loss = np.log1p(small) + np.maximum(-margin, 0.0)
        residual = np.where(margin >= 0.0, small, 1.0)
        residual /= 1.0 + small
        residual *= -sign
        held_out = fold[rows, None] == left_out
        loss[held_out] = 0.0
        residual[held_out] = 0.0
        total += loss.sum(axis=0)
        gradient[:-1] += x.T @ residual
        gradient[-1] += residual.sum(axis=0)
    return total, gradient


def _slices(X: Features, n_columns: int) -> Iterator[slice]:
    step = max(1, _CELLS // max(1, n_columns))
    for first in range(0, X.shape[0], step):
        yield slice(first, first + step)


@dataclass(frozen=True)
class SampleHessian:
    """Hessians of the regressions, estimated from a sample of the rows.

    - `weight` (n_regressions,): how many rows a row of the sample stands for.
    - `missing` (n_features + 1,): sums of squares of all rows that the sample's rows, weighted, do not reach: of
      features that it hardly has.
    - `accuracy`: of the solutions, at best.
    """

    X: Features
    fold: IntArray
    C: float
    left_out: IntArray
    weight: FloatArray
    missing: FloatArray
    accuracy: float

    def at(self, coef: FloatArray, columns: IntArray) -> Callable[[FloatArray, FloatArray], FloatArray]:
        """Return a function that divides by the Hessians at some coefficients, to a relative accuracy per column."""
        chance = expit(self.X @ coef[:-1] + coef[-1])
        curvature = chance * (1.0 - chance)
        curvature[self.fold[:, None] == self.left_out[columns]] = 0.0
        typical = curvature.mean(axis=0) if len(curvature) else np.zeros(len(columns))
        curvature *= self.C * self.weight[columns]
        squares = self.X.multiply(self.X).tocsr() if sparse.issparse(self.X) else self.X**2
        extra = 1.0 + self.C * np.outer(self.missing, typical)
        diagonal = extra + np.vstack([squares.T @ curvature, curvature.sum(axis=0)])

        def times(V: FloatArray, some: IntArray) -> FloatArray:
            weighted = self.X @ V[:-1]
            weighted += V[-1]
            weighted *= curvature[:, some]
            return np.asarray(np.vstack([self.X.T @ weighted, weighted.sum(axis=0)]) + extra[:, some] * V)

        return lambda G, wanted: _conjugate_gradients(times, diagonal, G, np.maximum(wanted, self.accuracy))


def _conjugate_gradients(
    times: Callable[[FloatArray, IntArray], FloatArray], diagonal: FloatArray, G: FloatArray, accuracy: FloatArray
) -> FloatArray:
    """Solve one system per column, each until its residual is small; all columns share the products."""
    solution, residual = np.zeros_like(G), G.copy()
    goal = accuracy * np.linalg.norm(G, axis=0)
    scaled = residual / diagonal
    direction, product = scaled.copy(), _dots(residual, scaled)
    for _ in range(G.shape[0] + 10):
        some = np.flatnonzero((np.linalg.norm(residual, axis=0) > goal) & (product > 0.0))
        if not len(some):
            break
        image = times(direction[:, some], some)
        length = product[some] / _dots(direction[:, some], image)
        solution[:, some] += length * direction[:, some]
        residual[:, some] -= length * image
        scaled = residual[:, some] / diagonal[:, some]
        new = _dots(residual[:, some], scaled)
        direction[:, some] = scaled + (new / product[some]) * direction[:, some]
        product[some] = new
    return solution


def minimise(
    evaluate: Evaluate, hessian: SampleHessian, start: FloatArray, *, max_iter: int, tolerance: float = _TOLERANCE
) -> tuple[FloatArray, int]:
    """Minimise all regressions; return their coefficients and the number of passes.

    A regression leaves the passes when it is at its optimum: by default, when its coefficients are within 1e-8 of it.
    """
    coef = start.copy()
    active = np.arange(coef.shape[1])
    value, gradient = evaluate(coef, active)
    first_norm = np.maximum(np.linalg.norm(gradient, axis=0), np.finfo(float).tiny)
    pairs: list[tuple[FloatArray, FloatArray]] = []
    n_passes, n_silent = 1, np.zeros(coef.shape[1], dtype=int)
    while n_passes < max_iter:
        some = gradient[:, active]
        # Rough steps far from the optimum, exact ones near it.
        wanted = np.minimum(0.1, np.linalg.norm(some, axis=0) / first_norm[active])
        divide = hessian.at(coef[:, active], active)
        known = [(step[:, active], change[:, active]) for step, change in pairs]
        direction = -_two_loops(some, known, lambda G, w=wanted, d=divide: d(G, w))  # type: ignore[misc]
        slope = _dots(some, direction)
        n_silent[active] += -slope <= _ROUNDING * np.abs(value[active])
        open_ = (-slope > tolerance + _FINEST * np.abs(value[active])) & (n_silent[active] <= _POLISHING)
        active, direction, slope = active[open_], direction[:, open_], slope[open_]
        if not len(active):
            break
        step, change = np.zeros_like(coef), np.zeros_like(coef)
        length, waiting = 1.0, np.arange(len(active))
        for _ in range(_HALVINGS):
            columns = active[waiting]
            move = length * direction[:, waiting]
            new_value, new_gradient = evaluate(coef[:, columns] + move, columns)
            n_passes += 1
            allowed = value[columns] + _DECREASE * length * slope[waiting]
            fine = new_value <= allowed + _ROUNDING * np.abs(value[columns])
            moved = columns[fine]
            step[:, moved], change[:, moved] = move[:, fine], new_gradient[:, fine] - gradient[:, moved]
            coef[:, moved] += move[:, fine]
            value[moved], gradient[:, moved] = new_value[fine], new_gradient[:, fine]
            waiting, length = waiting[~fine], length / 2.0
            if not len(waiting):
                break
        # No step lowers the objective of what still waits: rounding is all that is left.
        active = np.delete(active, waiting)
        pairs = [*pairs, (step, change)][-_PAIRS:] if hessian.accuracy > 1e-4 else []
    return coef, n_passes


def _two_loops(
    gradient: FloatArray, pairs: list[tuple[FloatArray, FloatArray]], divide: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Divide gradients by Hessians that are corrected by what earlier steps changed (limited-memory BFGS)."""
    reduced, shares = gradient.copy(), []
    for step, change in reversed(pairs):
        curvature = _dots(step, change)
        inverse = np.where(curvature > 0.0, 1.0 / np.where(curvature > 0.0, curvature, 1.0), 0.0)
        shares.append((inverse * _dots(step, reduced), inverse))
        reduced -= shares[-1][0] * change
    result = divide(reduced)
    for (step, change), (share, inverse) in zip(pairs, reversed(shares), strict=True):
        result += step * np.where(inverse > 0.0, share - inverse * _dots(change, result), 0.0)
    if pairs:
        uphill = _dots(gradient, result) <= 0.0
        if uphill.any():
            result[:, uphill] = divide(gradient)[:, uphill]
    return result


def _dots(A: FloatArray, B: FloatArray) -> FloatArray:
    """Return the inner products of the columns."""
    return np.asarray(np.einsum("ij,ij->j", A, B))
