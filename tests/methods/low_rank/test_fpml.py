"""fPML against the stored factorisations and the textbook form of its updates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.metrics import label_ranking_average_precision_score

from pmlkit.methods.low_rank.fpml import FPML, automatic_lam_reg, factorise, first_factors, ridge_on_rows

PUBLISHED = {"normalize": None, "fit_intercept": False}


def _problem(n_rows=20, n_features=6, n_labels=4, seed=0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n_rows, n_features)) < 0.6, rng.normal(size=(n_rows, n_features)), 0.0)
    Y = (X @ rng.normal(size=(n_features, n_labels)) > 0.5) | (rng.random((n_rows, n_labels)) < 0.2)
    return X, sparse.csr_array(Y.astype(float))


def _objective(X, Y, G, Q, F, W, lam_x, lam_fit, lam_reg):
    norm2 = [np.sum(part**2) for part in (Y - G @ Q, X - G @ F, G @ Q - X @ W, G, Q, F, W)]
    return norm2[0] + lam_x * norm2[1] + lam_fit * norm2[2] + lam_reg * sum(norm2[3:])


def _textbook(X, Y, rank, lam_x, lam_fit, lam_reg, n_rounds):
    """Every block by its normal equations, nothing shared and nothing avoided."""
    left, singular, right = np.linalg.svd(Y, full_matrices=False)
    G, Q = left[:, :rank] * np.sqrt(singular[:rank]), np.sqrt(singular[:rank])[:, None] * right[:rank]
    ridge = lam_reg * np.eye(rank)
    values = []
    for _ in range(n_rounds):
        F = np.linalg.inv(lam_x * G.T @ G + ridge) @ (lam_x * G.T @ X)
        W = np.linalg.inv(lam_fit * X.T @ X + lam_reg * np.eye(X.shape[1])) @ (lam_fit * X.T @ G @ Q)
        Q = np.linalg.inv((1 + lam_fit) * G.T @ G + ridge) @ G.T @ (Y + lam_fit * X @ W)
        pull = Y @ Q.T + lam_x * X @ F.T + lam_fit * X @ W @ Q.T
        G = pull @ np.linalg.inv((1 + lam_fit) * Q @ Q.T + lam_x * F @ F.T + ridge)
        values.append(_objective(X, Y, G, Q, F, W, lam_x, lam_fit, lam_reg))
    return G @ Q, W, values


@pytest.mark.parametrize(
    ("lam_reg", "name", "value"), [(10.0, "10", 631.0738098748841), (0.1, "0.1", 118.21499426889206)]
)
def test_the_stored_factorisations(oracle, lam_reg, name, value):
    model = FPML(lam_reg=lam_reg, rank=4, tol=1e-10, max_iter=300, **PUBLISHED).fit(oracle.X, oracle.Y)
    assert_allclose(model.objective_[-1], value, rtol=1e-9)
    assert model.n_iter_ == {"10": 15, "0.1": 300}[name]
    assert_allclose(model.coef_.T, oracle.load(f"fpml_l3_{name}_W"), atol=1e-7)
    reconstruction = np.clip(oracle.load(f"fpml_l3_{name}_GQ"), 0.0, 1.0) * oracle.Y
    assert_allclose(model.label_confidence_.toarray(), reconstruction, atol=1e-7)


@pytest.mark.parametrize("shape", [(20, 6), (6, 20)])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_same_rounds_as_the_textbook(shape, container):
    X, Y = _problem(*shape)
    GQ, W, values = _textbook(X, Y.toarray(), 2, 0.7, 1.3, 0.4, n_rounds=7)
    found = factorise(container(X), Y, 2, 0.7, 1.3, 0.4, max_iter=7, tol=-1.0)
    assert_allclose(found.objective, values, rtol=1e-9)
    assert_allclose(found.rows @ found.labels, GQ, atol=1e-9)
    assert_allclose(found.coef, W, atol=1e-9)
    parts = (found.rows, found.labels, found.features, found.coef)
    assert_allclose(_objective(X, Y.toarray(), *parts, 0.7, 1.3, 0.4), values[-1])


weight = st.floats(0.01, 20.0)


@settings(max_examples=40, deadline=None)
@given(weight, weight, weight, st.integers(1, 4), st.sampled_from([(20, 6), (6, 20)]), st.integers(0, 20))
def test_the_objective_never_rises(lam_x, lam_fit, lam_reg, rank, shape, seed):
    X, Y = _problem(*shape, seed=seed)
    objective = factorise(X, Y, rank, lam_x, lam_fit, lam_reg, max_iter=30, tol=-1.0).objective
    assert len(objective) == 30
    assert (np.diff(objective) <= 1e-10 * objective[0]).all()


def test_the_first_factors_are_the_best_of_their_rank():
    _, Y = _problem(n_labels=5)
    left, singular, right = np.linalg.svd(Y.toarray(), full_matrices=False)
    G, Q = first_factors(Y, 3)
    assert_allclose(G @ Q, (left[:, :3] * singular[:3]) @ right[:3], atol=1e-9)
    assert_allclose(G.T @ G, Q @ Q.T, atol=1e-9)


def test_labels_without_candidates_do_no_harm():
    X, Y = _problem()
    gap = sparse.csr_array(Y.toarray() * [1, 0, 1, 0])
    G, Q = first_factors(gap, 4)
    assert_allclose(G @ Q, gap.toarray(), atol=1e-7)
    model = FPML().fit(X, gap)
    assert_allclose(model.decision_function(X)[:, [1, 3]], 0.0, atol=1e-9)


@pytest.mark.parametrize("shape", [(20, 6), (6, 20)])
def test_the_ridge_system_is_solved_on_either_side(shape):
    X, _ = _problem(*shape)
    T = np.random.default_rng(0).normal(size=(shape[0], 3))
    expected = np.linalg.solve(2.0 * X.T @ X + 0.3 * np.eye(shape[1]), 2.0 * X.T @ T)
    for rows in (X, sparse.csr_array(X)):
        assert_allclose(ridge_on_rows(rows, 2.0, 0.3)(T), expected, atol=1e-9)


def test_the_published_weight_collapses_small_data_and_the_automatic_one_does_not(oracle):
    def fitted(lam_reg):
        model = FPML(lam_reg=lam_reg).fit(oracle.X, oracle.Y)
        scores = model.decision_function(oracle.X_test)
        return np.linalg.matrix_rank(scores, tol=1e-3), label_ranking_average_precision_score(oracle.truth_test, scores)

    assert fitted(10.0) == (1, pytest.approx(0.559, abs=0.01))
    rank, precision = fitted("auto")
    assert rank > 2
    assert precision > 0.75


def test_the_automatic_weight_follows_the_singular_values_of_noise():
    rng = np.random.default_rng(0)
    for shape, share in (((100, 10), 0.3), ((2000, 40), 0.1)):
        noise = rng.random(shape) < share
        largest = np.linalg.norm(noise - share, 2)
        assert_allclose(automatic_lam_reg(sparse.csr_array(noise.astype(float))), 0.05 * largest, rtol=0.15)
    assert automatic_lam_reg(sparse.csr_array(np.ones((3, 2)))) > 0


def test_the_rank_is_bounded_by_labels_and_rows(oracle):
    assert FPML().fit(oracle.X, oracle.Y).rank_ == 6
    assert FPML(rank=2).fit(oracle.X, oracle.Y).rank_ == 2
    assert FPML(rank=50).fit(oracle.X[:3], oracle.Y[:3]).rank_ == 3
    many = np.random.default_rng(0).random((150, 130)) < 0.1
    assert FPML(max_iter=2).fit(np.eye(150), many.astype(int)).rank_ == 100


@pytest.mark.parametrize("wrong", [{"lam_fit": 0.0}, {"lam_reg": "large"}, {"rank": 0}, {"tol": -1.0}])
def test_impossible_parameters_are_refused(oracle, wrong):
    with pytest.raises(ValueError, match=f"The '{next(iter(wrong))}' parameter of FPML must be"):
        FPML(**wrong).fit(oracle.X, oracle.Y)
