"""Tables of features without labels: `pmlkit.data.read` wants labels, new rows to predict have none."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pmlkit._typing import FloatArray
from pmlkit.cli.output import quoted
from pmlkit.cli.reading import Reading
from pmlkit.exceptions import DataError

__all__ = ["can_read", "read_features"]

_TEXT_ENDINGS, _PARQUET_ENDINGS = (".csv", ".tsv", ".tab"), (".parquet", ".pq")
_OPTIONS = frozenset({"id", "delimiter", "encoding"})


def can_read(path: Path, reading: Reading) -> bool:
    """Tell whether a file is a table of which only the model's features are wanted."""
    if not path.is_file() or path.stat().st_size == 0:
        return False
    if reading.format is not None:
        is_table = reading.format in ("csv", "tsv", "parquet")
    else:
        is_table = _ending(path) in (*_TEXT_ENDINGS, *_PARQUET_ENDINGS)
    return is_table and set(reading.options(path)) <= _OPTIONS


def read_features(path: Path, names: Sequence[str], reading: Reading) -> tuple[FloatArray, Sequence[int | str] | None]:
    """Read the named columns, whatever else is in the table.

    Parameters
    ----------
    path : path
        A CSV, TSV or Parquet file; text may be compressed.
    names : sequence of str
        The columns, in the order in which they are wanted.
    reading : Reading
        May name an `id` column, and the `delimiter` and `encoding` of text.

    Returns
    -------
    X : array of shape (n_rows, n_names)
    ids : list, or None where there is no identifier column
    """
    options = reading.options(path)
    is_parquet = reading.format == "parquet" or (reading.format is None and _ending(path) in _PARQUET_ENDINGS)
    try:
        table = _load_parquet(path) if is_parquet else _load_text(path, options)
    except DataError:
        raise
    except Exception as error:  # arrow raises many kinds, with messages of several lines
        first = str(error).partition("\n")[0].rstrip(".")
        raise DataError(f"{path.name} is not a well-formed table: {first}.") from error
    columns = set(table.column_names)
    # Our own tables write `feature:id` for a feature called `id`.
    found = [f"feature:{name}" if f"feature:{name}" in columns else name for name in names]
    missing = [name for name in found if name not in columns]
    if missing:
        raise DataError(f"{path.name} lacks {len(missing)} of the model's features: {quoted(missing)}.")
    if table.num_rows == 0:
        raise DataError(f"{path.name}: the table has no rows.")
    X = np.column_stack([_numbers(table, name, path) for name in found])
    id_column = options.get("id", "id" if "id" in columns and "id" not in found else None)
    if id_column is not None and id_column not in columns:
        raise DataError(f"{path.name} has no column {id_column!r}.")
    return X, None if id_column is None else table.column(id_column).to_pylist()


def _ending(path: Path) -> str:
    endings = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in (".gz", ".bz2")]
    return endings[-1] if endings else ""


def _load_parquet(path: Path) -> Any:
    from pyarrow import parquet

    return parquet.read_table(path)


def _load_text(path: Path, options: dict[str, Any]) -> Any:
    import pyarrow
    from pyarrow import csv as arrow_csv

    encoding = options.get("encoding", "utf-8")
    with pyarrow.input_stream(str(path)) as stream:
        header = stream.read(2**20).partition(b"\n")[0].decode(encoding, errors="replace").lstrip("\ufeff")
    delimiter = options.get("delimiter") or max(",;\t", key=header.count)
    names = next(csv.reader([header.rstrip("\r")], delimiter=delimiter), [])
    double = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if double is not None:
        raise DataError(f"{path.name}: the column {double!r} occurs more than once. Rename one of the two.")
    with pyarrow.input_stream(str(path)) as stream:
        return arrow_csv.read_csv(
            stream,
            read_options=arrow_csv.ReadOptions(encoding=encoding),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        )


def _numbers(table: Any, name: str, path: Path) -> FloatArray:
    column = table.column(name)
    try:
        values = np.asarray(column.cast("float64", safe=False).to_numpy(), dtype=np.float64)
    except Exception as error:
        raise DataError(f"{path.name}: column {name!r} must hold numbers, but it holds {column.type}.") from error
    absent = np.flatnonzero(~np.isfinite(values))
    if len(absent):
        raise DataError(
            f"{path.name}: {len(absent)} value(s) of column {name!r} are missing or not finite, the first in row "
            f"{absent[0]}. Fill them first."
        )
    return values
