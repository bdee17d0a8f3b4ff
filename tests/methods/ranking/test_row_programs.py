"""Small quadratic programs against scipy, and projections against their definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from pmlkit.methods.ranking.row_programs import project_confidences, solve_row_programs


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.floats(-3, 3), min_size=1, max_size=5), min_size=1, max_size=4))
def test_projection_is_feasible_and_nearest(rows):
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    projected = project_confidences(np.concatenate(rows), indptr)
    rng = np.random.default_rng(0)
    for row, start, end in zip(rows, indptr[:-1], indptr[1:], strict=True):
        p = projected[start:end]
        assert p.min() >= 0
        assert p.max() <= 1 + 1e-12
        assert p.sum() >= 1 - 1e-12
        # The vector to the point makes an obtuse angle with every feasible direction.
        for _ in range(20):
            other = rng.random(len(row))
            other[rng.integers(len(row))] = 1.0
            assert (np.array(row) - p) @ (other - p) <= 1e-9


def _programs(size, n_rows=30, seed=0):
    rng = np.random.default_rng(seed)
    similarity = rng.random((n_rows, size, size))
    similarity += similarity.transpose(0, 2, 1)
    laplacian = -similarity
    laplacian[:, np.arange(size), np.arange(size)] = 0.0
    laplacian[:, np.arange(size), np.arange(size)] = -laplacian.sum(axis=2)
    strength = rng.choice([0.0, 0.1, 1.0, 10.0], size=(n_rows, 1, 1))
    linear = rng.normal(size=(n_rows, size)) + rng.choice([-1.0, 0.0, 1.0], size=(n_rows, 1))
    return linear, strength * laplacian


@pytest.mark.parametrize("size", [1, 2, 4, 7])
def test_equals_a_general_solver(size):
    linear, quadratic = _programs(size)
    solved = solve_row_programs(linear, quadratic, np.ones_like(linear))
    assert solved.min() >= 0
    assert solved.max() <= 1 + 1e-12
    assert solved.sum(axis=1).min() >= 1 - 1e-9
    for c, Q, p in zip(linear, quadratic, solved, strict=True):
        reference = minimize(
            lambda x, c=c, Q=Q: c @ x + 0.5 * x @ Q @ x,
            np.full(size, 1.0 / size),
            jac=lambda x, c=c, Q=Q: c + Q @ x,
            bounds=[(0, 1)] * size,
            constraints={"type": "ineq", "fun": lambda x: x.sum() - 1, "jac": np.ones_like},
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 500},
        )
        assert_allclose(c @ p + 0.5 * p @ Q @ p, reference.fun, atol=1e-6)


def test_never_worse_than_the_start_even_when_stopped():
    linear, quadratic = _programs(5, seed=1)
    start = np.random.default_rng(0).dirichlet(np.ones(5), size=len(linear))

    def value(p):
        return (linear * p).sum(axis=1) + 0.5 * np.einsum("ij,ijk,ik->i", p, quadratic, p)

    for max_iter in (1, 3, 1000):
        assert (value(solve_row_programs(linear, quadratic, start, max_iter=max_iter)) <= value(start)).all()


def test_where_nothing_decides_confidences_sum_to_one():
    solved = solve_row_programs(np.zeros((1, 3)), np.zeros((1, 3, 3)), np.ones((1, 3)))
    assert_allclose(solved, np.full((1, 3), 1 / 3))


def test_no_curvature_is_a_linear_program():
    linear = np.array([[1.0, 2.0, 3.0], [-1.0, -2.0, 3.0], [1e-9, 2e-9, 3e-9]])
    solved = solve_row_programs(linear, np.zeros((3, 3, 3)), np.ones((3, 3)))
    assert_allclose(solved, [[1, 0, 0], [1, 1, 0], [1, 0, 0]], atol=1e-9)
