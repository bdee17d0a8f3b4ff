"""Validation of the tables that the metrics compare."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._arrays import frame_names, names_per_row, number_table, read_labels, row_of_cells
from pmlkit._typing import CSR, IntArray
from pmlkit.exceptions import DataError

Convention: TypeAlias = Literal["zhang", "sklearn"]
Ties: TypeAlias = Literal["zhang", "pessimistic", "average"]
Table: TypeAlias = Any
"""A table of shape (n_samples, n_labels): nested lists, an array, a scipy sparse array, a pandas or polars DataFrame;
for labels also a list of label names per row."""

_NUMBERS = ("y_score", "confidence")


def check_convention(convention: str) -> None:
    """Raise ValueError for a convention that does not exist."""
    if convention not in get_args(Convention):
        raise ValueError(f"convention must be 'zhang' or 'sklearn', got {convention!r}.")


def check_ties(ties: str | None) -> None:
    """Raise ValueError for a tie rule that does not exist."""
    if ties is not None and ties not in get_args(Ties):
        raise ValueError(
            f"ties must be 'zhang', 'pessimistic', 'average' or None for the convention's own rule, got {ties!r}."
        )


def read_tables(label_names: Iterable[Any] | None, **tables: Table) -> list[Any]:
    """Return validated tables of one shape: indicators as CSR arrays, ``y_score`` dense, ``confidence`` either.

    Label names are compared only where two tables have them: the same names in another order would give a wrong value
    without notice, whereas different names (``beach``, ``score_beach``) are allowed.
    """
    names = _names_of_columns(label_names, tables)
    checked = []
    for what, table in tables.items():
        numbers = _numbers(table, what) if what in _NUMBERS else read_labels(table, what, names=names).indicator
        checked.append(numbers)
    (first_what, first_table), *others = tables.items()
    first_columns = frame_names(first_table) or []
    for (what, table), numbers in zip(others, checked[1:], strict=True):
        if numbers.shape != checked[0].shape:
            shapes = [" x ".join(map(str, shape)) for shape in (checked[0].shape, numbers.shape)]
            raise DataError(f"{first_what} and {what} must have the same shape, got {shapes[0]} and {shapes[1]}.")
        columns = frame_names(table) or []
        if columns != first_columns and sorted(columns) == sorted(first_columns):
            raise DataError(
                f"{first_what} and {what} have the same label names in a different order. "
                f"Use {what}[list({first_what}.columns)]."
            )
    if names is not None and len(names) != checked[0].shape[1]:
        raise DataError(f"label_names must name the {checked[0].shape[1]} columns, got {len(names)} names.")
    return checked


def _names_of_columns(label_names: Iterable[Any] | None, tables: Mapping[str, Table]) -> list[str] | None:
    """Return the label of each column, which names per row need; None if there are only numbers."""
    if label_names is not None:
        return [str(name) for name in label_names]
    named = {what: table for what, table in tables.items() if what not in _NUMBERS and names_per_row(table, what)}
    if not named:
        return None
    for table in tables.values():
        columns = frame_names(table)
        if columns is not None:
            return columns
    unnamed = next((what for what in tables if what not in named), None)
    if unnamed is not None:
        raise DataError(
            f"{next(iter(named))} holds label names, so the columns of {unnamed} need names, too: pass "
            "label_names=model.label_names_, or a DataFrame."
        )
    return sorted({str(name) for what, table in named.items() for name in read_labels(table, what).names or ()})


def _numbers(table: Table, what: str) -> Any:
    numbers = number_table(table, what, allow_sparse=what != "y_score")
    stored = numbers.data if sparse.issparse(numbers) else numbers
    # The minimum is NaN as soon as one entry is, and unlike isnan(...).any() it needs no array of that size.
    if stored.dtype.kind == "f" and stored.size and np.isnan(stored.min()):
        raise DataError(f"{what} must not have missing values, got nan. Fill or drop those entries first.")
    return numbers


def cell_values(table: NDArray[Any] | CSR, rows: IntArray, columns: IntArray) -> NDArray[Any]:
    """Return the values of some cells; a cell that a canonical CSR array does not store is 0."""
    if isinstance(table, np.ndarray):
        picked: NDArray[Any] = table[rows, columns]
        return picked
    # Flat positions instead of fancy indexing: sorted on both sides, and never a second sparse structure.
    width = np.int64(table.shape[1])
    stored = row_of_cells(table) * width + table.indices
    wanted = rows * width + columns
    values = np.zeros(len(wanted), dtype=table.dtype)
    if len(stored):
        place = np.minimum(np.searchsorted(stored, wanted), len(stored) - 1)
        found = stored[place] == wanted
        values[found] = table.data[place[found]]
    return values
