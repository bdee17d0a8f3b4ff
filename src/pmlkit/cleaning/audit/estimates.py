"""How many candidates are wrong, by a calibration curve and by the audit sample, with intervals.

The audit sample is a random sample that is valid at every length. Every candidate gets a key, exponential with a rate
that grows with suspicion, and questions are asked in the order of keys. Any prefix is a sample: with `tau` the key of
the first unasked candidate, a candidate of rate w was asked with probability ``1 - exp(-w tau)`` (rank conditioning),
and dividing by it gives unbiased totals.
"""

import numpy as np
from scipy.special import expit, logit
from scipy.stats import beta

from pmlkit._typing import BoolArray, FloatArray, IntArray
from pmlkit.cleaning.audit.answers import RIGHT, UNKNOWN, UNSURE, WRONG
from pmlkit.cleaning.audit.noise_model import Design, fit_noise_model
from pmlkit.cleaning.estimates import Estimate

_BASE, _STEEPNESS = 0.3, 0.01

_Z90 = 1.645
_FEW = 20.0  # this number of answers doubles the variance of an estimate
_ENOUGH = 30  # answers of the audit sample from which its own estimate counts in full


def audit_order(n_candidates: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the order of questions, and the rates and keys of candidates, all by rank of suspicion.

    `n_candidates`: ranked from 0, the most suspicious, on.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.audit.estimates import audit_order
    >>> order, rate, key = audit_order(1000, np.random.default_rng(0))
    >>> bool(rate[0] > rate[-1]), bool((np.diff(key[order]) >= 0).all())
    (True, True)
    """
    steep = 1.0 / ((np.arange(n_candidates) + 0.5) / max(n_candidates, 1) + _STEEPNESS)
    rate = _BASE + (1.0 - _BASE) * steep / steep.mean() if n_candidates else steep
    key = rng.exponential(size=n_candidates) / rate
    return np.argsort(key, kind="stable"), rate, key


def inclusion(rate: FloatArray, key: FloatArray, order: IntArray, is_known: BoolArray) -> tuple[int, FloatArray]:
    """Return how long the answered prefix is, and how likely each candidate was to be in it.

    Candidates that were answered for another reason are passed over: they are known, and need not be estimated.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.audit.estimates import inclusion
    >>> known = np.array([True, True, False])
    >>> inclusion(np.ones(3), np.array([0.1, 0.2, 0.4]), np.arange(3), known)[1].round(3).tolist()
    [0.33, 0.33, 0.33]
    """
    unknown = ~is_known[order]
    if not unknown.any():
        return len(order), np.ones(len(order))
    length = int(unknown.argmax())
    return length, -np.expm1(-rate * key[order[length]])


def difference_estimate(
    wrong: FloatArray, predicted: FloatArray, chance: FloatArray, n_sure: float
) -> tuple[float, float]:
    """Return a total of wrong candidates from a model's total and the errors of the model on a random sample.

    `wrong`: answers of the sample, 1 for wrong. `predicted` (aligned with `wrong`): the model's probabilities for
    the same candidates, as if they had not been asked. `chance` (aligned with `wrong`): with which probability each
    came into the sample. `n_sure`: the model's total over all candidates that are sampled from, plus the known ones.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.audit.estimates import difference_estimate
    >>> difference_estimate(np.array([1.0]), np.array([0.5]), np.array([0.1]), 10.0)[0]
    15.0
    """
    error = wrong - predicted
    total = n_sure + float((error / chance).sum())
    return total, float(np.sqrt(((1.0 - chance) / chance**2 * error**2).sum()))


class Estimates:
    """Totals and shares of wrong candidates, from all answers, with 90 % intervals.

    The intervals are made for a number of answers that was fixed beforehand: they are not valid for a person who stops
    when it looks good. The certificate is.

    `design`: of the calibration curve. `verdict` (n_candidates,): what is known of each. `fitted`: the candidates that
    the curve is fitted to. `sampled`: the candidates that came into the audit sample. `chance` (n_candidates,): with
    which probability each would have.
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
        # None in the sample: there may be as many as a sample of that size would often miss.
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
