"""How often a label is a candidate without being true, and what that makes of each candidate."""

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from pmlkit._typing import BoolArray, FloatArray

__all__ = ["at_least_one_true", "believed", "noise_floor", "rescaled", "true_probabilities"]

_LOW_SHARE = 0.3
_PSEUDO_ROWS = 50.0
_QUANTILE = 0.25
_NEVER = 1e-4
_USUAL = 0.6  # share of true candidates above which an estimate is only half believed


def noise_floor(probability: FloatArray, is_candidate: BoolArray) -> float:
    """Estimate the chance that a label which is not true is a candidate all the same.

    In the rows that least look like a label, its candidates are false: their share there is an upper
    bound of the label's rate. One rate serves all labels, a low quantile of these bounds: a label that
    features predict badly has true candidates among its lowest scores too, which its own share would call noise.

    Parameters
    ----------
    probability : array of shape (n_rows, n_labels)
        Of being a candidate, made without the row's own candidates.
    is_candidate : bool array of shape (n_rows, n_labels)

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.numerics.candidate_noise import noise_floor
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.uniform(size=(4000, 6)) < 0.3
    >>> candidates = truth | (rng.uniform(size=truth.shape) < 0.1)
    >>> round(noise_floor(np.where(truth, 0.9, 0.1) + 0.01 * rng.uniform(size=truth.shape), candidates), 1)
    0.1
    """
    n_rows = len(probability)
    n_low = max(1, int(_LOW_SHARE * n_rows))
    low = np.argpartition(probability, n_low - 1, axis=0)[:n_low]
    n_false = np.take_along_axis(is_candidate, low, axis=0).sum(axis=0)
    typical = n_false.mean() / n_low
    rates = (n_false + _PSEUDO_ROWS * typical) / (n_low + _PSEUDO_ROWS)
    return float(np.clip(np.quantile(rates, _QUANTILE), _NEVER, 0.9))


def true_probabilities(probability: FloatArray, floor: float) -> FloatArray:
    """Return the chance of being true, given that of being a candidate, when `floor` of the others are candidates."""
    return np.asarray(np.clip((probability - floor) / (1.0 - floor), _NEVER, 1.0 - 1e-6))


def at_least_one_true(
    probability: FloatArray, is_candidate: BoolArray, floor: float, *, competition: float, condition: bool
) -> FloatArray:
    r"""Return each candidate's chance of being true, knowing that it is a candidate and which others are.

    A label with chance :math:`\pi` of being true is a candidate for sure when it is, and with chance :math:`\rho` (the
    floor) when it is not: its odds as a candidate are :math:`o = \pi / ((1 - \pi) \rho)`. Independent labels with odds
    :math:`\theta o` are then conditioned on at least one being true.

    Parameters
    ----------
    probability : array of shape (n_rows, n_labels)
        The chance :math:`\pi`.
    is_candidate : bool array of shape (n_rows, n_labels)
    floor : float
    competition : float
        In [0, 1]; :math:`\theta` is one minus this. With 0 candidates are independent but for the
        condition; the more, the more a good candidate speaks against the others; with 1 exactly one is true.
    condition : bool
        Whether rows are known to have a true label at all. If not, candidates are independent.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.numerics.candidate_noise import at_least_one_true
    >>> row = np.array([[0.5, 0.25, 0.9]]), np.array([[True, True, False]])
    >>> at_least_one_true(*row, 0.5, competition=1.0, condition=True)
    array([[0.75, 0.25, 0.  ]])
    """
    odds = np.where(is_candidate, probability / ((1.0 - probability) * floor), 0.0)
    if not condition:
        return np.asarray(odds / (1.0 + odds))
    if competition == 1.0:
        total = odds.sum(axis=1, keepdims=True)
        return np.asarray(odds / np.where(total > 0, total, 1.0))
    odds *= 1.0 - competition
    alone = odds / (1.0 + odds)
    none = np.exp(np.log1p(-np.minimum(alone, 1.0 - 1e-12)).sum(axis=1, keepdims=True))
    return np.asarray(np.minimum(alone / np.maximum(1.0 - none, 1e-12), 1.0))


def believed(n_true: float, n_candidates: int) -> float:
    """Return how many candidates to take for true when an estimate says `n_true`.

    Noise that follows the features looks like truth, so an estimate errs on the high side: of what
    lies above the share of true candidates that is usual in noisy tags, half is believed.

    Examples
    --------
    >>> from pmlkit.numerics.candidate_noise import believed
    >>> believed(50.0, 100), believed(80.0, 100)
    (50.0, 70.0)
    """
    usual = _USUAL * n_candidates
    return n_true if n_true <= usual else (n_true + usual) / 2.0


def rescaled(confidence: FloatArray, wanted: float) -> FloatArray:
    """Return confidences whose odds are all multiplied by one number, such that they sum to `wanted`.

    Their order stays; zeros stay zero.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.numerics.candidate_noise import rescaled
    >>> rescaled(np.array([0.2, 0.0, 0.5]), 1.0).round(3)
    array([0.333, 0.   , 0.667])
    """
    given = confidence > 0
    log_odds = logit(np.clip(confidence[given], 1e-6, 1.0 - 1e-6))
    wanted = float(np.clip(wanted, 1e-3 * log_odds.size, (1.0 - 1e-3) * log_odds.size))
    result = np.zeros_like(confidence)
    if log_odds.size:
        shift = brentq(lambda shift: float(expit(log_odds + shift).sum()) - wanted, -40.0, 40.0, xtol=1e-9)
        result[given] = expit(log_odds + shift)
    return result
