"""The answers of a review in one SQLite file: an append-only log that survives a killed process and a power cut.

Nothing is ever changed or deleted. An undo is an entry that names the one it takes back; a changed answer is an undo
and a new answer. What was acknowledged is on disk: every write is a transaction with full synchronisation. Writes that
come while the disk is busy share the next transaction, so that many people need not wait for one synchronisation each.
"""

import contextlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType
from typing import Any, Self

from pmlkit.exceptions import DataError

ANSWERS = ("right", "wrong", "unsure")
_VERSION = 1
_SECONDS_FOR_A_LOCK = 20.0
_APPLICATION_ID = 0x504D4C52  # "PMLR"
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE event (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    who TEXT NOT NULL,
    action TEXT NOT NULL CHECK (action IN ('answer', 'undo', 'flag', 'unflag')),
    row INTEGER,
    label TEXT,
    answer TEXT CHECK (answer IN ('right', 'wrong', 'unsure')),
    kind TEXT NOT NULL,
    undoes INTEGER REFERENCES event (seq),
    seconds REAL,
    shown TEXT,
    client TEXT UNIQUE
);
CREATE TABLE visitor (secret TEXT PRIMARY KEY, who TEXT NOT NULL, at TEXT NOT NULL) WITHOUT ROWID;
"""
_STATEMENTS = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"  # indexes that SQLite makes by itself have none
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("at", "who", "action", "kind"), (str,)),
    **dict.fromkeys(("label", "answer", "client"), (str, NoneType)),
    **dict.fromkeys(("row", "undoes"), (int, NoneType)),
    "seconds": (int, float, NoneType),
    "shown": (dict, NoneType),
}
"""What the columns of an entry hold; SQLite itself would let a damaged file hold anything."""


def _known_statements() -> set[str]:
    own = {statement.strip() for statement in _SCHEMA.split(";")[:-1]}
    return own | {"CREATE TABLE sqlite_sequence(name,seq)"}  # which SQLite makes for AUTOINCREMENT


@dataclass(frozen=True)
class Event:
    """One entry of the log.

    Attributes
    ----------
    who : str
        The person.
    action : {"answer", "undo", "flag", "unflag"}
    row, label
        The cell; `label` is the label's name.
    answer : {"right", "wrong", "unsure"}, optional
    kind : str
        Where it came from: a kind of question of the audit, or ``"selection"``, ``"bulk"``, ``"toggle"`` and
        ``"settled"``; ``"missing"`` is about a label to add, ``"merge"`` about replacing a name by the one in `shown`.
    undoes : int, optional
        The entry that an undo takes back.
    seconds : float, optional
        How long the answer took.
    shown : dict, optional
        What the person saw when answering.
    client : str, optional
        A key chosen by the sender; an entry that is sent twice is stored once.
    """

    who: str
    action: str
    kind: str
    row: int | None = None
    label: str | None = None
    answer: str | None = None
    undoes: int | None = None
    seconds: float | None = None
    shown: dict[str, Any] | None = None
    client: str | None = None


@dataclass(frozen=True)
class StoredEvent(Event):
    """An entry with its number and time."""

    seq: int = 0
    at: str = ""


@dataclass(eq=False)
class _Batch:
    """Entries that wait to be written, and what became of them."""

    events: Sequence[Event]
    at: str
    numbers: list[int] = field(default_factory=list)
    error: Exception | None = None
    is_done: bool = False


class AnswerStore:
    """An append-only log of answers in an SQLite file.

    Parameters
    ----------
    path : path
        Made when absent.
    fingerprint : str, optional
        Identifies the rows, labels and candidates that the answers are about. A store of other data is refused.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit.cleaning.review.store import AnswerStore, Event
    >>> with tempfile.TemporaryDirectory() as folder, AnswerStore(pathlib.Path(folder, "a.sqlite")) as store:
    ...     seq = store.append([Event("ann", "answer", "audit", row=3, label="cat", answer="wrong")])[0]
    ...     _ = store.append([Event("ann", "undo", "audit", undoes=seq)])
    ...     [event.action for event in store.events()], store.standing()
    (['answer', 'undo'], [])
    """

    def __init__(self, path: str | os.PathLike[str], *, fingerprint: str | None = None) -> None:
        self.path = Path(path)
        if self.path.is_dir() or (self.path.exists() and not self.path.is_file()):
            raise DataError(f"{str(self.path)!r} is not a file: give the path of a store of answers.")
        if not self.path.parent.is_dir():
            raise DataError(f"There is no folder {str(self.path.parent)!r}: make it first, or choose another.")
        self._write_lock, self._read_lock = threading.Lock(), threading.Lock()
        self._waiting: list[_Batch] = []
        self._visitors: dict[str, str] = {}
        # What is written waits for the disk; who reads must not wait with it, so there are two connections.
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        with self._explained("opened"):
            self._writer = self._connect()
            self._prepare()
            self._reader = self._connect()
            self._reader.execute("PRAGMA query_only = ON")
        self._check_fingerprint(fingerprint)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        """Whether the file is closed."""
        return self._writer is None

    def close(self) -> None:
        """Close the file; closing twice is allowed."""
        with self._write_lock, self._read_lock:
            for connection in (self._reader, self._writer):
                if connection is not None:
                    connection.close()
            self._reader = self._writer = None

    def append(self, events: Sequence[Event]) -> list[int]:
        """Store entries, all or none of them, and return their numbers; they are on disk when this returns.

        An entry whose `client` key is stored already is not stored again: its number is returned.
        """
        batch = _Batch(events, datetime.now(UTC).isoformat(timespec="milliseconds"))
        self._waiting.append(batch)
        with self._write_lock:
            if not batch.is_done:
                group = self._waiting[:]  # what is added from here on goes into the next transaction
                failure: Exception | None = DataError("Writing the answers was interrupted: nothing was stored.")
                try:
                    with self._explained("written"), self._transaction() as connection:
                        for waiting in group:
                            self._insert(connection, waiting)
                    failure = None
                except DataError as error:
                    failure = error
                finally:
                    del self._waiting[: len(group)]
                    for waiting in group:
                        waiting.error, waiting.is_done = waiting.error or failure, True
        if batch.error is not None:
            raise batch.error
        return batch.numbers

    def _insert(self, connection: sqlite3.Connection, batch: _Batch) -> None:
        """Insert the entries of one caller; bad ones do not affect others in the transaction."""
        connection.execute("SAVEPOINT batch")
        try:
            with self._explained("written"):
                for event in batch.events:
                    known = connection.execute("SELECT seq FROM event WHERE client = ?", (event.client,)).fetchone()
                    if known is not None:
                        batch.numbers.append(int(known[0]))
                        continue
                    values = asdict(event) | {"at": batch.at}
                    values["shown"] = None if event.shown is None else json.dumps(event.shown, ensure_ascii=False)
                    names = ", ".join(values)
                    marks = ", ".join(f":{name}" for name in values)
                    cursor = connection.execute(f"INSERT INTO event ({names}) VALUES ({marks})", values)
                    batch.numbers.append(int(cursor.lastrowid or 0))
        except (ValueError, OverflowError) as error:
            batch.error = error
            if not connection.in_transaction:  # a full disk ends the whole transaction
                raise
            connection.execute("ROLLBACK TO batch")
        connection.execute("RELEASE batch")

    def events(self, after: int = 0) -> list[StoredEvent]:
        """Return the entries with numbers above `after`, in order."""
        names = "seq, at, who, action, kind, row, label, answer, undoes, seconds, shown, client"
        lines = self._read(f"SELECT {names} FROM event WHERE seq > ? ORDER BY seq", after)
        found = []
        for line in lines:
            values = dict(zip(names.split(", "), line, strict=True))
            try:
                values["shown"] = None if values["shown"] is None else json.loads(values["shown"])
            except (TypeError, ValueError, RecursionError) as error:
                raise DataError(f"Entry {line[0]} of {str(self.path)!r} is damaged: {error}.") from error
            for name, types in _TYPES.items():
                if not isinstance(values[name], types):
                    raise DataError(
                        f"Entry {line[0]} of {str(self.path)!r} is damaged: its {name} is of a wrong type.", column=name
                    )
            event = StoredEvent(**values)
            lacks_cell = event.kind != "merge" and (event.row is None or event.label is None)
            if event.action != "undo" and (lacks_cell or (event.action == "answer" and event.answer is None)):
                raise DataError(f"Entry {line[0]} of {str(self.path)!r} is damaged: it lacks a row, label or answer.")
            found.append(event)
        return found

    def standing(self) -> list[StoredEvent]:
        """Return the answers that were not taken back, in order."""
        events = self.events()
        undone = {event.undoes for event in events if event.action == "undo"}
        return [event for event in events if event.action == "answer" and event.seq not in undone]

    @property
    def last(self) -> int:
        """The number of the last entry, 0 without any."""
        return int(self._read("SELECT coalesce(max(seq), 0) FROM event")[0][0])

    def get(self, key: str) -> str | None:
        """Return a stored setting."""
        lines = self._read("SELECT value FROM meta WHERE key = ?", key)
        return str(lines[0][0]) if lines else None

    def set(self, *, is_derived: bool = False, **values: str) -> None:
        """Store settings, together.

        Parameters
        ----------
        is_derived : bool, default=False
            Whether they follow from the entries: a power cut may then take them, and the disk is not waited for.
        **values : str
        """
        with self._write_lock, self._explained("written"):
            if is_derived:
                self._open(self._writer).execute("PRAGMA synchronous = NORMAL")
            try:
                with self._transaction() as connection:
                    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())
            finally:
                self._open(self._writer).execute("PRAGMA synchronous = FULL")

    def add_visitor(self, secret: str, who: str) -> None:
        """Remember a browser by the hash of its cookie, so that it stays signed in when the server restarts."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        with self._write_lock, self._explained("written"), self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO visitor VALUES (?, ?, ?)", (secret, who, at))
        self._visitors[secret] = who

    def visitor(self, secret: str) -> str | None:
        """Return the name of the person behind the hash of a cookie, or None."""
        if secret not in self._visitors:
            lines = self._read("SELECT who FROM visitor WHERE secret = ?", secret)
            if not lines:
                return None
            self._visitors[secret] = str(lines[0][0])
        return self._visitors[secret]

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, check_same_thread=False, isolation_level=None, timeout=_SECONDS_FOR_A_LOCK
        )
        connection.execute("PRAGMA trusted_schema = OFF")
        return connection

    def _open(self, connection: sqlite3.Connection | None) -> sqlite3.Connection:
        if connection is None:
            raise DataError(f"{str(self.path)!r} is closed.")
        return connection

    def _read(self, query: str, *values: Any) -> list[Any]:
        with self._read_lock, self._explained("read"):
            return self._open(self._reader).execute(query, values).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._open(self._writer)
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _prepare(self) -> None:
        connection = self._open(self._writer)
        connection.execute("BEGIN")  # one state of the file: another process may be making it
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        mark = connection.execute("PRAGMA application_id").fetchone()[0]
        is_empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        connection.execute("COMMIT")
        if not is_empty and mark != _APPLICATION_ID:
            raise DataError(f"{str(self.path)!r} is an SQLite file, but not a store of answers: choose another path.")
        if version > _VERSION:
            raise DataError(
                f"{str(self.path)!r} was written by a newer version of pmlkit (format {version}, this one knows "
                f"{_VERSION}): update pmlkit."
            )
        if not is_empty and {sql for (sql,) in connection.execute(_STATEMENTS)} != _known_statements():
            # A view or a trigger of a stranger would answer in place of what was stored, or never end.
            raise DataError(f"{str(self.path)!r} is damaged: it holds other tables than pmlkit makes.")
        self._keep_a_log(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        if is_empty:
            with self._transaction():
                if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                    for statement in _SCHEMA.split(";")[:-1]:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                    connection.execute(f"PRAGMA user_version = {_VERSION}")

    @staticmethod
    def _keep_a_log(connection: sqlite3.Connection) -> None:
        """Use a write-ahead log; SQLite itself does not wait for another process that is changing to it, too."""
        limit = time.monotonic() + _SECONDS_FOR_A_LOCK
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > limit:
                    raise
                time.sleep(0.01)

    def _check_fingerprint(self, fingerprint: str | None) -> None:
        if fingerprint is None:
            return
        known = self.get("fingerprint")
        if known is None:
            self.set(fingerprint=fingerprint)
        elif known != fingerprint:
            self.close()
            raise DataError(
                f"{str(self.path)!r} holds answers about other data: the table or its labels changed since, or it is "
                "another table. Use the table that was reviewed, read by the same options, or another path for the "
                "answers."
            )

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise DataError(f"The answers in {str(self.path)!r} could not be {what}: {error}.") from error
