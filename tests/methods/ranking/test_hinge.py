"""The ranking loss and its proximal operator against loops over pairs and optimality conditions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog

from pmlkit.methods.ranking import hinge
from pmlkit.methods.ranking.hinge import candidate_cost, pair_weight, prox_ranking_hinge


def _by_pairs(scores, is_candidate):
    cost = np.zeros(scores.shape)
    for i, row in enumerate(scores):
        for k in np.flatnonzero(is_candidate[i]):
            cost[i, k] = sum(max(0.0, 1.0 - row[k] + row[j]) for j in np.flatnonzero(~is_candidate[i]))
    return cost


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 7), st.booleans())
def test_equals_the_loop_over_pairs(seed, n_labels, with_ties):
    rng = np.random.default_rng(seed)
    scores = 2 * rng.normal(size=(5, n_labels))
    if with_ties:
        scores = scores.round()
    is_candidate = rng.random(scores.shape) < 0.5
    assert_allclose(candidate_cost(scores, is_candidate), _by_pairs(scores, is_candidate), atol=1e-12)


def test_blocks_of_rows_do_not_matter_to_the_loss(monkeypatch):
    rng = np.random.default_rng(0)
    scores, is_candidate = rng.normal(size=(50, 6)), rng.random((50, 6)) < 0.4
    whole = candidate_cost(scores, is_candidate)
    monkeypatch.setattr(hinge, "_BLOCK_CELLS", 20)
    assert_array_equal(candidate_cost(scores, is_candidate), whole)


def test_every_row_with_pairs_weighs_one():
    rng = np.random.default_rng(1)
    is_candidate = rng.random((30, 5)) < 0.5
    is_candidate[0], is_candidate[1] = True, False
    n_others = (~is_candidate).sum(axis=1, keepdims=True)
    total = (pair_weight(is_candidate) * n_others).sum(axis=1)
    n_candidates = is_candidate.sum(axis=1)
    assert_allclose(total, ((n_candidates > 0) & (n_candidates < 5)).astype(float))


def _problem(seed, n_rows, n_labels, *, with_ties=False):
    rng = np.random.default_rng(seed)
    scores = rng.choice([0.3, 1.0, 3.0]) * rng.normal(size=(n_rows, n_labels))
    if with_ties:
        scores = scores.round()
    is_candidate = rng.random(scores.shape) < rng.uniform(0.1, 0.9)
    weight = rng.choice([0.01, 0.1, 1.0]) * rng.random(scores.shape) * is_candidate
    weight[rng.random(scores.shape) < 0.2] = 0.0
    if with_ties:
        weight = 0.25 * is_candidate
    return scores, is_candidate, weight


def _is_minimum(point, scores, is_candidate, weight, tol):
    """Return whether the move from `scores` to `point` is a sum of forces that the pairs may exert.

    A pair that falls short of its margin pushes with its full weight, one that exceeds it not
    at all, and one that meets it with anything between: a linear program finds out.
    """
    pairs = [(k, j) for k in np.flatnonzero(is_candidate) for j in np.flatnonzero(~is_candidate)]
    if not pairs:
        return np.allclose(point, scores, atol=tol)
    effect = np.zeros((len(scores), len(pairs)))
    bounds = []
    for number, (k, j) in enumerate(pairs):
        effect[k, number], effect[j, number] = 1.0, -1.0
        shortfall = 1.0 - point[k] + point[j]
        bounds.append((weight[k] if shortfall > tol else 0.0, 0.0 if shortfall < -tol else weight[k]))
    slack = np.hstack([effect, np.eye(len(scores))])
    program = linprog(
        np.zeros(slack.shape[1]), A_eq=slack, b_eq=point - scores, bounds=bounds + [(-tol, tol)] * len(scores)
    )
    return program.status == 0


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 7), st.booleans())
def test_meets_the_optimality_conditions(seed, n_labels, with_ties):
    scores, is_candidate, weight = _problem(seed, 3, n_labels, with_ties=with_ties)
    point = prox_ranking_hinge(scores, is_candidate, weight).point
    for i in range(3):
        assert _is_minimum(point[i], scores[i], is_candidate[i], weight[i], 1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_meets_the_optimality_conditions_with_many_labels(seed):
    scores, is_candidate, weight = _problem(seed, 2, 40)
    point = prox_ranking_hinge(scores, is_candidate, weight).point
    for i in range(2):
        assert _is_minimum(point[i], scores[i], is_candidate[i], weight[i], 1e-7)


def test_a_wrong_point_does_not_meet_them():
    scores, is_candidate, weight = np.zeros(3), np.array([True, False, False]), np.array([0.2, 0, 0])
    right = prox_ranking_hinge(scores[None], is_candidate[None], weight[None]).point[0]
    assert _is_minimum(right, scores, is_candidate, weight, 1e-7)
    assert not _is_minimum(right + np.array([1e-3, 0, 0]), scores, is_candidate, weight, 1e-7)


def test_blocks_of_rows_do_not_matter_to_the_proximal_operator(monkeypatch):
    problem = _problem(5, 60, 6)
    whole = prox_ranking_hinge(*problem)
    monkeypatch.setattr(hinge, "_BLOCK_CELLS", 30)
    parts = prox_ranking_hinge(*problem)
    assert_allclose(parts.point, whole.point, atol=1e-12)
    groups = [{frozenset(prox.tied_cell[prox.tie == t]) for t in set(prox.tie)} for prox in (whole, parts)]
    assert groups[0] == groups[1]
    assert len(groups[0]) > 10


@pytest.mark.parametrize("seed", range(5))
def test_ties_give_the_derivative(seed):
    rng = np.random.default_rng(seed)
    scores, is_candidate = rng.normal(size=(20, 6)), rng.random((20, 6)) < 0.5
    weight = 0.3 * rng.random(scores.shape) * is_candidate
    prox = prox_ranking_hinge(scores, is_candidate, weight)
    direction = rng.normal(size=scores.shape)
    small = 1e-7
    difference = (prox_ranking_hinge(scores + small * direction, is_candidate, weight).point - prox.point) / small
    expected = direction.copy().ravel()
    for tie in set(prox.tie):
        cells = prox.tied_cell[prox.tie == tie]
        expected[cells] = expected[cells].mean()
    # A change of tie between the two points would show as a difference of order one.
    assert_allclose(difference.ravel(), expected, atol=1e-5)
    assert len(prox.tie) > 0


def test_huge_and_tiny_scores():
    scores, is_candidate, weight = _problem(0, 50, 5)
    for scale in (1e-8, 1e8):
        point = prox_ranking_hinge(scale * scores, is_candidate, weight).point
        assert np.isfinite(point).all()
        assert_allclose(point.sum(axis=1), (scale * scores).sum(axis=1), rtol=1e-9, atol=1e-7)
