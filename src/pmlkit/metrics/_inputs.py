"""One validation path for the tables that the measures compare."""

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._arrays import row_of_cells
from pmlkit._typing import CSR, BoolArray, IntArray
from pmlkit.exceptions import DataError

__all__ = [
    "Convention",
    "Table",
    "Ties",
    "cell_values",
    "cells_of",
    "check_convention",
    "check_same_labels",
    "check_ties",
    "indicator",
    "number_table",
]

Convention: TypeAlias = Literal["zhang", "sklearn"]
Ties: TypeAlias = Literal["zhang", "pessimistic", "average"]
Table: TypeAlias = Any
"""An n x q table: nested lists, an array, a scipy sparse array, a pandas or polars DataFrame."""


def check_convention(convention: str) -> None:
    """Refuse a convention that does not exist."""
    if convention not in get_args(Convention):
        raise ValueError(f"convention must be 'zhang' or 'sklearn', got {convention!r}.")


def check_ties(ties: str | None) -> None:
    """Refuse a tie rule that does not exist."""
    if ties is not None and ties not in get_args(Ties):
        raise ValueError(
            f"ties must be 'zhang', 'pessimistic', 'average' or None for the convention's own rule, got {ties!r}."
        )


def indicator(table: Table, name: str) -> BoolArray | CSR:
    """Return a 0/1 table as a dense boolean array, or as a canonical boolean CSR array without stored zeros."""
    numbers = number_table(table, name, allow_sparse=True)
    flags: Any = numbers.astype(bool)
    if isinstance(numbers, sparse.csr_array):
        _refuse_other_than_01(numbers.data, flags.data, name)
    else:
        _refuse_other_than_01(numbers, flags, name)
    return flags


def number_table(table: Table, name: str, *, allow_sparse: bool = False) -> Any:
    """Return an n x q table of real numbers as a dense array or, if allowed, a canonical CSR array; the input is kept.

    The dtype stays what it was, so that no two different scores become equal.
    """
    if sparse.issparse(table):
        if not allow_sparse:
            raise DataError(
                f"{name} must be dense, got a sparse array: every label needs a score. Use {name}.toarray()."
            )
        return _canonical_csr(table, name)
    try:
        numbers = np.asarray(table)
        if numbers.dtype == object:
            # pandas' NA, unlike None, does not become nan by itself.
            numbers = np.where(pd.isna(numbers), np.nan, numbers).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{name} must be an n x q table of numbers, got rows of unequal length or entries that are no numbers. "
            "Use sklearn.preprocessing.MultiLabelBinarizer for lists of labels."
        ) from error
    _check_table(numbers, name)
    return numbers


def check_same_labels(**tables: Table) -> None:
    """Refuse validated or raw tables whose shapes, or whose orders of label names, differ.

    Label names are compared only where both tables have them: the same names in another order would give a wrong
    measure in silence, whereas different names (``beach``, ``score_beach``) are the caller's business.
    """
    (first_name, first), *others = tables.items()
    first_labels = _label_names(first)
    for name, table in others:
        if np.shape(table) != np.shape(first):
            raise DataError(
                f"{first_name} and {name} must have the same shape, "
                f"got {_shape_in_words(first)} and {_shape_in_words(table)}."
            )
        labels = _label_names(table)
        if labels != first_labels and sorted(labels) == sorted(first_labels):
            raise DataError(
                f"{first_name} and {name} have the same label names in a different order. "
                f"Use {name}[list({first_name}.columns)]."
            )


def cells_of(table: BoolArray | CSR) -> tuple[IntArray, IntArray]:
    """Return the row and the column of every set cell of an indicator, row by row."""
    if isinstance(table, sparse.csr_array):
        rows = row_of_cells(table)
        return rows, table.indices
    rows, columns = np.nonzero(table)
    return rows, columns


def cell_values(table: NDArray[Any] | CSR, rows: IntArray, columns: IntArray) -> NDArray[Any]:
    """Return the values of some cells; a cell that a canonical CSR array does not store is 0."""
    if not isinstance(table, sparse.csr_array):
        picked: NDArray[Any] = table[rows, columns]
        return picked
    # Flat positions instead of fancy indexing: sorted on both sides, and never a second sparse structure.
    width = np.int64(table.shape[1])
    stored_rows = row_of_cells(table)
    stored = stored_rows * width + table.indices
    wanted = rows * width + columns
    values = np.zeros(len(wanted), dtype=table.dtype)
    if len(stored):
        place = np.minimum(np.searchsorted(stored, wanted), len(stored) - 1)
        found = stored[place] == wanted
        values[found] = table.data[place[found]]
    return values


def _canonical_csr(table: Table, name: str) -> CSR:
    """Return a CSR array with sorted, unique entries and no stored zero, sharing memory only where nothing changes."""
    csr = sparse.csr_array(table)
    _check_table(csr, name)
    if not csr.has_canonical_format or not np.all(csr.data):
        csr = csr.copy()
        csr.sum_duplicates()
        csr.eliminate_zeros()
    return csr


def _check_table(numbers: Any, name: str) -> None:
    if numbers.ndim == 1:
        raise DataError(
            f"{name} must be an n x q table, got a 1-D array of length {numbers.shape[0]}. "
            "Use reshape(-1, 1) if it is one label, reshape(1, -1) if it is one row."
        )
    if numbers.ndim != 2:
        raise DataError(f"{name} must be an n x q table, got an array with {numbers.ndim} dimensions.")
    if 0 in numbers.shape:
        raise DataError(f"{name} must have at least one row and one label, got {_shape_in_words(numbers)}.")
    if numbers.dtype.kind not in "biuf":
        raise DataError(f"{name} must hold real numbers, got dtype {numbers.dtype}.")
    stored = numbers.data if isinstance(numbers, sparse.csr_array) else numbers
    # The minimum is nan as soon as one entry is, and unlike isnan(...).any() it needs no array of that size.
    if stored.dtype.kind == "f" and stored.size and np.isnan(stored.min()):
        raise DataError(f"{name} must not have missing values, got nan. Fill or drop those entries first.")


def _refuse_other_than_01(numbers: NDArray[Any], flags: BoolArray, name: str) -> None:
    if numbers.dtype == bool or np.array_equal(numbers, flags):
        return
    stranger = numbers[numbers != flags][0]
    raise DataError(
        f"{name} must be an n x q indicator of 0/1, got the value {stranger:g}. "
        f"Use {name} > 0 for -1/+1, or sklearn.preprocessing.MultiLabelBinarizer for lists of labels."
    )


def _shape_in_words(table: Any) -> str:
    return " x ".join(str(length) for length in np.shape(table))


def _label_names(table: Any) -> list[str]:
    return [str(label) for label in getattr(table, "columns", [])]
