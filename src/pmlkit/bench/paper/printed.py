"""Figures printed in the paper, and where they contradict each other."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import pandas as pd

from pmlkit.bench.formatting import count

__all__ = [
    "LFC",
    "RATIOS",
    "REAL",
    "RIVALS",
    "SYNTHETIC",
    "TABLE_2_RATIO",
    "Contradiction",
    "contradictions",
    "table",
    "table_3_faults",
]

LFC = "PML-LFC"
RIVALS = ("RankSVM", "ML-KNN", "PML-LRS", "fPML", "DRAMA", "PARTICLE-VLS")
SYNTHETIC = ("slashdot", "scene", "enron", "medical", "corel5k")
REAL = ("YeastBP", "YeastCC", "YeastMF")
RATIOS = (0.1, 0.5, 1.0, 2.0)
TABLE_2_RATIO = 0.5

_ROUNDING = 0.001  # two numbers of three decimals, each off by half of the last one
_NEAR = 0.2  # relative difference of two numbers that are called alike


@cache
def table(number: int) -> pd.DataFrame:
    """Return table 1, 2 or 3 of the paper.

    Returns: 1: a row for each data set. 2: a row for each data set, metric and method that has a figure. 3: a row for
    each metric (and ``total``) and rival. The first line of each file tells where it comes from.
    """
    file = files("pmlkit.bench.paper") / "tables" / f"table{number}.csv"
    with file.open(encoding="utf-8") as stream:
        return pd.read_csv(stream, comment="#", keep_default_na=True)


@dataclass(frozen=True)
class Contradiction:
    """A figure of table 2 that contradicts others, and the reason."""

    data: str
    metric: str
    method: str
    reason: str


@cache
def contradictions() -> tuple[Contradiction, ...]:
    """Return the figures of table 2 that contradict others of the paper.

    Notes
    -----
    With R true labels of q, a row's coverage (r - 1)/q and its ranking loss are tied to each other: the worst-ranked
    true label has at least as many false labels above it as the true labels have on average, and at most R times as
    many. So the mean coverage is at least (q - 1)/q times the ranking loss, and at most m times it plus (m - 1)/q,
    where m is the largest R.
    """
    sizes = table(1).set_index("data")
    # Table 1 prints 0.245 labels a row for corel5k; the data have 3.522.
    density = sizes["true_labels_per_row"].where(sizes.index != "corel5k", 3.522) / sizes["n_labels"]
    means = table(2).pivot_table("mean", index=["data", "method"], columns="metric", sort=False)
    found = []
    for (data, method), row in means.iterrows():
        q, m = int(sizes.loc[data, "n_labels"]), int(sizes.loc[data, "most_true_labels"])
        hamming, ranking, coverage = row["hamming_loss"], row["ranking_loss"], row["coverage"]
        lowest, highest = ranking * (q - 1) / q, (m * ranking * (q - 1) + m - 1) / q
        if abs(ranking - density[data]) < _NEAR * density[data] and hamming > 1.5 * ranking:
            reason = (
                f"the ranking loss {ranking:.3f} is about the Hamming loss of predicting nothing, {density[data]:.3f}: "
                "the two losses look swapped"
            )
            found += [Contradiction(data, metric, method, reason) for metric in ("hamming_loss", "ranking_loss")]
        elif hamming > 0.5:
            reason = f"a Hamming loss of {hamming:.3f} is worse than that of the opposite prediction"
            found.append(Contradiction(data, "hamming_loss", method, reason))
        if coverage < lowest - _ROUNDING:
            reason = (
                f"coverage {coverage:.3f} cannot be below (q - 1)/q of the ranking loss, {lowest:.3f}: it was counted "
                "over other rows, such as those without a label"
            )
            found.append(Contradiction(data, "coverage", method, reason))
        elif coverage > highest + _ROUNDING:
            reason = (
                f"with a ranking loss of {ranking:.3f} and at most {m} true labels, coverage is at most {highest:.3f}, "
                f"not {coverage:.3f}"
            )
            found += [Contradiction(data, metric, method, reason) for metric in ("ranking_loss", "coverage")]
    return tuple(found)


@cache
def table_3_faults() -> tuple[str, ...]:
    """Return where table 3 contradicts itself or table 2, in sentences."""
    figures, counts = table(2), table(3).set_index(["metric", "rival"])
    n_cases = len(SYNTHETIC) * len(RATIOS) + len(REAL)
    faults = []
    for rival in RIVALS:
        known = set(figures.loc[figures["method"] == rival, "data"])
        missing = [data for data in (*SYNTHETIC, *REAL) if data not in known]
        n_counted, n_possible = int(counts.loc[("total", rival)].sum()), 5 * (n_cases - len(missing))
        if n_counted > n_possible:
            faults.append(
                f"{rival} has no figures on {', '.join(missing)}, but {n_counted} tests are counted for it instead of "
                f"at most {n_possible}."
            )
    marks = figures.groupby(["metric", "method", "outcome"]).size()
    for (metric, rival, outcome), n_marked in marks.items():
        n_counted = int(counts.loc[(metric, rival), _PLURAL[outcome]])
        if n_marked > n_counted:
            faults.append(
                f"Table 2 marks {count(int(n_marked), outcome)} against {rival} by {metric.replace('_', ' ')}, "
                f"table 3 counts {n_counted}."
            )
    return tuple(faults)


_PLURAL = {"win": "wins", "tie": "ties", "loss": "losses"}
