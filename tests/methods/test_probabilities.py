"""Probabilities of the labels, on rows that no method saw."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from pmlkit import ClearPML
from pmlkit.data import load_digit_strips
from pmlkit.methods import all_methods, thresholds
from pmlkit.methods.thresholds import fit_curve

HAVE = ["ClearPML", "CandidateClassifier", "CandidateLogistic", "MLkNN", "ParticleMAP", "CleanlabFilter"]
N_TRAIN = 800


@pytest.fixture(scope="module")
def strips():
    return load_digit_strips(1000)


@pytest.fixture(scope="module")
def fitted(strips):
    methods = all_methods()
    return {name: methods[name]().fit(strips.X[:N_TRAIN], strips.Y[:N_TRAIN]) for name in HAVE if name in methods}


def brier(probability, truth):
    return float(np.mean((probability - truth) ** 2))


def test_these_methods_have_probabilities():
    assert {name for name, method in all_methods().items() if hasattr(method(), "predict_proba")} >= set(HAVE)


@pytest.mark.parametrize("name", HAVE)
def test_they_beat_constant_rates(strips, fitted, name):
    """Against the truth of unseen rows; the constants are the true rates of the training rows, which no method sees."""
    if name not in fitted:
        pytest.skip(f"{name} needs a package that is not installed")
    probability = fitted[name].predict_proba(strips.X[N_TRAIN:])
    truth = strips.truth.toarray().astype(float)
    assert probability.shape == (200, 10)
    assert probability.min() >= 0
    assert probability.max() <= 1
    assert brier(probability, truth[N_TRAIN:]) < brier(truth[:N_TRAIN].mean(axis=0), truth[N_TRAIN:])


@pytest.mark.parametrize("name", ["CandidateLogistic", "MLkNN"])
def test_baselines_are_reliable_about_the_candidates(strips, fitted, name):
    """They learn candidates as they are: among cells with probability p, about p are candidates."""
    probability = fitted[name].predict_proba(strips.X[N_TRAIN:])
    assert largest_gap(probability, strips.Y[N_TRAIN:].toarray()) < 0.15


def test_clear_pml_is_reliable_about_the_truth(strips, fitted):
    model = fitted["ClearPML"]
    truth = strips.truth[N_TRAIN:].toarray()
    probability, scores = model.predict_proba(strips.X[N_TRAIN:]), model.decision_function(strips.X[N_TRAIN:])
    assert brier(probability, truth) < 0.45 * brier(strips.truth[:N_TRAIN].toarray().mean(axis=0), truth)
    assert brier(probability, truth) < 0.8 * brier(scores, truth)
    assert largest_gap(probability, truth) < largest_gap(scores, truth)
    assert_array_equal(np.argsort(probability, axis=1, kind="stable"), np.argsort(scores, axis=1, kind="stable"))


def largest_gap(probability, truth, n_bins=5):
    """Return the largest difference between mean probability and share of true cells over bins of equal size."""
    parts = np.array_split(np.argsort(probability, axis=None), n_bins)
    return max(abs(probability.flat[part].mean() - truth.flat[part].mean()) for part in parts)


def test_the_curve_by_scikit_learn():
    """The same maximum likelihood, with every cell once as true and once as false, weighted by its confidence."""
    strips = load_digit_strips(200, random_state=1)
    model = ClearPML().fit(strips.X, strips.Y)
    scores, target = model.out_of_fold_scores_.astype(float), model.label_confidence_.toarray()
    z = np.log(scores / (1 - scores)).ravel()
    weight = np.concatenate([target.ravel(), 1 - target.ravel()])
    is_true = np.repeat([True, False], z.size)
    reference = LogisticRegression(C=1e9, tol=1e-10).fit(np.tile(z, 2)[:, None], is_true, sample_weight=weight)
    curve = fit_curve(scores, strips.Y, model.label_confidence_.data)
    assert_allclose(curve, [reference.coef_[0, 0], reference.intercept_[0]], rtol=1e-4)


def test_two_classes_as_in_scikit_learn(strips, fitted):
    y = np.where(strips.truth[:, [3]].toarray()[:, 0] == 1, "three", "other")
    for name in fitted:
        model = all_methods()[name]().fit(strips.X[:200], y[:200])
        probability = model.predict_proba(strips.X[200:300])
        assert probability.shape == (100, 2)
        assert_allclose(probability.sum(axis=1), 1.0)
        assert_array_equal(model.classes_[probability.argmax(axis=1)], model.predict(strips.X[200:300]))


def test_the_curve_is_that_of_newton_steps_on_all_cells(monkeypatch):
    monkeypatch.setattr(thresholds, "_CURVE_CELLS", 1_000)  # several blocks
    rng = np.random.default_rng(0)
    scores = rng.beta(0.3, 5.0, size=(300, 7))
    Y = sparse.csr_array((rng.random(scores.shape) < scores).astype(float))
    confidence = rng.random(Y.nnz)
    target = np.zeros(Y.shape)
    target[Y.toarray() > 0] = confidence
    z = np.log(np.clip(scores, 1e-6, 1.0) / (1.0 - np.clip(scores, 1e-6, 1.0))).ravel()
    design, curve = np.column_stack([z, np.ones_like(z)]), np.array([1.0, 0.0])
    for _ in range(30):
        p = 1.0 / (1.0 + np.exp(-design @ curve))
        curve = curve + np.linalg.solve((design.T * (p * (1.0 - p))) @ design, design.T @ (target.ravel() - p))
    assert_allclose(fit_curve(scores, Y, confidence), curve, rtol=1e-10)
