"""Parquet files that are written again with all columns, types and metadata; and data sets as such files."""

from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from pmlkit._optional import optional_import
from pmlkit._typing import FloatArray
from pmlkit._words import excerpt
from pmlkit.data.dataset import PMLDataset
from pmlkit.data.files.base import FREE_BYTES, Edits, TableFile, check_size, refuse_repeated
from pmlkit.data.files.datasets import own_columns, row_blocks
from pmlkit.exceptions import DataError

_BLOCK_CELLS = 2**23  # a file with thousands of columns gets slow if cut into small row groups


def _import_arrow() -> Any:
    optional_import("pyarrow.parquet")
    return optional_import("pyarrow")


def check_parquet(info: Any, max_bytes: int) -> None:
    """Refuse a file whose metadata claim more cells, or more bytes in them, than `max_bytes`."""
    stated = sum(info.row_group(k).total_byte_size for k in range(info.num_row_groups))
    # A column that repeats one value takes next to nothing in the file.
    check_size(max(stated, info.num_rows * info.num_columns), max_bytes, f"a table of {info.num_rows:,} rows")


class ParquetFile(TableFile):
    """A Parquet file.

    `max_bytes`: how much memory its cells may take.
    """

    def __init__(self, stream: BinaryIO, max_bytes: int = FREE_BYTES) -> None:
        pa = _import_arrow()
        try:
            file = pa.parquet.ParquetFile(pa.PythonFile(stream, mode="r"), page_checksum_verification=True)
            check_parquet(file.metadata, max_bytes)
            self._table = file.read(use_threads=False)
            self._table.validate(full=True)
        except DataError:
            raise
        except Exception as error:  # arrow raises many kinds
            first = excerpt(str(error).partition("\n")[0].rstrip("."), 200)[1:-1]
            raise DataError(f"this is not a readable Parquet file, or not all of it: {first}.") from error
        info = file.metadata
        group = info.row_group(0) if info.num_row_groups else None
        self._group_rows = group.num_rows if group is not None else None
        self._compression = group.column(0).compression if group is not None and group.num_columns else "SNAPPY"
        self.columns = list(self._table.column_names)
        self.n_rows = self._table.num_rows
        refuse_repeated(self.columns)

    def _parse_cells(self, names: list[str]) -> dict[str, Sequence[Any]]:
        return {name: self._table.column(name).to_pylist() for name in names}

    def numbers(self, names: Sequence[str]) -> FloatArray:
        """Return columns as a matrix, NaN where a cell is empty; of float32 if all of them are."""
        pa = _import_arrow()
        types = [self._table.schema.field(name).type for name in names]
        dtype = np.float32 if types and all(kind == pa.float32() for kind in types) else np.float64
        matrix: FloatArray = np.empty((self.n_rows, len(names)), dtype=dtype)
        for k, (name, kind) in enumerate(zip(names, types, strict=True)):
            if pa.types.is_integer(kind) or pa.types.is_floating(kind):
                matrix[:, k] = self._table.column(name).to_numpy()
            else:
                matrix[:, k] = super().numbers([name])[:, 0]
        return matrix

    def write(self, stream: BinaryIO, edits: Edits) -> None:
        """Write the table with some cells changed, in the same types, groups and compression."""
        pa = _import_arrow()
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


def write_parquet(dataset: PMLDataset, stream: BinaryIO) -> None:
    """Write a Parquet file with the columns that `pmlkit.data.files.delimited.write_csv` describes."""
    pa = _import_arrow()
    names, words, matrices = own_columns(dataset)
    writer, start = None, 0
    for rows in row_blocks(*matrices, cells=_BLOCK_CELLS):
        stop = start + rows[0].shape[0]
        columns = [pa.array(column[start:stop]) for column in words]
        dense = (block.toarray() if sparse.issparse(block) else block for block in rows)
        columns += [pa.array(np.ascontiguousarray(column)) for block in dense for column in block.T]
        part = pa.table(dict(zip(names, columns, strict=True)))
        writer = writer or pa.parquet.ParquetWriter(stream, part.schema, write_page_checksum=True)
        writer.write_table(part)
        start = stop
    if writer is not None:
        writer.close()
