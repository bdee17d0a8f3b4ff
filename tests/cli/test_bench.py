import json
import signal
import sqlite3
import sys

import pytest

import forked
from bench_processes import n_running, wait_until
from pmlkit.bench import load_cells, load_plan_facts, parse_plan
from pmlkit.bench.cells import METRICS


@pytest.fixture
def out(tmp_path):
    return tmp_path / "results.sqlite"


@pytest.fixture
def bench(run, out):
    """Run `pmlkit bench` with a store of the test."""

    def call(*words):
        return run("bench", *words, "--output", out)

    return call


def test_cells_are_run_once_and_the_facts_are_told(bench, small_npz, out):
    words = ["--data", small_npz, "-m", "MLkNN,bench_methods:Fast", "--noise", "0.5,1", "--repeats", "2", "--json"]
    first = bench(*words)
    assert first.exit_code == 0, first.stderr
    facts = json.loads(first.stdout)
    assert facts == {"store": str(out), "cells": 8, "run_now": 8, "failed": 0, "seconds": facts["seconds"]}
    assert "bench: 8 cells, 8 to do with 1 job" in first.stderr
    cells = load_cells(out)
    assert cells["label"].unique().tolist() == ["MLkNN", "Fast"]
    assert cells["ratio"].unique().tolist() == [0.5, 1.0]
    assert cells[list(METRICS)].notna().all(axis=None)
    assert json.loads(bench(*words).stdout)["run_now"] == 0
    assert json.loads(bench("--json").stdout) | {"seconds": 0} == facts | {"run_now": 0, "seconds": 0}


def test_what_was_typed_is_kept(bench, small_npz, out, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pmlkit", "bench", "--data", "my data.npz"])
    bench(
        "--data",
        small_npz,
        "-m",
        "mlknn",
        "-p",
        "ML-kNN.n_neighbors=3,5",
        "-p",
        "MLkNN.smoothing=0.5",
        "--repeats",
        "1",
    )
    facts = load_plan_facts(out)[-1]
    assert facts.command == "pmlkit bench --data 'my data.npz'"
    labels = [variant.label for variant in parse_plan(facts.plan).variants()]
    assert labels == ["MLkNN(smoothing=0.5, n_neighbors=3)", "MLkNN(smoothing=0.5, n_neighbors=5)"]
    assert load_cells(out)["noise"].unique().tolist() == ["own"]


def test_tuned_parameters_are_one_method(bench, small_npz, out):
    result = bench("--data", small_npz, "-m", "MLkNN", "-p", "MLkNN.n_neighbors=3,5", "--tune", "--repeats", "1")
    assert result.exit_code == 0, result.stderr
    assert load_cells(out)["label"].tolist() == ["MLkNN(tuned)"]


def test_failures_are_listed_with_their_reasons(bench, small_npz):
    result = bench("--data", small_npz, "-m", "bench_methods:Raises,bench_methods:Fast", "--repeats", "3")
    assert result.exit_code == 0
    assert "3 cells failed" in result.stderr
    assert "failed: small, own, Raises, repeat 0: ArithmeticError: no luck" in result.stderr
    line = next(line for line in result.stdout.splitlines() if line.startswith("Raises"))
    assert line.split()[:3] == ["Raises", "small", "3"]


def test_a_plan_is_run(bench, small_npz, tmp_path, out):
    plan = tmp_path / "plan.toml"
    plan.write_text(f'repeats = 1\nmethods = ["bench_methods:Fast"]\n[[data]]\npath = "{small_npz}"\nname = "mine"\n')
    assert bench(plan).exit_code == 0
    assert load_cells(out)["data"].tolist() == ["mine"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Name the data sets with --data, or give a plan"),
        (["--repeats", "3"], "--data is missing"),
        (["--data", "SMALL", "-m", "PMLFC"], "There is no method 'PMLFC'. Did you mean 'PMLLFC'?"),
        (["--data", "no-such-set", "-m", "MLkNN"], "There is no data set 'no-such-set'."),
        (["--data", "SMALL", "-m", "MLkNN", "--noise", "0.5;1"], "noise is false candidates per true label"),
        (["--data", "SMALL", "-m", "MLkNN", "--kind", "confusible"], "Did you mean 'confusable'?"),
        (["--data", "SMALL", "-m", "MLkNN", "--param", "alpha=1"], "--param takes METHOD.KEY=VALUES"),
        (["--data", "SMALL", "-m", "MLkNN", "--param", "PMLLFC.alpha=1"], "is not among the methods: MLkNN"),
        (["--data", "SMALL", "-m", "MLkNN", "--param", "MLkNN.k=1"], "MLkNN has no parameter 'k'"),
        (["--data", "SMALL", "-m", "MLkNN", "--tune"], "nothing to tune"),
        (["--data", "SMALL", "-m", "nowhere:Mine"], "cannot be imported"),
        (["--data", "SMALL", "-m", "MLkNN", "--jobs", "0"], "--jobs"),
        (["plan.toml"], "There is no plan 'plan.toml'"),
        (["plan.toml", "--repeats", "3"], "says what is run: leave out --repeats"),
    ],
)
def test_misuse_is_told_in_a_sentence_and_nothing_is_written(bench, small_npz, out, words, message):
    result = bench(*[str(small_npz) if word == "SMALL" else word for word in words])
    assert result.exit_code == 2
    assert message in result.stderr
    assert not out.exists()


def test_a_typo_in_a_plan_names_the_line(bench, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('data = ["scene"]\n\nrepeat = 3\n')
    result = bench(plan)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: plan.toml, line 3: a plan has no 'repeat'. Did you mean 'repeats'?")


def test_a_newer_store_is_refused(bench, small_npz, out):
    bench("--data", small_npz, "-m", "bench_methods:Fast", "--repeats", "1")
    with sqlite3.connect(out) as connection:
        connection.execute("PRAGMA user_version = 7")
    result = bench("--data", small_npz)
    assert result.exit_code == 1
    assert "was made by a newer pmlkit (store version 7;" in result.stderr


def start(words, code=forked.CLI):
    return forked.Popen(words, stdout=forked.PIPE, stderr=forked.PIPE, text=True, code=code)


def test_a_full_disk_stops_it_cleanly_and_it_goes_on_later(bench, small_npz, out):
    """The kernel refuses to let any file grow, as it does on a full disk."""
    words = ["bench", "--data", small_npz, "-m", "bench_methods:Fast", "--repeats", "300", "--output", out]
    assert bench("--data", small_npz, "-m", "bench_methods:Fast", "--repeats", "1").exit_code == 0
    limit = 2**18
    process = start(words, f"import resource; resource.setrlimit(1, ({limit}, {limit})); {forked.CLI}")
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 1
    assert "The cells finished so far are kept; make room, and run the same command again" in errors
    assert "Traceback" not in errors
    n_kept = len(load_cells(out))
    assert 1 <= n_kept < 300
    assert json.loads(bench("--json").stdout)["run_now"] == 300 - n_kept


def test_ctrl_c_leaves_with_130(small_npz, out):
    words = ["bench", "--data", small_npz, "-m", "bench_methods:Fast", "-p", "bench_methods:Fast.nap=60", "-o", out]
    process = start(words)
    wait_until(lambda: n_running(out))  # each cell takes a minute
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "interrupted from the keyboard" in errors
    assert load_cells(out).empty
