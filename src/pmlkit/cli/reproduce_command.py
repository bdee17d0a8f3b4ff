"""The command ``reproduce``: the paper of PML-LFC, run again and put beside its figures."""

import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pmlkit.cli.errors import Misuse
from pmlkit.cli.output import ERR, emit, fact_table, say
from pmlkit.cli.params import Common
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit.bench import Plan
    from pmlkit.bench.paper.grid import Experiments
    from pmlkit.bench.paper.page import Reproduction

__all__ = ["reproduce"]

_STORE = "results.sqlite"
_PAPER_REPEATS, _QUICK_REPEATS = 10, 2
_BUDGET, _QUICK_BUDGET = 3600.0, 40.0  # seconds of a cell
_QUICK_SHARE = 0.25  # of the budget: what takes longer is not repeated in a quick run


def reproduce(
    common: Common,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", metavar="", help=f"{_QUICK_REPEATS} repeats, {_QUICK_BUDGET:g} s a cell: minutes, not days."
        ),
    ] = False,
    embedded: Annotated[
        bool,
        typer.Option("--embedded", metavar="", help="On the embedded digit strips: needs no data file."),
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="The folder; what its store has is not run again.")
    ] = Path("reproduction"),
    jobs: Annotated[int, typer.Option("--jobs", "-j", metavar="N", help="Processes at once.", min=1)] = 1,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help=f"Seconds a cell may take. \\[default: {_BUDGET:g}; with --quick {_QUICK_BUDGET:g}]",
            min=0.1,
            show_default=False,
        ),
    ] = None,
    repeat_limit: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="What takes longer at its first repeat on a data set is not repeated there, but listed with its "
            "cost. \\[default: no limit; with --quick a quarter of the budget]",
            min=0.0,
            show_default=False,
        ),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", metavar="", help="Run the cells again that failed before.")
    ] = False,
) -> None:
    """Run the paper of PML-LFC again: tables 1 to 3, figures 3 and 4, and a written verdict on its claims.

    It can be stopped at any moment; the same command goes on. A method that fails or takes too long at its first
    repeat on a data set is not tried there again, and listed.
    """
    from pmlkit.bench import load_cells
    from pmlkit.bench.paper.grid import embedded_experiments, missing_methods, paper_experiments

    repeats = _QUICK_REPEATS if quick else _PAPER_REPEATS
    seconds = budget if budget is not None else _QUICK_BUDGET if quick else _BUDGET
    if embedded:
        experiments = embedded_experiments(repeats=repeats)
    else:
        usual = _QUICK_SHARE * seconds if quick else math.inf
        limit = usual if repeat_limit is None else repeat_limit
        experiments = paper_experiments(repeats=repeats, repeat_limit=limit)
    _check_data(experiments)
    if absent := missing_methods():
        say("warning", f"This pmlkit has no {', '.join(absent)}: the others are run.")
    store = _folder(out) / _STORE
    runner = _Runner(store, jobs, seconds, retry_failed)
    runner.run("the first look", experiments.first_look())
    for plan in experiments.tables(load_cells(store)):
        runner.run(f"tables 2 and 3 on {', '.join(entry.name for entry in plan.data)}", plan)
    for plan in experiments.figures():
        runner.run(f"a figure on {plan.data[0].name}", plan)
    from pmlkit.bench.paper.page import reproduction, write_files

    found = reproduction(load_cells(store), experiments)
    command = shlex.join(["pmlkit", *sys.argv[1:]]) if sys.argv[1:2] == ["reproduce"] else "pmlkit reproduce"
    paths = write_files(found, out, [command])
    _tell(found, runner, [store, *paths], common)


class _Runner:
    """Runs plans one after the other, into one store."""

    def __init__(self, store: Path, jobs: int, seconds: float, retry_failed: bool) -> None:
        self._store, self._jobs, self._seconds, self._retry_failed = store, jobs, seconds, retry_failed
        self.n_run = 0
        self.seconds = 0.0

    def run(self, what: str, plan: "Plan") -> None:
        from pmlkit.bench import run_plan
        from pmlkit.bench.display import Display

        say("now", what)
        summary = run_plan(
            plan,
            self._store,
            jobs=self._jobs,
            max_seconds=self._seconds,
            retry_failed=self._retry_failed,
            observer=Display(ERR),
            command=shlex.join(["pmlkit", *sys.argv[1:]]),
        )
        self.n_run += summary.n_run
        self.seconds += summary.seconds


def _check_data(experiments: "Experiments") -> None:
    from pmlkit.data import data_home

    if not experiments.missing:
        return
    files = ", ".join(f"{name}.npz" for name in experiments.missing)
    where = f"Put {files} into {str(data_home())!r} (PMLKIT_DATA names the folder)"
    if not experiments.data:
        raise Misuse(f"None of the paper's data sets is there. {where}, or use --embedded, which needs no file.")
    say("warning", f"Not all of the paper's data sets are there. {where} and run this again; the others are run now.")


def _folder(out: Path) -> Path:
    if out.exists() and not out.is_dir():
        raise DataError(f"{str(out)!r} is a file: choose another folder with --out.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"The folder {str(out)!r} cannot be made: {error.strerror}.") from error
    return out


def _tell(found: "Reproduction", runner: _Runner, paths: list[Path], common: Common) -> None:
    rulings = [claim.ruling for claim in found.claims]
    facts: dict[str, object] = {
        "cells run now": runner.n_run,
        "seconds": round(runner.seconds, 1),
        "claims that hold": rulings.count("holds"),
        "hold in part": rulings.count("holds in part"),
        "do not hold": rulings.count("does not hold"),
        "not tested": rulings.count("not tested"),
        "read": paths[0].parent / "verdict.md",
        "look at": paths[0].parent / "report.html",
    }
    as_json = {key.replace(" ", "_"): value for key, value in facts.items()} | {
        "files": paths,
        "claims": [vars(claim) for claim in found.claims],
    }
    emit(as_json, fact_table(facts), as_json=common.json)
