"""The commands that ask people: ``audit`` in the terminal, ``review`` in the browser, and exchange with other tools."""

import contextlib
import getpass
import os
import sys
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from pmlkit._words import counted, printable, shortened
from pmlkit.cli.clean_command import find_suspects, write_labels
from pmlkit.cli.options import (
    Common,
    Force,
    MinRows,
    Settling,
    Source,
    argument,
    check_choice,
    check_output,
    check_shares,
    flag,
    load,
    option,
)
from pmlkit.cli.output import OUT, Misuse, Watch, emit, fact_table, percent_hint, say

if TYPE_CHECKING:
    from pmlkit.cleaning import CleaningResult
    from pmlkit.cleaning.audit import Audit, Question
    from pmlkit.cleaning.review.server import ReviewServer

Output = Annotated[Path, option("The file to write.", "PATH", "--output", "-o")]
_promise_option = partial(option, rich_help_panel="What is promised")


@dataclass(frozen=True)
class Promise:
    """What a certificate promises."""

    precision: Annotated[float, _promise_option("At least this share of what may be removed is wrong.", "SHARE")] = 0.9
    confidence: Annotated[float, _promise_option("The promise holds with this probability.", "SHARE")] = 0.95
    seed: Annotated[int, _promise_option("Seed of the random draws.", "SEED", min=0)] = 0

    @property
    def settings(self) -> dict[str, Any]:
        """Return the arguments of an audit."""
        check_shares(precision=self.precision, confidence=self.confidence)
        return {"precision": self.precision, "confidence": self.confidence, "random_state": self.seed}


def review(
    source: Source,
    common: Common,
    promise: Promise,
    answers: Annotated[Path, option("The answers (SQLite); created or continued.", "PATH")] = Path("review.sqlite"),
    port: Annotated[int, option("Port to listen on; 0 is any free port.", "PORT", min=0, max=65535)] = 0,
    host: Annotated[
        str, option("Address to listen on; another one admits other machines, unencrypted.", "ADDRESS")
    ] = "127.0.0.1",
    no_browser: Annotated[bool, flag("Only print the address.", "--no-browser")] = False,
    min_rows: MinRows = 5,
) -> None:
    """Answer questions about labels in the browser, and learn which labels may safely be removed.

    The page is served on this machine only. Every answer is stored at once; stop with Ctrl-C, and continue later with
    the same command.
    """
    from pmlkit._optional import optional_import

    with Watch("loading the libraries"):
        for needed in ("starlette", "uvicorn"):
            optional_import(needed)
        from pmlkit.cleaning.review import AnswerStore, open_review
        from pmlkit.cleaning.review.server import check_port

    settings = promise.settings
    if answers.exists() and answers.resolve() == source.file.resolve():
        raise Misuse("--answers is the table itself: choose another file.")
    if answers.is_file():
        AnswerStore(answers).close()  # what cannot be used is said before the work begins
    check_port(host, port)
    table = load(source, keep_table=True)
    result = find_suspects(table, "auto", min_rows)
    with Watch("preparing the questions"):  # all answers of an earlier review are counted again
        server = open_review(
            result, answers, title=source.file.name, table=table if hasattr(table, "check_same_format") else None,
            host=host, port=port, **settings,
        )  # fmt: skip
    serve(server, answers, no_browser=no_browser)


def serve(server: "ReviewServer", answers: Path, *, no_browser: bool) -> None:
    """Print the address, open the browser and serve until Ctrl-C."""
    if not server.is_loopback:
        say("warning", f"{server.host} can be reached from other machines, and nothing is encrypted on the way.")
    address = server.address
    OUT.print(Text.assemble("The review page: ", (address, f"bold cyan link {address}")), soft_wrap=True)
    OUT.print(Text(f"Answers are stored in {printable(answers)}. Stop with Ctrl-C."), soft_wrap=True)
    OUT.file.flush()
    if not no_browser:
        with contextlib.suppress(webbrowser.Error):
            webbrowser.open(address)
    try:
        server.run()
    finally:
        n_answers = len(server.answers)
        server.review.close()
        OUT.print(Text(f"{counted(n_answers, 'answer')} in {printable(answers)}."), soft_wrap=True)


def apply(
    store: Annotated[Path, argument("The answers of `pmlkit review` (SQLite).", "ANSWERS")],
    source: Source,
    output: Output,
    common: Common,
    force: Force = False,
) -> None:
    """Apply a review to a table: remove, add and merge labels; every other byte stays as it is."""
    from pmlkit.cleaning.review import apply_review

    check_output(output, store, *source.files, force=force)
    table = load(source, keep_table=True)
    with Watch("applying the answers"):
        applied = apply_review(store, table.X, table.Y, table.label_names)
    with Watch(f"writing {output.name}"):
        write_labels(table, output, applied.Y)
    facts = {
        "answers": applied.n_answers, "called_wrong": applied.n_called_wrong, "certified": applied.n_certified,
        "added": len(applied.added), "merged": applied.merged, "promise": applied.promise, "written": [output],
    }  # fmt: skip
    shown = {
        "answers": applied.n_answers,
        "removed": f"{counted(applied.n_called_wrong, 'label')} called wrong, {applied.n_certified:,} more certified",
        "added": counted(len(applied.added), "label"),
        "merged": ", ".join(f"{name} → {into}" for name, into in applied.merged.items()) or "no names",
        "promise": applied.promise or "none: nothing was certified",
        "cleaned table": output,
    }
    emit(facts, fact_table(shown), as_json=common.json)


def export(
    source: Source,
    output: Output,
    to: Annotated[str, option("The tool: label-studio, argilla, prodigy or huggingface.", "TOOL")],
    common: Common,
    top: Annotated[
        int | None,
        option(
            "How many labels, the most suspicious first; by default all that are more likely wrong than right, and "
            "at least 1,000.",
            "N",
            min=1,
        ),
    ] = None,
    min_rows: MinRows = 5,
    force: Force = False,
) -> None:
    """Write the most suspicious labels as tasks for another annotation tool, which can sort them by suspicion."""
    from pmlkit.cleaning.review.exchange import EXPORTS, LABEL_STUDIO_CONFIG, LABEL_STUDIO_IMAGES, export_suspects

    check_choice(to, EXPORTS, "--to")
    check_output(output, *source.files, force=force)
    table = load(source, keep_table=True)
    result = find_suspects(table, "auto", min_rows)
    has_images = bool(getattr(table, "has_images", False))
    n_tasks = export_suspects(result, output, to, n_suspects=top, table=table if has_images else None, force=True)
    facts: dict[str, object] = {"tasks": n_tasks, "tool": to, "written": [output]}
    interface = LABEL_STUDIO_IMAGES if has_images else LABEL_STUDIO_CONFIG
    extra = ["", "The labelling interface of the project:", interface] if to == "label-studio" else []
    emit(facts, fact_table({"tasks": n_tasks, "for": to, "file": output}), *extra, as_json=common.json)


def import_answers(
    file: Annotated[Path, argument("The file that the tool exported.", "FILE")],
    output: Output,
    tool: Annotated[str, option("The tool: label-studio, prodigy or csv.", "TOOL", "--from")],
    common: Common,
    force: Force = False,
) -> None:
    """Read the annotations of another tool as answers, for `pmlkit clean --answers` or `pmlkit audit --answers`."""
    from pmlkit.cleaning.review.exchange import IMPORTS
    from pmlkit.cleaning.review.exchange import import_answers as read_answers

    check_choice(tool, IMPORTS, "--from")
    check_output(output, file, force=force)
    answers = read_answers(file, tool)
    answers.write(output)
    count = answers.frame["answer"].value_counts()
    facts: dict[str, object] = {"answers": len(answers), **{str(k): int(v) for k, v in count.items()}}
    emit(facts | {"written": [output]}, fact_table(facts | {"file": output}), as_json=common.json)


_ANSWERS = {"a": "right", "x": "wrong", " ": "unsure"}
_UNDO, _STOP = ("\x7f", "\x08"), ("q", "\x03", "\x04", "")
_KEYS = "a right   x wrong   space unsure   backspace undo   q stop and save"
_WHY = {
    "audit": "a random sample, to learn how many labels are wrong",
    "suspicious": "the most suspicious label by all answers so far",
    "certificate": "a random draw from the labels that are to be certified",
    "repeat": "asked before, to see whether it is answered alike",
}
_TEXT_LENGTH, _N_FEATURES, _BAR = 1200, 8, 12


def audit(
    source: Source,
    common: Common,
    promise: Promise,
    answers: Annotated[Path, option("The answers (.csv); created or continued.", "PATH")] = Path("answers.csv"),
    output: Annotated[Path | None, option("Write the cleaned table at the end.", "PATH", "--output", "-o")] = None,
    answer_error: Annotated[float, _promise_option("Assumed share of mistaken answers.", "SHARE")] = 0.0,
    who: Annotated[str | None, option("The name stored with the answers; by default the user name.", "NAME")] = None,
    settle: Settling = "latest",
    min_rows: MinRows = 5,
    force: Force = False,
) -> None:
    """Answer questions about labels in the terminal, and learn which labels may safely be removed.

    Every answer is saved at once; stop with q or Ctrl-C, and continue later with the same command.
    """
    state = answers.with_name(answers.name + ".audit.json")
    check_output(answers, *source.files, force=True)
    check_output(state, *source.files, force=True)
    if output is not None:
        check_output(output, answers, *source.files, force=force)
    settings = promise.settings | {"answer_error": answer_error, "settle": settle}
    if not 0 <= answer_error < 0.5:
        hint = percent_hint("answer-error", answer_error) if 1 <= answer_error < 50 else ""
        raise Misuse(f"--answer-error must be at least 0 and below 0.5, got {answer_error:g}.{hint}")
    table = load(source, keep_table=True)
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
            "Is ", (printable(question.label), "bold yellow"), " right for ", (printable(question.name), "bold"), "?"
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
