"""PML-LFC: is it exact, how fast is it, how does it scale, does it reach the published figures?

    python benchmarks/lfc.py [exact] [dense] [logistic] [scaling] [paper]

With no word, all of it (about half an hour on two cores). Times are medians of runs that take turns.
"""

import csv
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import normalize

from _common import PAPER_SETS, data_home, lfc_reference, load, noisy_split, peak_memory, side_by_side, slope
from pmlkit import PMLLFC
from pmlkit.data import make_pml
from pmlkit.metrics import coverage, evaluate

MEASURES = {
    "HammLoss": "hamming_loss",
    "RankLoss": "ranking_loss",
    "OneError": "one_error",
    "Coverage": "coverage",
    "AvgPrec": "average_precision",
}


def dense_rows(X):
    """Return unit rows, dense."""
    unit = normalize(X)
    return np.asarray(unit.toarray() if sparse.issparse(unit) else unit)


def exact() -> None:
    """Compare confidences with the dense reference, every similarity and row-sum rule."""
    print("Exact: largest difference of the confidences to the dense reference, relative to the largest confidence")
    for name in ("scene", "enron", "slashdot", "corel5k"):
        data = load(name)
        if data is None:
            continue
        X, Y, _, _ = noisy_split(data, 0)
        rows = dense_rows(X)
        for similarity in ("both", "features", "labels"):
            for row_sum in ("penalty", "simplex"):
                options = {"similarity": similarity, "row_sum": row_sum, "max_iter": 3, "tol": 0, "w_tol": 1e-9}
                model = PMLLFC.as_printed(**options).fit(X, Y)
                P, _ = lfc_reference.pml_lfc(
                    rows,
                    Y.toarray().astype(float),
                    alpha=10.0,
                    beta=10.0,
                    lam=10.0,
                    similarity=similarity,
                    width=model.bandwidth_,
                    row_sum=row_sum,
                    n_outer=3,
                    n_inner=1000,
                    w_tol=1e-9,
                )
                error = np.abs(model.label_confidence_.toarray() - np.minimum(P, 1)).max() / min(P.max(), 1)
                print(f"  {name:9} {similarity:8} {row_sum:8} {error:.1e}", flush=True)


def dense() -> None:
    """Race against the dense reference with the same outer iterations and ten inner ones."""
    print("Speed and memory against the dense reference (10 outer iterations)")
    for name, rows in (("corel5k", None), ("tmc2007_500", 12_000)):
        data = load(name)
        if data is None:
            continue
        X, Y, _, _ = noisy_split(data, 0)
        X, Y = X[:rows], Y[:rows]
        unit, candidates = dense_rows(X), Y.toarray().astype(float)
        width = PMLLFC.as_printed(random_state=0).fit(X, Y).bandwidth_
        jobs = {
            "ours": lambda X=X, Y=Y: PMLLFC.as_printed(tol=0, random_state=0).fit(X, Y),
            "dense": lambda unit=unit, candidates=candidates, width=width: lfc_reference.pml_lfc(
                unit, candidates, alpha=10.0, beta=10.0, lam=10.0, similarity="both", width=width, n_inner=10
            ),
        }
        seconds = side_by_side(jobs, rounds=1 if rows else 2)
        memory = {job: peak_memory(jobs[job]) for job in jobs}
        print(
            f"  {name} ({X.shape[0]} rows): {seconds['ours']:.2f} s against {seconds['dense']:.1f} s, "
            f"{seconds['dense'] / seconds['ours']:.1f} times as fast; {memory['ours']:.2f} GB against "
            f"{memory['dense']:.2f} GB, 1/{memory['dense'] / memory['ours']:.0f}",
            flush=True,
        )


def logistic() -> None:
    """Race against one-vs-rest logistic regression on the same rows."""
    print("Time as a multiple of one-vs-rest LogisticRegression(solver='liblinear')")
    sets = {name: load(name) for name in ("corel5k", "slashdot", "enron", "medical", "scene", "tmc2007_500")}
    sets["imdb-size"] = make_pml(96_735, 1001, 28, cardinality=2.0, noise=0.5, density=0.0194, random_state=0)
    for name, data in sets.items():
        if data is None:
            continue
        X, Y = (data.X, data.Y) if name == "imdb-size" else noisy_split(data, 0)[:2]
        labelled = Y.sum(axis=1) > 0
        unit, target = normalize(X)[labelled], Y[labelled].toarray()
        target = target[:, target.any(axis=0)]

        def ovr(unit=unit, target=target):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                OneVsRestClassifier(LogisticRegression(solver="liblinear")).fit(unit, target)

        jobs = {"ours": lambda X=X, Y=Y: PMLLFC.as_printed(random_state=0).fit(X, Y), "logistic": ovr}
        seconds = side_by_side(jobs, rounds=1 if name == "imdb-size" else 5)
        ratio = seconds["ours"] / seconds["logistic"]
        print(f"  {name:12} {seconds['ours']:7.2f} s / {seconds['logistic']:6.2f} s = {ratio:.2f}", flush=True)


def scaling() -> None:
    """Time and memory against the number of rows, and the map against exact products."""
    data = make_pml(12_000, 1000, 30, cardinality=2.0, noise=0.5, density=0.025, random_state=0)
    small = data.subset(np.arange(4000))
    by_kind = {
        kind: PMLLFC.as_printed(kernel_approx=kind, random_state=0).fit(small.X, small.Y).label_confidence_.data
        for kind in ("exact", "features")
    }
    agreement = np.corrcoef(by_kind["exact"], by_kind["features"])[0, 1]
    print(f"Scaling: mapped and exact confidences correlate {agreement:.4f} (4,000 rows)")
    sizes, seconds = [12_000, 40_000, 130_000, 400_000, 1_000_000], []
    for n in sizes:
        data = make_pml(n, 1000, 30, cardinality=2.0, noise=0.5, density=0.025, random_state=0)
        X, Y = data.X, data.Y
        start = time.perf_counter()
        model = PMLLFC.as_printed(tol=0, random_state=0).fit(X, Y)
        seconds.append(time.perf_counter() - start)
        print(f"  {n:9,} rows: {seconds[-1]:6.1f} s ({model.kernel_approx_})", flush=True)
        if n == sizes[-1]:
            del model
            memory = peak_memory(lambda X=X, Y=Y: PMLLFC.as_printed(tol=0, random_state=0).fit(X, Y))
            print(f"  peak memory beyond the data: {memory:.2f} GB")
    print(f"  log-log slope {slope(sizes, seconds):.2f}")


def paper(repeats: int = 10) -> None:
    """Put our figures beside the PML-LFC column of the paper's table 2."""
    published = published_figures()
    if not published:
        return
    print(f"The paper's protocol: 80/20, 50 % noise, {repeats} repeats; the default setting for all sets")
    print("  'coverage, all rows' counts rows without a label as -1/q, as the MATLAB program does")
    print(f"  {'set':9} {'measure':9} {'ours':>15} {'paper':>13} {'difference':>10}")
    met = {"labelled rows": 0, "all rows": 0}
    cells = 0
    for name in PAPER_SETS:
        data = load(name)
        if data is None:
            continue
        results, all_rows = [], []
        for seed in range(100, 100 + repeats):
            X, Y, X_test, truth = noisy_split(data, seed)
            model = PMLLFC(random_state=0).fit(X, Y)
            scores = model.decision_function(X_test)
            results.append(evaluate(truth, scores, model.predict(X_test)))
            all_rows.append(coverage(truth, scores, empty_rows="keep"))
        for printed, measure in MEASURES.items():
            mean, deviation = published[name.lower(), printed]
            values = [result[measure] for result in results]
            met_here = verdict(np.mean(values), mean, deviation, printed)
            cells += 1
            met["labelled rows"] += met_here != "worse"
            met["all rows"] += (
                verdict(np.mean(all_rows), mean, deviation, printed) if printed == "Coverage" else met_here
            ) != "worse"
            print(
                f"  {name:9} {printed:9} {np.mean(values):7.3f} ± {np.std(values):.3f} {mean:7.3f} ± {deviation:.3f} "
                f"{np.mean(values) - mean:+10.3f} {met_here}",
                flush=True,
            )
            if printed == "Coverage" and name.startswith("Yeast"):
                print(f"  {'':9} {'  all rows':9} {np.mean(all_rows):7.3f}")
    for convention, count in met.items():
        print(f"  equal or better with coverage over {convention}: {count} of {cells}")


def verdict(ours: float, mean: float, deviation: float, printed: str) -> str:
    """Say whether a figure is better than the printed one, equal to it within a deviation or 0.01, or worse."""
    better = ours - mean if printed == "AvgPrec" else mean - ours
    margin = max(deviation, 0.01)
    return "better" if better > margin else "equal" if better >= -margin - 1e-9 else "worse"


def published_figures() -> dict[tuple[str, str], tuple[float, float]]:
    """Read the paper's table 2 beside the data folder, if it is there."""
    path = data_home().parent / "paper" / "table2.csv"
    if not path.is_file():
        print(f"The paper's figures are skipped: {path} is absent")
        return {}
    with Path(path).open() as file:
        return {
            (row["dataset"].lower(), row["metric"]): (float(row["mean"]), float(row["std"]))
            for row in csv.DictReader(file)
            if row["method"] == "PML-LFC"
        }


if __name__ == "__main__":
    parts = {part.__name__: part for part in (exact, dense, logistic, scaling, paper)}
    unknown = [word for word in sys.argv[1:] if word not in parts]
    if unknown:
        sys.exit(f"Unknown part {unknown[0]!r}: choose from {', '.join(parts)}.")
    for word in sys.argv[1:] or parts:
        parts[word]()
