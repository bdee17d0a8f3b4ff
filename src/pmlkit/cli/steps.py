"""The steps that several commands share: open a file, build or load a model, judge labels, write; with progress."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmlkit._files import check_target
from pmlkit._words import counted, did_you_mean, listing
from pmlkit.cli.output import Misuse, Watch, say
from pmlkit.cli.params import TABLE_OPTIONS, Running, Source, key_values, literal
from pmlkit.exceptions import DataError, MethodError

if TYPE_CHECKING:
    from pmlkit.blocks import Executor
    from pmlkit.cleaning import CleaningResult
    from pmlkit.data import PMLDataset, Table
    from pmlkit.methods.base import BasePML
    from pmlkit.methods.progress import Counter


def check_output(target: Path, *inputs: Path, force: bool) -> None:
    """Refuse an output that cannot be written, or that is an input, before the work begins.

    `target`: where a result is to be written. `*inputs`: the files that are read; they are safe from ``--force``, too.
    `force`: whether another file that is there may be replaced.
    """
    inputs = tuple(found for source in inputs for found in _files(source))
    side_files = _label_files(inputs) if target.suffix.lower() == ".xml" else []
    for source in (*inputs, *side_files):
        if target.exists() and source.exists() and target.samefile(source):
            raise Misuse(f"{str(target)!r} is the input: it is never overwritten, so choose another output.")
    check_target(target, force=force)


def _files(source: Path) -> Sequence[Path]:
    from pmlkit.data.files.registry import matching_files

    return matching_files(source) or [source]


def _label_files(inputs: Sequence[Path]) -> list[Path]:
    """Return the label files that are read because they lie beside an ARFF file."""
    from pmlkit.data.files.arff_parser import find_label_xml
    from pmlkit.data.files.registry import stem

    found = (find_label_xml(source.parent, stem(source)) for source in inputs)
    return [xml for xml in found if xml is not None]


@contextlib.contextmanager
def misuse(kind: type[Exception] = ValueError) -> Iterator[None]:
    """Take a wrong value, or an error of another kind, for misuse; a file that cannot be used is none."""
    try:
        yield
    except DataError:
        raise
    except kind as error:
        raise Misuse(str(error)) from error


def _loading() -> Watch:
    """Show that libraries are being imported: on a busy machine it takes seconds."""
    return Watch("loading the libraries")


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    with misuse(), Watch(f"reading {path.name}"):
        yield


def open_table(source: Source, *, like: Any = None) -> "Table":
    """Open a table; features become numbers only when they are asked for."""
    with _loading():
        import pmlkit

    options = source.reading
    if like is not None:
        options.pop("labels", None)
        if source.features.keys() - {"images", "embeddings"}:
            raise Misuse("The model knows its columns: leave --text, --categories, --numbers and --vectorizer out.")
    for key in set(options) - TABLE_OPTIONS:
        known = sorted(TABLE_OPTIONS - {"labels", "sep"})
        raise Misuse(f"For a table --option has no {key!r}.{did_you_mean(key, known)} It has {', '.join(known)}.")
    with _reading(source.file):
        table = pmlkit.open_table(
            source.file, format=source.format, like=like, merge_labels=source.merge_labels, **options,
            **source.features,
        )  # fmt: skip
        if like is None and isinstance(table, pmlkit.Table):
            table.Y  # noqa: B018  most mistakes are about labels: they come first
    return table


def load(source: Source, *, keep_table: bool = False) -> "Table | PMLDataset":
    """Read a file as a table if it has texts or categories, or if features are named; else as a data set of numbers.

    `keep_table`: open tables of numbers as tables, too, so that they can be written again.
    """
    with _loading():
        from pmlkit.data import read
        from pmlkit.data.files.registry import TABLE_FORMATS, find_format, matching_files

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
    """Keep the process, and the method where it works in parallel, to so many cores; `--param n_jobs=` has priority."""
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


class _FitAndComparisons:
    """Count the iterations of a fit in the same bar as the two comparisons that follow it."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def expect(self, total: int | None) -> None:
        self._watch.expect(None if total is None else total + 2)

    def advance(self) -> None:
        self._watch.advance()


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


def find_suspects(
    table: "Table | PMLDataset",
    method: Any,
    min_rows: int,
    answers: Path | None = None,
    place: "Executor | None" = None,
    **options: Any,
) -> "CleaningResult":
    """Judge the labels of a table, showing how far it is, and say which labels are left alone."""
    from sklearn.utils._param_validation import InvalidParameterError

    from pmlkit.blocks import Executor, holds_blocks
    from pmlkit.cleaning import clean as judge
    from pmlkit.cleaning.result import ENOUGH_ROWS

    with Watch("turning columns into numbers"):
        if holds_blocks(table):
            place = place or Executor()
        rows = table.X if place is None else place.rows(table)  # a step of its own in the progress display
    with misuse(InvalidParameterError), Watch("looking for wrong labels") as watch:
        result = judge(
            table if place is None else rows,
            method=method,
            min_rows=min_rows,
            verified=answers,
            on_fit=lambda model: follow(model, _FitAndComparisons(watch)),
            on_comparison=watch.advance,
            **options,
        )
    if len(result.rare_labels):
        rare = [result.label_names[k] for k in result.rare_labels]
        many = counted(len(rare), "label is", "labels are")
        say("note", f"{many} on too few rows to be judged, and left alone: {listing(rare, 6)}.")
    if len(result.kept_labels):
        many = counted(len(result.kept_labels), "label is", "labels are")
        say("note", f"{many} on fewer than {ENOUGH_ROWS} rows: judged, but nothing of them is removed unseen.")
    return result


def write_labels(table: "Table | PMLDataset", target: Path, kept: Any) -> None:
    """Write a table with the labels that stay, in the format that it was read in."""
    from pmlkit.data import Table, TableFiles, write

    if isinstance(table, Table | TableFiles):
        table.write(target, kept, force=True)  # whether it may be replaced was asked before the work began
    else:
        with misuse():  # the truth need not be among the candidates that are left
            write(table.replace(Y=kept, truth=None), target, force=True)
