"""What commands print: results as text or JSON on stdout; notes, progress and errors, with exit codes, on stderr."""

import contextlib
import functools
import io
import json
import logging
import math
import os
import re
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self, TextIO

import typer
from rich import box
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from pmlkit._words import F1, FIVE, MetricInfo, did_you_mean, excerpt, listing, printable
from pmlkit.cli import INTERRUPTED, NO_MEMORY, lacks_memory, stopped_by, was_terminated
from pmlkit.exceptions import DataError, PMLWarning

logger = logging.getLogger(__name__)

# Nothing is ever read as rich markup: names and messages come from files. Styles are put on Text objects.
OUT = Console(markup=False, highlight=False, emoji=False)
ERR = Console(stderr=True, markup=False, highlight=False, emoji=False)
FAILED, MISUSED = 1, 2
_SHOWN_WARNINGS = frozenset({"PMLWarning", "ConvergenceWarning"})
_PATIENCE = 2.0  # seconds before progress is shown
_LINE_EVERY = 10.0  # seconds between two lines where there is no terminal


def printable_lines(text: str) -> str:
    """Return a text of several lines without the control characters that could steer the terminal."""
    return "".join(char for char in text if char in "\n\t" or char.isprintable())


def number(value: Any) -> str:
    """Format a number: integers with thousands separators, others with three decimals, unknown ones as a dash."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def say(kind: str, text: object) -> None:
    """Print one line on stderr, such as ``error: there is no file 'x'.``"""
    style = {"error": "bold red", "warning": "bold yellow"}.get(kind, "bold")
    with contextlib.suppress(OSError):  # stderr may be closed: the work continues
        ERR.print(Text.assemble((f"{kind}:", style), " ", printable(text)), soft_wrap=True)


# What says how a table is read; and options with a name of their own, where others are typed after --option.
TABLE_OPTIONS = frozenset({"delimiter", "encoding", "id", "ignore", "labels", "max_bytes", "missing", "sep", "truth"})
_OWN_OPTIONS = frozenset(
    {"categories", "embeddings", "force", "format", "id", "images", "labels", "merge_labels", "numbers", "out_format"}
    | {"sep", "settle", "text", "vectorizer"}
)


def spell(option: str, value: str | None) -> str:
    """Return an option of the library as it is typed on the command line."""
    if option not in _OWN_OPTIONS:
        return f"--option {option}={value or ''}"
    flag = f"--{option.replace('_', '-')}"
    return flag if value in (None, "True") else f"{flag} {value}"


class Misuse(Exception):
    """The command was called in a way that cannot be meant; the message is one sentence for a person."""


def start_logging(verbose: bool) -> bool:
    """Show the package's log on stderr: notes only, or with `verbose` everything."""
    package = logging.getLogger("pmlkit")
    package.handlers = [_StderrLines(verbose)]
    package.setLevel(logging.DEBUG if verbose else logging.WARNING)
    return verbose


class _StderrLines(logging.Handler):
    def __init__(self, verbose: bool) -> None:
        super().__init__()
        self._verbose = verbose

    def emit(self, record: logging.LogRecord) -> None:
        kind = f"{record.name} {record.levelname.lower()}" if self._verbose else "note"
        say(kind, record.msg.sentence(spell) if isinstance(record.msg, PMLWarning) else record.getMessage())


def plain_table(*columns: str, right: Collection[int] = ()) -> Table:
    """Return an empty table in the house style; the columns numbered in `right` are aligned to the right."""
    table = Table(box=box.SIMPLE_HEAD, header_style="dim", show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    for position, name in enumerate(columns):
        table.add_column(
            name, justify="right" if position in right else "left", overflow="fold", no_wrap=position in right
        )
    return table


def heading(text: str) -> Text:
    """Return a line that stands above a table."""
    return Text(printable(text), style="bold")


def fact_table(facts: Mapping[str, object]) -> Table:
    """Return names and values side by side."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        shown = number(value) if value is None or isinstance(value, int | float) else printable(value)
        table.add_row(Text(name), Text(shown))
    return table


def emit(facts: Mapping[str, object], *shown: RenderableType, as_json: bool) -> None:
    """Print facts to stdout: as one JSON object, or as whatever `shown` makes of them."""
    if as_json:
        typer.echo(json.dumps(_plain(facts), indent=2, allow_nan=False))
    else:
        OUT.print(*shown, sep="\n")


def emit_facts(facts: Mapping[str, object], *shown: RenderableType, as_json: bool) -> None:
    """Print facts side by side, their names with blanks, or as JSON, their names with underscores."""
    table = fact_table({key.replace("_", " "): value for key, value in facts.items()})
    emit({key.replace(" ", "_"): value for key, value in facts.items()}, table, *shown, as_json=as_json)


def _plain(value: Any) -> Any:
    """Return a value that JSON has; nan and infinity become null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy's arrays and numbers, without importing numpy
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value) if isinstance(value, Path) else repr(value)


def comparison(results: Mapping[str, Mapping[str, float]], metrics: Sequence[MetricInfo]) -> Table:
    """Return a table of methods by metrics, the best value of each in bold.

    `metrics`: the columns.
    """
    table = plain_table(
        "method", *(f"{metric.short} {metric.arrow}" for metric in metrics), right=range(1, len(metrics) + 1)
    )
    for name, found in results.items():
        cells = [
            Text(number(found[metric.key]), style="bold green" if _is_best(metric, found, results) else "")
            for metric in metrics
        ]
        table.add_row(Text(printable(name)), *cells)
    return table


def _is_best(metric: MetricInfo, found: Mapping[str, float], results: Mapping[str, Mapping[str, float]]) -> bool:
    """Return whether no method is better by what is shown, three decimals."""
    known = [round(other[metric.key], 3) for other in results.values() if not math.isnan(other[metric.key])]
    best = (min if metric.lower_is_better else max)(known, default=None)
    return round(found[metric.key], 3) == best


def metric_table(found: Mapping[str, float]) -> Table:
    """Return the five metrics and both F1 one below the other."""
    table = plain_table("metric", "value", right=(1,))
    for metric in (*FIVE, *F1):
        table.add_row(Text(f"{metric.name} {metric.arrow}"), Text(number(found[metric.key])))
    return table


def seconds_left(total: float, completed: float, elapsed: float, since_step: float) -> float:
    """Return an estimate that falls while a step runs, and rises when the step takes longer than those before.

    `elapsed`: until the last finished step. `since_step`: since then.
    """
    mean = elapsed / completed
    longer = max(mean, (elapsed + since_step) / (completed + 1.0))
    return (total - completed - 1.0) * longer + max(mean - since_step, 0.05 * since_step)


class _TimeLeft(ProgressColumn):
    """The time left; rich's own stands still during a long step."""

    def __init__(self, watch: "Watch") -> None:
        super().__init__()
        self._watch = watch

    def render(self, task: Task) -> Text:
        left = self._watch.left()
        return Text("-:--:--" if left is None else str(timedelta(seconds=round(left))), style="progress.remaining")


class Watch:
    """Show how far a task is, once it has run for two seconds; use it as a context manager.

    `total`: of how many steps; without it only the time is shown.
    """

    def __init__(self, what: str, total: int | None = None) -> None:
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=28),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            _TimeLeft(self),
            console=ERR,
            transient=True,
        )
        self._task = self._bar.add_task(printable(what), total=total)
        self._has_begun = False
        self._started = self._counted_from = self._last_step = time.monotonic()
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._is_done.set()
        self._thread.join()
        if self._bar.live.is_started:
            self._bar.stop()

    def advance(self, steps: int = 1) -> None:
        """Report finished steps."""
        self._bar.advance(self._task, steps)
        self._last_step = time.monotonic() if steps else self._last_step

    def begin(self, what: str) -> None:
        """Say what comes next; what came before, if anything, is a finished step."""
        self.advance(int(self._has_begun))
        self._has_begun = True
        self._bar.update(self._task, description=printable(what))

    def expect(self, total: int | None) -> None:
        """Start again with another number of steps."""
        self._bar.reset(self._task, total=total)
        self._bar.tasks[self._task].total = total
        self._counted_from = self._last_step = time.monotonic()

    def follow(self, done: int, total: int | None) -> None:
        """Report one more finished step; with none done start again, with another number of steps."""
        if done:
            self.advance()
        else:
            self.expect(total)

    def left(self) -> float | None:
        """Return the seconds that are left, None while it is unknown."""
        task = self._bar.tasks[self._task]
        if not task.total or not 0 < task.completed < task.total:
            return None
        elapsed, since_step = self._last_step - self._counted_from, time.monotonic() - self._last_step
        return seconds_left(task.total, task.completed, elapsed, since_step)

    def _show(self) -> None:
        if self._is_done.wait(_PATIENCE):
            return
        if ERR.is_terminal:
            self._bar.start()
            return
        while not self._is_done.is_set():
            say("progress", self._line())
            self._is_done.wait(_LINE_EVERY)

    def _line(self) -> str:
        task = self._bar.tasks[self._task]
        line = f"{task.description}, {time.monotonic() - self._started:.0f} s"
        if task.total and task.completed:
            line += f", {task.percentage:.0f} % done"
            line += f", about {left:.0f} s left" if (left := self.left()) is not None else ""
        return line


class Commands(TyperGroup):
    """The group of all commands: whatever goes wrong in one of them ends here."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and leave with its exit code."""
        words = sys.argv[1:] if args is None else list(args)
        debug = "--debug" in words or os.environ.get("PMLKIT_DEBUG", "") not in ("", "0")
        _open_missing_streams()
        for stream in (sys.stdout, sys.stderr):
            # An old terminal that has no arrows gets question marks instead of a failure.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        run = functools.partial(
            super().main, words, "pmlkit", complete_var, standalone_mode=False, windows_expand_args=False, **extra
        )
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = _exit_code(run, debug)
        for stream in (sys.stdout, sys.stderr):
            if not _can_flush(stream):
                # Python flushes once more at its end, and would complain then: into nothing.
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        sys.exit(code)


def _open_missing_streams() -> None:
    """Give a process that was started with a closed stream one that leads nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _can_flush(stream: TextIO) -> bool:
    try:
        stream.flush()
    except OSError:
        return False
    return True


def _exit_code(run: Callable[[], Any], debug: bool) -> int:
    try:
        code = run()
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has what it wants
        return FAILED
    except Exception as error:
        if debug:
            sys.stderr.write(printable_lines(traceback.format_exc()))
        return _report(error)
    if code == INTERRUPTED or was_terminated():
        reason, code = stopped_by()
        say("stopped", reason)
    return code if isinstance(code, int) else 0


def _report(error: Exception) -> int:
    """Print an error in one sentence and return its exit code."""
    if isinstance(error, Misuse):
        say("error", error)
        return MISUSED
    if isinstance(error, DataError):
        say("error", error.sentence(spell))
        return FAILED
    if hasattr(error, "format_message"):  # typer's own: an unknown option, a missing argument
        context = getattr(error, "ctx", None)
        help_hint = f" See '{context.command_path} --help'." if context is not None else ""
        say("error", f"{_usage_sentence(error)}{help_hint}")
        return int(getattr(error, "exit_code", MISUSED))
    if lacks_memory(error):
        say("error", NO_MEMORY)
    elif isinstance(error, OSError) and not _can_flush(sys.stdout):
        say("error", f"standard output could not be written: {error.strerror or error}.")
    elif isinstance(error, OSError) and error.strerror:
        say("error", f"{error.strerror}: {listing([error.filename])}." if error.filename else f"{error.strerror}.")
    elif isinstance(error, ValueError | OSError) and str(error):
        say("error", error)
    else:
        say("error", f"unexpected {type(error).__name__}: {error}. Run it again with --debug to see where.")
    return FAILED


def _usage_sentence(error: Any) -> str:
    word, context = getattr(error, "option_name", "").lstrip("-"), getattr(error, "ctx", None)
    known = {name for option in context.command.params for name in option.opts} if context is not None else set()
    if word in TABLE_OPTIONS and f"--{word}" not in known and "--option" in known:
        return f"No such option: --{word}. Write --option {word}=VALUE."
    if getattr(error, "possibilities", None):
        return f"{str(error.message).rstrip('.')}.{did_you_mean(error.option_name, error.possibilities)}"
    sentence = _not_a_number(error) or str(error.format_message()).strip()
    return sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."


_NUMBERS = {
    "float_parsing": "a number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "greater_than_equal": "at least {ge:g}",
}


def _not_a_number(error: Any) -> str | None:
    """Return the sentence for an option's value that is not a number, or too small, or None for another error."""
    details: list[Any] = getattr(error.__cause__, "errors", list)()
    option = getattr(error, "param", None)
    kind = details[0]["type"] if details else ""
    if option is None or kind not in _NUMBERS:
        return None
    value, (name, *_) = str(details[0]["input"]), option.opts
    percent = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", value)
    hint = percent_hint(name.lstrip("-"), float(percent[1])) if percent else ""
    return f"{name} must be {_NUMBERS[kind].format(**details[0].get('ctx', {}))}, got {excerpt(value)}.{hint}"


def percent_hint(option: str, percent: float) -> str:
    """Return how a percentage is typed as a share, as the start of the next sentence."""
    return f" For {percent:g} % write --{option} {percent / 100:g}."


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if category.__name__ in _SHOWN_WARNINGS:
        say("warning", message.sentence(spell) if isinstance(message, PMLWarning) else message)
    else:
        logger.debug("%s in %s, line %d: %s", category.__name__, filename, lineno, message)


def _show_version(value: bool) -> None:
    if value:
        from pmlkit import __version__

        typer.echo(f"pmlkit {__version__}")
        raise typer.Exit


def pmlkit(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", metavar="", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Learn from candidate labels: find the wrong ones, and train models that they do not mislead."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
