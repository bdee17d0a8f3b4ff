"""Write results to a store: one SQLite file, one transaction per cell.

The key of a cell is a digest of everything that could change its result. Its name (data set, noise, label) is kept
apart, in the table *places*: a place points to a group of cells, and the group of the newest run is current. Cells of
older code, parameters or data stay in the file, but are never shown as current.
"""

import contextlib
import json
import os
import platform
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Self

from pmlkit import __version__
from pmlkit.bench.cells import METRICS, Cell, git_revision
from pmlkit.bench.sandbox import Outcome
from pmlkit.bench.store_reader import BUSY_TIMEOUT, OWN, check_schema, create_tables, plain_errors
from pmlkit.exceptions import DataError


@dataclass(frozen=True)
class CellCounts:
    """Number of cells of a plan per state."""

    done: int
    failed: int
    running: int
    planned: int

    @property
    def finished(self) -> int:
        """Number of cells with an outcome."""
        return self.done + self.failed


class Store:
    """A store that is open for a run; use it as a context manager.

    `path`: SQLite file; created if absent.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            raise DataError(f"{str(self.path)!r} is a folder: give the path of a file in it.")
        if not self.path.parent.is_dir():
            raise DataError(f"There is no folder {str(self.path.parent)!r}: make it first, or choose another.")
        self._guard = threading.RLock()
        self._run: int | None = None
        self._keys: list[str] = []
        self._facts = (__version__, git_revision(), _versions())
        with plain_errors(self.path):
            self._connection = sqlite3.connect(
                self.path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False
            )
        try:
            with plain_errors(self.path):
                self._prepare()
            self._locks = RunLocks.of(self.path.with_name(f"{self.path.name}-lock"))
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        if self._has_tables():
            check_schema(self._connection, self.path)
        self._connection.execute("PRAGMA journal_mode = WAL")
        # In WAL mode this is safe against crashes of programs; only a power failure may lose the last cells.
        self._connection.execute("PRAGMA synchronous = NORMAL")
        with self._transaction():
            if not self._has_tables():
                create_tables(self._connection)

    def _has_tables(self) -> bool:
        return bool(self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release claimed cells that are not finished, and close the file."""
        if self._run is not None:
            # On a full disk the claims stay; as the run is over, the next one takes them.
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute(
                    "UPDATE cells SET status = 'planned', owner = NULL WHERE status = 'running' AND owner = ?",
                    (self._run,),
                )
            self._locks.end(self._run)
            self._run = None
        self._connection.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._guard, plain_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                # Some errors of SQLite end the transaction by themselves.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def begin(self, cells: Sequence[Cell], *, command: str, plan: str, jobs: int, retry_failed: bool = False) -> None:
        """Record a run and its cells; cells that the store has are kept.

        `command`, `plan`: command line and plan, to run it again. `retry_failed`: whether to run cells again that
        failed before.
        """
        self._keys = list(dict.fromkeys(cell.key for cell in cells))
        places = {
            (cell.data, cell.noise, OWN if cell.ratio is None else cell.ratio, cell.label): cell for cell in cells
        }
        with self._transaction():
            cursor = self._connection.execute(
                "INSERT INTO runs (started, command, plan, jobs, host, pmlkit_version, git_revision) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (_now(), command, plan, jobs, platform.node(), *self._facts[:2]),
            )
            assert cursor.lastrowid is not None
            self._locks.begin(cursor.lastrowid)
            self._run = cursor.lastrowid
            self._connection.executemany(
                "UPDATE places SET current = 0 WHERE data = ? AND noise = ? AND ratio = ? AND label = ?", places
            )
            self._connection.executemany(
                "INSERT INTO places VALUES (?, ?, ?, ?, ?, ?, ?, 1) "
                "ON CONFLICT DO UPDATE SET current = 1, method = excluded.method, params = excluded.params",
                (
                    (*place, cell.variant.method.rpartition(":")[2], cell.variant.shown_params, cell.group)
                    for place, cell in places.items()
                ),
            )
            self._connection.executemany(
                "INSERT OR IGNORE INTO cells (key, group_key, repeat, seed, n_rows, n_features, n_labels) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    (c.key, c.group, c.repeat, c.seed, c.source.n_rows, c.source.n_features, c.source.n_labels)
                    for c in cells
                ),
            )
            self._connection.execute("CREATE TEMP TABLE IF NOT EXISTS wanted (key TEXT PRIMARY KEY) WITHOUT ROWID")
            self._connection.execute("DELETE FROM wanted")
            self._connection.executemany("INSERT INTO wanted VALUES (?)", ((key,) for key in self._keys))
            if retry_failed:
                self._connection.execute(
                    "UPDATE cells SET status = 'planned', reason = NULL "
                    "WHERE status = 'failed' AND key IN (SELECT key FROM wanted)"
                )

    def take_over(self) -> int:
        """Release the cells that dead runs claimed, and return their number."""
        with self._transaction():
            owners = self._connection.execute("SELECT DISTINCT owner FROM cells WHERE status = 'running'").fetchall()
            dead = [owner for (owner,) in owners if not self._locks.is_alive(owner)]
            freed = [
                self._connection.execute(
                    "UPDATE cells SET status = 'planned', owner = NULL WHERE status = 'running' AND owner = ?", (owner,)
                ).rowcount
                for owner in dead
            ]
        return sum(freed)

    def planned(self) -> set[str]:
        """Return the keys of this run's cells that no run has started."""
        with self._guard, plain_errors(self.path):
            rows = self._connection.execute("SELECT key FROM wanted JOIN cells USING (key) WHERE status = 'planned'")
            return {key for (key,) in rows}

    def claim(self, cell: Cell) -> bool:
        """Claim a cell for this run; return whether it was free."""
        with self._transaction():
            cursor = self._connection.execute(
                "UPDATE cells SET status = 'running', owner = ? WHERE key = ? AND status = 'planned'",
                (self._run, cell.key),
            )
            return cursor.rowcount == 1

    def release(self, cell: Cell) -> None:
        """Release a claimed cell."""
        with self._transaction():
            self._connection.execute("UPDATE cells SET status = 'planned', owner = NULL WHERE key = ?", (cell.key,))

    def finish(self, cell: Cell, outcome: Outcome) -> None:
        """Record the outcome of a cell."""
        answer = outcome.answer or {}
        chosen = answer.get("chosen")
        values = {
            "status": "failed" if outcome.answer is None else "done",
            "reason": outcome.reason,
            "owner": None,
            **{name: answer.get(name) for name in (*METRICS, "fit_seconds", "predict_seconds")},
            "peak_mb": outcome.peak_mb,
            "chosen": None if chosen is None else json.dumps(chosen, sort_keys=True),
            **dict(zip(("pmlkit_version", "git_revision", "versions"), self._facts, strict=True)),
        }
        assignments = ", ".join(f"{name} = :{name}" for name in values)
        with self._transaction():
            self._connection.execute(
                f"UPDATE cells SET {assignments} WHERE key = :key AND owner = :run",
                values | {"key": cell.key, "run": self._run},
            )

    def end(self) -> None:
        """Record that the run is complete."""
        with self._transaction():
            self._connection.execute("UPDATE runs SET finished = ? WHERE id = ?", (_now(), self._run))

    def counts(self) -> CellCounts:
        """Count this run's cells by state."""
        with self._guard, plain_errors(self.path):
            rows = self._connection.execute(
                "SELECT status, count(*) FROM wanted JOIN cells USING (key) GROUP BY status"
            ).fetchall()
        counts = dict(rows)
        return CellCounts(**{name: counts.get(name, 0) for name in ("done", "failed", "running", "planned")})


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def _versions() -> str:
    names = ("numpy", "scipy", "scikit-learn", "joblib")
    found = {"python": platform.python_version(), **{name: version(name) for name in names}}
    return json.dumps(found, sort_keys=True)


# Closing any handle of a file drops all locks that the process has on it: there is one handle per file, kept open.
_open_locks: dict[Path, "RunLocks"] = {}
_guard = threading.Lock()


class RunLocks:
    """Which runs on a store are alive, in any process of this machine.

    Each run locks one byte of a file; the kernel drops the lock when the process ends, however it ends.

    `path`: lock file; it stays empty. Use `RunLocks.of`, so that there is one object per file.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise DataError(f"{str(path)!r} cannot be written: {error.strerror}.") from error
        self._own: set[int] = set()

    @classmethod
    def of(cls, path: Path) -> "RunLocks":
        """Return the object of a file."""
        with _guard:
            path = path.resolve()
            if path not in _open_locks:
                _open_locks[path] = cls(path)
            return _open_locks[path]

    def begin(self, run: int) -> None:
        """Mark a run of this process as alive."""
        with _guard:
            self._lock(run)
            self._own.add(run)

    def end(self, run: int) -> None:
        """Mark a run of this process as ended."""
        with _guard:
            self._own.discard(run)
            self._unlock(run)

    def is_alive(self, run: int) -> bool:
        """Return whether any process runs it."""
        with _guard:
            if run in self._own:
                return True
            try:
                self._lock(run)
            except (BlockingIOError, PermissionError):
                return True
            self._unlock(run)
            return False

    def _lock(self, run: int) -> None:
        import fcntl  # POSIX only

        fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, run)

    def _unlock(self, run: int) -> None:
        import fcntl

        fcntl.lockf(self._handle, fcntl.LOCK_UN, 1, run)
