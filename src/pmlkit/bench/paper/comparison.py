"""Compare our figures with the paper's: same, better, worse, or inconsistent within the paper."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from pmlkit._metric_info import FIVE, MetricInfo
from pmlkit._typing import IntArray
from pmlkit.bench.paper.printed import LFC, RIVALS, TABLE_2_RATIO, contradictions, table, table_3_faults
from pmlkit.bench.results import Results, collect
from pmlkit.bench.statistics import PairedTests
from pmlkit.bench.summary import compare

__all__ = [
    "ENOUGH_REPEATS",
    "Figure",
    "SizeFigure",
    "TestCounts",
    "Verdict",
    "compare_sizes",
    "compare_table_2",
    "compare_table_3",
    "find_case",
    "main_results",
    "tally",
]

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


def find_case(results: Results, data: str, ratio: float = TABLE_2_RATIO) -> int | None:
    """Return the position of a data set's case: with that ratio of uniform noise, or with its own candidates."""
    for position, case in enumerate(results.cases):
        if case.data == data and (math.isnan(case.ratio) or (case.noise == "uniform" and case.ratio == ratio)):
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


def compare_table_3(results: Results, level: float = 0.05) -> list[TestCounts]:
    """Count wins, ties and losses of PML-LFC over all cases, as table 3 does.

    - `results`: see :func:`main_results`.
    - Returns: for each rival the five metrics, then their total. The verdict compares shares of wins: the same within
      five points; there is none with fewer than five repeats. Where the paper counts tests that it cannot have made,
      its figures are inconsistent.
    """
    printed = table(3).set_index(["metric", "rival"])
    doubtful = {rival for rival in RIVALS for fault in table_3_faults() if fault.startswith(rival)}
    lfc = results.methods.index(LFC)
    tests = {metric.key: compare(results, metric, lfc, level) for metric in FIVE}
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
    """Compare table 1 with what the data files have.

    `found`: ``n_rows``, ``n_features``, ``n_labels``, ``true_labels_per_row``, ``false_candidates``; data sets that are
    absent are left out.
    """
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
