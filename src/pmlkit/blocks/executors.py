"""Where work on blocks runs: in this process within a memory budget, on workers started here, or on a Dask cluster."""

import logging
import pkgutil
import re
import signal
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from functools import reduce as fold
from pathlib import Path
from typing import Any

import numpy as np

from pmlkit._arrays import is_table
from pmlkit._optional import optional_import
from pmlkit.blocks.engine import Call, Engine, Held, LocalEngine, State, n_bytes
from pmlkit.blocks.row_blocks import RowBlocks, n_bytes_of

_LEAST_MEMORY = 400 * 10**6  # of a worker: libraries, and what it computes on a few rows
_MEMORY_TO_SPARE = 2 * 10**9  # of a worker, from which it keeps the memory of arrays for the next ones
_REUSE_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "67108864", "MALLOC_TRIM_THRESHOLD_": "268435456"}
_PATIENCE = "10s"  # until a scheduler answers
_AHEAD = 2  # blocks per worker that are computed before they are asked for
_FAN_IN = 8
_SMALL = 50_000  # bytes, above which a shared value is a task of its own
_SHARE_OF_STATES = 0.6  # of a worker's memory: where Dask by default begins to put states on disk
_OWN_MEMORY = 350 * 10**6  # bytes that a worker needs for the libraries and for what it computes on a few rows


@dataclass(frozen=True)
class Executor:
    """Where work on blocks runs; made by `executor`, whose example shows it.

    `client`: of a Dask cluster, or None. `memory_budget`: bytes, where blocks are computed by this process.
    """

    client: Any = None
    memory_budget: int | None = None

    def engine(self, n_blocks: int, checkpoint: str | Path | None = None) -> Engine:
        """Return an engine for `n_blocks` blocks."""
        if self.client is None:
            return LocalEngine(n_blocks, memory_budget=self.memory_budget, checkpoint=checkpoint)
        return DaskEngine(n_blocks, self.client, checkpoint=checkpoint)

    def rows(self, X: Any, Y: Any = None, *, checkpoint: str | Path | None = None) -> RowBlocks:
        """Return features and candidates, or a table with both, in blocks.

        Parameters
        ----------
        X : Table, tables of many files, PMLDataset, or features as `RowBlocks` takes them
        Y : candidates, optional
        checkpoint : str or path, optional
            See `RowBlocks`.
        """
        if hasattr(type(X), "to_blocks"):
            rows: RowBlocks = X.to_blocks(self, checkpoint=checkpoint)
            return rows
        options: dict[str, Any] = {"client": self.client, "memory_budget": self.memory_budget, "checkpoint": checkpoint}
        if Y is not None or not is_table(X):
            return RowBlocks(X, Y, **options)
        rows = RowBlocks(getattr(X, "frame", X.X), X.Y, label_names=X.label_names, **options)
        rows.table = X
        return rows

    def results(self, answer: Any) -> Iterator[Any]:
        """Yield the blocks of a model's answer in their order; workers compute the next ones meanwhile."""
        if isinstance(answer, State):
            yield from answer
            return
        waiting = list(np.ravel(np.asarray(answer.to_delayed(), dtype=object)))
        running: list[Any] = []
        n_ahead = _AHEAD * max(1, len(self.client.scheduler_info(n_workers=-1)["workers"]))
        while waiting or running:
            while waiting and len(running) < n_ahead:
                running.append(self.client.compute(waiting.pop(0)))
            yield running.pop(0).result()


@contextmanager
def executor(
    *, workers: int | None = None, memory: int | str | None = None, dask: str | None = None
) -> Iterator[Executor]:
    """Choose where work on blocks runs; workers that are started here end with the context.

    Parameters
    ----------
    workers : int, optional
        Number of processes to start on this machine, with one thread each.
    memory : int or str, optional
        How much memory each worker may take, such as ``"2GB"``; without workers, about how much this process may.
    dask : str, optional
        Address of a Dask scheduler, such as ``"tcp://10.0.0.1:8786"``: its workers do the work.

    Yields
    ------
    executor : Executor

    Examples
    --------
    >>> from pmlkit import ClearPML
    >>> from pmlkit.blocks import executor
    >>> from pmlkit.data import load_digit_strips
    >>> with executor(memory="500MB") as here:
    ...     model = ClearPML().fit(here.rows(load_digit_strips(300)))
    >>> model.label_names_.tolist()[:3]
    ['0', '1', '2']
    """
    if dask is not None and (workers is not None or memory is not None):
        raise ValueError("A Dask cluster has its own workers and memory limits: leave workers and memory out.")
    if workers is not None and (isinstance(workers, bool) or workers != int(workers) or workers < 1):
        raise ValueError(f"workers must be a whole number from 1, got {workers!r}.")
    n_bytes = None if memory is None else n_bytes_of(memory, "memory")
    if dask is not None:
        if re.fullmatch(r"(\w+://)?[^\s/]+:[0-9]+/?", dask) is None:
            raise ValueError(f"dask must be the address of a scheduler such as tcp://10.0.0.1:8786, got {dask!r}.")
        with _connected(dask) as client:
            yield Executor(client)
    elif workers is not None:
        if n_bytes is not None and n_bytes < _LEAST_MEMORY:
            raise ValueError(f"A worker needs at least {_LEAST_MEMORY // 10**6} MB of memory, got {memory}.")
        with _started(int(workers), n_bytes) as client:
            yield Executor(client)
    else:
        yield Executor(None, n_bytes)


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    try:
        client = optional_import("distributed").Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"No Dask scheduler answers at {address!r}: start one (dask scheduler), or check the address."
        ) from error
    with client:
        yield client


@contextmanager
def _started(workers: int, memory: int | None) -> Iterator[Any]:
    distributed, config = optional_import("distributed"), optional_import("dask").config
    environment = config.get("distributed.nanny.pre-spawn-environ")
    if memory is None or memory >= _MEMORY_TO_SPARE:
        environment = {**environment, **_REUSE_MEMORY}
    optional_import("cryptography")
    with config.set({"distributed.nanny.pre-spawn-environ": environment}):
        cluster = distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, memory_limit=memory or "auto", host="127.0.0.1",
            # Any free port: without an address the scheduler asks for 8787 and warns where it is taken.
            dashboard_address="127.0.0.1:0", scheduler_kwargs={"dashboard": False}, silence_logs=logging.CRITICAL,
            # Whoever reaches a scheduler can run code as its owner, other users of this machine too: certificates that
            # only this process and its workers have keep them out.
            security=distributed.Security.temporary(),
        )  # fmt: skip
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        client.run(_ignore_interrupts)
        yield client


def _ignore_interrupts() -> None:
    """Let Ctrl-C in a terminal, which reaches all processes, end the workers by way of their parent only."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class ClusterError(OSError):
    """The cluster cannot run the work, or was lost; the message is one sentence with the remedy."""


class DaskEngine(Engine):
    """Blocks and their state on the workers of a cluster; only reductions are sent to the client.

    Every value is a task of pure functions, so that what a dead worker held is computed again.
    """

    def __init__(self, n_blocks: int, client: Any, *, checkpoint: str | Path | None = None) -> None:
        super().__init__(n_blocks, checkpoint)
        self.client = client
        self._check_workers()

    def _check_workers(self) -> None:
        # Not `import pmlkit`: the code of every method would then belong to that of each, see bench.fingerprints.
        here = pkgutil.resolve_name("pmlkit:__version__")
        with self._one_sentence():
            versions = self.client.run(pkgutil.resolve_name, "pmlkit:__version__", on_error="return")
        if not versions:
            raise ClusterError("The Dask cluster has no workers: start some, then repeat the call.")
        for worker, version in versions.items():
            if isinstance(version, Exception):
                raise ClusterError(
                    f"The Dask worker {worker} cannot import pmlkit ({version}): install pmlkit {here} on every worker."
                )
            if version != here:
                raise ClusterError(
                    f"The Dask worker {worker} has pmlkit {version}, and this is {here}: install the "
                    "same version on every worker."
                )

    @property
    def n_workers(self) -> int:
        """How many workers the cluster has now."""
        with self._one_sentence():
            return len(self.client.scheduler_info(n_workers=-1)["workers"])

    def _keeps(self, size: int) -> bool:
        with self._one_sentence():
            workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        limits = [worker["memory_limit"] for worker in workers]
        # Twice: kernel rows become rows of the design while they are still there.
        free = sum(max(0.0, _SHARE_OF_STATES * limit - _OWN_MEMORY) for limit in limits)
        return not all(limits) or 2 * size <= free

    def share(self, value: Any) -> Any:
        """Return a handle of a value that many calls share: it is sent to the workers once."""
        with self._one_sentence():
            return self.client.submit(_itself, value, key=f"pmlkit-shared-{uuid.uuid4().hex}")

    def load(self, state: State, place: int) -> Any:
        """Return the value of one block, sent to the client."""
        with self._one_sentence():
            return self.client.compute(self._delayed(state, place)).result()

    def lazy(self, state: State) -> list[Any]:
        """Return the values of all blocks as delayed objects."""
        return [self._delayed(state, place) for place in range(self.n_blocks)]

    def _map(self, call: Call, keep: bool) -> State:
        if keep:
            return State(self, self._submitted(call, range(self.n_blocks)))
        return State(self, [replace(call, shared=self._common(call.shared))] * self.n_blocks)

    def _reduce(self, call: Call, combine: Callable[[Any, Any], Any], places: Sequence[int]) -> Any:
        return self._combined(self._submitted(call, places), combine)

    def _map_reduce(self, call: Call, combine: Callable[[Any, Any], Any]) -> tuple[State, Any]:
        pairs = State(self, self._submitted(call, range(self.n_blocks)))
        values, summands = (Call(_item, [pairs], {"place": place}) for place in (0, 1))
        total = self._combined(self._submitted(summands, range(self.n_blocks)), combine)
        # The summand would stay with the value otherwise.
        return State(self, self._submitted(values, range(self.n_blocks))), total

    def _combined(self, futures: list[Any], combine: Callable[[Any, Any], Any]) -> Any:
        """Combine neighbours on the workers until one result is left."""
        with self._one_sentence():
            while len(futures) > 1:
                whole = len(futures) - len(futures) % _FAN_IN
                columns = [futures[i:whole:_FAN_IN] for i in range(_FAN_IN)]
                combined = self.client.map(partial(_combine, combine), *columns, pure=False) if whole else []
                rest = futures[whole:]
                if len(rest) > 1:
                    rest = [self.client.submit(_combine, combine, *rest, pure=False)]
                futures = [*combined, *rest]
            return futures[0].result() if futures else None

    def _submitted(self, call: Call, places: Sequence[int]) -> list[Any]:
        call = replace(call, shared=self._common(call.shared))
        tasks = [_Task.of(self, call, place) for place in places]
        with self._one_sentence():
            if not any(hasattr(leaf, "__dask_graph__") for task in tasks for leaf in task.leaves):
                # One message for all blocks; graphs of delayed objects take several times as long to make.
                columns = zip(*(task.leaves for task in tasks), strict=True)
                return list(self.client.map(_run, [task.steps for task in tasks], *columns, pure=False))
            return list(self.client.compute([task.delayed() for task in tasks]))

    def _delayed(self, state: State, place: int) -> Any:
        """Return the value of a block as a delayed object."""
        part = self._part(state, place)
        if isinstance(part, Call):
            return _Task.of(self, part, place).delayed()
        return optional_import("dask").delayed(part.value if isinstance(part, Held) else part)

    def _part(self, state: State, place: int) -> Any:
        """Return what there is of a block's value: a call, a held value, a future or a delayed object."""
        part = state.parts[place]
        if isinstance(part, Call) and part.kept_later:
            state.parts = self._submitted(part, range(self.n_blocks))
            return state.parts[place]
        return part

    def _common(self, shared: dict[str, Any]) -> dict[str, Any]:
        return {
            name: self.share(value) if not hasattr(value, "key") and _size(value) > _SMALL else value
            for name, value in shared.items()
        }

    @contextmanager
    def _one_sentence(self) -> Iterator[None]:
        """Turn the many ways in which a connection breaks into one sentence."""
        cancelled = optional_import("distributed").CancelledError
        closed = getattr(optional_import("distributed.client"), "ClosedClientError", cancelled)
        lost = optional_import("distributed.comm").CommClosedError, cancelled, closed
        killed = optional_import("distributed.scheduler").KilledWorker
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sending large graph")
                yield
        except killed as error:
            raise ClusterError(
                f"Several Dask workers died on the same block ({error}): give them more memory, or use smaller blocks."
            ) from error
        except (*lost, ConnectionError, TimeoutError) as error:
            raise ClusterError(
                "The connection to the Dask scheduler was lost: start it again and repeat the call (with checkpoint= "
                "the fit resumes after its last finished pass)."
            ) from error


@dataclass(frozen=True)
class _Leaf:
    """A value that Dask brings to a task: its number."""

    number: int


@dataclass(frozen=True)
class _Step:
    """A function and its arguments: leaves, other steps, or values themselves."""

    function: Callable[..., Any]
    arguments: list[Any]
    shared: dict[str, Any]


@dataclass(frozen=True)
class _Task:
    """A call with all calls that it needs, as a single task: each task costs milliseconds beside its work."""

    steps: _Step
    leaves: list[Any]

    @classmethod
    def of(cls, engine: DaskEngine, call: Call, place: int) -> "_Task":
        leaves: list[Any] = []

        def leaf(value: Any) -> _Leaf:
            leaves.append(value)
            return _Leaf(len(leaves) - 1)

        def step(call: Call) -> _Step:
            arguments = []
            for state in call.states:
                part = engine._part(state, place)
                is_here = isinstance(part, Call | Held)
                arguments.append(leaf(part) if not is_here else step(part) if isinstance(part, Call) else part.value)
            shared = {name: leaf(value) if hasattr(value, "key") else value for name, value in call.shared.items()}
            return _Step(call.function, arguments, shared)

        return cls(step(call), leaves)

    def delayed(self) -> Any:
        """Return the task as a delayed object."""
        # New keys each time: Dask would not know which of two graphs a key belongs to.
        return optional_import("dask").delayed(_run, pure=False, traverse=False)(self.steps, *self.leaves)


def _run(steps: _Step, *leaves: Any) -> Any:
    """Run the steps of a task."""

    def value(part: Any) -> Any:
        if isinstance(part, _Leaf):
            return leaves[part.number]
        return _run(part, *leaves) if isinstance(part, _Step) else part

    shared = {name: value(part) for name, part in steps.shared.items()}
    return steps.function(*(value(part) for part in steps.arguments), **shared)


def _size(value: Any) -> int:
    try:
        return n_bytes(value)
    except TypeError:
        return _SMALL + 1


def _itself(value: Any) -> Any:
    return value


def _item(pair: tuple[Any, Any], place: int) -> Any:
    return pair[place]


def _combine(combine: Callable[[Any, Any], Any], *values: Any) -> Any:
    return fold(combine, values)
