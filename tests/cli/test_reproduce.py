"""``pmlkit reproduce``: small, on embedded rows, and on a folder where files are absent."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pmlkit.bench import load_cells, paper
from pmlkit.bench.paper import experiments, reproduction
from pmlkit.data import PMLDataset, write


@pytest.fixture
def tiny(monkeypatch):
    """Make the experiments so small that they take seconds: two methods, a hundred strips, few weights."""

    def embedded(*, repeats):
        return experiments.embedded_experiments(repeats=repeats, n_rows=100, methods=["PML-LFC", "ML-KNN"])

    monkeypatch.setattr(paper, "embedded_experiments", embedded)
    plain = experiments.paper_experiments
    monkeypatch.setattr(
        reproduction,
        "paper_experiments",
        lambda **options: replace(plain(**options), methods=("PML-LFC", "ML-KNN")),
    )
    for name, labels in experiments.SENSITIVITY.items():
        monkeypatch.setitem(experiments.SENSITIVITY, name, {weight: labels[weight] for weight in (0.001, 10.0)})


def test_embedded(run, tiny, tmp_path):
    out = tmp_path / "again"
    result = run("reproduce", "--quick", "--embedded", "--output", out, "--json")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    # 4 ratios x 2 methods x 2 repeats, 3 variants x 2, 2 weights x 2
    assert facts["cells_run_now"] == 16 + 6 + 4
    names = {path.name for path in out.iterdir()}
    assert {"results.sqlite", "report.html", "verdict.md", "table3.csv", "figure3.csv", "figure4.csv"} <= names
    assert set(load_cells(out / "results.sqlite")["status"]) == {"done"}
    assert "digit-strips:100" in (out / "verdict.md").read_text(encoding="utf-8")

    means = (out / "means.csv").read_bytes()
    again = run("reproduce", "--quick", "--embedded", "--output", out, "--json")
    assert json.loads(again.stdout)["cells_run_now"] == 0
    assert (out / "means.csv").read_bytes() == means


def test_no_data_at_all(run, monkeypatch, tmp_path):
    monkeypatch.setenv("PMLKIT_DATA", str(tmp_path / "nowhere"))
    result = run("reproduce", "--quick", "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert "None of the paper's data sets is there. Put slashdot.npz, scene.npz" in result.stderr
    assert "--embedded" in result.stderr
    assert not (tmp_path / "out").exists()


def test_some_data(run, tiny, monkeypatch, tmp_path):
    monkeypatch.setenv("PMLKIT_DATA", str(tmp_path))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    truth = (X[:, :4] > 0).astype(int)
    truth[~truth.any(axis=1), 0] = 1
    write(PMLDataset(X, truth, truth=truth), tmp_path / "scene.npz")
    result = run("reproduce", "--quick", "--output", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    assert "Put slashdot.npz, enron.npz" in result.stderr
    assert set(load_cells(tmp_path / "out" / "results.sqlite")["data"]) == {"scene"}
    text = (tmp_path / "out" / "verdict.md").read_text(encoding="utf-8")
    assert "No data file: slashdot, enron" in text
    assert "Table 1, scene: rows 2407; the data have 60.000" in text


def test_a_file_is_no_folder(run, tmp_path):
    (tmp_path / "taken").write_text("")
    result = run("reproduce", "--quick", "--embedded", "--output", tmp_path / "taken")
    assert result.exit_code == 1
    assert "is a file: choose another folder" in result.stderr
