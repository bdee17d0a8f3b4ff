"""NLR against the authors' iteration with dense systems, and its guard."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from pmlkit import NLR
from pmlkit.methods.nlr import keep_best_candidate, oppose


def _plain(X, Y, beta, gamma, lam, n_rounds):
    """The program's rounds, with a linear system each and a row that loses all candidates keeping its best."""
    system = (1 + beta) * X.T @ X + gamma * np.eye(X.shape[1])
    ones = np.ones(Y.shape)
    noise, opposite = np.zeros(Y.shape), np.zeros((X.shape[1], Y.shape[1]))
    for _ in range(n_rounds):
        coef = np.linalg.solve(system, X.T @ (Y - noise) + beta * X.T @ ones - beta * X.T @ X @ opposite)
        opposite = np.linalg.solve(system, X.T @ (1 - Y + noise) + beta * X.T @ ones - beta * X.T @ X @ coef)
        margin = X @ coef - X @ opposite
        noise = ((Y == 1) & (margin < 1 - lam / 2)).astype(float)
        for i, row in enumerate(Y):
            if row.any() and (noise[i] == row).all():
                noise[i, max(np.flatnonzero(row), key=lambda k, i=i: margin[i, k])] = 0
    return coef, opposite, noise


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("beta", "lam"), [(100.0, 1.7), (3.0, 1.0), (0.0, 2.1)])
@pytest.mark.parametrize("n_rounds", [1, 4, 30])
def test_equals_the_dense_program(oracle, container, beta, lam, n_rounds):
    Y = sparse.csr_array(oracle.Y.astype(float))
    found = oppose(container(oracle.X), Y, beta, 10.0, lam, max_iter=n_rounds)
    coef, opposite, noise = _plain(oracle.X, oracle.Y, beta, 10.0, lam, n_rounds)
    assert_allclose(found.coef, coef, atol=1e-5)
    assert_allclose(found.opposite_coef, opposite, atol=1e-5)
    assert_array_equal(found.is_noise, noise > 0)


def test_the_objective_is_the_printed_one(oracle):
    Y = sparse.csr_array(oracle.Y.astype(float))
    found = oppose(oracle.X, Y, 3.0, 10.0, 1.0, max_iter=5)
    N, X = found.is_noise.astype(float), oracle.X
    first, second = X @ found.coef, X @ found.opposite_coef
    expected = np.square(first - oracle.Y + N).sum() + np.square(second - 1 + oracle.Y - N).sum()
    expected += 3.0 * np.square(first + second - 1).sum() + N.sum()
    expected += 10.0 * (np.square(found.coef).sum() + np.square(found.opposite_coef).sum())
    assert_allclose(found.objective[-1], expected)


def test_every_row_keeps_a_candidate(oracle):
    model = NLR(lam=0.0).fit(oracle.X, oracle.Y)
    assert model.n_dropped_ <= oracle.Y.sum() - len(oracle.Y)
    candidates = np.array([[True, True, False], [True, False, False], [False, False, False]])
    kept = keep_best_candidate(candidates, np.array([[0.1, 0.2, 9.0]] * 3), candidates)
    assert_array_equal(kept, [[True, False, False], [False, False, False], [False, False, False]])


def test_a_high_price_keeps_every_candidate(oracle):
    model = NLR(lam=50.0).fit(oracle.X, oracle.Y)
    assert model.n_dropped_ == 0
    assert NLR(lam=1.0).fit(oracle.X, oracle.Y).n_dropped_ > 0


def test_confidences_tell_what_was_dropped(oracle):
    model = NLR().fit(oracle.X, oracle.Y)
    dropped = model.label_confidence_.data < 1 - model.lam / 4
    # Rows that would have lost everything keep one candidate below the line.
    assert 0 <= dropped.sum() - model.n_dropped_ <= len(oracle.Y)


@pytest.mark.parametrize("wrong", [{"beta": -1.0}, {"gamma": 0.0}, {"lam": -0.1}, {"max_iter": 0}])
def test_impossible_parameters_are_refused(oracle, wrong):
    with pytest.raises(ValueError, match=f"The '{next(iter(wrong))}' parameter of NLR must be"):
        NLR(**wrong).fit(oracle.X, oracle.Y)
