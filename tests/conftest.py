"""Shared fixtures: the stored reference problem, the benchmark data sets and a browser."""

import os
import random
import shutil
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

# Before NumPy is imported: test processes with several threads each fight over the cores, and take three times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest

from dask_workers import two_workers
from pmlkit.data import data_home, read

# A shell that starts the tests in the background lets them ignore Ctrl-C, and so would the processes that they start.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ORACLE = Path(__file__).parent / "oracle"


def pytest_addoption(parser):
    """Add ``--shuffle SEED``: files in random order, and the tests of a file."""
    parser.addoption("--shuffle", metavar="SEED", help="run files, and the tests within a file, in random order")


def pytest_collection_modifyitems(config, items):
    """Put the tests in the order that the seed gives, the same in every worker."""
    seed = config.getoption("--shuffle")
    if seed is not None:
        keys = {item: (_drawn(seed, item.nodeid.partition("::")[0]), _drawn(seed, item.nodeid)) for item in items}
        items.sort(key=keys.__getitem__)


def _drawn(seed, name):
    return random.Random(f"{seed} {name}").random()


def load_oracle(name):
    """Return one stored matrix (tests/oracle/README.md says where it comes from)."""
    return np.loadtxt(ORACLE / "small" / f"{name}.csv", delimiter=",")


@pytest.fixture(scope="session")
def oracle():
    """Return the small reference problem, and a way to load what belongs to it."""
    return SimpleNamespace(
        X=load_oracle("X_train"),
        X_test=load_oracle("X_test"),
        Y=load_oracle("Ycand_train").astype(int),
        truth_test=load_oracle("Ytrue_test").astype(int),
        load=load_oracle,
        folder=ORACLE / "small",
    )


@pytest.fixture(scope="session")
def browser():
    """Return a headless Chromium: one for all tests of a process, since Playwright can only run once in it."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("Chromium is absent: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"],
        )
        yield launched
        launched.close()


@pytest.fixture
def benchmark_data():
    """Return a function that reads a benchmark set, skipping the test where it is absent."""

    def load(name):
        if "PMLKIT_DATA" not in os.environ:
            pytest.skip("the environment variable PMLKIT_DATA does not name the folder of benchmark sets")
        path = data_home() / f"{name}.npz"
        if not path.is_file():
            pytest.skip(f"{path} is absent; PMLKIT_DATA names the folder of benchmark sets")
        return read(path)

    return load


@pytest.fixture(scope="session")
def dask_client():
    """Return a client of two Dask workers in processes of their own."""
    with two_workers() as client:
        yield client
