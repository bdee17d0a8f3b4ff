"""Audit questions: a random sample that is valid at every length, and the totals that it estimates.

Every candidate gets a key, exponential with a rate that grows with suspicion, and questions are asked in the order of
keys. Any prefix is a sample: with `tau` the key of the first unasked candidate, a candidate of rate w was asked
with probability ``1 - exp(-w tau)`` (rank conditioning), and dividing by it gives unbiased totals.
"""

import numpy as np

from pmlkit._typing import BoolArray, FloatArray, IntArray

__all__ = ["audit_order", "difference_estimate", "inclusion"]

_BASE, _STEEPNESS = 0.3, 0.01


def audit_order(n_candidates: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the order of questions, and the rates and keys of candidates, all by rank of suspicion.

    Parameters
    ----------
    n_candidates : int
        Ranked from 0, the most suspicious, on.
    rng : Generator

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.audit.sampling import audit_order
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
    >>> from pmlkit.cleaning.audit.sampling import inclusion
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

    Parameters
    ----------
    wrong : array
        Answers of the sample, 1 for wrong.
    predicted : array aligned with `wrong`
        What the model says of the same candidates, as if they had not been asked.
    chance : array aligned with `wrong`
        With which probability each came into the sample.
    n_sure : float
        The model's total over all candidates that are sampled from, plus the known ones.

    Returns
    -------
    total, standard_error : float

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.audit.sampling import difference_estimate
    >>> difference_estimate(np.array([1.0]), np.array([0.5]), np.array([0.1]), 10.0)[0]
    15.0
    """
    error = wrong - predicted
    total = n_sure + float((error / chance).sum())
    return total, float(np.sqrt(((1.0 - chance) / chance**2 * error**2).sum()))
