"""How many threads linear algebra may use."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


class _Limit:
    """A limit of the whole process: the first who asks for it sets it, the last one who leaves lifts it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._limiter: Any = None

    @cached_property
    def _pools(self) -> ThreadpoolController:
        return ThreadpoolController()

    def enter(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                self._limiter = self._pools.limit(limits=1, user_api="blas")
            self._n_inside += 1

    def leave(self) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                self._limiter.restore_original_limits()


_LIMIT = _Limit()


@contextmanager
def one_blas_thread(*, when: bool = True) -> Iterator[None]:
    """Keep linear algebra to one thread, for work of many small products: more threads only wait for each other.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit._threads import one_blas_thread
    >>> with one_blas_thread():
    ...     np.eye(2) @ np.ones(2)
    array([1., 1.])
    """
    if not when:
        yield
        return
    _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave()
