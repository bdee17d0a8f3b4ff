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
    with pytest.raises(DataError, match="^y_true and y_score.*2 x 3 and 2 x 2"):
        measure(TRUTH, SCORES[:, :2])


@pytest.mark.parametrize("measure", SETS)
def test_shapes_differ_predictions(measure):
    with pytest.raises(DataError, match="^y_true and y_pred.*2 x 3 and 1 x 3"):
        measure(TRUTH, sparse.csr_array(TRUTH[:1]))


def test_shapes_differ_in_evaluate_predictions():
    with pytest.raises(DataError, match=r"^y_true and y_pred must have the same shape"):
        evaluate(TRUTH, SCORES, TRUTH[:1])


@pytest.mark.parametrize("measure", RANKING + SETS)
@pytest.mark.parametrize(
    ("bad", "value"), [(TRUTH * 2, "2"), (2 * TRUTH - 1, "-1"), (TRUTH / 2, "0.5"), (sparse.csr_array(TRUTH * 3), "3")]
)
def test_truth_is_not_01(measure, bad, value):
    with pytest.raises(DataError, match=f"^y_true must be an indicator of 0/1 .* got the value\\(s\\) {value}.* Use "):
        measure(bad, TRUTH)


@pytest.mark.parametrize("measure", SETS)
def test_predictions_are_not_01(measure):
    with pytest.raises(
        DataError, match=r"^y_pred must be an indicator of 0/1 .* got the value\(s\) 0.1, 0.2, 0.3. Use "
    ):
        measure(TRUTH, SCORES)


@pytest.mark.parametrize("measure", RANKING)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_nan_scores(measure, dtype):
    scores = SCORES.astype(dtype)
    scores[1, 2] = np.nan
    with pytest.raises(DataError, match=r"^y_score must not have missing values, got nan. Fill or drop"):
        measure(TRUTH, scores)


def test_missing_truth():
    frame = pd.DataFrame(TRUTH, dtype="Int64")
    frame.iloc[0, 0] = pd.NA
    with pytest.raises(DataError, match=r"^y_true must not have missing values"):
        ranking_loss(frame, SCORES)
    with pytest.raises(DataError, match=r"^y_true must not have missing values"):
        ranking_loss(sparse.csr_array(np.where(TRUTH, np.nan, 0)), SCORES)


def test_infinite_scores_are_ranks_like_any_other():
    assert ranking_loss(TRUTH, [[np.inf, 0, -np.inf], [-np.inf, 0, np.inf]]) == 0.0
    assert ranking_loss([[1, 0]], [[np.inf, np.inf]]) == 1.0


@pytest.mark.parametrize("measure", RANKING + SETS)
def test_one_dimension(measure):
    with pytest.raises(DataError, match=r"^y_true must have two dimensions, got shape \(3,\). Use reshape\(-1"):
        measure([1, 0, 1], [1, 0, 1])


def test_one_dimensional_scores_and_sparse_truth():
    with pytest.raises(DataError, match=r"^y_score must have two dimensions, got shape \(2,\)"):
        ranking_loss([[1], [0]], [0.1, 0.2])
    with pytest.raises(DataError, match=r"^y_true must have two dimensions, got a sparse array of shape \(2,\)"):
        ranking_loss(sparse.coo_array(np.array([1, 0])), [[0.1], [0.2]])


def test_three_dimensions():
    with pytest.raises(DataError, match=r"^y_score must have two dimensions, got shape \(1, 2, 3\).$"):
        ranking_loss(TRUTH, SCORES[None])


@pytest.mark.parametrize(("shape", "message"), [((0, 3), "y_true has no rows"), ((3, 0), "y_true has no label column")])
def test_nothing_to_measure(shape, message):
    with pytest.raises(DataError, match=message):
        evaluate(np.zeros(shape, dtype=int), np.zeros(shape))


NAMES = ["beach", "sea", "sun"]
TAGS = [["beach"], ["sun", "sea"]]  # TRUTH in words


def test_names_per_row_beside_scores():
    by_array = evaluate(TRUTH, SCORES, TRUTH)
    assert evaluate(TAGS, SCORES, TAGS, label_names=NAMES) == by_array
    assert evaluate(TAGS, pd.DataFrame(SCORES, columns=NAMES), TRUTH) == by_array
    assert evaluate(pd.Series(TAGS), pl.DataFrame(SCORES, schema=NAMES), TAGS) == by_array
    reordered = [2, 0, 1]
    names = [NAMES[k] for k in reordered]
    assert ranking_loss(TAGS, SCORES[:, reordered], label_names=names) == ranking_loss(TRUTH, SCORES)
    assert cleaning_auc([["sea"]], [["sea", "sun"]], [[0.9, 0.2]], label_names=["sea", "sun"]) == 1.0


def test_names_per_row_alone_span_the_labels():
    assert hamming_loss(TAGS, [["beach"], ["sun"]]) == 1 / 6
    assert hamming_loss(TAGS, [["beach"], ["sun"]], label_names=[*NAMES, "snow"]) == 1 / 8
    assert micro_f1(TAGS, [set(), {"snow"}]) == 0.0


def test_names_per_row_that_cannot_be_matched():
    with pytest.raises(DataError, match="y_true.*label names.*y_score"):
        ranking_loss(TAGS, SCORES)
    with pytest.raises(DataError, match="y_true.*'sun'.*2 known"):
        ranking_loss(TAGS, SCORES[:, :2], label_names=["beach", "sea"])
    with pytest.raises(DataError, match="y_true and y_score.*2 x 4 and 2 x 3"):
        ranking_loss(TAGS, SCORES, label_names=[*NAMES, "snow"])
    with pytest.raises(DataError, match="label_names.*3 columns.*2 names"):
        ranking_loss(TRUTH, SCORES, label_names=["beach", "sea"])
    with pytest.raises(DataError, match=r"holds collections of int, but label names must be strings"):
        ranking_loss([[1], [0, 2]], SCORES)
    with pytest.raises(DataError, match=r"^y_true must be a table of numbers.* in column 'a'"):
        ranking_loss(pd.DataFrame({"a": ["beach", "sea"], "b": [1, 0]}), SCORES)


def test_complex_scores():
    with pytest.raises(DataError, match=r"^y_score must hold real numbers, got dtype complex128.$"):
        ranking_loss(TRUTH, SCORES + 1j)


def test_sparse_scores():
    with pytest.raises(DataError, match=r"^y_score must be dense, .* Use y_score.toarray\(\).$"):
        ranking_loss(TRUTH, sparse.csr_array(SCORES))


@pytest.mark.parametrize("measure", RANKING + SETS)
def test_unknown_convention(measure):
    with pytest.raises(ValueError, match="^convention.*'zhang'.*'sklearn'.*'matlab'"):
        measure(TRUTH, TRUTH, convention="matlab")


@pytest.mark.parametrize("measure", RANKING)
def test_unknown_ties(measure):
    with pytest.raises(ValueError, match="^ties.*'zhang', 'pessimistic', 'average'.*'first'"):
        measure(TRUTH, SCORES, ties="first")


def test_unknown_empty_rows():
    with pytest.raises(ValueError, match="^empty_rows.*'drop', 'keep'.*'matlab'"):
        coverage(TRUTH, SCORES, empty_rows="matlab")


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_label_names_in_another_order(frame):
    labels = ["beach", "sea", "sun"]
    truth = frame(dict(zip(labels, TRUTH.T, strict=True)))
    scores = frame(dict(zip(labels, SCORES.T, strict=True)))
    with pytest.raises(DataError, match="^y_true and y_score.*order"):
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
