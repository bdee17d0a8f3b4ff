import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from pmlkit.methods.particle.elicitation import (
    credible_labels,
    credible_labels_by_folds,
    neighbour_votes,
    propagated_confidence,
)


@pytest.mark.parametrize(
    ("with_self", "stored"),
    [(False, "particle_conf_train_selfexcluded"), (True, "particle_conf_train_asreleased")],
)
def test_stored_confidences(oracle, with_self, stored):
    Y = sparse.csr_array(oracle.Y.astype(float))
    index = NearestNeighbors().fit(oracle.X)
    confidence, _ = propagated_confidence(oracle.X, Y, index, n_neighbors=10, alpha=0.95, with_self=with_self)
    assert_allclose(confidence.toarray(), oracle.load(stored), rtol=0, atol=1e-10)


def test_stored_credible_labels(oracle):
    Y = sparse.csr_array(oracle.Y.astype(float))
    _, credible = credible_labels_by_folds(oracle.X, Y, n_neighbors=10, alpha=0.95, threshold=0.9)
    assert_array_equal(credible, oracle.load("particle_credible_train") > 0)


def test_votes_weigh_by_distance():
    confidence = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]])
    distance, neighbor = np.array([[1.0, 2.0, 5.0]]), np.array([[2, 0, 1]])
    expected = np.array([7 / 8, 6 / 8, 3 / 8]) @ confidence[neighbor[0]]
    expected = (expected - expected.min()) / np.ptp(expected)
    assert_allclose(neighbour_votes(distance, neighbor, sparse.csr_array(confidence))[0], expected)


@pytest.mark.parametrize(("distance", "neighbor"), [([[0.0, 0.0]], [[0, 1]]), ([[3.0]], [[0]])])
def test_votes_of_twins_and_of_a_single_neighbour(distance, neighbor):
    votes = neighbour_votes(np.array(distance), np.array(neighbor), sparse.csr_array(np.eye(2, 3)))
    assert np.isfinite(votes).all()
    assert votes[0, 0] == 1.0


def test_votes_for_one_label_are_a_mean():
    votes = neighbour_votes(np.array([[1.0, 1.0]]), np.array([[0, 1]]), sparse.csr_array(np.array([[1.0], [0.0]])))
    assert_array_equal(votes, [[0.5]])


def test_credible_labels_stay_within_the_candidates_and_leave_no_row_bare():
    rng = np.random.default_rng(0)
    votes, confidence, candidate = rng.random((50, 6)), rng.random((50, 6)), rng.random((50, 6)) < 0.3
    credible = credible_labels(votes, confidence, candidate, 0.9)
    assert not (credible & ~candidate).any()
    assert_array_equal(credible.any(axis=1), candidate.any(axis=1))
    sure = (votes >= 0.9) & candidate
    assert_array_equal(credible[sure.any(axis=1)], sure[sure.any(axis=1)])


def test_equal_votes_are_settled_by_confidence():
    votes, candidate = np.array([[1.0, 0.0, 0.0]]), np.array([[False, True, True]])
    assert_array_equal(credible_labels(votes, np.array([[0.0, 0.2, 0.4]]), candidate, 0.9), [[False, False, True]])
