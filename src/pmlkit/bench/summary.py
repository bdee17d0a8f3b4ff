"""Summary of results as plain data: arrays (cases x methods x repeats), ranks, comparisons, costs and failures."""

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pmlkit._typing import BoolArray, FloatArray, IntArray
from pmlkit._words import METRICS, MetricInfo, guarded
from pmlkit.bench.statistics import PairedTests, Ranking, paired_t_test, rank_biserial, rank_methods, wilcoxon_holm
from pmlkit.exceptions import DataError

CELL = ["data", "noise", "ratio", "repeat", "method", "params"]
"""Columns that identify a cell."""


@dataclass(frozen=True, order=True)
class Case:
    """A data set with one kind and ratio of noise: the unit of the tests over cases."""

    data: str
    noise: str
    ratio: float

    @property
    def key(self) -> tuple[str, str, float]:
        """Hashable key; nan is not equal to itself, so it becomes -1."""
        return self.data, self.noise, -1.0 if math.isnan(self.ratio) else self.ratio

    @property
    def noise_name(self) -> str:
        """Description of the noise, such as "50 % uniform"."""
        return "own candidates" if math.isnan(self.ratio) else f"{self.ratio * 100:g} % {self.noise}"


@dataclass(frozen=True)
class Results:
    """Finished cells as arrays.

    `methods`: unique names; a method with two sets of parameters is two methods. `values` (n_cases, n_methods,
    n_repeats): nan if no cell finished. The same entry of two methods comes from the same split and noise.
    """

    cases: tuple[Case, ...]
    methods: tuple[str, ...]
    values: dict[str, FloatArray]

    @property
    def n_repeats(self) -> int:
        """Number of repeats of any method."""
        return next(iter(self.values.values())).shape[2] if self.values else 0

    def metrics(self) -> tuple[MetricInfo, ...]:
        """Return the metrics that have any value."""
        return tuple(
            metric for metric in METRICS if metric.key in self.values and not np.isnan(self.values[metric.key]).all()
        )

    def mean(self, key: str) -> FloatArray:
        """Return means over repeats, of shape (n_cases, n_methods)."""
        values = self.values[key]
        known = ~np.isnan(values)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(known, values, 0.0).sum(axis=2) / known.sum(axis=2))

    def deviation(self, key: str) -> FloatArray:
        """Return standard deviations over repeats; nan for fewer than two."""
        values = self.values[key]
        known = ~np.isnan(values)
        with np.errstate(invalid="ignore", divide="ignore"):
            squares = np.where(known, values - self.mean(key)[:, :, None], 0.0) ** 2
            freedom = known.sum(axis=2) - 1
            return np.where(freedom > 0, np.sqrt(squares.sum(axis=2) / np.maximum(freedom, 1)), np.nan)


def collect(cells: pd.DataFrame, *, methods: Sequence[str] | None = None) -> Results:
    """Arrange the finished cells of `pmlkit.bench.load_cells` as arrays; `methods`: which, in order; by default all."""
    cells = cells.assign(name=method_names(cells))
    done = cells[cells["status"] == "done"]
    order = sorted(cells["name"].unique()) if methods is None else list(methods)
    done = done[done["name"].isin(order)].drop_duplicates(CELL, keep="last")
    cases = _cases(cells)
    repeats = sorted(cells["repeat"].unique())
    place = (
        pd.MultiIndex.from_tuples([case.key for case in cases]).get_indexer(case_keys(done)),
        pd.Index(order).get_indexer(done["name"]),
        pd.Index(repeats).get_indexer(done["repeat"]),
    )
    values = {}
    for metric in METRICS:
        if metric.key in done:
            values[metric.key] = np.full((len(cases), len(order), len(repeats)), np.nan)
            values[metric.key][place] = done[metric.key].to_numpy(dtype=float, na_value=np.nan)
    return Results(cases, tuple(order), values)


def method_names(cells: pd.DataFrame) -> pd.Series:
    """Return the names of the methods: labels, with the parameters if one label has several sets of them."""
    if "name" in cells:
        return cells["name"]
    label = cells["label"] if "label" in cells else cells["method"]
    kinds = pd.DataFrame({"label": label, "method": cells["method"], "params": cells["params"]}).drop_duplicates()
    repeated = kinds["label"].duplicated(keep=False)
    kinds["name"] = kinds["label"].where(~repeated, kinds["method"] + kinds["params"].map(_in_brackets))
    names = kinds.set_index(["method", "params"])["name"]
    # If two plans give the same parameters different labels, the last label is used.
    names = names[~names.index.duplicated(keep="last")]
    return pd.Series(names.loc[pd.MultiIndex.from_frame(cells[["method", "params"]])].to_numpy(), index=cells.index)


def _in_brackets(params: str) -> str:
    given: dict[str, Any] = json.loads(params)
    return f"({', '.join(f'{key}={value}' for key, value in given.items())})" if given else ""


def case_keys(cells: pd.DataFrame) -> pd.MultiIndex:
    """Return the `Case.key` of each cell."""
    return pd.MultiIndex.from_arrays([cells["data"], cells["noise"], cells["ratio"].astype(float).fillna(-1.0)])


def _cases(cells: pd.DataFrame) -> tuple[Case, ...]:
    found = [Case(data, noise, math.nan if ratio < 0 else ratio) for data, noise, ratio in case_keys(cells).unique()]
    return tuple(sorted(found, key=lambda case: (case.data.lower(), case.key)))


def means_csv(cells: pd.DataFrame) -> str:
    """Return means and standard deviations as CSV, one line per case and method, sorted, without times.

    Two runs of one plan give the same text. A field is empty if no cell finished, or only one for a deviation.
    """
    cells = cells.assign(name=method_names(cells))
    results = collect(cells)
    known = results.metrics()
    tables = {metric.key: (results.mean(metric.key), results.deviation(metric.key)) for metric in known}
    unknown = (np.full((len(results.cases), len(results.methods)), np.nan),) * 2
    params = dict(zip(cells["name"], cells["params"], strict=True))
    counts = Counter(zip(case_keys(cells), cells["name"], cells["status"], strict=True))
    head = ["data", "noise", "ratio", "method", "params", "done", "failed"]
    head += [f"{metric.key}_{part}" for metric in METRICS for part in ("mean", "std")]
    rows = []
    for c, case in enumerate(results.cases):
        for m, name in enumerate(results.methods):
            n_done, n_failed = (counts[case.key, name, status] for status in ("done", "failed"))
            if n_done + n_failed:
                numbers = [table[c, m] for metric in METRICS for table in tables.get(metric.key, unknown)]
                ratio = "" if math.isnan(case.ratio) else f"{case.ratio:g}"
                words = [case.data, case.noise, ratio, name, params[name]]
                shown = ("" if math.isnan(value) else f"{value:.9f}" for value in numbers)
                rows.append([*map(guarded, words), n_done, n_failed, *shown])
    return csv_text(head, rows)


def csv_text(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue()


_MAIN = "average_precision"


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
    """Summarise the cells of `pmlkit.bench.load_cells`; the default reference is the method with the best mean rank."""
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
        ranking=rank_methods(mean, results.methods, lower_is_better=metric.lower_is_better, level=level),
        comparisons=tuple(comparisons),
    )


def best_of_rows(mean: FloatArray, metric: MetricInfo) -> BoolArray:
    """Return where no method is better, to the three decimals that are shown."""
    shown = np.round(-mean if metric.lower_is_better else mean, 3)
    top = np.where(np.isnan(shown), -np.inf, shown).max(axis=1, keepdims=True, initial=-np.inf)
    return np.asarray(shown == top)


def _best_first(results: Results, metric: MetricInfo) -> list[str]:
    ranking = rank_methods(results.mean(metric.key), results.methods, lower_is_better=metric.lower_is_better)
    ranks = ranking.ranks
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
