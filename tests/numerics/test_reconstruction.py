import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import nnls
from sklearn.neighbors import NearestNeighbors

from pmlkit.numerics import neighbors
from pmlkit.numerics.neighbors import nearest, nonnegative_least_squares, reconstruction_graph, reconstruction_weights
from pmlkit.numerics.scaling import scaled


def one_by_one(X, neighbor):
    return np.array([nnls(X[around].T, row)[0] for row, around in zip(X, neighbor, strict=True)])


def neighbours(X, k=10):
    return nearest(NearestNeighbors().fit(X), k)[1]


CASES = {
    "centred": lambda rng: rng.normal(size=(80, 30)),
    "positive": lambda rng: rng.random((80, 30)),
    "far from the origin": lambda rng: 1.0 + 1e-3 * rng.normal(size=(80, 40)),
    "fewer features than neighbours": lambda rng: rng.normal(size=(80, 4)),
    "twins": lambda rng: np.repeat(rng.normal(size=(25, 20)), 3, axis=0),
    "rows of zeros": lambda rng: rng.normal(size=(60, 20)) * (np.arange(60) % 5 > 0)[:, None],
}


@pytest.mark.parametrize("case", CASES)
def test_equals_scipy_row_by_row(case):
    X = CASES[case](np.random.default_rng(0))
    neighbor = neighbours(X)
    assert_allclose(reconstruction_weights(X, neighbor), one_by_one(X, neighbor), rtol=0, atol=1e-10)


def test_most_rows_need_no_fallback(monkeypatch):
    X = np.random.default_rng(0).random((200, 30))
    calls = []
    monkeypatch.setattr(neighbors, "nnls", lambda *problem: calls.append(1) or nnls(*problem))
    reconstruction_weights(X, neighbours(X))
    assert len(calls) == 0


@pytest.mark.parametrize("cells", [1, 1000])
def test_blocks_and_containers_do_not_matter(monkeypatch, cells):
    X = np.random.default_rng(1).random((40, 15))
    X[X < 0.5] = 0.0
    neighbor = neighbours(X, 6)
    expected = reconstruction_weights(X, neighbor)
    monkeypatch.setattr(neighbors, "_CELLS_AT_ONCE", cells)
    assert_allclose(reconstruction_weights(X, neighbor), expected, rtol=0, atol=1e-12)
    assert_allclose(reconstruction_weights(sparse.csr_array(X), neighbor), expected, rtol=0, atol=1e-12)


def test_stored_weights(oracle):
    X = scaled(oracle.X, "unit")
    assert_allclose(reconstruction_graph(X, neighbours(X)).toarray(), oracle.load("drama_lle_weights"), atol=1e-10)


def test_graph_rows_sum_to_one_or_zero_and_neighbours_are_left_alone():
    X = CASES["rows of zeros"](np.random.default_rng(0))
    neighbor = neighbours(X)
    before = neighbor.copy()
    sums = reconstruction_graph(X, neighbor).sum(axis=1)
    assert_array_equal(neighbor, before)
    assert_array_equal(sums[~X.any(axis=1)], 0.0)
    assert_allclose(sums[sums > 0], 1.0)
    assert (sums > 0).sum() > 20


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 7))
def test_optimality_conditions(seed, k):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(5, k + 2, k))
    gram, cross = factor.transpose(0, 2, 1) @ factor, rng.normal(size=(5, k))
    weights, sound = nonnegative_least_squares(gram, cross)
    slope = (gram @ weights[:, :, None])[:, :, 0] - cross
    spectrum = np.linalg.eigvalsh(gram)
    assert sound[spectrum[:, 0] > 1e-6 * spectrum[:, -1]].all()
    assert (weights >= 0).all()
    assert (slope[sound] >= -1e-9).all()
    assert_allclose((weights * slope)[sound], 0.0, atol=1e-7)


def test_singular_problems_are_owned_up_to():
    gram = np.array([np.ones((2, 2)), np.eye(2)])
    assert_array_equal(nonnegative_least_squares(gram, np.ones((2, 2)))[1], [False, True])
