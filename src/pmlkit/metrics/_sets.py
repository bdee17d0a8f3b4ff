"""Metrics of predicted label sets: Hamming loss, micro and macro F1.

All three follow from three counts per label, so that sparse tables are never made dense.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmlkit._typing import CSR, IntArray
from pmlkit.metrics._inputs import Convention, Table, check_convention, read_tables

__all__ = ["LabelCounts", "count_labels", "hamming_loss", "macro_f1", "micro_f1"]


@dataclass(frozen=True)
class LabelCounts:
    """Number of rows per label where it is true, where it is predicted, and where it is both."""

    true: IntArray
    predicted: IntArray
    both: IntArray
    n_samples: int

    def hamming_loss(self) -> float:
        """Share of the cells that are wrong."""
        n_wrong = self.true.sum() + self.predicted.sum() - 2 * self.both.sum()
        return float(n_wrong / (self.n_samples * len(self.true)))

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


def hamming_loss(
    y_true: Table, y_pred: Table, *, convention: Convention = "zhang", label_names: Iterable[Any] | None = None
) -> float:
    """Share of the cells (rows x labels) where the prediction differs from the truth.

    Lower is better. Rows with no true label or with all of them count like any other.

    Parameters
    ----------
    y_true : (n_samples, n_labels) indicator, or names per row
        The true labels: array, sparse array or DataFrame of 0/1, or a list of label names per row.
    y_pred : (n_samples, n_labels) indicator, or names per row
        The predicted labels.
    convention : {"zhang", "sklearn"}, default="zhang"
        The same value under both; it exists so that all metrics have the same signature.
    label_names : sequence of str, default=None
        All labels, for names per row; by default those that occur in `y_true` or `y_pred`.

    Examples
    --------
    >>> from pmlkit.metrics import hamming_loss
    >>> hamming_loss([[1, 0], [0, 1]], [[1, 1], [0, 1]])
    0.25
    >>> hamming_loss([["sea"], ["sun"]], [["sea", "sun"], ["sun"]])
    0.25
    """
    check_convention(convention)
    return _counts(y_true, y_pred, label_names).hamming_loss()


def micro_f1(
    y_true: Table,
    y_pred: Table,
    *,
    convention: Convention = "zhang",
    zero_division: float = 0.0,
    label_names: Iterable[Any] | None = None,
) -> float:
    """F1 of all cells (rows x labels) taken together: 2 x hits / (true cells + predicted cells).

    Parameters
    ----------
    y_true : (n_samples, n_labels) indicator, or names per row
        The true labels: array, sparse array or DataFrame of 0/1, or a list of label names per row.
    y_pred : (n_samples, n_labels) indicator, or names per row
        The predicted labels.
    convention : {"zhang", "sklearn"}, default="zhang"
        The same value under both; it exists so that all metrics have the same signature.
    zero_division : float, default=0.0
        The value if no cell is true and none is predicted.
    label_names : sequence of str, default=None
        All labels, for names per row; by default those that occur in `y_true` or `y_pred`.

    Examples
    --------
    >>> from pmlkit.metrics import micro_f1
    >>> micro_f1([[1, 0], [0, 1]], [[1, 1], [0, 1]])
    0.8
    """
    check_convention(convention)
    return _counts(y_true, y_pred, label_names).micro_f1(zero_division)


def macro_f1(
    y_true: Table,
    y_pred: Table,
    *,
    convention: Convention = "zhang",
    zero_division: float = 0.0,
    label_names: Iterable[Any] | None = None,
) -> float:
    """F1 of each label, averaged over labels, so that rare labels weigh as much as frequent ones.

    Parameters
    ----------
    y_true : (n_samples, n_labels) indicator, or names per row
        The true labels: array, sparse array or DataFrame of 0/1, or a list of label names per row.
    y_pred : (n_samples, n_labels) indicator, or names per row
        The predicted labels.
    convention : {"zhang", "sklearn"}, default="zhang"
        The same value under both; it exists so that all metrics have the same signature.
    zero_division : float, default=0.0
        The F1 of a label that is true nowhere and predicted nowhere; nan leaves such labels out of the mean.
    label_names : sequence of str, default=None
        All labels, for names per row; by default those that occur in `y_true` or `y_pred`.

    Examples
    --------
    >>> from pmlkit.metrics import macro_f1
    >>> y_true, y_pred = [[1, 0, 0], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]
    >>> round(macro_f1(y_true, y_pred), 4)
    0.5556
    >>> round(macro_f1(y_true, y_pred, zero_division=float("nan")), 4)
    0.8333
    """
    check_convention(convention)
    return _counts(y_true, y_pred, label_names).macro_f1(zero_division)


def count_labels(y_true: CSR, y_pred: CSR) -> LabelCounts:
    """Count per label where two validated indicators agree."""
    true, predicted, both = (
        np.bincount(cells.indices, minlength=y_true.shape[1]) for cells in (y_true, y_pred, y_true.multiply(y_pred))
    )
    return LabelCounts(true, predicted, both, y_true.shape[0])


def _counts(y_true: Table, y_pred: Table, label_names: Iterable[Any] | None) -> LabelCounts:
    return count_labels(*read_tables(label_names, y_true=y_true, y_pred=y_pred))
