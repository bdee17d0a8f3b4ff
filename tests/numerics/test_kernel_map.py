"""Kernel features: exact where all rows are landmarks, near where not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from pmlkit.numerics.kernel_map import kernel_map


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_exact_on_the_landmarks(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    X[20:] = X[:10]
    made = kernel_map(kind(X), 0.3, 100)
    assert made.landmarks.shape == (20, 4)
    features = made.features(kind(X))
    assert_allclose(features @ features.T, rbf_kernel(X, gamma=0.3), atol=1e-8)
    new, coef = rng.normal(size=(5, 4)), rng.normal(size=(20, 2))
    expected = rbf_kernel(new, made.landmarks, gamma=0.3) @ made.expansion(coef)
    assert_allclose(made.features(kind(new)) @ coef, expected, atol=1e-8)


def test_near_with_few_landmarks_and_the_same_in_any_order():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 2))
    made = kernel_map(X, 0.2, 100)
    assert 30 <= len(made.landmarks) <= 130
    features = made.features(X)
    assert np.quantile(np.abs(features @ features.T - rbf_kernel(X, gamma=0.2)), 0.99) < 1e-3
    order = rng.permutation(400)
    shuffled = kernel_map(X[order], 0.2, 100).features(X)
    assert np.quantile(np.abs(shuffled @ shuffled.T - features @ features.T), 0.99) < 1e-5
