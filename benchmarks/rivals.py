"""Every method: is it as fast as it should be, and what does it do with the paper's data?

    python benchmarks/rivals.py [speed] [--rounds N]
    python benchmarks/rivals.py real [--methods NAME ...] [--data NAME ...] [--splits N] [--rows N] [--budget SECONDS]
    python benchmarks/rivals.py report [--out CSV] [--diagram SVG]
    python benchmarks/rivals.py yeast [--methods NAME ...] [--data NAME ...] [--folds N] [--out CSV]

``speed`` (the default) puts every method beside the program that it must keep up with, on 1,600 rows, 300 features and
20 labels; jobs take turns, and medians are printed. ``real`` fits every method, with its defaults, to the paper's eight
sets with 50 % uniform noise (Yeast: its own candidates) and to three text sets with real noise (folder ``realnoise``
of the data folder); a fit ends when its budget of processor time is spent. Cells go to a CSV file, and the
same command continues an interrupted run. ``report`` prints the comparison, losses of ClearPML first, and draws the
critical-difference diagram. ``yeast`` is ten-fold cross-validation on the original Yeast sets, whose published
figures it prints; it is continued like ``real``. Seconds are processor time. Set OMP_NUM_THREADS=1 and
OPENBLAS_NUM_THREADS=1, as ``make bench`` does.
"""

import argparse
import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse
from scipy.optimize import nnls
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import NearestNeighbors
from sklearn.svm import LinearSVC

import _rivals_real
from _common import side_by_side
from pmlkit.methods import all_methods
from pmlkit.methods.drama import manifold_confidence
from pmlkit.numerics.neighbors import nearest, reconstruction_graph
from pmlkit.numerics.scaling import scaled

STAGE_ONE = "DRAMA, confidences"
LOGISTIC, MACHINES, DENSE_ADMM = "one-vs-rest logistic regression", "20 one-vs-rest LinearSVC", "dense ADMM"
# Seconds of the authors' programs in Octave 7.3 on two cores, on the same data but another machine.
PARTICLE_OCTAVE, PML_NI_OCTAVE = 37.0 + 36.0, 28.0


class Bar(NamedTuple):
    """What a method must reach: its seconds, over those of another program, at most so much."""

    job: str
    against: str | float
    at_most: float


BARS = (
    Bar("RankSVM", MACHINES, 1.0),
    Bar("PMLLC", "RankSVM", 10.0),
    Bar("PMLFP", "RankSVM", 10.0),
    Bar("PMLLRS", LOGISTIC, 5.0),
    Bar("FPML", LOGISTIC, 3.0),
    Bar(STAGE_ONE, DENSE_ADMM, 0.1),
    Bar("ParticleVLS", PARTICLE_OCTAVE, 0.1),
    Bar("ParticleMAP", PARTICLE_OCTAVE, 0.1),
    Bar("PMLNI", PML_NI_OCTAVE, 0.1),
    Bar("UPML", LOGISTIC, 0.3),
    Bar("NLR", LOGISTIC, 2.0),
    Bar("PMLLENFN", LOGISTIC, 2.0),
    Bar("Schirn", LOGISTIC, 2.0),
)


def factor_data(n_rows: int, n_features: int, n_labels: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return features in [0, 1] and candidates, three true labels a row, half as many false ones, rounded up.

    Features and labels follow from a few common factors.
    """
    rng = np.random.default_rng(seed)
    n_factors = n_labels // 3
    factors = rng.normal(size=(n_rows, n_factors))
    X = factors @ rng.normal(size=(n_factors, n_features)) / np.sqrt(n_factors)
    X += 0.5 * rng.normal(size=X.shape)
    scores = factors @ rng.normal(size=(n_factors, n_labels))
    scores += 0.5 * rng.normal(size=scores.shape)
    candidate = scores > np.quantile(scores, 1 - 3.0 / n_labels)
    candidate[np.arange(n_rows), scores.argmax(axis=1)] |= ~candidate.any(axis=1)
    for row in candidate:
        others = np.flatnonzero(~row)
        n_false = min(int(np.ceil(0.5 * row.sum())), len(others) - 1)
        row[rng.choice(others, size=n_false, replace=False)] = True
    low, high = X.min(axis=0), X.max(axis=0)
    return np.round((X - low) / (high - low), 6), candidate.astype(int)


def dense_confidences(X: np.ndarray, Y: np.ndarray, rho: float = 0.5) -> float:
    """Find DRAMA's confidences with dense matrices and loops over rows; return the objective."""
    X = scaled(X, "unit")
    neighbor = nearest(NearestNeighbors().fit(X), 10)[1]
    A = np.eye(len(X))
    for i, around in enumerate(neighbor):
        weights = nnls(X[around].T, X[i])[0]
        A[i, around] -= weights / max(weights.sum(), 1e-12)
    factor = linalg.cho_factor(2 * A.T @ A + rho * np.eye(len(A)))
    candidate = Y > 0
    Z, U = np.zeros(Y.shape), np.zeros(Y.shape)
    for _ in range(130):
        L = linalg.cho_solve(factor, rho * (Z - U))
        Z = np.array([_project_row(row, own) for row, own in zip(L + U, candidate, strict=True)])
        U += L - Z
    return float(np.linalg.norm(A @ Z) ** 2)


def _project_row(row: np.ndarray, candidate: np.ndarray) -> np.ndarray:
    """Project one row on DRAMA's constraints, by sorting."""
    projected = np.where(candidate, np.maximum(row, -0.01), np.minimum(row, -0.5))
    if projected[candidate].sum() < 1:
        values = row[candidate] + 0.01
        descending = np.sort(values)[::-1]
        excess = (np.cumsum(descending) - 1 - 0.01 * len(values)) / np.arange(1, len(values) + 1)
        projected[candidate] = np.maximum(values - excess[descending > excess][-1], 0) - 0.01
    return projected


def our_confidences(X: np.ndarray, Y: np.ndarray) -> float:
    """Find DRAMA's confidences as the method does, but more exactly than the dense program; return the objective."""
    X = scaled(X, "unit")
    neighbor = nearest(NearestNeighbors().fit(X), 10)[1]
    _, objective = manifold_confidence(reconstruction_graph(X, neighbor), sparse.csr_array(Y.astype(float)), tol=1e-9)
    return float(objective[-1])


def speed(rounds: int) -> None:
    """Print every bar, what was measured, and whether it is met."""
    X, Y = (table[:1600] for table in factor_data(2000, 300, 20, seed=7))
    methods = all_methods()

    def fits(estimator: Any) -> Callable[[], Any]:
        return lambda: estimator.fit(X, Y)

    objective: dict[str, float] = {}

    def solves(name: str, solve: Callable[[Any, Any], float]) -> Callable[[], Any]:
        return lambda: objective.update({name: solve(X, Y)})

    jobs = {name: fits(methods[name]()) for name in [bar.job for bar in BARS] if name in methods}
    jobs |= {
        LOGISTIC: fits(OneVsRestClassifier(LogisticRegression(solver="liblinear"))),
        MACHINES: fits(OneVsRestClassifier(LinearSVC())),
        STAGE_ONE: solves(STAGE_ONE, our_confidences),
        DENSE_ADMM: solves(DENSE_ADMM, dense_confidences),
    }
    print(
        f"Speed: {X.shape[0]:,} rows, {X.shape[1]} features, {Y.shape[1]} labels, medians of {rounds} interleaved runs"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds = side_by_side(jobs, rounds=rounds)
    print(f"  {'method':19} {'ours':>7}  {'against':32} {'seconds':>7}  {'ratio':>6}  {'bar':>5}  met?")
    for bar in BARS:
        if isinstance(bar.against, str):
            name, against = bar.against, seconds[bar.against]
        else:
            name, against = "authors' program, elsewhere", bar.against
        ratio = seconds[bar.job] / against
        print(
            f"  {bar.job:19} {seconds[bar.job]:6.2f}s  {name:32} {against:6.2f}s  {ratio:6.3f}  {bar.at_most:5g}  "
            f"{'yes' if ratio <= bar.at_most else 'NO'}"
        )
    print(f"  DRAMA's objective: ours {objective[STAGE_ONE]:.4f}, dense {objective[DENSE_ADMM]:.4f}.")
    print("  The authors' programs (PARTICLE 37 + 36 s, PML-NI 28 s) ran in Octave on two cores of another machine.")


def main() -> None:
    """Read the words and run a part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["speed", "real", "report", "yeast"], default="speed")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each job (speed)")
    parser.add_argument("--methods", nargs="+", choices=sorted(all_methods()), metavar="NAME")
    parser.add_argument("--data", nargs="+", choices=_rivals_real.SETS, metavar="NAME")
    parser.add_argument("--splits", type=int, default=3, help="splits of each set (real)")
    parser.add_argument("--rows", type=int, default=10**9, help="training rows at the most (real)")
    parser.add_argument("--budget", type=float, default=600.0, help="seconds of processor time of a fit (real, yeast)")
    parser.add_argument("--folds", type=int, default=10, help="how many of the ten folds to run (yeast)")
    parser.add_argument("--out", type=Path, help="file of the cells (real, report, yeast)")
    parser.add_argument("--diagram", type=Path, help="SVG file of the critical-difference diagram (real, report)")
    words = parser.parse_args()
    if words.part == "speed":
        speed(words.rounds)
    elif words.part == "yeast":
        methods = words.methods or ["ClearPML", "UPML", "NLR", "PMLNI", "CandidateLogistic"]
        names, out = words.data or ["YeastCC", "YeastMF", "YeastBP"], words.out or Path("yeast.csv")
        _rivals_real.run(names, methods, range(words.folds), _rivals_real.yeast_fold, words.budget, out)
        _rivals_real.yeast_report(out)
    else:
        out = words.out or Path("rivals.csv")
        if words.part == "real":
            names, methods = words.data or _rivals_real.SETS, words.methods or list(all_methods())
            make_problem = functools.partial(_rivals_real.problem, n_rows=words.rows)
            _rivals_real.run(names, methods, range(words.splits), make_problem, words.budget, out)
        _rivals_real.report(out, words.diagram)


if __name__ == "__main__":
    main()
