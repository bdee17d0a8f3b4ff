"""What a fit on a cluster costs: processor seconds of workers, client and scheduler, tasks, and bytes that move."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
from distributed import Client
from scipy import optimize

from pmlkit.blocks import RowBlocks
from pmlkit.blocks.engine import n_bytes
from pmlkit.blocks.executors import DaskEngine


@dataclass
class Cost:
    """One fit.

    `workers`: processor seconds of all workers; `client`: of the thread that fits, whose work nothing runs beside;
    `scheduler`: of the other threads of this process, scheduler and messages; `back`, `out`: bytes that come to the
    client and that every worker is sent.
    """

    n_rows: int
    n_labels: int
    n_blocks: int = 0
    workers: float = 0.0
    client: float = 0.0
    scheduler: float = 0.0
    wall: float = 0.0
    n_passes: int = 0
    n_tasks: int = 0
    back: list[int] = field(default_factory=list)
    out: int = 0


def fit_cost(model: Any, X: Any, Y: Any, client: Client) -> Cost:
    """Fit a model to Dask arrays and return what it took."""
    cost = Cost(X.shape[0], Y.shape[1], len(X.chunks[0]))
    busy = sum(client.run(time.process_time).values())
    wall, own, all_threads = time.perf_counter(), time.thread_time(), time.process_time()
    with _counted(cost):
        model.fit(RowBlocks(X, Y, client=client))
    cost.wall, cost.client = time.perf_counter() - wall, time.thread_time() - own
    cost.scheduler = time.process_time() - all_threads - cost.client
    cost.workers = sum(client.run(time.process_time).values()) - busy
    return cost


@contextmanager
def _counted(cost: Cost) -> Iterator[None]:
    submitted, combined, share = DaskEngine._submitted, DaskEngine._combined, DaskEngine.share

    def counts_tasks(engine: Any, call: Any, places: Any) -> Any:
        cost.n_passes += 1
        cost.n_tasks += len(places)
        return submitted(engine, call, places)

    def counts_results(engine: Any, futures: Any, combine: Any) -> Any:
        found = combined(engine, futures, combine)
        cost.back.append(_size(found))
        return found

    def counts_shared(engine: Any, value: Any) -> Any:
        cost.out += _size(value)
        return share(engine, value)

    with (
        mock.patch.object(DaskEngine, "_submitted", counts_tasks),
        mock.patch.object(DaskEngine, "_combined", counts_results),
        mock.patch.object(DaskEngine, "share", counts_shared),
    ):
        yield


def _size(value: Any) -> int:
    """Return the bytes of arrays, however they are nested; objects by their attributes."""
    try:
        return n_bytes(value)
    except TypeError:
        return sum(_size(part) for part in vars(value).values()) if hasattr(value, "__dict__") else 0


@dataclass(frozen=True)
class Model:
    """Seconds = a + a_s s + (b + b_q q) n / workers + c tasks: client, workers, scheduler.

    s are the scores of the sample on which the client works (at most 50,000 rows and 40 million scores).
    """

    a: float
    a_per_score: float
    b: float
    b_per_label: float
    c: float
    tasks_per_block: float

    @classmethod
    def of(cls, costs: list[Cost]) -> "Model":
        """Fit the model to processor times by least squares of relative errors."""
        design = np.array([[1.0, cost.n_rows, cost.n_rows * cost.n_labels] for cost in costs])
        taken = np.array([cost.workers for cost in costs])
        varies = len({cost.n_labels for cost in costs}) > 1
        if not varies:
            design = design[:, :2]
        scale = design.max(axis=0)
        weighted = design / scale / taken[:, None]
        found = np.linalg.lstsq(weighted, np.ones(len(taken)), rcond=None)[0] / scale
        last = max(costs, key=lambda cost: cost.n_tasks)
        own = _line([sampled_scores(cost.n_rows, cost.n_labels) for cost in costs], [cost.client for cost in costs])
        messages = _line([cost.n_tasks for cost in costs], [cost.scheduler for cost in costs])
        return cls(
            a=own[0] + messages[0],
            a_per_score=own[1],
            b=float(found[1]),
            b_per_label=float(found[2]) if varies else 0.0,
            c=messages[1],
            tasks_per_block=last.n_tasks / last.n_blocks,
        )

    def seconds(self, n_rows: float, n_labels: int, n_workers: int, n_blocks: float) -> tuple[float, float, float]:
        """Return the seconds of the client, of the workers, and of the scheduler."""
        rows = (self.b + self.b_per_label * n_labels) * n_rows / n_workers
        own = self.a + self.a_per_score * sampled_scores(n_rows, n_labels)
        return own, rows, self.c * self.tasks_per_block * n_blocks


def sampled_scores(n_rows: float, n_labels: int) -> float:
    """Return how many scores the client works on."""
    return n_labels * min(n_rows, 50_000, 40_000_000 // n_labels)


def _line(x: list[float], y: list[float]) -> tuple[float, float]:
    """Return intercept and slope of a line through measurements, neither below zero."""
    design = np.column_stack([np.ones(len(x)), x]) / [1.0, max(x)]
    intercept, slope = optimize.nnls(design, np.array(y))[0]
    return float(intercept), float(slope / max(x))
