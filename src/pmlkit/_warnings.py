"""At most one warning of a kind from a piece of work, however often it is raised inside."""

import contextlib
import re
import threading
import warnings
from collections.abc import Iterator
from typing import Any

__all__ = ["one_of_each_warning"]

_lock = threading.Lock()
_catchers: list[Any] = []  # the one that is open, if any
_n_inside = 0


@contextlib.contextmanager
def one_of_each_warning() -> Iterator[None]:
    """Hold warnings back until the end, then give the first of each kind: of a class and a text without its numbers.

    What is set up to be an error or to be ignored stays so. Work that overlaps in threads, or is nested, is counted
    as one: Python has one list of filters for all threads.
    """
    global _n_inside
    with _lock:
        if not _n_inside:
            catcher = warnings.catch_warnings(record=True)
            _catchers[:] = [(catcher, catcher.__enter__())]
        _n_inside += 1
    try:
        yield
    finally:
        shown: dict[tuple[type[Warning], str], warnings.WarningMessage] = {}
        with _lock:
            _n_inside -= 1
            if not _n_inside:
                catcher, found = _catchers.pop()
                catcher.__exit__(None, None, None)
                for warning in found:
                    shown.setdefault((warning.category, re.sub(r"[\d.,e+-]+", "0", str(warning.message))), warning)
        for warning in shown.values():
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
