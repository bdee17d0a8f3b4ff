"""What the methods that learn from pairs of labels have in common."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from pmlkit._typing import CSR, BoolArray, Features, FloatArray
from pmlkit.exceptions import PMLWarning
from pmlkit.methods.base import Learned
from pmlkit.methods.linear import LinearMethod
from pmlkit.methods.progress import Progress
from pmlkit.methods.ranking.solver import RankingSolution, solve_ranking_svm
from pmlkit.numerics.products import cells_at
from pmlkit.numerics.spectral import CenteredRows, centered_rows

_ROUGH_GAP = 0.01  # relative duality gap of a model whose confidences still change
_SETTLED = 1e-3  # change of a confidence that is not worth another model
_MAX_STEPS = 500  # solver iterations of one model


def candidate_indicator(Y: CSR) -> BoolArray:
    """Return the candidates as a dense indicator; warn where they leave nothing to rank."""
    is_candidate = np.asarray(Y.toarray() > 0)
    if is_candidate.all():
        warnings.warn(
            "Every label is a candidate of every row: there is nothing to rank, and all scores are equal.",
            PMLWarning,
            stacklevel=2,
        )
    return is_candidate


class LinearRanker(LinearMethod):
    """Base of methods that rank labels by linear scores with an intercept."""

    tol: float

    _natural_cut: ClassVar[float] = 0.0
    _one_label_as_two: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearMethod._parameter_constraints,
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    def _keep_solution(self, features: CenteredRows, solution: RankingSolution, max_steps: int) -> FloatArray:
        """Keep intercepts and duality gap; return the coefficients, of shape (n_features, n_labels)."""
        if solution.gap > self.tol and len(solution.objective) > max_steps:
            warnings.warn(
                f"{type(self).__name__} stopped after {max_steps} iterations of its solver with a relative duality gap "
                f"of {solution.gap:.1e} (tol={self.tol:g}). Scale the features (normalize=) or weigh the loss less.",
                PMLWarning,
                stacklevel=2,
            )
        self.duality_gap_ = solution.gap
        coef, intercept = features.as_given(solution.coef, solution.intercept)
        # Adding one number to all intercepts changes no ranking: that number is free.
        self.intercept_ = intercept - intercept.mean()
        return coef


class ConfidenceProblem(Protocol):
    """A ranking loss weighted by confidences, and what else a method asks of the confidences."""

    def pairs(self, confidence: FloatArray) -> tuple[BoolArray, FloatArray]:
        """Return the positive labels and the weight of each positive's pairs, for given confidences."""

    def chosen(self, confidence: FloatArray, scores: FloatArray) -> FloatArray:
        """Return the best confidences for the scores of a model; `confidence` are the present ones."""

    def objective(self, model_value: float, confidence: FloatArray) -> float:
        """Return the whole objective; `model_value` is half the squared coefficients plus the weighted loss."""


@dataclass(frozen=True)
class Alternation:
    """What :func:`alternate` found.

    `objective` (n_iter + 1,): the objective after each model. `n_iter`: confidence steps taken.
    """

    solution: RankingSolution
    confidence: FloatArray
    objective: FloatArray
    n_iter: int


def alternate(
    features: CenteredRows,
    is_candidate: BoolArray,
    problem: ConfidenceProblem,
    *,
    tol: float = 1e-4,
    max_iter: int = 10,
    on_iteration: Callable[[], bool] = lambda: False,
) -> Alternation:
    """Learn a linear model and confidences in turn, starting with confidence one for every candidate.

    - `tol`: relative duality gap of the last model. Earlier models are solved less exactly, but are never worse than
      the one they start from.
    - `max_iter`: maximum number of confidence steps; fewer when the confidences or the objective settle.
    """

    def fitted(confidence: FloatArray, tol: float, start: RankingSolution | None = None) -> RankingSolution:
        positive, weight = problem.pairs(confidence)
        return solve_ranking_svm(features, positive, weight, tol=tol, max_iter=_MAX_STEPS, start=start)

    rough = max(tol, _ROUGH_GAP)
    confidence: FloatArray = is_candidate.astype(np.float64)
    solution = fitted(confidence, rough)
    objective = [problem.objective(solution.objective[-1], confidence)]
    for n_iter in range(1, max_iter + 1):
        last, confidence = confidence, problem.chosen(confidence, solution.scores)
        settled = bool(np.abs(confidence - last).max() <= _SETTLED)
        if n_iter > 2:
            settled |= bool(abs(objective[-1] - objective[-2]) <= tol * abs(objective[-1]))
        stop = on_iteration() or n_iter == max_iter or settled
        solution = fitted(confidence, tol if stop else rough, solution)
        objective.append(problem.objective(solution.objective[-1], confidence))
        if stop:
            break
    return Alternation(solution, confidence, np.asarray(objective), n_iter)


class ConfidenceRanker(LinearRanker):
    """Base of methods that learn a linear ranking and the confidences of its pairs in turn."""

    C1: float
    variant: Literal["printed", "convex"]
    reward: float

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearRanker._parameter_constraints,
        "C1": [Interval(Real, 0, None, closed="neither")],
        "variant": [StrOptions({"printed", "convex"})],
        "reward": [Interval(Real, 0, None, closed="left")],
    }

    @abstractmethod
    def _problem(self, X: Features, is_candidate: BoolArray) -> ConfidenceProblem:
        """Return the problem that the parameters describe."""

    def _fit(self, X: Features, Y: CSR, progress: Progress) -> Learned:
        X = self._scaled_training_rows(X)
        is_candidate = candidate_indicator(Y)
        features = centered_rows(X)
        found = alternate(
            features,
            is_candidate,
            self._problem(X, is_candidate),
            tol=self.tol,
            max_iter=self.max_iter,
            on_iteration=lambda: progress.step("confidences"),
        )
        self.coef_ = np.ascontiguousarray(self._keep_solution(features, found.solution, _MAX_STEPS).T)
        scores = np.asarray(X @ self.coef_.T + self.intercept_)
        return Learned(cells_at(found.confidence, Y), scores, objective=found.objective, n_iter=found.n_iter)
