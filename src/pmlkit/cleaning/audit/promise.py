"""What may be removed, and the words of the promise; `pmlkit.cleaning.audit.certificate` has the test."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pmlkit._typing import IntArray

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Certificate"]


@dataclass(frozen=True, eq=False)
class Certificate:
    """What may be removed, and what is promised about it; ``str()`` states it.

    Attributes
    ----------
    removed : DataFrame
        ``row``, ``label`` and ``seen`` (whether a person called it wrong); with ``id`` where rows have names.
    cells : array of int
        The same by position in ``Y.data``.
    precision : float
        At least this share of the removed labels is wrong.
    confidence : float
        The probability that such audits end without a false statement.
    n_answers : int
        Answers given so far.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from pmlkit.cleaning.audit import Certificate
    >>> removed = pd.DataFrame({"row": [3, 8], "label": ["a", "b"], "seen": [True, False]})
    >>> print(Certificate(removed, np.array([4, 11]), precision=0.9, confidence=0.95, n_answers=120))
    Of the 2 labels removed at least 90 % are wrong; this statement fails in at most 5 of 100 such audits, ...
    """

    removed: "pd.DataFrame" = field(repr=False)
    cells: IntArray = field(repr=False)
    precision: float
    confidence: float
    n_answers: int
    answer_error: float = 0.0
    n_unsure: int = 0
    disagreement: str = ""

    def __str__(self) -> str:
        n_removed, n_seen = len(self.cells), int(self.removed["seen"].sum())
        often = 100.0 * (1.0 - self.confidence)
        trust = "if the answers were right"
        if self.answer_error:
            trust = f"if {_percent(self.answer_error)} of the answers were mistaken, in both directions alike"
        parts = [
            f"Of the {n_removed:,} labels removed at least {_percent(self.precision)} are wrong; this statement fails "
            f"in at most {often:g} of 100 such audits, {trust}.",
            f"It is about the {n_removed:,} labels as a whole, {n_seen:,} of which were seen and called wrong: it says "
            "nothing about a single one, or about labels that stay.",
        ]
        if self.n_unsure:
            parts.append(f"{self.n_unsure:,} answers 'unsure' were counted as if the label were right.")
        if self.disagreement:
            parts.append(self.disagreement)
        return " ".join(parts)


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"
