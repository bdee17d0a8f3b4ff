"""The options by which files are read, the same for every command, and the files opened by them."""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmlkit._words import did_you_mean
from pmlkit.cli.errors import Misuse
from pmlkit.cli.params import key_values, literal
from pmlkit.cli.progress import Watch
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit.data import PMLDataset, Table

__all__ = ["FORMAT_NAMES", "Columns", "InputFile", "Reading", "load", "open_table"]

_reading_option = partial(typer.Option, rich_help_panel="Reading the file")
_feature_option = partial(typer.Option, rich_help_panel="Features of a table")
FORMAT_NAMES = ("arff", "csv", "json", "jsonl", "libsvm", "mat", "npz", "parquet", "tsv")
# How the text of a reading option becomes a value: columns may be a list, literals are numbers or yes/no.
COLUMN_OPTIONS = frozenset({"labels", "truth", "ignore"})
LITERAL_OPTIONS = frozenset({"max_bytes", "zero_based", "n_features", "n_labels"})
TEXT_OPTIONS = frozenset({"id", "media", "missing", "delimiter", "encoding", "nominal", "sep"}) | frozenset(
    {"data", "candidates", "orientation"}
)
_TABLE_OPTIONS = frozenset({"delimiter", "encoding", "id", "ignore", "labels", "max_bytes", "missing", "sep", "truth"})

InputFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="The data set or table; - is standard input.", show_default=False)
]


def _complete_format(incomplete: str) -> list[str]:
    return [name for name in FORMAT_NAMES if name.startswith(incomplete)]


@dataclass(frozen=True)
class Reading:
    """How a data set is read from its file."""

    format: Annotated[
        str | None,
        _reading_option(
            metavar="NAME",
            help=f"{', '.join(FORMAT_NAMES)}; by default detected. .gz and .bz2 are decompressed.",
            autocompletion=_complete_format,
        ),
    ] = None
    labels: Annotated[
        list[str] | None,
        _reading_option(
            metavar="NAMES",
            help="The label columns: comma-separated names, a pattern ('tag_*'), @names.txt (one per line), or the one "
            "column of label sets; for ARFF also the MULAN .xml, or a number (negative: the last ones).",
        ),
    ] = None
    sep: Annotated[
        str | None,
        _reading_option(metavar="TEXT", help="Separator of the labels in a cell, such as ';'; by default detected."),
    ] = None
    id: Annotated[
        str | None,
        _reading_option(
            metavar="COLUMN", help="The column that identifies the rows; by default one that is called id or similar."
        ),
    ] = None
    option: Annotated[
        list[str] | None,
        _reading_option(
            metavar="KEY=VALUE",
            help="Further options, repeatable. Tables: truth, ignore (columns), missing (mean, zero, error), "
            "delimiter, encoding (csv, tsv), media (data sets); arff: nominal (ordinal, onehot), missing, ignore; "
            "libsvm: zero_based, n_features, n_labels; mat: data, candidates, truth, orientation; all: max_bytes (how "
            "much memory a compressed file may take; by default 256 MiB or 200 times its size).",
        ),
    ] = None

    @property
    def files(self) -> list[Path]:
        """The files that are read beside the data: lists of names, and the labels' .xml."""
        values = [text.partition("=")[2] for text in self.option or ()]
        names = [word.removeprefix("@") for word in (*(self.labels or ()), *values)]
        # Unlike a path's own method, this one takes a word that is too long for a name as well.
        return [Path(name) for name in names if os.path.isfile(name)]

    def options(self, path: Path) -> dict[str, Any]:
        """Return the options of `pmlkit.data.read` and `pmlkit.open_table`."""
        given = key_values(self.option or (), "--option")
        options: dict[str, Any] = {}
        for key, text in given.items():
            if key in COLUMN_OPTIONS:
                options[key] = _names([text])
            else:
                options[key] = literal(text) if key in LITERAL_OPTIONS else text
        if self.labels:
            is_arff = self.format == "arff" or (self.format is None and ".arff" in path.suffixes)
            is_count = is_arff and len(self.labels) == 1 and re.fullmatch(r"-?[0-9]{1,18}", self.labels[0])
            options["labels"] = int(self.labels[0]) if is_count else _names(self.labels)
        if self.id is not None and options.setdefault("id", self.id) != self.id:
            raise Misuse("--id and --option id= name different columns: give one.")
        if self.sep is not None:
            if not self.sep:
                raise Misuse("--sep must be a sign that stands between labels, got nothing.")
            options["sep"] = self.sep
        return options


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are features, and how they become numbers."""

    text: Annotated[
        list[str] | None,
        _feature_option(metavar="NAMES", help="Columns of text; they become TF-IDF."),
    ] = None
    categories: Annotated[
        list[str] | None,
        _feature_option(metavar="NAMES", help="Columns of categories; one 0/1 column each."),
    ] = None
    numbers: Annotated[
        list[str] | None,
        _feature_option(metavar="NAMES", help="Columns of numbers; they are scaled."),
    ] = None
    images: Annotated[
        str | None,
        _feature_option(
            metavar="COLUMN=DIR",
            help="The column of image file names, and the folder where they are; pixels become features.",
        ),
    ] = None
    embeddings: Annotated[
        Path | None,
        _feature_option(
            metavar="PATH",
            help="Your own features: .npy, .npz or Parquet, one row per row of the table, in the same order.",
        ),
    ] = None
    vectorizer: Annotated[
        list[str] | None,
        _feature_option(
            metavar="KEY=VALUE",
            help="Change how columns become numbers: max_words, min_rows, ngrams, analyzer (word, char_wb), "
            "max_categories; repeatable.",
        ),
    ] = None

    @property
    def options(self) -> dict[str, Any]:
        """Return the options of `pmlkit.open_table` that were used."""
        if self.images is not None and not all(self.images.partition("=")):
            raise Misuse(f"--images takes COLUMN=DIR, such as --images file=photos, got {self.images!r}.")
        names = {"text": self.text, "categories": self.categories, "numbers": self.numbers}
        options: dict[str, Any] = {key: _names(words) for key, words in names.items() if words}
        options |= {"images": self.images} if self.images is not None else {}
        options |= {"embeddings": self.embeddings} if self.embeddings is not None else {}
        settings = key_values(self.vectorizer or (), "--vectorizer")
        return options | ({"vectorizer": {key: literal(text) for key, text in settings.items()}} if settings else {})

    @property
    def files(self) -> list[Path]:
        """The files that are read beside the table."""
        return [] if self.embeddings is None else [self.embeddings]


def _names(words: Iterable[str]) -> str | list[str]:
    """Return the one name, or those that stand in words with commas between; the library reads ``@file``."""
    parts = [part.strip() for word in words for part in ([word] if word.startswith("@") else word.split(","))]
    names = [name for name in parts if name]
    if not names:
        raise Misuse("--labels and the like need at least one column name.")
    return names[0] if len(names) == 1 else names


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Show how far it is; a wrong value of an option is misuse, a file that cannot be used is not."""
    try:
        with Watch(f"reading {path.name}"):
            yield
    except DataError:
        raise
    except ValueError as error:
        raise Misuse(str(error)) from error


def open_table(
    path: Path, reading: Reading, columns: Columns, *, like: Any = None, merge_labels: bool = False
) -> "Table":
    """Open a table; features become numbers only when they are asked for."""
    import pmlkit

    options = reading.options(path)
    if like is not None:
        options.pop("labels", None)
        if columns.options.keys() - {"images", "embeddings"}:
            raise Misuse("The model knows its columns: leave --text, --categories, --numbers and --vectorizer out.")
    for key in set(options) - _TABLE_OPTIONS:
        known = sorted(_TABLE_OPTIONS - {"labels", "sep"})
        raise Misuse(f"For a table --option has no {key!r}.{did_you_mean(key, known)} It has {', '.join(known)}.")
    with _reading(path):
        table = pmlkit.open_table(
            path, format=reading.format, like=like, merge_labels=merge_labels, **options, **columns.options
        )
        if like is None:
            table.Y  # noqa: B018  most mistakes are about labels: they come first
    return table


def load(
    path: Path,
    reading: Reading,
    columns: Columns | None = None,
    *,
    merge_labels: bool = False,
    keep_table: bool = False,
) -> "Table | PMLDataset":
    """Read a file as a table if it has texts or categories, or if features are named; else as a data set of numbers.

    `reading`, `columns`: the options. `merge_labels`: see `pmlkit.open_table`. `keep_table`: open tables of numbers as
    tables, too, so that they can be written again.
    """
    from pmlkit.data import read
    from pmlkit.data.files.registry import TABLE_FORMATS, find_format

    columns = Columns() if columns is None else columns
    with _reading(path):
        found = reading.format or find_format(path)
    if columns.options and found not in TABLE_FORMATS:
        raise Misuse(
            f"--text and the like are for tables: if {path.name!r} is one, say by --format which of "
            f"{', '.join(TABLE_FORMATS)}."
        )
    options = reading.options(path)
    # ARFF files are mostly data sets, often sparse ones; some options only data sets have.
    is_numbers = found == "arff" or not options.keys() <= _TABLE_OPTIONS
    if found not in TABLE_FORMATS or (is_numbers and not columns.options and not keep_table):
        if merge_labels:
            raise Misuse("--merge-labels is for tables, whose labels are words.")
        with _reading(path):
            return read(path, format=reading.format, **options)
    table = open_table(path, reading, columns, merge_labels=merge_labels)
    with _reading(path):
        return table.to_dataset() if table.has_only_numbers and not columns.options and not keep_table else table
