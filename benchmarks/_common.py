"""What the benchmark scripts share: data, side-by-side timing, peak memory."""

import importlib
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from pmlkit.data import PMLDataset, add_noise, data_home, read, train_test_rows

ROOT = Path(__file__).resolve().parent.parent

# The plain reference lives with the tests.
sys.path.insert(0, str(ROOT / "tests"))
lfc_reference = importlib.import_module("lfc_reference")

PAPER_SETS = ("slashdot", "scene", "enron", "medical", "corel5k", "YeastBP", "YeastCC", "YeastMF")


def load(name: str) -> PMLDataset | None:
    """Read a benchmark set; say so and return None where it is absent."""
    path = data_home() / f"{name}.npz"
    if not path.is_file():
        print(f"  {name}: skipped, {path} is absent (PMLKIT_DATA names the folder)")
        return None
    return read(path)


def noisy_split(data: PMLDataset, seed: int, ratio: float = 0.5) -> tuple[Any, Any, Any, Any]:
    """Return X and candidates of 80 % of the rows, X and truth of the others (the paper's protocol).

    Sets with real candidates keep them; the others get `ratio` false candidates a true label.
    """
    train, test = train_test_rows(data.n_samples, random_state=seed)
    truth = data.truth
    if (truth != data.Y).nnz:
        candidates = data.Y[train]
    else:
        candidates = add_noise(truth[train], ratio, random_state=seed)
    return data.X[train], candidates, data.X[test], truth[test]


def side_by_side(jobs: dict[str, Callable[[], Any]], rounds: int = 3) -> dict[str, float]:
    """Return each job's median seconds, the jobs taking turns so that noise hits all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def peak_memory(job: Callable[[], Any]) -> float:
    """Return how many GB a job adds to the peak of a fresh copy of this process."""
    parent, child = get_context("fork").Pipe(duplex=False)
    process = get_context("fork").Process(target=_measure, args=(job, child))
    process.start()
    gigabytes: float = parent.recv()
    process.join()
    return gigabytes


def _measure(job: Callable[[], Any], answer: Any) -> None:
    # The kernel's high-water mark of this process, reset to what is in use now.
    Path("/proc/self/clear_refs").write_text("5")
    before = _high_water()
    job()
    answer.send(_high_water() - before)
    answer.close()
    os._exit(0)


def _high_water() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def slope(sizes: list[int], seconds: list[float]) -> float:
    """Return the slope of log(seconds) against log(size)."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
