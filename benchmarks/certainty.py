"""What cleaning says and does without any answer, against the truth: ranking, rates, intervals, removal.

Every set gets uniform, confusable and correlated noise at several levels; sets and texts with real noise keep theirs.
The weights and gates were chosen on the sets in `TUNED`; all others are for checking. Prints a line per group of cases,
then each bar with what was reached and where it was missed. "Old" is the order by the map alone, and the removal by its
estimated precision, as before the comparison with injected cells.

    python benchmarks/certainty.py --max-rows 1500 --seeds 1
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import expit, logit
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import average_precision_score

from _common import load
from pmlkit._arrays import as_csr
from pmlkit.cleaning import CleaningResult, clean
from pmlkit.cleaning.calibration import SPREAD, false_probability
from pmlkit.cleaning.evidence import cross_fit
from pmlkit.data import data_home
from pmlkit.methods import make_classifier

TUNED = ("emotions", "medical", "slashdot", "yeast", "scene", "YeastCC", "so_emotions", "movies_two_catalogues")
CHECKED = (
    "flags", "foodtruck", "genbase", "enron", "corel5k", "bibtex", "tmc2007_500", "YeastMF", "YeastBP", "lost_pll",
    "open_relations_crowd1", "so_emotions_all",
)  # fmt: skip
TEXTS = ("so_emotions", "so_emotions_all", "open_relations_crowd1", "movies_two_catalogues")
KINDS = ("uniform", "confusable", "correlated")
LEVELS = (0.0, 0.02, 0.1, 0.25, 0.5, 1.0)
_TOLERATED = 0.85  # least share of false labels among the removed


@dataclass(frozen=True, eq=False)
class Case:
    """One table with its truth, restricted to labels that can be judged."""

    name: str
    kind: str
    level: float
    seed: int
    X: sparse.csr_array
    Y: sparse.csr_array
    truth: sparse.csr_array

    @property
    def group(self) -> str:
        """Cases that are averaged."""
        return self.kind if self.kind in ("none", "real") else f"{self.kind} {self.level:.0%}"

    def is_false(self, result: CleaningResult) -> np.ndarray:
        """Return which candidates are false, aligned with ``result.Y.data``."""
        return self.truth.toarray()[result.rows, result.Y.indices] == 0


def text_table(name: str) -> tuple[sparse.csr_array, sparse.csr_array, sparse.csr_array] | None:
    """Return TF-IDF, candidates and truth of texts whose labels were really given."""
    path: Path = data_home() / "realnoise" / f"{name}.csv"
    if not path.is_file():
        print(f"  {name}: skipped, {path} is absent")
        return None
    table = pd.read_csv(path, keep_default_na=False)
    X = TfidfVectorizer(min_df=2, sublinear_tf=True, max_features=20_000).fit_transform(table["text"])
    given, true = ([set(filter(None, cell.split(";"))) for cell in table[c]] for c in ("candidates", "truth"))
    labels = sorted(set().union(*given))
    indicators = [
        sparse.csr_array(np.array([[label in row for label in labels] for row in rows], dtype=np.uint8))
        for rows in (given, true)
    ]
    return sparse.csr_array(X), *indicators


def cases(names: list[str], levels: list[float], seeds: int, max_rows: int) -> Iterator[Case]:
    """Yield all cases: rows drawn anew for every seed."""
    for name in names:
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            if name in TEXTS:
                found = text_table(name)
                if found is not None:
                    rows = np.sort(rng.permutation(found[0].shape[0])[:max_rows])
                    yield _case(name, "real", 0.0, seed, *(part[rows] for part in found))
                continue
            data = load(name)
            if data is None:
                continue
            rows = np.sort(rng.permutation(data.n_samples)[:max_rows])
            if (data.truth != data.Y).nnz:
                part = data.subset(rows)
                yield _case(name, "real", 0.0, seed, part.X, part.Y, part.truth)
                continue
            for level in levels:
                for kind in KINDS if level else ("none",):
                    noisy = (data.with_noise(level, kind=kind, random_state=seed) if level else data).subset(rows)
                    yield _case(name, kind, level, seed, noisy.X, noisy.Y, noisy.truth)


def _case(name: str, kind: str, level: float, seed: int, X: object, Y: object, truth: object) -> Case:
    count = np.bincount(Y.indices, minlength=Y.shape[1])
    kept = np.flatnonzero((count >= 5) & (count < Y.shape[0]))
    return Case(name, kind, level, seed, X, as_csr(Y[:, kept]), sparse.csr_array(truth[:, kept]))


def old_removal(doubt: np.ndarray, result: CleaningResult, precision: float = 0.9) -> np.ndarray:
    """Return what was removed by the map alone: as much as reaches the precision by its own estimate."""
    rate = np.clip(doubt.mean(), 1e-4, 1 - 1e-4)
    low = expit(logit(rate) - 1.645 * np.sqrt(SPREAD**2 + 1 / (len(doubt) * rate * (1 - rate))))
    best = np.zeros(len(doubt), dtype=bool)
    Y = result.Y
    best[np.lexsort((doubt, result.rows))[Y.indptr[:-1][np.diff(Y.indptr) > 0]]] = True
    order = np.argsort(-doubt, kind="stable")
    usable = (doubt > 0.5) & ~best & ~np.isin(Y.indices, result.kept_labels)
    cells = order[usable[order]][: int(low * len(doubt))]
    reached = np.flatnonzero(np.cumsum(doubt[cells]) >= precision * np.arange(1, len(cells) + 1))
    removed = np.zeros(len(doubt), dtype=bool)
    removed[cells[: reached[-1] + 1 if len(reached) else 0]] = True
    return removed


def measure(case: Case) -> dict:
    """Judge a case and compare with the truth."""
    started = time.perf_counter()
    evidence = cross_fit(make_classifier("auto"), case.X, case.Y)
    old = false_probability(evidence.scores, case.Y, evidence.confidence)
    old_seconds = time.perf_counter() - started
    started = time.perf_counter()
    result = clean(case.X, case.Y)
    seconds = time.perf_counter() - started
    false = case.is_false(result)
    rate = result.noise_rate_.overall
    random = result.random_mistakes_
    removed, old_removed = result.removable(), old_removal(old, result)
    some = bool(false.any())
    five = result.expected_precision(0.05)
    n_first = max(1, round(0.05 * len(false)))
    true_five = float(false[result.order[:n_first]].mean())
    n_removed, n_old = int(removed.sum()), int(old_removed.sum())
    return {
        "set": case.name,
        "group": case.group,
        "level": case.level,
        "kind": case.kind,
        "tuned": case.name in TUNED,
        "n_rows": case.X.shape[0],
        "false": float(false.mean()),
        "rate": float(rate),
        "low": rate.low,
        "high": rate.high,
        "covers": rate.low <= false.mean() <= rate.high,
        "random": float(random),
        "random_covers": random.low <= false.mean() <= random.high,
        "old_rate": float(old.mean()),
        "ap": average_precision_score(false, result.doubt) if some else np.nan,
        "ap_old": average_precision_score(false, old) if some else np.nan,
        "p5": float(five),
        "p5_true": true_five,
        "p5_covers": five.low <= true_five <= five.high,
        "removed": n_removed,
        "removed_false": int(false[removed].sum()),
        "old_removed": n_old,
        "old_removed_false": int(false[old_removed].sum()),
        "bad": n_removed > 0 and false[removed].mean() < _TOLERATED,
        "time": seconds / old_seconds,
    }


def report(table: pd.DataFrame) -> None:
    """Print the groups, then each bar."""
    means = [
        "false",
        "rate",
        "low",
        "high",
        "covers",
        "random",
        "old_rate",
        "ap_old",
        "ap",
        "p5",
        "p5_true",
        "p5_covers",
    ]
    sums = ["removed", "removed_false", "old_removed", "old_removed_false", "bad"]
    order = ["none", *(f"{kind} {level:.0%}" for kind in KINDS for level in LEVELS if level), "real"]
    for title, part in (("tuned sets", table[table["tuned"]]), ("sets for checking", table[~table["tuned"]])):
        if len(part):
            grouped = part.groupby("group")
            shown = grouped[means].mean().join(grouped[sums].sum()).join(grouped.size().rename("cases"))
            print(f"\n{title}\n{shown.reindex([g for g in order if g in shown.index]).round(3).to_string()}")
    print()
    for title, part in (("tuned", table[table["tuned"]]), ("checking", table[~table["tuned"]]), ("all", table)):
        if len(part):
            bars(title, part, order)


def bars(title: str, table: pd.DataFrame, order: list[str]) -> None:
    """Print what was reached, with wins and losses."""
    print(f"== {title}: {len(table)} cases")
    little = table[(table["kind"] != "real") & (table["level"] <= 0.25)]
    much = table[table["level"] >= 0.5]
    real = table[table["kind"] == "real"]
    for name, part in (("noise <= 25 %", little), ("noise >= 50 %", much), ("real noise", real)):
        acted = part[part["removed"] > 0]
        lost, old_lost = ((part[f"{k}removed"] - part[f"{k}removed_false"]).sum() for k in ("", "old_"))
        missed = [f"{line.set} {line.group}" for line in acted[acted["bad"]].itertuples()]
        print(
            f"removed, {name}: something in {len(acted)} of {len(part)}; under {_TOLERATED} false in {len(missed)} "
            f"({', '.join(missed) or 'none'}); {part['removed'].sum():,} labels (old {part['old_removed'].sum():,}), "
            f"right ones lost {lost:,} (old {old_lost:,})"
        )
    gain = (table["ap"] - table["ap_old"]).groupby(table["group"]).mean().reindex(order).dropna()
    won = (table["ap"] > table["ap_old"])[table["ap"].notna()]
    print("average precision, gain: " + ", ".join(f"{group} {value:+.3f}" for group, value in gain.items()))
    worse = ", ".join(gain.index[gain < -0.01]) or "none"
    print(f"  won {won.sum()} of {len(won)}; groups worse by more than .01: {worse}")
    covers = table["covers"].groupby(table["group"]).mean().reindex(order).dropna()
    print(
        f"90 % interval of the noise rate covers in {table['covers'].mean():.0%}; under 90 %: "
        + (", ".join(f"{group} {value:.0%}" for group, value in covers[covers < 0.9].items()) or "no group")
    )
    error = (table["rate"] - table["false"]).abs(), (table["old_rate"] - table["false"]).abs()
    print(f"noise rate, mean absolute error {error[0].mean():.3f} (old {error[1].mean():.3f})")
    uniform = table[table["kind"].isin(["none", "uniform"])]
    off = (uniform["random"] - uniform["false"]).abs().groupby(uniform["level"]).mean()
    shown = ", ".join(f"{level:.0%} {value:.3f}" for level, value in off.items())
    print(f"random mistakes, mean absolute error: {shown}")
    print(f"time of clean over the old, median {table['time'].median():.2f}\n")


def main() -> None:
    """Run the cases and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join([*TUNED, *CHECKED]))
    parser.add_argument("--levels", default=",".join(map(str, LEVELS)))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--max-rows", type=int, default=1500)
    parser.add_argument("--csv", help="write one line per case")
    options = parser.parse_args()
    levels = [float(level) for level in options.levels.split(",")]
    lines = []
    for case in cases(options.sets.split(","), levels, options.seeds, options.max_rows):
        lines.append(measure(case))
        line = lines[-1]
        print(
            f"{case.name:22s}{case.group:17s} false {line['false']:.3f} said {line['rate']:.3f} "
            f"({line['low']:.3f}-{line['high']:.3f}) random {line['random']:.3f} AP {line['ap_old']:.3f} -> "
            f"{line['ap']:.3f} removed {line['removed']} ({line['removed_false']} false)",
            flush=True,
        )
    table = pd.DataFrame(lines)
    if options.csv:
        table.to_csv(options.csv, index=False)
    report(table)


if __name__ == "__main__":
    main()
