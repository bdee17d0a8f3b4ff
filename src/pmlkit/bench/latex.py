"""Results as LaTeX tables."""

import re
from collections.abc import Sequence

from pmlkit.bench.formatting import number, p_value, signed
from pmlkit.bench.summary import MetricSummary, Summary

__all__ = ["latex_tables", "latex_text"]

_LATEX_SIGNS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "–": "--",
    "−": "$-$",
}


def latex_tables(summary: Summary) -> str:
    r"""Return tables of the results per metric, of mean ranks, and of wins, ties and losses.

    Returns: for ``\input``; the preamble needs the packages booktabs and graphicx, both named in the first lines.
    """
    head = [
        "% Made by pmlkit. In the preamble: \\usepackage{booktabs,graphicx}",
        f"% Best in bold. Against {summary.reference} by a paired t-test at {100 * (1 - summary.level):g} %: "
        "\\bullet significantly worse, \\circ significantly better.",
    ]
    parts = ["\n".join(" ".join(line.split()) for line in head)]
    parts += [_result_table(summary, one) for one in summary.metrics]
    parts.append(_rank_table(summary))
    if len(summary.methods) > 1:
        parts.append(_comparison_table(summary))
    return "\n\n".join(parts) + "\n"


def latex_text(text: str) -> str:
    r"""Escape a text for LaTeX."""
    return re.sub(r'[\\{}$&#%_~^<>|"–−]', lambda found: _LATEX_SIGNS[found[0]], text)


def _result_table(summary: Summary, one: MetricSummary) -> str:
    rows = []
    for c, case in enumerate(summary.cases):
        cells = [
            _value(one.mean[c, m], one.deviation[c, m], bool(one.best[c, m]), int(one.outcome[c, m]))
            for m in range(len(summary.methods))
        ]
        rows.append([latex_text(case.data), latex_text(case.noise_name), *cells])
    arrow = r"$\downarrow$" if one.metric.lower_is_better else r"$\uparrow$"
    caption = (
        f"{latex_text(_capital(one.metric.name))} {arrow}, mean and standard deviation over repeats. Best in bold; "
        rf"$\bullet$ significantly worse and $\circ$ significantly better than {latex_text(summary.reference)} "
        rf"(paired t-test, {100 * (1 - summary.level):g}\,\%)."
    )
    heads = ["data", "noise", *map(latex_text, summary.methods)]
    return _table(caption, one.metric.key, "ll" + "l" * len(summary.methods), heads, rows)


def _value(mean: float, deviation: float, is_best: bool, outcome: int) -> str:
    if mean != mean:
        return "--"
    shown = rf"\mathbf{{{mean:.3f}}}" if is_best else f"{mean:.3f}"
    spread = rf"\pm {deviation:.3f}" if deviation == deviation else ""
    mark = r"\,\bullet" if outcome > 0 else r"\,\circ" if outcome < 0 else ""
    return f"${shown}{spread}{mark}$"


def _rank_table(summary: Summary) -> str:
    rows = []
    for m, name in enumerate(summary.methods):
        rows.append([latex_text(name), *(latex_text(number(one.ranking.ranks[m], 2)) for one in summary.metrics)])
    rows.append(["Friedman $p$", *(f"${p_value(one.ranking.test.p_value)}$" for one in summary.metrics)])
    rows.append(["critical distance", *(latex_text(number(one.ranking.distance, 2)) for one in summary.metrics)])
    heads = ["method", *(latex_text(one.metric.name) for one in summary.metrics)]
    caption = "Mean ranks over the cases, Friedman's test, and Nemenyi's critical distance."
    return _table(caption, "ranks", "l" + "r" * len(summary.metrics), heads, rows, rule_before=len(summary.methods))


def _comparison_table(summary: Summary) -> str:
    rivals = [rival.rival for rival in summary.metrics[0].comparisons]
    rows = [
        [
            latex_text(_capital(one.metric.name)),
            *(f"{rival.wins}/{rival.ties}/{rival.losses}" for rival in one.comparisons),
        ]
        for one in summary.metrics
    ]
    totals = [
        "/".join(str(sum(getattr(one.comparisons[r], part) for one in summary.metrics)) for part in _OUTCOMES)
        for r in range(len(rivals))
    ]
    main = summary.main
    rows += [
        ["Total", *totals],
        [
            f"Wilcoxon $p$ (Holm), {latex_text(main.metric.name)}",
            *(f"${p_value(rival.p_value)}$".replace("$–$", "--") for rival in main.comparisons),
        ],
        [
            f"effect, {latex_text(main.metric.name)}",
            *(latex_text(signed(rival.effect, 2)) for rival in main.comparisons),
        ],
    ]
    caption = f"Wins/ties/losses of {latex_text(summary.reference)} in paired t-tests within the cases."
    heads = ["metric", *map(latex_text, rivals)]
    return _table(caption, "wins", "l" + "r" * len(rivals), heads, rows, rule_before=len(summary.metrics))


_OUTCOMES = ("wins", "ties", "losses")


def _table(
    caption: str,
    label: str,
    columns: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    rule_before: int | None = None,
) -> str:
    body = [" & ".join(row) + r" \\" for row in rows]
    if rule_before is not None:
        body.insert(rule_before, r"\midrule")
    return "\n".join(
        [
            r"\begin{table}[tb]",
            r"\centering",
            rf"\caption{{{caption}}}",
            rf"\label{{tab:{label.replace('_', '-')}}}",
            r"\resizebox{\textwidth}{!}{%",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(heads) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
        ]
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
