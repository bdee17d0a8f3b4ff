"""Time of the ranking measures beside scikit-learn's, and their peak memory on a million rows.

Run ``python benchmarks/metrics_speed.py``. Times are medians of interleaved runs of one process; memory is measured in
a process of its own, as what the call adds to the tables it is given.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from sklearn.metrics import label_ranking_loss

from pmlkit.metrics import evaluate, ranking_loss

TIME_SHAPE = (20_000, 200)
MEMORY_SHAPE = (1_000_000, 50)


def make_tables(shape: tuple[int, int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return a truth with 5 % of the cells set, and scores that know something of it."""
    rng = np.random.default_rng(seed)
    scores = rng.random(shape)
    truth = np.empty(shape, dtype=np.int8)
    # Row blocks, so that making the tables does not set the peak that is to be measured.
    for start in range(0, shape[0], 10_000):
        rows = slice(start, start + 10_000)
        truth[rows] = rng.random(truth[rows].shape) < 0.1 * scores[rows]
    return truth, scores


def compare_times(n_runs: int) -> None:
    """Print the median times and their ratios to ``label_ranking_loss``."""
    truth, scores = make_tables(TIME_SHAPE)
    rounded = scores.round(2)
    calls: dict[str, Callable[[], object]] = {
        "sklearn label_ranking_loss": lambda: label_ranking_loss(truth, scores),
        "sklearn label_ranking_loss, ties": lambda: label_ranking_loss(truth, rounded),
        "ranking_loss": lambda: ranking_loss(truth, scores, convention="sklearn"),
        "ranking_loss, ties": lambda: ranking_loss(truth, rounded, convention="sklearn"),
        "evaluate (all measures)": lambda: evaluate(truth, scores, truth),
        "evaluate (all measures), ties": lambda: evaluate(truth, rounded, truth),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(n_runs):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    print(f"{TIME_SHAPE[0]} x {TIME_SHAPE[1]}, median of {n_runs} interleaved runs")
    for name, seconds in times.items():
        beside = "sklearn label_ranking_loss" + (", ties" if name.endswith("ties") else "")
        median = statistics.median(seconds)
        print(f"  {name:34s} {median:7.3f} s   {median / statistics.median(times[beside]):5.2f} x scikit-learn")


def measure_memory() -> None:
    """Print what one `evaluate` of a million rows adds to the memory of this process."""
    truth, scores = make_tables(MEMORY_SHAPE)
    # Linux counts ru_maxrss in kilobytes, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    tracemalloc.start()
    evaluate(truth, scores, truth)
    allocated = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    inputs = truth.nbytes + scores.nbytes
    print(f"{MEMORY_SHAPE[0]} x {MEMORY_SHAPE[1]}, evaluate with predictions; inputs {inputs / 1e6:.0f} MB")
    print(f"  peak of arrays beyond the inputs   {allocated / 1e6:7.0f} MB")
    print(f"  growth of the peak resident memory {(after - before) / 1e6:7.0f} MB (to {after / 1e6:.0f} MB)")


def main() -> None:
    """Run both parts, the memory part in a fresh process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="interleaved runs per call")
    parser.add_argument("--memory", action="store_true", help="measure memory only, in this process")
    arguments = parser.parse_args()
    if arguments.memory:
        measure_memory()
        return
    compare_times(arguments.runs)
    subprocess.run([sys.executable, __file__, "--memory"], check=True)


if __name__ == "__main__":
    main()
