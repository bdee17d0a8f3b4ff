"""ClearPML: candidates judged by evidence that did not see them, and a predictor that learns from the judgement."""

import logging
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import expit, logit
from sklearn.utils._param_validation import Interval, StrOptions

from pmlkit._typing import CSR, BoolArray, Features, FloatArray
from pmlkit.methods.base import BasePML, Learned, labelled_rows
from pmlkit.methods.progress import Progress
from pmlkit.numerics.candidate_noise import at_least_one_true, believed, noise_floor, rescaled, true_probabilities
from pmlkit.numerics.guessed_rows import fit_with_guesses
from pmlkit.numerics.held_out_ridge import HeldOutRidge, ridge_system, search_regularization
from pmlkit.numerics.label_map import LabelMap, fit_label_map
from pmlkit.numerics.landmarks import LandmarkKernel, mean_distance_between, sample_by_content
from pmlkit.numerics.links import Links, fit_links
from pmlkit.numerics.views import View, fit_view, possible_weightings

__all__ = ["ClearPML", "blended_target"]

logger = logging.getLogger(__name__)

Mode = Literal["several", "single"]

KEPT = 0.5  # of the candidates in the predictor's target, whatever the judgement
COMPETITION = {"several": 0.8, "single": 1.0}
_SURE, _WORTH = 3.0, 0.01  # standard errors, and share of rows, by which "single" must win
_FEW = 2.0  # true labels a row, by the confidences, up to which "single" is tried
_ROWS_TO_COMPARE, _ROWS_TO_TRY = 250, 500  # whose errors decide on the weights of features, and on the penalty
_ROWS_TO_LINK = 50_000
_GUESS_WEIGHT, _GUESS_SLOPE = 0.3, 1.5  # of an unlabelled row, and how much surer its guess is made
_CELLS_IN_DOUBLE = 50_000_000  # of the kernel, beyond which it is kept in single precision
_CELLS = 400_000_000  # of the kernel; with more rows there are fewer landmarks


@dataclass(frozen=True)
class _Evidence:
    """A model of one target, and what it says of training rows without having seen their labels."""

    probability: FloatArray
    model: tuple[FloatArray, FloatArray]
    links: Links


@dataclass(frozen=True)
class _Judgement:
    """Confidences before a row's labels were compared, and the evidence of the predictor that learned from them."""

    mode: Mode
    confidence: FloatArray
    evidence: _Evidence

    @property
    def cardinality(self) -> float:
        return float(self.confidence.sum()) / len(self.confidence)


class ClearPML(BasePML):
    r"""ClearPML: judge every candidate by evidence that did not see it, then learn from the judgement.

    The method to start with. Kernel ridge regression on landmarks scores every row by the model of all *other* rows
    (exact leave-one-out, at the price of one fit); a logistic curve a label turns scores into probabilities. What
    they say about the candidates, against the rate at which labels become candidates without being true, gives each
    candidate its confidence; a second round learns from the confidences, and the predictor from both. At last
    the labels of a row speak for and against each other.

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
    out_of_fold_scores_ : float32 array of shape (n_samples, n_labels)
        The predictor's scores of the training rows, each made without the row itself; NaN for unlabelled rows.
    dual_coef_ : array of shape (n_landmarks, n_labels)
    intercept_ : array of shape (n_labels,)
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    Rows without candidates take part as landmarks and in the weights of the features, tell that a row need not have
    a true label, and teach the predictor: it is fitted once more with its own answers for them.

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
        chance = true_probabilities(first.probability, self.noise_floor_)
        world = _World(ridge, is_candidate, chance, self.noise_floor_, can_condition)
        judged = self._choose_mode(world) if self.mode == "auto" else _judge(world, self.mode)
        self.mode_ = judged.mode
        progress.step("judgement")
        self._links = judged.evidence.links
        self._label_map, probability, judged_confidence = _conclude(world, judged)
        self.intercept_, self.dual_coef_ = ridge.on_kernel(judged.evidence.model)
        if not all_labelled:
            self.intercept_, self.dual_coef_ = fit_with_guesses(
                ridge,
                judged.evidence.model,
                self._kernel,
                self._view.rows(X[~is_labelled]),
                lambda raw: expit(_GUESS_SLOPE * self._log_odds(raw)),
                _GUESS_WEIGHT,
            )
        scores = np.zeros(Y.shape)
        scores[is_labelled] = probability
        row = np.repeat(np.cumsum(is_labelled) - 1, np.diff(Y.indptr))
        confidence = judged_confidence[row, Y.indices]
        n_candidates = np.bincount(Y.indices, minlength=Y.shape[1])
        n_true = np.bincount(Y.indices, weights=confidence, minlength=Y.shape[1])
        self.noise_rate_ = 1.0 - n_true / np.maximum(n_candidates, 1)
        progress.step("predictor")
        return Learned(confidence=confidence, scores=scores, out_of_fold=True)

    def _choose_features(
        self, X: Features, is_labelled: BoolArray, is_candidate: BoolArray
    ) -> tuple[View, LandmarkKernel, HeldOutRidge]:
        rows = X if is_labelled.all() else X[is_labelled]
        weightings = possible_weightings(X)
        linear = weightings[0] != "standard"
        trial = sample_by_content(rows, _ROWS_TO_TRY)
        few = trial[:: -(-len(trial) // _ROWS_TO_COMPARE)]
        trials = []
        for weighting in weightings:
            view = fit_view(X, weighting)
            some = view.rows(rows[few])
            system = ridge_system(LandmarkKernel(some, mean_distance_between(some), linear), some)
            found = search_regularization(system, is_candidate[few].astype(np.float64), np.arange(len(few)))
            trials.append((view, *found))
        logger.info("Held-out errors of weightings: %s", {view.weighting: error for view, *_, error in trials})
        view, regularization, _ = min(trials, key=lambda found: found[-1])
        self.weighting_ = view.weighting
        n_landmarks = min(self.n_landmarks, max(100, _CELLS // len(is_candidate)))
        landmarks = view.rows(X[sample_by_content(X, n_landmarks)])
        kernel = LandmarkKernel(landmarks, mean_distance_between(landmarks), linear)
        dtype = np.float32 if len(is_candidate) * landmarks.shape[0] > _CELLS_IN_DOUBLE else np.float64
        system = ridge_system(kernel, view.rows(rows), dtype=dtype)
        regularization, _ = search_regularization(system, is_candidate.astype(dtype), trial, start=regularization)
        self.regularization_ = regularization
        return view, kernel, system.solved(regularization)

    def _choose_mode(self, world: "_World") -> _Judgement:
        several = _judge(world, "several")
        if not world.condition or several.cardinality > _FEW:
            return several
        single = _judge(world, "single")
        gain = _hits(single.evidence, world.is_candidate) - _hits(several.evidence, world.is_candidate)
        doubt = float(gain.std()) / np.sqrt(len(gain))
        return single if gain.mean() > max(_SURE * doubt, _WORTH) else several

    def _log_odds(self, raw: FloatArray) -> FloatArray:
        return self._label_map.corrected(_as_log_odds(self._links.probabilities(raw)))

    def _scores(self, X: Features) -> FloatArray:
        raw = self._kernel.times(self._view.rows(X), self.dual_coef_) + self.intercept_
        return np.asarray(expit(self._log_odds(raw)))


@dataclass(frozen=True)
class _World:
    """What every judgement starts from.

    Attributes
    ----------
    ridge : HeldOutRidge
    is_candidate : bool array of shape (n_rows, n_labels)
    chance : array of shape (n_rows, n_labels)
        Of being true, by the evidence of the candidates themselves.
    floor : float
        How often a label that is not true is a candidate.
    condition : bool
        Whether every row is known to have a true label.
    """

    ridge: HeldOutRidge
    is_candidate: BoolArray
    chance: FloatArray
    floor: float
    condition: bool

    def confidence(self, chance: FloatArray, competition: float) -> FloatArray:
        return at_least_one_true(
            chance, self.is_candidate, self.floor, competition=competition, condition=self.condition
        )


def _evidence(ridge: HeldOutRidge, target: FloatArray) -> _Evidence:
    model = ridge.fit(target)
    scores = ridge.held_out(target, model)
    step = -(-len(scores) // _ROWS_TO_LINK)
    links = fit_links(scores[::step], target[::step])
    return _Evidence(links.probabilities(scores), model, links)


def _judge(world: _World, mode: Mode) -> _Judgement:
    """Judge by the candidates' evidence, then again by that of the first judgement, and learn from it."""
    rough = world.confidence(world.chance, COMPETITION[mode])
    confidence = world.confidence(_inside(_evidence(world.ridge, rough).probability), COMPETITION[mode])
    return _Judgement(mode, confidence, _evidence(world.ridge, blended_target(world.is_candidate, confidence)))


def _conclude(world: _World, judged: _Judgement) -> tuple[LabelMap, FloatArray, FloatArray]:
    """Let the labels of a row speak for each other; return the map, the predictor's scores and the confidences."""
    several = judged.mode == "several"
    confidence = judged.confidence
    if several:
        # Competition orders candidates well but makes all of them too small.
        plain = world.confidence(world.chance, 0.0)
        n_true = believed(float(plain.sum()), int(world.is_candidate.sum()))
        confidence = rescaled(confidence, n_true)
    log_odds = _as_log_odds(judged.evidence.probability)
    step = -(-len(log_odds) // _ROWS_TO_LINK)
    label_map = fit_label_map(log_odds[::step], blended_target(world.is_candidate[::step], confidence[::step]))
    probability = label_map.corrected(log_odds)
    expit(probability, out=probability)
    last = world.confidence(_inside(probability), COMPETITION[judged.mode])
    both = np.where(world.is_candidate, expit((_as_log_odds(judged.confidence) + _as_log_odds(last)) / 2.0), 0.0)
    if several:
        return label_map, probability, rescaled(both, n_true)
    return label_map, probability, both / np.maximum(both.sum(axis=1, keepdims=True), 1e-12)


def blended_target(is_candidate: BoolArray, confidence: FloatArray) -> FloatArray:
    """Half of what was given stays: the judgement may be wrong, the candidates are not all."""
    return np.asarray(np.where(is_candidate, KEPT + (1.0 - KEPT) * confidence, 0.0))


def _inside(probability: FloatArray) -> FloatArray:
    return np.asarray(np.clip(probability, 1e-4, 1.0 - 1e-6))


def _as_log_odds(probability: FloatArray) -> FloatArray:
    return np.asarray(logit(np.clip(probability, 1e-6, 1.0 - 1e-6)))


def _hits(evidence: _Evidence, is_candidate: BoolArray) -> FloatArray:
    best = evidence.probability.argmax(axis=1)
    return np.asarray(is_candidate[np.arange(len(best)), best], dtype=np.float64)
