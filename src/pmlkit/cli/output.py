"""What the commands print: facts for people or as JSON on stdout, everything else on stderr."""

import contextlib
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from pmlkit._metric_info import F1, FIVE, MetricInfo
from pmlkit._words import printable

__all__ = [
    "ERR",
    "OUT",
    "comparison",
    "emit",
    "fact_table",
    "heading",
    "listing",
    "number",
    "plain_table",
    "printable",
    "printable_lines",
    "quoted",
    "say",
]

# Nothing is ever read as rich markup: names and messages come from files. Styles are put on Text objects.
OUT = Console(markup=False, highlight=False, emoji=False)
ERR = Console(stderr=True, markup=False, highlight=False, emoji=False)


def printable_lines(text: str) -> str:
    """Return a text of several lines without the control characters that could steer the terminal."""
    return "".join(char for char in text if char in "\n\t" or char.isprintable())


def quoted(names: Iterable[object], limit: int = 12) -> str:
    """Return the first names in quotes, and how many more there are."""
    items = list(names)
    shown = ", ".join(repr(str(name)) for name in items[:limit])
    return f"{shown} and {len(items) - limit} more" if len(items) > limit else shown


def number(value: Any) -> str:
    """Format a number: integers with thousands separators, others with three decimals, unknown ones as a dash."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def say(kind: str, text: object) -> None:
    """Print one line on stderr, such as ``error: there is no file 'x'.``"""
    style = {"error": "bold red", "warning": "bold yellow"}.get(kind, "bold")
    with contextlib.suppress(OSError):  # stderr may be closed: the work continues
        ERR.print(Text.assemble((f"{kind}:", style), " ", printable(text)), soft_wrap=True)


def plain_table(*columns: str, right: Collection[int] = ()) -> Table:
    """Return an empty table in the house style; the columns numbered in `right` are aligned to the right."""
    table = Table(box=box.SIMPLE_HEAD, header_style="dim", show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    for position, name in enumerate(columns):
        table.add_column(
            name,
            justify="right" if position in right else "left",
            overflow="fold",
            no_wrap=position in right,
        )
    return table


def heading(text: str) -> Text:
    """Return a line that stands above a table."""
    return Text(printable(text), style="bold")


def fact_table(facts: Mapping[str, object]) -> Table:
    """Return names and values side by side."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        shown = number(value) if value is None or isinstance(value, int | float) else printable(value)
        table.add_row(Text(name), Text(shown))
    return table


def emit(facts: Mapping[str, object], *shown: RenderableType, as_json: bool) -> None:
    """Print facts to stdout: as one JSON object, or as whatever `shown` makes of them."""
    if as_json:
        typer.echo(json.dumps(_plain(facts), indent=2, allow_nan=False))
    else:
        OUT.print(*shown, sep="\n")


def _plain(value: Any) -> Any:
    """Return a value that JSON has; nan and infinity become null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy's arrays and numbers, without importing numpy
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value) if isinstance(value, Path) else repr(value)


def comparison(results: Mapping[str, Mapping[str, float]], metrics: Sequence[MetricInfo]) -> Table:
    """Return a table of methods by metrics, the best value of each in bold.

    `metrics`: the columns.
    """
    table = plain_table(
        "method", *(f"{metric.short} {metric.arrow}" for metric in metrics), right=range(1, len(metrics) + 1)
    )
    for name, found in results.items():
        cells = [
            Text(number(found[metric.key]), style="bold green" if _is_best(metric, found, results) else "")
            for metric in metrics
        ]
        table.add_row(Text(printable(name)), *cells)
    return table


def _is_best(metric: MetricInfo, found: Mapping[str, float], results: Mapping[str, Mapping[str, float]]) -> bool:
    """Tell whether no method is better by what is shown, three decimals."""
    known = [round(other[metric.key], 3) for other in results.values() if not math.isnan(other[metric.key])]
    best = (min if metric.lower_is_better else max)(known, default=None)
    return round(found[metric.key], 3) == best


def listing(found: Mapping[str, float]) -> Table:
    """Return the five metrics and both F1 one below the other."""
    table = plain_table("metric", "value", right=(1,))
    for metric in (*FIVE, *F1):
        table.add_row(Text(f"{metric.name} {metric.arrow}"), Text(number(found[metric.key])))
    return table
