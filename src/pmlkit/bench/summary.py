"""Summary of results: tables, ranks, comparisons, costs and failures, as plain data."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pmlkit._metric_info import MetricInfo
from pmlkit._typing import BoolArray, FloatArray, IntArray
from pmlkit.bench.results import CELL, Case, Results, collect, method_names
from pmlkit.bench.statistics import (
    Friedman,
    PairedTests,
    complete_cases,
    critical_distance,
    friedman,
    mean_ranks,
    paired_t_test,
    rank_biserial,
    rank_groups,
    wilcoxon_holm,
)
from pmlkit.exceptions import DataError

_MAIN = "average_precision"


@dataclass(frozen=True)
class Ranking:
    """Methods ranked over cases by one metric: Friedman's test and Nemenyi's critical distance.

    - `ranks` (n_methods,): mean ranks, nan for the methods left out.
    - `distance`: critical distance of mean ranks.
    - `groups`: methods that do not differ significantly, see :func:`~pmlkit.bench.statistics.rank_groups`.
    - `left_out`: methods without a result in more than half of the cases, which would leave too few complete cases.
    """

    ranks: FloatArray
    test: Friedman
    distance: float
    groups: tuple[tuple[int, ...], ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Comparison of the reference method with one rival, by one metric.

    - `wins`, `ties`, `losses`: of the reference, in paired t-tests within cases.
    - `p_value`: Wilcoxon's signed-rank test over cases, adjusted by Holm's method for the number of rivals.
    - `effect`: rank-biserial, from -1 (worse on every case) to 1 (better on every case).
    - `difference`: mean advantage over the cases that both have.
    """

    rival: str
    wins: int
    ties: int
    losses: int
    p_value: float
    effect: float
    difference: float
    n_cases: int


@dataclass(frozen=True)
class MetricSummary:
    """Summary of one metric; arrays have the shape (n_cases, n_methods).

    - `best`: whether no method has a better mean, to three decimals.
    - `outcome`: 1 if the reference is significantly better than the method in this case, -1 if it is worse.
    - `comparisons`: in the order of the methods, without the reference.
    """

    metric: MetricInfo
    mean: FloatArray
    deviation: FloatArray
    best: BoolArray
    outcome: IntArray
    ranking: Ranking
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True)
class Cost:
    """Cost of a method: medians over its finished cells."""

    method: str
    fit_seconds: float
    predict_seconds: float
    peak_mb: float
    n_done: int
    n_failed: int


@dataclass(frozen=True)
class Failure:
    """Cells of one case and method that failed for the same reason."""

    case: Case
    method: str
    repeats: tuple[int, ...]
    reason: str


@dataclass(frozen=True)
class DatasetFacts:
    """Size of a data set."""

    data: str
    n_rows: int | None
    n_features: int | None
    n_labels: int | None
    noises: tuple[str, ...]


@dataclass(frozen=True)
class Summary:
    """Summary of a store.

    - `methods`: best mean rank first.
    - `reference`: method that the others are compared with.
    - `costs`: in the order of the methods.
    - `parameters`: the parameters of each method, as JSON.
    - `versions`: versions of pmlkit, of its git revision, Python and the libraries, all that occur.
    """

    cases: tuple[Case, ...]
    methods: tuple[str, ...]
    reference: str
    metrics: tuple[MetricSummary, ...]
    costs: tuple[Cost, ...]
    failures: tuple[Failure, ...]
    datasets: tuple[DatasetFacts, ...]
    parameters: dict[str, str]
    versions: dict[str, tuple[str, ...]]
    n_cells: int
    n_repeats: int
    level: float

    @property
    def main(self) -> MetricSummary:
        """The metric that orders the methods: average precision if there is one, else the first."""
        return next((one for one in self.metrics if one.metric.key == _MAIN), self.metrics[0])


def summarize(cells: pd.DataFrame, *, reference: str | None = None, level: float = 0.05) -> Summary:
    """Summarise cells.

    - `cells`: one row per cell, see :func:`pmlkit.bench.store.load_cells`.
    - `reference`: method to compare the others with; by default the one with the best mean rank by average precision.
    - Raises DataError: if no cell has finished.
    - Raises ValueError: if there is no such method.
    """
    if not (cells["status"] == "done").any():
        raise DataError(f"None of the {len(cells)} cells has finished, so there is nothing to report.")
    cells = cells.assign(name=method_names(cells)).drop_duplicates(CELL, keep="last")
    results = collect(cells)
    metrics = results.metrics()
    main = next((metric for metric in metrics if metric.key == _MAIN), metrics[0])
    order = _best_first(results, main)
    results = collect(cells, methods=order)
    if reference is None:
        reference = order[0]
    elif reference not in order:
        raise ValueError(f"There is no method {reference!r} among the results; there are {', '.join(order)}.")
    return Summary(
        cases=results.cases,
        methods=results.methods,
        reference=reference,
        metrics=tuple(_summarize_metric(results, metric, order.index(reference), level) for metric in metrics),
        costs=_costs(cells, order),
        failures=_failures(cells),
        datasets=_dataset_facts(cells, results.cases),
        parameters=dict(zip(cells["name"], cells["params"], strict=True)),
        versions=_versions(cells),
        n_cells=len(cells),
        n_repeats=cells["repeat"].nunique(),
        level=level,
    )


def rank_methods(results: Results, metric: MetricInfo, level: float = 0.05) -> Ranking:
    """Rank the methods over cases by one metric."""
    mean = results.mean(metric.key)
    ranked = np.isnan(mean).mean(axis=0) <= 0.5
    kept = mean[:, ranked]
    n_complete, n_ranked = int(complete_cases(kept).sum()), kept.shape[1]
    ranks = np.full(len(results.methods), np.nan)
    ranks[ranked] = mean_ranks(kept, lower_is_better=metric.lower_is_better)
    distance = critical_distance(n_ranked, n_complete, level=level)
    return Ranking(
        ranks=ranks,
        test=friedman(kept),
        distance=distance,
        groups=tuple(rank_groups(ranks, distance)),
        left_out=tuple(name for name, is_in in zip(results.methods, ranked, strict=True) if not is_in),
    )


def compare(results: Results, metric: MetricInfo, reference: int, level: float = 0.05) -> PairedTests:
    """Test one method against all, within each case; the arrays have the shape (n_cases, n_methods)."""
    values = results.values[metric.key]
    own = values[:, [reference], :]
    return paired_t_test(own, values, lower_is_better=metric.lower_is_better, level=level)


def _summarize_metric(results: Results, metric: MetricInfo, reference: int, level: float) -> MetricSummary:
    mean = results.mean(metric.key)
    sign = -1 if metric.lower_is_better else 1
    tests = compare(results, metric, reference, level)
    p_values = wilcoxon_holm(mean, reference=reference)[reference]
    comparisons = []
    for rival, name in enumerate(results.methods):
        if rival == reference:
            continue
        column = PairedTests(*(part[:, rival] for part in vars(tests).values()))
        wins, ties, losses = column.counts
        gain = sign * (mean[:, reference] - mean[:, rival])
        n_both = int((~np.isnan(gain)).sum())
        effect = rank_biserial(mean[:, reference], mean[:, rival], lower_is_better=metric.lower_is_better)
        difference = float(np.nanmean(gain)) if n_both else math.nan
        comparisons.append(Comparison(name, wins, ties, losses, float(p_values[rival]), effect, difference, n_both))
    return MetricSummary(
        metric=metric,
        mean=mean,
        deviation=results.deviation(metric.key),
        best=best_of_rows(mean, metric),
        outcome=tests.outcome,
        ranking=rank_methods(results, metric, level),
        comparisons=tuple(comparisons),
    )


def best_of_rows(mean: FloatArray, metric: MetricInfo) -> BoolArray:
    """Return where no method is better, to the three decimals that are shown."""
    shown = np.round(-mean if metric.lower_is_better else mean, 3)
    top = np.where(np.isnan(shown), -np.inf, shown).max(axis=1, keepdims=True, initial=-np.inf)
    return np.asarray(shown == top)


def _best_first(results: Results, metric: MetricInfo) -> list[str]:
    ranks = rank_methods(results, metric).ranks
    return [name for _, name in sorted(zip(np.where(np.isnan(ranks), np.inf, ranks), results.methods, strict=True))]


def _costs(cells: pd.DataFrame, order: Sequence[str]) -> tuple[Cost, ...]:
    done = cells[cells["status"] == "done"]
    columns = ["fit_seconds", "predict_seconds", "peak_mb"]
    medians = done.reindex(columns=["name", *columns]).groupby("name")[columns].median()
    n_done, n_all = done["name"].value_counts(), cells["name"].value_counts()
    return tuple(
        Cost(
            name,
            n_done=int(n_done.get(name, 0)),
            n_failed=int(n_all.get(name, 0) - n_done.get(name, 0)),
            **{column: float(medians[column].get(name, math.nan)) for column in columns},
        )
        for name in order
    )


def _failures(cells: pd.DataFrame) -> tuple[Failure, ...]:
    failed = cells[cells["status"] != "done"]
    if failed.empty:
        return ()
    groups = failed.groupby(["data", "noise", "ratio", "name", "reason"], dropna=False)["repeat"]
    return tuple(
        Failure(Case(data, noise, ratio), name, tuple(sorted(repeats)), reason)
        for (data, noise, ratio, name, reason), repeats in groups
    )


def _dataset_facts(cells: pd.DataFrame, cases: Sequence[Case]) -> tuple[DatasetFacts, ...]:
    sizes = cells.reindex(columns=["data", "n_rows", "n_features", "n_labels"]).groupby("data").max()
    noises: dict[str, list[str]] = {}
    for case in cases:
        noises.setdefault(case.data, []).append(case.noise_name)
    return tuple(
        DatasetFacts(
            data,
            noises=tuple(kinds),
            **{column: None if pd.isna(size) else int(size) for column, size in sizes.loc[data].items()},
        )
        for data, kinds in noises.items()
    )


def _versions(cells: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for column, name in (("pmlkit_version", "pmlkit"), ("git_revision", "git revision")):
        if column in cells:
            found[name] = {str(value) for value in cells[column].dropna().unique()}
    if "versions" in cells:
        for text in cells["versions"].dropna().unique():
            for library, version in json.loads(text).items():
                found.setdefault(library, set()).add(str(version))
    return {name: tuple(sorted(versions)) for name, versions in found.items() if versions}
