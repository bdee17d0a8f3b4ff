import numpy as np
import pytest

from pmlkit.bench import Plan, load_cells, run
from pmlkit.bench.cells import expand
from pmlkit.bench.evaluation import choose_params, make_problem, run_cell
from pmlkit.bench.plan_entries import Tune
from pmlkit.bench.sandbox import Budget
from pmlkit.data import StratifiedLabelKFold, make_pml
from pmlkit.methods import MLkNN
from pmlkit.metrics import average_precision, hamming_loss


@pytest.fixture(scope="module")
def data():
    return make_pml(80, 6, 4, random_state=3)


@pytest.mark.parametrize(
    ("metric", "function"), [("average_precision", average_precision), ("hamming_loss", hamming_loss)]
)
def test_the_choice_is_that_of_a_plain_cross_validation_on_the_candidates(data, metric, function):
    found = {}
    for n_neighbors in (1, 4, 12):
        values = []
        for train, test in StratifiedLabelKFold(3, random_state=7).split(data.X, data.Y):
            model = MLkNN(n_neighbors=n_neighbors).fit(data.X[train], data.Y[train])
            answer = (
                model.decision_function(data.X[test]) if function is average_precision else model.predict(data.X[test])
            )
            values.append(function(data.Y[test], answer))
        found[n_neighbors] = np.mean(values)
    best = (max if function is average_precision else min)(found, key=found.get)
    grid = {"n_neighbors": [1, 4, 12]}
    chosen = choose_params(MLkNN(), grid, data.X, data.Y, tune=Tune(3, metric), random_state=7)
    assert chosen == {"n_neighbors": best}


def test_of_equals_the_first_is_chosen(data):
    grid = {"smoothing": [2.0, 1.0], "n_jobs": [None, 1]}
    same = {"n_jobs": [1, None]}
    assert choose_params(MLkNN(), same, data.X, data.Y, tune=Tune(2), random_state=0) == {"n_jobs": 1}
    chosen = choose_params(MLkNN(), grid, data.X, data.Y, tune=Tune(2), random_state=0)
    assert chosen["n_jobs"] is None


def test_a_combination_that_fails_is_out(data):
    grid = {"n_neighbors": [-1, 5]}
    assert choose_params(MLkNN(), grid, data.X, data.Y, tune=Tune(2), random_state=0) == {"n_neighbors": 5}
    with pytest.raises(ValueError, match="n_neighbors"):
        choose_params(MLkNN(), {"n_neighbors": [-1]}, data.X, data.Y, tune=Tune(2), random_state=0)


def test_a_tuned_cell_equals_the_cell_of_what_was_chosen(small_file, tmp_path):
    method = {"name": "MLkNN", "grid": {"n_neighbors": [1, 5, 10]}}
    options = {"data": [small_file], "methods": [method], "noise": [1.0], "repeats": 2}
    run(Plan(**options), tmp_path / "all.sqlite")
    run(Plan(**options, tune=True), tmp_path / "tuned.sqlite")
    every, tuned = load_cells(tmp_path / "all.sqlite"), load_cells(tmp_path / "tuned.sqlite")
    assert tuned["label"].unique().tolist() == ["MLkNN(tuned)"]
    for cell in expand(Plan(**options, tune=True)):
        problem = make_problem(cell.source, noise=cell.noise, ratio=cell.ratio, seed=cell.seed)
        chosen = choose_params(MLkNN(), cell.variant.grid, problem.X, problem.Y, tune=Tune(), random_state=cell.seed)
        assert run_cell(cell, Budget(60, 2000)).answer["chosen"] == chosen
        row = tuned[tuned["repeat"] == cell.repeat].iloc[0]
        label = f"MLkNN(n_neighbors={chosen['n_neighbors']})"
        same = every[(every["repeat"] == cell.repeat) & (every["label"] == label)].iloc[0]
        metrics = ["average_precision", "hamming_loss", "cleaning_auc"]
        assert row[metrics].tolist() == same[metrics].tolist()
