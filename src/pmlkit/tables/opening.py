"""Open a table whatever its format, and write one again."""

import bz2
import gzip
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

from pmlkit._files import replacing
from pmlkit.exceptions import DataError
from pmlkit.tables.base import Edits, Table

__all__ = ["TABLE_FORMATS", "open_table", "table_format", "write_table"]

TABLE_FORMATS = {
    "arff": (".arff",),
    "csv": (".csv",),
    "jsonl": (".jsonl", ".ndjson"),
    "parquet": (".parquet", ".pq"),
    "tsv": (".tsv", ".tab"),
}
"""The endings of each format."""

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}


def table_format(path: str | os.PathLike[str]) -> str | None:
    """Return the format that a file's name tells, or None.

    Examples
    --------
    >>> from pmlkit.tables.opening import table_format
    >>> table_format("posts.csv.gz"), table_format("posts.npz")
    ('csv', None)
    """
    endings = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() not in _OPENERS]
    return next((name for name, known in TABLE_FORMATS.items() if endings and endings[-1] in known), None)


def open_table(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
) -> Table:
    r"""Read a table so that it can be written again as it was.

    Parameters
    ----------
    path : path
        The file; ``.gz`` and ``.bz2`` are unpacked.
    format : {"arff", "csv", "jsonl", "parquet", "tsv"}, optional
        By default by the ending.
    delimiter, encoding
        Of CSV and TSV, see `pmlkit.tables.text_table.TextTable`.

    Raises
    ------
    DataError
        If the file cannot be used; the message says why.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit.tables.opening import open_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "posts.csv")
    ...     _ = path.write_text("body,tags\nhello,a;b\n")
    ...     open_table(path).columns
    ['body', 'tags']
    """
    path = Path(path)
    if not path.exists():
        raise DataError(f"There is no file {str(path)!r}. Check the path and the folder it starts from.")
    if not path.is_file():
        raise DataError(f"{str(path)!r} is not a file: give the path of a table.")
    chosen = format or table_format(path)
    if chosen not in TABLE_FORMATS:
        raise DataError(f"{path.name}: the ending names no table. Pass format= one of {', '.join(TABLE_FORMATS)}.")
    opener = _OPENERS.get(path.suffix.lower())
    try:
        with cast(BinaryIO, path.open("rb") if opener is None else opener(path, "rb")) as stream:
            table = _reader(chosen, delimiter, encoding)(stream)
    except DataError as error:
        raise DataError(f"{path.name}: {error}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path.name}: the compressed file is damaged or not complete: {error}.") from error
    except OSError as error:
        raise DataError(f"{path.name} cannot be read: {error.strerror or error}.") from error
    if table.n_rows == 0:
        raise DataError(f"{path.name}: the table has no rows.")
    return table


def _reader(format: str, delimiter: str | None, encoding: str) -> Callable[[BinaryIO], Table]:
    if format == "parquet":
        from pmlkit.tables.parquet_table import ParquetTable

        return ParquetTable
    if format == "jsonl":
        from pmlkit.tables.json_lines import JsonLinesTable

        return JsonLinesTable
    if format == "arff":
        from pmlkit.tables.arff_table import ArffTable

        return ArffTable
    from pmlkit.tables.text_table import TextTable

    between = delimiter or ("\t" if format == "tsv" else None)
    return lambda stream: TextTable(stream, delimiter=between, encoding=encoding)


def write_table(table: Table, path: str | os.PathLike[str], edits: Edits) -> None:
    """Write a table with some cells changed, whole or not at all; the ending ``.gz`` or ``.bz2`` packs it."""
    suffix = Path(path).suffix.lower()
    with replacing(path) as stream:
        if suffix == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed:
                table.write(cast(BinaryIO, packed), edits)
        elif suffix == ".bz2":
            with bz2.BZ2File(stream, "wb") as packed_bz2:
                table.write(cast(BinaryIO, packed_bz2), edits)
        else:
            table.write(stream, edits)
