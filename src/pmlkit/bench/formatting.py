"""Results as text: numbers and marks, sentences, and LaTeX tables."""

import json
import math
import re
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from pmlkit._words import counted, printable
from pmlkit.bench.statistics import Friedman
from pmlkit.bench.summary import MetricSummary, Summary

_WORSE = Markup(' <span class="mark bad" title="significantly worse">●</span>')
_BETTER = Markup(' <span class="mark good" title="significantly better">○</span>')
_VERDICTS = {"same": ("=", "soft"), "better": ("+", "good"), "worse": ("−", "bad"), "inconsistent": ("?", "odd")}
_NEITHER = Markup('<span class="mark"></span>')


def number(value: float, digits: int = 3) -> str:
    """Format a number with three decimals, nan as a dash."""
    return f"{value:,.{digits}f}" if math.isfinite(value) else "–" if math.isnan(value) else f"{value}"


def signed(value: float, digits: int = 3) -> str:
    """Format a number with its sign."""
    text = number(value, digits)
    if text == "–" or not text.strip("-0.,"):
        return text.lstrip("-")
    return f"−{text[1:]}" if text.startswith("-") else f"+{text}"


def whole(value: int | None) -> str:
    """Format an integer with commas, None as a dash."""
    return "–" if value is None else f"{value:,}"


def p_value(value: float) -> str:
    """Format a p-value; below 0.001 only the bound is given."""
    return "< 0.001" if value < 0.001 else number(value)


def listed(names: Sequence[str]) -> Markup:
    """Format names in bold, with commas and "and"."""
    bold = [Markup("<b>{}</b>").format(name) for name in names]
    return bold[0] if len(bold) == 1 else Markup("{} and {}").format(Markup(", ").join(bold[:-1]), bold[-1])


def sign(outcome: int) -> Markup:
    """Return the mark of a method that differs significantly from the reference, by the outcome of the reference."""
    return _WORSE if outcome > 0 else _BETTER if outcome < 0 else _NEITHER


def parameters(text: str) -> str:
    """Format parameters given as JSON."""
    return ", ".join(f"{key}={value}" for key, value in json.loads(text).items()) or "defaults"


def friedman_words(test: Friedman) -> str:
    """Format the result of Friedman's test."""
    if math.isnan(test.p_value):
        return "too few results to compare"
    text = p_value(test.p_value)
    return f"Friedman p {text if text.startswith('<') else f'= {text}'}, {counted(test.n_cases, 'case')}"


def verdict(word: str) -> Markup:
    """Return the mark of a comparison with the paper."""
    sign, colour = _VERDICTS.get(word, ("", ""))
    return Markup('<span class="mark {}" title="{}">{}</span>').format(colour, word, sign)


FILTERS = {
    "verdict": verdict,
    "number": number,
    "signed": signed,
    "whole": whole,
    "count": counted,
    "p_value": p_value,
    "parameters": parameters,
    "sign": sign,
    "friedman": friedman_words,
}
"""Filters of the templates."""


def sentences(summary: Summary) -> list[Markup]:
    """Return the main results as sentences, one or two per item.

    Returns: HTML; names are escaped.
    """
    items = [_winner(summary), _other_metrics(summary), _tests(summary), _cost(summary), _failed(summary)]
    return [item for item in items if item]


def _winner(summary: Summary) -> Markup:
    main = summary.main
    ranking, name = main.ranking, main.metric.name
    ranked = [i for i in range(len(summary.methods)) if not math.isnan(ranking.ranks[i])]
    if len(ranked) < 2:
        mean = float(np.nanmean(main.mean)) if not np.isnan(main.mean).all() else math.nan
        return Markup("Only {} has enough results to be judged: mean {} {}.").format(
            listed([summary.methods[i] for i in ranked] or summary.methods[:1]), name, number(mean)
        )
    best = min(ranked, key=lambda i: ranking.ranks[i])
    start = Markup("By {}, {} ranks best over {}: mean rank {} of {} methods. ").format(
        name,
        listed([summary.methods[best]]),
        counted(ranking.test.n_cases, "case"),
        number(ranking.ranks[best], 2),
        len(ranked),
    )
    if not ranking.test.p_value < summary.level:
        return start + Markup("But the methods do not differ significantly ({}).").format(friedman_words(ranking.test))
    near = [
        summary.methods[i] for i in ranked if i != best and ranking.ranks[i] - ranking.ranks[best] < ranking.distance
    ]
    if not near:
        return start + Markup("It is significantly ahead of all others (Nemenyi, critical distance {}).").format(
            number(ranking.distance, 2)
        )
    return start + Markup("Not significantly behind (Nemenyi, critical distance {}): {}.").format(
        number(ranking.distance, 2), listed(near)
    )


def _other_metrics(summary: Summary) -> Markup:
    winners: dict[str, list[str]] = {}
    for one in summary.metrics:
        ranks = one.ranking.ranks
        if one is not summary.main and not np.isnan(ranks).all():
            winners.setdefault(summary.methods[int(np.nanargmin(ranks))], []).append(one.metric.name)
    if not winners or len(summary.methods) < 2:
        return Markup("")
    parts = [Markup("{} by {}").format(listed([name]), ", ".join(metrics)) for name, metrics in winners.items()]
    return Markup("Best mean rank otherwise: {}.").format(Markup("; ").join(parts))


def _tests(summary: Summary) -> Markup:
    totals = [
        sum(getattr(rival, part) for one in summary.metrics for rival in one.comparisons)
        for part in ("wins", "ties", "losses")
    ]
    if not sum(totals):
        return Markup("")
    return Markup("{} against the others, paired t-tests at {:g} % over all metrics: {}, {}, {}.").format(
        listed([summary.reference]),
        100 * (1 - summary.level),
        counted(totals[0], "win"),
        counted(totals[1], "tie"),
        counted(totals[2], "loss"),
    )


def _cost(summary: Summary) -> Markup:
    known = [cost for cost in summary.costs if cost.fit_seconds == cost.fit_seconds]
    if len(known) < 2:
        return Markup("")
    fast, slow = min(known, key=lambda c: c.fit_seconds), max(known, key=lambda c: c.fit_seconds)
    return Markup("Fastest to fit is {} (median {} s), slowest {} ({} s).").format(
        listed([fast.method]), number(fast.fit_seconds), listed([slow.method]), number(slow.fit_seconds)
    )


def _failed(summary: Summary) -> Markup:
    n_failed = sum(cost.n_failed for cost in summary.costs)
    if not n_failed:
        return Markup("No cell failed.")
    who = [cost.method for cost in summary.costs if cost.n_failed]
    return Markup('{} of {} failed (<a href="#failures">why</a>): {}.').format(
        f"{n_failed:,}", counted(summary.n_cells, "cell"), listed(who)
    )


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
    parts = ["\n".join(map(printable, head))]
    parts += [_result_table(summary, one) for one in summary.metrics]
    parts.append(_rank_table(summary))
    if len(summary.methods) > 1:
        parts.append(_comparison_table(summary))
    return "\n\n".join(parts) + "\n"


def latex_text(text: str) -> str:
    r"""Escape a text for LaTeX."""
    return re.sub(r'[\\{}$&#%_~^<>|"–−]', lambda found: _LATEX_SIGNS[found[0]], printable(text))


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
