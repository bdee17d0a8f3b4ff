"""The command ``demo``: prints the results of `pmlkit.demo` and writes its files."""

import contextlib
import os
import shlex
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text

from pmlkit._files import check_target, replacing
from pmlkit._words import CLEANING, FIVE, PRECISION_AT
from pmlkit.cli.options import Common, Force, flag, option
from pmlkit.cli.output import OUT, Watch, comparison, emit, heading, plain_table
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from rich.table import Table

    from pmlkit.demo import Demo, DemoAudit

_DATA, _MODEL, _SHEET = "demo.npz", "model.skops", "contact-sheet.html"
_SAVED = "ClearPML"


def demo(
    common: Common,
    out: Annotated[Path, option("Folder for the data, a model and a page.", "DIR", "--output", "-o")] = Path(
        "pmlkit-demo"
    ),
    rows: Annotated[int, option("Number of images.", "N", min=50, max=100000)] = 2000,
    seed: Annotated[int, option("The same seed gives the same demo.", "SEED", min=0)] = 0,
    review: Annotated[bool, flag("Instead, open the review page on the images.", "--review")] = False,
    no_browser: Annotated[bool, flag("With --review: only print the address.", "--no-browser")] = False,
    force: Force = False,
) -> None:
    """Try pmlkit on embedded data: find false labels of images of handwritten digits, and learn despite them.

    Needs no file and no network. An earlier demo in the folder is replaced.
    """
    if review:
        _review(out, rows, seed, no_browser)
        return
    paths = _prepare_folder(out, force)
    with Watch("starting") as watch:
        from pmlkit.demo import N_STAGES, run_demo

        watch.expect(N_STAGES + 1)
        found = run_demo(rows, random_state=seed, on_stage=watch.begin)
        watch.begin("writing the files")
        _write_files(found, paths)
    facts = _facts(found, paths)
    if common.json:
        emit(facts, as_json=True)
    else:
        _print(found, paths)


def _review(out: Path, rows: int, seed: int, no_browser: bool) -> None:
    """Let a person answer questions about the images' labels; the truth is not asked."""
    from pmlkit.cleaning import clean
    from pmlkit.cleaning.review import open_review
    from pmlkit.cli.review_commands import serve
    from pmlkit.data import load_digit_strips

    answers = out / f"review-{rows}-{seed}.sqlite"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"The folder {str(out)!r} cannot be made: {error.strerror}.") from error
    with Watch("looking for false labels"):
        strips = load_digit_strips(rows, random_state=seed)
        result = clean(strips.X, strips.Y, label_names=strips.label_names, media=strips.media)
    server = open_review(result, answers, title=f"{rows:,} strips of handwritten digits")
    serve(server, answers, no_browser=no_browser)


def _prepare_folder(out: Path, force: bool) -> dict[str, Path]:
    """Make the folder and return the paths of the three files, which are new or those of an earlier demo."""
    paths = {name: out / name for name in (_DATA, _MODEL, _SHEET)}
    if out.exists() and not out.is_dir():
        raise DataError(f"{str(out)!r} is a file: choose another folder with --output.")
    if any(path.exists() for path in paths.values()):
        force = force or _is_demo(paths[_DATA])
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"The folder {str(out)!r} cannot be made: {error.strerror}.") from error
    for path in paths.values():
        check_target(path, force=force)
    return paths


def _is_demo(path: Path) -> bool:
    from pmlkit.data import read

    with contextlib.suppress(DataError, OSError):
        return read(path, format="npz").name == "digit strips"
    return False


def _write_files(found: "Demo", paths: dict[str, Path]) -> None:
    from pmlkit.data import write
    from pmlkit.demo import contact_sheet
    from pmlkit.persistence import save

    title = f"The {len(found.suspects)} most suspicious labels"
    page = contact_sheet(found.data, found.suspects, title=title)
    write(found.data, paths[_DATA], force=True)
    save(found.methods[_SAVED].model, paths[_MODEL], force=True)
    with replacing(paths[_SHEET]) as stream:
        stream.write(page.encode())


def _facts(found: "Demo", paths: dict[str, Path]) -> dict[str, object]:
    names = found.data.label_names
    return {
        "rows": found.data.n_samples,
        "training_rows": found.n_train,
        "methods": {
            name: {"seconds": round(method.seconds, 3), "metrics": method.metrics, "cleaning": method.cleaning}
            for name, method in found.methods.items()
        },
        "suspects": [
            {
                "row": suspect.row,
                "label": names[suspect.label],
                "confidence": suspect.confidence,
                "is_wrong": suspect.is_wrong,
            }
            for suspect in found.suspects
        ],
        "audit": asdict(found.audit),
        "files": list(paths.values()),
    }


def _print(found: "Demo", paths: dict[str, Path]) -> None:
    n_rows, n_train = found.data.n_samples, found.n_train
    cleaning = found.methods[_SAVED].cleaning
    n_false, n_candidates = int(cleaning["n_false_candidates"]), int(cleaning["n_candidates"])
    n_wrong = sum(suspect.is_wrong for suspect in found.suspects)
    OUT.print(
        f"{n_rows:,} images of 2 to 4 handwritten digits. Each is labelled with the digits that it shows and "
        "with about as many that only look like them. Four methods learn from these candidate labels; none is "
        "told which are false.",
        "",
        heading(f"Predicting {n_rows - n_train:,} new images, evaluated against the truth"),
        comparison({name: method.metrics for name, method in found.methods.items()}, FIVE),
        "",
        heading(f"Finding the {n_false:,} false labels among {n_candidates:,} in {n_train:,} training images"),
        comparison({name: method.cleaning for name, method in found.methods.items()}, (*CLEANING, PRECISION_AT)),
        "",
        heading(f"The {len(found.suspects)} most suspicious labels of pmlkit clean: {n_wrong} are wrong"),
        _suspect_table(found),
        "",
        heading(f"Asking a person: {found.audit.n_answers} answers, here from the truth"),
        *_audit_lines(found.audit),
        "",
        sep="\n",
    )
    sheet, model, file = (shlex.quote(str(paths[name])) for name in (_SHEET, _MODEL, _DATA))
    other = shlex.quote(str(paths[_MODEL].with_name("lfc.skops")))
    OUT.print(
        Text.assemble("Look at them in ", (sheet, "bold cyan"), ". Then try:"),
        Text(f"  {_program()} info {file}", style="cyan"),
        Text(f"  {_program()} predict {model} {file} | head", style="cyan"),
        Text(f"  {_program()} fit {file} -m PMLLFC -o {other}", style="cyan"),
        Text(f"  {_program()} demo --review", style="cyan"),
        sep="\n",
        soft_wrap=True,
    )


def _audit_lines(audit: "DemoAudit") -> list[str]:
    def interval(rate: tuple[float, float, float]) -> str:
        return f"{100 * rate[0]:.0f} % ({100 * rate[1]:.0f} to {100 * rate[2]:.0f} %)"

    lines = [
        f"Labels that are wrong, without answers: about {interval(audit.noise_rate_before)};",
        f"with {audit.n_answers} answers: {interval(audit.noise_rate_after)}.",
    ]
    if not audit.promise:
        return [*lines, "Nothing is certified: too few answers for so many labels."]
    return [*lines, audit.promise, f"By the truth, {audit.n_removed_wrong:,} of the {audit.n_removed:,} are wrong."]


def _suspect_table(found: "Demo") -> "Table":
    data = found.data
    truth = data.Y if data.truth is None else data.truth
    table = plain_table("row", "labelled", "it shows", "suspect", "confidence", "", right=(0, 4))
    for suspect in found.suspects:
        given, shown = (" ".join(data.label_names[k] for k in part[[suspect.row]].indices) for part in (data.Y, truth))
        verdict = Text("✗ wrong", style="red") if suspect.is_wrong else Text("✓ right", style="green")
        name = Text(data.label_names[suspect.label], style="bold")
        table.add_row(
            Text(str(suspect.row)), Text(given), Text(shown), name, Text(f"{suspect.confidence:.3f}"), verdict
        )
    return table


def _program() -> str:
    """Return how this program can be called again: by its name only where the shell finds it."""
    called = Path(sys.argv[0])
    if shutil.which("pmlkit") or called.name != "pmlkit":
        return "pmlkit"
    return shlex.quote(os.path.relpath(called))
