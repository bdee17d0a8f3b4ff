"""Tables: CSV, TSV and Parquet, with a column per label or one column of label sets."""

import codecs
import csv
import io
import logging
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from scipy import sparse

from pmlkit.data.dataset import PMLDataset
from pmlkit.data.formats._common import Missing, Source, excerpt, losses, row_blocks
from pmlkit.data.formats._table_columns import (
    FEATURE_PREFIX,
    ID_COLUMN,
    LABEL_PREFIX,
    MEDIA_COLUMN,
    TRUTH_PREFIX,
    Columns,
    TableOptions,
    to_dataset,
)
from pmlkit.exceptions import DataError

__all__ = ["read_csv", "read_parquet", "write_csv", "write_parquet", "write_tsv"]

logger = logging.getLogger(__name__)

_BLOCK_CELLS = 2**23  # a Parquet file with thousands of columns gets slow if cut into small row groups
_BLOCK_BYTES = 2**24  # arrow cannot read a row longer than this
_QUOTED = re.compile(r'"[^"]*"')


def read_csv(
    source: Source,
    *,
    labels: Columns | None = None,
    truth: Columns | None = None,
    sep: str | None = None,
    id: str | None = None,
    media: str | None = None,
    ignore: Columns = (),
    missing: Missing = "error",
    delimiter: str | None = None,
    encoding: str = "utf-8",
) -> PMLDataset:
    r"""Read a CSV or TSV file with a header line.

    Parameters
    ----------
    source : Source
        The open file.
    labels : str or list of str
        The label columns: names or glob patterns (``"tag_*"``) of columns of 0/1; or the one
        column that holds sets such as ``a;b;c``. Not needed for a file that pmlkit wrote, whose
        label columns are called ``label:<name>``.
    truth : str or list of str, optional
        The true labels, in the same way. Columns of 0/1 are matched to the label columns by what
        the ``*`` of the two patterns stands for, else by their order.
    sep : str, optional
        Separator of the labels in a set; by default ``;`` if the column holds text.
    id, media : str, optional
        Columns with the identifier and the text (or address) of each row.
    ignore : str or list of str, optional
        Columns to leave out, names or glob patterns. All others are features and must be numbers.
    missing : {"error", "mean", "zero"}, default="error"
        What becomes of an empty feature cell.
    delimiter : str, optional
        Between columns; by default the comma, semicolon or tab that the header line has most of.
    encoding : str, default="utf-8"
        Of the text.

    Returns
    -------
    dataset : PMLDataset
        Without `truth`, the truth is unknown. The labels of sets are in alphabetical order. Whole
        numbers in the `id` column become int.

    Examples
    --------
    >>> import io, pathlib
    >>> from pmlkit.data.formats._common import Source
    >>> from pmlkit.data.formats.table import read_csv
    >>> text = b"key,size,tag_red,tag_blue\n7,0.5,1,0\n8,2,1,1\n"
    >>> data = read_csv(Source(pathlib.Path("r.csv"), "r", io.BytesIO(text)), labels="tag_*", id="key")
    >>> data.label_names, data.feature_names, data.ids
    (('tag_red', 'tag_blue'), ('size',), (7, 8))
    """
    options = TableOptions(labels, truth, sep, id, media, ignore, missing)
    names, delimiter = _header(source.stream, delimiter, encoding)
    texts = options.text_columns(names)
    source.stream.seek(0)
    try:
        table = pa.csv.read_csv(
            pa.PythonFile(source.stream, mode="r"),
            read_options=pa.csv.ReadOptions(encoding=encoding, use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(texts, pa.string())),
        )
    except Exception as error:  # arrow and the file object raise many kinds
        raise DataError(f"the file is not a well-formed table: {_first_line(error)}.") from error
    return to_dataset(table, options, whole_ids=True)


def read_parquet(
    source: Source,
    *,
    labels: Columns | None = None,
    truth: Columns | None = None,
    sep: str | None = None,
    id: str | None = None,
    media: str | None = None,
    ignore: Columns = (),
    missing: Missing = "error",
) -> PMLDataset:
    """Read a Parquet file.

    The parameters are those of `read_csv`; a column of sets may also be a column of lists.

    Examples
    --------
    >>> import io, pathlib
    >>> import pyarrow as pa, pyarrow.parquet
    >>> from pmlkit.data.formats._common import Source
    >>> from pmlkit.data.formats.table import read_parquet
    >>> stream = io.BytesIO()
    >>> pa.parquet.write_table(pa.table({"size": [0.5, 2.0], "tags": [["red", "blue"], []]}), stream)
    >>> read_parquet(Source(pathlib.Path("r.parquet"), "r", stream), labels="tags").label_names
    ('blue', 'red')
    """
    options = TableOptions(labels, truth, sep, id, media, ignore, missing)
    try:
        file = pa.parquet.ParquetFile(pa.PythonFile(source.stream, mode="r"), page_checksum_verification=True)
        table = file.read(use_threads=False)
        table.validate(full=True)
    except Exception as error:  # as above
        raise DataError(f"this is not a readable Parquet file, or not all of it: {_first_line(error)}.") from error
    return to_dataset(table, options, whole_ids=False)


def _first_line(error: Exception) -> str:
    return excerpt(str(error).partition("\n")[0], 200)[1:-1]


def _header(stream: BinaryIO, delimiter: str | None, encoding: str) -> tuple[list[str], str]:
    """Return the column names and the delimiter."""
    try:
        codecs.lookup(encoding)
    except LookupError as error:
        raise ValueError(f"encoding must be the name of a text encoding, got {encoding!r}.") from error
    text = io.TextIOWrapper(stream, encoding="utf-8-sig" if encoding == "utf-8" else encoding, newline="")
    try:
        header = text.readline(2**24)
        while header.count('"') % 2 and (more := text.readline(2**24)):
            header += more
        delimiter = delimiter or max(",;\t", key=_QUOTED.sub("", header).count)
        names = next(csv.reader(io.StringIO(header, newline=""), delimiter=delimiter), [])
    except UnicodeError as error:
        raise DataError(f"the file is not text in {encoding}. Pass encoding= the right one.") from error
    except (csv.Error, TypeError) as error:
        raise DataError(f"the first line is not a list of column names: {error}.") from error
    finally:
        text.detach()
    return names, delimiter


def write_csv(dataset: PMLDataset, stream: BinaryIO) -> None:
    """Write a CSV file with the columns ``id``, ``media``, the features, ``label:<name>`` and ``truth:<name>``.

    A feature whose name could be taken for another kind of column is called ``feature:<name>``. Reading
    such a file needs no option. Images are not written.

    Parameters
    ----------
    dataset : PMLDataset
        What to write.
    stream : binary file
        Where to write.

    Examples
    --------
    >>> import io
    >>> from pmlkit.data.dataset import PMLDataset
    >>> from pmlkit.data.formats.table import write_csv
    >>> stream = io.BytesIO()
    >>> write_csv(PMLDataset([[0.5], [0.0]], [[1, 1], [0, 1]]), stream)
    >>> print(stream.getvalue().decode())
    "feature_0","label:label_0","label:label_1"
    0.5,1,1
    0,0,1
    <BLANKLINE>
    """
    _write_text(dataset, stream, ",")


def write_tsv(dataset: PMLDataset, stream: BinaryIO) -> None:
    r"""Write a TSV file; as `write_csv`, with tabs.

    Examples
    --------
    >>> import io
    >>> from pmlkit.data.dataset import PMLDataset
    >>> from pmlkit.data.formats.table import write_tsv
    >>> stream = io.BytesIO()
    >>> write_tsv(PMLDataset([[0.5], [0.0]], [[1, 1], [0, 1]]), stream)
    >>> stream.getvalue().splitlines()[1].split(b"\t")
    [b'0.5', b'1', b'1']
    """
    _write_text(dataset, stream, "\t")


def _write_text(dataset: PMLDataset, stream: BinaryIO, delimiter: str) -> None:
    # Shortest texts of float32 numbers would read back as other float64 numbers.
    dataset = dataset.replace(X=dataset.X.astype(np.float64)) if dataset.X.dtype == np.float32 else dataset
    options = pa.csv.WriteOptions(delimiter=delimiter)
    blocks = _blocks(dataset)
    first = next(blocks)
    with pa.csv.CSVWriter(stream, first.schema, write_options=options) as writer:
        writer.write_table(first)
        for block in blocks:
            writer.write_table(block)


def write_parquet(dataset: PMLDataset, stream: BinaryIO) -> None:
    """Write a Parquet file with the columns that `write_csv` describes.

    Parameters
    ----------
    dataset : PMLDataset
        What to write.
    stream : binary file
        Where to write.

    Examples
    --------
    >>> import io
    >>> from pmlkit.data.dataset import PMLDataset
    >>> from pmlkit.data.formats.table import write_parquet
    >>> stream = io.BytesIO()
    >>> write_parquet(PMLDataset([[0.5], [0.0]], [[1, 1], [0, 1]]), stream)
    >>> stream.getvalue()[:4]
    b'PAR1'
    """
    blocks = _blocks(dataset)
    first = next(blocks)
    with pa.parquet.ParquetWriter(stream, first.schema, write_page_checksum=True) as writer:
        writer.write_table(first)
        for block in blocks:
            writer.write_table(block)


def _blocks(dataset: PMLDataset) -> Iterator[Any]:
    """Yield the data set as arrow tables of some rows each."""
    if lost := losses(dataset, carries=("truth", "feature names", "label names", "ids", "texts")):
        logger.warning("a table leaves out: %s", ", ".join(lost))
    names = [_feature_column(name) for name in dataset.feature_names]
    names += [LABEL_PREFIX + name for name in dataset.label_names]
    tables = [dataset.X, dataset.Y]
    if dataset.truth is not None:
        names += [TRUTH_PREFIX + name for name in dataset.label_names]
        tables.append(dataset.truth)
    start = 0
    for rows in row_blocks(*tables, cells=_BLOCK_CELLS):
        stop = start + rows[0].shape[0]
        columns: dict[str, Any] = {}
        if dataset.ids is not None:
            columns[ID_COLUMN] = pa.array(dataset.ids[start:stop])
        if isinstance(dataset.media, tuple):
            columns[MEDIA_COLUMN] = pa.array(dataset.media[start:stop])
        dense = (block.toarray() if sparse.issparse(block) else block for block in rows)
        cells = (np.ascontiguousarray(column) for block in dense for column in block.T)
        columns |= {name: pa.array(column) for name, column in zip(names, cells, strict=True)}
        yield pa.table(columns)
        start = stop


def _feature_column(name: str) -> str:
    is_special = name in (ID_COLUMN, MEDIA_COLUMN) or name.startswith((LABEL_PREFIX, TRUTH_PREFIX, FEATURE_PREFIX))
    return FEATURE_PREFIX + name if is_special else name
