"""`evaluate` with models of a table's own columns."""

import json

import numpy as np
import pytest

import pmlkit
from pmlkit.metrics import evaluate
from pmlkit.persistence import load
from post_tables import TOPICS, make_posts, write_posts

FIT = ("-m", "CandidateLogistic", "-o")


@pytest.fixture(scope="module")
def posts():
    return make_posts()


@pytest.fixture
def fitted(run, posts, tmp_path):
    """A model of the first 160 posts, and the path of the other 80."""
    model = tmp_path / "posts.skops"
    options = write_posts(posts[:160], tmp_path / "train.csv")
    assert run("fit", tmp_path / "train.csv", *options, *FIT, model).exit_code == 0
    write_posts(posts[160:], tmp_path / "test.csv")
    return model, tmp_path / "test.csv"


@pytest.fixture
def expected(fitted, posts):
    model = load(fitted[0])
    rows = pmlkit.open_table(fitted[1], like=model)
    truth = np.array([[name in p[3] for name in model.label_names_] for p in posts[160:]])
    return evaluate(truth, model.decision_function(rows), model.predict(rows))


def flags_table(path, posts, prefix, which):
    names = [f"{prefix}{topic}" for topic in TOPICS]
    rows = (f"{p[1]}," + ",".join(str(int(topic in p[which])) for topic in TOPICS) for p in posts)
    path.write_text("\n".join([",".join(["body", *names]), *rows]))
    return path


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_a_column_of_true_sets(run, fitted, expected, posts, tmp_path, ending):
    write_posts(posts[160:], tmp_path / f"checked{ending}")
    result = run("evaluate", fitted[0], tmp_path / f"checked{ending}", "--option", "truth=truth", "--json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert {key: told[key] for key in expected} == pytest.approx(expected)
    assert (told["rows"], told["method"]) == (80, "CandidateLogistic")
    assert told["average_precision"] > 0.9
    shown = run("evaluate", fitted[0], tmp_path / f"checked{ending}", "--option", "truth=truth").stdout
    assert "CandidateLogistic on the 80 rows" in shown


def test_columns_of_0_and_1_are_matched_by_name_or_pattern(run, fitted, expected, posts, tmp_path):
    for prefix, words in (("", [",".join(TOPICS)]), ("true_", ["true_*"])):
        table = flags_table(tmp_path / f"t{prefix}.csv", posts[160:], prefix, 3)
        result = run("evaluate", fitted[0], table, "--option", f"truth={words[0]}", "--json")
        assert json.loads(result.stdout)["hamming_loss"] == expected["hamming_loss"], result.stderr
    one = run("evaluate", fitted[0], tmp_path / "ttrue_.csv", "--option", "truth=true_c*")
    assert "the model knows none of the true labels: they are 'true_cook'" in one.stderr
    some = run("evaluate", fitted[0], tmp_path / "t.csv", "--option", "truth=cook,music")
    assert some.exit_code == 0
    assert "2 labels have no column of truth and count as absent: 'sport', 'travel'" in some.stderr


def test_labels_that_are_columns_themselves(run, posts, expected, tmp_path):
    model = tmp_path / "m.skops"
    table = flags_table(tmp_path / "train.csv", posts[:160], "t_", 2)
    assert run("fit", table, "--labels", "t_*", "--text", "body", *FIT, model).exit_code == 0
    checked = flags_table(tmp_path / "checked.csv", posts[160:], "true_", 3)
    told = json.loads(run("evaluate", model, checked, "--option", "truth=true_*", "--json").stdout)
    assert told["unknown_labels"] == []
    assert told["hamming_loss"] == pytest.approx(expected["hamming_loss"], abs=0.02)  # another order of labels


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        ([], "Did you mean 'truth'? Pass --option truth= its name", 1),
        (["--labels", "tags"], "Pass --option truth= its name", 1),
        (["--option", "truth=trut"], "Did you mean 'truth'?", 1),
        (["--option", "truth=post_id"], "the model knows none of the true labels: they are 'p160'", 1),
        (["--option", "truth=truth", "--text", "body"], "leave --text", 2),
        (["--option", "truth=truth", "--embeddings", "e.npy"], "neither images nor embeddings", 2),
        (["--option", "truht=truth"], "Did you mean 'truth'?", 2),
    ],
)
def test_mistakes_get_one_sentence(run, fitted, words, said, code):
    result = run("evaluate", *fitted, *words)
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert (result.exit_code, result.stdout) == (code, "")


def test_a_data_set_is_no_table(run, fitted, small_npz, model, small_csv):
    assert "npz files are no tables" in run("evaluate", fitted[0], small_npz, "--option", "truth=x").stderr
    result = run("evaluate", model, small_csv, "--text", "body")
    assert result.exit_code == 2
    assert "leave --text and the like out" in result.stderr
