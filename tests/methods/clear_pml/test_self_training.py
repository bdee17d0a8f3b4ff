import numpy as np
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import expit

from pmlkit.blocks import LocalEngine
from pmlkit.methods.clear_pml import landmarks
from pmlkit.methods.clear_pml.block_ridge import block_ridge, kernel_between_landmarks
from pmlkit.methods.clear_pml.cells import cells_of_block
from pmlkit.methods.clear_pml.empty_rows import fit_with_pseudo_labels
from pmlkit.methods.clear_pml.feature_weighting import FeatureWeighting
from pmlkit.methods.clear_pml.label_correlations import LabelCorrelations
from pmlkit.methods.clear_pml.landmarks import LandmarkKernel
from pmlkit.methods.clear_pml.score_calibration import ScoreCalibration

PENALTY, WEIGHT = 0.7, 0.3


class AsTheyAre(FeatureWeighting):
    def transform(self, X):
        return X


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
    engine = LocalEngine(2)
    cells = engine.of([cells_of_block(sparse.csr_array(np.ones((n, 3)))) for n in (12, 18)])
    ridge, _ = block_ridge(
        engine,
        engine.of([X[:12], X[12:]]),
        cells,
        AsTheyAre("unit", np.zeros(2), np.ones(2)),
        kernel,
        n_rows=30,
        n_labels=3,
        dtype=np.float64,
        penalty=PENALTY,
    )
    model = ridge.fit(engine.of([target[:12].ravel(), target[12:].ravel()]))
    intercept, dual = ridge.on_kernel(model)
    guesses = expit(1.5 * (kernel(others) @ dual + intercept))
    nothing, one = np.zeros(3), np.ones(3)
    curves = ScoreCalibration(nothing, one, nothing, one), LabelCorrelations(nothing, one, np.zeros((3, 3)), nothing)

    found = fit_with_pseudo_labels(
        ridge,
        model,
        engine.of([others[:20], others[20:]]),
        n_others=len(others),
        curves=(*curves, 1.5),
        weight=WEIGHT,
    )

    wanted = plain_weighted_ridge(
        np.vstack([kernel(X), kernel(others)]),
        kernel_between_landmarks(kernel),
        np.vstack([target, guesses]),
        np.repeat([1.0, WEIGHT], [len(X), len(others)]),
    )
    assert_allclose(found[0], wanted[0], atol=1e-8)
    assert_allclose(found[1], wanted[1], atol=1e-6)
