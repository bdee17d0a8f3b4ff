"""Candidate labels as `fit` takes them: any format of `pmlkit._arrays`, or two classes in a 1-D array."""

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from pmlkit._arrays import LabelFormat, column_names, label_format, names_per_row, read_labels
from pmlkit._typing import CSR, BoolArray


def describe(y: Any) -> tuple[Any, LabelFormat, list[str | int] | None]:
    """Return what scikit-learn can validate (an indicator for names per row), the format, and the names if any."""
    if names_per_row(y, "y") is None:
        return y, label_format(y), column_names(y)
    labels = read_labels(y, "y")
    return labels.indicator, labels.format, labels.names


def candidates(y: Any, form: LabelFormat) -> tuple[CSR, Any]:
    """Return validated candidates as a CSR array of ones, and the classes.

    `form`: the format in which they were given. Returns `classes`: the two classes of a 1-D `y`, otherwise the label
    numbers.
    """
    if not sparse.issparse(y) and np.ndim(y) == 1:
        return _one_label(y)
    if not sparse.issparse(y) and y.dtype.kind == "f" and type_of_target(y).startswith("continuous"):
        check_classification_targets(y)
    indicator = read_labels(y, "y").indicator
    if indicator.shape[1] == 1 and not form.has_names_per_row:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected: it is read as a single label, 1 where "
            "it is present and 0 where it is absent, and no row counts as unlabelled.",
            DataConversionWarning,
            stacklevel=5,
        )
    return indicator.astype(np.float64).copy(), np.arange(indicator.shape[1])


def _one_label(y: Any) -> tuple[CSR, Any]:
    check_classification_targets(y)
    classes = np.unique(y)
    if len(classes) > 2:
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {type_of_target(y)}. "
            "Give several labels as a list of label names per row, or as an indicator of 0/1."
        )
    if len(classes) < 2:
        raise ValueError(f"y holds only one class ({classes[0]!r}): a single label needs rows with and without it.")
    return sparse.csr_array((y == classes[1]).astype(np.float64)[:, None]), classes


def present_and_absent(Y: CSR) -> CSR:
    """Return a single label as two labels that exclude each other."""
    present = Y.toarray()
    return sparse.csr_array(np.hstack([present, 1.0 - present]))


def labelled_rows(Y: CSR) -> BoolArray:
    """Return which rows have a candidate; with one label, all have."""
    if Y.shape[1] == 1:
        return np.ones(Y.shape[0], dtype=bool)
    labelled: BoolArray = np.diff(Y.indptr) > 0
    if not labelled.any():
        raise ValueError("y has no candidate label in any row: there is nothing to learn from.")
    return labelled
