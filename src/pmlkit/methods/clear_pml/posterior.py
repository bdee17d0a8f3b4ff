"""The noise rate of the candidates, and the posterior probability that each of them is true."""

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from pmlkit._typing import BoolArray, FloatArray

__all__ = ["candidate_confidence", "noise_floor", "rescale_to_sum", "shrunk_count", "true_probabilities"]

_LOW_SHARE = 0.3
_PSEUDO_ROWS = 50.0
_QUANTILE = 0.25
_NEVER = 1e-4
_USUAL = 0.6  # share of true candidates above which an estimate is shrunk by half


def noise_floor(probability: FloatArray, is_candidate: BoolArray) -> float:
    """Estimate the probability that a false label is a candidate.

    The candidate rate among the rows with the lowest scores of a label is an upper bound of its noise rate. One rate
    serves all labels, a low quantile of these bounds: a label that features predict badly has true candidates among
    its lowest scores too, so that its own bound is too high.

    Parameters
    ----------
    probability : array of shape (n_rows, n_labels)
        Of being a candidate, made without the row's own candidates.
    is_candidate : bool array of shape (n_rows, n_labels)

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.posterior import noise_floor
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
    """Return probabilities of being true from those of being a candidate, at noise rate `floor`."""
    return np.asarray(np.clip((probability - floor) / (1.0 - floor), _NEVER, 1.0 - 1e-6))


def candidate_confidence(
    probability: FloatArray, is_candidate: BoolArray, floor: float, *, competition: float, condition: bool
) -> FloatArray:
    r"""Return the posterior probability that each candidate is true, given the row's candidate set.

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
    >>> from pmlkit.methods.clear_pml.posterior import candidate_confidence
    >>> row = np.array([[0.5, 0.25, 0.9]]), np.array([[True, True, False]])
    >>> candidate_confidence(*row, 0.5, competition=1.0, condition=True)
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


def shrunk_count(n_true: float, n_candidates: int) -> float:
    """Return an estimated number of true candidates, shrunk where it is unusually high.

    Noise that follows the features looks like truth, so that estimates err on the high side: what lies above
    the share of true candidates that is usual in noisy tags is halved.

    Examples
    --------
    >>> from pmlkit.methods.clear_pml.posterior import shrunk_count
    >>> shrunk_count(50.0, 100), shrunk_count(80.0, 100)
    (50.0, 70.0)
    """
    usual = _USUAL * n_candidates
    return n_true if n_true <= usual else (n_true + usual) / 2.0


def rescale_to_sum(confidence: FloatArray, wanted: float) -> FloatArray:
    """Return confidences whose odds are all multiplied by one number, such that they sum to `wanted`.

    Their order stays; zeros stay zero.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.posterior import rescale_to_sum
    >>> rescale_to_sum(np.array([0.2, 0.0, 0.5]), 1.0).round(3)
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
