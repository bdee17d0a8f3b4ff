import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import linalg, optimize, sparse

from pmlkit.methods.drama import manifold_confidence, project_to_margins


def random_problem(seed, n_rows=10, n_labels=3):
    rng = np.random.default_rng(seed)
    R = rng.random((n_rows, n_rows)) * (rng.random((n_rows, n_rows)) < 0.4)
    np.fill_diagonal(R, 0.0)
    R /= np.maximum(R.sum(axis=1, keepdims=True), 1e-12)
    Y = (rng.random((n_rows, n_labels)) < 0.5).astype(float)
    return sparse.csr_array(R), sparse.csr_array(Y)


def admm(graph, Y, rho=0.5, n_iter=1500):
    """A slow and obvious solver of the same problem, dense."""
    A = np.eye(Y.shape[0]) - graph.toarray()
    factor = linalg.cho_factor(2 * A.T @ A + rho * np.eye(len(A)))
    Z = project_to_margins(np.zeros(Y.shape), Y, 0.01, 0.5)
    U = np.zeros_like(Z)
    for _ in range(n_iter):
        L = linalg.cho_solve(factor, rho * (Z - U))
        Z = project_to_margins(L + U, Y, 0.01, 0.5)
        U += L - Z
    return Z, float(np.linalg.norm(A @ Z) ** 2)


def test_stored_optimum(oracle):
    graph = sparse.csr_array(oracle.load("drama_lle_weights"))
    confidence, objective = manifold_confidence(graph, sparse.csr_array(oracle.Y.astype(float)), tol=1e-9)
    stored = json.loads((oracle.folder / "drama_meta.json").read_text())
    assert_allclose(objective[-1], stored["obj"], rtol=1e-10)
    assert_allclose(confidence, oracle.load("drama_conf_train"), rtol=0, atol=1e-5)


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 10**6))
def test_objective_equals_the_slow_solver(seed):
    graph, Y = random_problem(seed)
    _, objective = manifold_confidence(graph, Y, tol=1e-9)
    assert_allclose(objective[-1], admm(graph, Y)[1], rtol=1e-5, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_objective_never_rises_and_constraints_hold(seed):
    graph, Y = random_problem(seed)
    confidence, objective = manifold_confidence(graph, Y, max_iter=50)
    assert (np.diff(objective) <= 0).all()
    assert_allclose(objective[-1], np.linalg.norm(confidence - graph @ confidence) ** 2, rtol=1e-9)
    candidate = Y.toarray() > 0
    assert (confidence[candidate] >= -0.01 - 1e-12).all()
    assert (confidence[~candidate] <= -0.5).all()
    sums = np.where(candidate, confidence, 0.0).sum(axis=1)
    assert (sums[candidate.any(axis=1)] >= 1 - 1e-9).all()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_projection_is_the_nearest_point(seed):
    rng = np.random.default_rng(seed)
    table, candidate = rng.normal(size=4), rng.random(4) < 0.6
    candidate[0] = True
    projected = project_to_margins(table[None], sparse.csr_array(candidate[None].astype(float)), 0.1, 0.3)[0]
    answer = optimize.minimize(
        lambda v: np.sum((v - table) ** 2),
        np.where(candidate, 1.0, -0.5),
        jac=lambda v: 2 * (v - table),
        bounds=[(-0.1, None) if one else (None, -0.3) for one in candidate],
        constraints={"type": "ineq", "fun": lambda v: v[candidate].sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert_allclose(projected, answer.x, atol=1e-5)


@pytest.mark.parametrize("n_rows", [40, 80])
def test_large_and_small_problems_find_the_step_size(n_rows):
    graph, Y = random_problem(3, n_rows=n_rows)
    _, objective = manifold_confidence(graph, Y, tol=1e-9)
    assert_allclose(objective[-1], admm(graph, Y)[1], rtol=1e-5)
