"""The command ``report``: results of a store as a page, as LaTeX or as CSV."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from pmlkit.cli.errors import Misuse
from pmlkit.cli.output import emit, fact_table, printable_lines
from pmlkit.cli.output_paths import check_output
from pmlkit.cli.params import Common, Force
from pmlkit.exceptions import DataError

__all__ = ["report"]


def report(
    common: Common,
    store: Annotated[
        Path, typer.Argument(metavar="STORE", help="SQLite file that `pmlkit bench` wrote.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="File to write. \\[default: report.html; with --latex or --csv, standard output]",
            show_default=False,
        ),
    ] = None,
    latex: Annotated[
        bool, typer.Option("--latex", metavar="", help="LaTeX tables (booktabs) instead of the page.")
    ] = False,
    csv: Annotated[
        bool,
        typer.Option(
            "--csv",
            metavar="",
            help="Means and standard deviations, without times: two runs of one plan give the same bytes.",
        ),
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            help="Method to compare the others with. \\[default: the best]",
            show_default=False,
        ),
    ] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="Heading of the page.")] = "Benchmark report",
    force: Force = False,
) -> None:
    """Report the results of a benchmark: one page with tables, tests and charts that opens without a network."""
    if latex and csv:
        raise Misuse("--latex and --csv are two different outputs: ask for one at a time.")
    target = output if output is not None or latex or csv else Path("report.html")
    if target is not None:
        check_output(target, store, force=force)
    from pmlkit import bench

    try:
        made = bench.report(
            store, format="csv" if csv else "latex" if latex else "html", reference=against, title=title
        )
    except DataError:
        raise
    except ValueError as error:
        raise Misuse(str(error)) from error
    if target is None:
        typer.echo(printable_lines(made.text) if sys.stdout.isatty() else made.text, nl=False)
        return
    made.write(target, force=force)
    facts: dict[str, object] = {"written": target, "cells": made.n_cells}
    if made.summary is not None:
        facts |= {
            "cases": len(made.summary.cases),
            "methods": len(made.summary.methods),
            f"best by {made.summary.main.metric.name}": made.summary.methods[0],
            "failed": sum(cost.n_failed for cost in made.summary.costs),
        }
    emit({key.replace(" ", "_"): value for key, value in facts.items()}, fact_table(facts), as_json=common.json)
