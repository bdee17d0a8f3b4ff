"""What a notebook can do with a model and the rows of a file, without the command line."""

import io

import numpy as np
import pytest

import pmlkit
from pmlkit._words import printable
from pmlkit.data import PMLDataset
from pmlkit.exceptions import DataError
from pmlkit.methods import MLkNN
from pmlkit.metrics import evaluate
from pmlkit.predictions import Written, evaluate_model, write_predictions

DATA = PMLDataset(
    [[0.0, 1.0], [1.0, 0.0], [5.0, 5.0], [6.0, 5.0]],
    [["sea"], ["sea"], ["sky"], ["sky", "sun"]],
    truth=[["sea"], ["sea"], ["sky"], ["sky"]],
    feature_names=["width", "height"],
    ids=["a", "b", "c", "=d"],
)


@pytest.fixture
def model():
    return MLkNN(n_neighbors=1).fit(DATA)


def written(model, rows, **options):
    stream = io.StringIO()
    return write_predictions(model, rows, stream, **options), stream.getvalue().splitlines()


def test_the_label_sets_of_a_data_set(model):
    found, lines = written(model, DATA)
    sets = model.predict(DATA).toarray()
    assert found == Written(4, int(sets.sum()), int((sets.sum(axis=1) == 0).sum()))
    names = np.array(DATA.label_names)
    expected = [f"{name},{';'.join(names[row > 0])}" for name, row in zip(["a", "b", "c", "'=d"], sets, strict=True)]
    assert lines == ["id,labels", *expected]


def test_scores_and_best_labels(model):
    scores = model.decision_function(DATA)
    found, lines = written(model, DATA, scores=True)
    assert found == Written(4, 0, 0)
    assert [[float(cell) for cell in line.split(",")[1:]] for line in lines[1:]] == scores.tolist()
    found, lines = written(model, DATA, top=1, threshold=0.6)
    best = scores.max(axis=1)
    assert found == Written(4, int((best >= 0.6).sum()), int((best < 0.6).sum()))
    assert len(lines) == 1 + found.n_labels
    with pytest.raises(ValueError, match="leave top and threshold out"):
        written(model, DATA, scores=True, top=1)


def test_probabilities_take_the_place_of_scores():
    posts = np.random.default_rng(0).normal(size=(60, 3))
    data = PMLDataset(posts, [["sea" if x > 0 else "sky", *(["sun"] if y > 0 else [])] for x, y, _ in posts])
    model = pmlkit.ClearPML().fit(data)
    chance = model.predict_proba(data.X)
    assert not np.array_equal(chance, model.decision_function(data.X)), "calibrated: else the test tells nothing"
    found, lines = written(model, data, probabilities=True)
    assert found == Written(60, 0, 0)
    assert [[float(cell) for cell in line.split(",")[1:]] for line in lines[1:]] == chance.tolist()
    _, lines = written(model, data, probabilities=True, top=1)
    assert [float(line.split(",")[3]) for line in lines[1:]] == chance.max(axis=1).tolist()
    found, _ = written(model, data, probabilities=True, threshold=0.7)
    assert found.n_labels == (chance >= 0.7).sum()
    with pytest.raises(ValueError, match="PMLLFC has no probabilities: use its scores"):
        written(pmlkit.PMLLFC().fit(data), data, probabilities=True)


def test_a_file_is_not_replaced_unless_asked(model, tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("mine")
    with pytest.raises(DataError):
        write_predictions(model, DATA, path)
    assert path.read_text() == "mine"
    write_predictions(model, DATA, path, force=True)
    assert path.read_text().splitlines() == written(model, DATA)[1]


def test_a_separator_that_is_part_of_a_label(model):
    with pytest.raises(DataError) as caught:
        written(model, DATA, sep="u")
    assert caught.value.option == "sep"


def test_names_lose_their_control_characters_on_request():
    data = PMLDataset([[0.0], [0.0], [1.0], [1.0]], [["\x1b[2Ja"], ["\x1b[2Ja"], ["b"], ["b"]])
    _, lines = written(MLkNN(n_neighbors=1).fit(data), data, cell=printable)
    assert lines == ["row,labels", "0,[2Ja", "1,[2Ja", "2,b", "3,b"]


def test_features_are_matched_by_name(model):
    turned = DATA.replace(
        X=np.column_stack([DATA.X[:, 1], np.zeros(4), DATA.X[:, 0]]), feature_names=["height", "x", "width"]
    )
    np.testing.assert_array_equal(model.decision_function(turned), model.decision_function(DATA))
    with pytest.raises(DataError) as caught:
        model.predict(DATA.replace(feature_names=["width", "depth"]))
    assert caught.value.column == "height"
    with pytest.raises(DataError, match="fitted on 2 features, but the data set has 1"):
        model.predict(PMLDataset([[1.0]], [[1, 0, 0]]))


def test_metrics_of_a_data_set_whatever_the_order_of_labels(model):
    found = evaluate_model(model, DATA)
    assert found.metrics == evaluate(DATA.truth, model.decision_function(DATA), model.predict(DATA))
    order = [2, 0, 1]
    turned = DATA.replace(
        Y=DATA.Y[:, order], truth=DATA.truth[:, order], label_names=[DATA.label_names[k] for k in order]
    )
    assert evaluate_model(model, turned) == found


def test_unknown_labels_are_missed_and_unknown_truth_is_refused(model):
    found = evaluate_model(model, DATA.replace(label_names=["moon", "sky", "sun"]))
    assert (found.n_rows, found.unknown_labels) == (4, ("moon",))
    with pytest.raises(DataError, match="knows none of the true labels"):
        evaluate_model(model, DATA.replace(label_names=["x", "y", "z"]))
    with pytest.raises(DataError) as caught:
        evaluate_model(model, DATA.replace(truth=None))
    assert caught.value.option == "truth"


def test_a_table_of_the_models_columns(tmp_path):
    train, checked = tmp_path / "train.csv", tmp_path / "checked.csv"
    train.write_text("body,tag_red,tag_sky\na red car,1,0\nblue sky,0,1\nred sky,1,1\nred red,1,0\n")
    checked.write_text("id,body,true_red,true_sky\nx,a red sky,1,1\ny,blue sky,0,1\n")
    model = pmlkit.make_classifier("MLkNN", n_neighbors=1).fit(pmlkit.open_table(train, labels="tag_*", text="body"))
    new = pmlkit.open_table(checked, like=model, truth="true_*")
    truth = np.array([[1, 1], [0, 1]])
    assert evaluate_model(model, new).metrics == evaluate(truth, model.decision_function(new), model.predict(new))
    found, lines = written(model, new)
    assert found.n_rows == 2
    assert [line.split(",")[0] for line in lines] == ["id", "x", "y"]


def test_models_that_answer_in_names_and_those_of_one_label(model):
    named = MLkNN(n_neighbors=1).fit(DATA.frame, [["sea"], ["sea"], ["sky"], ["sky", "sun"]])
    assert written(named, DATA) == written(model, DATA)
    assert evaluate_model(named, DATA) == evaluate_model(model, DATA)
    one = MLkNN(n_neighbors=1).fit(DATA.frame, [0, 0, 1, 1])
    with pytest.raises(ValueError, match="1-D y"):
        written(one, DATA)
