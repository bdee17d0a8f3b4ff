"""PML-lc: its term of label correlations, and its limits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from pmlkit.methods.ranking.pml_lc import PMLLC, LabelCorrelation, candidate_similarity
from pmlkit.methods.ranking.rank_svm import RankSVM
from pmlkit.methods.ranking.solver import solve_ranking_svm
from pmlkit.numerics.centered import centered_rows


def _candidates(n_rows=15, n_labels=5, seed=0):
    rng = np.random.default_rng(seed)
    is_candidate = rng.random((n_rows, n_labels)) < 0.5
    is_candidate[np.arange(n_rows), rng.integers(n_labels, size=n_rows)] = True
    return is_candidate


def _term(is_candidate, smoothness=0.7, reward=0.3):
    return LabelCorrelation(is_candidate, candidate_similarity(is_candidate), smoothness, reward)


def _penalty(term, confidence):
    """R(P), label pair by label pair."""
    total = -term.reward * confidence.sum()
    for p, own in zip(confidence, term.is_candidate, strict=True):
        for j in np.flatnonzero(own):
            for k in np.flatnonzero(own):
                if j < k:
                    total += term.smoothness * term.similarity[j, k] * (p[j] - p[k]) ** 2
    return total


def test_similarity_is_the_cosine_of_the_columns():
    is_candidate = _candidates()
    is_candidate[:, 4] = False
    similarity = candidate_similarity(is_candidate)
    columns = is_candidate.astype(float).T
    for j in range(5):
        for k in range(5):
            lengths = np.linalg.norm(columns[j]) * np.linalg.norm(columns[k])
            expected = columns[j] @ columns[k] / lengths if lengths and j != k else 0.0
            assert_allclose(similarity[j, k], expected, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.0, 3.0), st.floats(0.0, 3.0))
def test_the_confidence_step_is_the_best(seed, smoothness, reward):
    rng = np.random.default_rng(seed)
    is_candidate = _candidates(6, seed=seed)
    term = _term(is_candidate, smoothness, reward)
    cost = rng.exponential(size=is_candidate.shape) * is_candidate
    start = is_candidate.astype(float)
    assert_allclose(term.penalty(start), _penalty(term, start), atol=1e-9)
    best = term.minimizer(start, cost)
    assert not best[~is_candidate].any()
    assert_allclose(term.penalty(best), _penalty(term, best), atol=1e-9)

    def value(cells):
        confidence = np.zeros(is_candidate.shape)
        confidence[is_candidate] = cells
        return (cost * confidence).sum() + _penalty(term, confidence)

    rows = np.nonzero(is_candidate)[0]
    sums = (np.arange(6)[:, None] == rows).astype(float)
    reference = minimize(
        value,
        np.full(len(rows), 0.9),
        bounds=[(0, 1)] * len(rows),
        constraints={"type": "ineq", "fun": lambda p: sums @ p - 1.0, "jac": lambda _: sums},
        method="SLSQP",
        options={"ftol": 1e-10, "maxiter": 300},
    )
    assert value(best[is_candidate]) <= reference.fun + 1e-5
    assert sums @ best[is_candidate] == pytest.approx(np.maximum(sums @ best[is_candidate], 1.0), abs=1e-9)


def test_without_a_reward_confidences_sum_to_one(oracle):
    confidence = PMLLC(C3=0.0).fit(oracle.X, oracle.Y).label_confidence_
    assert_allclose(confidence.sum(axis=1), 1.0, atol=1e-6)


def test_a_large_reward_trusts_all_and_leaves_a_plain_ranking(oracle):
    model = PMLLC(C3=1e3, tol=1e-9).fit(oracle.X, oracle.Y)
    assert_allclose(model.label_confidence_.data, 1.0)
    assert model.n_iter_ == 1
    is_candidate = oracle.Y > 0
    weight = is_candidate / np.maximum((~is_candidate).sum(axis=1, keepdims=True), 1)
    features = centered_rows(oracle.X)
    solution = solve_ranking_svm(features, is_candidate, weight, tol=1e-9)
    assert_allclose(model.coef_.T, features.as_given(solution.coef, solution.intercept)[0], atol=1e-4)


def test_a_strong_similarity_spreads_confidence_evenly_which_is_rank_svm(oracle):
    even = PMLLC(C2=1e4, tol=1e-6).fit(oracle.X, oracle.Y)
    expected = oracle.Y / oracle.Y.sum(axis=1, keepdims=True)
    assert_allclose(even.label_confidence_.toarray(), expected, atol=1e-2)
    assert_allclose(even.coef_, RankSVM(tol=1e-6).fit(oracle.X, oracle.Y).coef_, atol=0.01)
    decided = PMLLC(C2=0.0).fit(oracle.X, oracle.Y).label_confidence_.data
    assert np.mean((decided < 1e-6) | (decided > 1 - 1e-6)) > 0.8


def test_sums_over_pairs_weigh_more_than_averages(oracle):
    """With equally many others in every row, summing is averaging with a larger C1."""
    Y = oracle.Y.copy()
    Y[:] = 0
    Y[np.arange(96), oracle.Y.argmax(axis=1)] = Y[:, 5] = 1
    Y[Y.sum(axis=1) == 1, 0] = 1
    summed = PMLLC(C1=0.3, pair_average=False, tol=1e-8).fit(oracle.X, Y)
    averaged = PMLLC(C1=1.2, tol=1e-8).fit(oracle.X, Y)
    assert_allclose(summed.coef_, averaged.coef_, atol=1e-8)


@pytest.mark.parametrize("wrong", [{"C1": 0.0}, {"C2": -1.0}, {"C3": "much"}, {"pair_average": 3}, {"max_iter": 0}])
def test_impossible_parameters_are_refused(oracle, wrong):
    with pytest.raises(ValueError, match=f"The '{next(iter(wrong))}' parameter of PMLLC must be"):
        PMLLC(**wrong).fit(oracle.X, oracle.Y)
