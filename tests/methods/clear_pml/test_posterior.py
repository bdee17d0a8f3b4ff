from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmlkit.methods.clear_pml.posterior import candidate_confidence, noise_floor, rescale_to_sum, true_probabilities


def by_enumeration(chance, is_candidate, floor, weight=1.0):
    """Sum over all sets of true labels that a row's candidates allow, at least one."""
    labels = np.flatnonzero(is_candidate)
    total, mass = np.zeros(len(chance)), 0.0
    for truth in product([0, 1], repeat=len(labels)):
        if not any(truth):
            continue
        p = 1.0
        for label, true in zip(labels, truth, strict=True):
            p *= weight * chance[label] if true else (1 - chance[label]) * floor
        mass += p
        total[labels] += p * np.array(truth)
    return total / mass


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), floor=st.floats(0.01, 0.9), competition=st.sampled_from([0.0, 0.8, 0.99]))
def test_confidences_are_the_posterior_over_all_sets_with_a_true_label(seed, floor, competition):
    rng = np.random.default_rng(seed)
    chance = rng.uniform(0.02, 0.98, size=(3, 5))
    is_candidate = rng.uniform(size=(3, 5)) < 0.6
    is_candidate[:, 0] = True
    got = candidate_confidence(chance, is_candidate, floor, competition=competition, condition=True)
    for i in range(3):
        expected = by_enumeration(chance[i], is_candidate[i], floor, 1 - competition)
        np.testing.assert_allclose(got[i], expected, atol=1e-9)


def test_full_competition_leaves_one_true_label_a_row():
    rng = np.random.default_rng(0)
    is_candidate = rng.uniform(size=(20, 4)) < 0.7
    got = candidate_confidence(rng.uniform(0.1, 0.9, (20, 4)), is_candidate, 0.2, competition=1.0, condition=True)
    np.testing.assert_allclose(got.sum(axis=1), is_candidate.any(axis=1), atol=1e-12)
    assert not got[~is_candidate].any()


def test_without_the_condition_candidates_are_judged_alone():
    got = candidate_confidence(
        np.array([[0.5, 0.2]]), np.array([[True, False]]), 0.25, competition=0.8, condition=False
    )
    np.testing.assert_allclose(got, [[0.8, 0.0]])


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.4])
def test_the_floor_is_the_rate_of_uniform_noise(rate):
    rng = np.random.default_rng(0)
    chance = rng.beta(0.3, 1.0, size=(5000, 8))
    truth = rng.uniform(size=chance.shape) < chance
    candidates = truth | (rng.uniform(size=chance.shape) < rate)
    floor = noise_floor(chance + (1 - chance) * rate, candidates)
    assert floor == pytest.approx(rate, abs=0.02)
    np.testing.assert_allclose(true_probabilities(chance + (1 - chance) * rate, rate), np.clip(chance, 1e-4, 1 - 1e-6))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.floats(0.05, 0.95))
def test_rescaling_keeps_order_and_zeros_and_meets_the_sum(seed, share):
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(size=30) * (rng.uniform(size=30) < 0.8)
    confidence[0] = 0.5
    wanted = share * (confidence > 0).sum()
    got = rescale_to_sum(confidence, wanted)
    assert got.sum() == pytest.approx(wanted)
    np.testing.assert_array_equal(got > 0, confidence > 0)
    given = confidence > 0
    assert (np.diff(got[given][np.argsort(confidence[given])]) >= 0).all()
