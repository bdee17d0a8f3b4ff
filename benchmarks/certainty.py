"""What cleaning says and does without any answer, and what answers buy, against the truth.

    python benchmarks/certainty.py clean --seeds 3        # ranking, rates, intervals, removal without answers
    python benchmarks/certainty.py audit --part whole     # with answers, see _certainty_audit.py
    python benchmarks/certainty.py cost                   # processor time of clean, in fits of ClearPML
    python benchmarks/certainty.py stability              # how far estimates differ between samples of one table
    python benchmarks/certainty.py judges                 # what is said of the suspects of other models

`clean`: every set gets uniform, confusable and correlated noise at several levels; sets and texts with real noise keep
theirs. The weights and gates were chosen on the sets in `TUNED`; all others are for checking. Prints a line per group
of cases, then each bar with what was reached and where it was missed. "Old" is the order by the map alone, and the
removal by its estimated precision, as before the comparison with injected cells.
"""

import argparse
import time

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from sklearn.metrics import average_precision_score

import _certainty_audit as audit
import _certainty_judges as judges
import _certainty_stability as stability
from _certainty_cases import KINDS, Case, cases
from pmlkit.cleaning import CleaningResult, clean
from pmlkit.cleaning.calibration import false_probability
from pmlkit.data import make_pml
from pmlkit.methods import ClearPML, make_classifier

TUNED = ("emotions", "medical", "slashdot", "yeast", "scene", "YeastCC", "so_emotions", "movies_two_catalogues")
CHECKED = (
    "flags", "foodtruck", "genbase", "enron", "corel5k", "bibtex", "tmc2007_500", "YeastMF", "YeastBP", "lost_pll",
    "open_relations_crowd1", "so_emotions_all",
)  # fmt: skip
LEVELS = (0.0, 0.02, 0.1, 0.25, 0.5, 1.0)
_SPREAD = 0.57  # standard deviation, on the scale of log odds, of what the map gets wrong about a whole data set
_TOLERATED = 0.85  # least share of false labels among the removed


def old_removal(doubt: np.ndarray, result: CleaningResult, precision: float = 0.9) -> np.ndarray:
    """Return what was removed by the map alone: as much as reaches the precision by its own estimate."""
    rate = np.clip(doubt.mean(), 1e-4, 1 - 1e-4)
    low = expit(logit(rate) - 1.645 * np.sqrt(_SPREAD**2 + 1 / (len(doubt) * rate * (1 - rate))))
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
    result = clean(case.X, case.Y)
    old = false_probability(result.scores, result.Y, ClearPML().fit(case.X, case.Y).label_confidence_.data)
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
        "seed": case.seed,
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
    holds = uniform["random_covers"].groupby(uniform["level"]).mean()
    held = ", ".join(f"{level:.0%} {value:.0%}" for level, value in holds.items())
    print(f"random mistakes, mean absolute error: {shown}; 90 % interval holds: {held}\n")


def without_answers(options: argparse.Namespace) -> None:
    """Run the cases and print."""
    levels = [float(level) for level in options.levels.split(",")]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    lines = []
    for case in cases(options.sets.split(","), levels, seeds, options.max_rows):
        try:
            line = measure(case)
        except ValueError as error:
            print(f"{case.name:22s}{case.group:17s} refused, left out: {error}", flush=True)
            continue
        lines.append(line)
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


def summary(options: argparse.Namespace) -> None:
    """Print the bars of the cases that several runs have written."""
    report(pd.concat([pd.read_csv(path) for path in options.csv], ignore_index=True))


def cost(options: argparse.Namespace) -> None:
    """Print the processor time of clean in fits of ClearPML, taking turns."""
    for n_rows in map(int, options.rows.split(",")):
        data = make_pml(n_rows, 100, 20, cardinality=2.5, noise=0.25, random_state=0)
        seconds: dict[str, list[float]] = {"fit": [], "clean": []}
        for _ in range(options.rounds):
            for name, job in (("fit", make_classifier("auto").fit), ("clean", clean)):
                started = time.process_time()
                job(data.X, data.Y)
                seconds[name].append(time.process_time() - started)
        fit, cleaned = (float(np.median(seconds[name])) for name in ("fit", "clean"))
        print(f"{n_rows:,} rows: fit {fit:.2f} s, clean {cleaned:.2f} s of the processor: {cleaned / fit:.2f} fits")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser("clean", help="without answers")
    part.add_argument("--sets", default=",".join([*TUNED, *CHECKED]))
    part.add_argument("--levels", default=",".join(map(str, LEVELS)))
    part.add_argument("--seeds", type=int, default=1)
    part.add_argument("--first-seed", type=int, default=0)
    part.add_argument("--max-rows", type=int, default=1500)
    part.add_argument("--csv", help="write one line per case")
    part.set_defaults(run=without_answers)
    part = parts.add_parser("summary", help="the bars, from what `clean --csv` wrote")
    part.add_argument("csv", nargs="+")
    part.set_defaults(run=summary)
    part = parts.add_parser("audit", help="with answers")
    audit.add_options(part)
    part.set_defaults(run=audit.run)
    part = parts.add_parser("cost", help="processor time")
    part.add_argument("--rows", default="2000,20000")
    part.add_argument("--rounds", type=int, default=3)
    part.set_defaults(run=cost)
    part = parts.add_parser("stability", help="how far estimates differ between samples of one table")
    stability.add_options(part)
    part.set_defaults(run=stability.run)
    part = parts.add_parser("judges", help="what is said of the suspects of other models, and cleanlab's order of them")
    judges.add_options(part)
    part.set_defaults(run=judges.run)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
