"""The convex variants: their terms and row programs against loops and scipy, and an objective that never rises."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize

from pmlkit.methods.ranking import PMLFP, PMLLC, RankSVM
from pmlkit.methods.ranking.alternation import alternate
from pmlkit.methods.ranking.convex import (
    FeaturePrototypes,
    LabelCorrelation,
    project_confidences,
    solve_row_programs,
)
from pmlkit.methods.ranking.pml_lc import candidate_similarity
from pmlkit.methods.ranking.solver import solve_ranking_svm
from pmlkit.numerics.spectral import centered_rows


def _problem(n_rows=12, n_features=3, n_labels=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) + 2.0
    is_candidate = rng.random((n_rows, n_labels)) < 0.5
    is_candidate[np.arange(n_rows), rng.integers(n_labels, size=n_rows)] = True
    return X, is_candidate


def _correlation(is_candidate, smoothness=0.7, reward=0.3, C1=1.0):
    return LabelCorrelation(is_candidate, C1, reward, candidate_similarity(is_candidate), smoothness)


def _prototypes(X, is_candidate, pull, reward, C1=1.0):
    return FeaturePrototypes(is_candidate, C1, reward, X, pull)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.floats(-3, 3), min_size=1, max_size=5), min_size=1, max_size=4))
def test_projection_is_feasible_and_nearest(rows):
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    projected = project_confidences(np.concatenate(rows), indptr)
    rng = np.random.default_rng(0)
    for row, start, end in zip(rows, indptr[:-1], indptr[1:], strict=True):
        p = projected[start:end]
        assert p.min() >= 0
        assert p.max() <= 1 + 1e-12
        assert p.sum() >= 1 - 1e-12
        # The vector to the point makes an obtuse angle with every feasible direction.
        for _ in range(20):
            other = rng.random(len(row))
            other[rng.integers(len(row))] = 1.0
            assert (np.array(row) - p) @ (other - p) <= 1e-9


def _programs(size, n_rows=30, seed=0):
    rng = np.random.default_rng(seed)
    similarity = rng.random((n_rows, size, size))
    similarity += similarity.transpose(0, 2, 1)
    laplacian = -similarity
    laplacian[:, np.arange(size), np.arange(size)] = 0.0
    laplacian[:, np.arange(size), np.arange(size)] = -laplacian.sum(axis=2)
    strength = rng.choice([0.0, 0.1, 1.0, 10.0], size=(n_rows, 1, 1))
    linear = rng.normal(size=(n_rows, size)) + rng.choice([-1.0, 0.0, 1.0], size=(n_rows, 1))
    return linear, strength * laplacian


@pytest.mark.parametrize("size", [1, 2, 4, 7])
def test_equals_a_general_solver(size):
    linear, quadratic = _programs(size)
    solved = solve_row_programs(linear, quadratic, np.ones_like(linear))
    assert solved.min() >= 0
    assert solved.max() <= 1 + 1e-12
    assert solved.sum(axis=1).min() >= 1 - 1e-9
    for c, Q, p in zip(linear, quadratic, solved, strict=True):
        reference = minimize(
            lambda x, c=c, Q=Q: c @ x + 0.5 * x @ Q @ x,
            np.full(size, 1.0 / size),
            jac=lambda x, c=c, Q=Q: c + Q @ x,
            bounds=[(0, 1)] * size,
            constraints={"type": "ineq", "fun": lambda x: x.sum() - 1, "jac": np.ones_like},
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 500},
        )
        assert_allclose(c @ p + 0.5 * p @ Q @ p, reference.fun, atol=1e-6)


def test_never_worse_than_the_start_even_when_stopped():
    linear, quadratic = _programs(5, seed=1)
    start = np.random.default_rng(0).dirichlet(np.ones(5), size=len(linear))

    def value(p):
        return (linear * p).sum(axis=1) + 0.5 * np.einsum("ij,ijk,ik->i", p, quadratic, p)

    for max_iter in (1, 3, 1000):
        assert (value(solve_row_programs(linear, quadratic, start, max_iter=max_iter)) <= value(start)).all()


def test_where_nothing_decides_confidences_sum_to_one():
    solved = solve_row_programs(np.zeros((1, 3)), np.zeros((1, 3, 3)), np.ones((1, 3)))
    assert_allclose(solved, np.full((1, 3), 1 / 3))


def test_no_curvature_is_a_linear_program():
    linear = np.array([[1.0, 2.0, 3.0], [-1.0, -2.0, 3.0], [1e-9, 2e-9, 3e-9]])
    solved = solve_row_programs(linear, np.zeros((3, 3, 3)), np.ones((3, 3)))
    assert_allclose(solved, [[1, 0, 0], [1, 1, 0], [1, 0, 0]], atol=1e-9)


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
    is_candidate = _problem(15, n_labels=5)[1]
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
def test_the_quadratic_confidence_step_is_the_best(seed, smoothness, reward):
    rng = np.random.default_rng(seed)
    is_candidate = _problem(6, n_labels=5, seed=seed)[1]
    term = _correlation(is_candidate, smoothness, reward)
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


def test_lc_without_a_reward_confidences_sum_to_one(oracle):
    confidence = PMLLC(variant="convex").fit(oracle.X, oracle.Y).label_confidence_
    assert_allclose(confidence.sum(axis=1), 1.0, atol=1e-6)


def test_lc_a_large_reward_trusts_all_and_leaves_a_plain_ranking(oracle):
    model = PMLLC(variant="convex", reward=1e3, tol=1e-9).fit(oracle.X, oracle.Y)
    assert_allclose(model.label_confidence_.data, 1.0)
    assert model.n_iter_ == 1
    is_candidate = oracle.Y > 0
    weight = is_candidate / np.maximum((~is_candidate).sum(axis=1, keepdims=True), 1)
    features = centered_rows(oracle.X)
    solution = solve_ranking_svm(features, is_candidate, weight, tol=1e-9)
    assert_allclose(model.coef_.T, features.as_given(solution.coef, solution.intercept)[0], atol=1e-4)


def test_a_strong_similarity_spreads_confidence_evenly_which_is_rank_svm(oracle):
    even = PMLLC(variant="convex", C2=1e4, tol=1e-6).fit(oracle.X, oracle.Y)
    expected = oracle.Y / oracle.Y.sum(axis=1, keepdims=True)
    assert_allclose(even.label_confidence_.toarray(), expected, atol=1e-2)
    assert_allclose(even.coef_, RankSVM(tol=1e-6).fit(oracle.X, oracle.Y).coef_, atol=0.01)
    decided = PMLLC(variant="convex", C2=0.0).fit(oracle.X, oracle.Y).label_confidence_.data
    assert np.mean((decided < 1e-6) | (decided > 1 - 1e-6)) > 0.8


def _distances(X, confidence):
    """Squared distances to the prototypes, cell by cell, in units of the mean distance from the mean."""
    spread = np.mean([np.sum((x - X.mean(axis=0)) ** 2) for x in X])
    prototypes = [np.average(X, axis=0, weights=confidence[:, j]) for j in range(confidence.shape[1])]
    return np.array([[np.sum((x - o) ** 2) / spread for o in prototypes] for x in X])


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_distances_and_penalty(container):
    X, is_candidate = _problem()
    term = _prototypes(container(X), is_candidate, 0.8, 0.5)
    confidence = np.random.default_rng(1).random(is_candidate.shape) * is_candidate
    assert_allclose(term.distances(confidence), _distances(X, confidence))
    expected = (confidence * (0.8 * _distances(X, confidence) - 0.5)).sum()
    assert_allclose(term.penalty(confidence), expected)


def test_a_label_that_lost_all_confidence_keeps_the_mean_of_its_candidates():
    X, is_candidate = _problem()
    confidence = is_candidate.astype(float)
    confidence[:, 2] = 0.0
    term = _prototypes(X, is_candidate, 1.0, 0.0)
    expected = _distances(X, is_candidate.astype(float))
    assert_allclose(term.distances(confidence), expected)
    assert_allclose(term.penalty(confidence), (confidence * expected).sum())


def test_the_confidence_step_is_the_best_of_all_choices():
    X, is_candidate = _problem()
    rng = np.random.default_rng(3)
    cost = rng.exponential(size=is_candidate.shape) * is_candidate
    term = _prototypes(X, is_candidate, 0.8, 1.4)
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
    term = _prototypes(X, is_candidate, pull, reward)
    confidence = is_candidate.astype(float)
    values = []
    for _ in range(4):
        values.append((confidence * cost).sum() + term.penalty(confidence))
        confidence = term.minimizer(confidence, cost)
    assert (np.diff(values) <= 1e-9).all()


def test_fp_without_a_reward_each_row_keeps_one_candidate(oracle):
    confidence = PMLFP(variant="convex", reward=0.0).fit(oracle.X, oracle.Y).label_confidence_
    assert_allclose(confidence.sum(axis=1), 1.0)


def test_fp_a_large_reward_trusts_all_and_leaves_a_plain_ranking(oracle):
    model = PMLFP(variant="convex", reward=1e3, tol=1e-9).fit(oracle.X, oracle.Y)
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
    confidence = PMLFP(variant="convex", C1=0.01, C3=1.0, reward=1.0).fit(X, Y).label_confidence_.toarray()
    assert_array_equal(confidence[Y > 0], truth[Y > 0])


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 10.0]), st.floats(0.0, 2.0), st.floats(0.0, 2.0))
def test_the_objective_never_rises(seed, C1, strength, reward):
    X, is_candidate = _problem(40, 5, 4, seed)
    for problem in (
        _correlation(is_candidate, strength, reward, C1),
        _prototypes(X, is_candidate, strength, reward, C1),
    ):
        found = alternate(centered_rows(X), is_candidate, problem)
        assert len(found.objective) == found.n_iter + 1
        assert (np.diff(found.objective) <= 1e-9 * np.abs(found.objective).max()).all()
        assert found.confidence.min() >= 0
        assert found.confidence.max() <= 1 + 1e-12
        assert found.confidence.sum(axis=1).min() >= 1 - 1e-9
        assert not found.confidence[~is_candidate].any()
