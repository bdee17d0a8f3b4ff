"""The rounds that turn leave-one-out evidence into confidences, and confidences into the predictor's target."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit, logit

from pmlkit._typing import BoolArray, FloatArray
from pmlkit.methods.clear_pml.dual_ridge import DualRidge
from pmlkit.methods.clear_pml.label_correlations import LabelCorrelations, fit_label_correlations
from pmlkit.methods.clear_pml.loo_ridge import LooRidge
from pmlkit.methods.clear_pml.posterior import candidate_confidence, no_true_label, rescale_to_sum, shrunk_count
from pmlkit.methods.clear_pml.score_calibration import ScoreCalibration, fit_calibration
from pmlkit.methods.clear_pml.verified import Answers, fit_label_rates

__all__ = ["COMPETITION", "CandidateModel", "Evidence", "as_log_odds", "blended_target", "correct_by_correlations"]

Mode = Literal["several", "single"]

KEPT = 0.5  # weight of the given candidates in the target, beside their confidences
COMPETITION = 0.8  # a likely candidate speaks against the others of its row
_FULL_WEIGHT, _WORTH = 4.0, 0.01  # standard errors, and share of rows, by which "single" must win for full weight
_FEW, _FADE = 2.5, 0.5  # true labels per row up to which "single" counts, and over which range it fades
_ROWS_TO_CALIBRATE = 50_000
_SURELY_TRUE = 1.0 - 1e-9


@dataclass(frozen=True)
class Evidence:
    """A model of one target, with its calibrated leave-one-out probabilities of the training rows."""

    probability: FloatArray
    model: tuple[FloatArray, FloatArray]
    calibration: ScoreCalibration

    @classmethod
    def of(cls, ridge: LooRidge | DualRidge, target: FloatArray) -> "Evidence":
        """Fit the regression to a target and calibrate its leave-one-out scores."""
        model = ridge.fit(target)
        scores = ridge.loo_scores(target, model)
        step = -(-len(scores) // _ROWS_TO_CALIBRATE)
        calibration = fit_calibration(scores[::step], target[::step])
        return cls(calibration.probabilities(scores), model, calibration)


@dataclass(frozen=True)
class Estimate:
    """Confidences before the correction by label correlations, and the evidence of the predictor fitted to them.

    Attributes
    ----------
    confidence : dict of mode to array of shape (n_samples, n_labels)
    single_weight : float
        Weight of the mode "single"; that of "several" is the rest.
    evidence : Evidence
    """

    confidence: dict[Mode, FloatArray]
    single_weight: float
    evidence: Evidence


@dataclass(frozen=True)
class Final:
    """What a fit ends with.

    Attributes
    ----------
    correlations : LabelCorrelations
    probability : array of shape (n_samples, n_labels)
        The predictor's leave-one-out probabilities.
    confidence : array of shape (n_samples, n_labels)
    share_without_truth : float
        Estimated share of rows none of whose candidates is true.
    """

    correlations: LabelCorrelations
    probability: FloatArray
    confidence: FloatArray
    share_without_truth: float


@dataclass(frozen=True)
class CandidateModel:
    """Inputs shared by all confidence updates.

    Attributes
    ----------
    ridge : LooRidge or DualRidge
    is_candidate : bool array of shape (n_samples, n_labels)
    chance : array of shape (n_samples, n_labels)
        Probability of being true, by the first evidence.
    floor : float
        Probability that a false label is a candidate.
    presence : float
        Weight of having a true label, see `candidate_confidence`.
    independent : bool
        Whether the candidates of a row are taken one by one, without competition.
    competition : float
        In the mode "several".
    answers : Answers, optional
        Of a reviewer. Cells that are wrong are no candidates, those that are right are.
    given : bool array of shape (n_samples, n_labels), optional
        The candidates before the answers.
    """

    ridge: LooRidge | DualRidge
    is_candidate: BoolArray
    chance: FloatArray
    floor: float
    presence: float
    independent: bool
    competition: float = COMPETITION
    answers: Answers | None = None
    given: BoolArray | None = None

    def confidence(self, chance: FloatArray, competition: float) -> FloatArray:
        """Return the confidences at some probabilities of being true."""
        if self.answers is not None:
            chance = np.where(self.answers.right, _SURELY_TRUE, chance)
        return candidate_confidence(chance, self.is_candidate, self.floor, **self._options(competition))

    def _competition(self, mode: Mode) -> float:
        return self.competition if mode == "several" else 1.0

    def _options(self, competition: float) -> dict[str, float]:
        if self.independent:
            return {"competition": 0.0, "presence": 1.0}
        return {"competition": competition, "presence": self.presence}

    def estimate(self, mode: Literal["auto", "several", "single"]) -> Estimate:
        """Estimate confidences in one mode, or in both with weights by the evidence for them."""
        if mode != "auto":
            return self._in_mode(mode)
        several = self._in_mode("several")
        cardinality = float(several.confidence["several"].sum()) / len(self.chance)
        possible = float(np.clip((_FEW - cardinality) / _FADE, 0.0, 1.0))
        if self.independent or possible == 0.0:
            return several
        single = self._in_mode("single")
        gain = self._hits(single.evidence) - self._hits(several.evidence)
        doubt = max(float(gain.std()) / np.sqrt(len(gain)), _WORTH / 3.0)
        weight = possible * float(np.clip(gain.mean() / doubt / _FULL_WEIGHT, 0.0, 1.0)) ** 2
        if weight in (0.0, 1.0):
            return single if weight else several
        confidence = several.confidence | single.confidence
        mixed = (1.0 - weight) * confidence["several"] + weight * confidence["single"]
        return Estimate(confidence, weight, Evidence.of(self.ridge, blended_target(self.is_candidate, mixed)))

    def _in_mode(self, mode: Mode) -> Estimate:
        """Estimate confidences from the first evidence, refine them once, and fit the predictor to them."""
        rough = self.confidence(self.chance, self._competition(mode))
        confidence = self.confidence(_inside(Evidence.of(self.ridge, rough).probability), self._competition(mode))
        evidence = Evidence.of(self.ridge, blended_target(self.is_candidate, confidence))
        return Estimate({mode: confidence}, float(mode == "single"), evidence)

    def _hits(self, evidence: Evidence) -> FloatArray:
        """Return whether the label with the highest leave-one-out probability is a candidate."""
        best = evidence.probability.argmax(axis=1)
        return np.asarray(self.is_candidate[np.arange(len(best)), best], dtype=np.float64)

    def final(self, estimate: Estimate) -> Final:
        """Correct by label correlations, estimate the confidences once more, and average both estimates."""
        # Competition ranks candidates well but makes all confidences too small.
        alone = self.confidence(self.chance, 0.0)
        n_true = shrunk_count(float(alone.sum()), int(self.is_candidate.sum()))
        offset: FloatArray | float = 0.0
        target = blended_target(
            self.is_candidate,
            self._mixed({mode: self._scaled(mode, c, n_true) for mode, c in estimate.confidence.items()}, estimate),
        )
        correlations, probability = correct_by_correlations(estimate.evidence, target)
        chance = _inside(probability)
        if self.answers is not None:
            n_true, offset = self._by_answers(chance, n_true)
        final: dict[Mode, FloatArray] = {}
        without: dict[Mode, FloatArray] = {}
        for mode, before in estimate.confidence.items():
            last = self.confidence(chance, self._competition(mode))
            log_odds = (as_log_odds(before) + as_log_odds(last)) / 2.0 + offset
            both = np.where(self.is_candidate, expit(log_odds), 0.0)
            if mode == "single":
                total = (before.sum(axis=1, keepdims=True) + last.sum(axis=1, keepdims=True)) / 2.0
                both *= total / np.maximum(both.sum(axis=1, keepdims=True), 1e-12)
            final[mode] = self._scaled(mode, both, n_true)
            without[mode] = no_true_label(
                self.chance, self.is_candidate, self.floor, **self._options(self._competition(mode))
            )
        share = float(self._mixed(without, estimate).mean())
        confidence = self._mixed(final, estimate)
        if self.answers is not None:
            confidence = np.where(self.answers.right, 1.0, confidence)
        return Final(correlations, probability, confidence, share)

    def _by_answers(self, chance: FloatArray, n_true: float) -> tuple[float, FloatArray]:
        """Return how many candidates are true by the answers as well, and what they add to each label's log odds."""
        assert self.answers is not None
        assert self.given is not None
        plain = candidate_confidence(chance, self.given, self.floor, **self._options(self.competition))
        log_odds = as_log_odds(rescale_to_sum(plain, n_true))
        asked = self.given & (self.answers.right | self.answers.wrong)
        rates = fit_label_rates(log_odds[asked], np.nonzero(asked)[1], self.answers.right[asked], chance.shape[1])
        corrected = expit(log_odds + rates.shift + rates.per_label)
        open_cells = self.is_candidate & ~self.answers.right
        return float(corrected[open_cells].sum() + self.answers.right.sum()), rates.per_label

    @staticmethod
    def _scaled(mode: Mode, confidence: FloatArray, n_true: float) -> FloatArray:
        return rescale_to_sum(confidence, n_true) if mode == "several" else confidence

    @staticmethod
    def _mixed(of_mode: dict[Mode, FloatArray], estimate: Estimate) -> FloatArray:
        if len(of_mode) == 1:
            return next(iter(of_mode.values()))
        return (1.0 - estimate.single_weight) * of_mode["several"] + estimate.single_weight * of_mode["single"]


def correct_by_correlations(evidence: Evidence, target: FloatArray) -> tuple[LabelCorrelations, FloatArray]:
    """Fit the label correlations of an evidence; return them and the corrected probabilities."""
    log_odds = as_log_odds(evidence.probability)
    step = -(-len(log_odds) // _ROWS_TO_CALIBRATE)
    correlations = fit_label_correlations(log_odds[::step], target[::step])
    probability = correlations.adjust(log_odds)
    expit(probability, out=probability)
    return correlations, probability


def blended_target(is_candidate: BoolArray, confidence: FloatArray) -> FloatArray:
    """Shrink confidences halfway towards the given candidates, which guards against wrong confidences."""
    return np.asarray(np.where(is_candidate, KEPT + (1.0 - KEPT) * confidence, 0.0))


def as_log_odds(probability: FloatArray) -> FloatArray:
    """Return the log odds of probabilities, away from zero and one."""
    return np.asarray(logit(np.clip(probability, 1e-6, 1.0 - 1e-6)))


def _inside(probability: FloatArray) -> FloatArray:
    return np.asarray(np.clip(probability, 1e-4, 1.0 - 1e-6))
