"""Where results are kept: one SQLite file, one transaction a cell.

A cell is filed by its key, which stands for everything that could change its result. What a person calls it (data set,
noise, label) is kept apart, in *places*: a place points to a group of cells, and the group that the newest run means is
current. Cells of older code, parameters or data stay in the file, but they are never shown as current.
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

import pandas as pd

from pmlkit import __version__
from pmlkit.bench.cell import MEASURES, Cell
from pmlkit.bench.claims import LiveRuns
from pmlkit.bench.isolate import Outcome
from pmlkit.bench.schema import (
    COLUMNS,
    OWN,
    PATIENCE,
    PLACE_COLUMNS,
    StoreFull,
    check_schema,
    create_tables,
    plain_errors,
)
from pmlkit.bench.source import git_revision
from pmlkit.exceptions import DataError

__all__ = ["COLUMNS", "Progress", "RunFacts", "Store", "StoreFull", "load_cells", "load_plan_facts"]


@dataclass(frozen=True)
class Progress:
    """How many cells of a plan are in which state."""

    done: int
    failed: int
    running: int
    planned: int


@dataclass(frozen=True)
class RunFacts:
    """How a store was filled, so that it can be filled again.

    Attributes
    ----------
    command : str
        The command line, or the call, that started the run.
    plan : str
        The plan, as TOML; `pmlkit.bench.parse_plan` reads it.
    started, finished : str
        Times in UTC; `finished` is None for a run that was interrupted or still goes on.
    jobs : int
        Processes at once.
    pmlkit_version, git_revision : str
        The code.
    """

    command: str
    plan: str
    started: str
    finished: str | None
    jobs: int
    pmlkit_version: str
    git_revision: str


class Store:
    """A store that is open for a run; use it as a context manager.

    Parameters
    ----------
    path : path
        The SQLite file; it is made if there is none.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit.bench import Plan
    >>> from pmlkit.bench.grid import expand
    >>> from pmlkit.bench.isolate import Outcome
    >>> from pmlkit.bench.store import Store
    >>> cells = expand(Plan(["digit-strips:100"], ["MLkNN"], noise=[0.5], repeats=2))
    >>> with tempfile.TemporaryDirectory() as folder, Store(pathlib.Path(folder, "results.sqlite")) as store:
    ...     store.begin(cells, command="", plan="", jobs=1)
    ...     store.claim(cells[0]), store.claim(cells[0])
    ...     store.finish(cells[0], Outcome(None, "took longer than 1 s", 0.0))
    ...     store.progress()
    (True, False)
    Progress(done=0, failed=1, running=0, planned=1)
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
                self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
        try:
            with plain_errors(self.path):
                self._prepare()
            self._alive = LiveRuns.of(self.path.with_name(f"{self.path.name}-lock"))
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
        """Give back what was claimed and not finished, and close the file."""
        if self._run is not None:
            # On a full disk the claims stay; as the run is over, the next one takes them.
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute(
                    "UPDATE cells SET status = 'planned', owner = NULL WHERE status = 'running' AND owner = ?",
                    (self._run,),
                )
            self._alive.end(self._run)
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
        """Write down a run and its cells; those that are known already are kept.

        Parameters
        ----------
        cells : sequence of Cell
        command, plan : str
            For whoever wants to run it again.
        jobs : int
        retry_failed : bool, default=False
            Whether cells that failed before are to be run again.
        """
        self._keys = list(dict.fromkeys(cell.key for cell in cells))
        places = {(cell.data, cell.noise, _ratio(cell), cell.label): cell for cell in cells}
        with self._transaction():
            cursor = self._connection.execute(
                "INSERT INTO runs (started, command, plan, jobs, host, pmlkit_version, git_revision) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (_now(), command, plan, jobs, platform.node(), *self._facts[:2]),
            )
            assert cursor.lastrowid is not None
            self._alive.begin(cursor.lastrowid)
            self._run = cursor.lastrowid
            self._connection.executemany(
                "UPDATE places SET current = 0 WHERE data = ? AND noise = ? AND ratio = ? AND label = ?", places
            )
            self._connection.executemany(
                "INSERT INTO places VALUES (?, ?, ?, ?, ?, ?, ?, 1) "
                "ON CONFLICT DO UPDATE SET current = 1, method = excluded.method, params = excluded.params",
                (
                    (*place, cell.method.rpartition(":")[2], cell.shown_params, cell.group)
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
        """Free the cells that were claimed by runs which have died, and return their number."""
        with self._transaction():
            owners = self._connection.execute("SELECT DISTINCT owner FROM cells WHERE status = 'running'").fetchall()
            dead = [owner for (owner,) in owners if not self._alive.is_alive(owner)]
            freed = [
                self._connection.execute(
                    "UPDATE cells SET status = 'planned', owner = NULL WHERE status = 'running' AND owner = ?", (owner,)
                ).rowcount
                for owner in dead
            ]
        return sum(freed)

    def planned(self) -> set[str]:
        """Return the keys of this run's cells that nobody has begun."""
        with self._guard, plain_errors(self.path):
            rows = self._connection.execute("SELECT key FROM wanted JOIN cells USING (key) WHERE status = 'planned'")
            return {key for (key,) in rows}

    def claim(self, cell: Cell) -> bool:
        """Take a cell, so that no other run does; return whether it was free."""
        with self._transaction():
            cursor = self._connection.execute(
                "UPDATE cells SET status = 'running', owner = ? WHERE key = ? AND status = 'planned'",
                (self._run, cell.key),
            )
            return cursor.rowcount == 1

    def give_back(self, cell: Cell) -> None:
        """Let go of a cell that was claimed."""
        with self._transaction():
            self._connection.execute("UPDATE cells SET status = 'planned', owner = NULL WHERE key = ?", (cell.key,))

    def finish(self, cell: Cell, outcome: Outcome) -> None:
        """Write down what came of a cell."""
        answer = outcome.answer or {}
        chosen = answer.get("chosen")
        values = {
            "status": "failed" if outcome.answer is None else "done",
            "reason": outcome.reason,
            "owner": None,
            **{name: answer.get(name) for name in (*MEASURES, "fit_seconds", "predict_seconds")},
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
        """Write down that the run came to its end."""
        with self._transaction():
            self._connection.execute("UPDATE runs SET finished = ? WHERE id = ?", (_now(), self._run))

    def progress(self) -> Progress:
        """Count this run's cells."""
        with self._guard, plain_errors(self.path):
            rows = self._connection.execute(
                "SELECT status, count(*) FROM wanted JOIN cells USING (key) GROUP BY status"
            ).fetchall()
        counts = dict(rows)
        return Progress(**{name: counts.get(name, 0) for name in ("done", "failed", "running", "planned")})


def load_cells(path: str | os.PathLike[str], *, superseded: bool = False) -> pd.DataFrame:
    """Read the finished cells of a store.

    Parameters
    ----------
    path : str or path
        A store that `run_plan` or `pmlkit bench` made; a run may be going on.
    superseded : bool, default=False
        Return instead the cells that later runs replaced, because the code, the parameters or the data behind the
        same words changed.

    Returns
    -------
    cells : DataFrame
        One row a cell, in the order of the plan, with the columns `COLUMNS`. `status` is ``done`` or ``failed``; a
        failed one has its `reason`, and nan for the measures. `ratio` is nan where `noise` is ``own``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit.bench import Plan, load_cells, run_plan
    >>> plan = Plan(["digit-strips:100"], ["MLkNN"], noise=[0.5], repeats=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = run_plan(plan, pathlib.Path(folder, "results.sqlite"))
    ...     cells = load_cells(pathlib.Path(folder, "results.sqlite"))
    >>> cells[["data", "noise", "ratio", "repeat", "label", "status"]]
                   data    noise  ratio  repeat  label status
    0  digit-strips:100  uniform    0.5       0  MLkNN   done
    1  digit-strips:100  uniform    0.5       1  MLkNN   done
    """
    own = ", ".join(f"c.{name}" for name in COLUMNS if name not in PLACE_COLUMNS)
    query = (
        f"SELECT p.data, p.noise, nullif(p.ratio, {OWN}) AS ratio, p.method, p.params, p.label, {own} "
        "FROM places p JOIN cells c USING (group_key) "
        "WHERE p.current = ? AND c.status IN ('done', 'failed') ORDER BY p.rowid, c.repeat"
    )
    with _reading(path) as connection:
        cells = pd.read_sql_query(query, connection, params=(int(not superseded),))
    numbers = ["ratio", *MEASURES, "fit_seconds", "predict_seconds", "peak_mb"]
    cells[numbers] = cells[numbers].astype("float64")
    return cells[list(COLUMNS)]


def load_plan_facts(path: str | os.PathLike[str]) -> list[RunFacts]:
    """Read how a store was filled.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    facts : list of RunFacts
        The last run of each different plan, the newest run last.
    """
    with _reading(path) as connection:
        rows = connection.execute(
            "SELECT command, plan, started, finished, jobs, pmlkit_version, git_revision FROM runs "
            "WHERE id IN (SELECT max(id) FROM runs GROUP BY plan) ORDER BY id"
        ).fetchall()
    return [RunFacts(*row) for row in rows]


@contextlib.contextmanager
def _reading(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    file = Path(path)
    if file.is_dir():
        raise DataError(f"{str(file)!r} is a folder: give the path of a file in it.")
    if not file.exists():
        raise DataError(f"There is no store {str(file)!r}. Make one with `pmlkit bench`.")
    with plain_errors(file), contextlib.closing(_open_to_read(file)) as connection:
        check_schema(connection, file)
        yield connection


def _open_to_read(file: Path) -> sqlite3.Connection:
    address = file.resolve().as_uri()
    connection = sqlite3.connect(f"{address}?mode=ro", uri=True, timeout=PATIENCE)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:
        # In a folder that nothing can be written to, and so nobody else is writing.
        connection.close()
        connection = sqlite3.connect(f"{address}?immutable=1", uri=True)
    return connection


def _ratio(cell: Cell) -> float:
    return OWN if cell.ratio is None else cell.ratio


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def _versions() -> str:
    names = ("numpy", "scipy", "scikit-learn", "joblib")
    found = {"python": platform.python_version(), **{name: version(name) for name in names}}
    return json.dumps(found, sort_keys=True)
