"""The protocol of PML-lc's paper: what it prepares, and the table it makes."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from typer.testing import CliRunner

from pmlkit.bench.paper import pml_lc
from pmlkit.bench.paper.pml_lc import DATA, METRICS, PUBLISHED, XIE_HUANG_METHODS, protocol, reproduce_pml_lc
from pmlkit.cli.app import app
from pmlkit.data import PMLDataset, add_noise, write
from pmlkit.exceptions import DataError


@pytest.fixture
def small_sets(tmp_path, monkeypatch):
    """Write a stand-in for two of the paper's sets: 80 rows, 20 labels of which the last 5 are rare."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6))
    truth = (X @ rng.normal(size=(6, 20)) + rng.normal(size=(80, 20)) > 1.5).astype(int)
    truth[:, 15:] = 0
    truth[:2, 15:] = 1
    truth[:4, :15] = 0
    truth[4:, 0] |= ~truth[4:, :15].any(axis=1)
    for name, table in (("yeast", X), ("medical", sparse.csr_array(np.maximum(X, 0)))):
        write(PMLDataset(table, truth, truth=truth), tmp_path / f"{name}.npz")
    monkeypatch.setenv("PMLKIT_DATA", str(tmp_path))
    return truth


def test_the_protocol_keeps_frequent_labels_and_rows_that_have_one(small_sets):
    X, truth, n_candidates = protocol("yeast")
    assert n_candidates == 10
    assert truth.shape == (76, 15)
    assert truth.any(axis=1).all()
    assert (truth == small_sets[4:, :15]).all()
    assert X.shape == (76, 6)
    assert len(protocol("yeast", max_rows=30)[1]) == 30
    sizes = add_noise(truth, None, random_state=0, avg_candidates=10).sum(axis=1)
    assert (sizes == np.maximum(truth.sum(axis=1), 10)).all()


def test_a_table_of_ours_beside_the_published(small_sets, tmp_path):
    seen = []
    methods = ["PML-lc, C2=0.1", "CandidateLogistic"]
    figures = reproduce_pml_lc(
        tmp_path / "out",
        data=["yeast", "medical"],
        methods=methods,
        repeats=2,
        on_cell=lambda *cell: seen.append(cell),
    )
    assert len(seen) == 2 * 2 * 2
    assert len(figures) == 2 * 2 * len(METRICS)
    cell = figures.set_index(["data", "method", "metric"]).loc["medical", "PML-lc, C2=0.1", "average_precision"]
    assert cell["published"] == 0.695
    assert 0 < cell["mean"] < 1
    assert cell["repeats"] == 2
    assert figures[figures["method"] == "CandidateLogistic"]["published"].isna().all()
    page = (tmp_path / "out" / "pml-lc.md").read_text()
    assert f"{cell['mean']:.3f}".lstrip("0") + " / .695" in page
    assert (tmp_path / "out" / "pml-lc.csv").read_text().startswith("data,method,metric,mean,std,repeats,published\n")


def test_an_interrupted_run_goes_on_with_the_same_figures(small_sets, tmp_path, monkeypatch):
    asked = {"data": ["yeast", "medical"], "methods": ["Rank-SVM", "CandidateLogistic"], "repeats": 2}
    whole = reproduce_pml_lc(tmp_path / "whole", **asked)
    measure, n_fits = pml_lc._measure, []

    def interrupted(*args):
        n_fits.append(args)
        if len(n_fits) == 4:
            raise KeyboardInterrupt
        return measure(*args)

    monkeypatch.setattr(pml_lc, "_measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reproduce_pml_lc(tmp_path / "out", **asked)
    with (tmp_path / "out" / "pml-lc-cells.csv").open("a") as file:
        file.write("\nyeast,Rank-SVM,1,40,0.2,0.3")  # a line that was cut off
    again = reproduce_pml_lc(tmp_path / "out", **asked)
    assert len(n_fits) == 4 + 5
    pd.testing.assert_frame_equal(again, whole)
    reproduce_pml_lc(tmp_path / "out", **asked)
    assert len(n_fits) == 4 + 5


def test_label_sets_have_the_asked_size():
    chosen = pml_lc._top(np.array([[0.1, 0.9, 0.5], [3.0, 2.0, 1.0]]), 2)
    assert chosen.tolist() == [[False, True, True], [True, True, False]]


def test_published_figures_are_complete():
    assert all(len(row) == len(DATA) for rows in PUBLISHED.values() for row in rows.values())
    assert {name for name, _ in XIE_HUANG_METHODS.values()} == {"PML-lc", "PML-fp", "Rank-SVM", None}


def test_an_absent_file_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PMLKIT_DATA", str(tmp_path))
    with pytest.raises(DataError, match="emotions.npz'.*PMLKIT_DATA"):
        protocol("emotions")


def test_the_command(small_sets, tmp_path):
    out = tmp_path / "command"
    result = CliRunner().invoke(app, ["reproduce", "pml-lc", "--quick", "--output", str(out), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["data_sets"] == 2
    assert (out / "pml-lc.md").is_file()
    result = CliRunner().invoke(app, ["reproduce", "pml-xy"])
    assert result.exit_code != 0
