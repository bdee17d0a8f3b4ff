"""The ranking loss against a loop over pairs."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from pmlkit.numerics import ranking_loss
from pmlkit.numerics.ranking_loss import candidate_cost, pair_weight


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


def test_blocks_of_rows_do_not_matter(monkeypatch):
    rng = np.random.default_rng(0)
    scores, is_candidate = rng.normal(size=(50, 6)), rng.random((50, 6)) < 0.4
    whole = candidate_cost(scores, is_candidate)
    monkeypatch.setattr(ranking_loss, "_BLOCK_CELLS", 20)
    assert_array_equal(candidate_cost(scores, is_candidate), whole)


def test_every_row_with_pairs_weighs_one():
    rng = np.random.default_rng(1)
    is_candidate = rng.random((30, 5)) < 0.5
    is_candidate[0], is_candidate[1] = True, False
    n_others = (~is_candidate).sum(axis=1, keepdims=True)
    total = (pair_weight(is_candidate) * n_others).sum(axis=1)
    n_candidates = is_candidate.sum(axis=1)
    assert_allclose(total, ((n_candidates > 0) & (n_candidates < 5)).astype(float))
