import os
import subprocess
import sys

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from pmlkit.methods.threads import one_blas_thread


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(limits=2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("there is no BLAS whose threads can be limited")
        yield


def test_one_thread_inside_and_two_again_outside():
    with one_blas_thread():
        assert blas_threads() == {1}
        with one_blas_thread():
            pass
        assert blas_threads() == {1}
    assert blas_threads() == {2}
    with one_blas_thread(when=False):
        assert blas_threads() == {2}


def test_an_error_inside_lifts_the_limit():
    with pytest.raises(RuntimeError), one_blas_thread():
        raise RuntimeError
    assert blas_threads() == {2}


def run_with_two_threads(script):
    """Return the lines that a script prints in a process whose linear algebra has two threads."""
    two = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "2")
    words = [sys.executable, "-c", script]
    output = subprocess.run(words, env=os.environ | two, capture_output=True, text=True, check=True).stdout.split("\n")
    if output[0] != "[2]":
        pytest.skip("BLAS has no second thread here")
    return output


OVERLAPPING = """
import threading
from concurrent.futures import ThreadPoolExecutor
import numpy, scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits
from pmlkit.methods.threads import one_blas_thread

def blas_threads():
    return sorted({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})

first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()
print(blas_threads())

def first():
    with one_blas_thread():
        first_in.set()
        second_in.wait()
    first_out.set()

def second():
    first_in.wait()
    with one_blas_thread():
        second_in.set()
        first_out.wait()
        print(blas_threads())

with ThreadPoolExecutor(2) as pool:
    for done in [pool.submit(first), pool.submit(second)]:
        done.result()
    print(blas_threads())  # while the threads of the pool are alive
    with threadpool_limits(limits=1, user_api="blas"):
        print(blas_threads())
print(blas_threads())
"""


def test_fits_that_overlap_in_two_threads_leave_no_limit_behind():
    """One enters, the other enters, the first leaves, the other leaves, in a process without other limits.

    The threads stay alive, as those of a pool do: threadpoolctl then ignores every other thread, until told otherwise.
    """
    output = run_with_two_threads(OVERLAPPING)
    assert output[:5] == ["[2]", "[1]", "[2]", "[1]", "[2]"]


OWNED = """
import numpy, scipy.linalg
from concurrent.futures import ThreadPoolExecutor
from threadpoolctl import threadpool_info, threadpool_limits
from pmlkit.methods.threads import one_blas_thread

def blas_threads():
    return sorted({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})

def fit():
    with one_blas_thread():
        return blas_threads()

print(blas_threads())
owner = threadpool_limits(limits=2, user_api="blas")  # of the main thread, which lives on
with ThreadPoolExecutor(1) as pool:
    print(pool.submit(fit).result())
    print(blas_threads())
"""


def test_a_fit_is_limited_although_another_thread_set_a_limit():
    output = run_with_two_threads(OWNED)
    assert output[:3] == ["[2]", "[1]", "[2]"]
