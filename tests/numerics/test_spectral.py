"""Eigenvectors of Gram matrices against plain linear algebra."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from pmlkit.numerics import spectral
from pmlkit.numerics.spectral import (
    ShiftedRows,
    ThinSVD,
    add_constant_column,
    centered_rows,
    eigenpairs,
    smaller_gram,
    spectral_norm,
)


def _rows(n_rows, n_features, seed=0):
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n_rows, n_features)) < 0.4, rng.normal(size=(n_rows, n_features)), 0.0)


def _as(kind, n_rows, n_features, seed=0):
    """Return features of a kind, and the same as a dense array."""
    X = _rows(n_rows, n_features, seed)
    if kind == "dense":
        return X, X
    if kind == "sparse":
        return sparse.csr_array(X), X
    shift = np.random.default_rng(seed + 1).normal(size=n_features)
    return ShiftedRows(sparse.csr_array(X), shift), X + shift


KINDS = ("dense", "sparse", "shifted")
SHAPES = ((30, 7), (7, 30), (9, 9))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_thin_svd_is_a_thin_svd(kind, shape):
    X, dense = _as(kind, *shape)
    svd = ThinSVD(X)
    _, singular, Bt = np.linalg.svd(dense, full_matrices=False)
    assert_allclose(svd.squared, singular[singular > 1e-7][::-1] ** 2, atol=1e-10)
    rng = np.random.default_rng(3)
    coordinates = rng.normal(size=(len(svd.squared), 4))
    W = svd.coefficients(coordinates)
    assert_allclose(W.T @ W, coordinates.T @ coordinates, atol=1e-8)
    assert_allclose(Bt.T @ (Bt @ W), W, atol=1e-8)
    assert_allclose(svd.scores(coordinates), dense @ W, atol=1e-8)
    U = rng.normal(size=(shape[0], 3))
    assert_allclose(svd.coefficients(svd.project(U)), dense.T @ U, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30, deadline=None)
@given(st.sampled_from(SHAPES), st.floats(1e-3, 1e6), st.integers(0, 5))
def test_ridge_solutions_solve_the_system(kind, shape, penalty, seed):
    X, dense = _as(kind, *shape, seed)
    rhs = np.random.default_rng(seed).normal(size=(shape[1], 2))
    expected = np.linalg.solve(dense.T @ dense + penalty * np.eye(shape[1]), rhs)
    assert_allclose(ThinSVD(X).solve_ridge(rhs, penalty), expected, rtol=1e-7, atol=1e-9 / penalty)


def test_null_directions_are_dropped():
    X = np.repeat(_rows(20, 3), 2, axis=1)
    assert len(ThinSVD(X).squared) == 3
    nothing = ThinSVD(np.zeros((4, 2)))
    assert len(nothing.squared) == 0
    assert_allclose(nothing.scores(np.zeros((0, 3))), np.zeros((4, 3)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_smaller_gram_matrix(kind, shape):
    X, dense = _as(kind, *shape)
    expected = dense @ dense.T if shape[0] < shape[1] else dense.T @ dense
    assert_allclose(smaller_gram(X), expected, atol=1e-12)


def test_shifted_rows_multiply_like_dense_ones():
    X, dense = _as("shifted", 6, 4)
    assert X.shape == (6, 4)
    assert_allclose(X @ np.eye(4), dense)
    assert_allclose(X.T @ np.eye(6), dense.T)


def test_the_constant_column():
    X = _rows(5, 3)
    expected = np.hstack([X, np.ones((5, 1))])
    assert_allclose(add_constant_column(X), expected)
    with_constant = add_constant_column(sparse.csr_array(X))
    assert isinstance(with_constant, sparse.csr_array)
    assert_allclose(with_constant.toarray(), expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_spectral_norm(shape):
    A = _rows(*shape)
    assert_allclose(spectral_norm(A), np.linalg.norm(A, 2))
    assert spectral_norm(np.zeros((3, 0))) == 0.0


def test_the_norm_of_many_equal_singular_values():
    """Iterative methods do not converge on a cluster as tight as this one."""
    left, _ = np.linalg.qr(_rows(300, 200))
    right, _ = np.linalg.qr(_rows(200, 200))
    values = 3.0 - 1e-13 * np.arange(200)
    assert_allclose(spectral_norm(left * values @ right.T), 3.0, rtol=1e-9)


def test_too_large_a_side_is_refused_with_advice(monkeypatch):
    monkeypatch.setattr(spectral, "_MAX_SIDE", 5)
    smaller_gram(_rows(5, 80))
    with pytest.raises(ValueError, match=r"6 rows and 80 features.*at most 5 rows.*TruncatedSVD"):
        smaller_gram(_rows(6, 80))


@pytest.mark.parametrize("shape", [(30, 6), (6, 30), (1, 4), (5, 5)])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("turned", [True, False])
def test_scores_are_those_of_the_model_as_given(shape, kind, turned, monkeypatch):
    if not turned:
        monkeypatch.setattr("pmlkit.numerics.spectral._MAX_CENTERED_SIDE", 0)
    X = _rows(*shape)
    centered = centered_rows(kind(X))
    rng = np.random.default_rng(1)
    model = rng.normal(size=(len(centered.squared), 3)), rng.normal(size=3)
    coef, intercept = centered.as_given(*model)
    assert_allclose(X @ coef + intercept, centered.rows @ model[0] + model[1], atol=1e-10)
    # The penalty does not notice the turn, and columns of the turned rows are orthogonal.
    assert_allclose((coef**2).sum(), (model[0] ** 2).sum())
    table = centered.rows @ np.eye(len(centered.squared))
    assert_allclose((table**2).sum(axis=0), centered.squared, atol=1e-10)
    assert_allclose(centered.rows.T @ np.ones((shape[0], 1)), 0.0, atol=1e-10)
    chosen = np.arange(0, shape[0], 2)
    assert_allclose(centered.take(chosen) @ model[0], table[chosen] @ model[0], atol=1e-12)


def test_only_thin_sparse_rows_stay_sparse():
    full, thin = sparse.csr_array(_rows(40, 20)), sparse.random_array((400, 200), density=0.005, rng=0).tocsr()
    assert centered_rows(full).basis is not None
    assert centered_rows(thin).basis is None


def test_directions_without_spread_are_dropped():
    X = _rows(30, 4)
    X[:, 3] = 5.0
    assert len(centered_rows(np.hstack([X, X])).squared) == 3


@pytest.mark.parametrize(("size", "rank"), [(12, 12), (12, 5), (60, 1)])
def test_eigenpairs_rebuild_the_gram_matrix_without_its_null_space(size, rank):
    A = np.random.default_rng(0).normal(size=(size, rank))
    values, vectors = eigenpairs(A @ A.T)
    assert len(values) == rank
    assert (np.diff(values) >= 0).all()
    assert_allclose(vectors * values @ vectors.T, A @ A.T, atol=1e-11)
    assert len(eigenpairs(np.zeros((3, 3)))[0]) == 0
