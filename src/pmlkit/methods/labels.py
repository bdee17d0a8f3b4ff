"""Candidate labels in any container, in and out."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from pmlkit._arrays import as_csr
from pmlkit._typing import CSR, BoolArray

__all__ = ["Given", "as_given", "describe", "indicator", "present_and_absent"]


@dataclass(frozen=True)
class Given:
    """How the candidates came: the kind of container, the cells' type, the labels' names."""

    kind: str
    dtype: str
    names: list[str | int] | None


def describe(y: Any) -> Given:
    """Return what must be remembered of `y` to answer in the same kind."""
    if sparse.issparse(y):
        return Given("csr_array" if isinstance(y, sparse.sparray) else "csr_matrix", str(y.dtype), None)
    if hasattr(y, "columns"):
        module = type(y).__module__.partition(".")[0]
        cell_types = {str(cell) for cell in (y.dtypes.tolist() if module == "pandas" else y.dtypes)}
        cell = cell_types.pop() if len(cell_types) == 1 else "int64"
        return Given(
            module,
            cell.lower() if cell.lower() in _PLAIN_TYPES else "int64",
            [name if isinstance(name, str | int) else str(name) for name in y.columns],
        )
    dense = np.asarray(y)
    return Given(
        "1d" if dense.ndim < 2 else "ndarray", str(dense.dtype) if dense.dtype.kind in "biuf" else "int64", None
    )


_PLAIN_TYPES = {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"}


def indicator(y: Any) -> tuple[CSR, Any]:
    """Return validated candidates as a CSR array of ones, and the classes.

    Parameters
    ----------
    y : array or CSR, as `validate_data` returns it

    Returns
    -------
    Y : CSR array of float64 ones of shape (n_rows, n_labels)
    classes : array
        The two classes of a 1-D `y`, otherwise the label numbers.
    """
    if not sparse.issparse(y) and np.ndim(y) == 1:
        return _one_label(y)
    if sparse.issparse(y):
        y = as_csr(y)
    values = y.data if sparse.issparse(y) else y
    if values.dtype.kind not in "biuf":
        values = _as_numbers(values)
        y = values if not sparse.issparse(y) else y
    wrong = np.unique(values[(values != 0) & (values != 1)])
    if len(wrong):
        shown = ", ".join(f"{value:g}" for value in wrong[:3]) + (", ..." if len(wrong) > 3 else "")
        if not sparse.issparse(y) and type_of_target(y).startswith("continuous"):
            check_classification_targets(y)
        raise ValueError(
            f"y must be an n x q indicator of 0/1, got values {{{shown}}}. "
            "Use sklearn.preprocessing.MultiLabelBinarizer for lists of labels."
        )
    if y.shape[1] == 0:
        raise ValueError("y has no label column: it must be an n x q indicator of 0/1 with q >= 1.")
    if y.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected: it is read as a single label, 1 where "
            "it is present and 0 where it is absent, and no row counts as unlabelled.",
            DataConversionWarning,
            stacklevel=5,
        )
    Y = sparse.csr_array(y, dtype=np.float64, copy=True)
    Y.eliminate_zeros()
    return Y, np.arange(Y.shape[1])


def _as_numbers(values: Any) -> Any:
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"y must be an n x q indicator of 0/1, got {values.dtype} cells. "
            "Use sklearn.preprocessing.MultiLabelBinarizer for lists of labels."
        ) from None


def _one_label(y: Any) -> tuple[CSR, Any]:
    check_classification_targets(y)
    classes = np.unique(y)
    if len(classes) > 2:
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {type_of_target(y)}. "
            "Give several labels as an n x q indicator of 0/1."
        )
    if len(classes) < 2:
        raise ValueError(f"y holds only one class ({classes[0]!r}): a single label needs rows with and without it.")
    return sparse.csr_array((y == classes[1]).astype(np.float64)[:, None]), classes


def present_and_absent(Y: CSR) -> CSR:
    """Return a single label as two labels that exclude each other."""
    present = Y.toarray()
    return sparse.csr_array(np.hstack([present, 1.0 - present]))


def as_given(label_sets: BoolArray, kind: str, dtype: str, names: Any, *, like: Any) -> Any:
    """Return label sets in the container that `describe` saw."""
    cells = label_sets.astype(dtype)
    if kind == "csr_array":
        return sparse.csr_array(cells)
    if kind == "csr_matrix":
        return sparse.csr_matrix(cells)
    if kind == "pandas":
        import pandas as pd

        return pd.DataFrame(cells, columns=names, index=getattr(like, "index", None))
    if kind == "polars":
        import polars as pl

        return pl.DataFrame({str(name): cells[:, k] for k, name in enumerate(names)})
    return cells
