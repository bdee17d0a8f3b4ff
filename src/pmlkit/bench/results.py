"""Finished cells as arrays (cases x methods x repeats), and their means as CSV."""

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pmlkit._metric_info import METRICS, MetricInfo
from pmlkit._typing import FloatArray
from pmlkit._words import guarded

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
    """Arrange finished cells as arrays.

    `cells`: one row per cell, see :func:`pmlkit.bench.store.load_cells`. `methods`: their order, and which; by default
    all, by name.
    """
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

    Two runs of one plan give the same text.

    `cells`: one row per cell, see :func:`pmlkit.bench.store.load_cells`. Returns: metrics have nine decimals; a field
    is empty if no cell finished, or only one for a standard deviation.
    """
    cells = cells.assign(name=method_names(cells))
    results = collect(cells)
    known = results.metrics()
    tables = {metric.key: (results.mean(metric.key), results.deviation(metric.key)) for metric in known}
    unknown = (np.full((len(results.cases), len(results.methods)), np.nan),) * 2
    params = dict(zip(cells["name"], cells["params"], strict=True))
    counts = Counter(zip(case_keys(cells), cells["name"], cells["status"], strict=True))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["data", "noise", "ratio", "method", "params", "done", "failed"]
        + [f"{metric.key}_{part}" for metric in METRICS for part in ("mean", "std")]
    )
    for c, case in enumerate(results.cases):
        for m, name in enumerate(results.methods):
            n_done, n_failed = (counts[case.key, name, status] for status in ("done", "failed"))
            if n_done + n_failed:
                numbers = [_shown(table[c, m]) for metric in METRICS for table in tables.get(metric.key, unknown)]
                ratio = "" if math.isnan(case.ratio) else f"{case.ratio:g}"
                words = [case.data, case.noise, ratio, name, params[name]]
                writer.writerow([*map(guarded, words), n_done, n_failed, *numbers])
    return text.getvalue()


def _shown(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.9f}"
