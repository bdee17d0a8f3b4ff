"""How large is a difference? Effect sizes, plain functions on arrays."""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from pmlkit.bench.statistics import SAME, advantage, known_values

__all__ = ["cliffs_delta", "cohens_d", "rank_biserial"]


def cohens_d(first: ArrayLike, second: ArrayLike) -> float:
    """Return the difference of two means in units of their pooled deviation.

    Parameters
    ----------
    first, second : arrays of shape (n,)
        nan is left out.

    Examples
    --------
    >>> from pmlkit.bench.effects import cohens_d
    >>> round(cohens_d([1, 2, 3, 4], [2, 3, 4, 5]), 3)
    -0.775
    """
    one, two = known_values(first), known_values(second)
    if min(len(one), len(two)) < 2:
        return math.nan
    apart = float(one.mean() - two.mean())
    freedom = len(one) + len(two) - 2
    pooled = math.sqrt(((len(one) - 1) * one.var(ddof=1) + (len(two) - 1) * two.var(ddof=1)) / freedom)
    if abs(apart) <= SAME:
        return 0.0
    return apart / pooled if pooled > SAME else math.copysign(math.inf, apart)


def cliffs_delta(first: ArrayLike, second: ArrayLike) -> float:
    """Return how much more often a value of the first is above one of the second than below, from -1 to 1.

    Parameters
    ----------
    first, second : arrays of shape (n,)
        nan is left out.

    Examples
    --------
    >>> from pmlkit.bench.effects import cliffs_delta
    >>> cliffs_delta([3, 4], [1, 4])
    0.25
    """
    one, two = known_values(first), known_values(second)
    if not len(one) or not len(two):
        return math.nan
    return float(np.sign(advantage(one[:, None], two, lower_is_better=False)).mean())


def rank_biserial(first: ArrayLike, second: ArrayLike, *, lower_is_better: bool = False) -> float:
    """Return the effect size that belongs to Wilcoxon's test, from -1 to 1.

    The absolute differences are ranked; the share of the ranks on the first method's side less the share on the
    other's. At 1 the first is better on every case.

    Parameters
    ----------
    first, second : arrays of shape (n_cases,)
        Paired; pairs with a nan are left out, equal pairs count for nobody.
    lower_is_better : bool, default=False
        Whether the measure is a loss.

    Examples
    --------
    >>> from pmlkit.bench.effects import rank_biserial
    >>> rank_biserial([0.8, 0.9, 0.5], [0.7, 0.6, 0.7])
    0.3333333333333333
    """
    gain = known_values(advantage(first, second, lower_is_better))
    if not len(gain):
        return math.nan
    gain = gain[gain != 0]
    if not len(gain):
        return 0.0
    ranks = stats.rankdata(np.abs(gain))
    return float((ranks * np.sign(gain)).sum() / ranks.sum())
