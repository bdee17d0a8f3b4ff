import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from landmark_ridge import LandmarkRidge, unit_rows
from pmlkit.methods.clear_pml.dual_ridge import dual_of_values, search_in_dual
from pmlkit.methods.clear_pml.landmarks import LandmarkKernel


def plain_ridge(kernel, X, target, regularization):
    """Solve the normal equations as they are written; return the fit as a function of rows."""
    K = kernel(X)
    mean = K.mean(axis=0)
    M = kernel(kernel.landmarks) + 1e-9 * len(kernel.landmarks) * np.eye(len(kernel.landmarks))
    centred = K - mean
    y = target.mean(axis=0)
    coef = np.linalg.solve(centred.T @ centred + regularization * M, centred.T @ (target - y))
    return lambda rows: y + (kernel(rows) - mean) @ coef


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X = unit_rows(rng, 60, 4)
    return LandmarkKernel(X[:20], 0.8, linear=False), X, (X[:, :3] > 0.1).astype(float)


@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("regularization", [0.1, 3.0, 100.0])
def test_the_model_is_plain_ridge_regression(problem, regularization, n_blocks):
    kernel, X, target = problem
    new = unit_rows(np.random.default_rng(1), 10, 4)
    expected = plain_ridge(kernel, X, target, regularization)(new)
    found = LandmarkRidge(kernel, X, target, regularization, n_blocks=n_blocks).scores(kernel, new)
    np.testing.assert_allclose(found, expected, atol=1e-8)


def leave_one_out(system_rows, kernel, target, regularization):
    """Refit without each row in turn, the columns' means of all rows staying (they hold no targets)."""
    K = kernel(system_rows)
    centred = K - K.mean(axis=0)
    M = kernel(kernel.landmarks) + 1e-9 * len(kernel.landmarks) * np.eye(len(kernel.landmarks))
    answers = np.empty_like(target)
    for i in range(len(target)):
        rest = np.arange(len(target)) != i
        # The intercept is a free coefficient of a constant column.
        design = np.column_stack([np.ones(rest.sum()), centred[rest]])
        penalty = np.zeros((len(M) + 1, len(M) + 1))
        penalty[1:, 1:] = regularization * M
        coef = np.linalg.solve(design.T @ design + penalty, design.T @ target[rest])
        answers[i] = np.concatenate([[1.0], centred[i]]) @ coef
    return answers


@pytest.mark.parametrize("n_blocks", [1, 2])
@pytest.mark.parametrize("linear", [False, True])
def test_held_out_scores_are_those_of_refits_without_the_row(linear, n_blocks):
    rng = np.random.default_rng(2)
    X = unit_rows(rng, 25, 3)
    target = rng.uniform(size=(25, 2))
    kernel = LandmarkKernel(X[:10], 0.6, linear=linear)
    held_out = LandmarkRidge(kernel, X, target, 0.5, n_blocks=n_blocks).loo_scores()
    np.testing.assert_allclose(held_out, leave_one_out(X, kernel, target, 0.5), atol=1e-8)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), row=st.integers(0, 14))
def test_a_rows_own_target_never_moves_its_held_out_score(seed, row):
    rng = np.random.default_rng(seed)
    X = unit_rows(rng, 15, 2)
    target = rng.uniform(size=(15, 1))
    changed = target.copy()
    changed[row] += 10.0
    kernel = LandmarkKernel(X, 0.6, linear=False)
    before, after = (LandmarkRidge(kernel, X, y, 1.0).loo_scores()[row] for y in (target, changed))
    np.testing.assert_allclose(after, before, atol=1e-7)


def test_the_search_finds_the_penalty_of_the_dual_with_every_row_as_landmark(problem):
    _, X, target = problem
    target[~target.any(axis=1), 0] = 1.0
    kernel = LandmarkKernel(X, 0.8, linear=True)
    rows = np.arange(0, len(X), 3)
    for start in (0.1, 3.0, 300.0):
        penalty, _ = search_in_dual(kernel(X), target, rows, start=start)
        expected = dual_of_values(kernel(X), penalty)
        found = LandmarkRidge(kernel, X, target, None, rows=rows, start=start)
        assert found.regularization == penalty
        np.testing.assert_allclose(found.loo_scores(), expected.loo_scores(target, expected.fit(target)), atol=1e-6)


def test_single_precision_is_close(problem):
    kernel, X, target = problem
    found = [LandmarkRidge(kernel, X, target, 1.0, dtype=dtype).loo_scores() for dtype in (np.float64, np.float32)]
    np.testing.assert_allclose(found[1], found[0], atol=1e-3)
