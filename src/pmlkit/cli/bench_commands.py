"""The commands ``bench``, ``report`` and ``reproduce``: compare methods, summarise, and run papers again."""

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmlkit._words import counted, letters, printable
from pmlkit.cli.options import (
    Common,
    Force,
    argument,
    check_output,
    flag,
    literal,
    look_here_for_modules,
    misuse,
    option,
)
from pmlkit.cli.output import ERR, Misuse, Watch, emit, emit_facts, fact_table, plain_table, printable_lines, say

if TYPE_CHECKING:
    from pmlkit.bench import Plan, RunSummary
    from pmlkit.bench.paper import Reproduction

_plan_option = partial(option, rich_help_panel="What to run")
_run_option = partial(option, rich_help_panel="How to run it")
_SHOWN_REASONS = 10


def bench(
    common: Common,
    plan: Annotated[Path | None, argument("A plan in TOML, instead of options; see docs/bench.md.", "PLAN")] = None,
    data: Annotated[
        list[str] | None,
        _plan_option(
            "Data sets: names of files in $PMLKIT_DATA, paths, or digit-strips (embedded).", "NAMES", "--data", "-d"
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        _plan_option(
            "Methods, as `pmlkit methods` lists them; module:Class for a class of your own. \\[default: all]",
            "NAMES",
            "--methods",
            "-m",
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        _plan_option(
            "A parameter of a method; several values, separated by commas, make a grid.",
            "METHOD.KEY=VALUES",
            "--param",
            "-p",
        ),
    ] = None,
    noise: Annotated[
        str | None,
        _plan_option(
            "False candidates per true label; own: the data set's own candidates. \\[default: own,0.5]", "RATIOS"
        ),
    ] = None,
    kind: Annotated[
        str | None, _plan_option("Kinds of noise: uniform, correlated, confusable. \\[default: uniform]", "KINDS")
    ] = None,
    repeats: Annotated[int | None, _plan_option("Random splits of each data set. \\[default: 10]", "N")] = None,
    seed: Annotated[int | None, _plan_option("Random seed. \\[default: 0]", "SEED")] = None,
    tune: Annotated[
        bool,
        _plan_option("Tune over the values of --param on the training rows, scored on the candidates.", "", "--tune"),
    ] = False,
    out: Annotated[
        Path, _run_option("The results (SQLite); cells that it has are not run again.", "STORE", "--output", "-o")
    ] = Path("results.sqlite"),
    jobs: Annotated[int, _run_option("Number of processes.", "N", "--jobs", "-j", min=1)] = 1,
    dask: Annotated[str | None, _run_option("Dask scheduler, tcp://HOST:PORT, or local.", "ADDRESS")] = None,
    max_seconds: Annotated[
        float, _run_option("Time limit of a cell, which is one fit and its evaluation.", "SECONDS")
    ] = 3600.0,
    max_mb: Annotated[
        float | None, _run_option("Memory limit of a cell. \\[default: an equal share of the machine's per job]", "MB")
    ] = None,
    retry_failed: Annotated[bool, _run_option("Run cells again that failed before.", "", "--retry-failed")] = False,
) -> None:
    """Compare methods on data sets, kinds of noise and repeated splits. The same command resumes an interrupted run.

    Without a plan and without --data, it continues the last plan of the store.
    """
    from pmlkit.bench import PlanError, run
    from pmlkit.cli.bench_progress import Display

    words: dict[str, Any] = {"data": data, "methods": methods, "param": param, "noise": noise, "kind": kind}
    words |= {"repeats": repeats, "seed": seed, "tune": tune or None}
    given = {key: value for key, value in words.items() if value is not None}
    look_here_for_modules()
    with misuse(PlanError):
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
    shown: list[Any] = []
    if summary.n_failed:
        labels = {variant.label for variant in plan.variants()}
        cells = load_cells(out)
        failed = cells[(cells["status"] == "failed") & cells["label"].isin(labels)]
        table = plain_table("method", "data set", "cells", "reason", right=(2,))
        counts = failed.groupby(["label", "data", "reason"], sort=False).size()
        for (label, data, reason), count in list(counts.items())[:_SHOWN_REASONS]:
            table.add_row(printable(label), printable(data), f"{count:,}", printable(reason))
        shown += ["", table]
        say("warning", f"{counted(summary.n_failed, 'cell')} failed; --retry-failed runs them again.")
    emit_facts(facts, *shown, as_json=common.json)


def report(
    common: Common,
    store: Annotated[Path, argument("SQLite file that `pmlkit bench` wrote.", "STORE")],
    output: Annotated[
        Path | None,
        option(
            "File to write. \\[default: report.html; with --latex or --csv, standard output]",
            "PATH",
            "--output",
            "-o",
            show_default=False,
        ),
    ] = None,
    latex: Annotated[bool, flag("LaTeX tables (booktabs) instead of the page.", "--latex")] = False,
    csv: Annotated[
        bool, flag("Means and standard deviations, without times: two runs of one plan give the same bytes.", "--csv")
    ] = False,
    against: Annotated[
        str | None, option("Method to compare the others with. \\[default: the best]", "METHOD", show_default=False)
    ] = None,
    title: Annotated[str, option("Heading of the page.", "TEXT")] = "Benchmark report",
    force: Force = False,
) -> None:
    """Report the results of a benchmark: one page with tables, tests and charts that opens without a network."""
    if latex and csv:
        raise Misuse("--latex and --csv are two different outputs: ask for one at a time.")
    target = output if output is not None or latex or csv else Path("report.html")
    if target is not None:
        check_output(target, store, force=force)
    from pmlkit import bench

    with misuse():
        made = bench.report(
            store, format="csv" if csv else "latex" if latex else "html", reference=against, title=title
        )
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
    emit_facts(facts, as_json=common.json)


def reproduce(
    common: Common,
    paper: Annotated[
        str, argument("Which paper: pml-lfc (2020), or pml-lc (2018: PML-lc and PML-fp).", "PAPER", show_default=True)
    ] = "pml-lfc",
    quick: Annotated[bool, flag("2 repeats and 40 s per cell: minutes instead of days.", "--quick")] = False,
    embedded: Annotated[bool, flag("Use the embedded digit strips, which need no data file.", "--embedded")] = False,
    out: Annotated[
        Path, option("Folder of the results; cells that it has are not run again.", "DIR", "--output", "-o")
    ] = Path("reproduction"),
    jobs: Annotated[int, option("Number of processes.", "N", "--jobs", "-j", min=1)] = 1,
    max_seconds: Annotated[
        float | None,
        option("Time limit per cell. \\[default: 3600; with --quick 40]", "SECONDS", min=0.1, show_default=False),
    ] = None,
    repeat_limit: Annotated[
        float | None,
        option(
            "A method that takes longer at its first repeat on a data set is run only once there. "
            "\\[default: no limit; with --quick a quarter of --max-seconds]",
            "SECONDS",
            min=0.0,
            show_default=False,
        ),
    ] = None,
    retry_failed: Annotated[bool, flag("Run cells again that failed before.", "--retry-failed")] = False,
) -> None:
    """Run the paper of PML-LFC again: tables 1 to 3, figures 3 and 4, and a verdict on each of its claims.

    The same command continues an interrupted run. A method that fails or takes too long at its first repeat on a
    data set is not run there again, and is listed.

    With pml-lc: five metrics under the protocol of the paper of PML-lc and PML-fp, beside its published figures. Only
    --quick (2 repeats instead of 5, at most 600 rows) and --output apply there.
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
        max_seconds=max_seconds,
        repeat_limit=repeat_limit,
        retry_failed=retry_failed,
        progress=Display(ERR),
        command=shlex.join(["pmlkit", *sys.argv[1:]]) if sys.argv[1:2] == ["reproduce"] else "pmlkit reproduce",
    )
    _print(found, out, common)


def _reproduce_pml_lc(out: Path, quick: bool, common: Common) -> None:
    from pmlkit.bench.paper.pml_lc import DATA, XIE_HUANG_METHODS, reproduce_pml_lc
    from pmlkit.data import data_home

    data = [name for name in DATA if (data_home() / f"{name}.npz").is_file()]
    if not data:
        raise Misuse(
            f"None of {', '.join(DATA)} is in {str(data_home())!r}. PMLKIT_DATA names the folder of data sets."
        )
    if missing := [name for name in DATA if name not in data]:
        say("warning", f"{', '.join(missing)}: not in {str(data_home())!r}; the others run now.")
    repeats = 2 if quick else 5
    with Watch("fitting", total=repeats * len(data) * len(XIE_HUANG_METHODS)) as watch:
        figures = reproduce_pml_lc(
            out, data=data, repeats=repeats, max_rows=600 if quick else None,
            on_cell=lambda name, method, repeat: watch.begin(f"{method} on {name}, split {repeat + 1}"),
        )  # fmt: skip
    known = figures[figures["published"].notna()]
    facts: dict[str, object] = {
        "data sets": len(data),
        "published figures": len(known),
        "mean difference": round(float((known["mean"] - known["published"]).abs().mean()), 3),
        "read": out / "pml-lc.md",
        "look at": out / "pml-lc.csv",
    }
    emit_facts(facts, as_json=common.json)


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
