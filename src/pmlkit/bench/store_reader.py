"""Read a store: its schema, the finished cells, and the plans and commands that filled it."""

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pmlkit import __version__
from pmlkit.bench.cells import METRICS
from pmlkit.exceptions import DataError

SCHEMA = 1
_APPLICATION = 0x504D4C42  # "PMLB", so that another SQLite file is not taken for a store
OWN = -1.0  # the ratio of data sets with candidates of their own: NULL would never equal itself
BUSY_TIMEOUT = 60  # seconds to wait for another process that writes

COLUMNS = (
    *("data", "noise", "ratio", "repeat", "method", "params", "label", "status", "reason"),
    *METRICS,
    *("fit_seconds", "predict_seconds", "peak_mb"),
    *("seed", "pmlkit_version", "git_revision", "versions", "n_rows", "n_features", "n_labels"),
)
"""Columns of `load_cells`."""

PLACE_COLUMNS = ("data", "noise", "ratio", "method", "params", "label")
"""Columns that name a cell."""

_TABLES = f"""
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, started TEXT NOT NULL, finished TEXT, command TEXT NOT NULL, plan TEXT NOT NULL,
    jobs INTEGER NOT NULL, host TEXT NOT NULL, pmlkit_version TEXT NOT NULL, git_revision TEXT NOT NULL
) STRICT;
CREATE TABLE places (
    data TEXT NOT NULL, noise TEXT NOT NULL, ratio REAL NOT NULL, label TEXT NOT NULL,
    method TEXT NOT NULL, params TEXT NOT NULL, group_key TEXT NOT NULL, current INTEGER NOT NULL,
    PRIMARY KEY (data, noise, ratio, label, group_key)
) STRICT;
CREATE TABLE cells (
    key TEXT PRIMARY KEY, group_key TEXT NOT NULL, repeat INTEGER NOT NULL, seed INTEGER NOT NULL,
    n_rows INTEGER NOT NULL, n_features INTEGER NOT NULL, n_labels INTEGER NOT NULL,
    status TEXT NOT NULL DEFAULT 'planned' CHECK (status IN ('planned', 'running', 'done', 'failed')),
    owner INTEGER, reason TEXT, {" REAL, ".join(METRICS)} REAL,
    fit_seconds REAL, predict_seconds REAL, peak_mb REAL, chosen TEXT,
    pmlkit_version TEXT, git_revision TEXT, versions TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX cells_by_group ON cells (group_key);
CREATE INDEX cells_running ON cells (owner) WHERE status = 'running';
"""


class StoreFull(DataError):
    """The disk is full; what was written before is kept."""


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables of an empty store, inside a transaction of the caller."""
    for statement in filter(str.strip, _TABLES.split(";")):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {SCHEMA}")


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that is not a store, a store of a newer version, and one whose tables are not those of a store."""
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != _APPLICATION:
        raise DataError(f"{str(path)!r} is an SQLite file, but not a store of `pmlkit bench`: choose another.")
    if found > SCHEMA:
        raise DataError(
            f"{str(path)!r} was made by a newer pmlkit (store version {found}; this pmlkit {__version__} knows up to "
            f"{SCHEMA}): upgrade pmlkit, or choose another file."
        )
    if connection.execute("SELECT count(*) FROM sqlite_master WHERE type IN ('view', 'trigger')").fetchone()[0]:
        raise _damaged(path, "it holds a view or a trigger, which could change results")
    made = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall())
    for statement in filter(str.strip, _TABLES.split(";")):
        words = statement.split()
        # The exact statement, because reading relies on its types and constraints.
        if words[1] == "TABLE" and made.get(words[2]) != statement.strip():
            raise DataError(
                f"{str(path)!r} is a damaged store: its table {words[2]!r} is absent or not as pmlkit makes it. Run "
                "the benchmark into another file."
            )


@contextlib.contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into one sentence."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise _damaged(path, "it holds text that is not UTF-8") from error
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "") or ""
        if name.startswith("SQLITE_NOTADB"):
            raise DataError(f"{str(path)!r} is not a store of `pmlkit bench`: choose another file.") from error
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
            raise StoreFull(
                f"Nothing more can be written to {str(path)!r}: {error}. The cells finished so far are kept; make "
                "room, and run the same command again to do the rest."
            ) from error
        if name.startswith("SQLITE_BUSY"):
            raise DataError(f"{str(path)!r} is locked by another program for more than {BUSY_TIMEOUT} s.") from error
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, reason: str) -> DataError:
    return DataError(f"{str(path)!r} is a damaged store: {reason}. Run the benchmark into another file.")


@dataclass(frozen=True)
class RunFacts:
    """How a store was filled; made by `load_plan_facts`, whose example shows it.

    Attributes
    ----------
    command : str
        Command line that started the run; the plan if it was started from Python.
    plan : str
        Plan as TOML; `pmlkit.bench.parse_plan` reads it.
    started, finished : str
        Times in UTC; `finished` is None for a run that was interrupted or is going on.
    jobs : int
        Number of processes.
    pmlkit_version, git_revision : str
        Version of the code.
    """

    command: str
    plan: str
    started: str
    finished: str | None
    jobs: int
    pmlkit_version: str
    git_revision: str


def load_cells(path: str | os.PathLike[str], *, superseded: bool = False) -> pd.DataFrame:
    """Read the finished cells of a store.

    Parameters
    ----------
    path : str or path
        A store that `run` or ``pmlkit bench`` made; the run may still be going on.
    superseded : bool, default=False
        Return instead the cells that later runs replaced, because code, parameters or data of the same name changed.

    Returns
    -------
    cells : DataFrame
        One row per cell, in the order of the plan: what was run, the metrics, times, memory and versions. ``status``
        is "done" or "failed"; a failed cell has its ``reason``, and nan for the metrics. ``ratio`` is nan where
        ``noise`` is "own".

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit.bench import Plan, load_cells, run
    >>> plan = Plan(["digit-strips:100"], ["MLkNN"], noise=[0.5], repeats=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = run(plan, pathlib.Path(folder, "results.sqlite"))
    ...     cells = load_cells(pathlib.Path(folder, "results.sqlite"))
    >>> cells[["noise", "ratio", "repeat", "label", "status"]]
         noise  ratio  repeat  label status
    0  uniform    0.5       0  MLkNN   done
    1  uniform    0.5       1  MLkNN   done
    """
    own = ", ".join(f"c.{name}" for name in COLUMNS if name not in PLACE_COLUMNS)
    query = (
        f"SELECT p.data, p.noise, nullif(p.ratio, {OWN}) AS ratio, p.method, p.params, p.label, {own} "
        "FROM places p JOIN cells c USING (group_key) "
        "WHERE p.current = ? AND c.status IN ('done', 'failed') ORDER BY p.rowid, c.repeat"
    )
    with _reading(path) as connection:
        cursor = connection.execute(query, (int(not superseded),))
        cells = pd.DataFrame(cursor.fetchall(), columns=[column[0] for column in cursor.description])
    for column in ("params", "versions"):
        for text in cells[column].dropna().unique():
            _check_json(text, Path(path))
    numbers = ["ratio", *METRICS, "fit_seconds", "predict_seconds", "peak_mb"]
    cells[numbers] = cells[numbers].astype("float64")
    return cells[list(COLUMNS)]


def _check_json(text: str, path: Path) -> None:
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(json.loads(text), dict):
            return
    raise _damaged(path, f"{text[:40]!r} is not a JSON object")


def load_plan_facts(path: str | os.PathLike[str]) -> list[RunFacts]:
    """Read the plans and commands that filled a store.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    facts : list of RunFacts
        The last run of each different plan, the newest run last.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit import bench
    >>> plan = bench.Plan(["digit-strips:60"], ["MLkNN"], noise=[0.5], repeats=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = pathlib.Path(folder, "results.sqlite")
    ...     _ = bench.run(plan, store)
    ...     (facts,) = bench.load_plan_facts(store)
    >>> bench.parse_plan(facts.plan).repeats
    1
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
    # Without a writer there is no -wal file. Reading must not make one: only a connection that may write removes it.
    if file.resolve().with_name(f"{file.resolve().name}-wal").exists():
        connection = sqlite3.connect(f"{address}?mode=ro", uri=True, timeout=BUSY_TIMEOUT)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master")
        except sqlite3.OperationalError:
            connection.close()  # The folder is read-only, so that no other process writes.
        else:
            return connection
    return sqlite3.connect(f"{address}?immutable=1", uri=True)
