"""ClearPML: candidates judged by evidence that did not see them, and a predictor that learns from the judgement."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from pmlkit._typing import CSR, BoolArray, Features, FloatArray
from pmlkit.methods.base import BasePML, Learned, labelled_rows
from pmlkit.methods.progress import Progress
from pmlkit.numerics.candidate_noise import at_least_one_true, noise_floor, rescaled, true_probabilities
from pmlkit.numerics.held_out_ridge import HeldOutRidge, ridge_system, search_regularization
from pmlkit.numerics.landmarks import LandmarkKernel, mean_distance_between, sample_by_content
from pmlkit.numerics.links import Links, fit_links
from pmlkit.numerics.views import View, fit_view, possible_weightings

__all__ = ["ClearPML"]

logger = logging.getLogger(__name__)

KEPT = 0.5  # of the candidates in the predictor's target, whatever the judgement
COMPETITION = {"several": 0.8, "single": 1.0}
_SURE, _WORTH = 3.0, 0.01  # standard errors, and share of rows, by which "single" must win
_FEW = 2.0  # true labels a row, by the confidences, up to which "single" is tried
_ROWS_TO_TRY = 500  # whose errors decide on the weights of features and on the penalty
_ROWS_TO_LINK = 50_000
_CELLS_IN_DOUBLE = 50_000_000  # of the kernel, beyond which it is kept in single precision
_CELLS = 400_000_000  # of the kernel; with more rows there are fewer landmarks

Mode = Literal["several", "single"]


@dataclass(frozen=True)
class _Evidence:
    """A model of one target, and what it says of training rows without having seen their labels."""

    probability: FloatArray
    model: tuple[FloatArray, FloatArray]
    links: Links


@dataclass(frozen=True)
class _Judgement:
    """Confidences, and the evidence of the predictor that learned from them."""

    confidence: FloatArray
    evidence: _Evidence
    cardinality: float


class ClearPML(BasePML):
    r"""ClearPML: judge every candidate by evidence that did not see it, then learn from the judgement.

    The method to start with. Kernel ridge regression on landmarks scores every row by the model of all *other* rows
    (exact leave-one-out, at the price of one fit); a logistic curve a label turns scores into probabilities. What
    they say about the candidates, against the rate at which labels become candidates without being true, gives each
    candidate its confidence; a second round learns from the confidences, and the predictor from both.

    Parameters
    ----------
    n_landmarks : int, default=1000
        Rows that span the kernel's functions. With so many rows or fewer it is exact. With millions of
        rows there are fewer, so that the kernel fits into memory.
    mode : {"auto", "several", "single"}, default="auto"
        Whether a row may have several true labels or has exactly one. "auto" takes "single" only where
        it makes the held-out best label a candidate clearly more often.
    threshold : {"hamming", "f1", "cardinality", "at_least_one", "size"} or float, default="hamming"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`. "hamming" makes the fewest
        errors and leaves doubtful rows without a label, "f1" gives each row at least one.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_rows, n_labels)
        How likely each candidate is true, by evidence that did not see the row's candidates.
    noise_rate_ : array of shape (n_labels,)
        The share of each label's candidates that are false, by the confidences.
    noise_floor_ : float
        The estimated chance that a label which is not true is a candidate all the same.
    mode_ : {"several", "single"}
    weighting_ : {"standard", "unit", "log", "idf"}
        How features are weighed, see :func:`pmlkit.numerics.views.fit_view`: the one with the smaller held-out error.
    regularization_ : float
        The ridge penalty with the smallest held-out error.
    loo_scores_ : array of shape (n_rows, n_labels)
        The predictor's scores of the training rows, each made without the row itself; 0 for unlabelled rows.
    dual_coef_ : array of shape (n_landmarks, n_labels)
    intercept_ : array of shape (n_labels,)
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    Rows without candidates take part as landmarks and in the weights of the features, and they tell that a row
    need not have a true label; they have no other influence.

    Noise that depends on the features in the same way as the truth cannot be told from it, by this or any
    method; see docs/methods/clear-pml.md.

    Examples
    --------
    >>> from pmlkit import ClearPML
    >>> from pmlkit.data import load_digit_strips
    >>> from pmlkit.metrics import cleaning_auc
    >>> strips = load_digit_strips(300, random_state=0)
    >>> model = ClearPML().fit(strips.X, strips.Y)
    >>> bool(cleaning_auc(strips.truth, strips.Y, model.label_confidence_) > 0.85)
    True
    """

    _uses_unlabelled: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BasePML._parameter_constraints,
        "n_landmarks": [Interval(Integral, 2, None, closed="left")],
        "mode": [StrOptions({"auto", "several", "single"})],
    }

    def __init__(
        self,
        *,
        n_landmarks: int = 1000,
        mode: Literal["auto", "several", "single"] = "auto",
        threshold: str | float = "hamming",
    ) -> None:
        self.n_landmarks = n_landmarks
        self.mode = mode
        self.threshold = threshold

    def _n_tasks(self, Y: CSR) -> int:
        return 4

    def _fit(self, X: Features, Y: CSR, progress: Progress) -> Learned:
        is_labelled = labelled_rows(Y)
        all_labelled = bool(is_labelled.all())
        is_candidate = np.asarray((Y if all_labelled else Y[is_labelled]).toarray() > 0)
        self._view, self._kernel, ridge = self._choose_features(X, is_labelled, is_candidate)
        progress.step("features")
        first = _evidence(ridge, is_candidate.astype(ridge.design.dtype))
        self.noise_floor_ = noise_floor(first.probability, is_candidate)
        progress.step("evidence")
        can_condition = bool(is_candidate.any(axis=1).all()) and all_labelled

        def judge(mode: Mode) -> _Judgement:
            return _judge(ridge, is_candidate, first, self.noise_floor_, mode, can_condition)

        if self.mode == "auto":
            self.mode_, judged = self._choose_mode(judge, is_candidate, can_condition)
        else:
            self.mode_, judged = self.mode, judge(self.mode)
        progress.step("judgement")
        evidence = judged.evidence
        self.intercept_, self.dual_coef_ = ridge.on_kernel(evidence.model)
        self._links = evidence.links
        scores = np.zeros(Y.shape)
        scores[is_labelled] = evidence.probability
        self.loo_scores_ = scores
        row = np.repeat(np.cumsum(is_labelled) - 1, np.diff(Y.indptr))
        confidence = judged.confidence[row, Y.indices]
        n_candidates = np.bincount(Y.indices, minlength=Y.shape[1])
        n_true = np.bincount(Y.indices, weights=confidence, minlength=Y.shape[1])
        self.noise_rate_ = 1.0 - n_true / np.maximum(n_candidates, 1)
        progress.step("predictor")
        return Learned(confidence=confidence, scores=scores)

    def _choose_features(
        self, X: Features, is_labelled: BoolArray, is_candidate: BoolArray
    ) -> tuple[View, LandmarkKernel, HeldOutRidge]:
        rows = X if is_labelled.all() else X[is_labelled]
        weightings = possible_weightings(X)
        linear = weightings[0] != "standard"
        trial = sample_by_content(rows, _ROWS_TO_TRY)
        target = is_candidate[trial].astype(np.float64)
        trials = []
        for weighting in weightings:
            view = fit_view(X, weighting)
            some = view.rows(rows[trial])
            kernel = LandmarkKernel(some, mean_distance_between(some), linear)
            system = ridge_system(kernel, some)
            found = search_regularization(system, target, np.arange(len(trial)))
            trials.append((view, kernel, system, *found))
        logger.info("Held-out errors of weightings: %s", {view.weighting: error for view, *_, error in trials})
        view, kernel, system, regularization, _ = min(trials, key=lambda found: found[-1])
        self.weighting_ = view.weighting
        if len(trial) < X.shape[0] or len(trial) > self.n_landmarks:
            n_landmarks = min(self.n_landmarks, max(100, _CELLS // len(is_candidate)))
            landmarks = view.rows(X[sample_by_content(X, n_landmarks)])
            kernel = LandmarkKernel(landmarks, mean_distance_between(landmarks), linear)
            dtype = np.float32 if len(is_candidate) * landmarks.shape[0] > _CELLS_IN_DOUBLE else np.float64
            system = ridge_system(kernel, view.rows(rows), dtype=dtype)
            regularization, _ = search_regularization(system, is_candidate.astype(dtype), trial, start=regularization)
        self.regularization_ = regularization
        return view, kernel, system.solved(regularization)

    def _choose_mode(
        self, judge: Callable[[Mode], _Judgement], is_candidate: BoolArray, can_condition: bool
    ) -> tuple[Mode, _Judgement]:
        several = judge("several")
        if not can_condition or several.cardinality > _FEW:
            return "several", several
        single = judge("single")
        gain = _hits(single.evidence, is_candidate) - _hits(several.evidence, is_candidate)
        doubt = float(gain.std()) / np.sqrt(len(gain))
        wins = gain.mean() > max(_SURE * doubt, _WORTH)
        return ("single", single) if wins else ("several", several)

    def _scores(self, X: Features) -> FloatArray:
        raw = self._kernel.times(self._view.rows(X), self.dual_coef_) + self.intercept_
        return self._links.probabilities(raw)


def _evidence(ridge: HeldOutRidge, target: FloatArray) -> _Evidence:
    model = ridge.fit(target)
    scores = ridge.held_out(target, model)
    step = -(-len(scores) // _ROWS_TO_LINK)
    links = fit_links(scores[::step], target[::step])
    return _Evidence(links.probabilities(scores), model, links)


def _judge(
    ridge: HeldOutRidge, is_candidate: BoolArray, first: _Evidence, floor: float, mode: Mode, condition: bool
) -> _Judgement:
    options: dict[str, Any] = {"competition": COMPETITION[mode], "condition": condition}
    chance = true_probabilities(first.probability, floor)
    rough = at_least_one_true(chance, is_candidate, floor, **options)
    chance_again = np.clip(_evidence(ridge, rough).probability, 1e-4, 1.0 - 1e-6)
    confidence = at_least_one_true(chance_again, is_candidate, floor, **options)
    # Half of what was given stays in the target: the judgement may be wrong, the candidates are not all.
    evidence = _evidence(ridge, KEPT * is_candidate + (1.0 - KEPT) * confidence)
    cardinality = float(confidence.sum()) / len(confidence)
    if mode == "several":
        # Competition orders candidates well but makes all of them too small.
        plain = at_least_one_true(chance, is_candidate, floor, competition=0.0, condition=condition)
        confidence = rescaled(confidence, float(plain.sum()))
    return _Judgement(confidence, evidence, cardinality)


def _hits(evidence: _Evidence, is_candidate: BoolArray) -> FloatArray:
    best = evidence.probability.argmax(axis=1)
    return np.asarray(is_candidate[np.arange(len(best)), best], dtype=np.float64)
