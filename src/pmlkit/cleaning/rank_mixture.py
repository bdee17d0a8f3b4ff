"""How many given cells are random mistakes, and how many right labels rank among them: a mixture of ranks.

Ranked among injected cells, which are false and were drawn at random, random mistakes are anywhere: their ranks are
uniform. Right labels look less like mistakes. How much less can be seen from the mean rank of all given cells, once a
share of random mistakes is supposed; how many right labels rank high all the same then follows from the usual model of
a ROC curve, two normal distributions. One share explains both the mean rank and the number of cells that rank high.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from pmlkit._typing import FloatArray, IntArray

__all__ = ["RankMixture", "SafeDepths", "right_share"]

_TAIL = 0.4  # of the injected cells: those among which given cells are counted to find the share
_NARROW_TAIL = 0.2
# Right labels that no feature predicts are as anywhere as random mistakes, and the model of two normal distributions
# does not know them. Without any noise up to 2 % of the labels of the sets that gates were chosen on looked so.
_UNPREDICTED = 0.02
_DEPTHS = np.arange(1, 17) / 20.0
_STEP = 1e-4
_UNIFORM_SPREAD = 0.29  # standard deviation of uniform ranks


@dataclass(frozen=True)
class RankMixture:
    """The ranks of given cells among injected ones.

    Attributes
    ----------
    rank : array of shape (n_given,)
        Share of the injected cells that look more like a mistake than the given one.
    n_injected : int

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.rank_mixture import RankMixture
    >>> rng = np.random.default_rng(0)
    >>> right = np.sqrt(0.5) * rng.normal(size=7000) + 2.0
    >>> rank = np.concatenate([rng.random(3000), np.searchsorted(np.sort(rng.normal(size=8000)), right) / 8000])
    >>> bool(abs(RankMixture(rank, 8000).random_share() - 0.3) < 0.03)
    True
    """

    rank: FloatArray
    n_injected: int

    def random_share(self, *, standard_errors: float = 0.0, narrow: bool = False) -> float:
        """Estimate the share of given cells that are random mistakes.

        Parameters
        ----------
        standard_errors : float, default=0
            By how many the estimate is lowered.
        narrow : bool, default=False
            Whether to count among the most suspicious fifth of the injected cells only: fewer right labels are there,
            but fewer of the mistakes, too, than of the injected cells, and the estimate runs low.
        """
        if not len(self.rank) or not self.n_injected:
            return 0.0
        tail = _NARROW_TAIL if narrow else _TAIL
        inside = self.rank <= tail
        count, mean = float(inside.mean()), float(self.rank.mean())
        share = _share(count, mean, tail)
        if not standard_errors:
            return share
        by_count = (_share(count + _STEP, mean, tail) - _share(count - _STEP, mean, tail)) / (2 * _STEP)
        by_mean = (_share(count, mean + _STEP, tail) - _share(count, mean - _STEP, tail)) / (2 * _STEP)
        spread = float(np.std(by_count * inside + by_mean * self.rank))
        error = spread * np.sqrt(1.0 / len(self.rank) + 1.0 / self.n_injected)
        return float(np.clip(share - standard_errors * error, 0.0, 1.0))

    def safe_depths(self, *, standard_errors: float = 1.0) -> "SafeDepths":
        """Bound the share of random mistakes among the given cells that rank first, at growing depth.

        The share of random mistakes and the number of cells are moved to the safe side by so many standard errors, and
        two in a hundred right labels may be such as no feature predicts.
        """
        n_given = len(self.rank)
        if not n_given or not self.n_injected:
            return SafeDepths(0.0, np.zeros(len(_DEPTHS), dtype=np.int64), np.zeros(len(_DEPTHS)))
        n_cells = np.searchsorted(np.sort(self.rank), _DEPTHS, side="right")
        share = min(self.random_share(standard_errors=standard_errors), 0.99)
        error = standard_errors * _UNIFORM_SPREAD * np.sqrt(1.0 / n_given + 1.0 / self.n_injected)
        separation = (float(self.rank.mean()) - error - share / 2.0) / (1.0 - share)
        right = (1.0 - share) * (right_share(_DEPTHS, separation) + _UNPREDICTED * _DEPTHS)
        counted = np.maximum(n_cells - standard_errors * np.sqrt(n_cells), 1e-9) / n_given
        return SafeDepths(share, n_cells, np.maximum(1.0 - right / counted, 0.0))


@dataclass(frozen=True)
class SafeDepths:
    """How precise it is, at least, to take the given cells that look most like mistakes for mistakes.

    Attributes
    ----------
    random_share : float
        Lower bound of the share of random mistakes among all given cells.
    n_cells : array of int
        How many given cells rank among the first 5 %, 10 %, ... 80 % of the injected ones.
    precision : array
        Lower bound of the share of random mistakes among these; 0 where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.rank_mixture import SafeDepths
    >>> depths = SafeDepths(0.3, np.array([40, 90, 150]), np.array([0.8, 0.95, 0.7]))
    >>> depths.depth(0.9), depths.depth(0.99)
    (90, 0)
    """

    random_share: float
    n_cells: IntArray
    precision: FloatArray

    def depth(self, precision: float) -> int:
        """Return how many cells can be taken at a precision."""
        reached = np.flatnonzero(self.precision >= precision)
        return int(self.n_cells[reached[-1]]) if len(reached) else 0


def right_share(depth: FloatArray | float, separation: float) -> FloatArray:
    """Return the share of right labels that rank among the first `depth` of the injected cells.

    Parameters
    ----------
    depth : array or float
        Share of the injected cells.
    separation : float
        Chance that a right label ranks behind an injected cell: the area under the ROC curve.

    Examples
    --------
    >>> from pmlkit.cleaning.rank_mixture import right_share
    >>> right_share(0.2, 0.5).round(6).item(), right_share(0.2, 0.95).round(4).item()
    (0.2, 0.0008)
    """
    shift = np.sqrt(2.0) * ndtri(np.clip(separation, 0.5, 0.9999))
    return np.asarray(ndtr(ndtri(depth) - shift))


def _share(count: float, mean: float, tail: float) -> float:
    """Return the share that explains how many given cells rank in the tail, and their mean rank."""
    most = min(2.0 * (1.0 - mean), 1.0 - 1e-6)  # right labels cannot rank behind more than all injected cells

    def excess(share: float) -> float:
        right = right_share(tail, (mean - share / 2.0) / (1.0 - share))
        return share * tail + (1.0 - share) * float(right) - count

    # The excess grows with the share. Ranks that are no higher than those of injected cells tell nothing.
    if mean <= 0.5 or most <= 0.0 or excess(0.0) >= 0.0:
        return 0.0
    return most if excess(most) <= 0.0 else float(brentq(excess, 0.0, most, xtol=1e-9))
