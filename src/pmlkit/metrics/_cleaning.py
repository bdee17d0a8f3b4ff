"""How well low confidence finds the false labels among the candidates.

All metrics look at the candidate cells only: the question is which of the given labels are wrong. True labels that
are not candidates play no part.
"""

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from pmlkit._arrays import row_of_cells
from pmlkit._typing import BoolArray
from pmlkit.exceptions import DataError, PMLWarning
from pmlkit.metrics._inputs import Table, cell_values, read_tables


@dataclass(frozen=True)
class CandidateCells:
    """The candidate cells, flat: whether each is a false candidate, and its confidence."""

    is_false: BoolArray
    confidence: NDArray[Any]

    @property
    def undefined(self) -> str | None:
        """Why nothing can be measured, or None."""
        n_false, n_cells = np.count_nonzero(self.is_false), len(self.is_false)
        if 0 < n_false < n_cells:
            return None
        if n_cells == 0:
            return "there is no candidate"
        return f"none of the {n_cells} candidates is {'true' if n_false else 'false'}"

    def auc(self) -> float:
        return float(roc_auc_score(self.is_false, -self.confidence))

    def average_precision(self) -> float:
        return float(average_precision_score(self.is_false, -self.confidence))

    def precision_at(self, n_picked: int) -> float:
        cutoff = np.partition(self.confidence, n_picked - 1)[n_picked - 1]
        below, tied = self.confidence < cutoff, self.confidence == cutoff
        n_from_ties = n_picked - np.count_nonzero(below)
        n_found = np.count_nonzero(self.is_false[below]) + n_from_ties * self.is_false[tied].mean()
        return float(n_found / n_picked)


def cleaning_auc(
    y_true: Table, candidates: Table, confidence: Table, *, label_names: Iterable[Any] | None = None
) -> float:
    """Probability that a false candidate has lower confidence than a true one, over all candidate cells.

    0.5 is chance, 1 is perfect; equal confidences count one half.

    Parameters
    ----------
    y_true : (n_samples, n_labels) indicator, or names per row
        The true labels: array, sparse array or DataFrame of 0/1, or a list of label names per row.
    candidates : (n_samples, n_labels) indicator, or names per row
        The candidate labels.
    confidence : (n_samples, n_labels) array, sparse array or DataFrame
        How likely each candidate is true, for instance ``label_confidence_``. Only the order matters and only
        candidate cells are read; a cell that a sparse array does not store is 0.
    label_names : sequence of str, default=None
        The label of each column; needed only if `y_true` holds names per row and `confidence` has no column names.

    Returns
    -------
    float
        nan, with a warning, unless some candidates are false and some are true.

    Examples
    --------
    >>> from pmlkit.metrics import cleaning_auc
    >>> y_true, candidates = [[1, 0, 0], [0, 0, 1]], [[1, 1, 0], [0, 1, 1]]
    >>> cleaning_auc(y_true, candidates, [[0.9, 0.1, 0.0], [0.0, 0.5, 0.5]])
    0.875
    """
    cells = _candidate_cells(y_true, candidates, confidence, label_names)
    return cells.auc() if _defined(cells, "cleaning_auc") else float("nan")


def cleaning_average_precision(
    y_true: Table, candidates: Table, confidence: Table, *, label_names: Iterable[Any] | None = None
) -> float:
    """Average precision of finding false candidates when going from low to high confidence.

    1 is perfect; chance is about the share of false candidates. Candidates of equal confidence are found together.

    Parameters
    ----------
    y_true, candidates, confidence, label_names
        As in :func:`cleaning_auc`.

    Returns
    -------
    float
        nan, with a warning, unless some candidates are false and some are true.

    Examples
    --------
    >>> from pmlkit.metrics import cleaning_average_precision
    >>> y_true, candidates = [[1, 0, 0], [0, 0, 1]], [[1, 1, 0], [0, 1, 1]]
    >>> round(cleaning_average_precision(y_true, candidates, [[0.9, 0.1, 0.0], [0.0, 0.5, 0.5]]), 4)
    0.8333
    """
    cells = _candidate_cells(y_true, candidates, confidence, label_names)
    return cells.average_precision() if _defined(cells, "cleaning_average_precision") else float("nan")


def precision_at(
    y_true: Table, candidates: Table, confidence: Table, budget: float, *, label_names: Iterable[Any] | None = None
) -> float:
    """Share of false candidates among the `budget` least confident ones: what a reviewer would find.

    Where the budget ends within cells of equal confidence the value is the expected one over their orders, so that
    the order of rows does not matter.

    Parameters
    ----------
    y_true, candidates, confidence, label_names
        As in :func:`cleaning_auc`.
    budget : int or float
        An int is a number of cells, at most that of the candidates. A float in (0, 1] is a share of the candidates,
        rounded to the nearest number of cells, at least one.

    Returns
    -------
    float
        nan, with a warning, unless some candidates are false and some are true.

    Examples
    --------
    >>> from pmlkit.metrics import precision_at
    >>> y_true, candidates = [[1, 0, 0], [0, 0, 1]], [[1, 1, 0], [0, 1, 1]]
    >>> precision_at(y_true, candidates, [[0.9, 0.1, 0.0], [0.0, 0.5, 0.5]], budget=2)
    0.75
    >>> precision_at(y_true, candidates, [[0.9, 0.1, 0.0], [0.0, 0.5, 0.5]], budget=0.25)
    1.0
    """
    _check_budget(budget)
    cells = _candidate_cells(y_true, candidates, confidence, label_names)
    if not _defined(cells, "precision_at"):
        return float("nan")
    return cells.precision_at(_cells_in_budget(budget, len(cells.is_false)))


def evaluate_cleaning(
    y_true: Table,
    candidates: Table,
    confidence: Table,
    *,
    budget: float = 0.1,
    label_names: Iterable[Any] | None = None,
) -> dict[str, float]:
    """Compute all cleaning metrics at once.

    Parameters
    ----------
    y_true, candidates, confidence, label_names
        As in :func:`cleaning_auc`.
    budget : int or float, default=0.1
        As in :func:`precision_at`; by default the least confident tenth of the candidates.

    Returns
    -------
    dict
        ``cleaning_auc``, ``cleaning_average_precision``, ``precision_at``, and the integers ``n_candidates`` and
        ``n_false_candidates``. The metrics are nan, with a warning, unless some candidates are false and some are true.

    Examples
    --------
    >>> from pmlkit.metrics import evaluate_cleaning
    >>> y_true, candidates = [[1, 0, 0], [0, 0, 1]], [[1, 1, 0], [0, 1, 1]]
    >>> result = evaluate_cleaning(y_true, candidates, [[0.9, 0.1, 0.0], [0.0, 0.5, 0.5]], budget=2)
    >>> result["cleaning_auc"], result["precision_at"], result["n_false_candidates"]
    (0.875, 0.75, 2)
    """
    _check_budget(budget)
    cells = _candidate_cells(y_true, candidates, confidence, label_names)
    defined = _defined(cells, "every cleaning metric")
    nan, n_cells = float("nan"), len(cells.is_false)
    return {
        "cleaning_auc": cells.auc() if defined else nan,
        "cleaning_average_precision": cells.average_precision() if defined else nan,
        "precision_at": cells.precision_at(_cells_in_budget(budget, n_cells)) if defined else nan,
        "n_candidates": n_cells,
        "n_false_candidates": int(np.count_nonzero(cells.is_false)),
    }


def _candidate_cells(
    y_true: Table, candidates: Table, confidence: Table, label_names: Iterable[Any] | None
) -> CandidateCells:
    true, given, numbers = read_tables(label_names, y_true=y_true, candidates=candidates, confidence=confidence)
    rows, columns = row_of_cells(given), given.indices
    # float64, because numpy refuses to negate booleans and wraps unsigned integers round.
    values = cell_values(numbers, rows, columns).astype(np.float64)
    if np.isinf(values).any():
        raise DataError("confidence must be finite at the candidates, got inf. Clip it to [0, 1].")
    return CandidateCells(cell_values(true, rows, columns) == 0, values)


def _defined(cells: CandidateCells, name: str) -> bool:
    if cells.undefined:
        warnings.warn(f"{name} is nan: {cells.undefined}.", PMLWarning, stacklevel=3)
    return cells.undefined is None


def _check_budget(budget: Any) -> None:
    is_count = isinstance(budget, Integral) and not isinstance(budget, bool)
    is_share = isinstance(budget, Real) and not isinstance(budget, Integral)
    if (is_count and budget >= 1) or (is_share and 0 < budget <= 1):
        return
    raise ValueError(f"budget must be a number of cells (int >= 1) or a share (float in (0, 1]), got {budget!r}.")


def _cells_in_budget(budget: Any, n_cells: int) -> int:
    if not isinstance(budget, int | np.integer):
        return max(1, math.floor(float(budget) * n_cells + 0.5))
    if budget > n_cells:
        raise ValueError(
            f"budget is {budget} cells, but there are only {n_cells} candidates. Use a share (float in (0, 1])."
        )
    return int(budget)
