"""How measures are called, and which way is better."""

from dataclasses import dataclass

__all__ = ["CLEANING", "F1", "FIVE", "MEASURES", "PRECISION_AT", "Measure"]


@dataclass(frozen=True)
class Measure:
    """One measure.

    Attributes
    ----------
    key : str
        Its column in the results.
    name : str
        Its name in a sentence.
    short : str
        Its name at the head of a narrow column.
    lower_is_better : bool
        Whether it is a loss.
    """

    key: str
    name: str
    short: str
    lower_is_better: bool = False

    @property
    def arrow(self) -> str:
        """Where it is good."""
        return "↓" if self.lower_is_better else "↑"


FIVE = (
    Measure("hamming_loss", "Hamming loss", "Hamming", lower_is_better=True),
    Measure("ranking_loss", "ranking loss", "ranking", lower_is_better=True),
    Measure("one_error", "one-error", "one-error", lower_is_better=True),
    Measure("coverage", "coverage", "coverage", lower_is_better=True),
    Measure("average_precision", "average precision", "precision"),
)
"""The five measures of the papers."""

F1 = (Measure("micro_f1", "micro F1", "micro F1"), Measure("macro_f1", "macro F1", "macro F1"))

CLEANING = (
    Measure("cleaning_auc", "cleaning AUC", "AUC"),
    Measure("cleaning_average_precision", "cleaning precision", "precision"),
)
"""How well false candidates are found."""

PRECISION_AT = Measure("precision_at", "share of wrong labels in the least confident tenth", "wrong in first tenth")

MEASURES = (*FIVE, *F1, *CLEANING)
"""Every measure of a cell, in the order of the tables."""
