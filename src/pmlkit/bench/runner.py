"""Run the cells of a plan, on this machine or on a Dask cluster, and store the results."""

import contextlib
import logging
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

import joblib

from pmlkit.bench.cells import Cell, expand
from pmlkit.bench.evaluation import close_sandbox, run_cell
from pmlkit.bench.plan import Plan, plan_text
from pmlkit.bench.sandbox import Budget, Outcome, die_with_parent
from pmlkit.bench.store import Store
from pmlkit.blocks import executor

logger = logging.getLogger(__name__)

_LOOK_EVERY = 0.5  # seconds between two checks of what another run has finished


class ProgressCallback:
    """Progress callbacks of a run; the base class ignores them. They are called from several threads.

    Examples
    --------
    >>> from pmlkit.bench import ProgressCallback
    >>> class Printed(ProgressCallback):
    ...     def begin(self, n_cells, n_finished, jobs):
    ...         print(f"{n_cells} cells, {n_finished} of them done")
    >>> import pathlib, tempfile
    >>> from pmlkit import bench
    >>> plan = bench.Plan(["digit-strips:60"], ["MLkNN"], noise=[0.5], repeats=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = pathlib.Path(folder, "results.sqlite")
    ...     _ = bench.run(plan, store, progress=Printed())
    1 cells, 0 of them done
    """

    def stage(self, name: str) -> None:
        """Name the part of a longer job that starts now; only `pmlkit.bench.paper.reproduce` has several parts."""

    def begin(self, n_cells: int, n_finished: int, jobs: int) -> None:
        """Start a run of `n_cells` cells, of which earlier runs finished `n_finished`."""

    def cell_started(self, cell: Cell) -> None:
        """Report a cell that starts."""

    def cell_finished(self, cell: Cell, outcome: Outcome) -> None:
        """Report a cell that ended, with its result or the reason of its failure."""

    def others_finished(self, n_cells: int, n_running: int) -> None:
        """Report cells that another run on the same store finished, and how many it still runs."""

    def end(self) -> None:
        """End the run, also after an error."""


@dataclass(frozen=True)
class RunSummary:
    """Counts of a run; made by `run`, whose example shows them.

    Attributes
    ----------
    n_cells : int
        Cells of the plan.
    n_run : int
        Cells run now; the others were in the store, or a concurrent run on the same store did them.
    n_failed : int
        Cells of the plan that failed, now or in an earlier run.
    seconds : float
        Duration of this run.
    """

    n_cells: int
    n_run: int
    n_failed: int
    seconds: float


def run(
    plan: Plan,
    store: str | os.PathLike[str],
    *,
    jobs: int = 1,
    dask: str | None = None,
    max_seconds: float = 3600.0,
    max_mb: float | None = None,
    retry_failed: bool = False,
    progress: ProgressCallback | None = None,
    command: str = "",
) -> RunSummary:
    """Run the cells of a plan that a store does not have yet.

    Parameters
    ----------
    plan : Plan
        Data sets, noise, methods and repeats.
    store : str or path
        SQLite file with the results; created if absent.
    jobs : int, default=1
        Number of processes; each uses one thread.
    dask : str, optional
        Address of a Dask scheduler (``tcp://host:8786``), or ``local`` for a local cluster of `jobs` processes.
        The store stays with the caller: workers need the package and the data files, not the store.
    max_seconds, max_mb : float
        Limits of a cell: time, and memory beyond that of the process that starts it. By default one hour, and an
        equal share of the machine's memory per job. A cell that exceeds one of them is recorded as failed.
    retry_failed : bool, default=False
        Whether to run cells again that failed before.
    progress : ProgressCallback, optional
        Receives the progress of the run.
    command : str, optional
        Command line to record in the store; by default the plan.

    Returns
    -------
    summary : RunSummary
        Counts; `pmlkit.bench.load_cells` reads the results.

    Notes
    -----
    Concurrent runs on one store share the work. A run with nothing left to start waits for the cells that others
    run, and takes over the cells of processes that died.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit.bench import Plan, run
    >>> plan = Plan(["digit-strips:100"], ["MLkNN"], noise=[0.5], repeats=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = pathlib.Path(folder, "results.sqlite")
    ...     first, second = run(plan, store), run(plan, store)
    >>> first.n_run, second.n_run
    (2, 0)
    """
    if not hasattr(os, "fork"):
        raise RuntimeError("Benchmark cells run in forked processes, which Windows does not have: use WSL or Linux.")
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}.")
    if max_seconds <= 0 or (max_mb is not None and max_mb <= 0):
        raise ValueError(f"max_seconds and max_mb must be more than 0, got {max_seconds:g} and {max_mb}.")
    started = time.monotonic()
    cells = expand(plan)
    by_key = {cell.key: cell for cell in cells}
    budget = Budget(max_seconds, _memory_share(jobs) if max_mb is None else max_mb)
    callback = progress or ProgressCallback()
    with Store(store) as opened, _workers(jobs, dask) as parallel:
        text = plan_text(plan)
        opened.begin(cells, command=command or text, plan=text, jobs=jobs, retry_failed=retry_failed)
        state = _Run(opened, list(by_key.values()), budget, callback)
        callback.begin(len(by_key), opened.counts().finished, jobs)
        try:
            state.run_all(parallel)
        finally:
            callback.end()
        opened.end()
        after = opened.counts()
    return RunSummary(len(by_key), state.n_run, after.failed, time.monotonic() - started)


class _Run:
    """State of a run: which cells are under way, and which were when a worker died."""

    def __init__(self, store: Store, cells: Sequence[Cell], budget: Budget, callback: ProgressCallback) -> None:
        self._store = store
        self._cells = cells
        self._budget = budget
        self._callback = callback
        self._under_way: dict[str, Cell] = {}
        self._suspects: set[str] = set()
        self._error: Exception | None = None
        self.n_run = 0

    def run_all(self, parallel: joblib.Parallel) -> None:
        n_known = self._store.counts().finished
        while True:
            self._store.take_over()
            done_before = self.n_run
            self._run_planned(parallel)
            counts = self._store.counts()
            others = counts.finished - n_known - (self.n_run - done_before)
            n_known = counts.finished
            if others or counts.running:
                self._callback.others_finished(others, counts.running)
            if not counts.planned and not counts.running:
                return
            if not counts.planned:
                time.sleep(_LOOK_EVERY)

    def _run_planned(self, parallel: joblib.Parallel) -> None:
        planned = self._store.planned()
        todo = [cell for cell in self._cells if cell.key in planned]
        # Cells under way when a worker died run alone, so that a second death shows which cell caused it.
        for cell in todo:
            if cell.key in self._suspects:
                self._run_these([cell], parallel)
        rest = [cell for cell in todo if cell.key not in self._suspects]
        if rest:
            self._run_these(rest, parallel)

    def _run_these(self, todo: Sequence[Cell], parallel: joblib.Parallel) -> None:
        tasks = (joblib.delayed(_run_named)(cell, self._budget) for cell in self._claims(todo))
        try:
            # Closed at once on an error here, which cancels the cells under way.
            with contextlib.closing(parallel(tasks)) as answers:
                for cell, outcome in answers:
                    self._finish(cell, outcome)
        except BrokenProcessPool:
            self._handle_dead_worker()
        if self._error is not None:
            raise self._error

    def _claims(self, todo: Sequence[Cell]) -> Iterator[Cell]:
        """Yield the cells that could be claimed, as workers become free."""
        for cell in todo:
            try:
                is_mine = self._store.claim(cell)
            except Exception as error:
                # joblib iterates in a thread of its own, where an exception would be lost.
                self._error = error
                return
            if is_mine:
                self._under_way[cell.key] = cell
                self._callback.cell_started(cell)
                yield cell

    def _finish(self, cell: Cell, outcome: Outcome) -> None:
        self._store.finish(cell, outcome)
        self._under_way.pop(cell.key)
        self.n_run += 1
        self._callback.cell_finished(cell, outcome)

    def _handle_dead_worker(self) -> None:
        """Handle the death of a worker: suspect the cells under way, or fail the one that ran alone."""
        logger.warning("A worker process died; the cells under way are run again, one by one.")
        for key, cell in list(self._under_way.items()):
            if key in self._suspects:
                self._finish(cell, Outcome(None, "the worker process died twice while running it", 0.0))
            else:
                self._suspects.add(key)
                self._store.release(cell)
                self._under_way.pop(key)


def _run_named(cell: Cell, budget: Budget) -> tuple[Cell, Outcome]:
    """Run a cell and return it with its outcome, since outcomes arrive in any order."""
    return cell, run_cell(cell, budget)


@contextlib.contextmanager
def _workers(jobs: int, dask: str | None) -> Iterator[joblib.Parallel]:
    """Yield a joblib.Parallel that returns outcomes as they arrive."""
    options: dict[str, Any] = {"batch_size": 1, "return_as": "generator_unordered"}
    if dask is None:
        options |= {"initializer": die_with_parent, "initargs": (os.getpid(),)}
        try:
            # Not as a context manager: after the death of a worker joblib would start others without the initializer.
            yield joblib.Parallel(n_jobs=jobs, backend="loky", pre_dispatch="1.5*n_jobs", **options)
        finally:
            close_sandbox()  # with one job, cells are started from this process
        return
    place = executor(workers=jobs) if dask == "local" else executor(dask=dask)
    with place as cluster, joblib.parallel_config(backend="dask", client=cluster.client):
        yield joblib.Parallel(n_jobs=-1, **options)


def _memory_share(jobs: int) -> float:
    """Return an equal share of the machine's memory per job, in megabytes."""
    return 0.9 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20 / jobs
