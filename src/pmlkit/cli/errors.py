"""From exceptions to one sentence and an exit code, in one place."""

import functools
import io
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import typer
from typer.core import TyperGroup

from pmlkit._words import did_you_mean
from pmlkit.cli.output import printable_lines, quoted, say
from pmlkit.cli.stopping import INTERRUPTED, stopped_by, was_terminated
from pmlkit.exceptions import DataError, PMLWarning

__all__ = ["Commands", "Misuse", "spell", "start_logging"]

FAILED, MISUSED = 1, 2
_SHOWN_WARNINGS = frozenset({"PMLWarning", "ConvergenceWarning"})

logger = logging.getLogger(__name__)


# Options that have a name of their own on the command line; others are typed after --option.
_OWN_OPTIONS = frozenset(
    {"categories", "embeddings", "force", "format", "id", "images", "labels", "merge_labels", "numbers", "out_format"}
    | {"sep", "text", "vectorizer"}
)


def spell(option: str, value: str | None) -> str:
    """Return an option of the library as it is typed on the command line.

    Examples
    --------
    >>> from pmlkit.cli.errors import spell
    >>> spell("sep", "';'"), spell("merge_labels", "True"), spell("missing", "'mean'")
    ("--sep ';'", '--merge-labels', "--option missing='mean'")
    """
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
    if isinstance(error, OSError) and not _can_flush(sys.stdout):
        say("error", f"standard output could not be written: {error.strerror or error}.")
    elif isinstance(error, OSError) and error.strerror:
        say("error", f"{error.strerror}: {quoted([error.filename])}." if error.filename else f"{error.strerror}.")
    elif isinstance(error, MemoryError):
        say("error", "there is not enough memory for this.")
    elif isinstance(error, ValueError | OSError) and str(error):
        say("error", error)
    else:
        say("error", f"unexpected {type(error).__name__}: {error}. Run it again with --debug to see where.")
    return FAILED


def _usage_sentence(error: Any) -> str:
    if getattr(error, "possibilities", None):
        return f"{str(error.message).rstrip('.')}.{did_you_mean(error.option_name, error.possibilities)}"
    sentence = str(error.format_message()).strip()
    return sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."


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
