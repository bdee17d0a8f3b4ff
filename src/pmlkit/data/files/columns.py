"""From the columns of a table to a PMLDataset: which are labels, truth, identifiers and features."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from pmlkit._typing import CSR
from pmlkit._words import counted
from pmlkit.data.dataset import PMLDataset
from pmlkit.data.files.base import TableFile
from pmlkit.data.files.common import Missing, Source, fill_missing
from pmlkit.data.files.labels import LabelColumns, read_labels
from pmlkit.data.files.names import Names, check_column, select
from pmlkit.data.files.own_columns import (
    FEATURE_PREFIX,
    ID_COLUMN,
    LABEL_PREFIX,
    MEDIA_COLUMN,
    TRUTH_PREFIX,
    label_key,
)
from pmlkit.data.files.registry import parse_table
from pmlkit.exceptions import DataError

__all__ = ["own_layout", "read_ids", "read_table", "to_dataset"]


def read_table(
    source: Source,
    *,
    labels: Names | None = None,
    truth: Names | None = None,
    sep: str | None = None,
    id: str | None = None,
    media: str | None = None,
    ignore: Names = (),
    missing: Missing = "mean",
    delimiter: str | None = None,
    encoding: str | None = None,
) -> PMLDataset:
    r"""Read a CSV, TSV, JSON or Parquet file as a data set of numbers.

    Parameters
    ----------
    source : Source
        The open file.
    labels : str or list of str
        The label columns: names or glob patterns (``"tag_*"``) of columns of 0/1; or the one
        column that holds sets such as ``a;b;c``, or lists. Not needed for a file that pmlkit wrote, whose
        label columns are called ``label:<name>``.
    truth : str or list of str, optional
        The true labels, in the same way. Columns of 0/1 are matched to the label columns by what
        the ``*`` of the two patterns stands for, else by their order.
    sep : str, optional
        Separator of the labels in a set; by default ``;``, or the comma or bar that many cells have.
    id, media : str, optional
        Columns with the identifier and the text (or address) of each row.
    ignore : str or list of str, optional
        Columns to leave out, names or glob patterns. All others are features and must be numbers.
    missing : {"mean", "zero", "error"}, default="mean"
        What becomes of an empty feature cell.
    delimiter : str, optional
        Between the columns of CSV; by default the comma, semicolon, tab or bar that the header line has most of.
    encoding : str, optional
        Of CSV and TSV; by default UTF-8.

    Returns
    -------
    dataset : PMLDataset
        Without `truth`, the truth is unknown. The labels of sets are in alphabetical order. Whole
        numbers in the `id` column of a text file become int.

    Examples
    --------
    >>> import io, pathlib
    >>> from pmlkit.data.files.columns import read_table
    >>> from pmlkit.data.files.common import Source
    >>> text = b"key,size,tag_red,tag_blue\n7,0.5,1,0\n8,2,1,1\n"
    >>> data = read_table(Source(pathlib.Path("r.csv"), "r", io.BytesIO(text), "csv"), labels="tag_*", id="key")
    >>> data.label_names, data.feature_names, data.ids
    (('tag_red', 'tag_blue'), ('size',), (7, 8))
    """
    file = parse_table(source, delimiter=delimiter, encoding=encoding)
    return to_dataset(file, labels, truth, sep, id, media, ignore, missing)


def own_layout(columns: Sequence[str]) -> dict[str, Any] | None:
    """Return which columns are labels, truth, id and media in a table that pmlkit wrote; None of any other table."""
    # Lists of names, not patterns: a label may be called "*".
    labels = [name for name in columns if name.startswith(LABEL_PREFIX)]
    if not labels:
        return None
    return {
        "labels": labels,
        "truth": [name for name in columns if name.startswith(TRUTH_PREFIX)] or None,
        "id": ID_COLUMN if ID_COLUMN in columns else None,
        "media": MEDIA_COLUMN if MEDIA_COLUMN in columns else None,
    }


def to_dataset(
    file: TableFile,
    labels: Names | None,
    truth: Names | None,
    sep: str | None,
    id: str | None,
    media: str | None,
    ignore: Names,
    missing: Missing,
) -> PMLDataset:
    """Return a table of numbers as a data set; the parameters are those of `read_table`."""
    if missing not in ("error", "mean", "zero"):
        raise ValueError(f"missing must be 'error', 'mean' or 'zero', got {missing!r}.")
    names = file.columns
    own = own_layout(names) if labels is None else None
    if own is not None:
        labels, truth = own["labels"], truth if truth is not None else own["truth"]
        id, media = id or own["id"], media or own["media"]
    for column in (id, media):
        if column is not None:
            check_column(column, names)
    ignored = set(select(names, ignore, option="ignore"))
    found = _read_labels(file, labels, sep, ignored, "labels")
    used = {*found.columns, *(name for name in (id, media) if name is not None)}
    Y_true = None
    if truth is not None:
        true = _read_labels(file, truth, sep, ignored, "truth")
        used |= set(true.columns)
        Y_true = _aligned_truth(true, truth, found, labels)
    features = [name for j, name in enumerate(names) if name not in used and j not in ignored]
    try:
        X = fill_missing(file.numbers(features), missing, features)
    except DataError as error:
        if error.option is None and error.column is not None:
            remedy = " to leave it out, or open tables of texts and categories with pmlkit.open_table"
            raise error.replace(option="ignore", value=repr(error.column), remedy=remedy) from error
        raise
    texts = None if media is None else ["" if text is None else str(text) for text in file.cells([media])[media]]
    return PMLDataset(
        X,
        found.Y,
        truth=Y_true,
        feature_names=[name.removeprefix(FEATURE_PREFIX) for name in features] if own else features,
        label_names=[name.removeprefix(LABEL_PREFIX) for name in found.names] if own else found.names,
        ids=None if id is None else read_ids(file, id),
        media=texts,
    )


def _read_labels(
    file: TableFile, wanted: Names | None, sep: str | None, ignored: set[int], option: str
) -> LabelColumns:
    if wanted is None:
        return read_labels(file, None)
    columns = [file.columns[j] for j in select(file.columns, wanted, option=option) if j not in ignored]
    if not columns:
        raise DataError(f"no label column is left: {option} names none, or they are ignored.")
    return read_labels(file, columns, sep=sep)


def read_ids(file: TableFile, column: str) -> list[Any]:
    """Return the identifiers of the rows; those of a text file as int, if all are whole numbers."""
    ids = ["" if value is None else value for value in file.cells([column])[column]]
    joined = "".join(ids) if file.is_untyped else ""
    if joined.isascii() and joined.isdigit() and all(ids):
        numbers = [int(text) for text in ids] if max(map(len, ids)) < 19 else []
        return numbers if [str(number) for number in numbers] == ids else ids
    return ids


def _aligned_truth(true: LabelColumns, truth: Names, found: LabelColumns, labels: Names | None) -> CSR:
    """Return the truth with its columns in the order of the labels."""
    if true.is_set:
        number = {name: k for k, name in enumerate(found.names)}
        unknown = [k for k, name in enumerate(true.names) if name not in number]
        if unknown:
            row = int(true.Y.tocsc()[:, [unknown[0]]].nonzero()[0][0])
            raise DataError(
                f"column {true.columns[0]!r} names {true.names[unknown[0]]!r} in row {row}, which is not among the "
                "labels.",
                column=true.columns[0],
            )
        cells = true.Y.tocoo()
        target = np.array([number[name] for name in true.names])
        return sparse.csr_array((cells.data, (cells.row, target[cells.col])), shape=found.Y.shape)
    if len(true.names) != len(found.names):
        raise DataError(
            f"truth names {counted(len(true.names), 'column')}, but there are {counted(len(found.names), 'label')}."
        )
    keys = [label_key(truth, name) for name in true.names]
    wanted = [label_key(labels, name) for name in found.names]
    if sorted(keys) != sorted(wanted):
        return true.Y
    position = {key: k for k, key in enumerate(keys)}
    return sparse.csr_array(true.Y[:, [position[key] for key in wanted]])
