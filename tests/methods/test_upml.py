"""UPML: its risks are unbiased, equal the printed ones, and are minimised."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from scipy.special import expit

from pmlkit import UPML
from pmlkit.methods import upml
from pmlkit.methods.upml import logistic_risk, noise_rates, ranking_risk

RATE = np.array([0.1, 0.4, 0.6])
SCORES = np.array([[0.3, -1.2, 0.8]])


def _logistic(z):
    return np.log1p(np.exp(-z))


def _sigmoid(z):
    return expit(-z)


@pytest.mark.parametrize("risk", [logistic_risk, ranking_risk])
@pytest.mark.parametrize("truth", list(itertools.product([0, 1], repeat=3)))
def test_the_risk_is_unbiased(risk, truth):
    """Over all candidate sets, weighted by their probabilities, it is the risk on the truth."""
    truth = np.array(truth)
    expected = 0.0
    for candidates in itertools.product([0, 1], repeat=3):
        y = np.array(candidates)
        probability = np.prod(np.where(truth == 1, y == 1, np.where(y == 1, RATE, 1 - RATE)))
        expected += probability * risk(SCORES, ((y - RATE) / (1 - RATE))[None])[0]
    assert_allclose(expected, risk(SCORES, truth[None].astype(float))[0])


@pytest.mark.parametrize("candidates", list(itertools.product([0, 1], repeat=3)))
def test_the_risks_are_the_printed_ones(candidates):
    f, y = SCORES[0], np.array(candidates)
    relevance = ((y - RATE) / (1 - RATE))[None]
    hamming = {}
    for phi in (_logistic, _sigmoid):
        hamming[phi] = sum(phi(f[j]) if y[j] else (phi(-f[j]) - RATE[j] * phi(f[j])) / (1 - RATE[j]) for j in range(3))
    assert_allclose(logistic_risk(SCORES, relevance)[0], hamming[_logistic])
    pairs = 0.0
    for j, k in itertools.combinations(range(3), 2):
        if y[j] and not y[k]:
            pairs += _sigmoid(f[j] - f[k]) / (1 - RATE[k])
        elif y[k] and not y[j]:
            pairs += _sigmoid(f[k] - f[j]) / (1 - RATE[j])
        elif not y[j] and not y[k]:
            both = (1 - RATE[j]) * (1 - RATE[k])
            pairs -= (RATE[j] * _sigmoid(f[j] - f[k]) + RATE[k] * _sigmoid(f[k] - f[j])) / both
    assert_allclose(ranking_risk(SCORES, relevance)[0], pairs / 3 + hamming[_sigmoid])


@pytest.mark.parametrize("risk", [logistic_risk, ranking_risk])
def test_gradients(risk, monkeypatch):
    monkeypatch.setattr(upml, "_BLOCK_PAIRS", 20)
    rng = np.random.default_rng(0)
    scores, relevance = rng.normal(size=(5, 4)), rng.normal(size=(5, 4))
    expected = approx_fprime(scores.ravel(), lambda flat: risk(flat.reshape(5, 4), relevance)[0], 1e-7)
    assert_allclose(risk(scores, relevance)[1].ravel(), expected, atol=1e-5)


def test_the_square_loss_is_a_ridge_regression_on_the_corrected_candidates(oracle):
    model = UPML(penalty=2.0, normalize="standard", anchor=0.2).fit(oracle.X, oracle.Y)
    rows = np.column_stack([oracle.X / oracle.X.std(axis=0), np.ones(96)])
    target = (oracle.Y - model.noise_rate_) / (1 - model.noise_rate_)
    W = np.linalg.solve(rows.T @ rows + np.diag([2.0] * 20 + [0.0]), rows.T @ target)
    assert_allclose(model.coef_, W[:-1].T, atol=1e-8)
    assert_allclose(model.intercept_, W[-1], atol=1e-8)
    assert (model.noise_rate_ > 0).any()


@pytest.mark.parametrize("loss", ["logistic", "ranking"])
def test_the_gradient_vanishes_at_the_solution(oracle, loss):
    model = UPML(loss=loss, penalty=20.0, normalize="standard", max_iter=2000).fit(oracle.X, oracle.Y)
    rows = oracle.X / oracle.X.std(axis=0)
    relevance = (oracle.Y - model.noise_rate_) / (1 - model.noise_rate_)
    risk = {"logistic": logistic_risk, "ranking": ranking_risk}[loss]
    slope = risk(rows @ model.coef_.T + model.intercept_, relevance)[1]
    assert_allclose(rows.T @ slope + 0.25 * 20.0 * model.coef_.T, 0.0, atol=0.05)
    assert_allclose(slope.sum(axis=0), 0.0, atol=0.05)
    assert model.n_iter_ > 1


def test_rates_are_found_roughly_and_the_correction_pays():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 5))
    truth = X @ rng.normal(size=(5, 4)) > 1.0
    rate = np.array([0.0, 0.2, 0.4, 0.6])
    Y = (truth | (rng.random(truth.shape) < rate)).astype(int)
    corrected, minimum = UPML(loss="logistic").fit(X, Y), UPML(loss="logistic", anchor=0.0).fit(X, Y)
    # A linear regression falls below the lowest probability, so the rates come out too low.
    assert_allclose(corrected.noise_rate_, rate, atol=0.2)
    assert (minimum.noise_rate_ <= corrected.noise_rate_).all()
    brier, without = (np.square(model.predict_proba(X) - truth).mean() for model in (corrected, minimum))
    assert brier < 0.8 * without


def test_only_the_logistic_loss_gives_probabilities(oracle):
    model = UPML(loss="logistic").fit(oracle.X, oracle.Y)
    probability = model.predict_proba(oracle.X_test)
    assert_allclose(probability, model.decision_function(oracle.X_test))
    assert 0 <= probability.min() <= probability.max() <= 1
    assert not hasattr(UPML(), "predict_proba")


def test_rates_stay_below_one_and_not_below_zero():
    assert_allclose(noise_rates(np.array([[1.0, -0.3], [0.99, 0.2]]), 0.0), [0.9, 0.0])


@pytest.mark.parametrize("wrong", [{"loss": "hinge"}, {"anchor": 0.7}, {"penalty": 0.0}, {"max_iter": 0}])
def test_impossible_parameters_are_refused(oracle, wrong):
    with pytest.raises(ValueError, match=f"The '{next(iter(wrong))}' parameter of UPML must be"):
        UPML(**wrong).fit(oracle.X, oracle.Y)
