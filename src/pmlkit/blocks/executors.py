"""Where work on blocks runs: in this process within a memory budget, on workers started here, or on a Dask cluster."""

import logging
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pmlkit._arrays import is_table
from pmlkit._optional import optional_import
from pmlkit.blocks.block_sources import n_bytes_of
from pmlkit.blocks.engine import Engine, LocalEngine, State
from pmlkit.blocks.row_blocks import RowBlocks

__all__ = ["Executor", "executor"]

_LEAST_MEMORY = 400 * 10**6  # of a worker: libraries, and what it computes on a few rows
_MEMORY_TO_SPARE = 2 * 10**9  # of a worker, from which it keeps the memory of arrays for the next ones
_REUSE_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "67108864", "MALLOC_TRIM_THRESHOLD_": "268435456"}
_PATIENCE = "10s"  # until a scheduler answers
_AHEAD = 2  # blocks per worker that are computed before they are asked for


@dataclass(frozen=True)
class Executor:
    """Where work on blocks runs; made by `executor`.

    Attributes
    ----------
    client : distributed.Client or None
    memory_budget : int or None
        Bytes, where blocks are computed by this process.
    """

    client: Any = None
    memory_budget: int | None = None

    def engine(self, n_blocks: int, checkpoint: str | Path | None = None) -> Engine:
        """Return an engine for so many blocks."""
        if self.client is None:
            return LocalEngine(n_blocks, memory_budget=self.memory_budget, checkpoint=checkpoint)
        from pmlkit.blocks.dask_engine import DaskEngine

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
        if isinstance(X, RowBlocks):
            return X
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
    """Say where work on blocks runs; workers that are started here end with the context.

    Parameters
    ----------
    workers : int, optional
        Start so many processes on this machine, with one thread each.
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
    from pmlkit.blocks.dask_engine import ClusterError

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
