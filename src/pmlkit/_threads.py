"""How many threads linear algebra may use."""

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


def one_blas_thread(*, when: bool = True) -> AbstractContextManager[Any]:
    """Keep linear algebra to one thread, for work of many small products: more threads only wait for each other.

    Examples
    --------
    >>> from threadpoolctl import threadpool_info
    >>> from pmlkit._threads import one_blas_thread
    >>> with one_blas_thread():
    ...     {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
    {1}
    """
    return _pools().limit(limits=1, user_api="blas") if when else nullcontext()


@functools.cache
def _pools() -> ThreadpoolController:
    return ThreadpoolController()
