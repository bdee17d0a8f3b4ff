"""Speed and memory of noise, synthetic data and stratified folds.

Run: ``python benchmarks/data_speed.py``. Large jobs run in a process of their own, so that the peak memory
printed is theirs. Rivals are measured in turns with us, and medians are printed.
"""

import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from scipy import sparse

from pmlkit.data.noise import add_noise
from pmlkit.data.splits import StratifiedLabelKFold
from pmlkit.data.synthetic import make_pml

REPEATS = 3


def random_labels(n_rows: int, n_labels: int, per_row: int = 3) -> Any:
    """Return labels drawn without any structure, quickly."""
    labels = np.random.default_rng(0).integers(0, n_labels, n_rows * per_row)
    truth = sparse.csr_array((np.ones(len(labels), np.uint8), (np.repeat(np.arange(n_rows), per_row), labels)))
    truth.sum_duplicates()
    truth.data[:] = 1
    return truth


def seconds(work: Callable[[], Any]) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def large_noise(kind: str) -> tuple[float, float, float]:
    """Return seconds, memory before and peak memory of noise on 1,000,000 x 100."""
    truth = random_labels(1_000_000, 100)
    X = np.random.default_rng(1).standard_normal((1_000_000, 20)).astype(np.float32)
    before = _peak_gb()
    return seconds(lambda: add_noise(truth, 1.0, kind, random_state=0, X=X)), before, _peak_gb()


def large_data(kind: str) -> tuple[float, float, float]:
    """Return seconds, memory before and peak memory of 1,000,000 x 1,000 sparse rows with 30 labels."""
    before = _peak_gb()
    work = seconds(lambda: make_pml(1_000_000, 1000, 30, density=0.025, kind=kind, random_state=0))
    return work, before, _peak_gb()


def in_own_process(job: Callable[[str], tuple[float, float, float]], kind: str) -> tuple[float, float, float]:
    """Run a job in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(job, (kind,))


def noise_row_by_row(truth: Any, rng: np.random.Generator) -> list[Any]:
    """Draw as one writes it first: a loop over rows."""
    dense = truth.toarray()
    return [rng.choice(np.flatnonzero(row == 0), row.sum(), replace=False) for row in dense]


def deviation(folds: Any, Y: Any) -> float:
    """Return the mean absolute deviation of the labels' shares per fold from the even share."""
    tests = [test for _, test in folds]
    shares = np.array([Y[test].sum(axis=0) for test in tests]) / np.maximum(Y.sum(axis=0), 1)
    return float(np.abs(shares - 1 / len(tests))[:, Y.any(axis=0)].mean())


def compare_noise() -> None:
    """Print the ratio to a loop over the rows."""
    truth = random_labels(50_000, 100)
    rng = np.random.default_rng(0)
    loop, ours = [], []
    for _ in range(REPEATS):
        loop.append(seconds(lambda: noise_row_by_row(truth, rng)))
        ours.append(seconds(lambda: add_noise(truth, 1.0, random_state=rng)))
    print(
        f"uniform noise, 50,000 x 100: loop over rows {median(loop):.2f} s, add_noise {median(ours):.3f} s, "
        f"{median(loop) / median(ours):.0f} times faster"
    )


def compare_folds() -> None:
    """Print the ratio to iterative-stratification, in time and in balance."""
    from iterstrat.ml_stratifiers import MultilabelStratifiedKFold

    for n_rows, n_labels, cardinality in [(20_000, 50, 3.0), (5_000, 300, 4.0)]:
        Y = make_pml(n_rows, 1, n_labels, cardinality=cardinality, random_state=0).truth.toarray()
        theirs, ours, balance = [], [], []
        for seed in range(REPEATS):
            rival = MultilabelStratifiedKFold(n_splits=5, shuffle=True, random_state=seed)
            folds = StratifiedLabelKFold(n_splits=5, random_state=seed)
            theirs.append(seconds(lambda: list(rival.split(Y, Y))))  # noqa: B023 (called at once)
            ours.append(seconds(lambda: list(folds.split(Y, Y))))  # noqa: B023
            balance.append((deviation(rival.split(Y, Y), Y), deviation(folds.split(Y, Y), Y)))
        print(
            f"5 folds of {n_rows:,} x {n_labels}: iterative-stratification {median(theirs):.2f} s, "
            f"StratifiedLabelKFold {median(ours):.3f} s, {median(theirs) / median(ours):.1f} times faster; "
            f"deviation of label shares {np.mean(balance, axis=0)[0]:.5f} and {np.mean(balance, axis=0)[1]:.5f}"
        )
    truth = random_labels(1_000_000, 50)
    work = seconds(lambda: list(StratifiedLabelKFold(n_splits=5, random_state=0).split(None, truth)))
    print(f"5 folds of 1,000,000 x 50: {work:.1f} s")


def main() -> None:
    """Print everything."""
    warnings.simplefilter("ignore")
    for kind in ("uniform", "correlated", "confusable"):
        work, before, peak = in_own_process(large_noise, kind)
        print(f"{kind} noise, 1,000,000 x 100: {work:.1f} s, memory {before:.2f} GB before, {peak:.2f} GB at the peak")
    work, before, peak = in_own_process(large_data, "uniform")
    print(
        f"make_pml, 1,000,000 x 1,000 sparse, 30 labels: {work:.1f} s, "
        f"memory {before:.2f} GB before, {peak:.2f} GB at the peak"
    )
    compare_noise()
    compare_folds()


if __name__ == "__main__":
    main()
