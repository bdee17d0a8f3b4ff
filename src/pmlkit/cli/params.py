"""The options of the command line: declared once, grouped in dataclasses, and turned into values."""

import dataclasses
import functools
import inspect
import os
import re
import shlex
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from pmlkit._words import did_you_mean
from pmlkit.cli.output import Misuse, start_logging


def _complete_method(incomplete: str) -> list[tuple[str, str]]:
    from pmlkit.methods import all_methods, summary

    lower = incomplete.lower()
    return [(name, summary(method)) for name, method in all_methods().items() if name.lower().startswith(lower)]


ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model that `pmlkit fit` wrote.", show_default=False)
]
MethodName = Annotated[
    str,
    typer.Option("--method", "-m", metavar="NAME", help="See `pmlkit methods`.", autocompletion=_complete_method),
]
MethodParams = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        "-p",
        metavar="KEY=VALUE",
        help="A parameter of the method, repeatable; `pmlkit methods NAME` lists them.",
    ),
]

Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        min=1,
        metavar="N",
        help="Processor cores to use at most, by linear algebra and by methods that have n_jobs.",
        show_default=False,
    ),
]


def _check_settling(value: str) -> str:
    if value not in ("latest", "majority"):
        raise Misuse(
            f"--settle must be latest or majority, got {value!r}.{did_you_mean(value, ('latest', 'majority'))}"
        )
    return value


Settling = Annotated[
    str,
    typer.Option(
        "--settle",
        metavar="latest|majority",
        help="Which of several answers about one label counts; a tie of the majority comes to unsure.",
        callback=_check_settling,
    ),
]


_reading_option = partial(typer.Option, rich_help_panel="Reading the file")
_feature_option = partial(typer.Option, rich_help_panel="Features of a table")
FORMAT_NAMES = ("arff", "csv", "json", "jsonl", "libsvm", "mat", "npz", "parquet", "tsv")
# How the text of a reading option becomes a value: columns may be a list, literals are numbers or yes/no.
COLUMN_OPTIONS = frozenset({"labels", "truth", "ignore"})
LITERAL_OPTIONS = frozenset({"max_bytes", "zero_based", "n_features", "n_labels"})
TEXT_OPTIONS = frozenset({"id", "media", "missing", "delimiter", "encoding", "nominal", "sep"}) | frozenset(
    {"data", "candidates", "orientation"}
)
TABLE_OPTIONS = frozenset({"delimiter", "encoding", "id", "ignore", "labels", "max_bytes", "missing", "sep", "truth"})

InputFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="The data set or table; - is standard input, a quoted pattern ('posts-*.csv') many files.",
        show_default=False,
    ),
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


_output_option = functools.partial(typer.Option, metavar="", rich_help_panel="Output")

Force = Annotated[bool, _output_option("--force", help="Replace an output that exists.")]


@dataclass(frozen=True)
class Common:
    """Options of every command."""

    json: Annotated[bool, _output_option("--json", help="Print the facts as JSON, for programs.")] = False
    verbose: Annotated[
        bool,
        _output_option("--verbose", "-v", help="Show what is being done.", callback=start_logging),
    ] = False
    debug: Annotated[
        bool,
        _output_option("--debug", help="Show the traceback of an error (or set PMLKIT_DEBUG=1)."),
    ] = False


def key_values(words: Iterable[str], option: str) -> dict[str, str]:
    """Split words at their first ``=``.

    `words`: what was typed, such as ``alpha=10``. `option`: the option they were given to, for the error message.
    """
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
    """Return a command as typer wants it: a parameter that is a dataclass becomes one option per field.

    `function`: a command whose annotations may be dataclasses with `typer.Option` in their fields. Returns: the same
    command with a flat signature.
    """
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        kind = parameter.annotation
        if not dataclasses.is_dataclass(kind):
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[parameter.name] = kind
        hints = typing.get_type_hints(kind, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
            )
            for field in dataclasses.fields(kind)
        ]

    @functools.wraps(function)
    def command(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in dataclasses.fields(kind)})
        function(**values)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def retyped(file: Path, reading: Reading, columns: Columns) -> str:
    """Return a file and its options as they can be typed again, after another command; nothing for standard input.

    Examples
    --------
    >>> from pathlib import Path
    >>> from pmlkit.cli.params import Columns, Reading, retyped
    >>> retyped(Path("my posts.csv"), Reading(labels=["tags"], sep=";"), Columns(text=["body"]))
    "'my posts.csv' --labels tags --sep ';' --text body"
    """
    if str(file) == "-":
        return ""
    words = [str(file)]
    for group in (reading, columns):
        for field in dataclasses.fields(group):
            given = getattr(group, field.name)
            for value in given if isinstance(given, list) else [] if given is None else [given]:
                words += [f"--{field.name}", str(value)]
    return shlex.join(words)


def check_shares(**shares: float) -> None:
    """Refuse options that must be shares between 0 and 1."""
    for name, value in shares.items():
        if not 0 < value < 1:
            hint = f" For {value:g} % write --{name} {value / 100:g}." if 1 < value < 100 else ""
            raise Misuse(f"--{name} must be between 0 and 1, got {value:g}.{hint}")
