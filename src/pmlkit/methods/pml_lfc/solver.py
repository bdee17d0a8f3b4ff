"""Algorithm 1 of the PML-LFC paper: alternate confidences and predictor; the objective never increases."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pmlkit._typing import CSR, Features, FloatArray
from pmlkit.methods.pml_lfc.basis import RowBasis
from pmlkit.methods.pml_lfc.confidence_step import (
    ConfidenceProblem,
    ConfidenceState,
    Fitted,
    Steps,
    multiplied,
    projected,
)
from pmlkit.methods.pml_lfc.factored import FactoredBasis, FactoredProblem
from pmlkit.methods.pml_lfc.predictor_step import LowRankFit, fit_low_rank
from pmlkit.methods.pml_lfc.similarity import RowSimilarity
from pmlkit.numerics.products import cells_of_product, cells_of_thin_product

_REFINEMENTS = 2


@dataclass(frozen=True)
class Prepared:
    """Data and everything computed from them that does not depend on alpha, beta and lambda.

    `basis`: of the centred features where labels have an intercept. `width`: of the kernel. `key`: hash of the data and
    parameters it was computed from. `factored`: where the predictor is sought in factored form, which makes the basis.
    """

    X: Features
    Y: CSR
    weight: FloatArray
    basis: RowBasis
    intercept: bool
    similarity: RowSimilarity
    width: float
    key: str | None
    factored: FactoredProblem | None = None


@dataclass(frozen=True)
class Solution:
    """Predictor, confidences and the trace of the objective."""

    low_rank: LowRankFit
    state: Any
    objective: FloatArray
    n_iter: int


class StepsInMemory(Steps):
    """The steps for rows in memory; `confidence`: those to start from, otherwise equal ones."""

    def __init__(
        self, data: Prepared, *, row_sum: str, beta: float, row_sum_weight: float, confidence: FloatArray | None = None
    ) -> None:
        super().__init__(row_sum)
        penalty = row_sum_weight if row_sum == "penalty" else 0.0
        self.data, self._start = data, confidence
        self.problem = ConfidenceProblem(data.Y, data.weight, data.similarity, beta, penalty)

    @property
    def basis(self) -> RowBasis:
        """Coordinates of the predictor."""
        return self.data.basis

    def start(self) -> ConfidenceState:
        """Return the state of the first confidences."""
        return self._state(self.problem.uniform() if self._start is None else self._start)

    def _state(self, confidence: FloatArray) -> ConfidenceState:
        return self.problem.state(confidence)

    def value(self, state: ConfidenceState, fitted: Fitted | None) -> float:
        """Return the objective without the nuclear norm."""
        return self.problem.value(state, fitted)

    def _gradient(self, state: ConfidenceState, fitted: Fitted | None) -> tuple[FloatArray, FloatArray]:
        return self.problem.gradient_parts(state, fitted)

    def _multiplied(self, state: ConfidenceState, gradient: Any, power: float) -> FloatArray:
        return multiplied(state, gradient, power=power)

    def _projected(self, state: ConfidenceState, gradient: Any, step: float) -> FloatArray:
        return projected(self.data.Y, state, gradient, step=step)

    def _change(self, state: ConfidenceState, gradient: Any, moved: FloatArray) -> tuple[int, float, float]:
        change, weight = moved - state.confidence, self.problem.cell_weight
        along = float(weight @ ((gradient[1] - gradient[0]) * change))
        return int(np.count_nonzero(change)), along, float(weight @ change**2)

    def mean_confidence(self, state: ConfidenceState) -> FloatArray:
        """Return the mean confidence per label if there is an intercept, else zeros."""
        n_labels = self.data.Y.shape[1]
        if not self.data.intercept:
            return np.zeros(n_labels)
        weights = self.problem.cell_weight * state.confidence
        total = np.bincount(self.data.Y.indices, weights=weights, minlength=n_labels)
        return np.asarray(total / self.data.weight.sum())

    def target(self, state: ConfidenceState) -> tuple[FloatArray, float]:
        """Return the confidences, projected on the basis, and the squared norm of what the linear part fits."""
        weight, mean = self.data.weight, self.mean_confidence(state)
        norm2 = float(weight @ state.row_norm2 - weight.sum() * (mean @ mean))
        return self.basis.project(self.problem.matrix(state.confidence)), norm2

    def fitted(self, low_rank: LowRankFit, state: ConfidenceState) -> Fitted:
        """Return the predictions for the training rows."""
        data, mean = self.data, self.mean_confidence(state)
        # Centred features: the linear part and the mean are orthogonal.
        norm2 = float(np.vdot(low_rank.solution, self.basis.gram(low_rank.solution)))
        norm2 += float(data.weight.sum() * (mean @ mean))
        if isinstance(self.basis, FactoredBasis):
            cells = cells_of_thin_product(self.basis.rotated, low_rank.solution, data.Y)
            return Fitted(cells + mean[data.Y.indices], norm2)
        coefficients, intercept = self.coefficients(low_rank, state)
        return Fitted(cells_of_product(data.X, coefficients, data.Y) + intercept[data.Y.indices], norm2)


def alternate(
    steps: Steps,
    *,
    alpha: float,
    joint: bool,
    max_iter: int,
    tol: float,
    w_tol: float,
    stop: Callable[[], bool],
    start: LowRankFit | None = None,
) -> Solution:
    """Alternate predictor and confidences; the objective never increases.

    See :class:`pmlkit.PMLLFC`; alpha is on the scale of the objective. `stop`: called after every iteration; True ends
    them. `start`: the predictor of an earlier problem on the same data.
    """
    state = steps.start()

    def predictor(state: Any, start: LowRankFit | None, tol: float) -> LowRankFit:
        return fit_low_rank(steps.basis, *steps.target(state), alpha, start=start, tol=tol)

    if not joint:
        return _solve_apart(steps, state, predictor, max_iter, tol, w_tol, stop)
    low_rank = predictor(state, start, _rough(w_tol, 1.0))
    fitted = steps.fitted(low_rank, state)
    trace = [steps.value(state, fitted) + alpha * low_rank.nuclear_norm]
    for n_iter in range(1, max_iter + 1):
        state = steps.improve(state, fitted)
        after_confidences = steps.value(state, fitted) + alpha * low_rank.nuclear_norm
        change = abs(trace[-1] - after_confidences) / max(abs(trace[-1]), np.finfo(float).tiny)
        last = stop() or n_iter == max_iter or change <= tol
        refitted = predictor(state, low_rank, w_tol if last else _rough(w_tol, change))
        new_fitted = steps.fitted(refitted, state)
        after_predictor = steps.value(state, new_fitted) + alpha * refitted.nuclear_norm
        if after_predictor <= after_confidences:
            low_rank, fitted = refitted, new_fitted
        trace += [after_confidences, min(after_predictor, after_confidences)]
        if last:
            break
    return Solution(low_rank, state, np.asarray(trace), n_iter)


def refined(steps: StepsInMemory, solution: Solution, *, alpha: float, w_tol: float) -> Solution:
    """Improve a factored predictor's basis for the final confidences, and certify it for the whole problem."""
    problem, basis = steps.data.factored, steps.basis
    assert problem is not None
    assert isinstance(basis, FactoredBasis)
    P = steps.problem.matrix(solution.state.confidence)
    norm2 = steps.target(solution.state)[1]
    for _ in range(_REFINEMENTS):
        better = problem.refreshed(basis, solution.low_rank, P, alpha)
        low_rank = fit_low_rank(better, better.project(P), norm2, alpha, tol=w_tol)
        gain = solution.low_rank.objective - low_rank.objective
        if gain <= 0.0:
            break
        objective = np.append(solution.objective, solution.objective[-1] - gain)
        basis, solution = better, replace(solution, low_rank=low_rank, objective=objective)
        if gain <= 1e-4 * low_rank.objective:
            break
    steps.data = replace(steps.data, basis=basis)
    gap = problem.gap(basis, solution.low_rank, P, norm2, alpha)
    return replace(solution, low_rank=replace(solution.low_rank, gap=gap))


def _solve_apart(
    steps: Steps,
    state: Any,
    predictor: Callable[[Any, LowRankFit | None, float], LowRankFit],
    max_iter: int,
    tol: float,
    w_tol: float,
    stop: Callable[[], bool],
) -> Solution:
    """Run the ablation nJ: first the confidences without a predictor, then the predictor."""
    trace = [steps.value(state, None)]
    while len(trace) <= max_iter:
        state = steps.improve(state, None)
        trace.append(steps.value(state, None))
        if stop() or abs(trace[-2] - trace[-1]) <= tol * abs(trace[-2]):
            break
    return Solution(predictor(state, None, w_tol), state, np.asarray(trace), len(trace) - 1)


def _rough(w_tol: float, change: float) -> float:
    """Return the tolerance before the last step: while the confidences still change, a rough predictor is enough."""
    return min(1e-2, w_tol * max(100.0, 10_000.0 * change))
