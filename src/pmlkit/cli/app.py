"""The app: all commands with their examples, and how their errors become one sentence and an exit code."""

import functools
import io
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from pmlkit._words import did_you_mean, listing
from pmlkit.cli import NO_MEMORY, lacks_memory
from pmlkit.cli.bench_commands import bench, report, reproduce
from pmlkit.cli.clean_command import clean
from pmlkit.cli.data_commands import convert, info, noise
from pmlkit.cli.demo_command import demo
from pmlkit.cli.model_commands import evaluate, fit, methods, predict
from pmlkit.cli.output import Misuse, printable_lines, say, spell
from pmlkit.cli.params import TABLE_OPTIONS, expand
from pmlkit.cli.review_commands import apply, audit, export, import_answers, review
from pmlkit.cli.stopping import INTERRUPTED, stopped_by, was_terminated
from pmlkit.exceptions import DataError, PMLWarning

FAILED, MISUSED = 1, 2
_SHOWN_WARNINGS = frozenset({"PMLWarning", "ConvergenceWarning"})

logger = logging.getLogger(__name__)


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


app = typer.Typer(
    cls=Commands,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with [cyan]pmlkit demo[/]. Exit codes: 0 done, 1 failed, 2 misused, 130 interrupted, 143 terminated.",
)

_PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Start here": (demo, methods, clean),
    "Asking people": (audit, review, apply, export, import_answers),
    "Data sets": (info, convert, noise),
    "Models": (fit, predict, evaluate),
    "Benchmarks": (bench, report, reproduce),
}
EXAMPLES = """
pmlkit demo
pmlkit demo --rows 5000 --seed 7 --output /tmp/strips
pmlkit methods
pmlkit methods PMLLFC
pmlkit methods --json
pmlkit clean posts.csv --labels tags --sep ';' --text body -o cleaned.csv --report report.html
pmlkit clean photos.csv --labels 'tag_*' --images file=photos --dry-run --log removed.csv
pmlkit audit posts.csv --labels tags --sep ';' --text body --answers answers.csv
pmlkit review posts.csv --labels tags --text body
pmlkit review posts.csv --labels tags --text body --answers tags.sqlite --no-browser
pmlkit apply review.sqlite posts.csv --labels tags --text body -o cleaned.csv
pmlkit export posts.csv --labels tags --text body --to label-studio -o tasks.json
pmlkit import-answers export.json --from label-studio -o answers.csv
pmlkit info pmlkit-demo/demo.npz
pmlkit info posts.csv --labels tags --sep ';' --id post_id
pmlkit info model.skops
pmlkit convert yeast.arff yeast.npz --labels yeast.xml
pmlkit convert posts.csv posts.parquet --labels 'tag_*'
pmlkit noise clean.npz noisy.npz --ratio 0.5
pmlkit noise clean.npz noisy.npz --ratio 1 --kind confusable --seed 3
pmlkit fit pmlkit-demo/demo.npz -o model.skops
pmlkit fit posts.csv --labels 'tag_*' -m PMLLFC -p fit_intercept=true -o posts.skops
pmlkit predict model.skops new.csv -o predictions.csv
pmlkit predict model.skops new.csv --scores | head
pmlkit evaluate model.skops test.npz
pmlkit evaluate model.skops test.csv --labels 'tag_*' --option truth='true_*'
pmlkit evaluate posts.skops checked.csv --option truth=right_tags --sep ';'
pmlkit bench --data digit-strips --methods PMLLFC,MLkNN --noise 0.5,1 --repeats 3
pmlkit bench --data scene --data enron --noise 0.1,0.5,1,2 --jobs 2 --output results.sqlite
pmlkit bench plan.toml --jobs 2
pmlkit report results.sqlite -o report.html
pmlkit report results.sqlite --latex -o tables.tex
pmlkit report results.sqlite --csv | diff means.csv -
pmlkit reproduce --quick --embedded
pmlkit reproduce --quick --jobs 2
pmlkit reproduce --jobs 2 --output reproduction
pmlkit reproduce pml-lc --quick
"""


def _examples(command: str) -> str:
    lines = [line for line in EXAMPLES.splitlines() if line.split()[1:2] == [command]]
    return "\n".join(["[bold]Examples[/]", *(f"  [cyan]{line}[/]" for line in lines)])


def _paragraphs(doc: str) -> str:
    """Return a docstring with one line per paragraph, for a terminal of any width."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in doc.split("\n\n"))


def _show_version(value: bool) -> None:
    if value:
        from pmlkit import __version__

        typer.echo(f"pmlkit {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _pmlkit(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", metavar="", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Learn from candidate labels: find the wrong ones, and train models that they do not mislead."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for _panel, _functions in _PANELS.items():
    for _function in _functions:
        _name = _function.__name__.replace("_", "-")
        _help = _paragraphs(_function.__doc__ or "")
        app.command(_name, rich_help_panel=_panel, help=_help, epilog=_examples(_name))(expand(_function))
