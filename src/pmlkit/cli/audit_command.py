"""The command ``audit``: asks about labels in the terminal, one card at a time, and says what the answers promise."""

import contextlib
import getpass
import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from pmlkit._words import counted, shortened
from pmlkit.cli.output import OUT, Misuse, emit, fact_table, printable, say
from pmlkit.cli.params import Columns, Common, Force, InputFile, Reading, Settling, check_shares
from pmlkit.cli.steps import check_output, find_suspects, load, write_labels

if TYPE_CHECKING:
    from pmlkit.cleaning import CleaningResult
    from pmlkit.cleaning.audit import Audit, Question

__all__ = ["audit"]

_ANSWERS = {"a": "right", "x": "wrong", " ": "unsure"}
_UNDO, _STOP = ("\x7f", "\x08"), ("q", "\x03", "\x04", "")
_KEYS = "a right   x wrong   space unsure   backspace undo   q stop and save"
_WHY = {
    "audit": "a random sample, to learn how many labels are wrong",
    "suspicious": "the most suspicious label by all answers so far",
    "certificate": "a random draw from the labels that are to be certified",
    "repeat": "asked before, to see whether it is answered alike",
}
_PROMISE = "What is promised"
_TEXT_LENGTH, _N_FEATURES, _BAR = 1200, 8, 12


def audit(
    file: InputFile,
    reading: Reading,
    columns: Columns,
    common: Common,
    answers: Annotated[
        Path, typer.Option(metavar="PATH", help="The answers (.csv); created if absent, continued if present.")
    ] = Path("answers.csv"),
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH", help="Write the table without the removable labels at the end."),
    ] = None,
    precision: Annotated[
        float, typer.Option(help="At least this share of what may be removed is wrong.", rich_help_panel=_PROMISE)
    ] = 0.9,
    confidence: Annotated[
        float, typer.Option(help="The promise holds with this probability.", rich_help_panel=_PROMISE)
    ] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random draws.", rich_help_panel=_PROMISE)] = 0,
    answer_error: Annotated[
        float, typer.Option(help="Assumed share of mistaken answers.", rich_help_panel=_PROMISE)
    ] = 0.0,
    who: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name stored with the answers; by default the user name.")
    ] = None,
    settle: Settling = "latest",
    min_rows: Annotated[int, typer.Option(min=1, help="Do not judge labels that are on fewer rows.")] = 5,
    force: Force = False,
) -> None:
    """Answer questions about labels in the terminal, and learn which labels may safely be removed.

    Every answer is saved at once; stop with q or Ctrl-C, and continue later with the same command.
    """
    state = answers.with_name(answers.name + ".audit.json")
    check_output(answers, file, *reading.files, *columns.files, force=True)
    check_output(state, file, *reading.files, *columns.files, force=True)
    if output is not None:
        check_output(output, file, answers, *reading.files, *columns.files, force=force)
    settings: dict[str, Any] = {
        "precision": precision,
        "confidence": confidence,
        "random_state": seed,
        "answer_error": answer_error,
        "settle": settle,
    }
    check_shares(precision=precision, confidence=confidence)
    if not 0 <= answer_error < 0.5:
        hint = f" For {answer_error:g} % write --answer-error {answer_error / 100:g}." if 1 <= answer_error < 50 else ""
        raise Misuse(f"--answer-error must be at least 0 and below 0.5, got {answer_error:g}.{hint}")
    table = load(file, reading, columns, keep_table=True)
    if not sys.stdin.isatty():
        raise Misuse("pmlkit audit asks in a terminal, and this is none: run it in one, or use pmlkit review.")
    result = find_suspects(table, "auto", min_rows)
    if state.exists():
        asked = result.audit(resume=state, **settings)
        say("note", f"going on with {counted(asked.n_answers, 'answer')} of {answers.name}.")
    else:
        asked = result.audit(answers=answers if answers.exists() else None, **settings)
    _ask(asked, lambda: _save(asked, answers, state), who or _user(), getattr(table, "feature_names", None))
    _save(asked, answers, state)
    if output is not None:
        write_labels(table, output, asked.cleaned())
    _finish(asked, answers, output, common)


def _ask(audit: "Audit", save: Callable[[], None], who: str, names: Any) -> None:
    """Show one card after another until nothing is left or the person stops; every answer is saved at once."""
    with _keys() as read_key, contextlib.suppress(KeyboardInterrupt):
        while (question := audit.next()) is not None:
            _show(_card(audit, question, names))
            key = read_key()
            while key not in (*_ANSWERS, *_UNDO, *_STOP):
                key = read_key()
            if key in _STOP:
                return
            if key in _UNDO:
                if audit.n_answers:
                    audit.undo()
            else:
                audit.answer(question, _ANSWERS[key], who=who, when=datetime.now(UTC).isoformat(timespec="seconds"))
            save()


def _save(audit: "Audit", answers: Path, state: Path) -> None:
    audit.save(state)
    audit.answers.write(answers)


def _user() -> str:
    with contextlib.suppress(Exception):
        return getpass.getuser()
    return ""


def _show(card: RenderableType) -> None:
    OUT.clear()
    OUT.print(card)
    OUT.file.flush()


def _card(audit: "Audit", question: "Question", names: Any) -> RenderableType:
    import numpy as np

    result = audit.result
    row = question.row
    start, stop = int(result.Y.indptr[row]), int(result.Y.indptr[row + 1])
    probability = audit.probability
    labels = sorted(range(start, stop), key=lambda cell: probability[cell])
    lines: list[RenderableType] = [
        Rule(Text(f"question {audit.n_answers + 1}: {_WHY[question.kind]}", style="dim"), style="dim", align="left"),
        Text.assemble(
            "Is ", (printable(question.label), "bold yellow"), " wrong for ", (printable(question.name), "bold"), "?"
        ),
        Padding(_content(result, row, names), (1, 2)),
    ]
    width = max(len(printable(result.label_names[int(result.Y.indices[cell])])) for cell in labels)
    for cell in labels:
        name = printable(result.label_names[int(result.Y.indices[cell])])
        share = 1.0 - float(probability[cell])
        bar = "█" * round(share * _BAR)
        style = "bold yellow" if cell == question.cell else ""
        mark = "►" if cell == question.cell else " "
        lines.append(
            Text.assemble(
                (f"{mark} {name:{width}s}  ", style), (f"{bar:{_BAR}s}", "cyan"), f" {100 * share:3.0f} % right"
            )
        )
    reason = result.reasons(np.array([question.cell]))[0]
    for title, style, parts in (("against", "red", reason.against), ("for", "green", reason.in_favour)):
        for part in parts:
            lines.append(Text.assemble((f"{title:8s}", style), printable(part.text)))
    lines += [Text(), Text(audit.status(), style="dim"), Rule(style="dim"), Text(_KEYS, style="bold")]
    return Group(*lines)


def _content(result: "CleaningResult", row: int, names: Any) -> Text:
    """Return the row itself: its text, or the features that stand out most."""
    import numpy as np

    if result.media is not None and not isinstance(result.media, np.ndarray):
        text = printable(result.media[row])
        return Text(shortened(text, _TEXT_LENGTH))
    if result.X is None:
        return Text("(no features)", style="dim")
    values = np.asarray(result.X[[row]].toarray() if hasattr(result.X, "toarray") else result.X[[row]]).ravel()
    if hasattr(result.X, "toarray"):
        unusual = np.abs(values)
    else:
        spread = result.X.std(axis=0)
        unusual = np.abs(values - result.X.mean(axis=0)) / np.where(spread > 0, spread, np.inf)
    first = np.argsort(-unusual, kind="stable")[:_N_FEATURES]
    called = [printable(names[j]) if names is not None else f"feature {j}" for j in first]
    return Text("   ".join(f"{name} = {values[j]:.4g}" for name, j in zip(called, first, strict=True)))


def _finish(audit: "Audit", answers: Path, output: Path | None, common: Common) -> None:
    facts: dict[str, object] = audit.facts() | {
        "worth_going_on": audit.worth_going_on_,
        "written": [answers] if output is None else [answers, output],
    }
    shown = {"so far": audit.status(), "answers": answers}
    if len(audit.contradictions):
        counts = "latest answer counts" if audit.settle == "latest" else "majority counts"
        shown["contradictions"] = f"{len(audit.contradictions)}; the {counts}"
    if not audit.worth_going_on_:
        shown["going on"] = "the next fifty answers are expected to bring fewer than ten wrong labels"
    if output is not None:
        shown["cleaned table"] = output
    emit(facts, fact_table(shown), as_json=common.json)


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """Yield a function that waits for one key; the terminal is put back whatever happens."""
    try:
        import termios
        import tty
    except ImportError:  # Windows
        import msvcrt

        def read() -> str:
            key = str(msvcrt.getwch())  # type: ignore[attr-defined,unused-ignore]
            if key == "\x03":
                raise KeyboardInterrupt
            return key

        yield read
        return
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    try:
        tty.setcbreak(number)
        yield lambda: os.read(number, 1).decode("utf-8", errors="replace")
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)
