"""Figures printed in the paper, where they contradict each other, and how ours compare with them."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

import numpy as np
import pandas as pd

from pmlkit._typing import IntArray
from pmlkit._words import FIVE, MetricInfo, counted
from pmlkit.bench.statistics import PairedTests
from pmlkit.bench.summary import Results, collect, compare

LFC = "PML-LFC"
RIVALS = ("RankSVM", "ML-KNN", "PML-LRS", "fPML", "DRAMA", "PARTICLE-VLS")
SYNTHETIC = ("slashdot", "scene", "enron", "medical", "corel5k")
REAL = ("YeastBP", "YeastCC", "YeastMF")
RATIOS = (0.1, 0.5, 1.0, 2.0)
TABLE_2_RATIO = 0.5

_ROUNDING = 0.001  # two numbers of three decimals, each off by half of the last one
_NEAR = 0.2  # relative difference of two numbers that are called alike


@cache
def table(number: int) -> pd.DataFrame:
    """Return table 1, 2 or 3 of the paper.

    Returns: 1: a row for each data set. 2: a row for each data set, metric and method that has a figure. 3: a row for
    each metric (and ``total``) and rival. The first line of each file tells where it comes from.
    """
    file = files("pmlkit.bench.paper") / "tables" / f"table{number}.csv"
    with file.open(encoding="utf-8") as stream:
        return pd.read_csv(stream, comment="#", keep_default_na=True)


@dataclass(frozen=True)
class Contradiction:
    """A figure of table 2 that contradicts others, and the reason."""

    data: str
    metric: str
    method: str
    reason: str


@cache
def contradictions() -> tuple[Contradiction, ...]:
    """Return the figures of table 2 that contradict others of the paper.

    With R true labels of q, a row's coverage (r - 1)/q and its ranking loss are tied to each other: the worst-ranked
    true label has at least as many false labels above it as the true labels have on average, and at most R times as
    many. So the mean coverage is at least (q - 1)/q times the ranking loss, and at most m times it plus (m - 1)/q,
    where m is the largest R.
    """
    sizes = table(1).set_index("data")
    # Table 1 prints 0.245 labels a row for corel5k; the data have 3.522.
    density = sizes["true_labels_per_row"].where(sizes.index != "corel5k", 3.522) / sizes["n_labels"]
    means = table(2).pivot_table("mean", index=["data", "method"], columns="metric", sort=False)
    found = []
    for (data, method), row in means.iterrows():
        q, m = int(sizes.loc[data, "n_labels"]), int(sizes.loc[data, "most_true_labels"])
        hamming, ranking, coverage = row["hamming_loss"], row["ranking_loss"], row["coverage"]
        lowest, highest = ranking * (q - 1) / q, (m * ranking * (q - 1) + m - 1) / q
        if abs(ranking - density[data]) < _NEAR * density[data] and hamming > 1.5 * ranking:
            reason = (
                f"the ranking loss {ranking:.3f} is about the Hamming loss of predicting nothing, {density[data]:.3f}: "
                "the two losses look swapped"
            )
            found += [Contradiction(data, metric, method, reason) for metric in ("hamming_loss", "ranking_loss")]
        elif hamming > 0.5:
            reason = f"a Hamming loss of {hamming:.3f} is worse than that of the opposite prediction"
            found.append(Contradiction(data, "hamming_loss", method, reason))
        if coverage < lowest - _ROUNDING:
            reason = (
                f"coverage {coverage:.3f} cannot be below (q - 1)/q of the ranking loss, {lowest:.3f}: it was counted "
                "over other rows, such as those without a label"
            )
            found.append(Contradiction(data, "coverage", method, reason))
        elif coverage > highest + _ROUNDING:
            reason = (
                f"with a ranking loss of {ranking:.3f} and at most {m} true labels, coverage is at most {highest:.3f}, "
                f"not {coverage:.3f}"
            )
            found += [Contradiction(data, metric, method, reason) for metric in ("ranking_loss", "coverage")]
    return tuple(found)


@dataclass(frozen=True)
class Fault:
    """Where table 3 contradicts itself or table 2; `has_impossible_tests`: it counts tests that cannot be."""

    rival: str
    reason: str
    has_impossible_tests: bool = False


@cache
def table_3_faults() -> tuple[Fault, ...]:
    """Return where table 3 contradicts itself or table 2."""
    figures, counts = table(2), table(3).set_index(["metric", "rival"])
    n_cases = len(SYNTHETIC) * len(RATIOS) + len(REAL)
    faults = []
    for rival in RIVALS:
        known = set(figures.loc[figures["method"] == rival, "data"])
        missing = [data for data in (*SYNTHETIC, *REAL) if data not in known]
        n_counted, n_possible = int(counts.loc[("total", rival)].sum()), 5 * (n_cases - len(missing))
        if n_counted > n_possible:
            reason = (
                f"{rival} has no figures on {', '.join(missing)}, but {n_counted} tests are counted for it instead of "
                f"at most {n_possible}."
            )
            faults.append(Fault(rival, reason, has_impossible_tests=True))
    marks = figures.groupby(["metric", "method", "outcome"]).size()
    for (metric, rival, outcome), n_marked in marks.items():
        n_counted = int(counts.loc[(metric, rival), _PLURAL[outcome]])
        if n_marked > n_counted:
            reason = (
                f"Table 2 marks {counted(int(n_marked), outcome)} against {rival} by {metric.replace('_', ' ')}, "
                f"table 3 counts {n_counted}."
            )
            faults.append(Fault(rival, reason))
    return tuple(faults)


_PLURAL = {"win": "wins", "tie": "ties", "loss": "losses"}


Verdict = Literal["same", "better", "worse", "inconsistent", "no figure", "no result"]
"""Inconsistent: the paper's figure contradicts its other figures. No figure: it has none. No result: we have none."""

TOLERANCE = 0.01
ENOUGH_REPEATS = 5
"""With fewer repeats, a t-test has hardly any power."""
_SHARE_TOLERANCE = 0.05


@dataclass(frozen=True)
class Figure:
    """A figure of table 2; `theirs` and `ours` are pairs (mean, standard deviation), nan if there is none."""

    data: str
    metric: MetricInfo
    method: str
    ours: tuple[float, float]
    theirs: tuple[float, float]
    verdict: Verdict
    note: str = ""


@dataclass(frozen=True)
class SizeFigure:
    """A figure of table 1."""

    data: str
    what: str
    ours: float
    theirs: float
    verdict: Verdict


@dataclass(frozen=True)
class TestCounts:
    """Wins, ties and losses of PML-LFC against a rival by one metric (None: by all five), as in table 3.

    `better_means`: in how many of the `n_means` cases that both have, tested or not, PML-LFC has the better mean.
    """

    rival: str
    metric: MetricInfo | None
    ours: tuple[int, int, int]
    theirs: tuple[int, ...]
    better_means: int
    n_means: int
    verdict: Verdict

    @property
    def n_tests(self) -> int:
        """Number of our tests."""
        return sum(self.ours)


def main_results(cells: pd.DataFrame) -> Results:
    """Return the results of PML-LFC and its rivals, in the paper's order."""
    return collect(cells, methods=[*RIVALS, LFC])


def find_case(results: Results, data: str) -> int | None:
    """Return the position of a data set's case: with the noise of table 2, or with its own candidates."""
    for position, case in enumerate(results.cases):
        if case.data == data and (math.isnan(case.ratio) or (case.noise == "uniform" and case.ratio == TABLE_2_RATIO)):
            return position
    return None


def compare_table_2(results: Results, data: Sequence[str]) -> list[Figure]:
    """Compare all figures of table 2.

    `results`: see :func:`main_results`. `data`: the data sets to compare, whether we have results or not.
    A figure is the same within 0.01 or the paper's own deviation, whichever is more.
    """
    printed = table(2).set_index(["data", "metric", "method"])[["mean", "deviation"]]
    doubts = {(one.data, one.metric, one.method): one.reason for one in contradictions()}
    figures = []
    for name in data:
        case = find_case(results, name)
        for metric in FIVE:
            means, deviations = results.mean(metric.key), results.deviation(metric.key)
            for m, method in enumerate(results.methods):
                key = (name, metric.key, method)
                ours = (math.nan, math.nan) if case is None else (float(means[case, m]), float(deviations[case, m]))
                theirs = (math.nan, math.nan)
                if key in printed.index:
                    theirs = float(printed.loc[key, "mean"]), float(printed.loc[key, "deviation"])
                verdict = _verdict(ours, theirs, metric, key in doubts)
                figures.append(Figure(name, metric, method, ours, theirs, verdict, doubts.get(key, "")))
    return figures


def _verdict(ours: tuple[float, float], theirs: tuple[float, float], metric: MetricInfo, is_doubtful: bool) -> Verdict:
    if math.isnan(ours[0]):
        return "no result"
    if math.isnan(theirs[0]):
        return "no figure"
    if is_doubtful:
        return "inconsistent"
    gain = round(theirs[0] - ours[0] if metric.lower_is_better else ours[0] - theirs[0], 3)
    if abs(gain) <= max(TOLERANCE, theirs[1]):
        return "same"
    return "better" if gain > 0 else "worse"


def compare_table_3(results: Results) -> list[TestCounts]:
    """Count wins, ties and losses of PML-LFC over all cases, as table 3 does.

    - `results`: see :func:`main_results`.
    - Returns: for each rival the five metrics, then their total. The verdict compares shares of wins: the same within
      five points; there is none with fewer than five repeats. Where the paper counts tests that it cannot have made,
      its figures are inconsistent.
    """
    printed = table(3).set_index(["metric", "rival"])
    doubtful = {fault.rival for fault in table_3_faults() if fault.has_impossible_tests}
    lfc = results.methods.index(LFC)
    tests = {metric.key: compare(results, metric, lfc) for metric in FIVE}
    counts = []
    for m, rival in enumerate(results.methods):
        if rival == LFC:
            continue
        outcomes = {key: _outcomes(test, m) for key, test in tests.items()}
        outcomes["total"] = np.sum(list(outcomes.values()), axis=0)
        for metric in (*FIVE, None):
            key = "total" if metric is None else metric.key
            wins, ties, losses, better, n_means = (int(number) for number in outcomes[key])
            theirs = tuple(int(number) for number in printed.loc[(key, rival), ["wins", "ties", "losses"]])
            verdict: Verdict = "no result"
            if results.n_repeats >= ENOUGH_REPEATS:
                verdict = _share_verdict((wins, ties, losses), theirs, rival in doubtful)
            counts.append(TestCounts(rival, metric, (wins, ties, losses), theirs, better, n_means, verdict))
    return counts


def _outcomes(test: PairedTests, m: int) -> IntArray:
    """Return wins, ties, losses against one rival, the cases with the better mean, and the cases that both have."""
    made = test.n_pairs[:, m] >= 2
    counts = [int(((test.outcome[:, m] == sign) & made).sum()) for sign in (1, 0, -1)]
    known = test.n_pairs[:, m] > 0
    return np.array([*counts, int((np.round(test.difference[known, m], 3) > 0).sum()), int(known.sum())])


def _share_verdict(ours: Sequence[int], theirs: Sequence[int], is_doubtful: bool) -> Verdict:
    if not sum(ours):
        return "no result"
    if is_doubtful:
        return "inconsistent"
    gain = ours[0] / sum(ours) - theirs[0] / sum(theirs)
    return "same" if abs(gain) <= _SHARE_TOLERANCE else "better" if gain > 0 else "worse"


def compare_sizes(found: dict[str, dict[str, float]]) -> list[SizeFigure]:
    """Compare table 1 with what the data files have, by data set and column of the table."""
    printed = table(1).set_index("data")
    figures = []
    for data, facts in found.items():
        for what, ours in facts.items():
            theirs = float(printed.loc[data, what])
            if math.isnan(theirs):
                continue
            is_same = abs(ours - theirs) <= 0.0005
            figures.append(SizeFigure(data, what, ours, theirs, "same" if is_same else "inconsistent"))
    return figures


def tally(verdicts: Sequence[Verdict]) -> dict[Verdict, int]:
    """Count verdicts, those that occur."""
    counts = Counter(verdicts)
    order: tuple[Verdict, ...] = ("same", "better", "worse", "inconsistent", "no figure", "no result")
    return {verdict: counts[verdict] for verdict in order if counts[verdict]}
