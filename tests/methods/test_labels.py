import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from pmlkit import CandidateLogistic, MLkNN
from pmlkit._arrays import read_labels
from pmlkit.exceptions import DataError
from pmlkit.persistence import dumps, loads
from refused import refused

polars = pytest.importorskip("polars")


def test_polars_in_polars_out(oracle):
    names = [f"tag {k}" for k in range(6)]
    X = polars.DataFrame(oracle.X, schema=[f"f{j}" for j in range(20)])
    Y = polars.DataFrame(oracle.Y.astype(np.int8), schema=names)
    model = MLkNN().fit(X, Y)
    answer = model.predict(polars.DataFrame(oracle.X_test, schema=[f"f{j}" for j in range(20)]))
    assert isinstance(answer, polars.DataFrame)
    assert answer.columns == names
    assert answer.schema["tag 0"] == polars.Int8
    assert_array_equal(answer.to_numpy(), MLkNN().fit(oracle.X, oracle.Y).predict(oracle.X_test))


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float64])
def test_the_cells_keep_their_type(oracle, dtype):
    assert MLkNN().fit(oracle.X, oracle.Y.astype(dtype)).predict(oracle.X_test).dtype == dtype
    frame = pd.DataFrame(oracle.Y.astype(dtype))
    assert set(MLkNN().fit(oracle.X, frame).predict(oracle.X_test).dtypes) == {np.dtype(dtype)}


def test_a_column_is_one_label_and_says_so(oracle):
    with pytest.warns(DataConversionWarning, match="read as a single label"):
        model = MLkNN().fit(oracle.X, oracle.Y[:, :1])
    assert model.predict(oracle.X_test).shape == (24, 1)


def test_two_classes_of_words(oracle):
    y = np.where(oracle.Y[:, 0] == 1, "spam", "ham")
    model = MLkNN().fit(oracle.X, y)
    assert list(model.classes_) == ["ham", "spam"]
    assert set(model.predict(oracle.X_test)) <= {"ham", "spam"}
    assert_array_equal(model.decision_function(oracle.X_test) > 0, model.predict(oracle.X_test) == "spam")


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (
            np.array([[0, 2], [1, 0], [1, 1]]),
            r"indicator of 0/1 or a list of label names per row, got the value\(s\) 2",
        ),
        (np.array([["a", "b"], ["c", "d"], ["a", "d"]]), r"a table of texts such as 'a'. Use y.tolist\(\)"),
        (np.array([[0, np.nan], [1, 0], [1, 1]]), "NaN"),
        (np.zeros((3, 0)), "no label column|0 feature|minimum"),
        (np.array([0, 1, 2]), "Only binary classification is supported"),
        (np.array([1, 1, 1]), "only one class"),
        (sparse.csr_array(np.array([[0, 3], [1, 0], [1, 1]])), r"got the value\(s\) 3"),
        (pd.DataFrame({"tags": [["a"], ["b"], ["a", "b"]]}), r"only column, 'tags', holds list.*pass .* y\['tags'\]"),
        (polars.DataFrame({"tags": [["a"], ["b"], ["a", "b"]]}), r"only column, 'tags'.*pass .* y\['tags'\]"),
    ],
)
def test_bad_candidates_get_one_clear_sentence(y, words):
    with pytest.raises(ValueError, match=words):
        MLkNN().fit(np.eye(3), y)


TAGS = [["sea", "sun"], ["sun"], [], ["beach", "sea"], ["beach"], ["sea"]]
X = np.arange(12.0).reshape(6, 2) % 5


def as_series(rows):
    return pd.Series(rows, index=[f"post {i}" for i in range(len(rows))])


def as_object_array(rows):
    array = np.empty(len(rows), dtype=object)
    array[:] = rows
    return array


@pytest.mark.parametrize("row", [list, tuple, set])
@pytest.mark.parametrize("make", [list, tuple, as_series, as_object_array])
def test_names_per_row_in_the_same_kind_out(make, row):
    tags = make([row(tags) for tags in TAGS])
    indicator = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0], [1, 1, 0], [1, 0, 0], [0, 1, 0]])
    model, reference = CandidateLogistic(n_folds=2).fit(X, tags), CandidateLogistic(n_folds=2).fit(X, indicator)
    assert list(model.label_names_) == ["beach", "sea", "sun"]
    assert_array_equal(model.decision_function(X), reference.decision_function(X))
    answer, expected = model.predict(X), reference.predict(X)
    assert isinstance(answer, list if make is tuple else type(tags))
    assert all(type(labels) is row for labels in answer)
    assert [sorted(labels) for labels in answer] == [
        [name for name, given in zip(model.label_names_, line, strict=True) if given] for line in expected
    ]


def test_names_in_a_polars_series_and_saved():
    tags = polars.Series("tags", TAGS)
    model = CandidateLogistic(n_folds=2).fit(X, tags)
    answer = loads(dumps(model)).predict(X)
    assert answer.dtype == polars.List(polars.String)
    assert answer.to_list() == CandidateLogistic(n_folds=2).fit(X, TAGS).predict(X)


def test_a_pandas_answer_keeps_the_index_of_the_rows():
    frame = pd.DataFrame(X, index=list("abcdef"))
    model = CandidateLogistic(n_folds=2).fit(frame, pd.Series(TAGS, index=frame.index))
    assert list(model.predict(frame).index) == list("abcdef")


def test_missing_rows_of_names_are_unlabelled():
    tags = pd.Series([*TAGS[:2], None, *TAGS[3:]])
    assert_array_equal(
        CandidateLogistic(n_folds=2).fit(X, tags).decision_function(X),
        CandidateLogistic(n_folds=2).fit(X, TAGS).decision_function(X),
    )


@pytest.mark.parametrize(
    ("tags", "words", "row"),
    [
        ([["a", "b"], "b;c", ["a"]], r"has the text 'b;c' instead of a list.* Split.*split\(';'\)", 1),
        ([["a", "b"], ["b", 3], ["a"]], "names as strings, got 3", 1),
        ([["a"], 3, ["b"]], "mixes lists of names with 3", 1),
        ([[1], [2, 3], []], "collections of int.*strings", None),
        ([{1, 2}, {2, 3}, {1}], "collections of int.*strings", None),
        ([[], [], []], "no label in any row", None),
    ],
)
def test_bad_names_get_one_clear_sentence(tags, words, row):
    with pytest.raises(ValueError, match=words):
        CandidateLogistic().fit(np.eye(3), tags)
    with refused(words, row=row):
        read_labels(tags)


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        (["a;b", "b", "c"], r"one text per row \('a;b'\).*split\(';'\)"),
        (pd.Series(["a, b", "b", "c"]), r"one text per row.*split\(','\)"),
        (polars.Series(["a|b", "b", "c"]), r"one text per row.*split\('\|'\)"),
    ],
)
def test_texts_are_to_be_split(tags, words):
    with pytest.raises(DataError, match=words):
        read_labels(tags)


@pytest.mark.parametrize(("cells", "kind"), [(["a", "b", "c"], "str"), ([["a"], ["b"], []], "list")])
def test_a_table_of_one_column_is_to_be_passed_as_the_column(cells, kind):
    with refused(f"holds {kind} values: pass the column itself", column="tags"):
        read_labels(pd.DataFrame({"tags": cells}))


def test_names_fix_the_columns():
    labels = read_labels([["b"], ["a"]], names=["c", "b", "a"])
    assert labels.indicator.toarray().tolist() == [[0, 1, 0], [0, 0, 1]]
    with pytest.raises(DataError, match="'b'.*1 known"):
        read_labels([["b"], ["a"]], names=["a"])


def test_one_name_is_a_single_label_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataConversionWarning)
        model = CandidateLogistic(n_folds=2).fit(X, [["a"], [], ["a"], [], ["a"], []])
    assert all(labels in ([], ["a"]) for labels in model.predict(X))


def test_top_k_in_names_and_scores(oracle):
    model = MLkNN().fit(oracle.X, oracle.Y)
    scores = model.decision_function(oracle.X_test)
    names, best = model.predict_top_k(oracle.X_test, 3)
    assert names.shape == best.shape == (24, 3)
    for i in range(24):
        order = sorted(range(6), key=lambda k: (-scores[i, k], k))[:3]
        assert list(names[i]) == [f"label_{k}" for k in order]
        assert list(best[i]) == [scores[i, k] for k in order]
    with pytest.raises(ValueError, match="^k .*6, got 7"):
        model.predict_top_k(oracle.X_test, 7)
    with pytest.raises(ValueError, match="1-D y"):
        MLkNN().fit(oracle.X, oracle.Y[:, 0]).predict_top_k(oracle.X_test, 1)


def test_top_k_in_the_container_of_the_labels():
    frame = pd.DataFrame(X, index=list("abcdef"))
    names, scores = CandidateLogistic(n_folds=2).fit(frame, pd.Series(TAGS)).predict_top_k(frame, 2)
    assert names.index.tolist() == list("abcdef")
    assert names.columns.tolist() == ["1", "2"]
    assert scores.shape == (6, 2)
    listed, _ = CandidateLogistic(n_folds=2).fit(X, TAGS).predict_top_k(X, 2)
    assert listed == names.to_numpy().tolist()
    by_polars, _ = CandidateLogistic(n_folds=2).fit(X, polars.Series(TAGS)).predict_top_k(X, 2)
    assert by_polars.rows() == [tuple(row) for row in listed]
