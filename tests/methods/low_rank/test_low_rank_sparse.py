"""The certified solver of PML-LRS against the stored optima, a plain method and its own certificate."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from pmlkit.methods.low_rank.pml_lrs import Penalties, _dual_value, split_low_rank_sparse
from pmlkit.numerics.prox import nuclear_prox, soft_threshold
from pmlkit.numerics.spectral import ThinSVD

SETTINGS = ("g0.01_b0.1_e1", "g1_b1_e0.1", "g0.1_b0.1_e0.1", "g0.1_b0.5_e0.3")


def _objective(X, Y, W, U, penalties):
    return (
        0.5 * np.linalg.norm(X @ W - U) ** 2
        + penalties.lam_w * np.linalg.norm(W, "nuc")
        + penalties.lam_u * np.linalg.norm(U, "nuc")
        + penalties.lam_v * np.abs(Y - U).sum()
    )


def _problem(n_rows=25, n_features=6, n_labels=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    Y = (X @ rng.normal(size=(n_features, n_labels)) > 0.5) | (rng.random((n_rows, n_labels)) < 0.2)
    return X, Y.astype(float)


def _plain_multipliers(X, Y, penalties, n_iter=1500):
    """The published style of iteration with a fixed step of 1: three copies, one block after the other."""
    W, U, V, J, K = np.zeros((X.shape[1], Y.shape[1])), Y.copy(), 0 * Y, np.zeros((X.shape[1], Y.shape[1])), Y.copy()
    sum_dual, w_dual, u_dual = 0 * Y, 0 * W, 0 * Y
    system = np.linalg.inv(X.T @ X + np.eye(X.shape[1]))
    for _ in range(n_iter):
        W = system @ (X.T @ U + J - w_dual)
        J = nuclear_prox(W + w_dual, penalties.lam_w)[0]
        V = soft_threshold(Y - U + sum_dual, penalties.lam_v)
        U = (X @ W + Y - V + sum_dual + K - u_dual) / 3
        K = nuclear_prox(U + u_dual, penalties.lam_u)[0]
        sum_dual, w_dual, u_dual = sum_dual + Y - U - V, w_dual + W - J, u_dual + U - K
    return J, K


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_stored_optima_are_reached(oracle, setting):
    stored = json.loads((oracle.folder / "pmllrs_convex_meta.json").read_text())[setting]
    X, Y = oracle.X, oracle.Y.astype(float)
    penalties = Penalties(stored["gamma_W"], stored["beta_U"], stored["eta_V"])
    rotation = ThinSVD(X)
    found = split_low_rank_sparse(rotation, Y, penalties, tol=1e-8, max_iter=2000)
    assert found.gap <= 1e-8
    assert_allclose(found.objective[-1], stored["obj"], rtol=1e-7)
    W = rotation.coefficients(found.coordinates)
    assert_allclose(_objective(X, Y, W, found.truth, penalties), stored["obj"], rtol=1e-6)
    if setting == "g0.1_b0.5_e0.3":
        assert_allclose(W, oracle.load("pmllrs_convex_W"), atol=1e-6)
        assert_allclose(found.truth, oracle.load("pmllrs_convex_U"), atol=1e-6)
        assert_allclose(Y - found.truth, oracle.load("pmllrs_convex_V"), atol=1e-6)


@pytest.mark.parametrize("shape", [(25, 6), (8, 20)])
def test_same_solution_as_a_plain_method(shape):
    X, Y = _problem(*shape)
    penalties = Penalties(0.5, 0.4, 0.3)
    rotation = ThinSVD(X)
    found = split_low_rank_sparse(rotation, Y, penalties, tol=1e-10, max_iter=5000)
    W, U = _plain_multipliers(X, Y, penalties)
    assert_allclose(found.objective[-1], _objective(X, Y, W, U, penalties), rtol=1e-6)
    assert_allclose(rotation.coefficients(found.coordinates), W, atol=1e-4)
    assert_allclose(found.truth, U, atol=1e-4)


positive = st.floats(0.02, 5.0)


@settings(max_examples=25, deadline=None)
@given(positive, positive, positive, st.booleans(), st.integers(0, 10))
def test_any_setting_reaches_its_gap(lam_w, lam_u, lam_v, box, seed):
    X, Y = _problem(seed=seed)
    penalties = Penalties(lam_w, lam_u, lam_v, box)
    found = split_low_rank_sparse(ThinSVD(X), Y, penalties, tol=1e-6, max_iter=3000)
    assert found.gap <= 1e-6
    assert np.isfinite(found.objective).all()


@settings(max_examples=50, deadline=None)
@given(st.booleans(), st.integers(0, 1000), st.floats(0.01, 10.0))
def test_the_dual_value_is_below_every_objective(box, seed, size):
    X, Y = _problem(seed=seed % 7)
    rng = np.random.default_rng(seed)
    penalties = Penalties(0.7, 0.5, 0.4, box)
    bound = _dual_value(ThinSVD(X), Y, penalties, size * rng.normal(size=Y.shape), size * rng.normal(size=Y.shape))
    noise = rng.random(Y.shape) * Y if box else rng.normal(size=Y.shape)
    W = np.linalg.lstsq(X, Y - noise, rcond=None)[0] * rng.random()
    assert bound <= _objective(X, Y, W, Y - noise, penalties)


def test_the_box_confines_the_noise():
    X, Y = _problem()
    free = split_low_rank_sparse(ThinSVD(X), Y, Penalties(0.3, 0.2, 0.1), tol=1e-7, max_iter=3000)
    boxed = split_low_rank_sparse(ThinSVD(X), Y, Penalties(0.3, 0.2, 0.1, box=True), tol=1e-7, max_iter=3000)
    noise = Y - boxed.truth
    assert noise.min() >= 0.0
    assert (noise <= Y).all()
    assert noise.max() > 0.1
    assert (Y - free.truth).min() < -1e-3, "this problem would not need the box"
    assert boxed.objective[-1] > free.objective[-1]


def test_it_stops_when_asked():
    X, Y = _problem()
    found = split_low_rank_sparse(ThinSVD(X), Y, Penalties(0.3, 0.2, 0.1), tol=0.0, on_check=lambda: True)
    assert found.n_iter == 10
    assert len(found.objective) == 1
    assert found.gap > 0
