import numpy as np
import pytest
from typer.testing import CliRunner

import forked
from pmlkit.cli.app import app
from pmlkit.data import PMLDataset, write


@pytest.fixture
def run():
    """Run the command line in this process: run("info", path) -> result with exit_code, stdout, stderr."""

    def call(*words):
        return CliRunner().invoke(app, [str(word) for word in words])

    return call


@pytest.fixture
def shell():
    """Run the command line as a process of its own."""

    def call(*words, **settings):
        return forked.run(words, capture_output=True, **settings)

    return call


@pytest.fixture(scope="session")
def small():
    """Forty rows that a linear model can learn, with false candidates and known truth."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    truth = (X[:, :3] > 0.2).astype(int)
    truth[~truth.any(axis=1), 0] = 1
    names = ["height", "width", "weight", "id"]
    clean = PMLDataset(X, truth, truth=truth, feature_names=names, label_names=["red", "green", "blue"], name="small")
    return clean.with_noise(0.5, random_state=0)


@pytest.fixture
def small_npz(small, tmp_path):
    path = tmp_path / "small.npz"
    write(small, path)
    return path


@pytest.fixture
def small_csv(small, tmp_path):
    path = tmp_path / "small.csv"
    write(small, path)
    return path


@pytest.fixture
def model(run, small_csv, tmp_path):
    """A model that knows its features by name."""
    path = tmp_path / "model.skops"
    assert run("fit", small_csv, "-m", "MLkNN", "-p", "threshold=at_least_one", "-o", path).exit_code == 0
    return path


@pytest.fixture
def eager(monkeypatch):
    """Let the forty most suspicious labels be removed unseen: `clean` seldom removes any, and files are tested here."""

    def removable(result, *, precision=0.9, keep_at_least_one=True):
        cells = result.order[: round(400 * (1 - precision))]
        removed = np.zeros(result.Y.nnz, dtype=bool)
        removed[cells[~result.is_best_of_row[cells]] if keep_at_least_one else cells] = True
        return removed

    monkeypatch.setattr("pmlkit.cleaning.CleaningResult.removable", removable)
