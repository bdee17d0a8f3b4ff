import numpy as np
from numpy.testing import assert_allclose

from pmlkit.methods.clear_pml import landmarks
from pmlkit.methods.clear_pml.landmarks import LandmarkKernel
from pmlkit.methods.clear_pml.loo_ridge import ridge_system
from pmlkit.methods.clear_pml.self_training import fit_with_pseudo_labels

PENALTY, WEIGHT = 0.7, 0.3


def plain_weighted_ridge(K, M, target, weight):
    """Minimise the weighted squared error plus the penalty, with an intercept that costs nothing."""
    mean, level = np.average(K, axis=0, weights=weight), np.average(target, axis=0, weights=weight)
    centred = K - mean
    dual = np.linalg.solve((centred.T * weight) @ centred + PENALTY * M, (centred.T * weight) @ (target - level))
    return level - mean @ dual, dual


def test_it_is_weighted_ridge_regression_on_targets_and_guesses(monkeypatch):
    monkeypatch.setattr(landmarks, "_BLOCK_CELLS", 60)  # several blocks
    rng = np.random.default_rng(0)
    X, others = rng.normal(size=(30, 2)), rng.normal(size=(25, 2)) + 1.0
    target = rng.uniform(size=(30, 3))
    kernel = LandmarkKernel(X[:10], 1.0, linear=False)
    system = ridge_system(kernel, X)
    ridge = system.solved(PENALTY)
    model = ridge.fit(target)
    intercept, dual = ridge.on_kernel(model)
    guesses = np.tanh(kernel(others) @ dual + intercept)

    found = fit_with_pseudo_labels(ridge, model, kernel, others, np.tanh, WEIGHT)

    wanted = plain_weighted_ridge(
        np.vstack([kernel(X), kernel(others)]),
        system.own,
        np.vstack([target, guesses]),
        np.repeat([1.0, WEIGHT], [len(X), len(others)]),
    )
    assert_allclose(found[0], wanted[0], atol=1e-8)
    assert_allclose(found[1], wanted[1], atol=1e-6)
