"""The estimator ClearPML: leave-one-out evidence, confidences, predictor."""

import logging
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import expit, logit
from sklearn.utils._param_validation import Interval, StrOptions

from pmlkit._typing import CSR, BoolArray, Features, FloatArray
from pmlkit.methods.base import BasePML, Learned, labelled_rows
from pmlkit.methods.clear_pml.feature_weighting import FeatureWeighting, fit_weighting, possible_weightings
from pmlkit.methods.clear_pml.label_correlations import LabelCorrelations, fit_label_correlations
from pmlkit.methods.clear_pml.landmarks import LandmarkKernel, mean_distance_between, sample_by_content
from pmlkit.methods.clear_pml.loo_ridge import LooRidge, ridge_system, search_regularization
from pmlkit.methods.clear_pml.posterior import (
    candidate_confidence,
    noise_floor,
    rescale_to_sum,
    shrunk_count,
    true_probabilities,
)
from pmlkit.methods.clear_pml.score_calibration import ScoreCalibration, fit_calibration
from pmlkit.methods.clear_pml.self_training import fit_with_pseudo_labels
from pmlkit.methods.progress import Progress

__all__ = ["ClearPML", "blended_target"]

logger = logging.getLogger(__name__)

Mode = Literal["several", "single"]

KEPT = 0.5  # weight of the given candidates in the target, beside their confidences
COMPETITION = {"several": 0.8, "single": 1.0}
_SURE, _WORTH = 3.0, 0.01  # standard errors, and share of rows, by which "single" must win
_FEW = 2.0  # true labels a row, by the confidences, up to which "single" is tried
_ROWS_TO_COMPARE, _ROWS_TO_TRY = 250, 500  # whose errors decide on the weights of features, and on the penalty
_ROWS_TO_CALIBRATE = 50_000
_PSEUDO_LABEL_WEIGHT, _PSEUDO_LABEL_SLOPE = 0.3, 1.5  # of an unlabelled row, and how much surer its guess is made
_CELLS_IN_DOUBLE = 50_000_000  # of the kernel, beyond which it is kept in single precision
_CELLS = 400_000_000  # of the kernel; with more rows there are fewer landmarks


@dataclass(frozen=True)
class _Evidence:
    """A model of one target, with its calibrated leave-one-out probabilities of the training rows."""

    probability: FloatArray
    model: tuple[FloatArray, FloatArray]
    calibration: ScoreCalibration


@dataclass(frozen=True)
class _Estimate:
    """Confidences before the correction by label correlations, and the evidence of the predictor fitted to them."""

    mode: Mode
    confidence: FloatArray
    evidence: _Evidence

    @property
    def cardinality(self) -> float:
        return float(self.confidence.sum()) / len(self.confidence)


class ClearPML(BasePML):
    r"""ClearPML: estimate each candidate's probability of being true out of sample, then learn from the estimates.

    The method to start with. Kernel ridge regression on landmarks scores every row by the model of all *other* rows
    (exact leave-one-out, at the cost of one fit); one logistic curve per label turns scores into probabilities. Bayes'
    rule with the estimated rate at which false labels become candidates gives each candidate its confidence; a second
    round learns from the confidences, and the predictor from both. Finally the log odds of a row's labels correct
    each other.

    Parameters
    ----------
    n_landmarks : int, default=1000
        Rows that span the kernel's functions. With so many rows or fewer it is exact. With millions of
        rows there are fewer, so that the kernel fits into memory.
    mode : {"auto", "several", "single"}, default="auto"
        Whether a row may have several true labels or has exactly one. "auto" takes "single" only where
        it makes the held-out best label a candidate clearly more often.
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default="hamming"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`. "hamming" makes the fewest
        errors and leaves doubtful rows without a label, "f1" gives each row at least one.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_rows, n_labels)
        Probability that each candidate is true, by models that did not see the row's candidates.
    noise_rate_ : array of shape (n_labels,)
        Estimated share of each label's candidates that are false.
    noise_floor_ : float
        The estimated chance that a label which is not true is a candidate all the same.
    mode_ : {"several", "single"}
    weighting_ : {"standard", "unit", "log", "idf"}
        The weighting of the features with the smaller leave-one-out error, see
        :func:`pmlkit.methods.clear_pml.feature_weighting.fit_weighting`.
    regularization_ : float
        The ridge penalty with the smallest leave-one-out error.
    out_of_fold_scores_ : float32 array of shape (n_samples, n_labels)
        The predictor's scores of the training rows, each made without the row itself; NaN for unlabelled rows.
    dual_coef_ : array of shape (n_landmarks, n_labels)
    intercept_ : array of shape (n_labels,)
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    Rows without candidates take part as landmarks and in the weighting of the features, show that a row need not have
    a true label, and join the predictor by self-training: it is refitted with its own predictions for them.

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
    _cross_fits: ClassVar[bool] = True

    _scores_are_probabilities: ClassVar[bool] = True

    _calibrates: ClassVar[bool] = True

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
        self._weighting, self._kernel, ridge = self._choose_features(X, is_labelled, is_candidate)
        progress.step("features")
        first = _evidence(ridge, is_candidate.astype(ridge.design.dtype))
        self.noise_floor_ = noise_floor(first.probability, is_candidate)
        progress.step("evidence")
        can_condition = bool(is_candidate.any(axis=1).all()) and all_labelled
        chance = true_probabilities(first.probability, self.noise_floor_)
        candidates = _CandidateModel(ridge, is_candidate, chance, self.noise_floor_, can_condition)
        estimate = self._choose_mode(candidates) if self.mode == "auto" else _estimate(candidates, self.mode)
        self.mode_ = estimate.mode
        progress.step("confidences")
        self._calibration = estimate.evidence.calibration
        self._correlations, probability, final_confidence = _final_confidence(candidates, estimate)
        self.intercept_, self.dual_coef_ = ridge.on_kernel(estimate.evidence.model)
        if not all_labelled:
            self.intercept_, self.dual_coef_ = fit_with_pseudo_labels(
                ridge,
                estimate.evidence.model,
                self._kernel,
                self._weighting.transform(X[~is_labelled]),
                lambda raw: expit(_PSEUDO_LABEL_SLOPE * self._log_odds(raw)),
                _PSEUDO_LABEL_WEIGHT,
            )
        scores = np.zeros(Y.shape)
        scores[is_labelled] = probability
        row = np.repeat(np.cumsum(is_labelled) - 1, np.diff(Y.indptr))
        confidence = final_confidence[row, Y.indices]
        n_candidates = np.bincount(Y.indices, minlength=Y.shape[1])
        n_true = np.bincount(Y.indices, weights=confidence, minlength=Y.shape[1])
        self.noise_rate_ = 1.0 - n_true / np.maximum(n_candidates, 1)
        progress.step("predictor")
        return Learned(confidence=confidence, scores=scores)

    def _choose_features(
        self, X: Features, is_labelled: BoolArray, is_candidate: BoolArray
    ) -> tuple[FeatureWeighting, LandmarkKernel, LooRidge]:
        rows = X if is_labelled.all() else X[is_labelled]
        weightings = possible_weightings(X)
        linear = weightings[0] != "standard"
        trial = sample_by_content(rows, _ROWS_TO_TRY)
        few = trial[:: -(-len(trial) // _ROWS_TO_COMPARE)]
        trials = []
        for kind in weightings:
            weighting = fit_weighting(X, kind)
            some = weighting.transform(rows[few])
            system = ridge_system(LandmarkKernel(some, mean_distance_between(some), linear), some)
            found = search_regularization(system, is_candidate[few].astype(np.float64), np.arange(len(few)))
            trials.append((weighting, *found))
        logger.info("Leave-one-out errors of the weightings: %s", {found[0].weighting: found[-1] for found in trials})
        weighting, regularization, _ = min(trials, key=lambda found: found[-1])
        self.weighting_ = weighting.weighting
        n_landmarks = min(self.n_landmarks, max(100, _CELLS // len(is_candidate)))
        landmarks = weighting.transform(X[sample_by_content(X, n_landmarks)])
        kernel = LandmarkKernel(landmarks, mean_distance_between(landmarks), linear)
        dtype = np.float32 if len(is_candidate) * landmarks.shape[0] > _CELLS_IN_DOUBLE else np.float64
        system = ridge_system(kernel, weighting.transform(rows), dtype=dtype)
        regularization, _ = search_regularization(system, is_candidate.astype(dtype), trial, start=regularization)
        self.regularization_ = regularization
        return weighting, kernel, system.solved(regularization)

    def _choose_mode(self, candidates: "_CandidateModel") -> _Estimate:
        several = _estimate(candidates, "several")
        if not candidates.condition or several.cardinality > _FEW:
            return several
        single = _estimate(candidates, "single")
        gain = _hits(single.evidence, candidates.is_candidate) - _hits(several.evidence, candidates.is_candidate)
        doubt = float(gain.std()) / np.sqrt(len(gain))
        return single if gain.mean() > max(_SURE * doubt, _WORTH) else several

    def _log_odds(self, raw: FloatArray) -> FloatArray:
        return self._correlations.adjust(_as_log_odds(self._calibration.probabilities(raw)))

    def _scores(self, X: Features) -> FloatArray:
        raw = self._kernel.times(self._weighting.transform(X), self.dual_coef_) + self.intercept_
        return np.asarray(expit(self._log_odds(raw)))


@dataclass(frozen=True)
class _CandidateModel:
    """Inputs shared by all confidence updates.

    Attributes
    ----------
    ridge : LooRidge
    is_candidate : bool array of shape (n_rows, n_labels)
    chance : array of shape (n_rows, n_labels)
        Of being true, by the first evidence.
    floor : float
        Probability that a false label is a candidate.
    condition : bool
        Whether every row is known to have a true label.
    """

    ridge: LooRidge
    is_candidate: BoolArray
    chance: FloatArray
    floor: float
    condition: bool

    def confidence(self, chance: FloatArray, competition: float) -> FloatArray:
        return candidate_confidence(
            chance, self.is_candidate, self.floor, competition=competition, condition=self.condition
        )


def _evidence(ridge: LooRidge, target: FloatArray) -> _Evidence:
    model = ridge.fit(target)
    scores = ridge.loo_scores(target, model)
    step = -(-len(scores) // _ROWS_TO_CALIBRATE)
    calibration = fit_calibration(scores[::step], target[::step])
    return _Evidence(calibration.probabilities(scores), model, calibration)


def _estimate(candidates: _CandidateModel, mode: Mode) -> _Estimate:
    """Estimate confidences from the first evidence, refine them once, and fit the predictor to them."""
    rough = candidates.confidence(candidates.chance, COMPETITION[mode])
    confidence = candidates.confidence(_inside(_evidence(candidates.ridge, rough).probability), COMPETITION[mode])
    return _Estimate(mode, confidence, _evidence(candidates.ridge, blended_target(candidates.is_candidate, confidence)))


def _final_confidence(
    candidates: _CandidateModel, estimate: _Estimate
) -> tuple[LabelCorrelations, FloatArray, FloatArray]:
    """Correct by label correlations; return the correction, the predictor's scores and the confidences."""
    several = estimate.mode == "several"
    confidence = estimate.confidence
    if several:
        # Competition ranks candidates well but makes all confidences too small.
        plain = candidates.confidence(candidates.chance, 0.0)
        n_true = shrunk_count(float(plain.sum()), int(candidates.is_candidate.sum()))
        confidence = rescale_to_sum(confidence, n_true)
    log_odds = _as_log_odds(estimate.evidence.probability)
    step = -(-len(log_odds) // _ROWS_TO_CALIBRATE)
    correlations = fit_label_correlations(
        log_odds[::step], blended_target(candidates.is_candidate[::step], confidence[::step])
    )
    probability = correlations.adjust(log_odds)
    expit(probability, out=probability)
    last = candidates.confidence(_inside(probability), COMPETITION[estimate.mode])
    both = np.where(candidates.is_candidate, expit((_as_log_odds(estimate.confidence) + _as_log_odds(last)) / 2.0), 0.0)
    if several:
        return correlations, probability, rescale_to_sum(both, n_true)
    return correlations, probability, both / np.maximum(both.sum(axis=1, keepdims=True), 1e-12)


def blended_target(is_candidate: BoolArray, confidence: FloatArray) -> FloatArray:
    """Shrink confidences halfway towards the given candidates, which guards against wrong confidences."""
    return np.asarray(np.where(is_candidate, KEPT + (1.0 - KEPT) * confidence, 0.0))


def _inside(probability: FloatArray) -> FloatArray:
    return np.asarray(np.clip(probability, 1e-4, 1.0 - 1e-6))


def _as_log_odds(probability: FloatArray) -> FloatArray:
    return np.asarray(logit(np.clip(probability, 1e-6, 1.0 - 1e-6)))


def _hits(evidence: _Evidence, is_candidate: BoolArray) -> FloatArray:
    best = evidence.probability.argmax(axis=1)
    return np.asarray(is_candidate[np.arange(len(best)), best], dtype=np.float64)
