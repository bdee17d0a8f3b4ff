"""Algorithm 1 of the PML-LFC paper: alternate confidences and predictor; the objective never increases."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from pmlkit._typing import CSR, Features, FloatArray
from pmlkit.methods.pml_lfc.basis import Basis
from pmlkit.methods.pml_lfc.confidence_step import (
    ConfidenceProblem,
    ConfidenceState,
    Fitted,
    multiplicative_step,
    projected_step,
)
from pmlkit.methods.pml_lfc.factored import FactoredProblem
from pmlkit.methods.pml_lfc.predictor_step import LowRankFit, fit_low_rank
from pmlkit.methods.pml_lfc.similarity import RowSimilarity
from pmlkit.numerics.products import cells_of_product, cells_of_thin_product

_REFINEMENTS = 2


@dataclass(frozen=True)
class Prepared:
    """Data and everything computed from them that does not depend on alpha, beta and lambda.

    Attributes
    ----------
    X, Y : features and candidates
    weight : array of shape (n_samples,)
    basis : Basis
    intercept : bool
        Whether labels have a constant; the basis is then that of the centred features.
    similarity : RowSimilarity
    width : float
        Of the kernel.
    key : str, optional
        Hash of the data and parameters it was computed from.
    factored : FactoredProblem, optional
        Where the predictor is sought in factored form: the basis is then of its making.
    """

    X: Features
    Y: CSR
    weight: FloatArray
    basis: Basis
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


def solve(
    data: Prepared,
    *,
    alpha: float,
    beta: float,
    row_sum_weight: float,
    row_sum: str,
    joint: bool,
    max_iter: int,
    tol: float,
    w_tol: float,
    stop: Callable[[], bool],
    start: tuple[LowRankFit, FloatArray] | None = None,
) -> Solution:
    """Alternate predictor and confidences; the objective never increases.

    Parameters
    ----------
    data : Prepared
    alpha, beta, row_sum_weight, row_sum, joint, max_iter, tol, w_tol
        See :class:`pmlkit.PMLLFC`; alpha and beta on the scale of the objective.
    stop : callable
        Called after every iteration; True ends the iterations.
    start : tuple, optional
        A solution and confidences of an earlier problem on the same data.
    """
    problem = ConfidenceProblem(
        data.Y, data.weight, data.similarity, beta, row_sum_weight if row_sum == "penalty" else 0.0
    )
    steps = _InMemory(data, problem, row_sum, None if start is None else start[1])
    options: dict[str, Any] = {"alpha": alpha, "joint": joint, "max_iter": max_iter, "tol": tol, "w_tol": w_tol}
    return alternate(steps, data.basis, start=None if start is None else start[0], stop=stop, **options)


class Steps(Protocol):
    """The steps of the alternation, for rows in memory and in blocks; states and fitted values are their own."""

    def start(self) -> Any:
        """Return the state of the first confidences."""

    def improve(self, state: Any, fitted: Any) -> Any:
        """Return the state after a step of the confidences."""

    def value(self, state: Any, fitted: Any) -> float:
        """Return the objective without the nuclear norm."""

    def target(self, state: Any) -> tuple[FloatArray, float]:
        """Return the confidences, projected on the basis, and the squared norm of what the linear part fits."""

    def fitted(self, low_rank: LowRankFit, state: Any) -> Any:
        """Return the predictions for the training rows."""


class _InMemory:
    """The steps for rows in memory."""

    def __init__(self, data: Prepared, problem: ConfidenceProblem, row_sum: str, confidence: FloatArray | None) -> None:
        self.data, self.problem, self.row_sum, self.confidence = data, problem, row_sum, confidence
        self.step = 1.0

    def start(self) -> ConfidenceState:
        return self.problem.state(self.problem.uniform() if self.confidence is None else self.confidence)

    def improve(self, state: ConfidenceState, fitted: Fitted | None) -> ConfidenceState:
        if self.row_sum == "penalty":
            return multiplicative_step(self.problem, state, fitted)
        state, self.step = projected_step(self.problem, state, fitted, 2.0 * self.step)
        return state

    def value(self, state: ConfidenceState, fitted: Fitted | None) -> float:
        return self.problem.value(state, fitted)

    def target(self, state: ConfidenceState) -> tuple[FloatArray, float]:
        projected = self.data.basis.project(self.problem.matrix(state.confidence))
        return projected, target_norm2(self.data, state)

    def fitted(self, low_rank: LowRankFit, state: ConfidenceState) -> Fitted:
        return _fitted(self.data, low_rank, state)


def alternate(
    steps: Steps,
    basis: Basis,
    *,
    alpha: float,
    joint: bool,
    max_iter: int,
    tol: float,
    w_tol: float,
    stop: Callable[[], bool],
    start: LowRankFit | None = None,
) -> Solution:
    """Alternate the steps; see `solve`."""
    state = steps.start()

    def predictor(state: Any, start: LowRankFit | None, tol: float) -> LowRankFit:
        return fit_low_rank(basis, *steps.target(state), alpha, start=start, tol=tol)

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


def refined(data: Prepared, solution: Solution, *, alpha: float, w_tol: float) -> tuple[Prepared, Solution]:
    """Improve a factored predictor's basis for the final confidences, and certify it for the whole problem."""
    problem = data.factored
    assert problem is not None
    P = sparse.csr_array((solution.state.confidence, data.Y.indices, data.Y.indptr), shape=data.Y.shape)
    norm2 = target_norm2(data, solution.state)
    for _ in range(_REFINEMENTS):
        basis = problem.refreshed(data.basis, solution.low_rank, P, alpha)
        low_rank = fit_low_rank(basis, basis.project(P), norm2, alpha, tol=w_tol)
        gain = solution.low_rank.objective - low_rank.objective
        if gain <= 0.0:
            break
        objective = np.append(solution.objective, solution.objective[-1] - gain)
        data, solution = replace(data, basis=basis), replace(solution, low_rank=low_rank, objective=objective)
        if gain <= 1e-4 * low_rank.objective:
            break
    gap = problem.gap(data.basis, solution.low_rank, P, norm2, alpha)
    return data, replace(solution, low_rank=replace(solution.low_rank, gap=gap))


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


def mean_confidence(data: Prepared, state: ConfidenceState) -> FloatArray:
    """Return the mean confidence per label if there is an intercept, else zeros."""
    if not data.intercept:
        return np.zeros(data.Y.shape[1])
    cell_weight = np.repeat(data.weight, np.diff(data.Y.indptr))
    total = np.bincount(data.Y.indices, weights=cell_weight * state.confidence, minlength=data.Y.shape[1])
    return np.asarray(total / data.weight.sum())


def target_norm2(data: Prepared, state: ConfidenceState) -> float:
    """Return the squared norm of what the linear part has to fit."""
    mean = mean_confidence(data, state)
    return float(data.weight @ state.row_norm2 - data.weight.sum() * (mean @ mean))


def _fitted(data: Prepared, low_rank: LowRankFit, state: ConfidenceState) -> Fitted:
    mean = mean_confidence(data, state)
    # Centred features: the linear part and the mean are orthogonal.
    norm2 = float(np.vdot(low_rank.solution, data.basis.gram(low_rank.solution)))
    norm2 += float(data.weight.sum() * (mean @ mean))
    if data.basis.rotated is not None:
        cells = cells_of_thin_product(data.basis.rotated, low_rank.solution, data.Y)
        return Fitted(cells + mean[data.Y.indices], norm2)
    coefficients, intercept = coefficients_of(data, low_rank, state)
    return Fitted(cells_of_product(data.X, coefficients, data.Y) + intercept[data.Y.indices], norm2)


def coefficients_of(data: Prepared, low_rank: LowRankFit, state: ConfidenceState) -> tuple[FloatArray, FloatArray]:
    """Return coefficients and intercepts in the features' coordinates."""
    coefficients = data.basis.coefficients(low_rank.solution)
    return coefficients, mean_confidence(data, state) - data.basis.mean @ coefficients
