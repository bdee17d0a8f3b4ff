"""What cannot be measured is refused with one sentence, and nothing given is changed."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from pmlkit.exceptions import DataError
from pmlkit.metrics import (
    average_precision,
    cleaning_auc,
    coverage,
    evaluate,
    hamming_loss,
    macro_f1,
    micro_f1,
    one_error,
    ranking_loss,
)

TRUTH = np.array([[1, 0, 0], [0, 1, 1]])
SCORES = np.array([[0.3, 0.2, 0.1], [0.1, 0.2, 0.3]])
RANKING = [ranking_loss, one_error, coverage, average_precision, evaluate]
SETS = [hamming_loss, micro_f1, macro_f1]


@pytest.mark.parametrize("measure", RANKING)
def test_shapes_differ_scores(measure):
    with pytest.raises(DataError, match=r"^truth and scores must have the same shape, got 2 x 3 and 2 x 2.$"):
        measure(TRUTH, SCORES[:, :2])


@pytest.mark.parametrize("measure", SETS)
def test_shapes_differ_predictions(measure):
    with pytest.raises(DataError, match=r"^truth and predictions must have the same shape, got 2 x 3 and 1 x 3.$"):
        measure(TRUTH, sparse.csr_array(TRUTH[:1]))


def test_shapes_differ_in_evaluate_predictions():
    with pytest.raises(DataError, match=r"^truth and predictions must have the same shape"):
        evaluate(TRUTH, SCORES, TRUTH[:1])


@pytest.mark.parametrize("measure", RANKING + SETS)
@pytest.mark.parametrize(
    ("bad", "value"), [(TRUTH * 2, "2"), (2 * TRUTH - 1, "-1"), (TRUTH / 2, "0.5"), (sparse.csr_array(TRUTH * 3), "3")]
)
def test_truth_is_not_01(measure, bad, value):
    with pytest.raises(DataError, match=f"^truth must be an n x q indicator of 0/1, got the value {value}. Use "):
        measure(bad, TRUTH)


@pytest.mark.parametrize("measure", SETS)
def test_predictions_are_not_01(measure):
    with pytest.raises(DataError, match=r"^predictions must be an n x q indicator of 0/1, got the value 0.3. Use "):
        measure(TRUTH, SCORES)


@pytest.mark.parametrize("measure", RANKING)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_nan_scores(measure, dtype):
    scores = SCORES.astype(dtype)
    scores[1, 2] = np.nan
    with pytest.raises(DataError, match=r"^scores must not have missing values, got nan. Fill or drop"):
        measure(TRUTH, scores)


def test_missing_truth():
    frame = pd.DataFrame(TRUTH, dtype="Int64")
    frame.iloc[0, 0] = pd.NA
    with pytest.raises(DataError, match=r"^truth must not have missing values"):
        ranking_loss(frame, SCORES)
    with pytest.raises(DataError, match=r"^truth must not have missing values"):
        ranking_loss(sparse.csr_array(np.where(TRUTH, np.nan, 0)), SCORES)


def test_infinite_scores_are_ranks_like_any_other():
    assert ranking_loss(TRUTH, [[np.inf, 0, -np.inf], [-np.inf, 0, np.inf]]) == 0.0
    assert ranking_loss([[1, 0]], [[np.inf, np.inf]]) == 1.0


@pytest.mark.parametrize("measure", RANKING + SETS)
def test_one_dimension(measure):
    with pytest.raises(DataError, match=r"^truth must be an n x q table, got a 1-D array of length 3. Use reshape\(-1"):
        measure([1, 0, 1], [1, 0, 1])


def test_one_dimensional_scores_and_sparse_truth():
    with pytest.raises(DataError, match=r"^scores must be an n x q table, got a 1-D array of length 2"):
        ranking_loss([[1], [0]], [0.1, 0.2])
    with pytest.raises(DataError, match=r"^truth must be an n x q table, got a 1-D array of length 2"):
        ranking_loss(sparse.coo_array(np.array([1, 0])), [[0.1], [0.2]])


def test_three_dimensions():
    with pytest.raises(DataError, match=r"^scores must be an n x q table, got an array with 3 dimensions.$"):
        ranking_loss(TRUTH, SCORES[None])


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_nothing_to_measure(shape):
    with pytest.raises(
        DataError, match=f"^truth must have at least one row and one label, got {shape[0]} x {shape[1]}"
    ):
        evaluate(np.zeros(shape, dtype=int), np.zeros(shape))


def test_lists_of_labels():
    with pytest.raises(DataError, match=r"MultiLabelBinarizer for lists of labels.$"):
        ranking_loss([[1], [0, 2]], SCORES)
    with pytest.raises(DataError, match=r"^truth must hold real numbers, got dtype"):
        ranking_loss([["beach", "sea"], ["sun", "sea"]], SCORES)
    with pytest.raises(DataError, match=r"^truth must be an n x q table of numbers"):
        ranking_loss(pd.DataFrame({"a": ["beach", "sea"], "b": [1, 0]}), SCORES)


def test_complex_scores():
    with pytest.raises(DataError, match=r"^scores must hold real numbers, got dtype complex128.$"):
        ranking_loss(TRUTH, SCORES + 1j)


def test_sparse_scores():
    with pytest.raises(DataError, match=r"^scores must be dense, .* Use scores.toarray\(\).$"):
        ranking_loss(TRUTH, sparse.csr_array(SCORES))


@pytest.mark.parametrize("measure", RANKING + SETS)
def test_unknown_convention(measure):
    with pytest.raises(ValueError, match=r"^convention must be 'zhang' or 'sklearn', got 'matlab'.$"):
        measure(TRUTH, TRUTH, convention="matlab")


@pytest.mark.parametrize("measure", RANKING)
def test_unknown_ties(measure):
    with pytest.raises(ValueError, match=r"^ties must be 'zhang', 'pessimistic', 'average' or None .* got 'first'.$"):
        measure(TRUTH, SCORES, ties="first")


def test_unknown_empty_rows():
    with pytest.raises(ValueError, match=r"^empty_rows must be 'drop', 'keep' or None .* got 'matlab'.$"):
        coverage(TRUTH, SCORES, empty_rows="matlab")


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_label_names_in_another_order(frame):
    labels = ["beach", "sea", "sun"]
    truth = frame(dict(zip(labels, TRUTH.T, strict=True)))
    scores = frame(dict(zip(labels, SCORES.T, strict=True)))
    with pytest.raises(DataError, match=r"^truth and scores have the same label names in a different order. Use "):
        ranking_loss(truth, scores[labels[::-1]])
    # The cure that the sentence names.
    assert ranking_loss(truth, scores[labels[::-1]][list(truth.columns)]) == ranking_loss(TRUTH, SCORES)
    renamed = frame(dict(zip(["x", "y", "z"], SCORES.T, strict=True)))
    assert ranking_loss(truth, renamed) == ranking_loss(TRUTH, SCORES)


def test_frames_of_mixed_types():
    frame = pd.DataFrame({"a": [1, 0], "b": [False, True], "c": pd.array([0, 1], dtype="Int64")})
    assert ranking_loss(frame, SCORES) == ranking_loss(TRUTH, SCORES)


def test_inputs_may_be_read_only():
    truth, scores = TRUTH.copy(), SCORES.copy()
    truth.flags.writeable = scores.flags.writeable = False
    assert evaluate(truth, scores, truth)["hamming_loss"] == 0.0
    assert cleaning_auc(truth, np.ones_like(truth), scores) == cleaning_auc(TRUTH, np.ones_like(TRUTH), SCORES)
