"""One HTML file from a summary: it opens offline, on a phone, in the dark, and in print."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from pmlkit._measures import Measure
from pmlkit.bench.pictures import Series, critical_difference_diagram, line_chart, scatter_chart, swatch
from pmlkit.bench.summary import MeasureSummary, Summary
from pmlkit.bench.wording import FILTERS, sentences

__all__ = ["render", "render_report", "report_parts"]

_MAX_CURVES = 8  # methods in one picture
_MAX_PICTURES = 24  # data sets drawn for each measure
_MAX_FAILURES = 500


def render_report(summary: Summary, *, title: str = "Benchmark report", commands: Sequence[str] = ()) -> str:
    """Return a report as one HTML text.

    Parameters
    ----------
    summary : Summary
        See :func:`pmlkit.bench.summary.summarize`.
    title : str
        Its heading.
    commands : sequence of str
        How to run the bench again.

    Returns
    -------
    html : str
        Styles, pictures and the few lines of script are inside; everything that came from data is escaped.

    Examples
    --------
    >>> import pandas as pd
    >>> from pmlkit.bench.report import render_report
    >>> from pmlkit.bench.summary import summarize
    >>> common = {"data": "toy", "noise": "uniform", "ratio": 0.5, "repeat": 0, "params": "{}", "status": "done"}
    >>> cells = pd.DataFrame([common | {"method": m, "one_error": x} for m, x in [("MLkNN", 0.3), ("PMLLFC", 0.2)]])
    >>> html = render_report(summarize(cells), title="Toys")
    >>> html.startswith("<!DOCTYPE html>"), "<h1>Toys</h1>" in html
    (True, True)
    """
    return render("report.html", title=title, commands=list(commands), **report_parts(summary))


def render(template: str, **values: Any) -> str:
    """Fill one of the templates of this package."""
    from pmlkit import __version__

    return _environment().get_template(template).render(version=__version__, **values)


def report_parts(summary: Summary) -> dict[str, Any]:
    """Return what the sections of a report show: the summary, its sentences and its pictures."""
    styles = {name: position for position, name in enumerate(summary.methods)}
    shown = summary.methods[:_MAX_CURVES]
    return {
        "summary": summary,
        "sentences": sentences(summary),
        "confidence": f"{100 * (1 - summary.level):g} %",
        "best_ranks": [_smallest(one.ranking.ranks) for one in summary.measures],
        "diagrams": [_diagram(summary, one) for one in summary.measures],
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
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    return environment


def _smallest(ranks: Any) -> float:
    return float("nan") if np.isnan(ranks).all() else float(np.nanmin(ranks))


def _diagram(summary: Summary, one: MeasureSummary) -> Markup:
    ranking = one.ranking
    title = f"Critical-difference diagram by {one.measure.name}"
    return critical_difference_diagram(summary.methods, ranking.ranks, ranking.groups, ranking.distance, title=title)


def _all_curves(
    summary: Summary, shown: Sequence[str], styles: dict[str, int]
) -> list[tuple[Measure, list[tuple[str, Markup]]]]:
    """Return for each measure the pictures of the data sets that have several ratios of noise."""
    groups: dict[tuple[str, str], list[int]] = {}
    for position, case in enumerate(summary.cases):
        if case.ratio == case.ratio:
            groups.setdefault((case.data, case.noise), []).append(position)
    groups = dict([(key, rows) for key, rows in groups.items() if len(rows) > 1][:_MAX_PICTURES])
    kinds = {noise for _, noise in groups}
    found = []
    for one in summary.measures:
        pictures = []
        for (data, noise), rows in groups.items():
            caption = data if len(kinds) == 1 else f"{data}, {noise} noise"
            pictures.append((caption, _curves(summary, one, rows, shown, styles, caption)))
        found.append((one.measure, pictures))
    return found if groups else []


def _curves(
    summary: Summary,
    one: MeasureSummary,
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
    name = one.measure.name
    return line_chart(
        series,
        styles,
        title=f"{name} of {caption} against noise",
        x_label="false candidates per true label",
        y_label=f"{name} {one.measure.arrow}",
    )


def _time_against_quality(summary: Summary, styles: dict[str, int]) -> Markup:
    """Draw every method by its median time and by its mean over the cases that all ranked methods have."""
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
    name = main.measure.name
    return scatter_chart(
        points,
        styles,
        title=f"Median seconds of each method against its mean {name}",
        x_label="seconds to fit and predict (median)",
        y_label=f"mean {name} {main.measure.arrow}",
    )
