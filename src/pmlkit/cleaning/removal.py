"""What may be removed without asking anybody: little, and only where random mistakes certainly abound."""

from typing import TYPE_CHECKING

import numpy as np

from pmlkit._typing import BoolArray
from pmlkit.cleaning.audit.answers import UNKNOWN, WRONG

if TYPE_CHECKING:
    from pmlkit.cleaning.judged_labels import JudgedLabels

__all__ = ["advice", "removable"]

_LEAST_ROWS = 1000
_LEAST_MISTAKES = 0.25  # share of random mistakes, by its lower bound
_DOUBTFUL = 0.5
_MOSTLY_RIGHT = 0.25  # guessed share of false labels up to which they look mostly right


def removable(result: "JudgedLabels", *, precision: float, keep_at_least_one: bool) -> BoolArray:
    """Return which candidates can be removed, see `CleaningResult.removable`."""
    if not 0 < precision <= 1:
        raise ValueError(f"precision must be a share in (0, 1], got {precision!r}.")
    known = result.known
    removed = np.zeros(result.Y.nnz, dtype=bool) if known is None else known == WRONG
    if _n_labelled(result) < _LEAST_ROWS or result.sure_mistakes < _LEAST_MISTAKES:
        return removed
    doubt = result.doubt_at(result.sure_mistakes)
    cells = result.order[doubt[result.order] > _DOUBTFUL]
    if known is not None:
        cells = cells[known[cells] == UNKNOWN]
    cells = cells[~np.isin(result.Y.indices[cells], result.kept_labels)]
    if keep_at_least_one:
        cells = cells[~result.is_best_of_row[cells]]
    cells = cells[: int(result.sure_mistakes * len(result.order))]
    reached = np.flatnonzero(np.cumsum(doubt[cells]) >= precision * np.arange(1, len(cells) + 1))
    removed[cells[: int(reached[-1]) + 1 if len(reached) else 0]] = True
    return removed


def advice(result: "JudgedLabels", removed: BoolArray, precision: float, table: str = "") -> str:
    """Say what can be removed, or why nothing can be and what to do."""
    # What a person called wrong is gone for certain.
    n_removed = int((removed if result.known is None else removed & (result.known != WRONG)).sum())
    review = f"pmlkit review {table}".strip()
    ask = f"About 300 answers of a person would tell: {review}"
    if n_removed:
        labels = (
            "1 label looks like a random mistake"
            if n_removed == 1
            else f"{n_removed:,} labels look like random mistakes"
        )
        return (
            f"{labels} and can be removed; at least {100 * precision:.0f} % of such should be wrong, if mistakes are "
            f"random as they look. A few dozen answers would make sure: {review}"
        )
    if _n_labelled(result) < _LEAST_ROWS:
        few = f"{_n_labelled(result):,} labelled rows are too few to tell ({_LEAST_ROWS:,} are needed)"
        return f"Nothing is removed unseen: {few}. {ask}"
    if result.sure_mistakes < _LEAST_MISTAKES:
        found = "your labels look mostly right" if result.overall_rate < _MOSTLY_RIGHT else "labels may well be wrong"
        return (
            f"Nothing is removed unseen: {found}, but mistakes that are not random cannot be told from right labels "
            f"without asking. {ask}"
        )
    return f"Nothing can be removed unseen at a precision of {precision:g}. {ask}"


def _n_labelled(result: "JudgedLabels") -> int:
    return int((np.diff(result.Y.indptr) > 0).sum())
