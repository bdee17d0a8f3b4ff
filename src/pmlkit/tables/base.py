"""What a table is here: named columns whose cells can be read, and written again with some of them changed."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, BinaryIO

__all__ = ["Edits", "Table"]

Edits = Mapping[str, Mapping[int, Any]]
"""New cells: for a column, the row numbers and what stands there now."""


class Table(ABC):
    """A table that keeps everything of its file, so that it can be written again as it was.

    Attributes
    ----------
    columns : list of str
        Their names, in the order of the file.
    n_rows : int
    """

    columns: list[str]
    n_rows: int

    @abstractmethod
    def cells(self, columns: Collection[str]) -> dict[str, Sequence[Any]]:
        """Return columns as Python values: texts in text files, what the format knows in others, None if absent."""

    @abstractmethod
    def write(self, stream: BinaryIO, edits: Edits) -> None:
        """Write the table with some cells changed and all else as it was."""
