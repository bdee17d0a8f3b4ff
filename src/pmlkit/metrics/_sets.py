"""Measures of predicted label sets: Hamming loss, micro and macro F1.

All three follow from three counts of each label, so that sparse tables are never made dense.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from pmlkit._typing import CSR, BoolArray, IntArray
from pmlkit.metrics._inputs import (
    Convention,
    Table,
    cell_values,
    cells_of,
    check_convention,
    check_same_labels,
    indicator,
)

__all__ = ["LabelCounts", "count_labels", "hamming_loss", "macro_f1", "micro_f1"]


@dataclass(frozen=True)
class LabelCounts:
    """For each label the number of rows where it is true, where it is predicted, and where it is both."""

    true: IntArray
    predicted: IntArray
    both: IntArray
    n_rows: int

    def hamming_loss(self) -> float:
        """Share of the cells that are wrong."""
        n_wrong = self.true.sum() + self.predicted.sum() - 2 * self.both.sum()
        return float(n_wrong / (self.n_rows * len(self.true)))

    def micro_f1(self, zero_division: float = 0.0) -> float:
        """F1 of all cells taken together."""
        n_either = self.true.sum() + self.predicted.sum()
        return float(2 * self.both.sum() / n_either) if n_either else zero_division

    def macro_f1(self, zero_division: float = 0.0) -> float:
        """Mean of the F1 of each label, leaving out those that are nan."""
        n_either = self.true + self.predicted
        f1 = np.divide(2 * self.both, n_either, out=np.full(len(n_either), zero_division), where=n_either > 0)
        defined = ~np.isnan(f1)
        return float(f1[defined].mean()) if defined.any() else float("nan")


def hamming_loss(truth: Table, predictions: Table, *, convention: Convention = "zhang") -> float:
    """Share of the n x q cells where the prediction differs from the truth.

    Lower is better. Rows with no true label or with all of them count like any other.

    Parameters
    ----------
    truth : (n, q) array, sparse array or DataFrame
        Indicator of the true labels.
    predictions : (n, q) array, sparse array or DataFrame
        Indicator of the predicted labels.
    convention : {"zhang", "sklearn"}, default="zhang"
        The same value under both; there so that all measures are called alike.

    Examples
    --------
    >>> from pmlkit.metrics import hamming_loss
    >>> hamming_loss([[1, 0], [0, 1]], [[1, 1], [0, 1]])
    0.25
    """
    check_convention(convention)
    return count_labels(truth, predictions).hamming_loss()


def micro_f1(
    truth: Table, predictions: Table, *, convention: Convention = "zhang", zero_division: float = 0.0
) -> float:
    """F1 of all n x q cells taken together: 2 x hits / (true cells + predicted cells).

    Parameters
    ----------
    truth : (n, q) array, sparse array or DataFrame
        Indicator of the true labels.
    predictions : (n, q) array, sparse array or DataFrame
        Indicator of the predicted labels.
    convention : {"zhang", "sklearn"}, default="zhang"
        The same value under both; there so that all measures are called alike.
    zero_division : float, default=0.0
        The value if no cell is true and none is predicted.

    Examples
    --------
    >>> from pmlkit.metrics import micro_f1
    >>> micro_f1([[1, 0], [0, 1]], [[1, 1], [0, 1]])
    0.8
    """
    check_convention(convention)
    return count_labels(truth, predictions).micro_f1(zero_division)


def macro_f1(
    truth: Table, predictions: Table, *, convention: Convention = "zhang", zero_division: float = 0.0
) -> float:
    """F1 of each label, averaged over labels, so that rare labels weigh as much as frequent ones.

    Parameters
    ----------
    truth : (n, q) array, sparse array or DataFrame
        Indicator of the true labels.
    predictions : (n, q) array, sparse array or DataFrame
        Indicator of the predicted labels.
    convention : {"zhang", "sklearn"}, default="zhang"
        The same value under both; there so that all measures are called alike.
    zero_division : float, default=0.0
        The F1 of a label that is true nowhere and predicted nowhere; nan leaves such labels out of the mean.

    Examples
    --------
    >>> from pmlkit.metrics import macro_f1
    >>> truth, predictions = [[1, 0, 0], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]
    >>> round(macro_f1(truth, predictions), 4)
    0.5556
    >>> round(macro_f1(truth, predictions, zero_division=float("nan")), 4)
    0.8333
    """
    check_convention(convention)
    return count_labels(truth, predictions).macro_f1(zero_division)


def count_labels(truth: Table, predictions: Table) -> LabelCounts:
    """Validate two indicators and count, label by label, where they agree."""
    true, predicted = indicator(truth, "truth"), indicator(predictions, "predictions")
    check_same_labels(truth=truth, predictions=predictions)
    return LabelCounts(_column_counts(true), _column_counts(predicted), _common_counts(true, predicted), true.shape[0])


def _column_counts(table: BoolArray | CSR) -> IntArray:
    if isinstance(table, sparse.csr_array):
        return np.bincount(table.indices, minlength=table.shape[1])
    counts: IntArray = np.count_nonzero(table, axis=0)
    return counts


def _common_counts(left: BoolArray | CSR, right: BoolArray | CSR) -> IntArray:
    if not sparse.issparse(left) and not sparse.issparse(right):
        return _column_counts(left & right)
    if not sparse.issparse(left):
        left, right = right, left
    rows, columns = cells_of(left)
    return np.bincount(columns[cell_values(right, rows, columns)], minlength=left.shape[1])
