"""PML-fp: its term of feature prototypes, and its limits."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from pmlkit.methods.ranking.pml_fp import PMLFP, FeaturePrototypes
from pmlkit.methods.ranking.solver import solve_ranking_svm
from pmlkit.numerics.centered import centered_rows


def _problem(n_rows=12, n_features=3, n_labels=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) + 2.0
    is_candidate = rng.random((n_rows, n_labels)) < 0.5
    is_candidate[np.arange(n_rows), rng.integers(n_labels, size=n_rows)] = True
    return X, is_candidate


def _distances(X, confidence):
    """Squared distances to the prototypes, cell by cell, in units of the mean distance from the mean."""
    spread = np.mean([np.sum((x - X.mean(axis=0)) ** 2) for x in X])
    prototypes = [np.average(X, axis=0, weights=confidence[:, j]) for j in range(confidence.shape[1])]
    return np.array([[np.sum((x - o) ** 2) / spread for o in prototypes] for x in X])


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_distances_and_penalty(container):
    X, is_candidate = _problem()
    term = FeaturePrototypes(container(X), is_candidate, 0.8, 0.5)
    confidence = np.random.default_rng(1).random(is_candidate.shape) * is_candidate
    assert_allclose(term.distances(confidence), _distances(X, confidence))
    expected = (confidence * (0.8 * _distances(X, confidence) - 0.5)).sum()
    assert_allclose(term.penalty(confidence), expected)


def test_a_label_that_lost_all_confidence_keeps_the_mean_of_its_candidates():
    X, is_candidate = _problem()
    confidence = is_candidate.astype(float)
    confidence[:, 2] = 0.0
    term = FeaturePrototypes(X, is_candidate, 1.0, 0.0)
    expected = _distances(X, is_candidate.astype(float))
    assert_allclose(term.distances(confidence), expected)
    assert_allclose(term.penalty(confidence), (confidence * expected).sum())


def test_the_confidence_step_is_the_best_of_all_choices():
    X, is_candidate = _problem()
    rng = np.random.default_rng(3)
    cost = rng.exponential(size=is_candidate.shape) * is_candidate
    term = FeaturePrototypes(X, is_candidate, 0.8, 1.4)
    before = is_candidate.astype(float)
    chosen = term.minimizer(before, cost)
    price = cost + 0.8 * _distances(X, before) - 1.4
    for i, own in enumerate(is_candidate):
        choices = [
            set(some) for size in range(1, own.sum() + 1) for some in itertools.combinations(np.flatnonzero(own), size)
        ]
        best = min(choices, key=lambda some, i=i: sum(price[i, j] for j in some))
        assert set(np.flatnonzero(chosen[i])) == best
    assert (chosen.sum(axis=1) == 1).any()
    assert (chosen.sum(axis=1) > 1).any()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.0, 3.0), st.floats(0.0, 3.0))
def test_new_prototypes_never_cost_more(seed, pull, reward):
    X, is_candidate = _problem(seed=seed)
    cost = np.random.default_rng(seed).exponential(size=is_candidate.shape) * is_candidate
    term = FeaturePrototypes(X, is_candidate, pull, reward)
    confidence = is_candidate.astype(float)
    values = []
    for _ in range(4):
        values.append((confidence * cost).sum() + term.penalty(confidence))
        confidence = term.minimizer(confidence, cost)
    assert (np.diff(values) <= 1e-9).all()


def test_without_a_reward_each_row_keeps_one_candidate(oracle):
    confidence = PMLFP(C3=0.0).fit(oracle.X, oracle.Y).label_confidence_
    assert_allclose(confidence.sum(axis=1), 1.0)


def test_a_large_reward_trusts_all_and_leaves_a_plain_ranking(oracle):
    model = PMLFP(C3=1e3, tol=1e-9).fit(oracle.X, oracle.Y)
    assert_allclose(model.label_confidence_.data, 1.0)
    assert model.n_iter_ == 1
    is_candidate = oracle.Y > 0
    weight = is_candidate / np.maximum((~is_candidate).sum(axis=1, keepdims=True), 1)
    features = centered_rows(oracle.X)
    solution = solve_ranking_svm(features, is_candidate, weight, tol=1e-9)
    assert_allclose(model.coef_.T, features.as_given(solution.coef, solution.intercept)[0], atol=1e-4)


def test_prototypes_find_candidates_of_other_clusters():
    """Two labels, two clusters; half of the rows also carry the other cluster's label."""
    rng = np.random.default_rng(0)
    own = np.repeat([0, 1], 50)
    X = rng.normal(size=(100, 4)) + 6.0 * own[:, None]
    truth = np.column_stack([own == 0, own == 1, np.zeros(100)]).astype(int)
    Y = truth.copy()
    wrong = np.arange(0, 100, 2)
    Y[wrong, 1 - own[wrong]] = 1
    confidence = PMLFP(C1=0.01, C2=1.0, C3=1.0).fit(X, Y).label_confidence_.toarray()
    assert_array_equal(confidence[Y > 0], truth[Y > 0])


@pytest.mark.parametrize("wrong", [{"C1": -1.0}, {"C2": -0.1}, {"C3": -2.0}, {"normalize": "max"}, {"tol": -1.0}])
def test_impossible_parameters_are_refused(oracle, wrong):
    with pytest.raises(ValueError, match=f"The '{next(iter(wrong))}' parameter of PMLFP must be"):
        PMLFP(**wrong).fit(oracle.X, oracle.Y)
