"""Data sets and files: `pmlkit.data.read`, `write` and `data_home`, and what readers and writers of data sets share."""

import inspect
import logging
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._arrays import position_of
from pmlkit._files import check_target, replacing
from pmlkit._typing import CSR, Features
from pmlkit._words import counted
from pmlkit.data.dataset import PMLDataset
from pmlkit.data.files.base import (
    FEATURE_PREFIX,
    FORMATS,
    ID_COLUMN,
    LABEL_PREFIX,
    MEDIA_COLUMN,
    TRUTH_PREFIX,
    Missing,
    Names,
    Source,
    TableFile,
    check_column,
    check_missing,
    compressed,
    format_by_name,
    open_file,
    parse_table,
    read_ids,
    select,
)
from pmlkit.data.files.labels import LabelColumns, read_labels
from pmlkit.exceptions import DataError

logger = logging.getLogger(__name__)

_COMPRESSIONS = (".gz", ".bz2")


def read(
    path: str | os.PathLike[str], *, format: str | None = None, max_bytes: float | None = None, **options: Any
) -> PMLDataset:
    r"""Read a data set from a file.

    Parameters
    ----------
    path : str or path
        The file, or ``-`` for standard input; ``.gz`` and ``.bz2`` are decompressed on the way.
    format : {"arff", "csv", "json", "jsonl", "libsvm", "mat", "npz", "parquet", "tsv"}, optional
        By default found from what the file begins with and what it is called.
    max_bytes : int, optional
        How much memory compressed content, or a table that a file only claims, may take. By default 256 MiB, or 200
        times the size of the file where that is more: a file that claims more is refused before it fills the memory.
    **options
        Of the format:

        - arff: `labels`, `nominal`, `missing`, `ignore`
          (see `pmlkit.data.files.arff.read_arff`);
        - csv, tsv, parquet, json, jsonl: `labels`, `truth`, `sep`, `id`, `media`, `ignore`, `missing`; csv
          and tsv also `delimiter`, `encoding` (see `pmlkit.data.files.datasets.read_table`);
        - libsvm: `zero_based`, `n_features`, `n_labels`
          (see `pmlkit.data.files.libsvm.read_libsvm`);
        - mat: `data`, `candidates`, `truth`, `orientation`
          (see `pmlkit.data.files.mat.read_mat`).

    Returns
    -------
    dataset : PMLDataset
        Its name is that of the file. Files with one label block (ARFF, libsvm, a table without
        `truth`) give candidates whose truth is unknown; npz and MATLAB benchmark files, whose
        label block is the ground truth, give it as both.

    Raises
    ------
    DataError
        If the file cannot be used; the message says why.
    FileNotFoundError
        If there is no file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit.data import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "posts.csv")
    ...     _ = path.write_text("length,links,tags\n120,3,spam;ad\n80,0,\n45,1,ad\n")
    ...     data = read(path, labels="tags", sep=";")
    >>> data
    PMLDataset 'posts': 3 rows, 2 features (dense float64), 2 labels, 1.00 candidates per row, truth unknown
    >>> data.label_names
    ('ad', 'spam')
    """
    with open_file(path, format, max_bytes) as source:
        reader = FORMATS[source.format].load("reader")
        _check_options(reader, options, f"reading {source.format}", skip=1)
        dataset: PMLDataset = reader(source, **options)
    return dataset.replace(
        name=dataset.name or source.stem,
        provenance=dataset.provenance or f"read from {source.path.name} ({source.format})",
    )


def write(
    dataset: PMLDataset, path: str | os.PathLike[str], *, format: str | None = None, force: bool = False, **options: Any
) -> None:
    """Write a data set to a file, whole or not at all.

    Parameters
    ----------
    dataset : PMLDataset
        What to write. Only npz carries all of it; tables leave out images, ARFF and libsvm hold
        one label block. What is left out is logged.
    path : str or path
        The file. Its ending chooses the format; ``.gz`` and ``.bz2`` after it compress text formats.
    format : {"arff", "csv", "libsvm", "npz", "parquet", "tsv"}, optional
        Instead of the ending.
    force : bool, default=False
        Whether an existing file is replaced.
    **options
        For arff and libsvm: ``labels="candidates"`` (default) or ``labels="truth"``.

    Raises
    ------
    DataError
        If the file exists, without `force`, if the folder is absent or cannot be written to, or if the
        format does not fit.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit.data import PMLDataset, read, write
    >>> data = PMLDataset([[0.5], [2.0]], [[1, 1], [0, 1]], truth=[[1, 0], [0, 1]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(data, pathlib.Path(folder, "small.npz"))
    ...     read(pathlib.Path(folder, "small.npz")) == data
    True
    """
    path = Path(path)
    chosen = format if format is not None else format_by_name(path)
    writable = ", ".join(name for name, known in FORMATS.items() if known.writer)
    if chosen not in FORMATS:
        raise DataError(f"The ending of {path.name!r} names no format.", option="format", remedy=f" one of {writable}")
    if FORMATS[chosen].writer is None:
        raise ValueError(f"{chosen} files are only read: write one of {writable}.")
    if path.suffix.lower() in _COMPRESSIONS and not FORMATS[chosen].is_text:
        raise ValueError(f"{chosen} files are compressed inside: leave out the ending {path.suffix}.")
    writer = FORMATS[chosen].load("writer")
    _check_options(writer, options, f"writing {chosen}", skip=2)
    with replacing(check_target(path, force=force)) as stream, compressed(stream, path) as packed:
        writer(dataset, packed, **options)


def _check_options(function: Callable[..., Any], options: dict[str, Any], what: str, skip: int) -> None:
    allowed = list(inspect.signature(function).parameters)[skip:]
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        known = f"known are {', '.join(allowed)}" if allowed else "there are none"
        raise ValueError(f"{what} has no option {unknown[0]!r}; {known}.")


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
    found: LabelColumns | None = None,
) -> PMLDataset:
    """Return a table of numbers as a data set; the parameters are those of `read_table`.

    `found`: its labels, where they were read before.
    """
    check_missing(missing)
    names = file.columns
    own = own_layout(names) if labels is None else None
    if own is not None:
        labels, truth = own["labels"], truth if truth is not None else own["truth"]
        id, media = id or own["id"], media or own["media"]
    for column in (id, media):
        if column is not None:
            check_column(column, names)
    ignored = set(select(names, ignore, option="ignore"))
    if found is None or ignored & {names.index(name) for name in found.columns}:
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


def _aligned_truth(true: LabelColumns, truth: Names, found: LabelColumns, labels: Names | None) -> CSR:
    """Return the truth with its columns in the order of the labels: matched by name, else taken in their order."""
    Y, unknown, _ = true.aligned(found.names, truth, labels)
    if true.is_set:
        if unknown:
            row = int(np.flatnonzero(Y[:, [len(found.names)]].toarray())[0])
            raise DataError(
                f"column {true.columns[0]!r} names {unknown[0]!r} in row {row}, which is not among the labels.",
                column=true.columns[0],
                row=row,
            )
        return Y
    if len(true.names) != len(found.names):
        raise DataError(
            f"truth names {counted(len(true.names), 'column')}, but there are {counted(len(found.names), 'label')}."
        )
    return true.Y if unknown else Y


def data_home() -> Path:
    """Return the folder of the benchmark data sets; it need not exist.

    The environment variable ``PMLKIT_DATA`` names it. By default it is ``pmlkit`` in the user's data folder:
    ``$XDG_DATA_HOME`` or ``~/.local/share`` (Linux), ``~/Library/Application Support`` (macOS), ``%LOCALAPPDATA%``
    (Windows).

    Examples
    --------
    >>> from pmlkit.data import data_home
    >>> data_home().is_absolute()
    True
    """
    named = os.environ.get("PMLKIT_DATA")
    return Path(named).absolute() if named else _user_folder() / "pmlkit"


def _user_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    given = os.environ.get("XDG_DATA_HOME", "")
    # By the XDG rule, a relative path is to be ignored.
    return Path(given) if os.path.isabs(given) else Path.home() / ".local" / "share"


def own_columns(dataset: PMLDataset) -> tuple[list[str], list[Sequence[Any]], list[Features]]:
    """Return the names of all columns, the columns of words (ids, texts) and the matrices of numbers, in this order."""
    if lost := losses(dataset, carries=("truth", "feature names", "label names", "ids", "texts")):
        logger.warning("a table leaves out: %s", ", ".join(lost))
    names: list[str] = []
    words: list[Sequence[Any]] = []
    if dataset.ids is not None:
        names.append(ID_COLUMN)
        words.append(dataset.ids)
    if isinstance(dataset.media, tuple):
        names.append(MEDIA_COLUMN)
        words.append(dataset.media)
    names += [_feature_column(name) for name in dataset.feature_names]
    names += [LABEL_PREFIX + name for name in dataset.label_names]
    matrices = [dataset.X, dataset.Y]
    if dataset.truth is not None:
        names += [TRUTH_PREFIX + name for name in dataset.label_names]
        matrices.append(dataset.truth)
    return names, words, matrices


def _feature_column(name: str) -> str:
    is_special = name in (ID_COLUMN, MEDIA_COLUMN) or name.startswith((LABEL_PREFIX, TRUTH_PREFIX, FEATURE_PREFIX))
    return FEATURE_PREFIX + name if is_special else name


def fill_missing(table: Features, missing: Missing, names: Sequence[str], *, nominal: Collection[int] = ()) -> Features:
    """Replace NaN as asked: by zero, or by the mean of the column (for a nominal one its most frequent value)."""
    check_missing(missing)
    is_sparse = sparse.issparse(table)
    values: NDArray[Any] = table.data if is_sparse else table
    absent = np.isnan(values)
    if not absent.any():
        return table
    columns = table.indices[absent] if is_sparse else np.nonzero(absent)[1]
    n_absent = int(absent.sum())
    found = f"{counted(n_absent, 'value')} {'is' if n_absent == 1 else 'are'} missing"
    if missing == "error":
        row, column = position_of(table, int(np.flatnonzero(absent)[0]))
        raise DataError(
            f"{found}, the first in row {row}, column {names[column]!r}.",
            option="missing",
            value="'mean'",
            remedy=" (or 'zero') to fill them",
            column=names[column],
            row=row,
        )
    logger.warning("%s and filled with %s.", found, "zero" if missing == "zero" else "the mean of the column")
    values = values.copy()
    values[absent] = 0.0 if missing == "zero" else _typical(table, columns, set(nominal))
    return sparse.csr_array((values, table.indices, table.indptr), shape=table.shape) if is_sparse else values


def _typical(table: Features, columns: NDArray[Any], nominal: set[int]) -> NDArray[np.float64]:
    """Return, for each of `columns`, the mean (or the mode) of what is known; 0 where nothing is."""
    distinct, where = np.unique(columns, return_inverse=True)
    fillings = np.zeros(len(distinct))
    for k, j in enumerate(distinct.tolist()):
        column = table[:, [j]].toarray().ravel() if sparse.issparse(table) else table[:, j]
        known = column[~np.isnan(column)]
        if len(known) and j in nominal:
            found, counts = np.unique(known, return_counts=True)
            fillings[k] = found[counts.argmax()]
        elif len(known):
            fillings[k] = known.mean()
    return fillings[where]


def check_labels(table: Features, names: Sequence[str]) -> Features:
    """Return the label columns of a table; refuse, with row and label, a value other than 0 or 1."""
    values: NDArray[Any] = table.data if sparse.issparse(table) else table
    strange = np.flatnonzero((values != 0) & (values != 1))
    if not len(strange):
        return table
    row, label = position_of(table, int(strange[0]))
    value = values.flat[strange[0]]
    found = "is missing" if np.isnan(value) else f"has the value {value:g}"
    raise DataError(
        f"label {names[label]!r} {found} in row {row}, but a label must be 0 or 1.", column=names[label], row=row
    )


def number_texts(values: NDArray[Any]) -> list[str]:
    """Return the shortest texts that read back as exactly these numbers."""
    return [repr(value).removesuffix(".0") for value in values.astype(np.float64).tolist()]


def pack(X: Any) -> Features:
    """Return a table as CSR where fewer than 3 cells in 10 are filled, else dense, whatever it came as."""
    filled = X.count_nonzero() if sparse.issparse(X) else np.count_nonzero(X)
    if filled < 0.3 * X.shape[0] * X.shape[1]:
        return sparse.csr_array(X)
    return X.toarray() if sparse.issparse(X) else X


def row_blocks(*tables: Features, cells: int = 2**20) -> Iterator[tuple[Features, ...]]:
    """Yield the same rows of each table, so few that they have about `cells` cells as text or dense."""
    n_rows = tables[0].shape[0]
    step = max(1, cells // (1 + sum(table.shape[1] for table in tables)))
    for start in range(0, n_rows, step):
        yield tuple(table[start : start + step] for table in tables)


def written_labels(dataset: PMLDataset, labels: str) -> CSR:
    """Return the label block that a format with room for one writes."""
    if labels not in ("candidates", "truth"):
        raise ValueError(f"labels must be 'candidates' or 'truth', got {labels!r}.")
    if labels == "candidates":
        return dataset.Y
    if dataset.truth is None:
        raise ValueError("labels='truth' was asked for, but the truth of this data set is unknown.")
    return dataset.truth


def losses(dataset: PMLDataset, *, carries: Collection[str] = ()) -> list[str]:
    """Name the parts of the data set that a format which carries only `carries` leaves out."""
    parts = {
        "truth": dataset.truth is not None,
        "feature names": dataset.has_feature_names,
        "label names": dataset.has_label_names,
        "ids": dataset.ids is not None,
        "texts": isinstance(dataset.media, tuple),
        "images": isinstance(dataset.media, np.ndarray),
    }
    return [part for part, present in parts.items() if present and part not in carries]
