"""Significance tests and effect sizes on arrays.

*Within one case* (a data set with one kind of noise) the repeats of two methods are paired, because both use the same
splits: :func:`paired_t_test`. *Over cases* every case counts once, by the mean over its repeats: :func:`wilcoxon_holm`,
:func:`friedman`, :func:`critical_distance` and the effect size :func:`rank_biserial`, on tables of cases by methods. A
missing value is nan: a pair with one is left out of its test, a case with one is left out of the tests of all methods.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from pmlkit._typing import BoolArray, FloatArray, IntArray

# Metrics are at most 1; a smaller difference is rounding error.
SAME = 1e-12


@dataclass(frozen=True)
class PairedTests:
    """Results of paired t-tests, one per entry of the arrays.

    - `difference`: mean advantage of the first method; positive if it is better, also for losses.
    - `p_value`: two-sided; 1 if nothing differs, nan for fewer than two pairs.
    - `outcome`: 1 the first method wins, 0 tie or no test, -1 it loses.
    - `n_pairs`: number of repeats that both methods have.
    """

    difference: FloatArray
    p_value: FloatArray
    outcome: IntArray
    n_pairs: IntArray

    @property
    def counts(self) -> tuple[int, int, int]:
        """Number of wins, ties and losses, over the tests that could be made."""
        made = self.n_pairs >= 2
        win, tie, loss = (int(((self.outcome == sign) & made).sum()) for sign in (1, 0, -1))
        return win, tie, loss


def paired_t_test(
    first: ArrayLike, second: ArrayLike, *, lower_is_better: bool = False, level: float = 0.05
) -> PairedTests:
    """Compare two methods with Student's t-test for paired samples.

    `first`, `second` (..., n_repeats): values of a metric; entry r of both comes from the same split. nan where a
    repeat is missing. Returns: arrays of shape (...).

    Papers on partial multi-label learning use this test. The training sets of repeats overlap, so that the differences
    are not independent and the p-values are too small; the tests over cases do not have this flaw.
    """
    gain = advantage(first, second, lower_is_better)
    known = ~np.isnan(gain)
    n_pairs = known.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, gain, 0.0).sum(axis=-1) / n_pairs
        squares = (np.where(known, gain - mean[..., None], 0.0) ** 2).sum(axis=-1)
        error = np.sqrt(squares / (n_pairs - 1) / n_pairs)
        p_value = 2 * stats.t.sf(np.abs(mean) / error, n_pairs - 1)
    # A difference that is the same in all repeats has no spread to divide by.
    p_value = np.where(np.abs(mean) <= SAME, 1.0, np.where(error <= SAME, 0.0, p_value))
    p_value = np.where(n_pairs >= 2, p_value, np.nan)
    outcome = np.where(p_value < level, np.sign(mean), 0).astype(int)
    return PairedTests(mean, p_value, outcome, n_pairs)


def complete_cases(values: ArrayLike) -> BoolArray:
    """Return which cases have a value of every method."""
    return np.asarray(~np.isnan(_table(values)).any(axis=1))


def mean_ranks(values: ArrayLike, *, lower_is_better: bool = False) -> FloatArray:
    """Return the mean ranks of the methods over cases, 1 for the best; ties share their mean rank.

    `values` (n_cases, n_methods): cases with a nan are left out. Returns `ranks` (n_methods,): nan if no case is
    complete.
    """
    ranks = _ranks(values, lower_is_better)
    return ranks.mean(axis=0) if len(ranks) else np.full(ranks.shape[1], np.nan)


@dataclass(frozen=True)
class Friedman:
    """Result of Friedman's test.

    `statistic`: chi-squared, corrected for ties; 0 if all are tied, nan if there is no complete case. `p_value`: 1 if
    all are tied. `n_cases`, `n_methods`: number of complete cases and of methods.
    """

    statistic: float
    p_value: float
    n_cases: int
    n_methods: int


def friedman(values: ArrayLike) -> Friedman:
    """Test whether the ranks of the methods differ (Friedman's test).

    `values` (n_cases, n_methods): cases with a nan are left out. Unlike scipy's, it accepts two methods.
    """
    ranks = _ranks(values, lower_is_better=False)
    n, k = ranks.shape
    if n < 1 or k < 2:
        return Friedman(math.nan, math.nan, n, k)
    # Without ties the spread of a case's ranks is k (k^2 - 1) / 12; this form holds with them, too.
    spread = float(((ranks - (k + 1) / 2) ** 2).sum())
    if spread == 0:
        return Friedman(0.0, 1.0, n, k)
    statistic = (k - 1) * float(((ranks.sum(axis=0) - n * (k + 1) / 2) ** 2).sum()) / spread
    return Friedman(statistic, float(stats.chi2.sf(statistic, k - 1)), n, k)


def critical_distance(n_methods: int, n_cases: int, *, level: float = 0.05) -> float:
    """Return the critical distance of Nemenyi's test: the difference of mean ranks that is significant.

    `n_methods`, `n_cases`: size of the table.
    """
    if n_methods < 2 or n_cases < 1:
        return math.nan
    return _range_quantile(n_methods, level) * math.sqrt(n_methods * (n_methods + 1) / (12 * n_cases))


@cache
def _range_quantile(n_methods: int, level: float) -> float:
    """Return a quantile of the studentized range; cached, because it is slow and every metric needs the same one."""
    return float(stats.studentized_range.ppf(1 - level, n_methods, np.inf))


def rank_groups(ranks: ArrayLike, distance: float) -> list[tuple[int, ...]]:
    """Return the maximal groups of methods within the critical distance, best group first.

    `ranks` (n_methods,): mean ranks. `distance`: see :func:`critical_distance`. Returns: positions in `ranks`, at least
    two per group: the bars of a critical-difference diagram.
    """
    numbers = np.asarray(ranks, dtype=float)
    order = [int(position) for position in np.argsort(numbers, kind="stable") if not np.isnan(numbers[position])]
    groups: list[tuple[int, ...]] = []
    last_end = 0
    for start in range(len(order)):
        end = start
        while end < len(order) and numbers[order[end]] - numbers[order[start]] < distance:
            end += 1
        if end - start > 1 and end > last_end:
            groups.append(tuple(order[start:end]))
            last_end = end
    return groups


@dataclass(frozen=True)
class Ranking:
    """Methods ranked over cases by one metric: Friedman's test and Nemenyi's critical distance.

    - `ranks` (n_methods,): mean ranks, nan for the methods left out.
    - `distance`: critical distance of mean ranks.
    - `groups`: methods that do not differ significantly, see `rank_groups`.
    - `left_out`: methods without a result in more than half of the cases, which would leave too few complete cases.
    """

    ranks: FloatArray
    test: Friedman
    distance: float
    groups: tuple[tuple[int, ...], ...]
    left_out: tuple[str, ...]


def rank_methods(mean: FloatArray, methods: Sequence[str], *, lower_is_better: bool, level: float = 0.05) -> Ranking:
    """Rank the methods by their means over cases, of shape (n_cases, n_methods)."""
    ranked = np.isnan(mean).mean(axis=0) <= 0.5
    kept = mean[:, ranked]
    ranks = np.full(len(methods), np.nan)
    ranks[ranked] = mean_ranks(kept, lower_is_better=lower_is_better)
    distance = critical_distance(kept.shape[1], int(complete_cases(kept).sum()), level=level)
    left_out = tuple(name for name, is_in in zip(methods, ranked, strict=True) if not is_in)
    return Ranking(ranks, friedman(kept), distance, tuple(rank_groups(ranks, distance)), left_out)


def holm(p_values: ArrayLike) -> FloatArray:
    """Adjust p-values for multiple tests by Holm's step-down method.

    `p_values` (n_tests,): nan stays nan and is not counted.
    """
    given = np.asarray(p_values, dtype=float)
    adjusted = np.full(given.shape, np.nan)
    known = np.flatnonzero(~np.isnan(given))
    order = known[np.argsort(given[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(given[order] * factors), 1.0)
    return adjusted


def wilcoxon_holm(values: ArrayLike, reference: int | None = None) -> FloatArray:
    """Compare methods over cases by Wilcoxon's signed-rank test, adjusted by Holm's method.

    - `values` (n_cases, n_methods): a pair of methods is compared on the cases that both have.
    - `reference`: compare only this method with the others, which adjusts for fewer tests. By default all pairs.
    - Returns `p_values` (n_methods, n_methods): symmetric, 1 on the diagonal; 1 if all cases are tied, nan if a pair
      was not compared.
    """
    table = _table(values)
    k = table.shape[1]
    rows, columns = np.triu_indices(k, 1)
    if reference is not None:
        if not -k <= reference < k:
            raise ValueError(f"reference must be the position of one of {k} methods, got {reference}.")
        asked = (rows == reference % k) | (columns == reference % k)
        rows, columns = rows[asked], columns[asked]
    plain = [_wilcoxon(table[:, i] - table[:, j]) for i, j in zip(rows, columns, strict=True)]
    p_values = np.where(np.eye(k), 1.0, np.nan)
    p_values[rows, columns] = p_values[columns, rows] = holm(plain)
    return p_values


def rank_biserial(first: ArrayLike, second: ArrayLike, *, lower_is_better: bool = False) -> float:
    """Return the rank-biserial correlation, the effect size of Wilcoxon's test, from -1 to 1.

    The share of the signed ranks in favour of the first method minus the share in favour of the second; 1 if the
    first is better on every case.

    `first`, `second` (n_cases,): paired; pairs with a nan and ties are left out.
    """
    gain = known_values(advantage(first, second, lower_is_better))
    if not len(gain):
        return math.nan
    gain = gain[gain != 0]
    if not len(gain):
        return 0.0
    ranks = stats.rankdata(np.abs(gain))
    return float((ranks * np.sign(gain)).sum() / ranks.sum())


def advantage(first: ArrayLike, second: ArrayLike, lower_is_better: bool) -> FloatArray:
    """Return by how much the first is better; rounding errors become zero."""
    gain = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    gain = np.where(np.abs(gain) <= SAME, 0.0, gain)
    return -gain if lower_is_better else gain


def _table(values: ArrayLike) -> FloatArray:
    table = np.asarray(values, dtype=float)
    if table.ndim != 2:
        raise ValueError(f"values must be a table of cases by methods, got an array of shape {table.shape}.")
    return table


def known_values(values: ArrayLike) -> FloatArray:
    """Return the values that are not nan."""
    numbers = np.asarray(values, dtype=float)
    return np.asarray(numbers[~np.isnan(numbers)])


def _ranks(values: ArrayLike, lower_is_better: bool) -> FloatArray:
    """Rank the methods of each complete case, 1 for the best."""
    table = _table(values)
    table = table[complete_cases(table)]
    # Rounding errors must not break ties.
    table = np.round(table, 12)
    return np.asarray(stats.rankdata(table if lower_is_better else -table, axis=1))


def _wilcoxon(differences: Any) -> float:
    known = known_values(differences)
    if not len(known):
        return math.nan
    known = np.where(np.abs(known) <= SAME, 0.0, known)
    return float(stats.wilcoxon(known).pvalue) if known.any() else 1.0
