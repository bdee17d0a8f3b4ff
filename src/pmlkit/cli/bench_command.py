"""The commands ``bench`` and ``report``: run methods on data sets, store the results, and summarise them."""

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmlkit._words import letters
from pmlkit.cli.output import ERR, Misuse, emit, fact_table, plain_table, printable, printable_lines, say
from pmlkit.cli.params import Common, Force, literal
from pmlkit.cli.steps import check_output, look_here_for_modules
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit.bench import Plan, RunSummary

__all__ = ["bench", "report"]

_plan_option = partial(typer.Option, rich_help_panel="What to run")
_run_option = partial(typer.Option, rich_help_panel="How to run it")
_SHOWN_REASONS = 10


def bench(
    common: Common,
    plan: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PLAN]", help="A plan in TOML, instead of options; see docs/bench.md.", show_default=False
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        _plan_option(
            "--data",
            "-d",
            metavar="NAMES",
            help="Data sets: names of files in $PMLKIT_DATA, paths, or digit-strips (embedded).",
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        _plan_option(
            "--methods",
            "-m",
            metavar="NAMES",
            help="Names listed by `pmlkit methods`; module:Class for a class of your own. \\[default: all]",
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        _plan_option(
            "--param",
            "-p",
            metavar="METHOD.KEY=VALUES",
            help="A parameter of a method; several values, separated by commas, make a grid.",
        ),
    ] = None,
    noise: Annotated[
        str | None,
        _plan_option(
            metavar="RATIOS",
            help="False candidates per true label; own: the data set's own candidates. \\[default: own,0.5]",
        ),
    ] = None,
    kind: Annotated[
        str | None,
        _plan_option(metavar="KINDS", help="uniform, correlated, confusable. \\[default: uniform]"),
    ] = None,
    repeats: Annotated[
        int | None,
        _plan_option(metavar="N", help="Random splits of each data set. \\[default: 10]"),
    ] = None,
    seed: Annotated[int | None, _plan_option(metavar="S", help="Random seed. \\[default: 0]")] = None,
    tune: Annotated[
        bool,
        _plan_option(
            "--tune", metavar="", help="Tune over the values of --param on the training rows, scored on the candidates."
        ),
    ] = False,
    out: Annotated[
        Path,
        _run_option("--out", "-o", metavar="PATH", help="The store; what it has is not run again."),
    ] = Path("results.sqlite"),
    jobs: Annotated[int, _run_option("--jobs", "-j", metavar="N", help="Number of processes.", min=1)] = 1,
    dask: Annotated[
        str | None,
        _run_option(metavar="ADDRESS", help="Dask scheduler, tcp://HOST:PORT, or local."),
    ] = None,
    max_seconds: Annotated[float, _run_option(metavar="S", help="Time limit per cell.")] = 3600.0,
    max_mb: Annotated[
        float | None,
        _run_option(metavar="MB", help="Memory limit per cell. \\[default: an equal share of the machine's per job]"),
    ] = None,
    retry_failed: Annotated[
        bool,
        _run_option("--retry-failed", metavar="", help="Run cells again that failed before."),
    ] = False,
) -> None:
    """Compare methods: data sets x noise x methods x repeats. The same command resumes an interrupted run.

    Without a plan and without --data, it continues the last plan of the store.
    """
    from pmlkit.bench import PlanError, run
    from pmlkit.cli.bench_progress import Display

    words: dict[str, Any] = {"data": data, "methods": methods, "param": param, "noise": noise, "kind": kind}
    words |= {"repeats": repeats, "seed": seed, "tune": tune or None}
    given = {key: value for key, value in words.items() if value is not None}
    look_here_for_modules()
    try:
        chosen = _plan(plan, given, out)
        summary = run(
            chosen,
            out,
            jobs=jobs,
            dask=dask,
            max_seconds=max_seconds,
            max_mb=max_mb,
            retry_failed=retry_failed,
            progress=Display(ERR),
            command=shlex.join(["pmlkit", *sys.argv[1:]]),
        )
    except PlanError as error:
        raise Misuse(str(error)) from error
    _report(chosen, summary, out, common)


def _plan(file: Path | None, given: dict[str, Any], out: Path) -> "Plan":
    from pmlkit.bench import Plan, load_plan_facts, parse_plan, read_plan

    if file is not None and given:
        raise Misuse(f"{str(file)!r} says what is run: leave out --{next(iter(given))}, or write it into the plan.")
    if file is not None:
        return read_plan(file)
    if "data" in given:
        return Plan(**_arguments(given))
    if given:
        raise Misuse("--data is missing: name the data sets, such as --data scene or --data digit-strips.")
    if not out.exists():
        raise Misuse("Name the data sets with --data, or give a plan in TOML; try: pmlkit bench --data digit-strips.")
    facts = load_plan_facts(out)
    if not facts:
        raise Misuse(f"{str(out)!r} has no plan yet: name the data sets with --data.")
    return parse_plan(facts[-1].plan, name=f"the plan in {out.name}")


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a `Plan` for the options."""
    from pmlkit.methods import all_methods

    names = _split(given["methods"]) if "methods" in given else list(all_methods())
    params = _params(given.get("param", []))
    methods = [{"name": name} | params.pop(_key(name), {}) for name in names]
    if params:
        raise Misuse(f"--param is for {next(iter(params))!r}, which is not among the methods: {', '.join(names)}.")
    arguments: dict[str, Any] = {key: given[key] for key in ("repeats", "seed", "tune") if key in given}
    arguments |= {"data": _split(given["data"]), "methods": methods}
    if "noise" in given:
        arguments["noise"] = [literal(word) for word in _split([given["noise"]])]
    if "kind" in given:
        arguments["kinds"] = _split([given["kind"]])
    return arguments


def _params(words: list[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the parameters and grids of each method."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for word in words:
        left, equals, right = word.partition("=")
        method, dot, key = left.strip().rpartition(".")
        values = [literal(value) for value in _split([right])]
        if not equals or not dot or not values:
            raise Misuse(f"--param takes METHOD.KEY=VALUES, such as --param PMLLFC.alpha=1,10; got {word!r}.")
        entry = found.setdefault(_key(method), {})
        if len(values) == 1:
            entry.setdefault("params", {})[key] = values[0]
        else:
            entry.setdefault("grid", {})[key] = values
    return found


def _key(name: str) -> str:
    return name if ":" in name else letters(name)


def _split(words: list[str]) -> list[str]:
    return [part.strip() for word in words for part in word.split(",") if part.strip()]


def _report(plan: "Plan", summary: "RunSummary", out: Path, common: Common) -> None:
    from pmlkit.bench import load_cells

    facts: dict[str, object] = {
        "store": out,
        "cells": summary.n_cells,
        "run now": summary.n_run,
        "failed": summary.n_failed,
        "seconds": round(summary.seconds, 3),
    }
    shown: list[Any] = [fact_table(facts)]
    if summary.n_failed:
        labels = {variant.label for variant in plan.variants()}
        cells = load_cells(out)
        failed = cells[(cells["status"] == "failed") & cells["label"].isin(labels)]
        table = plain_table("method", "data set", "cells", "reason", right=(2,))
        counts = failed.groupby(["label", "data", "reason"], sort=False).size()
        for (label, data, reason), count in list(counts.items())[:_SHOWN_REASONS]:
            table.add_row(printable(label), printable(data), f"{count:,}", printable(reason))
        shown += ["", table]
        say(
            "warning",
            f"{summary.n_failed:,} cells failed; --retry-failed runs them again.",
        )
    emit({key.replace(" ", "_"): value for key, value in facts.items()}, *shown, as_json=common.json)


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
            metavar="METHOD", help="Method to compare the others with. \\[default: the best]", show_default=False
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
