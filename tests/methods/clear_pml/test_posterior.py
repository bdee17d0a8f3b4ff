from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmlkit.methods.clear_pml.posterior import (
    candidate_confidence,
    no_true_label,
    noise_floor,
    presence_weight,
    rescale_to_sum,
    true_probabilities,
)


def by_enumeration(chance, is_candidate, floor, weight=1.0, presence=np.inf):
    """Sum over all sets of true labels that a row's candidates allow; return confidences and the share of no label."""
    labels = np.flatnonzero(is_candidate)
    total, mass, none = np.zeros(len(chance)), 0.0, 0.0
    for truth in product([0, 1], repeat=len(labels)):
        if not any(truth) and presence == np.inf:
            continue
        p = 1.0 if not any(truth) else (1.0 if presence == np.inf else presence) / weight
        for label, true in zip(labels, truth, strict=True):
            p *= weight * chance[label] if true else (1 - chance[label]) * floor
        mass += p
        none = p if not any(truth) else none
        total[labels] += p * np.array(truth)
    return total / mass, none / mass


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    floor=st.floats(0.01, 0.9),
    competition=st.sampled_from([0.0, 0.8, 0.99, -1.0]),
    presence=st.sampled_from([1.0, 7.0, np.inf]),
)
def test_confidences_are_the_posterior_over_all_sets(seed, floor, competition, presence):
    rng = np.random.default_rng(seed)
    chance = rng.uniform(0.02, 0.98, size=(3, 5))
    is_candidate = rng.uniform(size=(3, 5)) < 0.6
    is_candidate[:, 0] = True
    options = {"competition": competition, "presence": presence}
    got = candidate_confidence(chance, is_candidate, floor, **options)
    without = no_true_label(chance, is_candidate, floor, **options)
    for i in range(3):
        expected, none = by_enumeration(chance[i], is_candidate[i], floor, 1 - competition, presence)
        np.testing.assert_allclose(got[i], expected, atol=1e-9)
        np.testing.assert_allclose(without[i], none, atol=1e-9)


def test_full_competition_leaves_one_true_label_a_row():
    rng = np.random.default_rng(0)
    is_candidate = rng.uniform(size=(20, 4)) < 0.7
    got = candidate_confidence(rng.uniform(0.1, 0.9, (20, 4)), is_candidate, 0.2, competition=1.0, presence=np.inf)
    np.testing.assert_allclose(got.sum(axis=1), is_candidate.any(axis=1), atol=1e-12)
    assert not got[~is_candidate].any()


def test_without_competition_and_presence_candidates_are_independent():
    got = candidate_confidence(np.array([[0.5, 0.2]]), np.array([[True, False]]), 0.25, competition=0.0, presence=1.0)
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


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_the_presence_weight_tells_how_many_rows_have_no_true_label(share):
    rng = np.random.default_rng(0)
    n, rate = 6000, 0.15
    has_one = rng.uniform(size=n) >= share
    truth = np.eye(6, dtype=bool)[rng.integers(0, 6, n)] & has_one[:, None]
    # Features that tell the label of a row well, and nothing about rows without one.
    guess = np.where(truth.any(axis=1), truth.argmax(axis=1), rng.integers(0, 6, n))
    chance = np.where(np.arange(6) == guess[:, None], 0.8 * (1 - share), 0.02)
    candidates = truth | (rng.uniform(size=truth.shape) < rate)
    seen = candidates.any(axis=1)
    chance, candidates, truth = chance[seen], candidates[seen], truth[seen]
    presence = presence_weight(chance, candidates, rate, competition=0.8)
    estimated = no_true_label(chance, candidates, rate, competition=0.8, presence=presence).mean()
    assert estimated == pytest.approx(1 - truth.any(axis=1).mean(), abs=0.12)


def test_without_any_candidate_every_row_is_taken_to_have_a_true_label():
    assert presence_weight(np.full((5, 1), 0.1), np.zeros((5, 1), dtype=bool), 0.1, competition=0.8) == np.inf


def test_the_likelihood_of_presence_is_that_of_the_generative_model():
    """Compare with the sum over all sets of true labels, and of candidates that they could have led to."""
    rng = np.random.default_rng(1)
    chance, floor, theta = rng.uniform(0.05, 0.6, size=3), 0.2, 0.2
    sets = list(product([0, 1], repeat=3))

    def prior(truth, a):
        odds = np.prod([(chance[k] / (1 - chance[k])) for k in range(3) if truth[k]])
        return a * theta ** (sum(truth) - 1) * odds if any(truth) else 1.0

    def probability(candidates, a):
        total = 0.0
        for truth in sets:
            if all(c >= t for c, t in zip(candidates, truth, strict=True)):
                false = [c for c, t in zip(candidates, truth, strict=True) if not t]
                total += prior(truth, a) * np.prod([floor if c else 1 - floor for c in false])
        return total / sum(prior(truth, a) for truth in sets)

    rows = np.array([c for c in sets if any(c)] * 3 + [[1, 0, 0]] * 20)
    grid = np.geomspace(1.0, 1000.0, 13)
    likelihood = [sum(np.log(probability(c, a) / (1 - probability((0, 0, 0), a))) for c in rows) for a in grid]
    best = int(np.argmax(likelihood))
    expected = np.inf if best == 12 else grid[best]
    found = presence_weight(np.tile(chance, (len(rows), 1)), rows > 0, floor, competition=1 - theta)
    assert found == pytest.approx(expected)
