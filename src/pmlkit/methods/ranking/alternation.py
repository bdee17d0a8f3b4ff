"""What the methods that learn from pairs of labels have in common."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from pmlkit._arrays import row_of_cells
from pmlkit._typing import CSR, BoolArray, Features, FloatArray
from pmlkit.exceptions import PMLWarning
from pmlkit.methods.base import BasePML, Learned
from pmlkit.methods.progress import Progress
from pmlkit.methods.ranking.hinge import candidate_cost
from pmlkit.methods.ranking.solver import RankingSolution, solve_ranking_svm
from pmlkit.numerics.centered import CenteredRows, centered_rows
from pmlkit.numerics.scaling import Normalize, column_scale, scaled

__all__ = [
    "Alternation",
    "ConfidenceRanker",
    "ConfidenceTerm",
    "LinearRanker",
    "alternate",
    "candidate_indicator",
]

_ROUGH_GAP = 0.01  # relative duality gap of a model whose confidences still change
_SETTLED = 1e-3  # change of a confidence that is not worth another model
_MAX_STEPS = 500  # solver iterations of one model


def candidate_indicator(Y: CSR) -> BoolArray:
    """Return the candidates as a dense indicator; warn where they leave nothing to rank.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.methods.ranking.alternation import candidate_indicator
    >>> candidate_indicator(sparse.csr_array(np.array([[1.0, 0.0]])))
    array([[ True, False]])
    """
    is_candidate = np.asarray(Y.toarray() > 0)
    if is_candidate.all():
        warnings.warn(
            "Every label is a candidate of every row: there is nothing to rank, and all scores are equal.",
            PMLWarning,
            stacklevel=2,
        )
    return is_candidate


class LinearRanker(BasePML):
    """Base of methods that rank labels by linear scores with an intercept."""

    normalize: Normalize
    tol: float
    max_iter: int

    _natural_cut: ClassVar[float] = 0.0
    _one_label_as_two: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BasePML._parameter_constraints,
        "normalize": [StrOptions({"unit", "standard"}), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def _n_tasks(self, Y: CSR) -> int:
        return int(self.max_iter)

    def _scaled_training_rows(self, X: Features) -> Any:
        self._scale = column_scale(X) if self.normalize == "standard" else None
        return self._scaled(X)

    def _scaled(self, X: Features) -> Any:
        return scaled(X, self.normalize, self._scale).astype(np.float64, copy=False)

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


class ConfidenceTerm(Protocol):
    """What a method asks of the confidences, beyond a small loss."""

    def penalty(self, confidence: FloatArray) -> float:
        """Return R(P)."""

    def minimizer(self, confidence: FloatArray, cost: FloatArray) -> FloatArray:
        """Return the P with the smallest ``(P * cost).sum() + R(P)``, given the present confidences."""


@dataclass(frozen=True)
class Alternation:
    """What :func:`alternate` found.

    Attributes
    ----------
    solution : RankingSolution
    confidence : array of shape (n_rows, n_labels)
    objective : array of shape (2 * n_iter + 1,)
        The objective after the first model, and then after every confidence step and every model.
    n_iter : int
        Confidence steps taken.
    """

    solution: RankingSolution
    confidence: FloatArray
    objective: FloatArray
    n_iter: int


def alternate(
    features: CenteredRows,
    is_candidate: BoolArray,
    weight: FloatArray,
    term: ConfidenceTerm,
    *,
    tol: float = 1e-4,
    max_iter: int = 10,
    on_iteration: Callable[[], bool] = lambda: False,
) -> Alternation:
    r"""Minimise over a linear model and over confidences in turn, starting with confidence one.

    .. math::

        \min_{W, P} \; \tfrac12 \|W\|_F^2 + \sum_i \sum_{j \in S_i} u_{ij}\, p_{ij} \sum_{k \notin S_i} \xi_{ijk} + R(P)

    Parameters
    ----------
    features : CenteredRows
    is_candidate : bool array of shape (n_rows, n_labels)
    weight : array of shape (n_rows, n_labels)
        The weight u of a candidate's pairs when its confidence is one; 0 off the candidates.
    term : ConfidenceTerm
        The term R, and how to minimise over P for given costs of the candidates.
    tol : float, default=1e-4
        Relative duality gap of the last model. Models on the way are rougher, but never
        worse than the one before.
    max_iter : int, default=10
        Confidence steps at the most; fewer when the confidences settle.
    on_iteration : callable, optional
        Called after each iteration; stop when it returns True.
    """

    def fitted(weight: FloatArray, tol: float, start: RankingSolution | None = None) -> RankingSolution:
        return solve_ranking_svm(features, is_candidate, weight, tol=tol, max_iter=_MAX_STEPS, start=start)

    rough = max(tol, _ROUGH_GAP)
    confidence: FloatArray = is_candidate.astype(np.float64)
    solution = fitted(weight, rough)
    objective = [solution.objective[-1] + term.penalty(confidence)]
    for n_iter in range(1, max_iter + 1):
        last = confidence
        cost = weight * candidate_cost(solution.scores, is_candidate)
        confidence = term.minimizer(last, cost)
        penalty = term.penalty(confidence)
        size = 0.5 * float(np.vdot(solution.coef, solution.coef))
        objective.append(size + float(np.vdot(confidence, cost)) + penalty)
        stop = on_iteration() or n_iter == max_iter or bool(np.abs(confidence - last).max() <= _SETTLED)
        solution = fitted(weight * confidence, tol if stop else rough, solution)
        objective.append(solution.objective[-1] + penalty)
        if stop:
            break
    return Alternation(solution, confidence, np.asarray(objective), n_iter)


class ConfidenceRanker(LinearRanker):
    """Base of methods that learn a linear ranking and the confidences of its pairs in turn."""

    C1: float
    C2: float
    C3: float
    pair_average: bool

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearRanker._parameter_constraints,
        "C1": [Interval(Real, 0, None, closed="neither")],
        "C2": [Interval(Real, 0, None, closed="left")],
        "C3": [Interval(Real, 0, None, closed="left")],
        "pair_average": ["boolean"],
    }

    @abstractmethod
    def _term(self, X: Features, is_candidate: BoolArray) -> ConfidenceTerm:
        """Return the term R(P)."""

    def _fit(self, X: Features, Y: CSR, progress: Progress) -> Learned:
        X = self._scaled_training_rows(X)
        is_candidate = candidate_indicator(Y)
        n_others = (~is_candidate).sum(axis=1, keepdims=True)
        per_pair = self.C1 / np.maximum(n_others, 1) if self.pair_average else self.C1
        features = centered_rows(X)
        found = alternate(
            features,
            is_candidate,
            per_pair * is_candidate,
            self._term(X, is_candidate),
            tol=self.tol,
            max_iter=self.max_iter,
            on_iteration=lambda: progress.step("confidences"),
        )
        self.coef_ = np.ascontiguousarray(self._keep_solution(features, found.solution, _MAX_STEPS).T)
        row = row_of_cells(Y)
        scores = np.asarray(X @ self.coef_.T + self.intercept_)
        return Learned(found.confidence[row, Y.indices], scores, objective=found.objective, n_iter=found.n_iter)

    def _scores(self, X: Features) -> FloatArray:
        return np.asarray(self._scaled(X) @ self.coef_.T + self.intercept_)
