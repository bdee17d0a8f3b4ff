"""The command ``reproduce``: the paper of PML-LFC, run again and compared with its figures."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pmlkit.cli.output import ERR, Misuse, emit, fact_table, say
from pmlkit.cli.params import Common

if TYPE_CHECKING:
    from pmlkit.bench.paper import Reproduction

__all__ = ["reproduce"]


def reproduce(
    common: Common,
    paper: Annotated[
        str,
        typer.Argument(metavar="PAPER", help="Which paper: pml-lfc (2020), or pml-lc (2018: PML-lc and PML-fp)."),
    ] = "pml-lfc",
    quick: Annotated[
        bool,
        typer.Option("--quick", metavar="", help="2 repeats and 40 s per cell: minutes instead of days."),
    ] = False,
    embedded: Annotated[
        bool,
        typer.Option("--embedded", metavar="", help="On the embedded digit strips, which need no data file."),
    ] = False,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="DIR", help="Folder of the results; cells that it has are not run again."),
    ] = Path("reproduction"),
    jobs: Annotated[int, typer.Option("--jobs", "-j", metavar="N", help="Number of processes.", min=1)] = 1,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="Time limit per cell, in seconds. \\[default: 3600; with --quick 40]",
            min=0.1,
            show_default=False,
        ),
    ] = None,
    repeat_limit: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="Seconds; a method that takes longer at its first repeat on a data set is run only once there. "
            "\\[default: no limit; with --quick a quarter of the budget]",
            min=0.0,
            show_default=False,
        ),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", metavar="", help="Run cells again that failed before.")
    ] = False,
) -> None:
    """Run the paper of PML-LFC again: tables 1 to 3, figures 3 and 4, and a verdict on each of its claims.

    The same command continues an interrupted run. A method that fails or takes too long at its first repeat on a
    data set is not run there again, and is listed.

    With pml-lc: five metrics under the protocol of the paper of PML-lc and PML-fp, beside its published figures. Only
    --quick (2 repeats, at most 1,000 rows) and --out count there.
    """
    from pmlkit.bench.paper import embedded_experiments, paper_experiments
    from pmlkit.bench.paper import reproduce as reproduce_paper
    from pmlkit.cli.bench_progress import Display
    from pmlkit.data import data_home

    if paper not in ("pml-lfc", "pml-lc"):
        raise Misuse(f"There is no paper {paper!r}; there are pml-lfc and pml-lc.")
    if paper == "pml-lc":
        _reproduce_pml_lc(out, quick, common)
        return
    if not embedded and (missing := paper_experiments().missing):
        files = ", ".join(f"{name}.npz" for name in missing)
        where = f"Put {files} into {str(data_home())!r} (PMLKIT_DATA names the folder)"
        if not paper_experiments().data:
            raise Misuse(f"None of the paper's data sets is there. {where}, or use --embedded, which needs no file.")
        say("warning", f"Not all of the paper's data sets are there. {where} and run this again; the others run now.")
    found = reproduce_paper(
        out,
        quick=quick,
        experiments=embedded_experiments(repeats=2 if quick else 10) if embedded else None,
        jobs=jobs,
        max_seconds=budget,
        repeat_limit=repeat_limit,
        retry_failed=retry_failed,
        progress=Display(ERR),
        command=shlex.join(["pmlkit", *sys.argv[1:]]) if sys.argv[1:2] == ["reproduce"] else "pmlkit reproduce",
    )
    _print(found, out, common)


def _reproduce_pml_lc(out: Path, quick: bool, common: Common) -> None:
    from pmlkit.bench.paper.pml_lc import DATA, reproduce_pml_lc
    from pmlkit.data import data_home

    data = [name for name in DATA if (data_home() / f"{name}.npz").is_file()]
    if not data:
        raise Misuse(
            f"None of {', '.join(DATA)} is in {str(data_home())!r}. PMLKIT_DATA names the folder of data sets."
        )
    if missing := [name for name in DATA if name not in data]:
        say("warning", f"{', '.join(missing)}: not in {str(data_home())!r}; the others run now.")
    figures = reproduce_pml_lc(out, data=data, repeats=2 if quick else 5, max_rows=1000 if quick else None)
    known = figures[figures["published"].notna()]
    facts: dict[str, object] = {
        "data sets": len(data),
        "published figures": len(known),
        "mean difference": round(float((known["mean"] - known["published"]).abs().mean()), 3),
        "read": out / "pml-lc.md",
        "look at": out / "pml-lc.csv",
    }
    emit({key.replace(" ", "_"): value for key, value in facts.items()}, fact_table(facts), as_json=common.json)


def _print(found: "Reproduction", out: Path, common: Common) -> None:
    rulings = [claim.ruling for claim in found.claims]
    facts: dict[str, object] = {
        "cells run now": found.n_run,
        "seconds": round(found.seconds, 1),
        "claims that hold": rulings.count("holds"),
        "hold in part": rulings.count("holds in part"),
        "do not hold": rulings.count("does not hold"),
        "not tested": rulings.count("not tested"),
        "read": out / "verdict.md",
        "look at": out / "report.html",
    }
    as_json = {key.replace(" ", "_"): value for key, value in facts.items()} | {
        "files": [found.store, *found.files],
        "claims": [vars(claim) for claim in found.claims],
    }
    emit(as_json, fact_table(facts), as_json=common.json)
