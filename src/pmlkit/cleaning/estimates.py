"""What can be said without the truth: how likely each candidate is false, how many are, and how sure that is.

The candidates are a mixture of right and false ones, and the features of the two overlap: true labels that features do
not predict look like random mistakes, and mistakes that follow the features look like the truth. So a rate of false
labels is bounded from above only, and that by assumptions: all candidates may be right, those that look like random
mistakes (`pmlkit.cleaning.injected_null`) included. The estimate below the bound is a guess.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from pmlkit._typing import CSR, FloatArray, IntArray
from pmlkit.cleaning.injected_null import InjectedCells, InjectedNull, SafeDepths

if TYPE_CHECKING:
    import pandas as pd


_Z90 = 1.645
_NULL_WEIGHT = 1.5  # of the null's log ratio beside the log odds of the map
_SLOPE = (0.3, 0.55)  # from both to log odds: without random mistakes, and with nothing but random mistakes
_UNSEEN = 3.1  # log odds by which the map may be too low; on the worst real noise it was by 2.0
_UNSEEN_OTHER_JUDGE = 4.0
# Standard deviation, on the scale of log odds, of what the map gets wrong about a label beyond its whole data set.
_LABEL_SPREAD = 0.59
_LEAST_TRUE_PER_ROW = 0.3  # true labels per row that even crowd labels have
_SLOPES_OTHER_JUDGE = (0.1, 2.0)
_MODEL_ERRORS = 1.5  # by which the share of random mistakes is lowered for the removal by another judge
_N_MATCHED = 20_000  # candidates on which a slope is found


class Estimate(float):
    """A number with the interval that should hold the truth nine times in ten.

    Behaves as a float.

    Parameters
    ----------
    value, low, high : float

    Examples
    --------
    >>> from pmlkit.cleaning.estimates import Estimate
    >>> rate = Estimate(0.1, 0.0, 0.4)
    >>> rate
    Estimate(0.1, low=0, high=0.4)
    >>> rate + 0.1, rate.high
    (0.2, 0.4)
    """

    low: float
    high: float

    def __new__(cls, value: float, low: float, high: float) -> Self:
        """Make it; bounds that cross the value are moved to it."""
        self = super().__new__(cls, value)
        self.low, self.high = min(float(low), float(value)), max(float(high), float(value))
        return self

    def __getnewargs__(self) -> tuple[float, float, float]:  # type: ignore[override]
        """Return what copies and pickles are made of."""
        return float(self), self.low, self.high

    def __repr__(self) -> str:
        return f"Estimate({float(self):.3g}, low={self.low:.3g}, high={self.high:.3g})"

    __str__ = __repr__


@dataclass(frozen=True)
class NoiseRates:
    """How many candidates are false.

    Attributes
    ----------
    overall : Estimate
        Among all candidates that were judged; ``overall.low`` and ``overall.high`` bound it.
    per_label : DataFrame
        ``label``, ``candidates``, ``noise_rate``, ``low``, ``high`` and ``cannot_tell``, one line per label in their
        order. Where it cannot be told how many are false, the rates are NaN and ``cannot_tell`` says why.

    Examples
    --------
    >>> import pandas as pd
    >>> from pmlkit.cleaning import Estimate, NoiseRates
    >>> rates = NoiseRates(Estimate(0.2, 0.1, 0.4), pd.DataFrame({"label": ["sky"], "noise_rate": [0.2]}))
    >>> f"{rates.overall:.0%} of the labels are wrong, between {rates.overall.low:.0%} and {rates.overall.high:.0%}"
    '20% of the labels are wrong, between 10% and 40%'
    """

    overall: Estimate
    per_label: "pd.DataFrame"


@dataclass(frozen=True)
class Verdict:
    """What is known about the candidates of a table without any answer."""

    doubt: FloatArray  # how likely each candidate is false; the mean is `noise_rate`, aligned with ``Y.data``
    noise_rate: Estimate  # share of false candidates
    random_mistakes: Estimate  # share of candidates that look as if they had been given at random
    # How many of the most suspicious candidates may be removed unseen at a precision, of labels on enough rows.
    safe_depths: SafeDepths


def assess(
    map_doubt: FloatArray,
    scores: FloatArray,
    Y: CSR,
    row_keys: IntArray,
    *,
    calibrated: bool = True,
    saw_labels: bool = False,
    every_row_has_a_label: bool | Literal["auto"] = "auto",
    on_comparison: Callable[[], Any] = lambda: None,
) -> Verdict:
    """Compare the candidates with injected cells, and say what is known of them.

    Twice: the first comparison tells how many mistakes are random, and how likely each candidate is one. The second
    learns what given cells look like from those that are left, and counts how labels go together.

    `map_doubt` (aligned with ``Y.data``): from `pmlkit.cleaning.calibration.false_probability`. `scores`, `Y`,
    `row_keys`: see `pmlkit.cleaning.injected_null.InjectedCells`. `calibrated`: whether the map was made for this kind
    of evidence. `saw_labels`: see `judge`. `every_row_has_a_label`: see `pmlkit.clean`. `on_comparison`: called after
    each comparison.
    """
    at_least_one = (np.diff(Y.indptr) > 0).all() if every_row_has_a_label == "auto" else every_row_has_a_label
    is_known = every_row_has_a_label is True
    cells = InjectedCells(scores, Y, row_keys, every_row_has_a_label=bool(at_least_one))
    null = cells.compare(map_doubt)
    on_comparison()
    first = judge(map_doubt, null, Y, calibrated=calibrated, every_row_has_a_label=is_known)
    again = cells.compare(first.doubt, with_relations=True)
    on_comparison()
    null = replace(again, ranks=null.ranks, common_ranks=null.common_ranks)
    return judge(map_doubt, null, Y, calibrated=calibrated, saw_labels=saw_labels, every_row_has_a_label=is_known)


def judge(
    map_doubt: FloatArray,
    null: InjectedNull,
    Y: CSR,
    *,
    calibrated: bool = True,
    saw_labels: bool = False,
    every_row_has_a_label: bool = False,
) -> Verdict:
    """Combine the map and the comparison with injected cells.

    Where mistakes look random the comparison counts most, and where the map sees more mistakes than random ones, the
    map: such mistakes follow the features, and injected cells do not look like them.

    Of a judge that the map was not made for, the comparison alone tells which candidates are doubtful, and how much:
    see `_random_mistakes`. The share of random mistakes is then the least within one standard error, and where the map
    sees more mistakes than those, they may be anywhere.

    `map_doubt` (aligned with ``Y.data``): from `pmlkit.cleaning.calibration.false_probability`. `Y`: candidates.
    `calibrated`: whether the map was made for this kind of evidence. `saw_labels`: whether the evidence is so good that
    it must have seen the labels: then any number of mistakes may be hidden. `every_row_has_a_label`: whether it is
    known that every row has a true label.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.estimates import judge
    >>> from pmlkit.cleaning.injected_null import InjectedNull, RankMixture
    >>> Y = sparse.csr_array(np.ones((50, 2)))
    >>> ratio = np.linspace(-2, 2, 100)
    >>> ranks = RankMixture(np.linspace(1, 0, 100) ** 0.2, 8000)
    >>> verdict = judge(np.full(100, 0.2), InjectedNull(ratio, ratio, -ratio, ranks, ranks, (1, 1, -1)), Y)
    >>> bool(verdict.doubt[-1] > verdict.doubt[0]), bool(np.isclose(verdict.doubt.mean(), verdict.noise_rate))
    (True, True)
    """
    by_map = float(map_doubt.mean())
    rate = null.ranks.random_share(standard_errors=0.0 if calibrated else 1.0)
    low, high = null.ranks.interval()
    share_random = min(1.0, rate / max(by_map, 1e-9))
    suspicion = null.suspicion(share_random)
    n_labelled = int((np.diff(Y.indptr) > 0).sum())
    most = 1.0 - (1.0 if every_row_has_a_label else _LEAST_TRUE_PER_ROW) * n_labelled / max(int(Y.nnz), 1)
    unseen = _UNSEEN if calibrated else _UNSEEN_OTHER_JUDGE
    random_mistakes = Estimate(rate, low, most if saw_labels else _lifted(high))
    # Random mistakes are mistakes: the map may see hardly any where a few are random.
    high = min(most, max(float(expit(log_odds(np.array([by_map]))[0] + unseen)), random_mistakes.high))
    middle = min(0.5 * (by_map + rate), max(most, rate))
    if calibrated:
        weight = _NULL_WEIGHT * (1.0 - max(by_map - rate, 0.0))
        slope = _SLOPE[0] + (_SLOPE[1] - _SLOPE[0]) * share_random
        doubt = with_mean(slope * (log_odds(map_doubt) + weight * suspicion), middle)
    else:
        middle = max(middle, rate)
        doubt = _random_mistakes(suspicion, null.suspicion_of_injected(share_random), rate)
        doubt += (1.0 - doubt) * (middle - rate) / max(1.0 - rate, 1e-9)
    # Of another judge it is not known how well its scores tell right labels from wrong ones: a wider margin.
    margin = {"standard_errors": 1.0} if calibrated else {"standard_errors": _Z90, "model_errors": _MODEL_ERRORS}
    depths = null.common_ranks.safe_depths(**margin)
    return Verdict(doubt, Estimate(middle, 0.0, high), random_mistakes, depths)


def _random_mistakes(suspicion: FloatArray, of_injected: float, share: float) -> FloatArray:
    """Return how likely each candidate is a random mistake, `share` of them being some.

    Logistic in the suspicion. Injected cells are random mistakes by making, so those taken for random mistakes must be
    as suspicious, on average, as they are: that gives the slope, whatever the method.
    """
    some = np.sort(suspicion)[:: -(-len(suspicion) // _N_MATCHED) or 1]

    def excess(slope: float) -> float:
        doubt = with_mean(slope * some, share)
        return float(doubt @ some / doubt.sum()) - of_injected

    least, most = _SLOPES_OTHER_JUDGE
    if excess(least) >= 0.0:
        slope = least
    else:
        slope = most if excess(most) <= 0.0 else float(brentq(excess, least, most, xtol=1e-3))
    return with_mean(slope * suspicion, share)


def rates_per_label(
    Y: CSR, doubt: FloatArray, low: FloatArray, high: FloatArray, cannot_tell: Any, label_names: Sequence[str]
) -> "pd.DataFrame":
    """Return `NoiseRates.per_label`.

    `Y`: candidates. `doubt`, `low`, `high` (aligned with ``Y.data``): how likely each candidate is false, and if as
    few, and as many, are as may be. `cannot_tell` (n_labels,): why nothing can be said of a label; empty where
    something can be.
    """
    import pandas as pd

    count = np.bincount(Y.indices, minlength=Y.shape[1])
    rate, least, most = (
        np.bincount(Y.indices, weights=part, minlength=len(count)) / np.maximum(count, 1) for part in (doubt, low, high)
    )
    known = cannot_tell == ""
    return pd.DataFrame(
        {
            "label": label_names,
            "candidates": count,
            "noise_rate": np.where(known, rate, np.nan),
            "low": np.where(known, np.minimum(_widened(least, count)[0], rate), np.nan),
            "high": np.where(known, np.maximum(_widened(most, count)[1], rate), np.nan),
            "cannot_tell": cannot_tell,
        }
    )


def n_first(k: Any, n: int) -> int:
    """Return how many of `n` candidates are meant by `k`: a number of them (int >= 1), or a share in (0, 1] (float).

    Examples
    --------
    >>> from pmlkit.cleaning.estimates import n_first
    >>> n_first(20, 10), n_first(0.25, 10)
    (10, 2)
    """
    if isinstance(k, int | np.integer) and not isinstance(k, bool) and k >= 1:
        return min(int(k), n)
    if isinstance(k, float | np.floating) and 0 < k <= 1:
        return max(1, round(float(k) * n))
    raise ValueError(f"k must be a number of candidates (int >= 1) or a share (float in (0, 1]), got {k!r}.")


def _lifted(rate: float) -> float:
    """Undo, at the most, that the share of random mistakes runs low where they make given cells look injected."""
    return min(rate / (1.0 - 0.5 * rate), 1.0)


def with_mean(log_odds: FloatArray, mean: float) -> FloatArray:
    """Return probabilities whose log odds are moved by one number, such that their mean is `mean`.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.estimates import with_mean
    >>> with_mean(np.array([-1.0, 0.0, 1.0]), 0.5).round(3).tolist()
    [0.269, 0.5, 0.731]
    """
    if not len(log_odds):
        return np.zeros(0)
    wanted = float(np.clip(mean, 1e-4, 1.0 - 1e-4))
    bound = float(np.abs(log_odds).max()) + 12.0
    shift = brentq(lambda shift: float(expit(log_odds + shift).mean()) - wanted, -bound, bound, xtol=1e-9)
    return np.asarray(expit(log_odds + shift))


def log_odds(probability: FloatArray) -> FloatArray:
    """Return log odds, kept away from certainty."""
    return np.asarray(logit(np.clip(probability, 1e-6, 1.0 - 1e-6)))


def _widened(rate: FloatArray, count: IntArray) -> tuple[FloatArray, FloatArray]:
    """Widen rates of labels, on the scale of log odds, by what is wrong about one and by what few rows leave open."""
    inside = np.clip(rate, 1e-4, 1 - 1e-4)
    width = _Z90 * np.sqrt(_LABEL_SPREAD**2 + 1.0 / np.maximum(count * inside * (1 - inside), 1.0))
    return expit(logit(inside) - width), expit(logit(inside) + width)
