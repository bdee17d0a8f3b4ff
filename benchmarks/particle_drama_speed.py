"""Time of PARTICLE and of DRAMA's confidences, beside plain programs that do the same.

Run ``python benchmarks/particle_drama_speed.py``. 1,600 rows, 300 features, 20 labels; rivals take turns with us in one
process, and medians are printed. The authors' PARTICLE in Octave took 73 s on a problem of this size and two cores.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.optimize import nnls
from sklearn.neighbors import NearestNeighbors
from sklearn.svm import SVC

from pmlkit.data.synthetic import make_pml
from pmlkit.methods.particle import ParticleVLS
from pmlkit.numerics.label_manifold import manifold_confidence
from pmlkit.numerics.neighbors import nearest
from pmlkit.numerics.reconstruction import reconstruction_graph
from pmlkit.numerics.scaling import scaled

SHAPE = (1600, 300, 20)


def project_row(row: np.ndarray, candidate: np.ndarray) -> np.ndarray:
    """Project one row on DRAMA's constraints, by sorting."""
    projected = np.where(candidate, np.maximum(row, -0.01), np.minimum(row, -0.5))
    if projected[candidate].sum() < 1:
        values = row[candidate] + 0.01
        descending = np.sort(values)[::-1]
        excess = (np.cumsum(descending) - 1 - 0.01 * len(values)) / np.arange(1, len(values) + 1)
        projected[candidate] = np.maximum(values - excess[descending > excess][-1], 0) - 0.01
    return projected


def dense_admm(X: np.ndarray, Y: np.ndarray, rho: float = 0.5) -> float:
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
        Z = np.array([project_row(row, own) for row, own in zip(L + U, candidate, strict=True)])
        U += L - Z
    return float(np.linalg.norm(A @ Z) ** 2)


def drama_confidences(X: np.ndarray, Y: np.ndarray) -> float:
    """Find DRAMA's confidences our way, tightly; return the objective."""
    X = scaled(X, "unit")
    neighbor = nearest(NearestNeighbors().fit(X), 10)[1]
    _, objective = manifold_confidence(reconstruction_graph(X, neighbor), sparse.csr_array(Y.astype(float)), tol=1e-9)
    return float(objective[-1])


def plain_machines(X: np.ndarray, credible: np.ndarray, candidate: np.ndarray) -> int:
    """Train PARTICLE's machines one by one, on rows; return their number."""
    n_labels = credible.shape[1]
    sides = [(credible[:, j], ~candidate[:, j]) for j in range(n_labels)]
    sides += [
        (credible[:, j] & ~candidate[:, k], credible[:, k] & ~candidate[:, j])
        for j in range(n_labels)
        for k in range(j + 1, n_labels)
    ]
    for positive, negative in sides:
        rows = positive | negative
        SVC(kernel="linear").fit(X[rows], positive[rows]).score(X[rows], positive[rows])
    return len(sides)


def medians(calls: dict[str, Callable[[], Any]], n_runs: int) -> dict[str, float]:
    """Return the median seconds of calls that take turns, and print what they return."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(n_runs):
        for name, call in calls.items():
            start = time.perf_counter()
            result = call()
            times[name].append(time.perf_counter() - start)
            print(f"  {name}: {times[name][-1]:.2f} s ({result})")
    return {name: median(seconds) for name, seconds in times.items()}


def main() -> None:
    """Measure, and print ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    n_runs = parser.parse_args().runs
    data = make_pml(*SHAPE, cardinality=3.0, noise=0.5, random_state=0)
    X, Y = np.asarray(data.X, dtype=np.float64), data.Y.toarray()

    print("DRAMA, confidences (objective)")
    times = medians({"ours": lambda: drama_confidences(X, Y), "dense ADMM": lambda: dense_admm(X, Y)}, n_runs)
    print(f"ratio {times['dense ADMM'] / times['ours']:.1f}\n")

    print("PARTICLE, whole fit on one core and on two")
    model = ParticleVLS().fit(X, Y)
    calls = {
        "ours, one core": lambda: type(ParticleVLS().fit(X, Y)).__name__,
        "ours, two cores": lambda: type(ParticleVLS(n_jobs=2).fit(X, Y)).__name__,
        "machines alone, one by one": lambda: plain_machines(X, model.credible_, Y > 0),
    }
    times = medians(calls, n_runs)
    for name, seconds in times.items():
        print(f"{name}: {seconds:.2f} s, {73 / seconds:.0f} times as fast as the authors' program took")


if __name__ == "__main__":
    main()
