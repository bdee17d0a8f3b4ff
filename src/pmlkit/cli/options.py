"""The options that commands share, declared once, and what they stand for: tables, data sets, methods, workers."""

import contextlib
import dataclasses
import functools
import inspect
import os
import re
import shlex
import sys
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmlkit import _words
from pmlkit._files import check_target
from pmlkit._words import did_you_mean
from pmlkit.cli.output import TABLE_OPTIONS, Misuse, Watch, percent_hint, start_logging
from pmlkit.exceptions import DataError, MethodError

if TYPE_CHECKING:
    from pmlkit.blocks import Executor
    from pmlkit.data import PMLDataset, Table
    from pmlkit.methods.base import BasePML
    from pmlkit.methods.progress import Counter


def option(help: str, metavar: str | None = None, *names: str, **more: Any) -> Any:
    """Declare an option: what it does, what is typed after it, and its names where they are not the parameter's."""
    return typer.Option(*names, metavar=metavar, help=help, **more)


def flag(help: str, *names: str, **more: Any) -> Any:
    """Declare an option without a value; typer would show its type."""
    return option(help, "", *names, **more)


def choice(help: str, words: tuple[str, ...]) -> Any:
    """Declare an option that takes one of some words."""

    def check(param: typer.CallbackParam, value: str | None) -> str | None:
        check_choice(value, words, param.opts[0])
        return value

    return option(help, "|".join(words), callback=check, autocompletion=lambda: list(words))


def argument(help: str, metavar: str, *, show_default: bool = False, **more: Any) -> Any:
    """Declare an argument."""
    return typer.Argument(metavar=metavar, help=help, show_default=show_default, **more)


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


ModelFile = Annotated[Path, argument("A model that `pmlkit fit` wrote.", "MODEL")]
MethodName = Annotated[
    str, option("The method, see `pmlkit methods`.", "NAME", "--method", "-m", autocompletion=_complete_method)
]
_METHOD_PARAMS = "A parameter of the method, repeatable; `pmlkit methods NAME` lists them."
MethodParams = Annotated[list[str] | None, option(_METHOD_PARAMS, "KEY=VALUE", "--param", "-p")]
_JOBS = "Use at most N processor cores (linear algebra, and methods that have n_jobs)."
Jobs = Annotated[int | None, option(_JOBS, "N", "--jobs", min=1, show_default=False)]
_SETTLING = "Which of several answers about one label counts; a tied majority counts as unsure."
Settling = Annotated[str, choice(_SETTLING, ("latest", "majority"))]
MinRows = Annotated[int, option("Do not judge labels that are on fewer than N rows.", "N", min=1)]
Force = Annotated[bool, flag("Replace an output that exists.", "--force", rich_help_panel="Output")]

FORMAT_NAMES = ("arff", "csv", "json", "jsonl", "libsvm", "mat", "npz", "parquet", "tsv")
# How the text of a reading option becomes a value: columns may be a list, literals are numbers or yes/no.
COLUMN_OPTIONS = frozenset({"labels", "truth", "ignore"})
LITERAL_OPTIONS = frozenset({"max_bytes", "zero_based", "n_features", "n_labels"})

_reading_option = partial(option, rich_help_panel="Reading the file")
_feature_option = partial(option, rich_help_panel="Features of a table")


@dataclass(frozen=True)
class Source:
    """A data set or table: its file, how it is read, and which columns are features."""

    file: Annotated[
        Path,
        argument(
            "The data set or table; - for standard input, a quoted pattern ('posts-*.csv') for many files.", "FILE"
        ),
    ]
    format: Annotated[
        str | None,
        _reading_option(
            f"{', '.join(FORMAT_NAMES)}; by default detected. .gz and .bz2 are decompressed.",
            "NAME",
            autocompletion=lambda: list(FORMAT_NAMES),
        ),
    ] = None
    labels: Annotated[
        list[str] | None,
        _reading_option(
            "The label columns: comma-separated names, a pattern ('tag_*'), @names.txt (one per line), or the one "
            "column of label sets; for ARFF also the MULAN .xml, or a number (negative: the last ones).",
            "NAMES",
        ),
    ] = None
    sep: Annotated[
        str | None, _reading_option("Separator of the labels in a cell, such as ';'; by default detected.", "TEXT")
    ] = None
    id: Annotated[
        str | None,
        _reading_option("The column that names the rows; by default one called id or similar.", "COLUMN"),
    ] = None
    merge_labels: Annotated[
        bool,
        _reading_option("Treat label names that differ only in case, spaces or hyphens as one.", "", "--merge-labels"),
    ] = False
    option: Annotated[
        list[str] | None,
        _reading_option(
            "Further options, repeatable. Tables: truth, ignore (columns), missing (mean, zero, error), delimiter, "
            "encoding (csv, tsv), media (data sets); arff: nominal (ordinal, onehot), missing, ignore; libsvm: "
            "zero_based, n_features, n_labels; mat: data, candidates, truth, orientation; all: max_bytes (how much "
            "memory a compressed file may take; by default 256 MiB or 200 times its size).",
            "KEY=VALUE",
        ),
    ] = None
    text: Annotated[list[str] | None, _feature_option("Columns of text; they become TF-IDF.", "NAMES")] = None
    categories: Annotated[
        list[str] | None, _feature_option("Columns of categories; each becomes columns of 0/1.", "NAMES")
    ] = None
    numbers: Annotated[list[str] | None, _feature_option("Columns of numbers; they are scaled.", "NAMES")] = None
    images: Annotated[
        str | None,
        _feature_option("The column of image names and the folder of the files; pixels become features.", "COLUMN=DIR"),
    ] = None
    embeddings: Annotated[
        Path | None,
        _feature_option("Your own features (.npy, .npz, Parquet), one row per row of the table.", "PATH"),
    ] = None
    vectorizer: Annotated[
        list[str] | None,
        _feature_option(
            "Change how columns become numbers: max_words, min_rows, ngrams, analyzer (word, char_wb), "
            "max_categories; repeatable.",
            "KEY=VALUE",
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

    @functools.cached_property
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

    @functools.cached_property
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
        >>> from pmlkit.cli.options import Source
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


_running_option = partial(option, rich_help_panel="Larger data", show_default=False)


@dataclass(frozen=True)
class Running:
    """Where work on rows in blocks runs."""

    workers: Annotated[
        int | None,
        _running_option("Work on blocks of rows in N processes (methods that learn from blocks).", "N", min=1),
    ] = None
    memory: Annotated[
        str | None,
        _running_option(
            "Memory of each worker, such as 2GB; without --workers, about what blocks of rows may take.", "SIZE"
        ),
    ] = None
    dask: Annotated[
        str | None, _running_option("Work on the Dask cluster of this scheduler, such as tcp://host:8786.", "ADDRESS")
    ] = None

    @property
    def in_blocks(self) -> bool:
        """Whether rows are worked on in blocks."""
        return (self.workers, self.memory, self.dask) != (None, None, None)


_output_flag = partial(flag, rich_help_panel="Output")


@dataclass(frozen=True)
class Common:
    """Options of every command."""

    json: Annotated[bool, _output_flag("Print the facts as JSON, for programs.", "--json")] = False
    verbose: Annotated[bool, _output_flag("Show what is being done.", "--verbose", "-v", callback=start_logging)] = (
        False
    )
    debug: Annotated[bool, _output_flag("Show the traceback of an error (or set PMLKIT_DEBUG=1).", "--debug")] = False


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
    """Return a command in the form that typer needs: a parameter that is a dataclass becomes one option per field."""
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


def check_output(target: Path, *inputs: Path, force: bool) -> None:
    """Refuse an output that cannot be written, or that is an input, before the work begins.

    `target`: where a result is to be written. `*inputs`: the files that are read; they are safe from ``--force``, too.
    `force`: whether another file that is there may be replaced.
    """
    from pmlkit.data.files.arff import find_label_xml
    from pmlkit.data.files.base import matching_files, stem

    if str(target) == "-":
        raise Misuse("The output must be a file, got '-'.")
    inputs = tuple(found for source in inputs for found in matching_files(source) or [source])
    # The label files that are read because they lie beside an ARFF file.
    side_files = (
        [find_label_xml(source.parent, stem(source)) for source in inputs] if target.suffix.lower() == ".xml" else []
    )
    for source in (*inputs, *filter(None, side_files)):
        if target.exists() and source.exists() and target.samefile(source):
            raise Misuse(f"{str(target)!r} is the input: it is never overwritten, so choose another output.")
    check_target(target, force=force)


@contextlib.contextmanager
def misuse(kind: type[Exception] = ValueError) -> Iterator[None]:
    """Take a wrong value, or an error of another kind, for misuse; a file that cannot be used is none."""
    try:
        yield
    except DataError:
        raise
    except kind as error:
        raise Misuse(str(error)) from error


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    with misuse(), Watch(f"reading {path.name}"):
        yield


def open_table(source: Source, *, like: Any = None) -> "Table":
    """Open a table; features become numbers only when they are asked for."""
    with Watch("loading the libraries"):  # on a busy machine it takes seconds
        from pmlkit import data

    options = {key: value for key, value in source.reading.items() if like is None or key != "labels"}
    if like is not None and source.features.keys() - {"images", "embeddings"}:
        raise Misuse("The model knows its columns: leave --text, --categories, --numbers and --vectorizer out.")
    for key in set(options) - TABLE_OPTIONS:
        known = sorted(TABLE_OPTIONS - {"labels", "sep"})
        raise Misuse(f"For a table --option has no {key!r}.{did_you_mean(key, known)} It has {', '.join(known)}.")
    with _reading(source.file):
        table = data.open_table(
            source.file, format=source.format, like=like, merge_labels=source.merge_labels, **options,
            **source.features,
        )  # fmt: skip
        if like is None and isinstance(table, data.Table):
            table.Y  # noqa: B018  most mistakes are about labels: they come first
    return table


def load(source: Source, *, keep_table: bool = False) -> "Table | PMLDataset":
    """Read a file as a table if it has texts or categories, or if features are named; else as a data set of numbers.

    `keep_table`: open tables of numbers as tables, too, so that they can be written again.
    """
    with Watch("loading the libraries"):
        from pmlkit.data import read
        from pmlkit.data.files.base import TABLE_FORMATS, find_format, matching_files

    path = source.file
    with _reading(path):
        if matching_files(path) is not None:
            return open_table(source)
        found = source.format or find_format(path)
    if source.features and found not in TABLE_FORMATS:
        raise Misuse(
            f"--text and the like are for tables: if {path.name!r} is one, say by --format which of "
            f"{', '.join(TABLE_FORMATS)}."
        )
    options = source.reading
    # ARFF files are mostly data sets, often sparse ones; some options only data sets have.
    is_numbers = found == "arff" or not options.keys() <= TABLE_OPTIONS
    if found not in TABLE_FORMATS or (is_numbers and not source.features and not keep_table):
        if source.merge_labels:
            raise Misuse("--merge-labels is for tables, whose labels are words.")
        with _reading(path):
            return read(path, format=source.format, **options)
    table = open_table(source)
    with _reading(path):
        return table.to_dataset() if table.has_only_numbers and not source.features and not keep_table else table


def limit_jobs(jobs: int | None, model: Any = None) -> None:
    """Limit the process, and a method that works in parallel, to that many cores; `--param n_jobs=` has priority."""
    if jobs is None:
        return
    from threadpoolctl import threadpool_limits

    threadpool_limits(limits=jobs)
    if model is not None and model.get_params().get("n_jobs", 0) is None:
        model.set_params(n_jobs=jobs)


@contextlib.contextmanager
def running(options: Running) -> "Iterator[Executor | None]":
    """Yield where work on blocks runs, None for data in memory; workers that were started end with the context."""
    if not options.in_blocks:
        yield None
        return
    from pmlkit.blocks import executor

    if options.dask is not None and (options.workers is not None or options.memory is not None):
        raise Misuse("--dask names a cluster, which has its own workers and memory: leave --workers and --memory out.")
    place = executor(workers=options.workers, memory=options.memory, dask=options.dask)
    with contextlib.ExitStack() as stack:
        with misuse(), Watch("connecting" if options.dask else "starting workers"):
            found = stack.enter_context(place)
        yield found


def look_here_for_modules() -> None:
    """Let ``module:Class`` name a file in the working folder."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def find_method(name: str) -> "type[BasePML]":
    """Return a method by its name, in any case and with or without hyphens."""
    from pmlkit import methods

    look_here_for_modules()
    with misuse(MethodError):
        found: type[BasePML] = methods.find_method(name)
    return found


def build_model(name: str, words: Sequence[str] | None) -> "BasePML":
    """Return an unfitted model from a method's name and ``key=value`` words."""
    from pmlkit.methods import make_classifier

    look_here_for_modules()
    given = {key: literal(value) for key, value in key_values(words or (), "--param").items()}
    with misuse(MethodError):
        model: BasePML = make_classifier(name, **given)
    return model


def follow(model: Any, watch: "Counter") -> None:
    """Report the iterations of a fit, if scikit-learn has callbacks (1.9 and newer)."""
    from pmlkit.methods.progress import FitProgress

    if hasattr(model, "set_callbacks"):
        model.set_callbacks(FitProgress(watch))


def load_model(path: Path) -> "BasePML":
    """Read a fitted model; anything else is refused in a sentence."""
    from sklearn.utils.validation import check_is_fitted

    from pmlkit.methods.base import BasePML
    from pmlkit.persistence import load

    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder: give the path of a model file in it.")
    if not path.exists():
        raise DataError(f"There is no model file {str(path)!r}. Make one with `pmlkit fit`.")
    model = load(path)
    if not isinstance(model, BasePML):
        raise DataError(f"{str(path)!r} holds a {type(model).__name__}, not a model that `pmlkit fit` wrote.")
    check_is_fitted(model)
    return model
