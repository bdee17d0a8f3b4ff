"""Runs of the benchmark in processes of their own, for the tests that interrupt them."""

import os
import sqlite3
import time
from pathlib import Path

import pytest


def environment():
    """Return the environment of a child process that finds `bench_methods` and the package under test."""
    folders = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(folders)}


def wait_until(condition, seconds=600):
    """Wait for a condition; the limit only ends a test that hangs."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail("the condition did not become true")
        time.sleep(0.02)


def n_running(path):
    """Return the number of cells that a store has as running."""
    try:
        with sqlite3.connect(path) as connection:
            return connection.execute("SELECT count(*) FROM cells WHERE status = 'running'").fetchone()[0]
    except sqlite3.OperationalError:  # there is no store yet
        return 0
