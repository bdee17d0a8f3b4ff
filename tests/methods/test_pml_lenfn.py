"""PML-LENFN against loops and a general Sylvester solver, and its guards."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import linalg, sparse

from pmlkit import PMLLENFN
from pmlkit.methods import pml_lenfn
from pmlkit.methods.pml_lenfn import enhance_labels, fit_guided, label_laplacian


def _plain_weights(X, Y, own, far, margin):
    """Near and far rows one by one."""
    distance = np.array([[np.linalg.norm(a - b) for b in X] for a in X])
    others = [[j for j in range(len(X)) if j != i] for i in range(len(X))]
    sigma = np.mean([distance[i, others[i]].min() for i in range(len(X))])
    J = np.zeros(Y.shape)
    for i in range(len(X)):
        similarity = {j: np.exp(-distance[i, j] / (2 * sigma**2)) for j in others[i]}
        high, low = max(similarity.values()), min(similarity.values())
        near = [j for j, s in similarity.items() if s >= high - margin * (high - low)]
        distant = [j for j, s in similarity.items() if s <= low + margin * (high - low)]
        J[i] = own * Y[i] + (1 - own - far) * Y[near].mean(axis=0) + far * (1 - Y[distant]).mean(axis=0)
    return J * Y


def _plain_rounds(X, J, V, lam, n_rounds):
    """The program's rounds, with a general solver of the Sylvester equation."""
    laplacian = label_laplacian(J)

    def ridge(A, target):
        return np.linalg.solve(A.T @ A + lam[2] * np.eye(A.shape[1]), A.T @ target)

    H = 1 / (1 + np.exp(-X @ V))
    U = ridge(H, J)
    for _ in range(n_rounds):
        right = lam[0] * np.eye(J.shape[1]) + lam[1] / 2 * (laplacian + laplacian.T)
        W = linalg.solve_sylvester(2 * X.T @ X, right, X.T @ (J + H @ U))
        U = ridge(H, X @ W)
        V = V - 0.001 * (X.T @ (H * (1 - H) * ((H @ U - X @ W) @ U.T)) + lam[3] * V)
        H = 1 / (1 + np.exp(-X @ V))
    rest, guided = X @ W - J, X @ W - H @ U
    # Outside of the span of the rows V only decays; the objective of what was fitted leaves that out.
    inside = np.linalg.pinv(X) @ X @ V
    objective = (rest**2).sum() + (guided**2).sum() + lam[0] * (W**2).sum() + lam[1] * np.trace(W @ laplacian @ W.T)
    return W, objective + lam[2] * (U**2).sum() + lam[3] * (inside**2).sum()


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("margin", [0.0, 0.2, 0.9])
def test_weights_equal_loops(oracle, container, margin, monkeypatch):
    monkeypatch.setattr(pml_lenfn, "_BLOCK_CELLS", 700)  # several blocks
    Y = sparse.csr_array(oracle.Y.astype(float))
    found = enhance_labels(container(oracle.X), Y, 0.6, 0.1, margin)
    plain = _plain_weights(oracle.X, oracle.Y, 0.6, 0.1, margin)
    assert_allclose(sparse.csr_array((found, Y.indices, Y.indptr), Y.shape).toarray(), plain, atol=1e-12)


def test_weights_of_few_compared_rows_stay_weights(oracle, monkeypatch):
    monkeypatch.setattr(pml_lenfn, "_REFERENCE_ROWS", 30)
    found = enhance_labels(oracle.X, sparse.csr_array(oracle.Y.astype(float)), 0.6, 0.1, 0.2)
    assert np.isfinite(found).all()
    assert found.min() >= 0.6
    assert found.max() <= 1.0 + 1e-12


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n_rounds", [1, 4])
@pytest.mark.parametrize("n_columns", [None, 300])  # fewer features than rows, and more
def test_rounds_equal_the_program(oracle, container, n_rounds, n_columns):
    rng = np.random.default_rng(0)
    X = oracle.X if n_columns is None else oracle.X @ rng.normal(size=(oracle.X.shape[1], n_columns)) / 20
    V = rng.normal(size=(X.shape[1], 4))
    lam = (10.0, 1.0, 0.5, 2.0)
    found, values = fit_guided(container(X), oracle.Y.astype(float), V, lam, max_iter=n_rounds)
    coef, objective = _plain_rounds(X, oracle.Y.astype(float), V, lam, n_rounds)
    assert_allclose(found, coef, atol=1e-7)
    assert_allclose(values[-1], objective, rtol=1e-6)


def test_the_objective_falls_even_on_large_features(oracle):
    V = np.random.default_rng(0).normal(size=(oracle.X.shape[1], 6))
    _, objective = fit_guided(100.0 * oracle.X, oracle.Y.astype(float), V, (10.0, 1.0, 0.01, 10.0))
    assert np.isfinite(objective).all()
    assert (np.diff(objective) <= 1e-9 * objective[:-1]).all()


def test_near_rows_raise_and_far_rows_lower_a_label():
    X = np.array([[0.0], [0.1], [0.2], [9.0], [9.1]])
    Y = np.array([[1, 1], [1, 0], [1, 0], [0, 1], [0, 1]])
    weight = enhance_labels(X, sparse.csr_array(Y.astype(float)), 0.7, 0.1, 0.2)
    assert weight[0] > weight[1]


def test_weights_that_exceed_one_are_refused(oracle):
    with pytest.raises(ValueError, match=r"own_weight and far_weight"):
        PMLLENFN(own_weight=0.8, far_weight=0.3).fit(oracle.X, oracle.Y)


@pytest.mark.parametrize("wrong", [{"margin": 2.0}, {"lam1": 0.0}, {"lam3": 0.0}, {"max_iter": 0}])
def test_impossible_parameters_are_refused(oracle, wrong):
    with pytest.raises(ValueError, match=f"The '{next(iter(wrong))}' parameter"):
        PMLLENFN(**wrong).fit(oracle.X, oracle.Y)
