"""The learning order: the most suspicious candidates by all answers so far."""

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logit

from pmlkit._typing import FloatArray, IntArray
from pmlkit.cleaning.audit.answers import RIGHT, WRONG
from pmlkit.cleaning.audit.features import order_design
from pmlkit.cleaning.audit.noise_model import Design, fit_noise_model

if TYPE_CHECKING:
    from pmlkit.cleaning.result import CleaningResult

__all__ = ["LearningOrder", "log_odds"]

_MAX_FITTED = 1_000  # answers that a fit uses
_PRIOR_LOG_ODDS = float(np.log(3.0))  # of the noise model with all terms


def log_odds(doubt: FloatArray) -> FloatArray:
    """Return the log odds of doubts, kept away from certainty."""
    return np.asarray(logit(np.clip(doubt.astype(np.float64), 1e-6, 1.0 - 1e-6)))


class LearningOrder:
    """Probabilities of being wrong and the order that follows from them, learned from answers.

    Two models are averaged by their marginal likelihoods: the calibration curve, which keeps the order of `result`
    within each label, and the noise model with all terms, which may overturn it. With few answers, or where its
    terms tell nothing, the first one weighs more.

    Parameters
    ----------
    result : CleaningResult
    curve : Design
        Of the calibration curve, by rank of suspicion.

    Attributes
    ----------
    probability : array
        By rank of suspicion.
    queue : array of int
        Ranks, the most suspicious first.
    """

    def __init__(self, result: "CleaningResult", curve: Design) -> None:
        self._curve = curve
        self._full = order_design(
            result.X, result.Y, result.scores, log_odds(result.doubt[result.order]), result.order, result.rows
        )
        self.probability: FloatArray = expit(curve.offset)
        self.queue: IntArray = np.arange(len(curve.offset))
        self.weight = 0.0
        self._curve_alpha, self._full_alpha = np.zeros(len(self.queue)), np.zeros(len(self.queue))

    def fitted(self, verdict: IntArray, rng: np.random.Generator) -> IntArray:
        """Return the ranks of answered candidates that a fit uses: all, or a random part of very many."""
        known = np.flatnonzero(np.isin(verdict, [WRONG, RIGHT]))
        return np.sort(rng.permutation(known)[:_MAX_FITTED]) if len(known) > _MAX_FITTED else known

    def fit(self, verdict: IntArray, rng: np.random.Generator, answer_error: float = 0.0) -> None:
        """Learn from what is known of each candidate, by rank."""
        asked = self.fitted(verdict, rng)
        if not len(asked):
            return
        wrong = np.where(verdict[asked] == WRONG, 1.0 - answer_error, answer_error)
        curve = fit_noise_model(self._curve, asked, wrong, self._curve_alpha[asked])
        full = fit_noise_model(self._full, asked, wrong, self._full_alpha[asked])
        self._curve_alpha[asked], self._full_alpha[asked] = curve.alpha, full.alpha
        self.weight = float(expit(full.log_evidence - curve.log_evidence + _PRIOR_LOG_ODDS))
        mixed = self.weight * expit(full.log_odds()) + (1.0 - self.weight) * expit(curve.log_odds())
        self.queue = np.argsort(-mixed, kind="stable")
        self.probability = np.where(verdict == WRONG, 1.0, np.where(verdict == RIGHT, 0.0, mixed))
