"""What may be removed without asking anybody: little, and only where random mistakes certainly abound."""

from typing import TYPE_CHECKING

import numpy as np

from pmlkit._typing import BoolArray
from pmlkit.cleaning.audit.answers import UNKNOWN, WRONG

if TYPE_CHECKING:
    from pmlkit.cleaning.judged_labels import JudgedLabels

__all__ = ["advice", "removable"]

_LEAST_ROWS = 500
_LEAST_MISTAKES = 0.25  # share of random mistakes, by its lower bound
_MOSTLY_RIGHT = 0.25  # guessed share of false labels up to which they look mostly right


def removable(result: "JudgedLabels", *, precision: float, keep_at_least_one: bool) -> BoolArray:
    """Return which candidates can be removed, see `CleaningResult.removable`."""
    if not 0 < precision <= 1:
        raise ValueError(f"precision must be a share in (0, 1], got {precision!r}.")
    known = result.known
    removed = np.zeros(result.Y.nnz, dtype=bool) if known is None else known == WRONG
    if _n_labelled(result) < _LEAST_ROWS or result.safe_depths.random_share < _LEAST_MISTAKES:
        return removed
    # The bound is on the most suspicious cells of these labels as a whole: it does not hold for any part of them.
    common = result.order[~np.isin(result.Y.indices[result.order], result.kept_labels)]
    most = int(result.safe_depths.random_share * len(common))
    cells = common[: min(result.safe_depths.depth(precision), most)]
    if known is not None:
        cells = cells[known[cells] == UNKNOWN]
    if keep_at_least_one:
        cells = cells[~result.is_best_of_row[cells]]
    removed[cells] = True
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
    if result.safe_depths.random_share < _LEAST_MISTAKES:
        found = "your labels look mostly right" if result.overall_rate < _MOSTLY_RIGHT else "labels may well be wrong"
        return (
            f"Nothing is removed unseen: {found}, but mistakes that are not random cannot be told from right labels "
            f"without asking. {ask}"
        )
    return f"Nothing can be removed unseen at a precision of {precision:g}. {ask}"


def _n_labelled(result: "JudgedLabels") -> int:
    return int((np.diff(result.Y.indptr) > 0).sum())
