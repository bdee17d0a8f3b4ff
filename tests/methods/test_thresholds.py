import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from pmlkit import MLkNN
from pmlkit.methods import METHODS
from pmlkit.methods.thresholds import THRESHOLDS, LabelRule, fit_threshold


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


def expected_measure(measure, given_labels, chance):
    """Count what a set of labels is expected to get right, cell by cell."""
    if measure == "hamming":
        return -np.where(given_labels, 1 - chance, chance).sum()
    return 2 * (given_labels * chance).sum() / (given_labels.sum() + chance.sum())


@pytest.mark.parametrize("measure", ["hamming", "f1"])
@pytest.mark.parametrize("weighted", [False, True])
def test_no_cut_is_expected_to_do_better(measure, weighted):
    scores, Y = problem(3)
    rng = np.random.default_rng(4)
    confidence = rng.random(Y.nnz)
    weight = rng.integers(1, 4, size=len(scores)).astype(float) if weighted else None
    chance = sparse.csr_array((confidence, Y.indices, Y.indptr), shape=Y.shape).toarray()
    repeated = np.ones(len(scores), dtype=int) if weight is None else weight.astype(int)
    rule = fit_threshold(measure, scores, Y, confidence, natural_cut=0.5, weight=weight)
    rows, chances = np.repeat(scores, repeated, axis=0), np.repeat(chance, repeated, axis=0)
    reached = expected_measure(measure, rule.margin(rows) >= 0, chances)
    others = [expected_measure(measure, rows >= cut, chances) for cut in np.unique(scores)]
    assert reached == pytest.approx(max(others))
    assert rule.at_least_one == (measure == "f1")


def best_cut_of_all_scores(measure, scores, Y, confidence):
    """All scores sorted, the expected gain of every number of labels."""
    chance = np.zeros(scores.shape)
    chance[np.repeat(np.arange(len(scores)), np.diff(Y.indptr)), Y.indices] = confidence
    order = np.argsort(-scores, axis=None, kind="stable")
    descending = scores.ravel()[order]
    hits, given_labels = np.cumsum(chance.ravel()[order]), np.arange(1.0, len(order) + 1.0)
    gain = (
        2.0 * hits - given_labels if measure == "hamming" else 2.0 * hits / np.maximum(given_labels + hits[-1], 1e-300)
    )
    possible = np.append(descending[1:] < descending[:-1], True)
    best = int(np.argmax(np.where(possible, gain, -np.inf)))
    if gain[best] <= 0:
        return np.nextafter(descending[0], np.inf)
    if best + 1 == len(descending):
        return descending[best]
    middle = (descending[best] + descending[best + 1]) / 2
    return middle if middle > descending[best + 1] else descending[best]


@pytest.mark.parametrize("measure", ["hamming", "f1"])
@given(
    seed=st.integers(0, 10_000),
    candidates=st.sampled_from([0.0, 0.01, 0.1, 0.9]),
    level=st.sampled_from([0.0, 0.05, 1.0]),
    slope=st.sampled_from([-3.0, 0.0, 3.0]),
    digits=st.sampled_from([1, 12]),
    dtype=st.sampled_from([np.float32, np.float64]),
)
@settings(max_examples=80, deadline=None)
def test_only_the_highest_scores_decide(measure, seed, candidates, level, slope, digits, dtype):
    """The same threshold bit for bit as that of all scores, also where scores speak against candidates."""
    rng = np.random.default_rng(seed)
    full = rng.random((30, 40)) < candidates
    scores = np.round(rng.normal(size=full.shape) + slope * full, digits).astype(dtype)
    Y = sparse.csr_array(full.astype(float))
    confidence = level * rng.random(Y.nnz)
    rule = fit_threshold(measure, scores, Y, confidence, natural_cut=0.5)
    assert rule.offset == float(best_cut_of_all_scores(measure, scores, Y, confidence))


def test_nothing_is_given_when_no_candidate_is_likely():
    scores, Y = problem()
    rule = fit_threshold("hamming", scores, Y, np.full(Y.nnz, 0.1), natural_cut=0.5)
    assert not rule.label_sets(scores).any()


@pytest.mark.parametrize("measure", ["hamming", "f1"])
def test_equal_scores_are_given_or_not_together(measure):
    scores = np.array([[0.9, 0.5, 0.5, 0.5, 0.1]])
    Y = sparse.csr_array(np.array([[1.0, 1.0, 1.0, 0.0, 0.0]]))
    rule = fit_threshold(measure, scores, Y, np.array([0.9, 0.8, 0.8]), natural_cut=0.5)
    assert len(set(rule.label_sets(scores)[0, 1:4].tolist())) == 1


@pytest.mark.parametrize("method", METHODS)
def test_every_docstring_lists_the_strategies_and_the_default(method):
    names = "{" + ", ".join(f'"{name}"' for name in THRESHOLDS) + "}"
    default = json.dumps(method().threshold)
    assert f"    threshold : {names} or float, default={default}\n" in method.__doc__
