"""Measures on the screen."""

import math
from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from pmlkit._measures import F1, FIVE, Measure
from pmlkit.cli.output import number, plain_table, printable

__all__ = ["comparison", "listing"]


def comparison(results: Mapping[str, Mapping[str, float]], measures: Sequence[Measure]) -> Table:
    """Return a table of methods by measures, the best value of each in bold.

    Parameters
    ----------
    results : mapping of method name to measures
    measures : sequence of Measure
        The columns.

    Returns
    -------
    table : rich.table.Table
    """
    table = plain_table(
        "method", *(f"{measure.short} {measure.arrow}" for measure in measures), right=range(1, len(measures) + 1)
    )
    for name, found in results.items():
        cells = [
            Text(number(found[measure.key]), style="bold green" if _is_best(measure, found, results) else "")
            for measure in measures
        ]
        table.add_row(Text(printable(name)), *cells)
    return table


def _is_best(measure: Measure, found: Mapping[str, float], results: Mapping[str, Mapping[str, float]]) -> bool:
    """Tell whether no method is better by what is shown, three decimals."""
    known = [round(other[measure.key], 3) for other in results.values() if not math.isnan(other[measure.key])]
    best = (min if measure.lower_is_better else max)(known, default=None)
    return round(found[measure.key], 3) == best


def listing(found: Mapping[str, float]) -> Table:
    """Return the five measures and both F1 one below the other."""
    table = plain_table("measure", "value", right=(1,))
    for measure in (*FIVE, *F1):
        table.add_row(Text(f"{measure.name} {measure.arrow}"), Text(number(found[measure.key])))
    return table
