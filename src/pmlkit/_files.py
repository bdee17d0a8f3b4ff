"""Files that are written whole or not at all."""

import contextlib
import functools
import os
import platform
import re
import secrets
import signal
import threading
import zlib
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

from pmlkit.exceptions import DataError

# Files that are written but not yet in their places: (where it is, where it belongs, what the user calls it).
_Held = list[tuple[Path, Path, str]]
_TEMPORARY = re.compile(r"\..+\.(?P<machine>[0-9a-f]{8})-(?P<process>[1-9][0-9]{0,9})-[0-9a-f]{8}\.part", re.DOTALL)
_looked_through: set[Path] = set()
_held: ContextVar[_Held | None] = ContextVar("_held", default=None)


def check_target(path: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Return the path, or raise if no file can be written there; `force`: whether one that is there may be replaced."""
    target = Path(path)
    try:
        target.resolve()
    except (OSError, RuntimeError) as error:  # which of the two depends on Python's version
        raise DataError(f"{str(target)!r} is a link that leads back to itself: choose another path.") from error
    if target.is_dir():
        raise DataError(f"{str(target)!r} is a folder: give the path of a file in it.")
    if target.exists() and not target.is_file():
        raise DataError(f"{str(target)!r} is not a regular file: choose another path.")
    if target.exists() and not force:
        raise DataError(f"{str(target)!r} exists already.", option="force", value="True", remedy=" to replace it")
    if target.parent.exists() and not target.parent.is_dir():
        raise DataError(f"{str(target.parent)!r} is a file, so nothing can be put in it: choose another folder.")
    if not target.parent.is_dir():
        raise DataError(f"There is no folder {str(target.parent)!r}: make it first, or choose another.")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise DataError(f"Nothing can be written in the folder {str(target.parent)!r}: choose another.")
    return target


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Put all files that `replacing` writes inside in place at the end, or none of them."""
    held: _Held = []
    token = _held.set(held)
    try:
        yield
        with interrupts_held():  # between two of them, one file would be there and the other not
            for temporary, target, name in held:
                try:
                    temporary.replace(target)
                except OSError as error:
                    raise _not_written(name, error) from error
    finally:
        _held.reset(token)
        for temporary, _, _ in held:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Defer Ctrl-C and SIGTERM to the end of the block, for what must be done whole or would swallow them."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in handlers.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread():
        before = {}
    held: list[tuple[int, Any]] = []
    for number in before:
        signal.signal(number, lambda number, frame: held.append((number, frame)))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for first, frame in held[:1]:
        before[signal.Signals(first)](first, frame)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a temporary file that replaces `path` on success and is removed on failure.

    A link keeps pointing to the file. Inside `together`, `path` is replaced when that ends.
    """
    target = Path(path).resolve()
    _remove_abandoned(target.parent)
    temporary = target.with_name(f".{target.name[:200]}.{_machine()}-{os.getpid()}-{secrets.token_hex(4)}.part")
    is_ours = True
    try:
        try:
            stream = temporary.open("xb")
        except OSError as error:
            is_ours = False
            reason = f"Nothing can be written in the folder {str(target.parent)!r}: {error.strerror}."
            raise DataError(reason) from error
        with stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        held = _held.get()
        if held is None:
            temporary.replace(target)
        else:
            held.append((temporary, target, str(path)))
    except BaseException as error:
        if is_ours:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise _not_written(str(path), error) from error
        raise


def _remove_abandoned(folder: Path) -> None:
    """Remove the temporary files of processes of this machine that were killed; a folder is looked through once."""
    if os.name != "posix" or folder in _looked_through:  # elsewhere there is no harmless way to ask for a process
        return
    _looked_through.add(folder)
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            match = _TEMPORARY.fullmatch(entry.name)
            if match and match["machine"] == _machine() and not _is_running(int(match["process"])):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


@functools.cache
def _machine() -> str:
    """Return a short name of this machine, in letters that every file system takes."""
    return f"{zlib.crc32(platform.node().encode()):08x}"


def _not_written(path: str, error: OSError) -> DataError:
    return DataError(f"{path!r} could not be written: {error.strerror or error}.")
