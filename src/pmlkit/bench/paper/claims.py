"""Claims of the paper, and whether they hold in our runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from pmlkit._typing import FloatArray
from pmlkit._words import FIVE, MetricInfo, counted
from pmlkit.bench.formatting import number
from pmlkit.bench.paper.experiments import ABLATIONS, SENSITIVITY, Experiments
from pmlkit.bench.paper.figures import (
    ENOUGH_REPEATS,
    LFC,
    REAL,
    RIVALS,
    TestCounts,
    compare_table_3,
    find_case,
    main_results,
)
from pmlkit.bench.summary import Results, collect

Ruling = Literal["holds", "holds in part", "does not hold", "not tested"]
_PERCENT = {"RankSVM": 92.17, "ML-KNN": 88.70, "PML-LRS": 91.30, "fPML": 85.22, "DRAMA": 80.87, "PARTICLE-VLS": 85.22}
_CLOSE = 0.01  # values of a metric that count as similar
_MAIN = FIVE[-1]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, our ruling and its evidence."""

    where: str
    says: str
    ruling: Ruling
    evidence: str


def judge_claims(cells: pd.DataFrame, experiments: Experiments) -> list[Claim]:
    """Return the paper's claims, each with a ruling and the numbers behind it in the cells of `load_cells`."""
    results = main_results(cells)
    counts = [one for one in compare_table_3(results) if one.metric is None]
    return [
        *_real_data(results, experiments),
        *_synthetic_data(results, experiments),
        *(_share_of_tests(one, results) for one in counts),
        _necessity(counts),
        *_ablation(cells, experiments),
        *_sensitivity(cells, experiments),
    ]


@dataclass(frozen=True)
class VariantResults:
    """Means and deviations of some variants on one data set, by metric, in the order of the variants."""

    mean: dict[str, FloatArray]
    deviation: dict[str, FloatArray]


def figure_results(cells: pd.DataFrame, labels: Sequence[str], data: str | None) -> VariantResults | None:
    """Return the results of some variants on one data set at 50 % noise; None unless all have some."""
    results = collect(cells, methods=labels)
    case = None if data is None else find_case(results, data)
    if case is None or any(np.isnan(results.mean(metric.key)[case]).any() for metric in FIVE):
        return None
    return VariantResults(
        {metric.key: results.mean(metric.key)[case] for metric in FIVE},
        {metric.key: results.deviation(metric.key)[case] for metric in FIVE},
    )


def _real_data(results: Results, experiments: Experiments) -> list[Claim]:
    where = "section 4.2 (i)"
    cases = [find_case(results, name) for name in REAL if name in experiments.names]
    known = [case for case in cases if case is not None]
    lfc = results.methods.index(LFC)
    best = [_is_top(results.mean(metric.key)[case], metric, lfc) for case in known for metric in FIVE]
    says = "PML-LFC is best in most cases on YeastBP, YeastCC and YeastMF"
    if not best:
        return [Claim(where, says, "not tested", "These data sets are not among the runs.")]
    first = Claim(
        where,
        says,
        "holds" if sum(best) > len(best) / 2 else "does not hold",
        f"Best mean in {sum(best)} of {len(best)} (data set, metric) pairs.",
    )
    knn, ranking_loss = results.methods.index("ML-KNN"), results.mean("ranking_loss")
    pairs = [(ranking_loss[case, knn], ranking_loss[case, lfc]) for case in known]
    pairs = [pair for pair in pairs if not np.isnan(pair).any()]
    lower = sum(one < other for one, other in pairs)
    shown = "; ".join(f"{one:.3f} against {other:.3f}" for one, other in pairs)
    second = Claim(
        where,
        "There, ML-KNN has the lower ranking loss",
        "not tested" if not pairs else _of(lower, len(pairs)),
        f"Ranking loss of ML-KNN against PML-LFC: {shown}. The paper's ML-KNN column looks swapped with Hamming loss."
        if pairs
        else "One of the two has no result.",
    )
    return [first, second]


def _synthetic_data(results: Results, experiments: Experiments) -> list[Claim]:
    cases = [
        position
        for position, case in enumerate(results.cases)
        if not math.isnan(case.ratio) and case.data in experiments.names
    ]
    shares = {rival: _better_share(results, cases, rival) for rival in RIVALS}
    known = {rival: share for rival, share in shares.items() if share[1]}
    says = "On the synthetic data sets PML-LFC frequently outperforms the other methods"
    claims = []
    if known:
        beaten = sum(better > total / 2 for better, total in known.values())
        shown = ", ".join(f"{rival} {better} of {total}" for rival, (better, total) in known.items())
        evidence = f"Better mean than: {shown} (case, metric) pairs."
        claims.append(Claim("section 4.2 (ii)", says, _of(beaten, len(known)), evidence))
    else:
        claims.append(Claim("section 4.2 (ii)", says, "not tested", "No rival has results."))
    case = find_case(results, "medical") if "medical" in experiments.names else None
    says = "On medical PML-LFC slightly loses to RankSVM and DRAMA"
    if case is None:
        return [*claims, Claim("section 4.2 (ii)", says, "not tested", "medical is not among the runs.")]
    mean = dict(zip(results.methods, results.mean(_MAIN.key)[case], strict=True))
    rivals = [rival for rival in ("RankSVM", "DRAMA") if not math.isnan(mean[rival])]
    ahead = sum(mean[rival] > mean[LFC] for rival in rivals)
    shown = ", ".join(f"{name} {number(float(mean[name]))}" for name in (LFC, "RankSVM", "DRAMA"))
    ruling: Ruling = _of(ahead, len(rivals)) if rivals else "not tested"
    return [*claims, Claim("section 4.2 (ii)", says, ruling, f"Average precision at 50 % noise: {shown}.")]


def _share_of_tests(counts: TestCounts, results: Results) -> Claim:
    percent = _PERCENT[counts.rival]
    says = f"PML-LFC is significantly better than {counts.rival} in {percent} % of 115 tests"
    wins, ties, losses = counts.ours
    total = counts.n_tests
    if not total:
        return Claim("section 4.2 (iii)", says, "not tested", f"{counts.rival} has too few results.")
    evidence = (
        f"{counted(wins, 'win')}, {counted(ties, 'tie')}, {counted(losses, 'loss')} in {total} tests "
        f"({100 * wins / total:.1f} % won); the better mean in {counts.better_means} of {counts.n_means}."
    )
    if results.n_repeats < ENOUGH_REPEATS:
        evidence += (
            f" With {results.n_repeats} repeats a t-test finds hardly anything, so this is not a test of the claim."
        )
        return Claim("section 4.2 (iii)", says, "not tested", evidence)
    ruling: Ruling = (
        "holds" if 100 * wins / total >= percent - 5 else "holds in part" if wins > total / 2 else "does not hold"
    )
    return Claim("section 4.2 (iii)", says, ruling, evidence)


def _necessity(counts: Sequence[TestCounts]) -> Claim:
    says = "Irrelevant labels must be accounted for: RankSVM and ML-KNN, which trust all candidates, are outperformed"
    naive = [one for one in counts if one.rival in ("RankSVM", "ML-KNN") and one.n_means]
    if not naive:
        return Claim("section 4.2 (iii)", says, "not tested", "Neither has results.")
    ahead = sum(one.better_means > one.n_means / 2 for one in naive)
    shown = ", ".join(f"{one.rival} in {one.better_means} of {one.n_means}" for one in naive)
    return Claim("section 4.2 (iii)", says, _of(ahead, len(naive)), f"PML-LFC has the better mean than {shown} pairs.")


def _ablation(cells: pd.DataFrame, experiments: Experiments) -> list[Claim]:
    labels = [*ABLATIONS, LFC]
    found = figure_results(cells, labels, experiments.ablation)
    where = f"figure 3, {experiments.ablation or 'slashdot'}"
    says = (
        "PML-LFC is better than its variants oF, oL and nJ by all five metrics",
        "Its variants oF and oL have similar performance",
        "Its variant nJ is the worst by all five metrics",
    )
    if found is None:
        return [Claim(where, text, "not tested", "Not all four variants have results.") for text in says]
    means = found.mean
    only_features, only_labels, not_jointly, full = range(len(labels))
    best = [m.name for m in FIVE if _is_top(means[m.key], m, full, alone=True)]
    level = [m.name for m in FIVE if m.name not in best and _is_top(means[m.key], m, full)]
    worst = [m.name for m in FIVE if _is_top(-means[m.key], m, not_jointly, alone=True)]
    apart = {m.name: abs(float(means[m.key][only_features] - means[m.key][only_labels])) for m in FIVE}
    precision = ", ".join(f"{label} {value:.3f}" for label, value in zip(labels, means[_MAIN.key], strict=True))
    close = [name for name, gap in apart.items() if gap <= _CLOSE]
    widest = max(apart, key=lambda name: apart[name])
    return [
        Claim(
            where,
            says[0],
            _of(len(best), 5),
            f"Better than all three by {_names(best)}; to three decimals level with the best of them by "
            f"{_names(level)}. Average precision: {precision}.",
        ),
        Claim(
            where,
            says[1],
            _of(len(close), 5),
            f"Within {_CLOSE:g} of each other by {_names(close)}; farthest apart by {widest}, {apart[widest]:.3f}.",
        ),
        Claim(where, says[2], _of(len(worst), 5), f"Worst by {_names(worst)}."),
    ]


def _sensitivity(cells: pd.DataFrame, experiments: Experiments) -> list[Claim]:
    claims = []
    for name, labels in SENSITIVITY.items():
        where = f"figure 4, {experiments.sensitivity or 'medical'}"
        says = (f"PML-LFC is best at {name} = 10", f"It is worse where {name} is too small or too large")
        found = figure_results(cells, list(labels.values()), experiments.sensitivity)
        if found is None:
            claims += [Claim(where, text, "not tested", f"Not every {name} has results.") for text in says]
            continue
        means = found.mean
        weights = list(labels)
        ten = weights.index(10.0)
        best = [m.name for m in FIVE if _is_top(means[m.key], m, ten)]
        values = means[_MAIN.key]
        top = int(values.argmax())
        shown = ", ".join(f"{weight:g}: {value:.3f}" for weight, value in zip(weights, values, strict=True))
        evidence = f"Best at 10 by {_names(best)}. Average precision by {name}: {shown}; the best is {weights[top]:g}."
        claims.append(Claim(where, says[0], _of(len(best), 5), evidence))
        ends = {weights[end]: float(values[ten] - values[end]) for end in (0, -1)}
        lower = sum(gap > _CLOSE / 2 for gap in ends.values())
        shown = ", ".join(f"at {weight:g} it changes by {-gap:+.3f}" for weight, gap in ends.items())
        claims.append(Claim(where, says[1], _of(lower, 2), f"Average precision against that at 10: {shown}."))
    return claims


def _is_top(values: FloatArray, metric: MetricInfo, position: int, *, alone: bool = False) -> bool:
    """Return whether none is better, or all others are worse, to the three decimals that are shown."""
    shown = np.round(_loss(values, metric), 3)
    if np.isnan(shown).all():
        return False
    return bool(shown[position] == np.nanmin(shown) and not (alone and (shown == shown[position]).sum() > 1))


def _better_share(results: Results, cases: Sequence[int], rival: str) -> tuple[int, int]:
    """Return in how many (case, metric) pairs PML-LFC has the better mean, and how many there are."""
    own, other = results.methods.index(LFC), results.methods.index(rival)
    better = known = 0
    for metric in FIVE:
        losses = _loss(results.mean(metric.key)[list(cases)], metric)
        gain = np.round(losses[:, other] - losses[:, own], 3)
        better += int((gain > 0).sum())
        known += int((~np.isnan(gain)).sum())
    return better, known


def _loss(values: FloatArray, metric: MetricInfo) -> FloatArray:
    return values if metric.lower_is_better else -values


def _of(n_true: int, n_all: int) -> Ruling:
    """Return the ruling on a claim about several cases: it holds for all, for some, or for none of them."""
    return "holds" if n_true == n_all else "holds in part" if n_true else "does not hold"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "no metric"
