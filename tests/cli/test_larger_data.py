"""``--workers``, ``--memory`` and ``--dask`` of fit, clean and predict, with real workers."""

import csv
import json
import sys

import numpy as np
import pytest

from pmlkit.persistence import load
from post_tables import make_posts, write_posts


@pytest.fixture
def posts(tmp_path):
    path = tmp_path / "posts.csv"
    write_posts(make_posts(120), path)
    return path


WORDS = ("--labels", "tags", "--text", "body")


def scores_of(path):
    with open(path, newline="") as stream:
        _, *rows = csv.reader(stream)
    return [row[0] for row in rows], np.array([row[1:] for row in rows], dtype=float)


def test_a_cluster_gives_the_answers_of_memory(run, posts, tmp_path, dask_client):
    cluster = ("--dask", dask_client.scheduler.address)
    for name, where in (("here", ()), ("there", cluster)):
        result = run("fit", posts, *WORDS, "-o", tmp_path / f"{name}.skops", "--json", *where)
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout)["rows"] == 120
        model = tmp_path / f"{name}.skops"
        assert run("predict", model, posts, "--scores", "-o", tmp_path / f"{name}.csv", *where).exit_code == 0
        assert run("predict", model, posts, "-o", tmp_path / f"{name}-sets.csv", *where).exit_code == 0
        done = run("clean", posts, *WORDS, "--dry-run", "--suspects", tmp_path / f"{name}-suspects.csv", *where)
        assert done.exit_code == 0, done.stderr
    (ids, here), (other_ids, there) = scores_of(tmp_path / "here.csv"), scores_of(tmp_path / "there.csv")
    assert ids == other_ids
    np.testing.assert_allclose(here, there, atol=1e-6)
    assert (tmp_path / "here-sets.csv").read_text() == (tmp_path / "there-sets.csv").read_text()
    first, second = (
        [line[:2] for line in csv.reader((tmp_path / f"{name}-suspects.csv").read_text().splitlines())]
        for name in ("here", "there")
    )
    assert first == second
    assert load(tmp_path / "there.skops").table_reader_.text == ("body",)


def test_workers_are_started_and_end(run, posts, tmp_path):
    result = run("fit", posts, *WORDS, "-o", tmp_path / "m.skops", "--workers", "1", "--memory", "1GB")
    assert result.exit_code == 0, result.stderr
    assert load(tmp_path / "m.skops").label_names_.tolist()


def test_a_memory_budget_alone_needs_no_workers(run, posts, tmp_path):
    for name, where in (("a", ()), ("b", ("--memory", "1MB"))):
        assert run("fit", posts, *WORDS, "-o", tmp_path / f"{name}.skops", *where).exit_code == 0
    first, second = load(tmp_path / "a.skops"), load(tmp_path / "b.skops")
    np.testing.assert_allclose(first.dual_coef_, second.dual_coef_, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--memory", "lots"], 2, "memory must be an amount of memory such as 2GB"),
        (["--memory", "10MB", "--workers", "1"], 2, "A worker needs at least 400 MB of memory, got 10MB"),
        (["--workers", "0"], 2, "--workers"),
        (["--dask", "nonsense"], 2, "address of a scheduler such as tcp://"),
        (["--dask", "tcp://127.0.0.1:1", "--workers", "2"], 2, "leave --workers and --memory out"),
        (["--dask", "tcp://127.0.0.1:1"], 1, "No Dask scheduler answers at 'tcp://127.0.0.1:1'"),
        (["--memory", "1GB", "-m", "MLkNN"], 1, "MLkNN learns from data in memory only"),
    ],
)
def test_wrong_words(run, posts, tmp_path, monkeypatch, words, code, said):
    monkeypatch.setattr("pmlkit.blocks.executors._PATIENCE", "1s")
    result = run("fit", posts, *WORDS, "-o", tmp_path / "m.skops", *words)
    assert result.exit_code == code, result.stderr
    assert said in result.stderr
    assert not (tmp_path / "m.skops").exists()


def test_without_dask_the_command_says_how_to_install_it(run, posts, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = run("fit", posts, *WORDS, "-o", tmp_path / "m.skops", "--workers", "2")
    assert result.exit_code == 1
    assert "pip install 'pmlkit[dask]'" in result.stderr
