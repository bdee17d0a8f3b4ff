"""The ranking solver against certificates computed pair by pair, and against support vector machines."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import linprog
from sklearn.svm import SVC

from pmlkit.methods.ranking.hinge import candidate_cost, pair_weight
from pmlkit.methods.ranking.solver import solve_ranking_svm
from pmlkit.numerics.spectral import centered_rows


def _problem(seed=0, n_rows=40, n_features=5, n_labels=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) + 2.0
    is_candidate = (X - 2.0) @ rng.normal(size=(n_features, n_labels)) + rng.normal(size=(n_rows, n_labels)) > 0.5
    is_candidate[:3] = True
    return X, is_candidate


def _value(X, coef, intercept, is_candidate, weight):
    return 0.5 * (coef**2).sum() + (weight * candidate_cost(X @ coef + intercept, is_candidate)).sum()


def _is_subgradient(force, is_candidate, weight):
    """Return whether pairs with weights in [0, weight] can exert a row's forces."""
    pairs = [(k, j) for k in np.flatnonzero(is_candidate) for j in np.flatnonzero(~is_candidate)]
    if not pairs:
        return np.allclose(force, 0.0)
    effect = np.zeros((len(force), len(pairs)))
    for number, (k, j) in enumerate(pairs):
        effect[k, number], effect[j, number] = -1.0, 1.0
    tol = 1e-8
    slack = np.hstack([effect, np.eye(len(force))])
    bounds = [(0.0, weight[k]) for k, _ in pairs] + [(-tol, tol)] * len(force)
    return linprog(np.zeros(slack.shape[1]), A_eq=slack, b_eq=force, bounds=bounds).status == 0


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.01, 1.0, 100.0]))
@example(1_000_000, 0.01)  # The best bound is not the last one.
def test_the_certificate_is_honest(seed, C):
    """Weak duality, with a dual point whose feasibility is shown pair by pair."""
    X, is_candidate = _problem(seed)
    weight = C * pair_weight(is_candidate)
    features = centered_rows(X)
    solution = solve_ranking_svm(features, is_candidate, weight, tol=1e-9)
    assert solution.gap <= 1e-9
    force = solution.multiplier
    assert all(_is_subgradient(*row) for row in zip(force, is_candidate, weight, strict=True))
    assert_allclose(force.sum(axis=0), 0.0, atol=1e-5 * C)
    dual = -force[is_candidate].sum() - 0.5 * ((X.T @ force) ** 2).sum()
    value = _value(X, *features.as_given(solution.coef, solution.intercept), is_candidate, weight)
    assert_allclose(value, solution.objective[-1], rtol=1e-10)
    assert_allclose(dual, value, rtol=1e-6)


def test_the_trace_falls_and_no_nearby_model_is_better():
    X, is_candidate = _problem()
    weight = pair_weight(is_candidate)
    features = centered_rows(X)
    solution = solve_ranking_svm(features, is_candidate, weight, tol=1e-10)
    assert (np.diff(solution.objective) <= 0).all()
    coef, intercept = features.as_given(solution.coef, solution.intercept)
    best = _value(X, coef, intercept, is_candidate, weight)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-1):
        for _ in range(20):
            moved = coef + size * rng.normal(size=coef.shape), intercept + size * rng.normal(size=intercept.shape)
            assert _value(X, *moved, is_candidate, weight) > best


def test_two_complementary_labels_are_a_support_vector_machine():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 4))
    y = X[:, 0] + 0.5 * rng.normal(size=80) > 0.3
    features = centered_rows(X)
    solution = solve_ranking_svm(features, np.column_stack([y, ~y]), 1.0 * np.column_stack([y, ~y]), tol=1e-10)
    coef, intercept = features.as_given(solution.coef, solution.intercept)
    machine = SVC(kernel="linear", C=2.0, tol=1e-8).fit(X, y)
    assert_allclose(coef[:, 0] - coef[:, 1], machine.coef_[0], atol=1e-4)
    assert_allclose(intercept[0] - intercept[1], machine.intercept_[0], atol=1e-4)


@pytest.mark.parametrize("shape", [(40, 5), (12, 30)])
def test_the_form_of_the_features_does_not_matter(shape, monkeypatch):
    """Dense or sparse, turned or not: the same optimum."""
    X, is_candidate = _problem(n_rows=shape[0], n_features=shape[1])
    X[np.random.default_rng(0).random(X.shape) < 0.5] = 0.0
    weight = pair_weight(is_candidate)

    def fitted(rows):
        features = centered_rows(rows)
        solution = solve_ranking_svm(features, is_candidate, weight, tol=1e-10)
        return features.as_given(solution.coef, solution.intercept)

    turned = fitted(X)
    monkeypatch.setattr("pmlkit.numerics.spectral._MAX_CENTERED_SIDE", 0)
    for rows in (X, sparse.csr_array(X)):
        coef, intercept = fitted(rows)
        assert_allclose(coef, turned[0], atol=1e-4)
        value = _value(X, coef, intercept, is_candidate, weight)
        assert_allclose(value, _value(X, *turned, is_candidate, weight), rtol=1e-8)


def test_a_warm_start_is_never_worse_and_soon_done():
    X, is_candidate = _problem()
    weight = pair_weight(is_candidate)
    features = centered_rows(X)
    cold = solve_ranking_svm(features, is_candidate, weight, tol=1e-6)
    warm = solve_ranking_svm(features, is_candidate, weight, tol=1e-6, start=cold)
    assert warm.objective[-1] <= cold.objective[-1]
    assert len(warm.objective) < 0.5 * len(cold.objective)
    stopped = solve_ranking_svm(features, is_candidate, 0.3 * weight, max_iter=2, start=cold)
    value = _value(X, *features.as_given(cold.coef, cold.intercept), is_candidate, 0.3 * weight)
    assert_allclose(stopped.objective[0], value, rtol=1e-10)
    assert stopped.objective[-1] <= stopped.objective[0]


def test_limits_and_callbacks_stop_it():
    X, is_candidate = _problem()
    features, weight = centered_rows(X), pair_weight(is_candidate)
    assert len(solve_ranking_svm(features, is_candidate, weight, tol=1e-12, max_iter=3).objective) == 4
    calls = []
    stopped = solve_ranking_svm(
        features, is_candidate, weight, tol=1e-12, on_iteration=lambda: calls.append(1) or len(calls) == 5
    )
    assert len(calls) == 5
    assert stopped.gap > 1e-12


def test_nothing_to_rank():
    X, is_candidate = _problem()
    solution = solve_ranking_svm(centered_rows(X), is_candidate, np.zeros(is_candidate.shape))
    assert not solution.coef.any()
    assert solution.gap == 0.0
