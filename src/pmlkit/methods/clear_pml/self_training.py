"""Self-training: refit the regression with its own predictions for the rows without candidates."""

from typing import Any

import numpy as np
from scipy import linalg
from scipy.special import expit

from pmlkit._typing import Features, FloatArray
from pmlkit.blocks import State
from pmlkit.methods.clear_pml.block_ridge import BlockRidge, RowSource
from pmlkit.methods.clear_pml.cell_passes import as_log_odds

__all__ = ["fit_with_pseudo_labels"]


def fit_with_pseudo_labels(
    ridge: BlockRidge,
    model: tuple[FloatArray, FloatArray],
    X: State,
    *,
    n_others: int,
    curves: tuple[Any, Any, float],
    weight: float,
) -> tuple[FloatArray, FloatArray]:
    """Refit the regression to its own rows and to others, whose targets are made of its scores.

    Parameters
    ----------
    ridge, model : BlockRidge, tuple
        The regression and its solution for some targets.
    X : State
        Features of the other rows.
    n_others : int
        How many there are.
    curves : tuple
        The calibration and the label correlations that turn scores into log odds, and what these are multiplied with.
    weight : float
        Of one such row; the regression's own rows weigh one.

    Returns
    -------
    intercept, dual_coef : arrays
        On the kernel with the landmarks, as `BlockRidge.on_kernel` has them.
    """
    own = ridge.on_kernel(model)
    total, gram, target_total, moments = ridge.engine.reduce(pseudo_moments, X, rows=ridge.rows, own=own, curves=curves)
    n_own = ridge.n_rows
    # Moments of both groups about their own means, plus those between the means.
    mean, target_mean = total / n_others, target_total / n_others
    gram = gram - n_others * np.outer(mean, mean)
    moments = moments - n_others * np.outer(mean, target_mean)
    shift, target_shift = mean - ridge.mean, target_mean - model[0]
    share = weight * n_others / (n_own + weight * n_others)
    # The factor holds the own rows' moments and the penalty.
    gram = ridge.factor @ ridge.factor.T + weight * gram + n_own * share * np.outer(shift, shift)
    moments = (
        ridge.factor @ model[1].astype(np.float64) + weight * moments + n_own * share * np.outer(shift, target_shift)
    )
    dual = linalg.solve(gram, moments, assume_a="pos", check_finite=False)
    return model[0] + share * target_shift - (ridge.mean + share * shift) @ dual, dual


def pseudo_moments(
    X: Features, *, rows: RowSource, own: tuple[FloatArray, FloatArray], curves: tuple[Any, Any, float]
) -> tuple[FloatArray, ...]:
    """Return the sums of a block's kernel rows, targets, and their products, the targets made of the model's scores."""
    intercept, dual = own
    calibration, correlations, slope = curves
    total, gram = np.zeros(len(dual)), np.zeros((len(dual), len(dual)))
    target_total, moments = np.zeros_like(intercept), np.zeros_like(dual)
    for _, block in rows.kernel_rows(X, width=dual.shape[1]):
        log_odds = correlations.adjust(as_log_odds(calibration.probabilities(block @ dual + intercept)))
        target = expit(slope * log_odds)
        total += block.sum(axis=0)
        gram += block.T @ block
        target_total += target.sum(axis=0)
        moments += block.T @ target
    return total, gram, target_total, moments
