import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit

from pmlkit.methods.clear_pml import label_correlations
from pmlkit.methods.clear_pml.label_correlations import fit_label_correlations


def problem(n_rows=300, n_labels=3, seed=0):
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(size=(n_rows, n_labels)) * [1.0, 2.0, 0.5][:n_labels] + 0.3
    target = expit(log_odds @ rng.normal(size=(n_labels, n_labels)) + rng.normal(size=n_labels))
    return log_odds, target


def test_it_minimises_the_penalised_logistic_loss(monkeypatch):
    monkeypatch.setattr(label_correlations, "_STEPS", 2000)
    monkeypatch.setattr(label_correlations, "_TOLERANCE", 0.0)
    log_odds, target = problem()
    units = (log_odds - log_odds.mean(axis=0)) / log_odds.std(axis=0)
    fitted = fit_label_correlations(log_odds, target)

    def loss(flat, k):
        eta = log_odds[:, k] + units @ flat[:3] + flat[3]
        return (
            np.sum(np.logaddexp(0.0, eta) - target[:, k] * eta)
            + 0.5 * label_correlations._PRIOR * 3 * flat[:3] @ flat[:3]
        )

    for k in range(3):
        plain = minimize(loss, np.zeros(4), args=(k,), method="BFGS", options={"gtol": 1e-8}).x
        assert_allclose(fitted.weights[:, k], plain[:3], atol=1e-5)
        assert_allclose(fitted.offset[k], plain[3], atol=1e-5)


def sparse_problem(n_rows=400, n_labels=60, seed=0):
    """Log odds, and candidates of which half the labels share rows with few others."""
    rng = np.random.default_rng(seed)
    target = rng.uniform(size=(n_rows, n_labels)) < np.where(np.arange(n_labels) < 30, 0.02, 0.5)
    return rng.normal(size=target.shape) + 3.0 * target - 2.0, 0.7 * target


def n_met(target):
    """Return with how many labels each one shares three rows or more, one pair after the other."""
    labels = range(target.shape[1])
    return np.array([sum(np.sum((target[:, j] > 0) & (target[:, k] > 0)) >= 3 for j in labels) for k in labels])


def test_labels_that_meet_few_others_have_a_smaller_penalty(monkeypatch):
    monkeypatch.setattr(label_correlations, "_STEPS", 3000)
    monkeypatch.setattr(label_correlations, "_TOLERANCE", 0.0)
    monkeypatch.setattr(label_correlations, "_FEWEST_MET", 35)
    log_odds, target = sparse_problem()
    met = n_met(target)
    fitted = fit_label_correlations(log_odds, target)
    units = (log_odds - log_odds.mean(axis=0)) / log_odds.std(axis=0)
    penalty = label_correlations._PRIOR * np.sqrt(60 * np.maximum(met, 35))
    assert (met < 35).any()
    assert ((met > 35) & (met < 60)).any()
    # Where the penalised loss is smallest its slopes are zero.
    rest = target - expit(log_odds + units @ fitted.weights + fitted.offset)
    assert_allclose(units.T @ rest, penalty * fitted.weights, atol=1e-5)
    assert_allclose(rest.mean(axis=0), 0.0, atol=1e-6)


@pytest.mark.parametrize(("n_labels", "rate"), [(50, 0.02), (60, 0.5)])
def test_few_labels_and_labels_that_all_meet_have_the_full_penalty(n_labels, rate):
    target = np.random.default_rng(0).uniform(size=(200, n_labels)) < rate
    assert (n_met(target) == n_labels).all() == (rate == 0.5)
    assert_allclose(label_correlations._precision(target), label_correlations._PRIOR * n_labels, rtol=1e-15)


def test_few_steps_are_enough(monkeypatch):
    log_odds, target = problem(seed=1)
    quick = fit_label_correlations(log_odds, target).adjust(log_odds)
    monkeypatch.setattr(label_correlations, "_STEPS", 2000)
    monkeypatch.setattr(label_correlations, "_TOLERANCE", 0.0)
    exact = fit_label_correlations(log_odds, target).adjust(log_odds)
    assert np.abs(quick - exact).max() < 0.05 * exact.std()


def test_right_log_odds_are_left_alone():
    log_odds, _ = problem()
    assert_allclose(fit_label_correlations(log_odds, expit(log_odds)).adjust(log_odds), log_odds, atol=1e-9)


def test_labels_in_another_order_give_the_same():
    log_odds, target = problem()
    order = [2, 0, 1]
    plain = fit_label_correlations(log_odds, target).adjust(log_odds)
    assert_allclose(
        fit_label_correlations(log_odds[:, order], target[:, order]).adjust(log_odds[:, order]), plain[:, order]
    )


@pytest.mark.parametrize("constant", [0.0, 4.0])
def test_a_label_that_is_the_same_everywhere_does_no_harm(constant):
    log_odds, target = problem()
    log_odds[:, 1] = constant
    assert np.isfinite(fit_label_correlations(log_odds, target).adjust(log_odds)).all()


def test_single_precision_is_close(monkeypatch):
    log_odds, target = problem(seed=2)
    exact = fit_label_correlations(log_odds, target).adjust(log_odds)
    monkeypatch.setattr(label_correlations, "_CELLS_IN_DOUBLE", 1)
    assert_allclose(fit_label_correlations(log_odds, target).adjust(log_odds), exact, atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_rare_labels_converge(seed, monkeypatch):
    """Curvature is concentrated in few rows there, where the mean curvature is far too small."""
    monkeypatch.setattr(label_correlations, "_STEPS", 500)
    monkeypatch.setattr(label_correlations, "_TOLERANCE", 0.0)
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(2000, 1))
    log_odds = 2.0 * rng.standard_t(3, size=(2000, 4)) + 2.0 * common - 7.0
    target = (rng.uniform(size=log_odds.shape) < expit(1.5 * log_odds + common)).astype(float)
    fitted = fit_label_correlations(log_odds, target)
    units = (log_odds - fitted.mean) / fitted.spread
    rest = target - expit(fitted.adjust(log_odds))
    gradient = units.T @ rest - label_correlations._PRIOR * 4 * fitted.weights
    assert np.abs(gradient).max() < 1e-6 * len(units)
    assert np.abs(rest.mean(axis=0)).max() < 1e-6
