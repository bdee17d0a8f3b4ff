"""Run the cells of a plan, here or on a cluster, and keep the results."""

import contextlib
import importlib
import logging
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

import joblib

from pmlkit.bench.cell import Cell, close_sandbox, run_cell
from pmlkit.bench.grid import expand
from pmlkit.bench.isolate import Budget, Outcome, die_with_parent
from pmlkit.bench.plan import Plan
from pmlkit.bench.plan_file import plan_text
from pmlkit.bench.store import Store

__all__ = ["Observer", "RunSummary", "run_plan"]

logger = logging.getLogger(__name__)

_LOOK_EVERY = 0.5  # seconds between two looks at what another run has finished


class Observer:
    """Whoever wants to know how far a run is; this one keeps quiet. Called from several threads."""

    def begin(self, n_cells: int, n_finished: int, jobs: int) -> None:
        """Start: so many cells, of which so many were finished by earlier runs."""

    def cell_started(self, cell: Cell) -> None:
        """Take note of a cell that is being run."""

    def cell_finished(self, cell: Cell, outcome: Outcome) -> None:
        """Take note of its end."""

    def others_finished(self, n_cells: int, n_running: int) -> None:
        """Take note of cells that another run on the same store has finished, and of those it still has."""

    def end(self) -> None:
        """Stop, in whatever way the run ended."""


@dataclass(frozen=True)
class RunSummary:
    """What came of a run.

    Attributes
    ----------
    n_cells : int
        Of the plan.
    n_run : int
        Those that this run did; the others were there already or were done by another run at the same time.
    n_failed : int
        Those of the plan that failed, now or before.
    seconds : float
        Time of the run.
    """

    n_cells: int
    n_run: int
    n_failed: int
    seconds: float


def run_plan(
    plan: Plan,
    path: str | os.PathLike[str],
    *,
    jobs: int = 1,
    dask: str | None = None,
    max_seconds: float = 3600.0,
    max_mb: float | None = None,
    retry_failed: bool = False,
    observer: Observer | None = None,
    command: str = "",
) -> RunSummary:
    """Run what a store does not have yet of a plan.

    Parameters
    ----------
    plan : Plan
    path : str or path
        The store, an SQLite file; it is made if there is none.
    jobs : int, default=1
        Processes at once; each uses one thread.
    dask : str, optional
        The address of a Dask scheduler (``tcp://host:8786``), or ``local`` for a local cluster of `jobs` processes.
        The store stays with the caller: workers need the package and the data files, not the store.
    max_seconds, max_mb : float
        What a cell may use: time, and memory beyond that of the process that starts it. By default an hour, and the
        machine's memory shared out over the jobs. A cell that needs more is recorded as failed.
    retry_failed : bool, default=False
        Whether cells that failed before are run again.
    observer : Observer, optional
        Who is told how far it is.
    command : str, optional
        What was typed, for the record.

    Returns
    -------
    summary : RunSummary

    Notes
    -----
    Several runs on one store at once share the work. A run that finds all that is left in the hands of others waits
    for them, and takes over the cells of those that die.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit.bench import Plan, run_plan
    >>> plan = Plan(["digit-strips:100"], ["MLkNN"], noise=[0.5], repeats=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = pathlib.Path(folder, "results.sqlite")
    ...     first, second = run_plan(plan, store), run_plan(plan, store)
    >>> first.n_run, second.n_run
    (2, 0)
    """
    if not hasattr(os, "fork"):
        raise RuntimeError("The bench runs every cell in a forked process, which Windows has not: use WSL or Linux.")
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}.")
    if max_seconds <= 0 or (max_mb is not None and max_mb <= 0):
        raise ValueError(f"max_seconds and max_mb must be more than 0, got {max_seconds:g} and {max_mb}.")
    started = time.monotonic()
    cells = expand(plan)
    by_key = {cell.key: cell for cell in cells}
    budget = Budget(max_seconds, _fair_share(jobs) if max_mb is None else max_mb)
    watch = observer or Observer()
    with Store(path) as store, _workers(jobs, dask) as parallel:
        text = plan_text(plan)
        store.begin(cells, command=command or text, plan=text, jobs=jobs, retry_failed=retry_failed)
        run = _Run(store, list(by_key.values()), budget, watch)
        before = store.progress()
        watch.begin(len(by_key), before.done + before.failed, jobs)
        try:
            run.to_the_end(parallel)
        finally:
            watch.end()
        store.end()
        after = store.progress()
    return RunSummary(len(by_key), run.n_run, after.failed, time.monotonic() - started)


class _Run:
    """The state of a run."""

    def __init__(self, store: Store, cells: Sequence[Cell], budget: Budget, observer: Observer) -> None:
        self._store = store
        self._cells = cells
        self._budget = budget
        self._observer = observer
        self._under_way: dict[str, Cell] = {}
        self._suspects: set[str] = set()
        self._error: Exception | None = None
        self.n_run = 0

    def to_the_end(self, parallel: joblib.Parallel) -> None:
        n_known = self._n_finished()
        while True:
            self._store.take_over()
            done_before = self.n_run
            self._run_planned(parallel)
            progress = self._store.progress()
            n_finished = progress.done + progress.failed
            others = n_finished - n_known - (self.n_run - done_before)
            n_known = n_finished
            if others or progress.running:
                self._observer.others_finished(others, progress.running)
            if not progress.planned and not progress.running:
                return
            if not progress.planned:
                time.sleep(_LOOK_EVERY)

    def _n_finished(self) -> int:
        progress = self._store.progress()
        return progress.done + progress.failed

    def _run_planned(self, parallel: joblib.Parallel) -> None:
        planned = self._store.planned()
        todo = [cell for cell in self._cells if cell.key in planned]
        # What was under way when a worker died is run alone: if one dies again, it is clear why.
        for cell in todo:
            if cell.key in self._suspects:
                self._run_these([cell], parallel)
        rest = [cell for cell in todo if cell.key not in self._suspects]
        if rest:
            self._run_these(rest, parallel)

    def _run_these(self, todo: Sequence[Cell], parallel: joblib.Parallel) -> None:
        tasks = (joblib.delayed(_run_named)(cell, self._budget) for cell in self._claims(todo))
        try:
            # Closed at once if something goes wrong here: the cells under way are then given up.
            with contextlib.closing(parallel(tasks)) as answers:
                for cell, outcome in answers:
                    self._finish(cell, outcome)
        except BrokenProcessPool:
            self._blame()
        if self._error is not None:
            raise self._error

    def _claims(self, todo: Sequence[Cell]) -> Iterator[Cell]:
        """Yield cells as workers become free, claiming each."""
        for cell in todo:
            try:
                is_mine = self._store.claim(cell)
            except Exception as error:
                # joblib asks from a thread of its own, where an exception would be lost.
                self._error = error
                return
            if is_mine:
                self._under_way[cell.key] = cell
                self._observer.cell_started(cell)
                yield cell

    def _finish(self, cell: Cell, outcome: Outcome) -> None:
        self._store.finish(cell, outcome)
        self._under_way.pop(cell.key)
        self.n_run += 1
        self._observer.cell_finished(cell, outcome)

    def _blame(self) -> None:
        """A worker process died: suspect the cells under way, or give up the one that ran alone."""
        logger.warning("A worker process died; the cells under way are run again, one by one.")
        for key, cell in list(self._under_way.items()):
            if key in self._suspects:
                self._finish(cell, Outcome(None, "the worker process died twice while running it", 0.0))
            else:
                self._suspects.add(key)
                self._store.give_back(cell)
                self._under_way.pop(key)


def _run_named(cell: Cell, budget: Budget) -> tuple[Cell, Outcome]:
    """Run a cell and say which it was: answers come in any order."""
    return cell, run_cell(cell, budget)


@contextlib.contextmanager
def _workers(jobs: int, dask: str | None) -> Iterator[joblib.Parallel]:
    """Give something that runs cells in parallel and hands back answers as they come."""
    options: dict[str, Any] = {"batch_size": 1, "return_as": "generator_unordered"}
    if dask is None:
        options |= {"initializer": die_with_parent, "initargs": (os.getpid(),)}
        try:
            with joblib.Parallel(n_jobs=jobs, backend="loky", pre_dispatch="1.5*n_jobs", **options) as parallel:
                yield parallel
        finally:
            close_sandbox()  # with one job, cells run from this very process
        return
    with _dask_client(dask, jobs) as client, joblib.parallel_config(backend="dask", client=client):
        yield joblib.Parallel(n_jobs=-1, **options)


@contextlib.contextmanager
def _dask_client(address: str, jobs: int) -> Iterator[Any]:
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise ValueError("Dask is not installed: pip install 'pmlkit[dask]'.") from error
    if address == "local":
        with (
            distributed.LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = distributed.Client(address, timeout="5s")
    except (OSError, ValueError) as error:
        raise ValueError(f"There is no Dask scheduler at {address!r}: {error}.") from error
    with client:
        yield client


def _fair_share(jobs: int) -> float:
    """Return the megabytes that each of some jobs can have."""
    return 0.9 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20 / jobs
