"""Algorithm 1 of the PML-LFC paper: alternate confidences and predictor; the objective never increases."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pmlkit._typing import CSR, Features, FloatArray
from pmlkit.methods.pml_lfc.basis import Basis
from pmlkit.methods.pml_lfc.confidence_step import (
    ConfidenceProblem,
    ConfidenceState,
    Fitted,
    multiplicative_step,
    projected_step,
)
from pmlkit.methods.pml_lfc.predictor_step import LowRankFit, fit_low_rank
from pmlkit.methods.pml_lfc.similarity import RowSimilarity
from pmlkit.numerics.products import cells_of_product

__all__ = ["Prepared", "Solution", "coefficients_of", "solve"]


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
    """

    X: Features
    Y: CSR
    weight: FloatArray
    basis: Basis
    intercept: bool
    similarity: RowSimilarity
    width: float
    key: str | None


@dataclass(frozen=True)
class Solution:
    """Predictor, confidences and the trace of the objective."""

    low_rank: LowRankFit
    state: ConfidenceState
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
    state = problem.state(problem.uniform() if start is None else start[1])
    step = 1.0

    def improve(state: ConfidenceState, fitted: Fitted | None) -> ConfidenceState:
        nonlocal step
        if row_sum == "penalty":
            return multiplicative_step(problem, state, fitted)
        state, step = projected_step(problem, state, fitted, 2.0 * step)
        return state

    def predictor(state: ConfidenceState, start: LowRankFit | None, tol: float) -> LowRankFit:
        target = data.basis.project(problem.matrix(state.confidence))
        mean = _mean_confidence(data, state)
        norm2 = float(data.weight @ state.row_norm2 - data.weight.sum() * (mean @ mean))
        return fit_low_rank(data.basis, target, norm2, alpha, start=start, tol=tol)

    if not joint:
        return _solve_apart(improve, problem, state, predictor, max_iter, tol, w_tol, stop)
    low_rank = predictor(state, None if start is None else start[0], _rough(w_tol, 1.0))
    fitted = _fitted(data, low_rank, state)
    trace = [problem.value(state, fitted) + alpha * low_rank.nuclear_norm]
    for n_iter in range(1, max_iter + 1):
        state = improve(state, fitted)
        after_confidences = problem.value(state, fitted) + alpha * low_rank.nuclear_norm
        change = abs(trace[-1] - after_confidences) / max(abs(trace[-1]), np.finfo(float).tiny)
        last = stop() or n_iter == max_iter or change <= tol
        refitted = predictor(state, low_rank, w_tol if last else _rough(w_tol, change))
        new_fitted = _fitted(data, refitted, state)
        after_predictor = problem.value(state, new_fitted) + alpha * refitted.nuclear_norm
        if after_predictor <= after_confidences:
            low_rank, fitted = refitted, new_fitted
        trace += [after_confidences, min(after_predictor, after_confidences)]
        if last:
            break
    return Solution(low_rank, state, np.asarray(trace), n_iter)


def _solve_apart(
    improve: Callable[[ConfidenceState, Fitted | None], ConfidenceState],
    problem: ConfidenceProblem,
    state: ConfidenceState,
    predictor: Callable[[ConfidenceState, LowRankFit | None, float], LowRankFit],
    max_iter: int,
    tol: float,
    w_tol: float,
    stop: Callable[[], bool],
) -> Solution:
    """Run the ablation nJ: first the confidences without a predictor, then the predictor."""
    trace = [problem.value(state, None)]
    while len(trace) <= max_iter:
        state = improve(state, None)
        trace.append(problem.value(state, None))
        if stop() or abs(trace[-2] - trace[-1]) <= tol * abs(trace[-2]):
            break
    return Solution(predictor(state, None, w_tol), state, np.asarray(trace), len(trace) - 1)


def _rough(w_tol: float, change: float) -> float:
    """Return the tolerance before the last step: while the confidences still change, a rough predictor is enough."""
    return min(1e-2, w_tol * max(100.0, 10_000.0 * change))


def _mean_confidence(data: Prepared, state: ConfidenceState) -> FloatArray:
    """Return the mean confidence per label if there is an intercept, else zeros."""
    if not data.intercept:
        return np.zeros(data.Y.shape[1])
    cell_weight = np.repeat(data.weight, np.diff(data.Y.indptr))
    total = np.bincount(data.Y.indices, weights=cell_weight * state.confidence, minlength=data.Y.shape[1])
    return np.asarray(total / data.weight.sum())


def _fitted(data: Prepared, low_rank: LowRankFit, state: ConfidenceState) -> Fitted:
    coefficients, intercept = coefficients_of(data, low_rank, state)
    mean = _mean_confidence(data, state)
    # Centred features: the linear part and the mean are orthogonal.
    norm2 = float(np.vdot(low_rank.solution, data.basis.gram(low_rank.solution)))
    norm2 += float(data.weight.sum() * (mean @ mean))
    return Fitted(cells_of_product(data.X, coefficients, data.Y) + intercept[data.Y.indices], norm2)


def coefficients_of(data: Prepared, low_rank: LowRankFit, state: ConfidenceState) -> tuple[FloatArray, FloatArray]:
    """Return coefficients and intercepts in the features' coordinates."""
    coefficients = data.basis.coefficients(low_rank.solution)
    return coefficients, _mean_confidence(data, state) - data.basis.mean @ coefficients
