"""A file of rows and named columns: cells can be read, and written again with some of them changed."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from pmlkit._typing import FloatArray
from pmlkit.data.files.names import excerpt
from pmlkit.exceptions import DataError

__all__ = ["Edits", "TableFile", "as_number", "is_missing", "parse_numbers", "refuse_repeated"]

Edits = Mapping[str, Mapping[int, Any]]
"""New cells: for a column, the row numbers and what stands there now."""

_MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "?"})
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+(?:[eE][+-]?\d+)?\s*", re.ASCII)
_BOOLEANS = {"true": 1.0, "false": 0.0}


class TableFile(ABC):
    """A parsed file that keeps everything, so that it can be written again as it was.

    `columns`: their names, in the order of the file. `decimal_comma`: whether ``1,5`` may be a number. `is_untyped`:
    whether all cells are texts, so that an identifier may be a number, too.
    """

    columns: list[str]
    n_rows: int
    decimal_comma: bool = False
    is_untyped: bool = False

    def cells(self, names: Iterable[str]) -> dict[str, Sequence[Any]]:
        """Return columns as Python values: texts in text files, what the format knows in others, None if absent.

        Columns are parsed once and kept.
        """
        wanted = list(names)
        kept: dict[str, Sequence[Any]] = self.__dict__.setdefault("_kept_cells", {})
        if missing := [name for name in wanted if name not in kept]:
            kept |= self._parse_cells(missing)
        return {name: kept[name] for name in wanted}

    @abstractmethod
    def _parse_cells(self, names: list[str]) -> dict[str, Sequence[Any]]:
        """Parse columns."""

    def numbers(self, names: Sequence[str]) -> FloatArray:
        """Return columns as a matrix, NaN where a cell is empty."""
        matrix: FloatArray = np.empty((self.n_rows, len(names)))
        for k, (name, values) in enumerate(self.cells(names).items()):
            matrix[:, k] = parse_numbers(values, name, decimal_comma=self.decimal_comma)
        return matrix

    @abstractmethod
    def write(self, stream: BinaryIO, edits: Edits) -> None:
        """Write the file with some cells changed and all else as it was."""


def parse_numbers(values: Sequence[Any], name: str, *, decimal_comma: bool = False, start: int = 0) -> FloatArray:
    """Return cells as numbers: NaN where empty, 1 and 0 for a column of true and false.

    `values`: texts or numbers. `name`: the column, for messages. `decimal_comma`: whether ``1,5`` is a number, too.
    `start`: the row of the first value, for messages.

    Examples
    --------
    >>> from pmlkit.data.files.base import parse_numbers
    >>> parse_numbers(["1.5", "", "NA"], "size").tolist(), parse_numbers(["True", "false"], "big").tolist()
    ([1.5, nan, nan], [1.0, 0.0])
    """
    try:
        numbers = np.fromiter(map(float, values), np.float64, len(values))
        if not any(isinstance(value, str) and "_" in value for value in values):  # Python's own way to write 1_000
            return numbers
    except (TypeError, ValueError):
        pass
    numbers = np.full(len(values), np.nan)
    known = {row: value for row, value in enumerate(values) if not is_missing(value)}
    are_booleans = all(isinstance(value, str) and value.strip().lower() in _BOOLEANS for value in known.values())
    for row, value in known.items():
        number = _BOOLEANS[value.strip().lower()] if are_booleans else as_number(value, decimal_comma=decimal_comma)
        if number is None:
            raise DataError(
                f"column {name!r} must hold numbers, but row {start + row} holds {excerpt(str(value))}.", column=name
            )
        numbers[row] = number
    return numbers


def is_missing(value: Any) -> bool:
    """Tell whether a cell of a column of numbers is empty, in one of the usual spellings."""
    return value is None or (isinstance(value, str) and value.strip().lower() in _MISSING)


def as_number(value: Any, *, decimal_comma: bool = False) -> float | None:
    """Return a cell as a number, or None if it is none."""
    if isinstance(value, str):
        if decimal_comma and _DECIMAL_COMMA.fullmatch(value):
            value = value.replace(",", ".")
        if "_" in value:
            return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def refuse_repeated(columns: Sequence[str]) -> None:
    """Raise if two columns have the same name."""
    if len(set(columns)) < len(columns):
        seen: set[str] = set()
        double = next(name for name in columns if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise DataError(f"the column {double!r} occurs more than once. Rename one of the two.", column=double)
