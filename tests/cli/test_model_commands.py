import csv
import json

import numpy as np
import pytest
import threadpoolctl
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from pmlkit.cli.options import find_method
from pmlkit.data import PMLDataset, write
from pmlkit.exceptions import PMLWarning
from pmlkit.methods import MLkNN
from pmlkit.metrics import evaluate
from pmlkit.persistence import load, save


def rows_of(text):
    return list(csv.reader(text.splitlines()))


def test_fit_writes_the_model_that_python_would_make(run, small_npz, small, tmp_path):
    path = tmp_path / "m.skops"
    result = run("fit", small_npz, "-m", "mlknn", "-p", "n_neighbors=3", "-p", "smoothing=0.5", "-o", path, "--json")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["method"] == "MLkNN"
    assert facts["parameters"]["n_neighbors"] == 3
    fitted = load(path)
    expected = MLkNN(n_neighbors=3, smoothing=0.5).fit(small.X, small.Y)
    np.testing.assert_array_equal(fitted.posterior_, expected.posterior_)
    assert fitted.label_names_.tolist() == list(small.label_names)
    assert fitted.feature_names_in_.tolist() == list(small.feature_names)


def test_fit_leaves_no_callback_in_the_model(run, small_npz, tmp_path):
    path = tmp_path / "m.skops"
    run("fit", small_npz, "-m", "PMLLFC", "-o", path)
    assert not [name for name in vars(load(path)) if "callback" in name]


@pytest.mark.parametrize("name", ["PMLLFC", "pml-lfc", "pml_lfc", "PmlLfc"])
def test_methods_are_found_whatever_the_spelling(name):
    assert find_method(name).__name__ == "PMLLFC"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-m", "PMLFC"], "Did you mean 'PMLLFC'?"),
        (["-m", "zebra"], "There are ClearPML, "),
        (["-m", "MLkNN", "-p", "n_neighbor=3"], "Did you mean 'n_neighbors'? It has n_jobs, n_neighbors, smoothing"),
        (["-m", "MLkNN", "-p", "n_neighbors"], "takes KEY=VALUE"),
        (["-m", "MLkNN", "-p", "n_neighbors=-1"], "must be an int in the range"),
        (["-m", "MLkNN", "-p", "n_neighbors=many"], "must be an int"),
        (["-p", "C=1", "-p", "C=2"], "more than once"),
    ],
)
def test_fit_misused(run, small_npz, tmp_path, words, said):
    path = tmp_path / "m.skops"
    result = run("fit", small_npz, "-o", path, *words)
    assert result.exit_code == 2, result.stderr
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not path.exists()


def test_the_output_is_refused_before_the_work(run, small_npz, tmp_path, monkeypatch):
    monkeypatch.setattr(MLkNN, "fit", lambda *_: pytest.fail("the fit was begun"))
    taken, below_a_file = tmp_path / "m.skops", small_npz / "m.skops"
    taken.write_text("mine")
    for path, said in ((taken, "--force"), (below_a_file, "is a file"), (tmp_path / "no" / "m.skops", "no folder")):
        result = run("fit", small_npz, "-m", "MLkNN", "-o", path)
        assert result.exit_code == 1
        assert said in result.stderr
    assert taken.read_text() == "mine"


def test_an_interrupted_fit_leaves_nothing_behind(run, small_npz, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(MLkNN, "_fit", interrupt)
    result = run("fit", small_npz, "-m", "MLkNN", "-o", tmp_path / "m.skops")
    assert result.exit_code == 130
    assert result.stderr == "stopped: interrupted from the keyboard.\n"
    assert list(tmp_path.iterdir()) == [small_npz]


def test_predict_gives_the_models_label_sets(run, model, small_csv, small, tmp_path):
    out = tmp_path / "p.csv"
    facts = json.loads(run("predict", model, small_csv, "-o", out, "--json").stdout)
    header, *rows = rows_of(out.read_text())
    assert header == ["row", "labels"]
    fitted = load(model)
    expected = sparse.csr_array(fitted.predict(_frame(small, fitted))).toarray()
    found = [[int(name in row[1].split(";")) for name in small.label_names] for row in rows]
    np.testing.assert_array_equal(found, expected)
    assert facts["labels_per_row"] == expected.sum() / 40


def _frame(data, fitted):
    import pandas as pd

    return pd.DataFrame(data.X, columns=fitted.feature_names_in_)


def test_predict_without_a_file_prints_csv_only(run, model, small_csv):
    result = run("predict", model, small_csv)
    assert result.stderr == ""
    assert len(rows_of(result.stdout)) == 41


def test_predicted_scores_read_back_exactly(run, model, small_csv, small):
    header, *rows = rows_of(run("predict", model, small_csv, "--scores").stdout)
    assert header == ["row", *small.label_names]
    fitted = load(model)
    expected = fitted.decision_function(_frame(small, fitted))
    np.testing.assert_array_equal([[float(cell) for cell in row[1:]] for row in rows], expected)


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".csv.gz"])
def test_new_rows_need_no_labels_and_any_order_of_columns(run, model, small, tmp_path, ending):
    import pandas as pd

    table = pd.DataFrame(small.X, columns=small.feature_names)[["weight", "id", "height", "width"]]
    table.insert(1, "comment", "hello, world")
    table.insert(0, "key", [f"k{i}" for i in range(40)])
    path = tmp_path / f"new{ending}"
    if ending == ".parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False, sep="\t" if ending == ".tsv" else ";")
    result = run("predict", model, path, "--scores", "--option", "id=key")
    assert result.exit_code == 0, result.stderr
    header, *rows = rows_of(result.stdout)
    assert header[0] == "id"
    assert rows[3][0] == "k3"
    fitted = load(model)
    expected = fitted.decision_function(_frame(small, fitted))
    np.testing.assert_allclose([[float(cell) for cell in row[1:]] for row in rows], expected)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("height,width\n1,2\n", "lacks 2 of the model's features: 'weight', 'id'"),
        ("height,width,weight,id\n", "no rows"),
        ("height,width,weight,id\n1,2,x,4\n", "column 'weight' must hold numbers"),
        ("height,width,weight,id\n1,2,,4\n", "missing or not finite"),
        ("height,width,weight,id,id\n1,2,3,4,5\n", "occurs more than once"),
        ("height,width,weight,id\n1,2\n", "row 0 (line 2) has 2 cells"),
        ("", "the file is empty"),
    ],
)
def test_new_rows_that_do_not_fit(run, model, tmp_path, content, said):
    path = tmp_path / "new.csv"
    path.write_text(content)
    result = run("predict", model, path)
    assert result.exit_code == 1
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_predict_goes_block_by_block(run, model, small_csv, monkeypatch):
    whole = run("predict", model, small_csv).stdout
    monkeypatch.setattr("pmlkit.predictions._BLOCK_ROWS", 7)
    assert run("predict", model, small_csv).stdout == whole


def test_a_label_with_the_separator_in_it_is_refused(run, tmp_path):
    data = PMLDataset(np.arange(8.0).reshape(4, 2), np.tile([[1, 0], [0, 1]], (2, 1)), label_names=["a;b", "c"])
    write(data, tmp_path / "d.npz")
    run("fit", tmp_path / "d.npz", "-o", tmp_path / "m.skops", "-m", "MLkNN", "-p", "n_neighbors=1")
    result = run("predict", tmp_path / "m.skops", tmp_path / "d.npz")
    assert result.exit_code == 1
    assert "--sep" in result.stderr
    assert run("predict", tmp_path / "m.skops", tmp_path / "d.npz", "--scores").exit_code == 0


def test_json_needs_an_output_file(run, model, small_csv):
    result = run("predict", model, small_csv, "--json")
    assert result.exit_code == 2
    assert "-o" in result.stderr


def test_evaluate_measures_what_the_library_measures(run, model, small_csv, small):
    told = json.loads(run("evaluate", model, small_csv, "--json").stdout)
    fitted = load(model)
    X = _frame(small, fitted)
    expected = evaluate(small.truth, fitted.decision_function(X), fitted.predict(X))
    assert {key: told[key] for key in expected} == expected
    shown = run("evaluate", model, small_csv).stdout
    assert f"average precision ↑  {expected['average_precision']:.3f}" in shown
    assert "macro F1" in shown


def test_evaluate_matches_labels_and_features_by_name(run, model, small, tmp_path):
    order, features = [2, 0, 1], [3, 1, 0, 2]
    turned = PMLDataset(
        small.X[:, features],
        small.Y[:, order],
        truth=small.truth[:, order],
        feature_names=[small.feature_names[j] for j in features],
        label_names=[small.label_names[k] for k in order],
    )
    write(small, tmp_path / "a.npz")
    write(turned, tmp_path / "b.npz")
    one, other = (json.loads(run("evaluate", model, tmp_path / name, "--json").stdout) for name in ("a.npz", "b.npz"))
    assert one["average_precision"] == other["average_precision"]
    assert one["hamming_loss"] == other["hamming_loss"]


def test_evaluate_without_truth(run, model, tmp_path, small):
    write(small.replace(truth=None), tmp_path / "t.npz")
    result = run("evaluate", model, tmp_path / "t.npz")
    assert result.exit_code == 1
    assert "the true labels are unknown" in result.stderr
    assert "--option truth=" in result.stderr


def test_evaluate_with_labels_the_model_never_saw(run, model, tmp_path, small):
    write(small.replace(label_names=["red", "green", "pink"]), tmp_path / "t.npz")
    result = run("evaluate", model, tmp_path / "t.npz")
    assert result.exit_code == 0
    assert "1 true label is unknown to the model and counts as missed: 'pink'" in result.stderr


def test_model_and_file_with_different_features(run, small, tmp_path):
    write(small.replace(feature_names=None), tmp_path / "four.npz")
    write(small.replace(X=small.X[:, :3], feature_names=None), tmp_path / "three.npz")
    run("fit", tmp_path / "four.npz", "-m", "MLkNN", "-o", tmp_path / "m.skops")
    for command in ("predict", "evaluate"):
        result = run(command, tmp_path / "m.skops", tmp_path / "three.npz")
        assert result.exit_code == 1
        assert "the model was fitted on 4 features, but the data set has 3" in result.stderr


def test_what_is_no_model_is_refused(run, small_npz, tmp_path):
    (tmp_path / "text.skops").write_text("hello")
    save(MLkNN(), tmp_path / "unfitted.skops")
    save(LogisticRegression().fit([[0], [1]], [0, 1]), tmp_path / "other.skops")
    cases = {
        "text.skops": "not a model file",
        small_npz.name: "not a model file",
        "unfitted.skops": "not fitted",
        "other.skops": "holds a LogisticRegression",
        "nowhere.skops": "There is no model file",
        ".": "is a folder",
    }
    for name, said in cases.items():
        result = run("predict", tmp_path / name, small_npz)
        assert result.exit_code == 1, name
        assert said in result.stderr, name
        assert len(result.stderr.splitlines()) == 1, name


@pytest.mark.filterwarnings(f"always::{PMLWarning.__module__}.{PMLWarning.__name__}")
def test_warnings_are_one_line_on_stderr(run, model, tmp_path, small):
    everything = np.ones(small.Y.shape)
    write(small.replace(Y=everything, truth=everything), tmp_path / "full.npz")
    result = run("evaluate", model, tmp_path / "full.npz", "--json")
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: ")
    assert len(result.stderr.splitlines()) == 1
    assert json.loads(result.stdout)["ranking_loss"] is None


def test_the_best_labels_of_each_row_a_line_each(run, model, small_csv, small):
    header, *rows = rows_of(run("predict", model, small_csv, "--top", "2").stdout)
    assert header == ["row", "rank", "label", "score"]
    fitted = load(model)
    scores = fitted.decision_function(_frame(small, fitted))
    best = np.argsort(-scores, axis=1, kind="stable")[:, :2]
    names = np.array(small.label_names)
    expected = [
        [str(i), str(k + 1), names[j], repr(float(scores[i, j]))] for i in range(40) for k, j in enumerate(best[i])
    ]
    assert rows == expected
    _, *few = rows_of(run("predict", model, small_csv, "--top", "2", "--threshold", "0.8").stdout)
    assert few == [row for row in expected if float(row[3]) >= 0.8]


def test_labels_above_a_threshold_of_ones_own(run, model, small_csv, small, tmp_path):
    out = tmp_path / "p.csv"
    result = run("predict", model, small_csv, "--threshold", "0.9", "-o", out, "--json")
    fitted = load(model)
    above = fitted.decision_function(_frame(small, fitted)) >= 0.9
    _, *rows = rows_of(out.read_text())
    assert [row[1].split(";") if row[1] else [] for row in rows] == [
        [name for name, is_above in zip(small.label_names, row, strict=True) if is_above] for row in above
    ]
    facts = json.loads(result.stdout)
    assert facts["rows_without_labels"] == (~above.any(axis=1)).sum() > 4
    assert "of the rows get no label" in result.stderr
    assert run("predict", model, small_csv, "--scores", "--top", "2").exit_code == 2


def test_rows_without_labels_are_said_on_standard_output_too(run, model, small_csv):
    result = run("predict", model, small_csv, "--threshold", "0.9")
    assert "of the rows get no label: they may be unlike those that the model was fitted to" in result.stderr
    assert "note" not in result.stdout


def test_a_threshold_in_per_cent_is_refused_where_scores_are_shares(run, model, small_csv):
    result = run("predict", model, small_csv, "--threshold", "90")
    assert result.exit_code == 2
    assert "between 0 and 1, got --threshold 90. For 90 % write --threshold 0.9." in result.stderr


def test_probabilities_of_a_model(run, model, small_csv, small_npz, small, tmp_path):
    _, *rows = rows_of(run("predict", model, small_csv, "--probabilities").stdout)
    fitted = load(model)
    expected = fitted.predict_proba(_frame(small, fitted))
    assert [list(map(float, row[1:])) for row in rows] == expected.tolist()
    out = tmp_path / "p.csv"
    facts = json.loads(run("predict", model, small_csv, "--probabilities", "-o", out, "--json").stdout)
    assert facts["scores_per_row"] == 3
    run("fit", small_npz, "-m", "PMLLFC", "-o", tmp_path / "lfc.skops")
    result = run("predict", tmp_path / "lfc.skops", small_csv, "--probabilities")
    assert (result.exit_code, result.stderr) == (2, "error: PMLLFC has no probabilities: use --scores.\n")


def test_unknown_labels_count_as_missed(run, model, small, tmp_path):
    write(small.replace(label_names=["red", "green", "pink"]), tmp_path / "t.npz")
    told = json.loads(run("evaluate", model, tmp_path / "t.npz", "--json").stdout)
    fitted = load(model)
    X = _frame(small, fitted)
    scores, sets = fitted.decision_function(X), sparse.csr_array(fitted.predict(X)).toarray()
    order = [fitted.label_names_.tolist().index(name) for name in ("red", "green", "blue")]
    truth = np.zeros((40, 4))
    truth[:, order[:2]] = small.truth.toarray()[:, :2]
    truth[:, 3] = small.truth.toarray()[:, 2]
    expected = evaluate(
        truth, np.hstack([scores, np.full((40, 1), scores.min() - 1)]), np.hstack([sets, np.zeros((40, 1), dtype=int)])
    )
    assert {key: told[key] for key in expected} == expected
    assert told["unknown_labels"] == ["pink"]


def test_jobs_reach_the_method_and_linear_algebra(run, small_npz, small_csv, tmp_path):
    words = ("-m", "CandidateLogistic", "-p", "n_folds=2", "-p", "C=1", "-p", "normalize=unit")
    with threadpoolctl.threadpool_limits(limits=2):  # lifts the limit again
        for given, expected in (("n_jobs=None", 1), ("n_jobs=2", 2)):
            result = run("fit", small_npz, *words, "-p", given, "--jobs", "1", "-o", tmp_path / f"{expected}.skops")
            assert result.exit_code == 0, result.stderr
            assert load(tmp_path / f"{expected}.skops").n_jobs == expected
        assert {pool["num_threads"] for pool in threadpoolctl.threadpool_info()} == {1}
        result = run("predict", tmp_path / "1.skops", small_csv, "--jobs", "1")
        assert result.exit_code == 0, result.stderr


def test_jobs_must_be_a_number_of_cores(run, small_npz, tmp_path):
    for command in (["fit", small_npz, "-o", tmp_path / "m.skops"], ["clean", small_npz, "--dry-run"]):
        result = run(*command, "--jobs", "0")
        assert result.exit_code == 2
        assert "--jobs" in result.stderr
        assert len(result.stderr.splitlines()) == 1
