"""Parquet files of which every column, type and piece of metadata is kept."""

from collections.abc import Collection, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet

from pmlkit.exceptions import DataError
from pmlkit.tables.base import Edits, Table

__all__ = ["ParquetTable"]


class ParquetTable(Table):
    """A Parquet file.

    Parameters
    ----------
    stream : binary file

    Examples
    --------
    >>> import io
    >>> import pyarrow as pa, pyarrow.parquet
    >>> from pmlkit.tables.parquet_table import ParquetTable
    >>> stream = io.BytesIO()
    >>> pa.parquet.write_table(pa.table({"tags": [["a", "b"], []]}), stream)
    >>> table = ParquetTable(stream)
    >>> out = io.BytesIO()
    >>> table.write(out, {"tags": {0: ["b"]}})
    >>> pa.parquet.read_table(out)["tags"].to_pylist()
    [['b'], []]
    """

    def __init__(self, stream: BinaryIO) -> None:
        try:
            file = pa.parquet.ParquetFile(pa.PythonFile(stream, mode="r"))
            self._table = file.read(use_threads=False)
            self._table.validate(full=True)
        except Exception as error:  # arrow raises many kinds
            first = str(error).partition("\n")[0].rstrip(".")
            raise DataError(f"this is not a readable Parquet file, or not all of it: {first}.") from error
        info = file.metadata
        group = info.row_group(0) if info.num_row_groups else None
        self._group_rows = group.num_rows if group is not None else None
        self._compression = group.column(0).compression if group is not None and group.num_columns else "SNAPPY"
        self.columns = list(self._table.column_names)
        self.n_rows = self._table.num_rows
        if len(set(self.columns)) < len(self.columns):
            double = next(name for k, name in enumerate(self.columns) if name in self.columns[:k])
            raise DataError(f"the column {double!r} occurs more than once. Rename one of the two.")

    def cells(self, columns: Collection[str]) -> dict[str, Sequence[Any]]:
        """Return the Python values of some columns."""
        return {name: self._table.column(name).to_pylist() for name in columns}

    def write(self, stream: BinaryIO, edits: Edits) -> None:
        """Write the table with some cells changed, in the same types, groups and compression."""
        table = self._table
        for name, cells in edits.items():
            position = self.columns.index(name)
            values = table.column(position).to_pylist()
            for row, value in cells.items():
                values[row] = value
            kind = table.schema.field(position)
            table = table.set_column(position, kind, pa.array(values, type=kind.type))
        pa.parquet.write_table(
            table,
            stream,
            compression="NONE" if self._compression == "UNCOMPRESSED" else self._compression,
            row_group_size=self._group_rows or None,
        )
