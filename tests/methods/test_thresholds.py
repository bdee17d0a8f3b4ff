import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from pmlkit import MLkNN
from pmlkit.methods.thresholds import LabelRule, fit_threshold


def problem(seed=0, n=40, q=5):
    rng = np.random.default_rng(seed)
    scores = rng.random((n, q))
    Y = sparse.csr_array((scores + 0.3 * rng.random((n, q)) > 0.7).astype(float))
    return scores, Y


def test_fixed_number_gives_what_reaches_it():
    scores, Y = problem()
    rule = fit_threshold(0.6, scores, Y, np.ones(Y.nnz), natural_cut=0.5)
    assert_array_equal(rule.label_sets(scores), scores >= 0.6)


def test_at_least_one_adds_only_the_best_label_of_bare_rows():
    scores, Y = problem()
    rule = fit_threshold("at_least_one", scores, Y, np.ones(Y.nnz), natural_cut=0.9)
    given_labels = rule.label_sets(scores)
    for row, labels in zip(scores, given_labels, strict=True):
        expected = row >= 0.9
        if not expected.any():
            expected[np.argmax(row)] = True
        assert_array_equal(labels, expected)


@given(seed=st.integers(0, 1000), share=st.floats(0.05, 1.0))
@settings(max_examples=40, deadline=None)
def test_cardinality_matches_the_confidences(seed, share):
    scores, Y = problem(seed)
    confidence = np.full(Y.nnz, share)
    rule = fit_threshold("cardinality", scores, Y, confidence, natural_cut=0.5)
    wanted = min(confidence.sum(), scores.size - 1)
    assert abs((scores >= rule.offset).sum() - wanted) <= 0.5 + 1e-9
    assert rule.label_sets(scores).any(axis=1).all()


def reference_size_predictor(scores, Y):
    """Section by section as published: every candidate threshold of every row, by loops."""
    targets = []
    for row, labels in zip(scores, Y, strict=True):
        ordered = np.sort(row)
        cuts = [ordered[0] - 0.1, *((ordered[1:] + ordered[:-1]) / 2), ordered[-1] + 0.1]
        errors = [np.sum((row >= cut) != labels) for cut in cuts]
        targets.append(cuts[int(np.argmin(errors))])
    design = np.hstack([scores, np.ones((len(scores), 1))])
    return np.linalg.pinv(design) @ np.array(targets)


@pytest.mark.parametrize("seed", range(3))
def test_size_predictor_equals_plain_loops(seed):
    scores, Y = problem(seed)
    rule = fit_threshold("size", scores, Y, np.ones(Y.nnz), natural_cut=0.5)
    expected = reference_size_predictor(scores, Y.toarray() > 0)
    assert_allclose([*rule.weights, rule.offset], expected, atol=1e-10)
    threshold = scores @ expected[:-1] + expected[-1]
    assert_array_equal(rule.label_sets(scores), scores >= threshold[:, None])


def test_one_label_is_never_forced():
    rule = LabelRule(np.zeros(1), 0.5, at_least_one=True)
    assert_array_equal(rule.label_sets(np.array([[0.1], [0.9]])), [[False], [True]])


def test_unknown_strategy_lists_the_known_ones(oracle):
    with pytest.raises(ValueError, match="threshold.*cardinality"):
        MLkNN(threshold="best").fit(oracle.X, oracle.Y)
