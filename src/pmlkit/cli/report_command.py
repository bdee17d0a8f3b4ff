"""The command ``report``: what a store of results says, as a page, as LaTeX or as CSV."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pmlkit._files import replacing
from pmlkit._words import did_you_mean
from pmlkit.cli.errors import Misuse
from pmlkit.cli.output import emit, fact_table
from pmlkit.cli.output_paths import check_output
from pmlkit.cli.params import Common, Force
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    import pandas as pd

    from pmlkit.bench.summary import Summary

__all__ = ["report"]


def report(
    common: Common,
    store: Annotated[
        Path, typer.Argument(metavar="STORE", help="What `pmlkit bench` wrote, .sqlite.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="The file to write. \\[default: report.html; with --latex or --csv, standard output]",
            show_default=False,
        ),
    ] = None,
    latex: Annotated[
        bool, typer.Option("--latex", metavar="", help="Tables for a paper instead of the page (booktabs).")
    ] = False,
    csv: Annotated[
        bool,
        typer.Option(
            "--csv",
            metavar="",
            help="Means and deviations without times, sorted: two runs of one plan give the same bytes.",
        ),
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            help="The method to compare the others with. \\[default: the best]",
            show_default=False,
        ),
    ] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="The heading of the page.")] = "Benchmark report",
    force: Force = False,
) -> None:
    """Judge the results of a bench: one page with tables, tests and pictures, that opens without a network."""
    if latex and csv:
        raise Misuse("--latex and --csv are two different outputs: ask for one at a time.")
    target = output if output is not None or latex or csv else Path("report.html")
    if target is not None:
        check_output(target, store, force=force)
    from pmlkit.bench import load_cells

    cells = load_cells(store)
    if cells.empty:
        raise DataError(f"{str(store)!r} has no finished cell yet: run `pmlkit bench -o {store}` first.")
    if csv:
        from pmlkit.bench.means import means_csv

        text, n_cells = means_csv(cells), len(cells)
    else:
        summary = _summarize(cells, against)
        text, n_cells = _text(summary, store, title, latex), summary.n_cells
    if target is None:
        typer.echo(text, nl=False)
        return
    with replacing(target) as stream:
        stream.write(text.encode())
    facts: dict[str, object] = {"written": target, "cells": n_cells}
    if not csv:
        facts |= {
            "cases": len(summary.cases),
            "methods": len(summary.methods),
            f"best by {summary.main.measure.name}": summary.methods[0],
            "failed": sum(cost.n_failed for cost in summary.costs),
        }
    emit({key.replace(" ", "_"): value for key, value in facts.items()}, fact_table(facts), as_json=common.json)


def _summarize(cells: "pd.DataFrame", against: str | None) -> "Summary":
    from pmlkit.bench.results import method_names
    from pmlkit.bench.summary import summarize

    if against is not None:
        names = list(method_names(cells).unique())
        if against not in names:
            raise Misuse(
                f"There is no method {against!r} in the store.{did_you_mean(against, names)} "
                f"There are {', '.join(names)}."
            )
    return summarize(cells, reference=against)


def _text(summary: "Summary", store: Path, title: str, latex: bool) -> str:
    if latex:
        from pmlkit.bench.latex import latex_tables

        return latex_tables(summary)
    from pmlkit.bench.report import render_report

    return render_report(summary, title=title, commands=_run_again(store))


def _run_again(store: Path) -> list[str]:
    """Return the commands that filled a store, and the one that makes this report."""
    from pmlkit.bench import load_plan_facts

    commands = []
    for facts in load_plan_facts(store):
        # A run that was started from Python has no command line; its plan is its record.
        is_typed = "\n" not in facts.command and facts.command.startswith("pmlkit ")
        commands.append(facts.command if is_typed else f"# from Python, the plan:\n{facts.plan.strip()}")
    return [*commands, shlex.join(["pmlkit", "report", str(store)])]
