"""The tables of a store, and what can be wrong with the file."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from pmlkit import __version__
from pmlkit.bench.cell import MEASURES
from pmlkit.exceptions import DataError

__all__ = ["COLUMNS", "OWN", "PATIENCE", "PLACE_COLUMNS", "StoreFull", "check_schema", "create_tables", "plain_errors"]

SCHEMA = 1
_APPLICATION = 0x504D4C42  # "PMLB", so that another SQLite file is not taken for a store
OWN = -1.0  # the ratio of data sets with candidates of their own: NULL would never equal itself
PATIENCE = 60  # seconds to wait for another process that writes

COLUMNS = (
    *("data", "noise", "ratio", "repeat", "method", "params", "label", "status", "reason"),
    *MEASURES,
    *("fit_seconds", "predict_seconds", "peak_mb"),
    *("seed", "pmlkit_version", "git_revision", "versions", "n_rows", "n_features", "n_labels"),
)
"""The columns of `load_cells`."""

PLACE_COLUMNS = ("data", "noise", "ratio", "method", "params", "label")
"""Those that say what a cell is called."""

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
    owner INTEGER, reason TEXT, {" REAL, ".join(MEASURES)} REAL,
    fit_seconds REAL, predict_seconds REAL, peak_mb REAL, chosen TEXT,
    pmlkit_version TEXT, git_revision TEXT, versions TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX cells_by_group ON cells (group_key);
CREATE INDEX cells_running ON cells (owner) WHERE status = 'running';
"""


class StoreFull(DataError):
    """The disk is full; what was written before stands."""


def create_tables(connection: sqlite3.Connection) -> None:
    """Make an empty store; inside a transaction of the caller."""
    for statement in filter(str.strip, _TABLES.split(";")):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {SCHEMA}")


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that is no store, or one from a newer version."""
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != _APPLICATION:
        raise DataError(f"{str(path)!r} is an SQLite file, but not a store of `pmlkit bench`: choose another.")
    if found > SCHEMA:
        raise DataError(
            f"{str(path)!r} was made by a newer pmlkit (store version {found}; this pmlkit {__version__} knows up to "
            f"{SCHEMA}): upgrade pmlkit, or choose another file."
        )


@contextlib.contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite says into a sentence."""
    try:
        yield
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
            raise DataError(f"{str(path)!r} is locked by another program for more than {PATIENCE} s.") from error
        raise DataError(f"{str(path)!r} cannot be used as a store: {error}.") from error
