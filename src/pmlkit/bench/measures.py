"""The measures of a cell: how they are called, and which way is better."""

from dataclasses import dataclass

__all__ = ["FIVE", "MEASURES", "Measure"]


@dataclass(frozen=True)
class Measure:
    """One measure.

    Attributes
    ----------
    key : str
        Its column in the results.
    name : str
        Its name in a sentence.
    lower_is_better : bool
        Whether it is a loss.
    """

    key: str
    name: str
    lower_is_better: bool = False

    @property
    def arrow(self) -> str:
        """Where it is good."""
        return "↓" if self.lower_is_better else "↑"


FIVE = (
    Measure("hamming_loss", "Hamming loss", lower_is_better=True),
    Measure("ranking_loss", "ranking loss", lower_is_better=True),
    Measure("one_error", "one-error", lower_is_better=True),
    Measure("coverage", "coverage", lower_is_better=True),
    Measure("average_precision", "average precision"),
)
"""The five measures of the papers."""

MEASURES = (
    *FIVE,
    Measure("micro_f1", "micro F1"),
    Measure("macro_f1", "macro F1"),
    Measure("cleaning_auc", "cleaning AUC"),
    Measure("cleaning_average_precision", "cleaning precision"),
)
"""Every measure of a cell, in the order of the tables."""
