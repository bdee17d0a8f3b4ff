"""Schirn against the authors' iteration with dense matrices, and its guards."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from pmlkit import Schirn
from pmlkit.exceptions import PMLWarning
from pmlkit.methods.schirn import fit_high_rank, raise_singular_values


def _plain(X, Y, lam, alpha, b, n_rounds):
    """The program's rounds, with a linear system and a singular value decomposition each."""
    noise, smooth, multiplier, mu = np.zeros(Y.shape), np.ones(Y.shape), np.ones(Y.shape), 1e-4
    for _ in range(n_rounds):
        system = 2 * b * np.eye(X.shape[1]) + mu * X.T @ X
        coef = np.linalg.solve(system, mu * X.T @ smooth - X.T @ multiplier)
        residual = Y - smooth
        soft = np.sign(residual) * np.maximum(np.abs(residual) - alpha / 2, 0)
        noise = (np.clip(soft, 0, Y) > 0.5).astype(float)
        for i, row in enumerate(Y):
            if row.any() and (noise[i] == row).all():
                noise[i, max(np.flatnonzero(row), key=lambda k, i=i: smooth[i, k])] = 0
        middle = (2 * Y - 2 * noise + multiplier + mu * X @ coef) / (2 + mu)
        left, values, right = np.linalg.svd(middle, full_matrices=False)
        smooth = left @ np.diag(values + lam / (1 + mu / 2)) @ right
        multiplier = multiplier + mu * (X @ coef - smooth)
        mu = min(1.1 * mu, 10)
    return coef, noise, smooth


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("lam", "alpha", "b"), [(0.04, 0.5, 0.1), (0.1, 0.1, 10.0), (0.0, 1.0, 1.0)])
@pytest.mark.parametrize("n_rounds", [1, 5, 100])
def test_equals_the_dense_program(oracle, container, lam, alpha, b, n_rounds):
    Y = sparse.csr_array(oracle.Y.astype(float))
    found = fit_high_rank(container(oracle.X), Y, lam, alpha, b, max_iter=n_rounds)
    coef, noise, smooth = _plain(oracle.X, oracle.Y, lam, alpha, b, n_rounds)
    assert_allclose(found.coef, coef, atol=1e-6 * np.abs(coef).max())
    assert_array_equal(found.is_noise, noise > 0)
    expected = np.square(smooth - oracle.Y + noise).sum() + alpha * noise.sum() + b * np.square(coef).sum()
    assert_allclose(found.objective[-1], expected - 2 * lam * np.linalg.svd(smooth)[1].sum(), rtol=1e-6)
    assert not found.ran_away


def test_singular_values_are_raised_and_zeros_stay():
    rng = np.random.default_rng(0)
    G = rng.normal(size=(20, 4)) @ np.diag([1.0, 2.0, 0.0, 3.0]) @ rng.normal(size=(4, 6))
    raised = np.linalg.svd(raise_singular_values(G, 0.5))[1]
    values = np.linalg.svd(G)[1]
    assert_allclose(raised[:3], values[:3] + 0.5)
    assert_allclose(raised[3:], 0.0, atol=1e-7)


def test_an_iteration_that_runs_away_is_stopped_and_said(oracle):
    with pytest.warns(PMLWarning, match="Schirn.*100 rounds.*grew"):
        model = Schirn(lam=1e4).fit(oracle.X, oracle.Y)
    assert np.isfinite(model.decision_function(oracle.X_test)).all()


def test_every_row_keeps_a_candidate(oracle):
    model = Schirn(alpha=0.0, lam=0.0, b=1e4).fit(oracle.X, oracle.Y)
    assert 0 < model.n_dropped_ <= oracle.Y.sum() - len(oracle.Y)


def test_a_high_price_keeps_every_candidate(oracle):
    assert Schirn(alpha=5.0).fit(oracle.X, oracle.Y).n_dropped_ == 0


@pytest.mark.parametrize("wrong", [{"lam": -1.0}, {"alpha": -0.1}, {"b": 0.0}, {"max_iter": 0}])
def test_impossible_parameters_are_refused(oracle, wrong):
    with pytest.raises(ValueError, match=f"The '{next(iter(wrong))}' parameter of Schirn must be"):
        Schirn(**wrong).fit(oracle.X, oracle.Y)
