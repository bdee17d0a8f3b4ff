import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from pmlkit.methods.particle.elicitation import (
    candidate_operator,
    propagate,
    reweight_to_class_mass,
    rows_to_unit_range,
)
from pmlkit.numerics.neighbors import nearest, reconstruction_graph


def dense_propagation(T, Y, alpha, tol=1e-5, max_iter=1000):
    """The published loop, word by word."""
    P, n_iter, change = Y.copy(), 0, np.inf
    while change >= tol and n_iter < max_iter:
        old, n_iter = P, n_iter + 1
        P = (alpha * T @ P + (1 - alpha) * Y) * Y
        total = P.sum(axis=1, keepdims=True)
        P = np.divide(P, total, out=np.zeros_like(P), where=total > 0)
        change = np.linalg.norm(P - old, 2)
    return P, n_iter


def on(values, Y):
    return sparse.csr_array((values, Y.indices, Y.indptr), Y.shape).toarray()


def random_problem(seed, n_rows=12, n_labels=4):
    rng = np.random.default_rng(seed)
    T = rng.random((n_rows, n_rows)) * (rng.random((n_rows, n_rows)) < 0.3)
    total = T.sum(axis=1, keepdims=True)
    T = np.divide(T, total, out=np.zeros_like(T), where=total > 0)
    return T, (rng.random((n_rows, n_labels)) < 0.5).astype(float)


def test_stored_propagation(oracle):
    neighbor = nearest(NearestNeighbors().fit(oracle.X), 10)[1]
    Y = sparse.csr_array(oracle.Y.astype(float))
    confidence, n_iter = propagate(reconstruction_graph(oracle.X, neighbor), Y)
    assert n_iter == 50
    assert_allclose(on(confidence, Y), oracle.load("particle_raw_propagated_selfexcluded"), atol=1e-10)
    corrected = rows_to_unit_range(on(reweight_to_class_mass(confidence, Y), Y))
    assert_allclose(corrected, oracle.load("particle_conf_train_selfexcluded"), atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.0, 0.99))
def test_equals_the_dense_loop(seed, alpha):
    T, Y = random_problem(seed)
    expected, n_iter = dense_propagation(T, Y, alpha)
    confidence, ours = propagate(sparse.csr_array(T), sparse.csr_array(Y), alpha=alpha)
    assert ours == n_iter
    assert_allclose(on(confidence, sparse.csr_array(Y)), expected, atol=1e-12)


def test_stops_at_the_iteration_limit():
    T, Y = random_problem(0)
    assert propagate(sparse.csr_array(T), sparse.csr_array(Y), max_iter=3, tol=0.0)[1] == 3


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_operator_is_the_product_on_the_candidates(seed):
    T, Y = random_problem(seed)
    candidates = sparse.csr_array(Y)
    values = np.random.default_rng(seed).random(candidates.nnz)
    flow = candidate_operator(sparse.csr_array(T), candidates) @ values
    assert_allclose(on(flow, candidates), (T @ on(values, candidates)) * Y, atol=1e-12)


def test_class_mass():
    Y = sparse.csr_array(np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]]))
    mass = on(reweight_to_class_mass(np.array([0.1, 0.9, 0.3]), Y), Y).sum(axis=0)
    assert_allclose(mass, [2.0, 1.0, 0.0])


@pytest.mark.parametrize(
    ("row", "expected"), [([0.0, 0.0], [0.0, 0.0]), ([2.0, 2.0], [1.0, 1.0]), ([2.0, 6.0], [0.0, 1.0])]
)
def test_unit_range(row, expected):
    assert_array_equal(rows_to_unit_range(np.array([row])), [expected])
