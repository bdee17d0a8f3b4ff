"""Run the experiments of the paper again, compare the results with its figures, and write tables, claims and a page."""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import pandas as pd
from markupsafe import Markup

from pmlkit._files import replacing
from pmlkit._words import FIVE, counted
from pmlkit.bench.formatting import number
from pmlkit.bench.paper.claims import Claim, Ruling, VariantResults, figure_results, judge_claims
from pmlkit.bench.paper.experiments import ABLATIONS, SENSITIVITY, Experiments, paper_experiments
from pmlkit.bench.paper.figures import (
    ENOUGH_REPEATS,
    LFC,
    REAL,
    RIVALS,
    Figure,
    SizeFigure,
    TestCounts,
    compare_sizes,
    compare_table_2,
    compare_table_3,
    contradictions,
    main_results,
    table_3_faults,
    tally,
)
from pmlkit.bench.plan import Plan
from pmlkit.bench.plots import Series, dot_chart, line_chart, swatch
from pmlkit.bench.reporting import render, report_parts
from pmlkit.bench.runner import ProgressCallback, run
from pmlkit.bench.store_reader import load_cells
from pmlkit.bench.summary import Failure, csv_text, means_csv, summarize
from pmlkit.data import data_home, read
from pmlkit.exceptions import DataError

PAPER_REPEATS, QUICK_REPEATS = 10, 2
MAX_SECONDS, QUICK_MAX_SECONDS = 3600.0, 40.0  # per cell
_QUICK_SHARE = 0.25  # of the time limit: a quick run does not repeat what takes longer
_NAMES_1 = {
    "n_rows": "rows",
    "n_features": "features",
    "n_labels": "labels",
    "true_labels_per_row": "labels per row",
    "false_candidates": "false candidates",
}


@dataclass(frozen=True)
class Reproduction:
    """Results of a reproduction beside the paper's; made by `reproduce`, whose example shows them.

    Attributes
    ----------
    experiments : Experiments
        Data sets and repeats that were run, and what was absent.
    sizes : list of SizeFigure
        Table 1: sizes of the data sets.
    figures : list of Figure
        Table 2: means and standard deviations.
    counts : list of TestCounts
        Table 3: wins, ties and losses.
    ablation, sensitivity
        Figures 3 and 4: results of the variants and of the weights.
    claims : list of Claim
        Claims of the paper, each with a ruling (``holds``, ``holds in part``, ``does not hold``, ``not tested``).
    failures : tuple of Failure
        Cells that failed, by reason.
    cells : DataFrame
        All results, see `pmlkit.bench.load_cells`.
    store : path or None
        SQLite file with the results.
    files : tuple of path
        Files that were written.
    n_run : int
        Cells run now; the others were in the store.
    seconds : float
        Duration of the runs.
    """

    experiments: Experiments
    sizes: list[SizeFigure]
    figures: list[Figure]
    counts: list[TestCounts]
    ablation: VariantResults | None
    sensitivity: dict[str, VariantResults | None]
    claims: list[Claim]
    failures: tuple[Failure, ...]
    cells: pd.DataFrame
    store: Path | None = None
    files: tuple[Path, ...] = ()
    n_run: int = 0
    seconds: float = 0.0

    @property
    def n_repeats(self) -> int:
        """Number of repeats of the runs."""
        return int(self.cells["repeat"].nunique())


def reproduce(
    folder: str | os.PathLike[str] = "reproduction",
    *,
    quick: bool = False,
    experiments: Experiments | None = None,
    jobs: int = 1,
    max_seconds: float | None = None,
    repeat_limit: float | None = None,
    retry_failed: bool = False,
    progress: ProgressCallback | None = None,
    command: str = "pmlkit reproduce",
) -> Reproduction:
    """Run the paper of PML-LFC again: tables 1 to 3, figures 3 and 4, and its claims.

    An interrupted run continues when it is called again with the same folder. A method that fails at its first repeat
    on a data set is not run there again, and is listed.

    Parameters
    ----------
    folder : str or path, default="reproduction"
        Folder of the results (``results.sqlite``) and of the files; created if absent.
    quick : bool, default=False
        2 repeats and 40 seconds per cell instead of 10 repeats and one hour.
    experiments : Experiments, optional
        What to run, such as `pmlkit.bench.paper.embedded_experiments()`, which needs no data file. By default the
        paper's experiments on those of its data sets that are in `pmlkit.data.data_home`.
    jobs : int, default=1
        Number of processes.
    max_seconds : float, optional
        Time limit per cell.
    repeat_limit : float, optional
        Seconds; a method that takes longer at its first repeat on a data set is run only once there. By default
        there is no limit; with `quick` it is a quarter of `max_seconds`. Ignored if `experiments` is given.
    retry_failed : bool, default=False
        Whether to run cells again that failed before.
    progress : ProgressCallback, optional
        Receives the parts of the reproduction (`ProgressCallback.stage`) and the progress of their cells.
    command : str
        Command line to show in the page.

    Returns
    -------
    reproduction : Reproduction

    Raises
    ------
    DataError
        If none of the paper's data sets is there, or the folder cannot be made.

    Examples
    --------
    >>> import tempfile
    >>> from pmlkit.bench.paper import embedded_experiments, reproduce
    >>> small = embedded_experiments(repeats=1, n_rows=100, methods=["PML-LFC", "ML-KNN"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = reproduce(folder, experiments=small)
    ...     sorted(path.name for path in result.files)[:3]
    ['figure3.csv', 'figure4.csv', 'means.csv']
    >>> len(result.claims), result.n_run
    (17, 21)
    """
    limit = max_seconds if max_seconds is not None else QUICK_MAX_SECONDS if quick else MAX_SECONDS
    if experiments is None:
        usual = _QUICK_SHARE * limit if quick else math.inf
        experiments = paper_experiments(
            repeats=QUICK_REPEATS if quick else PAPER_REPEATS,
            repeat_limit=usual if repeat_limit is None else repeat_limit,
        )
    if not experiments.data:
        raise DataError(
            f"None of the paper's data sets is there: put {', '.join(f'{name}.npz' for name in experiments.missing)} "
            f"into {str(data_home())!r} (PMLKIT_DATA names the folder), or run embedded_experiments()."
        )
    store = _make_folder(Path(folder)) / "results.sqlite"
    callback = progress or ProgressCallback()
    n_run, seconds = 0, 0.0

    def run_part(name: str, plan: Plan) -> None:
        nonlocal n_run, seconds
        callback.stage(name)
        summary = run(
            plan, store, jobs=jobs, max_seconds=limit, retry_failed=retry_failed, progress=callback, command=command
        )
        n_run, seconds = n_run + summary.n_run, seconds + summary.seconds

    run_part("every method once", experiments.first_repeat())
    for plan in experiments.tables(load_cells(store)):
        run_part(f"tables 2 and 3 on {', '.join(entry.name for entry in plan.data)}", plan)
    for plan in experiments.figures():
        run_part(f"a figure on {plan.data[0].name}", plan)
    result = compare_with_paper(load_cells(store), experiments)
    files = write_files(result, Path(folder), [command])
    return replace(result, store=store, files=tuple(files), n_run=n_run, seconds=seconds)


def _make_folder(folder: Path) -> Path:
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{str(folder)!r} is a file: choose another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"The folder {str(folder)!r} cannot be made: {error.strerror}.") from error
    return folder


def compare_with_paper(cells: pd.DataFrame, experiments: Experiments) -> Reproduction:
    """Compare the cells of `pmlkit.bench.load_cells` with the figures and the claims of the paper."""
    results = main_results(cells)
    printed = [name for name in experiments.names if not name.startswith("digit-strips")]
    variants = {*ABLATIONS, *(label for labels in SENSITIVITY.values() for label in labels.values()), *RIVALS, LFC}
    known = cells[cells["label"].isin(variants)]
    return Reproduction(
        experiments=experiments,
        sizes=compare_sizes({name: _sizes(name) for name in printed}),
        figures=compare_table_2(results, printed),
        counts=compare_table_3(results),
        ablation=figure_results(cells, [*ABLATIONS, LFC], experiments.ablation),
        sensitivity={
            name: figure_results(cells, list(labels.values()), experiments.sensitivity)
            for name, labels in SENSITIVITY.items()
        },
        claims=judge_claims(cells, experiments),
        failures=summarize(known).failures,
        cells=cells,
    )


def _sizes(name: str) -> dict[str, float]:
    data = read(data_home() / f"{name}.npz")
    truth = data.Y if data.truth is None else data.truth
    values: dict[str, float] = {
        "n_rows": data.n_samples,
        "n_features": data.n_features,
        "n_labels": data.n_labels,
        "true_labels_per_row": truth.nnz / data.n_samples,
    }
    return values | ({"false_candidates": data.Y.nnz - truth.nnz} if name in REAL else {})


def write_files(found: Reproduction, folder: Path, commands: Sequence[str]) -> list[Path]:
    """Write the tables, the page and the verdict into a folder, and return their paths."""
    texts = {
        "means.csv": means_csv(found.cells),
        "table1.csv": csv_text(
            ["data", "what", "paper", "ours", "verdict"],
            ((one.data, one.what, one.theirs, one.ours, one.verdict) for one in found.sizes),
        ),
        "table2.csv": csv_text(
            ["data", "metric", "method", "paper", "paper_std", "ours", "ours_std", "verdict", "note"],
            (
                (one.data, one.metric.key, one.method, *map(_three, one.theirs + one.ours), one.verdict, one.note)
                for one in found.figures
            ),
        ),
        "table3.csv": csv_text(
            ["metric", "rival", "paper", "ours", "better_means", "verdict"],
            (
                (
                    one.metric.key if one.metric else "total",
                    one.rival,
                    "/".join(map(str, one.theirs)),
                    "/".join(map(str, one.ours)),
                    one.better_means,
                    one.verdict,
                )
                for one in found.counts
            ),
        ),
        "figure3.csv": csv_text(["method", *(m.key for m in FIVE)], _rows([*ABLATIONS, LFC], found.ablation)),
        "figure4.csv": csv_text(
            ["parameter", "value", *(m.key for m in FIVE)],
            (
                (name, *row)
                for name, labels in SENSITIVITY.items()
                for row in _rows(list(labels), found.sensitivity[name])
            ),
        ),
        "verdict.md": verdict_text(found),
        "report.html": _page(found, commands),
    }
    paths = [folder / name for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        with replacing(path) as stream:
            stream.write(text.encode())
    return paths


def verdict_text(found: Reproduction) -> str:
    """Return the verdict in Markdown: which claims hold, which figures are met, what could not be run."""
    held = [claim.ruling for claim in found.claims]
    lines = [
        "# Does the paper hold?",
        "",
        "T. Yu, G. Yu, J. Wang and M. Guo, *Partial Multi-label Learning with Label and Feature Collaboration*, DASFAA "
        f"2020, run again by `pmlkit reproduce`: {counted(found.n_repeats, 'repeat')}, "
        f"{', '.join(found.experiments.names)}.",
        "",
        f"Of {len(held)} claims {_verb(held.count('holds'), 'hold')}, {_verb(held.count('holds in part'), 'hold')} in "
        f"part, {held.count('does not hold')} do not, and {held.count('not tested')} could not be tested.",
        "",
    ]
    if found.figures:
        ours = [one.verdict for one in found.figures if one.method == LFC]
        theirs = [one.verdict for one in found.figures if one.method != LFC]
        lines += [
            f"Table 2, figures of PML-LFC: {_tally_words(ours)}. Of its rivals: {_tally_words(theirs)}. "
            "(Same: within 0.01 or the paper's deviation.)",
            "",
        ]
    lines += ["## Claims", "", "| where | the paper says | in our runs | evidence |", "|---|---|---|---|"]
    lines += [f"| {c.where} | {c.says} | **{c.ruling}** | {_cell(c.evidence)} |" for c in found.claims]
    lines += ["", "## Where the paper contradicts itself", ""]
    wrong = [one for one in found.sizes if one.verdict == "inconsistent"]
    lines += [f"- Table 1, {w.data}: {_NAMES_1[w.what]} {w.theirs:g}; the data have {w.ours:.3f}." for w in wrong]
    lines += [f"- Table 2, {data}, {method}: {reason}." for data, method, reason in _doubts()]
    lines += [f"- Table 3: {fault.reason}" for fault in table_3_faults()]
    lines += ["- Figures 3 and 4 are not in the paper's source; only what its text says of them could be compared.", ""]
    lines += _not_run(found)
    return "\n".join(lines).rstrip() + "\n"


def _not_run(found: Reproduction) -> list[str]:
    lines = []
    if found.experiments.missing:
        lines.append(f"- No data file: {', '.join(found.experiments.missing)}.")
    for one in found.failures:
        repeats = counted(len(one.repeats), "repeat")
        lines.append(f"- {one.method} on {one.case.data}, {one.case.noise_name} ({repeats}): {_cell(one.reason)}.")
    for data, method, seconds in found.experiments.run_once(found.cells):
        lines.append(f"- {method} on {data} took {seconds:.0f} s, so it was run only once there.")
    return ["## What could not be run", "", *lines, ""] if lines else []


def _page(found: Reproduction, commands: Sequence[str]) -> str:
    main = found.cells[found.cells["label"].isin([*RIVALS, LFC])]
    summary = summarize(main, reference=LFC if (main["label"] == LFC).any() else None)
    by_data: dict[str, list[Figure]] = {}
    for one in found.figures:
        by_data.setdefault(one.data, []).append(one)
    return render(
        "paper.html",
        title="PML-LFC: the paper and our runs",
        commands=list(commands),
        found=found,
        methods=[*RIVALS, LFC],
        rivals=RIVALS,
        five=FIVE,
        enough=ENOUGH_REPEATS,
        table_1={
            data: [s for s in found.sizes if s.data == data] for data in dict.fromkeys(s.data for s in found.sizes)
        },
        what_1=_NAMES_1,
        table_2={data: {(one.metric.key, one.method): one for one in figures} for data, figures in by_data.items()},
        tallies={data: _tally_words([one.verdict for one in figures]) for data, figures in by_data.items()},
        lfc_tally=_tally_words([one.verdict for one in found.figures if one.method == LFC]),
        rival_tally=_tally_words([one.verdict for one in found.figures if one.method != LFC]),
        table_3={(one.metric, one.rival): one for one in found.counts},
        ablations=[*ABLATIONS, LFC],
        dots_3=_dots(found),
        curves_4=_curves(found),
        legend_4=[(metric.name, swatch(position)) for position, metric in enumerate(FIVE)],
        doubts=_doubts(),
        faults_3=[fault.reason for fault in table_3_faults()],
        run_once=found.experiments.run_once(found.cells),
        home=str(data_home()),
        rulings={ruling: [claim.ruling for claim in found.claims].count(ruling) for ruling in get_args(Ruling)},
        **report_parts(summary),
    )


def _curves(found: Reproduction) -> list[tuple[str, Markup]]:
    styles = {metric.name: position for position, metric in enumerate(FIVE)}
    charts = []
    for name, labels in SENSITIVITY.items():
        results = found.sensitivity[name]
        if results is not None:
            series = [
                Series(m.name, list(labels), results.mean[m.key].tolist(), results.deviation[m.key].tolist())
                for m in FIVE
            ]
            title = f"The five metrics against {name}"
            charts.append((name, line_chart(series, styles, title=title, x_label=name, y_label="", log_x=True)))
    return charts


def _dots(found: Reproduction) -> list[tuple[str, Markup]]:
    names = [*ABLATIONS, LFC]
    styles = {name: position for position, name in enumerate(names)}
    if found.ablation is None:
        return []
    results = found.ablation
    return [
        (
            f"{m.name} {m.arrow}",
            dot_chart(
                list(zip(names, results.mean[m.key].tolist(), results.deviation[m.key].tolist(), strict=True)),
                styles,
                title=f"{m.name} of the variants",
            ),
        )
        for m in FIVE
    ]


def _doubts() -> list[tuple[str, str, str]]:
    """Return what is wrong in table 2, each reason once."""
    return list(dict.fromkeys((one.data, one.method, one.reason) for one in contradictions()))


def _tally_words(verdicts: Sequence[Any]) -> str:
    counts = tally(verdicts)
    words = {
        "inconsistent": "inconsistent in the paper",
        "no figure": "not in the paper",
        "no result": "without result",
    }
    return ", ".join(f"{n} {words.get(verdict, verdict)}" for verdict, n in counts.items())


def _rows(names: Sequence[Any], results: VariantResults | None) -> Iterable[tuple[Any, ...]]:
    if results is None:
        return []
    return [(name, *(f"{results.mean[m.key][i]:.6f}" for m in FIVE)) for i, name in enumerate(names)]


def _three(value: float) -> str:
    return "" if math.isnan(value) else number(value)


def _verb(number: int, word: str) -> str:
    return f"{number} {word}{'s' if number == 1 else ''}"


def _cell(text: str) -> str:
    """Return a text that cannot leave its cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
