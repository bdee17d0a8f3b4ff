"""What holds while a fit runs: how many threads linear algebra uses, and one warning of each kind."""

import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


class _ProcessLimit:
    """A limit of one thread for the whole process: the first fit sets it, the last one that ends lifts it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._before: list[tuple[Any, int]] = []

    def enter(self, libraries: list[Any]) -> None:
        with self._lock:
            self._n_inside += 1
            if self._n_inside == 1:
                self._before = [(library, library.get_num_threads()) for library in libraries]
                _set_threads([(library, 1) for library in libraries])

    def leave(self) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                _set_threads(self._before)


_LIMIT = _ProcessLimit()


def _set_threads(counts: list[tuple[Any, int]]) -> None:
    for library, n_threads in counts:
        # Since 3.7, threadpoolctl ignores calls from any thread but the first that set a limit and is still alive. Fits
        # overlap in any order and may end in other threads than they began, so that owner is cleared before and after.
        clear = getattr(library, "clear_controlling_thread", None)
        if clear is not None:
            clear(force=True)
        library.set_num_threads(n_threads)
        if clear is not None:
            clear(force=True)


@cache
def _libraries() -> tuple[ThreadpoolController, list[Any]]:
    """Return the BLAS libraries whose limit holds for the calling thread only, and those with one for the process."""
    pools = ThreadpoolController().select(user_api="blas")
    per_thread = [lib for lib in pools.lib_controllers if getattr(lib, "threading_layer", None) == "openmp"]
    of_process = [lib for lib in pools.lib_controllers if lib not in per_thread]
    return pools.select(filepath=[lib.filepath for lib in per_thread]), of_process


@contextmanager
def one_blas_thread(*, when: bool = True) -> Iterator[None]:
    """Limit linear algebra to one thread, for work that consists of many small products.

    Several threads would spend their time waiting for each other there. Fits in different threads may overlap: the
    limit is lifted when the last of them ends.
    """
    if not when:
        yield
        return
    per_thread, of_process = _libraries()
    with per_thread.limit(limits=1):
        _LIMIT.enter(of_process)
        try:
            yield
        finally:
            _LIMIT.leave()


_lock = threading.Lock()
_catchers: list[Any] = []  # the one that is open, if any
_n_inside = 0


@contextmanager
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
