"""From training scores to probabilities of the true labels: one logistic curve for all labels."""

import numpy as np
from scipy.special import expit, logit

from pmlkit._arrays import row_of_cells
from pmlkit._typing import CSR, FloatArray

__all__ = ["calibrated", "fit_curve"]

_MAX_ROWS = 50_000
_MAX_STEPS = 50


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
    design = np.column_stack([z, np.ones_like(z)])
    curve = np.array([1.0, 0.0])
    for _ in range(_MAX_STEPS):
        p = expit(design @ curve)
        hessian = design.T @ (design * (p * (1.0 - p))[:, None]) + 1e-9 * np.eye(2)
        change = np.linalg.solve(hessian, design.T @ (t - p))
        curve = curve + change * min(1.0, 5.0 / max(float(np.abs(change).max()), 1e-300))
        if np.abs(change).max() < 1e-8:
            break
    return (float(curve[0]), float(curve[1])) if np.isfinite(curve).all() and curve[0] > 0 else (1.0, 0.0)


def calibrated(scores: FloatArray, curve: tuple[float, float]) -> FloatArray:
    """Return the probabilities of scores by a curve of `fit_curve`."""
    return np.asarray(expit(curve[0] * _log_odds(scores) + curve[1]))


def _log_odds(scores: FloatArray) -> FloatArray:
    return np.asarray(logit(np.clip(scores, 1e-6, 1.0 - 1e-6)), dtype=np.float64)
