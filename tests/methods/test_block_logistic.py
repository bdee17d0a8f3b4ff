"""Many logistic regressions at once, against a plain optimiser."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, sparse

from pmlkit.methods.block_logistic import SampleHessian, loss_and_gradient, minimise

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 5)) * [1.0, 3.0, 0.1, 1.0, 1.0]
Y = sparse.csr_array((X @ rng.normal(size=(5, 3)) + rng.normal(size=(300, 3)) > 0.5).astype(float))
FOLD = rng.integers(0, 3, 300)
LABEL, LEFT_OUT = np.array([0, 1, 2, 0, 2]), np.array([-1, -1, 1, 0, 2])
C = 7.0


def objective(w, column):
    """The objective of one regression, as it is written."""
    rows = np.not_equal(FOLD, LEFT_OUT[column])
    y = 2.0 * Y.toarray()[rows, LABEL[column]] - 1.0
    odds = X[rows] @ w[:-1] + w[-1]
    return 0.5 * w @ w + C * np.logaddexp(0.0, -y * odds).sum()


def evaluate(coef, columns):
    loss, gradient = loss_and_gradient(X, Y, FOLD, coef=coef, label=LABEL[columns], left_out=LEFT_OUT[columns])
    return 0.5 * (coef**2).sum(axis=0) + C * loss, coef + C * gradient


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_losses_and_gradients_are_those_of_the_formula(container, monkeypatch):
    monkeypatch.setattr("pmlkit.methods.block_logistic._CELLS", 250)  # some rows at a time
    coef = rng.normal(size=(6, 5))
    options = {"coef": coef, "label": LABEL, "left_out": LEFT_OUT}
    loss, gradient = loss_and_gradient(container(X), Y, FOLD, **options)
    for k in range(5):
        own = coef[:, k]
        assert_allclose(0.5 * own @ own + C * loss[k], objective(own, k), rtol=1e-12)
        slope = optimize.approx_fprime(own, objective, 1e-6, k)
        assert_allclose(own + C * gradient[:, k], slope, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("n_sampled", [300, 60, 20])
def test_the_optimum_of_all_rows_whatever_the_sample(n_sampled):
    some = np.arange(n_sampled)
    missing = np.append((X**2).sum(axis=0) - 300 / n_sampled * (X[some] ** 2).sum(axis=0), 0.0)
    accuracy = 1e-6 if n_sampled == 300 else 1e-2
    hessian = SampleHessian(
        X[some], FOLD[some], C, LEFT_OUT, np.full(5, 300 / n_sampled), np.maximum(missing, 0.0), accuracy
    )
    coef, n_passes = minimise(evaluate, hessian, np.zeros((6, 5)), max_iter=500)
    assert n_passes < 500
    for k in range(5):
        reference = optimize.minimize(objective, np.zeros(6), args=(k,), method="BFGS", options={"gtol": 1e-7})
        assert_allclose(coef[:, k], reference.x, atol=1e-5)
        assert objective(coef[:, k], k) <= reference.fun * (1 + 1e-12)
    assert np.abs(evaluate(coef, np.arange(5))[1]).max() < 1e-5


def test_passes_are_limited():
    hessian = SampleHessian(X, FOLD, C, LEFT_OUT, np.ones(5), np.zeros(6), 1e-6)
    assert minimise(evaluate, hessian, np.zeros((6, 5)), max_iter=3)[1] == 3
