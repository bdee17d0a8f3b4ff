"""`pmlkit.open_table` and the table it returns: features, labels and names of a file, whose label cells can change."""

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from pmlkit._arrays import as_indicator
from pmlkit._files import check_target, replacing
from pmlkit._typing import CSR, Features, FloatArray
from pmlkit._words import counted, did_you_mean, excerpt
from pmlkit.data.dataset import PMLDataset, lacking_features
from pmlkit.data.files.arff import ArffFile, label_positions
from pmlkit.data.files.base import (
    FEATURE_PREFIX,
    FORMATS,
    LABEL_PREFIX,
    TABLE_FORMATS,
    TRUTH_PREFIX,
    WORKBOOKS,
    Missing,
    Names,
    TableFile,
    as_names,
    check_column,
    check_missing,
    compressed,
    format_by_name,
    matching_files,
    open_file,
    parse_numbers,
    parse_table,
    read_ids,
    select,
)
from pmlkit.data.files.datasets import own_layout, to_dataset
from pmlkit.data.files.features import FeatureColumns, TableReader, VectorizerSettings, choose_columns, find_identifier
from pmlkit.data.files.labels import LabelColumns, check_learnable, is_text, note_names, read_labels
from pmlkit.data.files.side_features import SideFeatures
from pmlkit.data.files.table_files import TableFiles
from pmlkit.exceptions import DataError

logger = logging.getLogger(__name__)

_N_PEEKED = 1000


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
) -> "Table":
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
        The column that names the rows. By default the one that was given for the table of `like`, or one that is called
        ``id`` or the like and has no value twice.
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
    beside = None if images is None and embeddings is None else SideFeatures(images, embeddings, max_bytes)
    named = {"text": as_names(text), "categories": as_names(categories), "numbers": as_names(numbers)}
    settings = VectorizerSettings.of(vectorizer)
    if like is not None:
        _check_like(like, beside, named, vectorizer)
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
        for name in (id, None if beside is None else beside.column):
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


def _check_like(like: Any, beside: SideFeatures | None, named: Mapping[str, Sequence[str]], vectorizer: Any) -> None:
    reader = getattr(like, "table_reader_", None)
    if reader is None and getattr(like, "feature_names_in_", None) is None:
        raise ValueError(
            f"{type(like).__name__} was not fitted to a table, nor to features with names, so it cannot tell which "
            "columns it needs."
        )
    if any(named.values()) or vectorizer:
        raise ValueError("The model knows its columns: leave text, categories, numbers and vectorizer out.")
    fitted = "none" if reader is None else reader.side
    if fitted != ("none" if beside is None else beside.kind):
        wanted = {"images": "images", "embeddings": "embeddings"}.get(fitted, "neither images nor embeddings")
        raise ValueError(f"The model was fitted with {wanted}: give the same here.")


class Table:
    """Rows of a file with features, labels and names; made by `open_table`, whose example shows them.

    Attributes
    ----------
    path : path
        The file.
    format : str
    columns : list of str
        All columns of the file.
    n_rows : int
    is_own : bool
        Whether pmlkit wrote the table, as a data set.
    """

    def __init__(
        self, file: TableFile, path: Path, name: str, format: str, like: Any, is_own: bool, **options: Any
    ) -> None:
        self.path, self.name, self.format, self.is_own = path, name, format, is_own
        self.columns, self.n_rows = file.columns, file.n_rows
        self._file, self._like, self._options = file, like, options
        self._wanted: list[str] = options["labels"]
        self._wanted_truth: Names | None = options["truth"]
        self._named: dict[str, list[str]] = options["named"]
        self._beside: SideFeatures | None = options["beside"]

    def __repr__(self) -> str:
        labels = ", ".join(map(repr, self._wanted[:3])) + (", ..." if len(self._wanted) > 3 else "")
        size = f"{counted(self.n_rows, 'row')}, {counted(len(self.columns), 'column')}"
        return f"Table {self.name!r}: {size}, labels in {labels or 'no column yet'}"

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Add the name of the file to errors."""
        try:
            yield
        except DataError as error:
            raise (error if error.path else error.replace(path=self.name)) from error

    def cells(self, column: str) -> Sequence[Any]:
        """Return a column as it stands in the file."""
        with self._named_errors():
            return self._file.cells([check_column(column, self.columns)])[column]

    @cached_property
    def _labels(self) -> LabelColumns:
        with self._named_errors():
            if not self._like:
                self._file.cells(name for name in self.columns if name not in self._options["ignored"])  # in one go
            labels = read_labels(self._file, self._wanted, sep=self._options["sep"], merge=self._options["merge"])
            note_names(labels)
            return labels

    def check_labels(self) -> None:
        """Refuse labels from which nothing can be learned: a single one, or none that stands in two rows."""
        with self._named_errors():
            check_learnable(self._labels)

    @property
    def Y(self) -> CSR:
        """The labels of the rows, an indicator of shape (n_rows, n_labels)."""
        return self._labels.Y

    @property
    def label_names(self) -> tuple[str, ...]:
        """One name per label."""
        names = self._labels.names
        return tuple(name.removeprefix(LABEL_PREFIX) for name in names) if self.is_own else names

    @property
    def has_label_sets(self) -> bool:
        """Whether one column holds the labels of a row, and not a column of 0/1 per label."""
        return self._labels.is_set

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns that hold the labels."""
        return self._labels.columns

    @property
    def sep(self) -> str | None:
        """What stands between the labels of a set, None where there are none or they are lists."""
        return self._labels.sep

    @cached_property
    def _no_features(self) -> set[str]:
        """The columns that are labels, truth, identifiers, image names or ignored."""
        other = set(self._options["ignored"])
        for wanted in (self._wanted, as_names(self._wanted_truth)):
            other |= {self.columns[j] for j in select(self.columns, wanted, option="labels")} if wanted else set()
        other |= {name for name in (self._options["id"], self._beside and self._beside.column) if name}
        return other | ({name for name in self.columns if name.startswith(TRUTH_PREFIX)} if self.is_own else set())

    @cached_property
    def feature_columns(self) -> FeatureColumns:
        """Which columns are features, of what kind, and why others are not."""
        with self._named_errors():
            if self._like is not None:
                reader = getattr(self._like, "table_reader_", None)
                if reader is None:
                    return FeatureColumns(numbers=tuple(map(str, self._like.feature_names_in_)))
                return FeatureColumns(reader.text, reader.categories, reader.numbers)
            if self._beside is not None and not any(self._named.values()):
                return FeatureColumns()
            other = self._no_features | ({self.id_column} if self.id_column else set())
            return choose_columns(self._file, **self._named, other=other)

    @cached_property
    def has_only_numbers(self) -> bool:
        """Whether no feature column is named, and the first thousand rows of all that could be one are numbers."""
        if any(self._named.values()) or self._beside is not None or self._like is not None:
            return False
        names = [name for name in self.columns if name not in self._no_features and name != self.id_column]
        try:
            for name, values in self._file.cells(names).items():
                parse_numbers(values[:_N_PEEKED], name, decimal_comma=self._file.decimal_comma)
        except DataError:
            return False
        return True

    @cached_property
    def id_column(self) -> str | None:
        """The column that names the rows: given here, given when the model was fitted, or detected."""
        if (given := self._options["id"]) is not None:
            return str(given)
        fitted = getattr(getattr(self._like, "table_reader_", None), "id", None)
        if fitted in self.columns and fitted not in self._no_features:
            return str(fitted)
        with self._named_errors():
            named = {name for names in self._named.values() for name in names}
            taken = named | self._no_features | (set(self.feature_columns.names) if self._like is not None else set())
            return find_identifier(self._file, [name for name in self.columns if name not in taken])

    @cached_property
    def row_names(self) -> tuple[Any, ...] | None:
        """One name per row, or None where no column names them."""
        column = self.id_column
        if column is None:
            return None
        with self._named_errors():
            ids = read_ids(self._file, column)
            is_plain = set(map(type, ids)) <= {int, str} and is_text("".join(map(str, ids)))
            for row, name in enumerate(ids if not is_plain else ()):
                if isinstance(name, list | dict) or not is_text(str(name)):
                    raise DataError(
                        f"the identifier {excerpt(str(name))} in row {row} is neither text nor number: correct it "
                        "first.",
                        column=column,
                        row=row,
                    )
            if n_repeated := len(ids) - len(set(ids)):
                logger.warning("the identifier column %r repeats %s.", column, counted(n_repeated, "value"))
            return tuple(ids)

    @property
    def has_images(self) -> bool:
        """Whether a column names image files."""
        return self._beside is not None and self._beside.kind == "images"

    def picture(self, row: int, side: int) -> tuple[bytes, str]:
        """Return the image of a row, at most `side` pixels wide and high, as a PNG or JPEG file, and its media type."""
        with self._named_errors():
            if self._beside is None:
                raise DataError("the table has no images.")
            return self._beside.picture(self._file, row, side)

    @cached_property
    def _features(self) -> tuple[Features, TableReader | None]:
        with self._named_errors():
            if self._like is not None:
                reader: TableReader | None = getattr(self._like, "table_reader_", None)
                if reader is None:
                    return self._named_numbers([str(name) for name in self._like.feature_names_in_]), None
                return reader.transform(self._file, self._side_matrix()), reader
            reader = self.unfitted_reader()
            return reader.fit(self._file, self._side_matrix(), self._options["settings"]), reader

    def unfitted_reader(self) -> TableReader:
        """Return what will make numbers of the columns that are features."""
        chosen, missing = self.feature_columns, self._options["missing"]
        side = "none" if self._beside is None else self._beside.kind
        return TableReader(
            chosen.text, chosen.categories, chosen.numbers, side,
            missing=missing, labels=self._wanted, id=self._options["id"],
        )  # fmt: skip

    def feature_frame(self, reader: TableReader) -> Any:
        """Return the feature columns as a reader sees them."""
        with self._named_errors():
            return reader.frame(self._file)

    def numbers(self, reader: TableReader) -> Features:
        """Return the numbers that a fitted reader makes of the columns."""
        with self._named_errors():
            return reader.transform(self._file, self._side_matrix())

    @property
    def n_side_features(self) -> int:
        """How many features are not columns of the table."""
        side = self._side_matrix()
        return 0 if side is None else side.shape[1]

    def _side_matrix(self) -> FloatArray | None:
        """Return the features that are not columns of the table; they are not kept, as they may be many."""
        return None if self._beside is None else self._beside.matrix(self._file)

    def _named_numbers(self, names: Sequence[str]) -> Any:
        """Return columns of plain numbers under the names by which a model knows them."""
        import pandas as pd

        # A table that pmlkit wrote calls a feature `id` `feature:id`.
        here = [FEATURE_PREFIX + name if FEATURE_PREFIX + name in self.columns else name for name in names]
        if absent := [name for name in here if name not in self.columns]:
            raise lacking_features(absent)
        X = self._file.numbers(here)
        for k in np.flatnonzero(~np.isfinite(X).all(axis=0)).tolist():
            bad = np.flatnonzero(~np.isfinite(X[:, k]))
            raise DataError(
                f"{counted(len(bad), 'value')} of column {here[k]!r} missing or not finite, the first in row {bad[0]}. "
                "Fill them first: the model does not know how.",
                column=here[k],
                row=int(bad[0]),
            )
        return pd.DataFrame(X, columns=list(names), copy=False)

    @property
    def X(self) -> Features:
        """The features: TF-IDF of texts, one column per category, scaled numbers, then images or embeddings."""
        return self._features[0]

    @property
    def table_reader(self) -> TableReader | None:
        """What made the numbers of the columns; a model that is fitted to the table keeps it."""
        return self._features[1]

    @property
    def number_features(self) -> dict[str, int]:
        """The columns of numbers, and which columns of X they became."""
        reader = self.table_reader
        if reader is None or reader.vectorizer is None or not reader.numbers:
            return {}
        first = reader.vectorizer.output_indices_["numbers"].start
        return {name: first + k for k, name in enumerate(reader.numbers)}

    @property
    def shown_columns(self) -> list[str]:
        """The columns that a reviewer may see: all but those of the truth and those that are ignored."""
        hidden = {*self._options["ignored"]}
        if self._wanted_truth is not None:
            hidden |= {self.columns[j] for j in select(self.columns, as_names(self._wanted_truth), option="truth")}
        return [name for name in self.columns if name not in hidden]

    @property
    def features(self) -> list[str]:
        """How each feature column became numbers, one line per column."""
        reader = self.table_reader
        return [f"{counted(self.X.shape[1], 'feature')} of the model"] if reader is None else reader.describe()

    @cached_property
    def media(self) -> Any:
        """What a person sees of each row: images, texts, or None."""
        if self._beside is not None and self._beside.kind == "images":
            return self._beside.pictures(self._file)
        texts = [["" if text is None else str(text) for text in self.cells(name)] for name in self.feature_columns.text]
        return tuple(map(" · ".join, zip(*texts, strict=True))) if texts else None

    def truth_for(self, names: Sequence[str], labels: Names | None = None) -> tuple[CSR, tuple[str, ...]]:
        """Return the true labels in a given order of labels.

        Parameters
        ----------
        names : sequence of str
            The labels, such as those of a model.
        labels : str or list of str, optional
            The pattern by which the columns of `names` were called, where they were columns of 0/1.

        Returns
        -------
        truth : CSR array of shape (n_rows, len(names) + n_unknown)
            Labels that are not among `names` come last.
        unknown : tuple of str
            Their names.
        """
        with self._named_errors():
            if self._wanted_truth is None:
                raise DataError(
                    f"which column holds the true labels?{did_you_mean('truth', self.columns)}",
                    option="truth",
                    remedy=" its name, or a pattern for columns of 0/1",
                )
            wanted = as_names(self._wanted_truth)
            found = read_labels(self._file, wanted, sep=self._options["sep"])
        truth, unknown, absent = found.aligned(names, wanted, labels)
        if not found.is_set and absent:
            has = counted(len(absent), "label has", "labels have")
            logger.warning("%s no column of truth and count as absent: %s.", has, ", ".join(map(repr, absent[:6])))
        return truth, unknown

    @property
    def truth(self) -> CSR | None:
        """The true labels in the order of `label_names`, or None where they are unknown."""
        if self._wanted_truth is None:
            return None
        found, unknown = self.truth_for(self.label_names, self._wanted)
        if unknown:
            raise DataError(f"the truth names {unknown[0]!r}, which is not among the labels.", path=self.name)
        return found

    def to_dataset(self) -> PMLDataset:
        """Return features, labels and names as a data set, which no longer knows the file.

        The columns of a table of numbers stay as they are, with their names, as `pmlkit.data.read` has them.
        """
        about = {"name": self.name.partition(".")[0], "provenance": f"read from {self.name} ({self.format})"}
        if self.has_only_numbers:
            labels = None if self.is_own else self._wanted
            with self._named_errors():
                data = to_dataset(
                    self._file, labels, self._wanted_truth, self._options["sep"], self.id_column, None,
                    self._options["ignored"], self._options["missing"], self._labels,
                )  # fmt: skip
            return data.replace(**about)
        return PMLDataset(
            self.X, self.Y, truth=self.truth, label_names=self.label_names, ids=self.row_names, media=self.media,
            **about,
        )  # fmt: skip

    def write(self, path: str | os.PathLike[str], Y: Any = None, *, force: bool = False) -> None:
        """Write the table with other labels: only the cells whose labels change are touched, every other byte stays.

        Parameters
        ----------
        path : path
            The new file, in the same format; ``.gz`` and ``.bz2`` pack it. Whole or not at all.
        Y : indicator of shape (n_rows, n_labels), optional
            The labels to write, such as ``result.cleaned()``; by default those of the table.
        force : bool, default=False
            Replace a file that is there already (but never the table's own).
        """
        target = Path(path)
        if target.exists() and self.path.exists() and target.samefile(self.path):
            raise DataError(f"{str(target)!r} is the file that was read: it is never overwritten.")
        self.check_same_format(target)
        wanted = self.Y if Y is None else as_indicator(Y, names=self.label_names)
        edits = self._labels.edits_to(wanted)
        with replacing(check_target(target, force=force)) as stream, compressed(stream, target) as packed:
            self._file.write(packed, edits)

    def check_same_format(self, target: Path) -> None:
        """Refuse an ending that promises another format."""
        other = format_by_name(target)
        if other not in (None, self.format) or target.suffix.lower() in WORKBOOKS:
            endings = " or ".join(FORMATS[self.format].suffixes)
            raise DataError(f"the table is written as it was read: {str(target)!r} must end in {endings}, too.")
