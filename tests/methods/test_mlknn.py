import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pmlkit import MLkNN


def reference_scores(X, Y, X_test, k, s):
    """ML-kNN as the paper's pseudo-code has it: loops and counts."""

    def neighbours(x, skip=None):
        distance = [(np.sum((x - X[i]) ** 2), i) for i in range(len(X)) if i != skip]
        return [i for _, i in sorted(distance)[:k]]

    n, q = Y.shape
    scores = np.zeros((len(X_test), q))
    for j in range(q):
        prior = (s + Y[:, j].sum()) / (2 * s + n)
        with_label, without = np.zeros(k + 1), np.zeros(k + 1)
        for i in range(n):
            votes = sum(Y[m, j] for m in neighbours(X[i], skip=i))
            (with_label if Y[i, j] else without)[votes] += 1
        for t, x in enumerate(X_test):
            votes = sum(Y[m, j] for m in neighbours(x))
            present = prior * (s + with_label[votes]) / (s * (k + 1) + with_label.sum())
            absent = (1 - prior) * (s + without[votes]) / (s * (k + 1) + without.sum())
            scores[t, j] = present / (present + absent)
    return scores


def test_equals_the_authors_program(oracle):
    model = MLkNN().fit(oracle.X, oracle.Y)
    assert_allclose(model.decision_function(oracle.X_test), oracle.load("mlknn_scores_test"), rtol=0, atol=1e-12)
    assert_array_equal(model.predict(oracle.X_test), oracle.load("mlknn_labels_test"))


@pytest.mark.parametrize("n_neighbors", [1, 4])
@pytest.mark.parametrize("smoothing", [0.5, 1.0])
def test_equals_plain_loops_with_ties_and_duplicates(n_neighbors, smoothing):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(60, 3)).astype(float)  # Many equal distances and equal rows.
    Y = rng.integers(0, 2, size=(60, 4))
    Y[:, 0] = 1
    X_test = rng.integers(0, 3, size=(15, 3)).astype(float)
    model = MLkNN(n_neighbors=n_neighbors, smoothing=smoothing).fit(X, Y)
    assert_allclose(model.decision_function(X_test), reference_scores(X, Y, X_test, n_neighbors, smoothing), atol=1e-12)


def test_confidence_comes_from_the_neighbours_alone(oracle):
    """A row's own labels do not vote for it: its confidence is the posterior of its neighbours' count."""
    model = MLkNN(n_neighbors=3).fit(oracle.X, oracle.Y)
    distance = np.linalg.norm(oracle.X[0] - oracle.X, axis=1)
    distance[0] = np.inf
    votes = oracle.Y[np.argsort(distance)[:3]].sum(axis=0)
    for label in np.flatnonzero(oracle.Y[0]):
        assert model.label_confidence_[0, label] == model.posterior_[label, votes[label]]


def test_fewer_rows_than_neighbours(oracle):
    model = MLkNN(n_neighbors=10).fit(oracle.X[:5], oracle.Y[:5])
    assert model.posterior_.shape == (6, 5)


def test_one_row_is_a_clear_error(oracle):
    with pytest.raises(ValueError, match="at least two rows"):
        MLkNN().fit(oracle.X[:1], oracle.Y[:1])
