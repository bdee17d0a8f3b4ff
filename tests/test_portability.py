"""Everything but running benchmarks works without POSIX-only modules, and without the packages of the extras."""

import os
import subprocess
import sys

import pytest

from pmlkit import bench

BLOCK = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

for name in {blocked!r}:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Block())
"""

WORK = """
import pandas as pd

import pmlkit
from pmlkit import bench
from pmlkit.cleaning import clean
from pmlkit.cli.app import app
from pmlkit.data import load_digit_strips, read, write
from pmlkit.methods import PMLLFC, CandidateLogistic
from pmlkit.persistence import load, save

strips = load_digit_strips(100)
write(strips, "strips.npz")
write(strips, "strips.csv")
data = read("strips.npz")
assert read("strips.csv").n_labels == 10
assert PMLLFC().fit(data.X, data.Y).predict(data.X).shape == (100, 10)
save(CandidateLogistic().fit(data.X, data.Y), "model.skops")
load("model.skops")
clean(data.X, data.Y).report("cleaning.html")
bench.report(sys.argv[1]).write("bench.html")
for words in (["info", "strips.npz"], ["demo", "--rows", "60", "--output", "demo"], ["report", sys.argv[1], "--csv"]):
    try:
        app(words)
    except SystemExit as end:
        assert not end.code, (words, end.code)
print("done")
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "results.sqlite"
    bench.run(bench.Plan(["digit-strips:100"], ["MLkNN"], noise=[0.5], repeats=1), path)
    return path


def run(code, folder, *words):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "blocked",
    [
        ("fcntl", "resource", "termios", "pwd", "grp"),
        ("pyarrow", "PIL", "dask", "distributed", "cleanlab", "starlette", "uvicorn", "matplotlib", "polars"),
    ],
    ids=["POSIX", "extras"],
)
def test_reading_fitting_cleaning_and_reports_need_none_of_these(tmp_path, store, blocked):
    result = run(BLOCK.format(blocked=blocked) + WORK, tmp_path, store)
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.endswith("done\n")


@pytest.mark.parametrize(
    ("blocked", "code", "sentence"),
    [
        (
            "distributed",
            "from pmlkit import bench; "
            "bench.run(bench.Plan(['digit-strips:100'], ['MLkNN'], noise=[1]), 'x.sqlite', dask='local')",
            "Running on a cluster needs Dask, which is not installed: run pip install 'pmlkit[dask]'.",
        ),
        (
            "pyarrow",
            "from pmlkit.data import load_digit_strips, write; write(load_digit_strips(20), 'strips.parquet')",
            "Parquet files need pyarrow, which is not installed: run pip install 'pmlkit[parquet]'.",
        ),
        (
            "PIL",
            "from pmlkit.data.files.side_features import read_images; read_images('.', ['a.png'])",
            "Image files need Pillow, which is not installed: run pip install 'pmlkit[images]'.",
        ),
        (
            "cleanlab",
            "from pmlkit.methods import CleanlabFilter; CleanlabFilter().fit([[0.0], [1.0]], [[1, 0], [0, 1]])",
            "CleanlabFilter needs cleanlab, which is not installed: run pip install 'pmlkit[cleanlab]'.",
        ),
    ],
    ids=lambda value: value if value.isidentifier() else "",
)
def test_an_absent_extra_is_named_with_the_command_that_installs_it(tmp_path, blocked, code, sentence):
    result = run(BLOCK.format(blocked=(blocked,)) + code, tmp_path)
    assert result.stderr.rstrip().endswith(sentence)
