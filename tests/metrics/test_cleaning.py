"""The cleaning measures against loops over cells."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from pmlkit.exceptions import DataError, PMLWarning
from pmlkit.metrics import cleaning_auc, cleaning_average_precision, evaluate_cleaning, precision_at

TRUTH = np.array([[1, 0, 0], [0, 0, 1]])
CANDIDATES = np.array([[1, 1, 0], [0, 1, 1]])
CONFIDENCE = np.array([[0.9, 0.1, 0.0], [0.0, 0.5, 0.5]])


@st.composite
def cases(draw):
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 4)))
    candidates = draw(arrays(np.int8, shape, elements=st.integers(0, 1)))
    truth = candidates * draw(arrays(np.int8, shape, elements=st.integers(0, 1)))
    assume(0 < truth.sum() < candidates.sum())
    confidence = draw(arrays(float, shape, elements=st.sampled_from([0.0, 0.25, 0.5, 1.0])))
    return truth, candidates, confidence


def cells(truth, candidates, confidence):
    """(is false, confidence) of each candidate cell."""
    return [(not truth[cell], confidence[cell]) for cell in np.ndindex(truth.shape) if candidates[cell]]


@settings(max_examples=40, deadline=None)
@given(cases())
def test_auc_is_the_share_of_pairs_in_order(case):
    flat = cells(*case)
    false = [value for is_false, value in flat if is_false]
    true = [value for is_false, value in flat if not is_false]
    expected = np.mean([(f < t) + 0.5 * (f == t) for f in false for t in true])
    assert cleaning_auc(*case) == pytest.approx(expected)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_average_precision_is_the_mean_precision_at_the_false_ones(case):
    flat = cells(*case)
    precisions = []
    for is_false, value in flat:
        if is_false:
            met = [other_is_false for other_is_false, other in flat if other <= value]
            precisions.append(np.mean(met))
    assert cleaning_average_precision(*case) == pytest.approx(np.mean(precisions))


@settings(max_examples=60, deadline=None)
@given(cases(), st.data())
def test_precision_at_is_the_mean_over_all_ways_to_break_ties(case, data):
    flat = cells(*case)
    budget = data.draw(st.integers(1, len(flat)))
    picks = list(combinations(range(len(flat)), budget))
    lowest = min(sum(flat[i][1] for i in pick) for pick in picks)
    expected = np.mean(
        [np.mean([flat[i][0] for i in pick]) for pick in picks if sum(flat[i][1] for i in pick) == lowest]
    )
    assert precision_at(*case, budget) == pytest.approx(expected)


@settings(max_examples=20, deadline=None)
@given(cases(), st.integers(0, 10**6))
def test_order_of_rows_does_not_matter(case, seed):
    order = np.random.default_rng(seed).permutation(len(case[0]))
    expected = evaluate_cleaning(*case, budget=0.5)
    assert evaluate_cleaning(*(table[order] for table in case), budget=0.5) == pytest.approx(expected)


@settings(max_examples=20, deadline=None)
@given(cases())
def test_sparse_and_frames_equal_dense(case):
    truth, candidates, confidence = case
    expected = evaluate_cleaning(truth, candidates, confidence, budget=2)
    on_candidates = confidence * candidates
    stored_zeros = sparse.csr_array(candidates.astype(float))
    stored_zeros.data = confidence[candidates.astype(bool)]
    for kind in (sparse.csr_array(on_candidates), stored_zeros, sparse.csr_array(confidence), pd.DataFrame(confidence)):
        result = evaluate_cleaning(sparse.csr_array(truth), sparse.csr_array(candidates), kind, budget=2)
        assert result == pytest.approx(expected)
    assert evaluate_cleaning(truth, pd.DataFrame(candidates), stored_zeros, budget=2) == pytest.approx(expected)


def test_a_sparse_confidence_that_stores_nothing():
    nothing = sparse.csr_array(CANDIDATES.shape, dtype=float)
    assert cleaning_auc(TRUTH, CANDIDATES, nothing) == 0.5
    assert precision_at(TRUTH, CANDIDATES, nothing, 1) == 0.5


def test_room_behind_the_last_entry_is_no_entry():
    roomy = sparse.csr_array(CONFIDENCE)
    # scipy gives up such room when it builds an array, so the parts are set later.
    roomy.data, roomy.indices = np.append(roomy.data, 0.7), np.append(roomy.indices, 0)
    assert len(roomy.data) == roomy.nnz + 1
    assert cleaning_auc(TRUTH, CANDIDATES, roomy) == cleaning_auc(TRUTH, CANDIDATES, CONFIDENCE)
    assert len(roomy.data) == roomy.nnz + 1


def test_evaluate_cleaning_holds_the_single_measures():
    result = evaluate_cleaning(TRUTH, CANDIDATES, CONFIDENCE, budget=2)
    assert result == {
        "cleaning_auc": cleaning_auc(TRUTH, CANDIDATES, CONFIDENCE),
        "cleaning_average_precision": cleaning_average_precision(TRUTH, CANDIDATES, CONFIDENCE),
        "precision_at": precision_at(TRUTH, CANDIDATES, CONFIDENCE, 2),
        "n_candidates": 4,
        "n_false_candidates": 2,
    }


def test_only_candidate_cells_are_read():
    truth, confidence = TRUTH.copy(), CONFIDENCE.copy()
    truth[0, 2], confidence[0, 2] = 1, 77.0
    assert evaluate_cleaning(truth, CANDIDATES, confidence) == evaluate_cleaning(TRUTH, CANDIDATES, CONFIDENCE)


def test_tiny_confidences_are_told_apart():
    # 1 - confidence would round both to 1.
    case = ([[1, 0]], [[1, 1]], [[1e-18, 1e-20]])
    assert cleaning_auc(*case) == cleaning_average_precision(*case) == precision_at(*case, 1) == 1.0


def test_budget_as_a_share():
    rng = np.random.default_rng(0)
    confidence = rng.random((10, 10))
    truth = rng.random((10, 10)) < confidence
    candidates = np.ones((10, 10))
    for share, count in ((0.07, 7), (0.1, 10), (0.075, 8), (1e-9, 1), (1.0, 100), (np.float32(0.5), 50)):
        assert precision_at(truth, candidates, confidence, share) == precision_at(truth, candidates, confidence, count)
    assert precision_at(truth, candidates, confidence, np.int32(1)) == precision_at(truth, candidates, confidence, 1)
    assert precision_at(truth, candidates, confidence, 1.0) == pytest.approx(1 - truth.mean())


@pytest.mark.parametrize("budget", [0, -1, 0.0, 1.5, -0.1, np.nan, True, "2", None])
def test_bad_budget(budget):
    sentence = r"^budget must be a number of cells \(int >= 1\) or a share \(float in \(0, 1\]\), got "
    with pytest.raises(ValueError, match=sentence):
        precision_at(TRUTH, CANDIDATES, CONFIDENCE, budget)
    with pytest.raises(ValueError, match=sentence):
        evaluate_cleaning(TRUTH, CANDIDATES, CONFIDENCE, budget=budget)


def test_budget_above_the_candidates():
    with pytest.raises(ValueError, match="^budget.*5 cells.*4 candidates"):
        precision_at(TRUTH, CANDIDATES, CONFIDENCE, 5)


@pytest.mark.parametrize(
    ("truth", "candidates", "reason"),
    [
        (TRUTH, TRUTH, "none of the 2 candidates is false"),
        (TRUTH * 0, CANDIDATES, "none of the 4 candidates is true"),
        (TRUTH, CANDIDATES * 0, "there is no candidate"),
    ],
)
def test_nothing_to_tell_apart_is_nan_with_a_reason(truth, candidates, reason):
    case = (truth, candidates, CONFIDENCE)
    with pytest.warns(PMLWarning, match=f"^cleaning_auc is nan: {reason}.$"):
        assert np.isnan(cleaning_auc(*case))
    with pytest.warns(PMLWarning, match=f"^cleaning_average_precision is nan: {reason}.$"):
        assert np.isnan(cleaning_average_precision(*case))
    with pytest.warns(PMLWarning, match=f"^precision_at is nan: {reason}.$"):
        assert np.isnan(precision_at(*case, 1))
    with pytest.warns(PMLWarning, match=reason) as caught:
        result = evaluate_cleaning(*case)
    assert len(caught) == 1
    assert result["n_candidates"] == candidates.sum()
    assert all(np.isnan(result[name]) for name in ("cleaning_auc", "cleaning_average_precision", "precision_at"))


def test_bad_tables():
    with pytest.raises(DataError, match="^y_true and candidates.*2 x 3 and 2 x 2"):
        cleaning_auc(TRUTH, CANDIDATES[:, :2], CONFIDENCE)
    with pytest.raises(DataError, match="^y_true and confidence.*2 x 3 and 1 x 3"):
        cleaning_auc(TRUTH, CANDIDATES, CONFIDENCE[:1])
    with pytest.raises(DataError, match=r"^candidates must be an indicator of 0/1 .* got the value\(s\) 0.1, 0.5, 0.9"):
        cleaning_auc(TRUTH, CONFIDENCE, CONFIDENCE)
    with pytest.raises(DataError, match=r"^confidence must not have missing values"):
        cleaning_auc(TRUTH, CANDIDATES, np.where(CONFIDENCE > 0.5, np.nan, CONFIDENCE))
    with pytest.raises(DataError, match=r"^confidence must be finite at the candidates, got inf"):
        cleaning_auc(TRUTH, CANDIDATES, np.where(CONFIDENCE > 0.5, np.inf, CONFIDENCE))
