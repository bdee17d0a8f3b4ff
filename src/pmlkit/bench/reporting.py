"""Report of a store: one self-contained HTML page, LaTeX tables, or means as CSV."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import jinja2
import numpy as np
from markupsafe import Markup

from pmlkit import __version__
from pmlkit._files import check_target, replacing
from pmlkit._words import MetricInfo, did_you_mean, harmless
from pmlkit.bench.formatting import FILTERS, latex_tables, sentences
from pmlkit.bench.plots import Series, critical_difference_diagram, line_chart, scatter_chart, swatch
from pmlkit.bench.store_reader import load_cells, load_plan_facts
from pmlkit.bench.summary import MetricSummary, Summary, means_csv, method_names, summarize
from pmlkit.exceptions import DataError

Format = Literal["html", "latex", "csv"]

_MAX_CURVES = 8  # methods in one chart
_MAX_CHARTS = 24  # data sets drawn per metric
_MAX_FAILURES = 500


@dataclass(frozen=True)
class Report:
    """Report of a store; made by `report`, whose example shows one.

    Attributes
    ----------
    text : str
        The page, the LaTeX tables or the CSV.
    n_cells : int
        Finished and failed cells of the store.
    summary : Summary or None
        Tables, ranks, comparisons, costs and failures behind the text; None for CSV.
    """

    text: str
    n_cells: int
    summary: Summary | None = None

    def write(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write the text to a file, which is replaced only with `force`; return its path."""
        target = check_target(path, force=force)
        with replacing(target) as stream:
            stream.write(self.text.encode())
        return target


def report(
    store: str | os.PathLike[str],
    *,
    format: Format = "html",
    reference: str | None = None,
    title: str = "Benchmark report",
) -> Report:
    """Summarise the results of a store.

    Parameters
    ----------
    store : str or path
        SQLite file that `pmlkit.bench.run` or ``pmlkit bench`` wrote; a run may be going on.
    format : {"html", "latex", "csv"}, default="html"
        A page that opens without a network, tables for a paper (booktabs), or means and standard deviations without
        times, so that two runs of one plan give the same bytes.
    reference : str, optional
        Method to compare the others with; by default the one with the best mean rank by average precision.
    title : str, default="Benchmark report"
        Heading of the page.

    Returns
    -------
    report : Report

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit import bench
    >>> plan = bench.Plan(["digit-strips:100"], ["MLkNN", "CandidateLogistic"], noise=[0.5], repeats=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = pathlib.Path(folder, "results.sqlite")
    ...     _ = bench.run(plan, store)
    ...     report = bench.report(store, reference="MLkNN")
    ...     report.write(pathlib.Path(folder, "report.html")).name
    'report.html'
    >>> report.summary.reference, report.text.startswith("<!DOCTYPE html>")
    ('MLkNN', True)
    """
    if format not in get_args(Format):
        raise ValueError(f"format must be one of {', '.join(get_args(Format))}, got {format!r}.")
    cells = load_cells(store)
    if cells.empty:
        raise DataError(f"{os.fspath(store)!r} has no finished cell yet: run `pmlkit bench -o {store}` first.")
    if format == "csv":
        return Report(means_csv(cells), len(cells))
    names = list(method_names(cells).unique())
    if reference is not None and reference not in names:
        near = did_you_mean(reference, names)
        raise ValueError(f"There is no method {reference!r} in the store.{near} There are {', '.join(names)}.")
    summary = summarize(cells, reference=reference)
    if format == "latex":
        return Report(latex_tables(summary), summary.n_cells, summary)
    return Report(render_report(summary, title=title, commands=_commands(store)), summary.n_cells, summary)


def _commands(store: str | os.PathLike[str]) -> list[str]:
    """Return the commands that filled a store, and the one that makes its report."""
    commands = []
    for facts in load_plan_facts(store):
        # A run that was started from Python has no command line; its plan is its record.
        is_typed = "\n" not in facts.command and facts.command.startswith("pmlkit ")
        commands.append(facts.command if is_typed else f"# from Python, the plan:\n{facts.plan.strip()}")
    return [*commands, shlex.join(["pmlkit", "report", os.fspath(store)])]


def render_report(summary: Summary, *, title: str = "Benchmark report", commands: Sequence[str] = ()) -> str:
    """Return the report of a summary as one HTML page, with the `commands` that run the benchmark again."""
    return render("report.html", title=title, commands=list(commands), **report_parts(summary))


def render(template: str, **values: Any) -> str:
    """Render one of the templates of this package."""
    return _environment().get_template(template).render(version=__version__, **values)


def report_parts(summary: Summary) -> dict[str, Any]:
    """Return the variables of the template: the summary, its sentences and its charts."""
    styles = {name: position for position, name in enumerate(summary.methods)}
    shown = summary.methods[:_MAX_CURVES]
    return {
        "summary": summary,
        "sentences": sentences(summary),
        "confidence": f"{100 * (1 - summary.level):g} %",
        "best_ranks": [_smallest(one.ranking.ranks) for one in summary.metrics],
        "diagrams": [_diagram(summary, one) for one in summary.metrics],
        "curves": _all_curves(summary, shown, styles),
        "legend": [(name, swatch(styles[name])) for name in shown],
        "n_shown": len(shown),
        "n_hidden": len(summary.methods) - len(shown),
        "scatter": _time_against_quality(summary, styles),
        "n_failures": _MAX_FAILURES,
    }


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pmlkit.bench"),
        autoescape=True,
        finalize=harmless,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    return environment


def _smallest(ranks: Any) -> float:
    return float("nan") if np.isnan(ranks).all() else float(np.nanmin(ranks))


def _diagram(summary: Summary, one: MetricSummary) -> Markup:
    ranking = one.ranking
    title = f"Critical-difference diagram by {one.metric.name}"
    return critical_difference_diagram(summary.methods, ranking.ranks, ranking.groups, ranking.distance, title=title)


def _all_curves(
    summary: Summary, shown: Sequence[str], styles: dict[str, int]
) -> list[tuple[MetricInfo, list[tuple[str, Markup]]]]:
    """Return per metric the charts of the data sets that were run with several noise ratios."""
    groups: dict[tuple[str, str], list[int]] = {}
    for position, case in enumerate(summary.cases):
        if case.ratio == case.ratio:
            groups.setdefault((case.data, case.noise), []).append(position)
    groups = dict([(key, rows) for key, rows in groups.items() if len(rows) > 1][:_MAX_CHARTS])
    kinds = {noise for _, noise in groups}
    found = []
    for one in summary.metrics:
        charts = []
        for (data, noise), rows in groups.items():
            caption = data if len(kinds) == 1 else f"{data}, {noise} noise"
            charts.append((caption, _curves(summary, one, rows, shown, styles, caption)))
        found.append((one.metric, charts))
    return found if groups else []


def _curves(
    summary: Summary,
    one: MetricSummary,
    rows: Sequence[int],
    shown: Sequence[str],
    styles: dict[str, int],
    caption: str,
) -> Markup:
    ratios = [summary.cases[row].ratio for row in rows]
    series = [
        Series(name, ratios, one.mean[rows, styles[name]].tolist(), one.deviation[rows, styles[name]].tolist())
        for name in shown
    ]
    name = one.metric.name
    return line_chart(
        series,
        styles,
        title=f"{name} of {caption} against noise",
        x_label="false candidates per true label",
        y_label=f"{name} {one.metric.arrow}",
    )


def _time_against_quality(summary: Summary, styles: dict[str, int]) -> Markup:
    """Plot each method's median time against its mean over the cases that all ranked methods have."""
    main = summary.main
    ranked = ~np.isnan(main.ranking.ranks)
    complete = ~np.isnan(main.mean[:, ranked]).any(axis=1)
    if not ranked.any() or not complete.any():
        return Markup("")
    quality = main.mean[complete].mean(axis=0)
    points = [
        (cost.method, cost.fit_seconds + cost.predict_seconds, float(quality[styles[cost.method]]))
        for cost in summary.costs
        if ranked[styles[cost.method]]
    ]
    name = main.metric.name
    return scatter_chart(
        points,
        styles,
        title=f"Median seconds of each method against its mean {name}",
        x_label="seconds to fit and predict (median)",
        y_label=f"mean {name} {main.metric.arrow}",
    )
