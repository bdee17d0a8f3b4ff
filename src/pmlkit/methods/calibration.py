"""From training scores to probabilities of the true labels: one logistic curve for all labels."""

import numpy as np
from scipy.special import expit, logit

from pmlkit._arrays import row_of_cells
from pmlkit._typing import CSR, FloatArray

_MAX_ROWS = 50_000
_MAX_STEPS = 50
_BLOCK = 2**15  # cells that stay in the processor's caches


def fit_curve(scores: FloatArray, Y: CSR, confidence: FloatArray) -> tuple[float, float]:
    r"""Fit the curve :math:`P(\text{true}) = \sigma(a \operatorname{logit}(s) + b)` by maximum likelihood (Platt).

    The expected truth is the target: the confidence at a candidate and 0 elsewhere. The true labels are not needed.

    `scores` (n_samples, n_labels): out-of-fold scores of training rows, between 0 and 1. `Y` (n_samples, n_labels):
    their candidates. Returns: (1, 0), the identity, where scores do not increase with the confidences.
    """
    target = np.zeros(Y.shape)
    target[row_of_cells(Y), Y.indices] = confidence
    step = -(-len(scores) // _MAX_ROWS)
    z, t = _log_odds(scores[::step]).ravel(), target[::step].ravel()
    curve = np.array([1.0, 0.0])
    for _ in range(_MAX_STEPS):
        total = sum(_derivatives(z[i : i + _BLOCK], t[i : i + _BLOCK], curve) for i in range(0, len(z), _BLOCK))
        slope, level, of_slope, of_both, of_level = np.asarray(total)
        hessian = np.array([[of_slope, of_both], [of_both, of_level]]) + 1e-9 * np.eye(2)
        change = np.linalg.solve(hessian, np.array([slope, level]))
        curve = curve + change * min(1.0, 5.0 / max(float(np.abs(change).max()), 1e-300))
        if np.abs(change).max() < 1e-8:
            break
    return (float(curve[0]), float(curve[1])) if np.isfinite(curve).all() and curve[0] > 0 else (1.0, 0.0)


def _derivatives(z: FloatArray, t: FloatArray, curve: FloatArray) -> FloatArray:
    """Return the gradient and the Hessian of some cells' log likelihood, five numbers."""
    p = expit(curve[0] * z + curve[1])
    rest = t - p
    weight = p * (1.0 - p)
    slant = weight * z
    return np.array([rest @ z, rest.sum(), slant @ z, slant.sum(), weight.sum()])


def calibrated(scores: FloatArray, curve: tuple[float, float]) -> FloatArray:
    """Return the probabilities of scores by a curve of `fit_curve`."""
    return np.asarray(expit(curve[0] * _log_odds(scores) + curve[1]))


def _log_odds(scores: FloatArray) -> FloatArray:
    return np.asarray(logit(np.clip(scores, 1e-6, 1.0 - 1e-6)), dtype=np.float64)
