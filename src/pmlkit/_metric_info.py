"""Names of the metrics, and which direction is better."""

from dataclasses import dataclass

__all__ = ["CLEANING", "F1", "FIVE", "METRICS", "PRECISION_AT", "MetricInfo"]


@dataclass(frozen=True)
class MetricInfo:
    """Description of a metric.

    `key`: column of the results. `name`: name in a sentence. `short`: name as the header of a narrow column.
    """

    key: str
    name: str
    short: str
    lower_is_better: bool = False

    @property
    def arrow(self) -> str:
        """Down for losses, up otherwise."""
        return "↓" if self.lower_is_better else "↑"


FIVE = (
    MetricInfo("hamming_loss", "Hamming loss", "Hamming", lower_is_better=True),
    MetricInfo("ranking_loss", "ranking loss", "ranking", lower_is_better=True),
    MetricInfo("one_error", "one-error", "one-error", lower_is_better=True),
    MetricInfo("coverage", "coverage", "coverage", lower_is_better=True),
    MetricInfo("average_precision", "average precision", "precision"),
)
"""The five metrics that papers on partial multi-label learning report."""

F1 = (MetricInfo("micro_f1", "micro F1", "micro F1"), MetricInfo("macro_f1", "macro F1", "macro F1"))

CLEANING = (
    MetricInfo("cleaning_auc", "cleaning AUC", "AUC"),
    MetricInfo("cleaning_average_precision", "cleaning precision", "precision"),
)
"""Metrics of how well false candidates are found."""

PRECISION_AT = MetricInfo("precision_at", "share of wrong labels in the least confident tenth", "wrong in first tenth")

METRICS = (*FIVE, *F1, *CLEANING)
"""All metrics of a benchmark cell, in table order."""
