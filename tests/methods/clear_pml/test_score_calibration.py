import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit, xlog1py, xlogy

from pmlkit.methods.clear_pml import score_calibration
from pmlkit.methods.clear_pml.score_calibration import fit_calibration, log_likelihood


def test_the_curve_of_one_label_is_the_most_likely_one(monkeypatch):
    monkeypatch.setattr(score_calibration, "_FIRM", 1e-6)
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(400, 1))
    target = (rng.uniform(size=(400, 1)) < expit(2 * scores - 1)).astype(float)
    fitted = fit_calibration(scores, target)

    def loss(w):
        chance = expit(w[0] + w[1] * scores)
        return -(xlogy(target, chance) + xlog1py(1 - target, -chance)).sum()

    best = minimize(loss, [0.0, 1.0], tol=1e-10).x
    np.testing.assert_allclose(fitted.probabilities(scores), expit(best[0] + best[1] * scores), atol=1e-4)


def test_soft_targets_are_learned_as_shares():
    scores = np.tile(np.array([[0.0], [1.0]]), (500, 1))
    fitted = fit_calibration(scores, np.where(scores > 0.5, 0.8, 0.1))
    np.testing.assert_allclose(fitted.probabilities(scores[:2]), [[0.1], [0.8]], atol=0.02)


def test_labels_with_few_positives_borrow_the_slope_of_the_others():
    rng = np.random.default_rng(1)
    scores = rng.uniform(size=(3000, 6))
    target = (rng.uniform(size=scores.shape) < scores).astype(float)
    target[:, 5] = 0.0
    target[:3, 5] = 1.0
    # Held-out scores of a label with three rows stay near its share.
    scores[:, 5] = 0.001 * rng.uniform(size=3000)
    fitted = fit_calibration(scores, target)
    assert fitted.slope[5] == pytest.approx(np.median(fitted.slope[:5]), rel=0.1)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(2, 60))
def test_slopes_are_never_negative_and_answers_are_probabilities(seed, n):
    rng = np.random.default_rng(seed)
    target = (rng.uniform(size=(n, 3)) < [0.0, 0.4, 1.0]).astype(float)
    # The mean of the other rows: what a held-out score is without any signal.
    scores = (target.sum(axis=0) - target) / (n - 1)
    fitted = fit_calibration(scores, target)
    chance = fitted.probabilities(scores)
    assert (fitted.slope >= 0).all()
    assert np.isfinite(chance).all()
    assert ((chance >= 0) & (chance <= 1)).all()


def test_bins_of_rows_give_the_curves_of_single_rows(monkeypatch):
    rng = np.random.default_rng(2)
    share = np.array([0.005, 0.05, 0.3, 0.7])
    target = (rng.uniform(size=(5000, 4)) < share).astype(float)
    scores = (
        share + 0.3 * np.sqrt(share) * rng.normal(size=target.shape) + 0.4 * target * rng.uniform(size=target.shape)
    )
    scores[0] = 500.0  # a row of high leverage, far outside the bins
    monkeypatch.setattr(score_calibration, "_BLOCK_CELLS", 10_000)  # two labels at a time
    binned = fit_calibration(scores, target).probabilities(scores)
    monkeypatch.setattr(score_calibration, "_N_BINS", len(scores))
    np.testing.assert_allclose(binned, fit_calibration(scores, target).probabilities(scores), atol=2e-3)


def test_a_power_of_the_scores_is_the_curve_of_scores_to_that_power():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(1500, 3))
    target = (rng.uniform(size=scores.shape) < expit(2 * scores)).astype(float)
    powered = np.sign(scores) * np.abs(scores) ** 0.7
    fitted, plain = fit_calibration(scores, target, 0.7), fit_calibration(powered, target)
    np.testing.assert_allclose(fitted.probabilities(scores), plain.probabilities(powered), atol=1e-12)


def test_the_likelihood_in_blocks_is_that_of_all_cells(monkeypatch):
    rng = np.random.default_rng(0)
    chance, target = rng.uniform(0.01, 0.99, size=(50, 4)), rng.uniform(size=(50, 4))
    expected = (xlogy(target, chance) + xlog1py(1 - target, -chance)).mean()
    monkeypatch.setattr(score_calibration, "_BLOCK_CELLS", 12)
    np.testing.assert_allclose(log_likelihood(chance, target), expected)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_expit_and_logit_are_those_of_scipy_and_keep_the_precision(kind):
    values = np.concatenate([np.linspace(-80, 80, 2001), [-1e4, 1e4]]).astype(kind)
    chance = score_calibration.expit(values)
    assert chance.dtype == kind
    np.testing.assert_allclose(chance, expit(values), rtol=4 * np.finfo(kind).eps, atol=1e-37)
    inside = chance[(chance > 1e-6) & (chance < 1.0 - 1e-6)]
    assert score_calibration.logit(inside).dtype == kind
    np.testing.assert_allclose(
        score_calibration.logit(inside),
        logit(inside),
        rtol=8 * np.finfo(kind).eps,
        atol=1e-6 * (kind is np.float32) + 1e-15,
    )
