import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmlkit.methods.clear_pml.landmarks import LandmarkKernel
from pmlkit.methods.clear_pml.loo_ridge import _REGULARIZATIONS, ridge_system, search_regularization


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
    X = rng.normal(size=(60, 4))
    return LandmarkKernel(X[:20], 1.5, linear=False), X, (X[:, :3] > 0.2).astype(float)


@pytest.mark.parametrize("regularization", [0.1, 3.0, 100.0])
def test_the_model_is_plain_ridge_regression(problem, regularization):
    kernel, X, target = problem
    ridge = ridge_system(kernel, X).solved(regularization)
    intercept, dual = ridge.on_kernel(ridge.fit(target))
    new = np.random.default_rng(1).normal(size=(10, 4))
    expected = plain_ridge(kernel, X, target, regularization)(new)
    np.testing.assert_allclose(kernel.times(new, dual) + intercept, expected, atol=1e-8)


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


@pytest.mark.parametrize("linear", [False, True])
def test_held_out_scores_are_those_of_refits_without_the_row(linear):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(25, 3))
    target = rng.uniform(size=(25, 2))
    kernel = LandmarkKernel(X[:10], 1.0, linear=linear)
    ridge = ridge_system(kernel, X).solved(0.5)
    held_out = ridge.loo_scores(target, ridge.fit(target))
    np.testing.assert_allclose(held_out, leave_one_out(X, kernel, target, 0.5), atol=1e-8)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), row=st.integers(0, 14))
def test_a_rows_own_target_never_moves_its_held_out_score(seed, row):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(15, 2))
    target = rng.uniform(size=(15, 1))
    ridge = ridge_system(LandmarkKernel(X, 1.0, linear=False), X).solved(1.0)
    changed = target.copy()
    changed[row] += 10.0
    before, after = (ridge.loo_scores(y, ridge.fit(y))[row] for y in (target, changed))
    np.testing.assert_allclose(after, before, atol=1e-7)


def test_the_search_finds_the_best_penalty_of_the_whole_grid(problem):
    kernel, X, _ = problem
    target = np.sin(3 * X[:, :1])
    system = ridge_system(kernel, X)
    errors = []
    for regularization in _REGULARIZATIONS:
        held_out = leave_one_out(X, kernel, target, regularization)
        errors.append(((held_out - target) ** 2).mean())
    chosen, error = search_regularization(system, target, np.arange(len(X)))
    assert error * target.var() == pytest.approx(min(errors), rel=1e-6)
    assert chosen >= _REGULARIZATIONS[int(np.argmin(errors))]


def test_single_precision_is_close(problem):
    kernel, X, target = problem
    answers = []
    for dtype in (np.float64, np.float32):
        ridge = ridge_system(kernel, X, dtype=dtype).solved(1.0)
        answers.append(ridge.loo_scores(target.astype(dtype), ridge.fit(target.astype(dtype))))
    np.testing.assert_allclose(answers[1], answers[0], atol=1e-3)
