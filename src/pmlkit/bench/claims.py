"""Which runs are alive: a lock on one byte each, which the kernel drops when a process dies in whatever way."""

import contextlib
import fcntl
import os
import threading
from pathlib import Path

from pmlkit.exceptions import DataError

__all__ = ["LiveRuns"]

# Closing any handle of a file drops all locks that the process has on it: there is one handle per file, kept open.
_open: dict[Path, "LiveRuns"] = {}
_guard = threading.Lock()


class LiveRuns:
    """The runs on one store that are alive, in this process and in all others of the machine.

    Parameters
    ----------
    path : path
        The lock file; it stays empty. Use `LiveRuns.of`, so that there is one object per file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit.bench.claims import LiveRuns
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     runs = LiveRuns.of(pathlib.Path(folder, "lock"))
    ...     runs.begin(1)
    ...     print(runs.is_alive(1), runs.is_alive(2))
    ...     runs.end(1)
    ...     print(runs.is_alive(1))
    True False
    False
    """

    def __init__(self, path: Path) -> None:
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise DataError(f"{str(path)!r} cannot be written: {error.strerror}.") from error
        self._mine: set[int] = set()

    @classmethod
    def of(cls, path: Path) -> "LiveRuns":
        """Return the object of a file."""
        with _guard:
            path = path.resolve()
            if path not in _open:
                _open[path] = cls(path)
            return _open[path]

    def begin(self, run: int) -> None:
        """Say that a run of this process is alive."""
        with _guard:
            fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, run)
            self._mine.add(run)

    def end(self, run: int) -> None:
        """Say that it is over."""
        with _guard:
            self._mine.discard(run)
            fcntl.lockf(self._handle, fcntl.LOCK_UN, 1, run)

    def is_alive(self, run: int) -> bool:
        """Tell whether any process has this run."""
        with _guard:
            if run in self._mine:
                return True
            with contextlib.suppress(BlockingIOError, PermissionError):
                fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, run)
                fcntl.lockf(self._handle, fcntl.LOCK_UN, 1, run)
                return False
            return True
