import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from pmlkit.numerics.prox import nuclear_prox, project_rows_to_simplex, soft_threshold


def shrink_by_svd(A, amount):
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    return U @ np.diag(np.maximum(s - amount, 0)) @ Vt, np.maximum(s - amount, 0)


@given(
    seed=st.integers(0, 1000),
    shape=st.sampled_from([(7, 4), (4, 7), (5, 5), (1, 6)]),
    amount=st.sampled_from([0.0, 1e-12, 1e-7, 0.3, 2.0, 100.0]),
)
@settings(max_examples=60, deadline=None)
def test_nuclear_prox_equals_the_svd(seed, shape, amount):
    A = np.random.default_rng(seed).normal(size=shape)
    shrunk, values = nuclear_prox(A, amount)
    expected, expected_values = shrink_by_svd(A, amount)
    assert_allclose(shrunk, expected, atol=1e-9)
    assert_allclose(values, expected_values[expected_values > 0], atol=1e-9)


def test_nuclear_prox_of_zero():
    shrunk, values = nuclear_prox(np.zeros((3, 2)), 0.0)
    assert not shrunk.any()
    assert len(values) == 0


def test_soft_threshold_minimises_what_it_should():
    a, amount = 0.7, 0.4
    best = minimize(lambda x: (x[0] - a) ** 2 / 2 + amount * abs(x[0]), [0.1], method="Nelder-Mead").x[0]
    assert_allclose(soft_threshold(np.array([a]), amount)[0], best, atol=1e-4)


def project_one(v, total):
    """Project by bisection on the shift: slow and obvious."""
    low, high = v.min() - total, v.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(v - middle, 0).sum() > total else (low, middle)
    return np.maximum(v - low, 0)


@given(seed=st.integers(0, 1000), scale=st.sampled_from([0.1, 1.0, 1e4]))
@settings(max_examples=50, deadline=None)
def test_projection_equals_bisection_row_by_row(seed, scale):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 6, size=8)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    values = scale * rng.normal(size=indptr[-1])
    totals = rng.uniform(0.5, 3.0, size=8)
    projected = project_rows_to_simplex(values, indptr, totals)
    for row in np.flatnonzero(sizes):
        cells = slice(indptr[row], indptr[row + 1])
        assert_allclose(projected[cells], project_one(values[cells], totals[row]), atol=1e-9 * max(scale, 1))


@pytest.mark.parametrize("n_rows", [0, 3])
def test_projection_of_nothing(n_rows):
    assert len(project_rows_to_simplex(np.zeros(0), np.zeros(n_rows + 1, dtype=int))) == 0
