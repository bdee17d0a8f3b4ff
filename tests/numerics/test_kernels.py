import numpy as np
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.spatial.distance import cdist, pdist

from pmlkit.numerics import kernels as gaussian
from pmlkit.numerics.kernels import gaussian_block, mean_distance, nystrom_features, squared_distances


def rows(n=700, seed=0, density=0.3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 12)) * (rng.random((n, 12)) < density)


def test_distances_equal_scipy_dense_and_sparse():
    X = rows(40)
    expected = cdist(X[:9], X, "sqeuclidean")
    assert_allclose(squared_distances(X[:9], X), expected, atol=1e-12)
    thin = sparse.csr_array(np.hstack([X, np.zeros((40, 500))]))
    assert_allclose(squared_distances(thin[:9], thin), expected, atol=1e-12)
    assert_allclose(gaussian_block(X[:9], X, 1.7), np.exp(-expected / 1.7**2), atol=1e-12)


def test_mean_distance_equals_scipy():
    X = rows()
    assert_allclose(mean_distance(X, np.ones(700), np.random.default_rng(0)), pdist(X).mean(), rtol=1e-7)
    assert_allclose(
        mean_distance(sparse.csr_array(X), np.ones(700), np.random.default_rng(0)), pdist(X).mean(), rtol=1e-7
    )


def test_mean_distance_with_weights_repeats_rows():
    X = rows(80)
    weight = np.random.default_rng(1).integers(0, 4, size=80)
    expected = pdist(np.repeat(X, weight, axis=0)).mean()
    assert_allclose(mean_distance(X, weight.astype(float), np.random.default_rng(0)), expected, rtol=1e-7)


def test_mean_distance_of_a_sample(monkeypatch):
    monkeypatch.setattr(gaussian, "EXACT_DISTANCE_ROWS", 600)
    X = rows(3000)
    assert_allclose(mean_distance(X, np.ones(3000), np.random.default_rng(0)), pdist(X).mean(), rtol=0.03)


def test_one_row_has_no_distance():
    assert mean_distance(rows(1), np.ones(1), np.random.default_rng(0)) == 0.0


def test_features_approach_the_kernel():
    X = rows(300)
    kernel = gaussian_block(X, X, 3.0)
    error = []
    for size in (10, 60, 300):
        features = nystrom_features(X, 3.0, size, np.ones(300), np.random.default_rng(0))
        error.append(np.abs(features @ features.T - kernel).mean())
    assert error[0] > error[1] > error[2]
    assert error[2] < 1e-3
