"""The commands ``review``, ``apply``, ``export`` and ``import-answers``: words around `pmlkit.cleaning.review`."""

import contextlib
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from pmlkit._words import counted
from pmlkit.cli.output import OUT, Misuse, Watch, emit, fact_table, printable, say
from pmlkit.cli.params import Columns, Common, Force, InputFile, Reading, check_shares
from pmlkit.cli.steps import check_output, find_suspects, load, write_labels

if TYPE_CHECKING:
    from pmlkit.cleaning.review.server import ReviewServer

__all__ = ["apply", "export", "import_answers", "review", "serve"]

Output = Annotated[Path, typer.Option("--output", "-o", metavar="PATH", help="The file to write.")]
_PROMISE = "What the certificate promises"


def review(
    file: InputFile,
    reading: Reading,
    columns: Columns,
    common: Common,
    answers: Annotated[
        Path, typer.Option(metavar="PATH", help="The answers (SQLite); created if absent, continued if present.")
    ] = Path("review.sqlite"),
    precision: Annotated[
        float, typer.Option(help="At least this share of what may be removed is wrong.", rich_help_panel=_PROMISE)
    ] = 0.9,
    confidence: Annotated[
        float, typer.Option(help="The promise holds with this probability.", rich_help_panel=_PROMISE)
    ] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random draws.", rich_help_panel=_PROMISE)] = 0,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 is any free port.")] = 0,
    host: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Address to listen on; another one admits other machines, unencrypted."),
    ] = "127.0.0.1",
    no_browser: Annotated[bool, typer.Option("--no-browser", metavar="", help="Only print the address.")] = False,
    min_rows: Annotated[int, typer.Option(min=1, help="Do not judge labels that are on fewer rows.")] = 5,
) -> None:
    """Answer questions about labels in the browser, and learn which labels may safely be removed.

    The page is served on this machine only. Every answer is stored at once; stop with Ctrl-C, and continue later with
    the same command.
    """
    from pmlkit._optional import optional_import

    for needed in ("starlette", "uvicorn"):
        optional_import(needed)
    from pmlkit.cleaning.review import AnswerStore, open_review
    from pmlkit.cleaning.review.server import check_port

    check_shares(precision=precision, confidence=confidence)
    if answers.exists() and answers.resolve() == file.resolve():
        raise Misuse("--answers is the table itself: choose another file.")
    if answers.is_file():
        AnswerStore(answers).close()  # what cannot be used is said before the work begins
    check_port(host, port)
    table = load(file, reading, columns, keep_table=True)
    result = find_suspects(table, "auto", min_rows)
    server = open_review(
        result, answers, title=file.name, table=table if hasattr(table, "check_same_format") else None,
        precision=precision, confidence=confidence, random_state=seed, host=host, port=port,
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
    store: Annotated[Path, typer.Argument(metavar="ANSWERS", help="The store of a review (SQLite).")],
    file: InputFile,
    output: Output,
    reading: Reading,
    columns: Columns,
    common: Common,
    force: Force = False,
) -> None:
    """Apply a review to a table: remove, add and merge labels; every other byte stays as it is."""
    from pmlkit.cleaning.review import apply_review

    check_output(output, file, store, *reading.files, *columns.files, force=force)
    table = load(file, reading, columns, keep_table=True)
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
    file: InputFile,
    output: Output,
    to: Annotated[str, typer.Option(metavar="TOOL", help="label-studio, argilla, prodigy or huggingface.")],
    reading: Reading,
    columns: Columns,
    common: Common,
    top: Annotated[int | None, typer.Option(min=1, help="How many, most suspicious first.")] = None,
    min_rows: Annotated[int, typer.Option(min=1, help="Do not judge labels that are on fewer rows.")] = 5,
    force: Force = False,
) -> None:
    """Write the most suspicious labels as tasks for another annotation tool, which can sort them by suspicion."""
    from pmlkit._words import did_you_mean
    from pmlkit.cleaning.review.exchange import EXPORTS, LABEL_STUDIO_CONFIG, LABEL_STUDIO_IMAGES, export_suspects

    if to not in EXPORTS:
        raise Misuse(f"--to must be one of {', '.join(EXPORTS)}, got {to!r}.{did_you_mean(to, EXPORTS)}")
    check_output(output, file, *reading.files, *columns.files, force=force)
    table = load(file, reading, columns, keep_table=True)
    result = find_suspects(table, "auto", min_rows)
    has_images = bool(getattr(table, "has_images", False))
    n_tasks = export_suspects(result, output, to, n_suspects=top, table=table if has_images else None, force=True)
    facts: dict[str, object] = {"tasks": n_tasks, "tool": to, "written": [output]}
    interface = LABEL_STUDIO_IMAGES if has_images else LABEL_STUDIO_CONFIG
    extra = ["", "The labelling interface of the project:", interface] if to == "label-studio" else []
    emit(facts, fact_table({"tasks": n_tasks, "for": to, "file": output}), *extra, as_json=common.json)


def import_answers(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What the tool exported.")],
    output: Output,
    source: Annotated[str, typer.Option("--from", metavar="TOOL", help="label-studio, prodigy or csv.")],
    common: Common,
    force: Force = False,
) -> None:
    """Read the annotations of another tool as answers, for `pmlkit clean --answers` or `pmlkit audit --answers`."""
    from pmlkit._words import did_you_mean
    from pmlkit.cleaning.review.exchange import IMPORTS
    from pmlkit.cleaning.review.exchange import import_answers as read_answers

    if source not in IMPORTS:
        raise Misuse(f"--from must be one of {', '.join(IMPORTS)}, got {source!r}.{did_you_mean(source, IMPORTS)}")
    check_output(output, file, force=force)
    answers = read_answers(file, source)
    answers.write(output)
    count = answers.frame["answer"].value_counts()
    facts: dict[str, object] = {"answers": len(answers), **{str(k): int(v) for k, v in count.items()}}
    emit(facts | {"written": [output]}, fact_table(facts | {"file": output}), as_json=common.json)
