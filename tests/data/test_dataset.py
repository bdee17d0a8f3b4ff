"""PMLDataset: what it accepts, what it refuses, and that it never changes."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from pmlkit.data.dataset import PMLDataset
from pmlkit.exceptions import DataError
from refused import refused

X = np.array([[0.0, 1.5], [2.0, 0.0], [0.0, 1.5], [4.0, -1.0]])
Y = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0]])
TRUTH = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0]])


@pytest.fixture
def data():
    return PMLDataset(X, Y, truth=TRUTH, ids=["a", "b", "c", "d"], media=["w", "x", "y", "z"], name="four")


@pytest.mark.parametrize("kind", [np.array, sparse.csr_matrix, sparse.coo_array, sparse.csc_array, list, pd.DataFrame])
def test_every_container_gives_the_same_data_set(kind):
    made = PMLDataset(kind(X), kind(Y), truth=kind(TRUTH), feature_names=["a", "b"], label_names=["p", "q", "r"])
    assert made == PMLDataset(X, Y, truth=TRUTH, feature_names=["a", "b"], label_names=["p", "q", "r"])
    assert made.Y.dtype == np.uint8
    assert isinstance(made.Y, sparse.csr_array)
    assert isinstance(made.X, sparse.csr_array) == sparse.issparse(kind(X))
    np.testing.assert_array_equal(made.Y.toarray(), Y)
    np.testing.assert_array_equal(made.truth.toarray(), TRUTH)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_give_the_names(frame):
    made = PMLDataset(frame({"u": [1.0, 2.0]}), frame({"red": [1, 0], "blue": [0, 1]}))
    assert (made.feature_names, made.label_names) == (("u",), ("red", "blue"))


@pytest.mark.parametrize(
    ("given_type", "kept"),
    [
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.int16, np.float64),
        (bool, np.float64),
        (">f8", np.float64),
    ],
)
def test_type_of_features(given_type, kept):
    values = np.array([[0, 1], [1, 1]]).astype(given_type)
    assert PMLDataset(values, [[1], [0]]).X.dtype == kept
    if given_type != ">f8":
        assert PMLDataset(sparse.csr_array(values), [[1], [0]]).X.dtype == kept


def test_labels_are_canonical():
    messy = sparse.csr_array((np.array([1, 0, 1]), np.array([2, 1, 0]), np.array([0, 3])), shape=(1, 3))
    clean = PMLDataset([[1.0]], messy).Y
    assert clean.indices.tolist() == [0, 2]
    assert clean.has_sorted_indices
    assert messy.indices.tolist() == [2, 1, 0], "the input was changed"


def test_nothing_can_be_changed(data):
    packed = PMLDataset(sparse.csr_array(X), Y)
    for array in (data.X, data.Y.data, data.Y.indices, data.truth.indptr, packed.X.data, packed.X.indices):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError, match=r"replace\(name=\.\.\.\)"):
        data.name = "other"
    with pytest.raises(AttributeError):
        del data.name
    with pytest.raises(AttributeError):
        data.brand_new = 1
    # New parts given to the csr_array that was handed out stay with that one.
    handed = data.Y
    handed.data = np.zeros_like(handed.data)
    handed.indices = handed.indices[::-1].copy()
    np.testing.assert_array_equal(data.Y.toarray(), Y)


@pytest.mark.parametrize("wrap", [np.array, sparse.csr_array])
def test_later_changes_to_the_input_do_not_reach_it(wrap):
    rows, labels, images = wrap(X), wrap(Y.astype(np.uint8)), np.zeros((4, 2, 2), dtype=np.uint8)
    made = PMLDataset(rows, labels, media=images)
    before = made.replace()
    (rows.data if sparse.issparse(rows) else rows)[:] = 7
    (labels.data if sparse.issparse(labels) else labels)[:] = 0
    images[:] = 9
    assert made == before
    np.testing.assert_array_equal(made.Y.toarray(), Y)


def test_frozen_arrays_are_shared_not_copied(data):
    again = data.replace(name="other")
    assert np.shares_memory(again.X, data.X)
    assert np.shares_memory(again.Y.indices, data.Y.indices)
    view = np.arange(4.0)
    locked = view.reshape(4, 1)
    locked.flags.writeable = False
    assert not np.shares_memory(PMLDataset(locked, Y).X, view), "the base of a read-only view can still be written"


def test_has_no_hash_and_compares_contents(data):
    with pytest.raises(TypeError, match="unhashable"):
        hash(data)
    assert data == data.replace(name="another", provenance="elsewhere")
    assert data == data.replace(X=sparse.csr_array(X)) == data.replace(X=X)
    assert data != "four"
    moved = X.copy()
    moved[3, 1] = 0
    for change in (
        {"X": moved},
        {"X": sparse.csr_array(moved)},
        {"X": X[:, :1]},
        {"Y": np.ones_like(Y)},
        {"truth": None},
        {"truth": Y},
        {"label_names": ["p", "q", "r"]},
        {"feature_names": ["s", "t"]},
        {"ids": None},
        {"ids": [1, 2, 3, 4]},
        {"media": None},
        {"media": np.zeros((4, 1, 1), dtype=np.uint8)},
        {"media": ["w", "x", "y", "-"]},
    ):
        assert data != data.replace(**change), change


@pytest.mark.parametrize("travel", [copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))])
def test_travels(data, travel):
    there = travel(data)
    assert there == data
    assert there.name == "four"
    with pytest.raises(ValueError, match="read-only"):
        there.X[0] = 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": [[np.nan, 1], [0, np.inf], [0, 0], [0, 0]]}, r"2 value\(s\) that are NaN or infinite.*row 0, feature 0"),
        ({"X": sparse.csr_array([[0, 1], [0, np.inf], [0, 0], [0, 0]])}, r"1 value\(s\).*row 1, feature 1"),
        ({"X": X[:3]}, "same rows, got 3 and 4"),
        ({"X": [1, 2, 3, 4]}, r"two dimensions, got shape \(4,\).*reshape"),
        ({"X": [["a"], ["b"], ["c"], ["d"]]}, "real numbers"),
        ({"X": [["a", 1], ["b", None]]}, "table of numbers|real numbers"),
        ({"X": [[1], [2, 3]]}, "table of numbers"),
        ({"X": X * 1j}, "real numbers"),
        ({"X": sparse.csr_array(X * 1j)}, "real numbers"),
        ({"X": np.empty((0, 2)), "Y": np.empty((0, 3))}, "no rows"),
        ({"X": sparse.csr_array((4, 2**40))}, "claims 1099511627776 features"),
        ({"Y": Y + 1}, r"indicator of 0/1 or a list of label names per row, got the value\(s\) 2\. Use Y > 0"),
        ({"Y": -Y}, "got the value.s. -1"),
        ({"Y": Y * 0.5}, "got the value.s. 0.5"),
        ({"Y": np.where(Y, np.nan, 0)}, "missing values, got nan"),
        ({"Y": sparse.csr_array(Y * 3)}, "got the value.s. 3"),
        ({"Y": sparse.coo_array(([1, 1], ([0, 0], [0, 0])), shape=(4, 3))}, "got the value.s. 2"),
        ({"Y": np.empty((4, 0))}, "no label column"),
        ({"Y": ["red", "blue;red", "red", "red"]}, "one text per row"),
        ({"truth": 1 - Y}, r"7 cell\(s\) of truth are not in Y, the first in row 0, label 2"),
        ({"truth": Y[:, :2]}, "same shape"),
        ({"label_names": ["a", "b", "a"]}, "'a' occurs more than once"),
        ({"label_names": ["a"]}, "3 labels, got 1"),
        ({"label_names": "abc"}, "single string 'abc'"),
        ({"feature_names": ["u", "u"]}, "'u' occurs more than once"),
        ({"ids": [1, 2]}, "4 rows, got 2"),
        ({"ids": "abcd"}, "single string"),
        ({"media": ["x"]}, "4 rows, got 1"),
        ({"media": "abcd"}, "sequence of strings"),
        ({"media": [1, 2, 3, 4]}, "sequence of strings"),
        ({"media": np.zeros((4, 2, 2))}, "type float64"),
        ({"media": np.zeros((4, 2, 2, 4), dtype=np.uint8)}, r"shape \(4, 2, 2, 4\)"),
        ({"media": np.zeros((3, 2, 2), dtype=np.uint8)}, "4 rows, got 3"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(DataError, match=message):
        PMLDataset(**{"X": X, "Y": Y, **arguments})


def test_the_column_that_holds_no_numbers_is_named():
    with refused(column="city"):
        PMLDataset(pd.DataFrame({"n": [1, 2, 3, 4], "city": list("abcd")}), Y)


def test_refuses_a_damaged_sparse_matrix():
    damaged = sparse.csr_array(X)
    damaged.indices[0] = 99
    with pytest.raises(DataError, match="not a valid sparse matrix"):
        PMLDataset(damaged, Y)


def test_corner_cases_are_fine():
    labels_only = PMLDataset(np.empty((2, 0)), [[1], [0]])
    assert (labels_only.n_features, labels_only.n_labels, labels_only.feature_names) == (0, 1, ())
    assert labels_only.describe()["density"] == 0
    assert PMLDataset(sparse.csr_array((2, 0)), [[0], [0]]).describe()["labels_without_positives"] == 1
    assert PMLDataset([[1e308], [1e308]], [[1], [0]]).n_samples == 2, "the sum overflows, the values do not"
    wide = PMLDataset(sparse.csr_array((2, 2**31 - 1)), sparse.csr_array((2, 2**31 - 1)))
    assert wide.describe()["constant_features"] == 2**31 - 1


def test_names_by_number_are_made_on_demand():
    made = PMLDataset(X, Y, label_names=["label_0", "label_1", "label_2"], feature_names=["feature_1", "feature_0"])
    assert not made.has_label_names
    assert made.has_feature_names
    assert PMLDataset(X, Y).feature_names == ("feature_0", "feature_1")


def test_subset(data):
    for rows in ([3, 0], np.array([3, 0]), np.array([-1, 0], dtype=np.int8)):
        part = data.subset(rows)
        np.testing.assert_array_equal(part.X, X[[3, 0]])
        np.testing.assert_array_equal(part.Y.toarray(), Y[[3, 0]])
        np.testing.assert_array_equal(part.truth.toarray(), TRUTH[[3, 0]])
        assert (part.ids, part.media, part.name) == (("d", "a"), ("z", "w"), "four")
    assert data.subset(slice(None, 2)) == data.subset([True, True, False, False]) == data.subset([0, 1])
    assert data.subset([0, 0]).n_samples == 2
    images = PMLDataset(X, Y, media=np.arange(16, dtype=np.uint8).reshape(4, 2, 2)).subset([2])
    assert images.media.tolist() == [[[8, 9], [10, 11]]]
    with pytest.raises(DataError, match="no rows"):
        data.subset([])
    with pytest.raises(DataError, match="no rows"):
        data.subset(np.zeros(4, dtype=bool))
    with pytest.raises(IndexError):
        data.subset([4])
    with pytest.raises(IndexError):
        data.subset([True, False])
    for rows in (1, [0.5], [[0]], ["a"]):
        with pytest.raises(ValueError, match="slice or a one-dimensional"):
            data.subset(rows)


def test_noise_starts_from_the_truth(data):
    noisy = data.with_noise(1.0, rounding="ceil", random_state=3)
    np.testing.assert_array_equal(noisy.truth.toarray(), TRUTH)
    assert noisy.describe()["false_candidates"] == 3, "1 + 1 + 0 + 2, but only one label is left in the last row"
    assert noisy == data.with_noise(1.0, rounding="ceil", random_state=3)
    assert noisy.provenance == "uniform noise added (ratio 1.0, rounding ceil, seed 3)"
    assert noisy.with_noise(0.0).provenance.startswith(noisy.provenance + "; uniform")
    np.testing.assert_array_equal(noisy.with_noise(0.0).Y.toarray(), TRUTH)
    assert noisy.ids == data.ids


def test_noise_on_unknown_truth_starts_from_the_candidates():
    noisy = PMLDataset(X, Y).with_noise(None, avg_candidates=3)
    np.testing.assert_array_equal(noisy.truth.toarray(), Y)
    assert "avg_candidates 3" in noisy.provenance


def test_confusable_noise_gets_the_features(monkeypatch, data):
    seen = {}

    def spy(truth, ratio, **options):
        seen.update(options)
        return truth

    monkeypatch.setattr("pmlkit.data.dataset.add_noise", spy)
    data.with_noise(0.5, kind="confusable")
    assert seen["X"] is data.X
    seen.clear()
    data.with_noise(0.5, kind="confusable", confusion=np.eye(3))
    data.with_noise(0.5)
    assert "X" not in seen


def test_describe(data):
    assert data.describe() == {
        "rows": 4,
        "features": 2,
        "labels": 3,
        "density": 5 / 8,
        "candidate_cardinality": 5 / 4,
        "true_cardinality": 1.0,
        "false_candidates": 1,
        "noise_ratio": 0.25,
        "rows_without_candidates": 1,
        "labels_without_positives": 1,
        "duplicate_rows": 1,
        "constant_features": 0,
    }
    assert all(type(value) in (int, float) for value in data.describe().values())
    unknown = data.replace(truth=None).describe()
    assert unknown["true_cardinality"] is unknown["noise_ratio"] is unknown["false_candidates"] is None
    assert data.replace(truth=0 * Y).describe()["noise_ratio"] is None


small_numbers = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5])
tables = hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=small_numbers)


@given(tables)
@settings(max_examples=150, deadline=None)
def test_counts_equal_the_obvious_ones_dense_and_sparse(table):
    duplicates = len(table) - len({tuple(row) for row in table.tolist()})
    constant = sum(len(set(column)) == 1 for column in table.T.tolist())
    for rows in (table, sparse.csr_array(table), table.astype(np.float32)):
        facts = PMLDataset(rows, np.ones((len(table), 1))).describe()
        assert facts["duplicate_rows"] == duplicates
        assert facts["constant_features"] == constant
        assert facts["density"] == np.count_nonzero(table) / table.size


def test_shown_to_people(data):
    assert repr(data).startswith("PMLDataset 'four': 4 rows, 2 features (dense float64), 3 labels, 1.25 candidates and")
    assert "truth unknown" in repr(PMLDataset(X, Y))
    bad = "<script>alert(1)</script>"
    page = data.replace(name=bad, provenance=bad, label_names=[bad, "b", "c"])._repr_html_()
    assert "<script" not in page
    assert page.count("&lt;script") == 3
    assert "images" in PMLDataset(X, Y, media=np.zeros((4, 1, 1), np.uint8))._repr_html_()


def test_ids_keep_their_kind():
    assert PMLDataset([[1.0]], [[1]], ids=np.array([7])).ids == (7,)
    assert type(PMLDataset([[1.0]], [[1]], ids=np.array([7])).ids[0]) is int
    assert PMLDataset([[1.0]], [[1]], ids=pd.Series(["007"])).ids == ("007",)
    assert PMLDataset([[1.0]], [[1]], ids=[2**70]).ids == (str(2**70),)


def test_takes_names_per_row():
    made = PMLDataset(X, [["sea", "sun"], ["sun"], [], ["beach"]], truth=[["sea"], [], [], ["beach"]])
    assert made.label_names == ("beach", "sea", "sun")
    assert made.Y.toarray().tolist() == [[0, 1, 1], [0, 0, 1], [0, 0, 0], [1, 0, 0]]
    assert made.truth.toarray().tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]]
    fixed = PMLDataset(X, [["sea"], ["sun"], [], ["sun"]], label_names=["sun", "snow", "sea"])
    assert fixed.Y.toarray().tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0], [1, 0, 0]]
