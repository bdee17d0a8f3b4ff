"""`pmlkit.open_table`: find out what a file is, and which of its columns are what."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pmlkit.data.files.arff import ArffFile, label_positions
from pmlkit.data.files.base import Missing, Names, TableFile, as_names, check_column, check_missing, select
from pmlkit.data.files.datasets import own_layout
from pmlkit.data.files.features import VectorizerSettings
from pmlkit.data.files.registry import TABLE_FORMATS, matching_files, open_file, parse_table
from pmlkit.data.files.side_features import SideFeatures
from pmlkit.data.files.table import Table
from pmlkit.data.files.table_files import TableFiles
from pmlkit.exceptions import DataError


def open_table(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    labels: Names | int | None = None,
    sep: str | None = None,
    text: Names | None = None,
    categories: Names | None = None,
    numbers: Names | None = None,
    images: tuple[str, str | os.PathLike[str]] | str | None = None,
    embeddings: Any = None,
    id: str | None = None,
    truth: Names | None = None,
    ignore: Names | None = None,
    missing: Missing = "mean",
    merge_labels: bool = False,
    vectorizer: Mapping[str, Any] | None = None,
    like: Any = None,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    max_bytes: float | None = None,
) -> Table:
    r"""Open a table of texts, categories, numbers and labels.

    Parameters
    ----------
    path : path
        A CSV, TSV, JSON (lines or an array of objects), Parquet or ARFF file, or ``-`` for standard input; ``.gz``
        and ``.bz2`` are unpacked. A pattern such as ``"posts-*.parquet"``, or a list of paths, opens many files as one.
    labels : str or list of str
        The one column of label sets, or the columns of 0/1: names or patterns such as ``"tag_*"``; ``"@names.txt"``
        stands for the lines of a file. For ARFF also the MULAN ``.xml`` or a number, as in `pmlkit.data.read`.
    sep : str, optional
        Separator of the labels in a cell; by default detected.
    text, categories, numbers : str or list of str, optional
        The feature columns. By default those that look like texts, categories or numbers are taken.
    images : (column, folder), optional
        The column of image file names and where they are; pixels become features. Also as ``"column=folder"``.
    embeddings : array or path, optional
        Your own features: ``.npy``, ``.npz`` or Parquet with one row per row of the table, in the same order.
    id : str, optional
        The column that names the rows. By default one that is called ``id`` or the like and has no value twice.
    truth : str or list of str, optional
        The true labels, in the same form as `labels`, where they are known.
    ignore : str or list of str, optional
        Columns that are no features.
    missing : {"mean", "zero", "error"}, default="mean"
        What becomes of missing numbers.
    merge_labels : bool, default=False
        Take label names that differ only in case, blanks and hyphens for one, the most frequent spelling.
    vectorizer : dict, optional
        How columns become numbers: ``max_words``, ``min_rows``, ``ngrams``, ``analyzer``, ``max_categories``.
    like : fitted model, optional
        Read new rows as the table that the model was fitted to; labels are not needed then.
    format, delimiter, encoding : str, optional
        Where the file does not tell.
    max_bytes : int, optional
        How much memory compressed content or a picture may take, as in `pmlkit.data.read`. Of many files, each may
        take this much; by default they share the 256 MiB.

    Returns
    -------
    table : Table
        Features and labels are read when they are asked for. Of many files a `TableFiles`, for `clean` and methods that
        learn from blocks.

    Raises
    ------
    DataError
        If the file cannot be used; the message says why.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pmlkit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "posts.csv")
    ...     _ = path.write_text("post_id,body,tags\np1,a red sky,sky;red\np2,a blue sky,sky\np3,a red car,red\n")
    ...     table = pmlkit.open_table(path, labels="tags", text="body")
    ...     table.write(path.with_name("cleaned.csv"), [[0, 1], [0, 1], [1, 0]])
    ...     print(path.with_name("cleaned.csv").read_text().splitlines()[1])
    p1,a red sky,sky
    >>> table.label_names, table.Y.toarray().tolist()
    (('red', 'sky'), [[1, 1], [0, 1], [1, 0]])
    >>> table.X.shape, table.row_names
    ((3, 5), ('p1', 'p2', 'p3'))
    """
    if (paths := matching_files(path)) is not None:
        given = {
            "labels": labels, "sep": sep, "text": text, "categories": categories, "numbers": numbers, "images": images,
            "embeddings": embeddings, "id": id, "truth": truth, "ignore": ignore, "missing": missing,
            "merge_labels": merge_labels, "vectorizer": vectorizer, "format": format, "delimiter": delimiter,
            "encoding": encoding, "max_bytes": max_bytes,
        }  # fmt: skip
        return cast("Table", TableFiles(paths, like, given))
    check_missing(missing)
    beside = SideFeatures(images, embeddings, max_bytes)
    named = {"text": as_names(text), "categories": as_names(categories), "numbers": as_names(numbers)}
    settings = VectorizerSettings.of(vectorizer)
    if like is not None:
        _check_like(like, beside.kind, named, vectorizer)
    path = Path(cast("str", path))
    with open_file(path, format, max_bytes) as source:
        if source.format not in TABLE_FORMATS:
            raise DataError(
                f"{source.format} files are no tables: read them with pmlkit.data.read.",
                option="format",
                remedy=f" one of {', '.join(TABLE_FORMATS)} if it is one",
            )
        file = parse_table(source, delimiter=delimiter, encoding=encoding)
        if own := own_layout(file.columns) if labels is None and like is None else None:
            truth, id = truth if truth is not None else own["truth"], id or own["id"]
            ignore = [*as_names(ignore), *([own["media"]] if own["media"] else [])]
        for name in (id, beside.column):
            if name is not None:
                check_column(name, file.columns)
        wanted = own["labels"] if own else _label_columns(file, labels, source.path, source.stem, required=like is None)
        ignored = [file.columns[j] for j in select(file.columns, as_names(ignore), option="ignore")]
    return Table(
        file, path, source.path.name, source.format, like, own is not None, sep=sep, labels=wanted, truth=truth,
        ignored=ignored, id=id, named=named, beside=beside, missing=missing, merge=merge_labels, settings=settings,
    )  # fmt: skip


def _label_columns(file: TableFile, labels: Any, path: Path, stem: str, *, required: bool) -> list[str]:
    """Return the names or patterns of the label columns; of an ARFF file, also what its XML or relation name says."""
    is_xml = isinstance(labels, Path) or (isinstance(labels, str) and labels.lower().endswith(".xml"))
    if isinstance(file, ArffFile) and (isinstance(labels, int) or is_xml or (labels is None and required)):
        return [file.columns[j] for j in label_positions(file.header, labels, path, stem)]
    return as_names(labels)


def _check_like(like: Any, side: str, named: Mapping[str, Sequence[str]], vectorizer: Any) -> None:
    reader = getattr(like, "table_reader_", None)
    if reader is None and getattr(like, "feature_names_in_", None) is None:
        raise ValueError(
            f"{type(like).__name__} was not fitted to a table, nor to features with names, so it cannot tell which "
            "columns it needs."
        )
    if any(named.values()) or vectorizer:
        raise ValueError("The model knows its columns: leave text, categories, numbers and vectorizer out.")
    fitted = "none" if reader is None else reader.side
    if side != fitted:
        wanted = {"images": "images", "embeddings": "embeddings"}.get(fitted, "neither images nor embeddings")
        raise ValueError(f"The model was fitted with {wanted}: give the same here.")
