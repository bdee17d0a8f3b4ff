"""How many candidates are wrong, by a calibration curve and by the audit sample, with intervals."""

import numpy as np
from scipy.special import expit, logit
from scipy.stats import beta

from pmlkit._typing import BoolArray, FloatArray, IntArray
from pmlkit.cleaning.audit.answers import RIGHT, UNKNOWN, UNSURE, WRONG
from pmlkit.cleaning.audit.noise_model import Design, fit_noise_model
from pmlkit.cleaning.audit.sampling import difference_estimate
from pmlkit.cleaning.estimates import Estimate

__all__ = ["Estimates"]

_Z90 = 1.645
_FEW = 20.0  # answers: so many double the variance of an estimate
_ENOUGH = 30  # answers of the audit sample from which its own estimate counts in full


class Estimates:
    """Totals and shares of wrong candidates, from all answers, with 90 % intervals.

    The intervals are made for a number of answers that was fixed beforehand: they are not valid for a person who stops
    when it looks good. The certificate is.

    Parameters
    ----------
    design : Design
        Of the calibration curve.
    verdict : array of shape (n_candidates,)
        What is known of each.
    fitted : array of int
        The candidates that the curve is fitted to.
    sampled : array of int
        The candidates that came into the audit sample.
    chance : array of shape (n_candidates,)
        With which probability each would have.
    """

    def __init__(
        self, design: Design, verdict: IntArray, fitted: IntArray, sampled: IntArray, chance: FloatArray
    ) -> None:
        self._verdict = verdict
        self._sampled = sampled[np.isin(verdict[sampled], [WRONG, RIGHT])]
        self._chance = chance
        self._model = fit_noise_model(design, fitted, (verdict[fitted] == WRONG).astype(np.float64))
        self._probability = expit(self._model.log_odds())
        weight = 1.0 / chance[sampled]
        unsure = verdict[sampled] == UNSURE
        self._unsure = float(weight[unsure].sum() / weight.sum()) if len(sampled) else float((verdict == UNSURE).any())

    def total(self, members: BoolArray) -> Estimate:
        """Return the number of wrong ones among some candidates.

        Answers "unsure" say nothing about the number, but widen the interval: they may all be right, or all wrong.
        """
        p, verdict = self._probability, self._verdict
        is_open = members & np.isin(verdict, [UNKNOWN, UNSURE])
        n_wrong = float((members & (verdict == WRONG)).sum())
        n_most = float(members.sum() - (members & (verdict == RIGHT)).sum())
        model = n_wrong + float(p[is_open].sum())
        spread = np.where(is_open, p * (1.0 - p), 0.0)
        model_error = np.sqrt(self._model.variance_of_sum(spread) + spread.sum())
        mine = self._sampled[members[self._sampled]]
        wrong = (verdict[mine] == WRONG).astype(np.float64)
        # Without the sample's own answers, which its weights take care of.
        n_sure = model - float(wrong.sum()) + float(p[mine].sum())
        design, design_error = difference_estimate(wrong, p[mine], self._chance[mine], n_sure)
        # A few answers with large weights say little by themselves.
        share = 0.5 * min(len(self._sampled) / _ENOUGH, 1.0) if len(mine) else 0.0
        value = min(max((1.0 - share) * model + share * design, n_wrong), n_most)
        # Standard errors from few answers are too small themselves.
        error = max(float(model_error), design_error) * float(np.sqrt(1.0 + _FEW / max(len(self._sampled), 1)))
        room = max(n_most - n_wrong, 1e-9)
        low, high = _interval((value - n_wrong) / room, error / room)
        # None of a kind in the sample: there may be as many as a sample of that size would often miss.
        if len(mine) and wrong.all():
            low = min(low, _all_alike(len(mine)))
        elif len(mine) and not wrong.any():
            high = max(high, 1.0 - _all_alike(len(mine)))
        unsure = min(self._unsure, 1.0)
        return Estimate(value, n_wrong + room * low * (1.0 - unsure), n_wrong + room * (high + (1.0 - high) * unsure))

    def share(self, members: BoolArray) -> Estimate:
        """Return the share of wrong ones among some candidates."""
        n, total = max(int(members.sum()), 1), self.total(members)
        return Estimate(total / n, total.low / n, total.high / n)


def _interval(share: float, error: float) -> tuple[float, float]:
    """Return the outer ends of two intervals: of the share, and of its log odds, which is skewed near 0 and 1."""
    low, high = share - _Z90 * error, share + _Z90 * error
    spread = share * (1.0 - share)
    if spread > 0.0:
        width = _Z90 * min(error / spread, 1.0)  # where the error is larger, the scale of log odds means little
        low, high = min(low, float(expit(logit(share) - width))), max(high, float(expit(logit(share) + width)))
    return max(low, 0.0), min(high, 1.0)


def _all_alike(n: int) -> float:
    """Return the 5 % quantile of a share by a sample of `n` that all have it (Jeffreys' prior)."""
    return float(beta.ppf(0.05, n + 0.5, 0.5))
