"""Files of a reproduction: tables as CSV, the claims in Markdown, and an HTML page."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from markupsafe import Markup

from pmlkit._files import replacing
from pmlkit._words import FIVE, counted
from pmlkit.bench.formatting import number
from pmlkit.bench.paper.claims import Ruling, VariantResults
from pmlkit.bench.paper.experiments import ABLATIONS, SENSITIVITY
from pmlkit.bench.paper.figures import ENOUGH_REPEATS, LFC, RIVALS, Figure, contradictions, table_3_faults, tally
from pmlkit.bench.plots import Series, dot_chart, line_chart, swatch
from pmlkit.bench.reporting import render, report_parts
from pmlkit.bench.summary import csv_text, means_csv, summarize
from pmlkit.data import data_home

if TYPE_CHECKING:
    from pmlkit.bench.paper.reproduction import Reproduction

_NAMES_1 = {
    "n_rows": "rows",
    "n_features": "features",
    "n_labels": "labels",
    "true_labels_per_row": "labels per row",
    "false_candidates": "false candidates",
}


def write_files(found: "Reproduction", folder: Path, commands: Sequence[str]) -> list[Path]:
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


def verdict_text(found: "Reproduction") -> str:
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


def _not_run(found: "Reproduction") -> list[str]:
    lines = []
    if found.experiments.missing:
        lines.append(f"- No data file: {', '.join(found.experiments.missing)}.")
    for one in found.failures:
        repeats = counted(len(one.repeats), "repeat")
        lines.append(f"- {one.method} on {one.case.data}, {one.case.noise_name} ({repeats}): {_cell(one.reason)}.")
    for data, method, seconds in found.experiments.run_once(found.cells):
        lines.append(f"- {method} on {data} took {seconds:.0f} s, so it was run only once there.")
    return ["## What could not be run", "", *lines, ""] if lines else []


def _page(found: "Reproduction", commands: Sequence[str]) -> str:
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


def _curves(found: "Reproduction") -> list[tuple[str, Markup]]:
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


def _dots(found: "Reproduction") -> list[tuple[str, Markup]]:
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
