"""Tables of metrics for the terminal."""

import math
from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from pmlkit._metric_info import F1, FIVE, MetricInfo
from pmlkit.cli.output import number, plain_table, printable

__all__ = ["comparison", "listing"]


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
