"""The options that commands share: declared once, grouped in dataclasses, and turned into values."""

import dataclasses
import functools
import inspect
import os
import re
import shlex
import typing
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from pmlkit import _words
from pmlkit.cli.output import Misuse, start_logging

flag = partial(typer.Option, metavar="")
"""An option without a value; typer would show its type."""


def _complete_method(incomplete: str) -> list[tuple[str, str]]:
    from pmlkit.methods import all_methods, summary

    lower = incomplete.lower()
    return [(name, summary(method)) for name, method in all_methods().items() if name.lower().startswith(lower)]


def check_choice(word: str | None, allowed: Collection[str], option: str) -> None:
    """Refuse a word that is none of those allowed; None was not given."""
    if word is not None:
        try:
            _words.check_choice(word, allowed, option)
        except ValueError as error:
            raise Misuse(str(error)) from None


def check_shares(**shares: float) -> None:
    """Refuse options that must be shares between 0 and 1."""
    for name, value in shares.items():
        if not 0 < value < 1:
            hint = percent_hint(name, value) if 1 < value < 100 else ""
            raise Misuse(f"--{name} must be between 0 and 1, got {value:g}.{hint}")


def percent_hint(option: str, percent: float) -> str:
    """Return how a percentage is typed as a share, as the start of the next sentence."""
    return f" For {percent:g} % write --{option} {percent / 100:g}."


def _check_settling(value: str) -> str:
    check_choice(value, ("latest", "majority"), "--settle")
    return value


ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model that `pmlkit fit` wrote.", show_default=False)
]
MethodName = Annotated[
    str, typer.Option("--method", "-m", metavar="NAME", help="See `pmlkit methods`.", autocompletion=_complete_method)
]
_METHOD_PARAMS = "A parameter of the method, repeatable; `pmlkit methods NAME` lists them."
MethodParams = Annotated[list[str] | None, typer.Option("--param", "-p", metavar="KEY=VALUE", help=_METHOD_PARAMS)]
_JOBS = "Processor cores to use at most, by linear algebra and by methods that have n_jobs."
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, metavar="N", help=_JOBS, show_default=False)]
_SETTLING = "Which of several answers about one label counts; a tie of the majority comes to unsure."
Settling = Annotated[str, typer.Option("--settle", metavar="latest|majority", help=_SETTLING, callback=_check_settling)]
MinRows = Annotated[int, typer.Option(min=1, help="Do not judge labels that are on fewer rows.")]
Force = Annotated[bool, flag("--force", help="Replace an output that exists.", rich_help_panel="Output")]

FORMAT_NAMES = ("arff", "csv", "json", "jsonl", "libsvm", "mat", "npz", "parquet", "tsv")
# How the text of a reading option becomes a value: columns may be a list, literals are numbers or yes/no.
COLUMN_OPTIONS = frozenset({"labels", "truth", "ignore"})
LITERAL_OPTIONS = frozenset({"max_bytes", "zero_based", "n_features", "n_labels"})
TABLE_OPTIONS = frozenset({"delimiter", "encoding", "id", "ignore", "labels", "max_bytes", "missing", "sep", "truth"})

_reading_option = partial(typer.Option, rich_help_panel="Reading the file")
_feature_option = partial(typer.Option, rich_help_panel="Features of a table")


@dataclass(frozen=True)
class Source:
    """A data set or table: its file, how it is read, and which columns are features."""

    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="The data set or table; - is standard input, a quoted pattern ('posts-*.csv') many files.",
            show_default=False,
        ),
    ]
    format: Annotated[
        str | None,
        _reading_option(
            metavar="NAME",
            help=f"{', '.join(FORMAT_NAMES)}; by default detected. .gz and .bz2 are decompressed.",
            autocompletion=lambda incomplete: [name for name in FORMAT_NAMES if name.startswith(incomplete)],
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
    merge_labels: Annotated[
        bool,
        _reading_option(
            "--merge-labels", metavar="", help="Treat label names that differ only in case, spaces or hyphens as one."
        ),
    ] = False
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
    text: Annotated[list[str] | None, _feature_option(metavar="NAMES", help="Columns of text; they become TF-IDF.")] = (
        None
    )
    categories: Annotated[
        list[str] | None, _feature_option(metavar="NAMES", help="Columns of categories; one 0/1 column each.")
    ] = None
    numbers: Annotated[
        list[str] | None, _feature_option(metavar="NAMES", help="Columns of numbers; they are scaled.")
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
    def files(self) -> list[Path]:
        """All files that are read: the data, lists of names, the labels' .xml and embeddings."""
        values = [text.partition("=")[2] for text in self.option or ()]
        names = [word.removeprefix("@") for word in (*(self.labels or ()), *values)]
        # Unlike a path's own method, this one takes a word that is too long for a name as well.
        beside = [Path(name) for name in names if os.path.isfile(name)]
        return [self.file, *beside, *([] if self.embeddings is None else [self.embeddings])]

    @property
    def reading(self) -> dict[str, Any]:
        """The options of `pmlkit.data.read` and `pmlkit.open_table`."""
        options: dict[str, Any] = {}
        for key, text in key_values(self.option or (), "--option").items():
            if key in COLUMN_OPTIONS:
                options[key] = _names([text])
            else:
                options[key] = literal(text) if key in LITERAL_OPTIONS else text
        if self.labels:
            is_arff = self.format == "arff" or (self.format is None and ".arff" in self.file.suffixes)
            is_count = is_arff and len(self.labels) == 1 and re.fullmatch(r"-?[0-9]{1,18}", self.labels[0])
            options["labels"] = int(self.labels[0]) if is_count else _names(self.labels)
        if self.id is not None and options.setdefault("id", self.id) != self.id:
            raise Misuse("--id and --option id= name different columns: give one.")
        if self.sep is not None:
            if not self.sep:
                raise Misuse("--sep must be a sign that stands between labels, got nothing.")
            options["sep"] = self.sep
        return options

    @property
    def features(self) -> dict[str, Any]:
        """The options of `pmlkit.open_table` that name features, as far as they were used."""
        if self.images is not None and not all(self.images.partition("=")):
            raise Misuse(f"--images takes COLUMN=DIR, such as --images file=photos, got {self.images!r}.")
        names = {"text": self.text, "categories": self.categories, "numbers": self.numbers}
        options: dict[str, Any] = {key: _names(words) for key, words in names.items() if words}
        options |= {"images": self.images} if self.images is not None else {}
        options |= {"embeddings": self.embeddings} if self.embeddings is not None else {}
        settings = key_values(self.vectorizer or (), "--vectorizer")
        return options | ({"vectorizer": {key: literal(text) for key, text in settings.items()}} if settings else {})

    def retyped(self) -> str:
        """Return the file and its options as they can be typed again after another command; "" for standard input.

        Examples
        --------
        >>> from pathlib import Path
        >>> from pmlkit.cli.params import Source
        >>> Source(Path("my posts.csv"), labels=["tags"], sep=";", merge_labels=True, text=["body"]).retyped()
        "'my posts.csv' --labels tags --sep ';' --merge-labels --text body"
        """
        if str(self.file) == "-":
            return ""
        words = [str(self.file)]
        for field in dataclasses.fields(self)[1:]:
            given, typed = getattr(self, field.name), f"--{field.name.replace('_', '-')}"
            if isinstance(given, bool):
                words += [typed] if given else []
                continue
            for value in given if isinstance(given, list) else [] if given is None else [given]:
                words += [typed, str(value)]
        return shlex.join(words)


def _names(words: Iterable[str]) -> str | list[str]:
    """Return the one name, or those that stand in words with commas between; the library reads ``@file``."""
    parts = [part.strip() for word in words for part in ([word] if word.startswith("@") else word.split(","))]
    names = [name for name in parts if name]
    if not names:
        raise Misuse("--labels and the like need at least one column name.")
    return names[0] if len(names) == 1 else names


_running_option = partial(typer.Option, rich_help_panel="Larger data", show_default=False)


@dataclass(frozen=True)
class Running:
    """Where work on rows in blocks runs."""

    workers: Annotated[
        int | None,
        _running_option(
            metavar="N", min=1, help="Work in N processes on blocks of rows (methods that learn from them)."
        ),
    ] = None
    memory: Annotated[
        str | None,
        _running_option(
            metavar="SIZE",
            help="Memory of each worker, such as 2GB; without --workers, about how much is used for blocks of rows.",
        ),
    ] = None
    dask: Annotated[
        str | None,
        _running_option(metavar="ADDRESS", help="Work on the Dask cluster of this scheduler, such as tcp://host:8786."),
    ] = None

    @property
    def in_blocks(self) -> bool:
        """Whether rows are worked on in blocks."""
        return (self.workers, self.memory, self.dask) != (None, None, None)


_output_flag = partial(flag, rich_help_panel="Output")


@dataclass(frozen=True)
class Common:
    """Options of every command."""

    json: Annotated[bool, _output_flag("--json", help="Print the facts as JSON, for programs.")] = False
    verbose: Annotated[
        bool, _output_flag("--verbose", "-v", help="Show what is being done.", callback=start_logging)
    ] = False
    debug: Annotated[bool, _output_flag("--debug", help="Show the traceback of an error (or set PMLKIT_DEBUG=1).")] = (
        False
    )


def key_values(words: Iterable[str], option: str) -> dict[str, str]:
    """Split words such as ``alpha=10`` at their first ``=``; `option`, to which they were given, is for the error."""
    values: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key.isidentifier():
            raise Misuse(f"{option} takes KEY=VALUE, such as {option} missing=mean or {option} alpha=10; got {word!r}.")
        if key in values:
            raise Misuse(f"{option} gives {key!r} more than once.")
        values[key] = value.strip()
    return values


def literal(text: str) -> bool | int | float | str | None:
    """Return what a typed value means: a number, true, false, none, or else the text itself."""
    words: dict[str, bool | None] = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def expand(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command as typer wants it: a parameter that is a dataclass becomes one option per field."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        kind = parameter.annotation
        if not dataclasses.is_dataclass(kind):
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[parameter.name] = kind
        hints = typing.get_type_hints(kind, include_extras=True)
        for field in dataclasses.fields(kind):
            default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
            parameters.append(
                inspect.Parameter(
                    field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[field.name]
                )
            )

    @functools.wraps(function)
    def command(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in dataclasses.fields(kind)})
        function(**values)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
