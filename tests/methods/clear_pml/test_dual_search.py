import numpy as np
import pytest
from scipy import sparse

from pmlkit import ClearPML
from pmlkit.methods.clear_pml import ridge_choice
from pmlkit.methods.clear_pml.dual_ridge import dual_of_values, dual_ridge, search_in_dual
from pmlkit.methods.clear_pml.landmarks import LandmarkKernel, kernel_between
from pmlkit.methods.clear_pml.loo_ridge import _REGULARIZATIONS


@pytest.fixture(params=[0, 1, 2])
def problem(request):
    rng = np.random.default_rng(request.param)
    X = rng.normal(size=(60, 3))
    target = (np.sin(2 * X) + 0.5 * rng.normal(size=X.shape) > 0).astype(float)
    return LandmarkKernel(X, 1.5, linear=bool(request.param)), X, target


def refitted(kernel, X, target, regularization):
    """Return each row's score by a ridge regression of all other rows, with a free intercept."""
    K = kernel(X)
    mean = K.mean(axis=0)
    K = K - mean - mean[:, None] + mean.mean()
    answers = np.empty_like(target)
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        n = rest.sum()
        system = np.block([[K[np.ix_(rest, rest)] + regularization * np.eye(n), np.ones((n, 1))], [np.ones(n), 0.0]])
        solution = np.linalg.solve(system, np.vstack([target[rest], np.zeros(target.shape[1])]))
        answers[i] = K[i, rest] @ solution[:-1] + solution[-1]
    return answers


@pytest.mark.parametrize("rows", [None, np.arange(0, 60, 3), np.arange(59)])
def test_the_error_is_that_of_refits_without_each_row_at_the_best_penalty(problem, rows):
    kernel, X, target = problem
    penalty, error = search_in_dual(kernel(X), target, rows)
    counted = slice(None) if rows is None else rows
    refits = {each: refitted(kernel, X, target, each) - target for each in _REGULARIZATIONS}
    errors = {each: (left_out[counted] ** 2).sum(axis=1) for each, left_out in refits.items()}
    best = min(errors, key=lambda each: errors[each].mean())
    variance = ((target - target.mean(axis=0))[counted] ** 2).sum(axis=1).mean()
    assert error * variance == pytest.approx(errors[best].mean(), rel=1e-5)
    excess = errors[penalty] - errors[best]
    assert penalty >= best
    assert excess.mean() <= excess.std() / np.sqrt(len(excess)) + 1e-9


def test_the_regression_is_the_one_in_the_dual(problem):
    kernel, X, target = problem
    found, expected = dual_of_values(kernel(X), 0.3), dual_ridge(kernel, 0.3)
    for ours, theirs in zip(found.fit(target), expected.fit(target), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)
    np.testing.assert_allclose(
        found.loo_scores(target, found.fit(target)), expected.loo_scores(target, expected.fit(target)), atol=1e-10
    )


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("linear", [True, False])
def test_the_kernel_between_rows_is_computed_once(container, linear):
    X = container(np.random.default_rng(0).poisson(0.5, size=(30, 8)).astype(float))
    kernel, values = kernel_between(X, linear=linear)
    rows = np.asarray(X.toarray() if sparse.issparse(X) else X)
    pairs = [np.linalg.norm(one - other) for i, one in enumerate(rows) for j, other in enumerate(rows) if i != j]
    assert kernel.width == pytest.approx(np.mean(pairs))
    np.testing.assert_array_equal(values, kernel(X))


@pytest.mark.parametrize("repeated", [0, 10, 60])
def test_few_rows_are_solved_as_landmarks_are(monkeypatch, repeated):
    """With repeated rows too, which are fewer landmarks than rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 5))
    X = np.vstack([X, X[:repeated]])
    truth = X[:, :4] + 0.3 * rng.normal(size=(len(X), 4)) > 0.4
    Y = (truth | (rng.uniform(size=truth.shape) < 0.2)).astype(float)
    Y[~Y.any(axis=1), 0] = 1.0
    quick = ClearPML().fit(X, Y)
    monkeypatch.setattr(ridge_choice, "_MOSTLY_DIFFERENT", 2.0)
    slow = ClearPML().fit(X, Y)
    assert quick.regularization_ == slow.regularization_
    assert len(quick.dual_coef_) == (len(X) if repeated < 60 else 100)
    np.testing.assert_allclose(quick.label_confidence_.data, slow.label_confidence_.data, atol=1e-4)
    np.testing.assert_allclose(quick.decision_function(X), slow.decision_function(X), atol=1e-4)
