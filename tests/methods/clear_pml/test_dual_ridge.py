import numpy as np
import pytest
from scipy import sparse

from landmark_ridge import LandmarkRidge, unit_rows
from pmlkit import ClearPML
from pmlkit.methods.clear_pml import landmarks, loo_ridge, ridge_choice
from pmlkit.methods.clear_pml.dual_ridge import _inverse, dual_ridge, search_in_dual
from pmlkit.methods.clear_pml.landmarks import LandmarkKernel, kernel_between
from pmlkit.methods.clear_pml.loo_ridge import search_on_landmarks


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    return LandmarkKernel(X, 1.5, linear=True), X, rng.uniform(size=(30, 3))


@pytest.mark.parametrize("regularization", [0.1, 3.0])
def test_it_is_the_regression_on_landmarks_with_every_row_as_one(regularization):
    rng = np.random.default_rng(0)
    X, target = unit_rows(rng, 30, 4), rng.uniform(size=(30, 3))
    kernel = LandmarkKernel(X, 0.8, linear=True)
    dual, primal = dual_ridge(kernel, regularization), LandmarkRidge(kernel, X, target, regularization)
    model = dual.fit(target)
    intercept, coef = dual.on_kernel(model)
    new = unit_rows(np.random.default_rng(1), 10, 4)
    np.testing.assert_allclose(kernel.times(new, coef) + intercept, primal.scores(kernel, new), atol=1e-6)
    np.testing.assert_allclose(dual.loo_scores(target, model), primal.loo_scores(), atol=1e-6)


def test_left_out_scores_are_those_of_refits_without_the_row(problem):
    kernel, X, target = problem
    ridge = dual_ridge(kernel, 0.5)
    held_out = ridge.loo_scores(target, ridge.fit(target))
    K = kernel(X)
    mean = K.mean(axis=0)
    K = K - mean - mean[:, None] + mean.mean()
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        # An intercept that costs nothing, beside the dual coefficients.
        system = np.block(
            [[K[np.ix_(rest, rest)] + 0.5 * np.eye(rest.sum()), np.ones((rest.sum(), 1))], [np.ones(rest.sum()), 0.0]]
        )
        solution = np.linalg.solve(system, np.vstack([target[rest], np.zeros(3)]))
        np.testing.assert_allclose(held_out[i], K[i, rest] @ solution[:-1] + solution[-1], atol=1e-9)


def test_single_precision_is_close(problem):
    kernel, _, target = problem
    scores = []
    for dtype in (np.float64, np.float32):
        ridge = dual_ridge(kernel, 1.0, dtype=dtype)
        scores.append(ridge.loo_scores(target.astype(dtype), ridge.fit(target.astype(dtype))))
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-4)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("linear", [False, True])
def test_rows_that_are_nearly_the_same_are_told_apart_in_single_precision(linear, container):
    """Beside one large column all others are small, and the squares of distances are below single precision."""
    rng = np.random.default_rng(0)
    X = np.hstack([rng.normal(size=(200, 3)), np.full((200, 1), 1e5)])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    target = 1.0 * (X[:, :2] > 0)
    kernel, own = kernel_between(container(X), linear=linear)
    assert kernel.width < 1e-4
    exact, ridge = (dual_ridge(kernel, 1.0, dtype=dtype) for dtype in (np.float64, np.float32))
    assert ridge.dtype == np.float32
    expected = exact.loo_scores(target, exact.fit(target))
    assert ((expected - target) ** 2).mean() < 0.1
    np.testing.assert_allclose(ridge.loo_scores(target, ridge.fit(target)), expected, atol=1e-4)
    assert kernel.precision(np.float64) == np.float64
    every = np.arange(200)
    _, by_rows = search_in_dual(own, target)
    _, by_landmarks = search_on_landmarks(kernel, own, container(X), sparse.csr_array(target), every, start=3.0)
    assert by_landmarks == pytest.approx(by_rows, rel=0.01)


def test_blocks_of_sparse_rows_are_the_kernel_in_one_piece(monkeypatch):
    X = sparse.random_array((70, 40), density=0.2, rng=np.random.default_rng(0), format="csr")
    kernel, dense = (LandmarkKernel(rows, 1.5, linear=True) for rows in (X, X.toarray()))
    expected = dual_ridge(dense, 0.5)
    monkeypatch.setattr(landmarks, "_BLOCK_CELLS", 70 * 16)
    ridge = dual_ridge(kernel, 0.5)
    np.testing.assert_allclose(ridge.mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(np.tril(ridge.factor), np.tril(expected.factor), atol=1e-10)
    np.testing.assert_allclose(ridge.diagonal, expected.diagonal, rtol=1e-9)


def test_rows_without_labels_are_landmarks_too(monkeypatch):
    rng = np.random.default_rng(0)
    X = sparse.random_array((160, 300), density=0.05, rng=rng, format="lil")
    X[:60, 0] = 1.0
    X = X.tocsr()
    Y = (rng.uniform(size=(160, 4)) < 0.4).astype(int)
    Y[:60] = 0
    Y[60:, 0] = 1
    monkeypatch.setattr(ridge_choice, "LANDMARKS", 60)
    model = ClearPML(empty_rows="negative").fit(X, Y)
    assert model.dual_coef_.shape == (160, 4)
    assert np.isfinite(model.decision_function(X)).all()
    assert model.decision_function(X[:60])[:, 0].mean() < model.decision_function(X[60:])[:, 0].mean()


def test_few_rows_of_wide_text_are_all_landmarks_and_many_are_solved_by_columns(monkeypatch):
    rng = np.random.default_rng(0)
    X = sparse.random_array((120, 300), density=0.05, rng=rng, format="csr")
    Y = (rng.uniform(size=(120, 4)) < 0.4).astype(int)
    Y[~Y.any(axis=1), 0] = 1
    monkeypatch.setattr(ridge_choice, "LANDMARKS", 60)
    assert ClearPML().fit(X, Y).dual_coef_.shape == (120, 4)
    assert ClearPML(n_landmarks=50).fit(X, Y).dual_coef_.shape == (50, 4)
    monkeypatch.setattr(ridge_choice, "_ALL_ROWS_OF_TEXT", 119)
    assert ClearPML().fit(X, Y).dual_coef_.shape == (299, 4)  # one word is in no row


@pytest.mark.parametrize("n_rows", [96, 97, 301])
def test_the_inverse_of_a_factor_is_that_of_lapack(n_rows):
    factor = np.tril(np.random.default_rng(0).normal(size=(n_rows, n_rows))) / n_rows + 2.0 * np.eye(n_rows)
    np.testing.assert_allclose(_inverse(np.asfortranarray(factor)), np.linalg.inv(factor), atol=1e-12)


def test_the_penalty_of_all_rows_is_that_of_the_regression_on_landmarks_in_double_precision():
    rng = np.random.default_rng(0)
    X = unit_rows(rng, 150, 6)
    target = (X[:, :3] + 0.3 * rng.normal(size=(150, 3)) > 0.2).astype(float)
    target[~target.any(axis=1), 0] = 1.0
    some = np.arange(0, 150, 2)
    kernel = LandmarkKernel(X[:40], 0.8, linear=True)
    for start in (0.1, 3.0, 100.0):
        found = search_on_landmarks(kernel, kernel(X[:40]), X, sparse.csr_array(target), some, start=start)
        assert found[0] == LandmarkRidge(kernel, X, target, None, rows=some, start=start).regularization


def test_up_to_some_number_of_rows_all_are_landmarks(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 5))
    truth = X[:, :4] + 0.3 * rng.normal(size=(150, 4)) > 0.4
    Y = (truth | (rng.uniform(size=truth.shape) < 0.2)).astype(float)
    Y[~Y.any(axis=1), 0] = 1.0
    monkeypatch.setattr(ridge_choice, "_ROWS_IN_DOUBLE", 200)
    monkeypatch.setattr(loo_ridge, "_REGULARIZATIONS", (1.0, 1e9))  # one penalty whatever the rows that choose it
    monkeypatch.setattr(ridge_choice, "LANDMARKS", 100)
    model = ClearPML().fit(X, Y)
    kernel = model._kernel
    assert kernel.landmarks.shape == (150, 5)
    # Rows without candidates join the regression on landmarks alone, and many rows are solved on landmarks.
    some_empty = Y * (np.arange(150) % 10 > 0)[:, None]
    assert ClearPML(empty_rows="unlabelled").fit(X, some_empty).dual_coef_.shape == (100, 4)
    monkeypatch.setattr(ridge_choice, "_ALL_ROWS", 149)
    assert ClearPML().fit(X, Y).dual_coef_.shape == (100, 4)
    # It is the regression with as many landmarks as rows, but for the kernel's width.
    monkeypatch.setattr(ridge_choice, "LANDMARKS", 150)
    monkeypatch.setattr(ridge_choice, "_MOSTLY_DIFFERENT", 2.0)
    monkeypatch.setattr("pmlkit.methods.clear_pml.landmarks._mean_distance", lambda inner, squares: kernel.width)
    slow = ClearPML().fit(X, Y)
    np.testing.assert_allclose(model.label_confidence_.data, slow.label_confidence_.data, atol=1e-4)
    np.testing.assert_allclose(model.decision_function(X), slow.decision_function(X), atol=1e-4)
