"""Rows without candidates: decide whether they are unlabelled or have no label, and learn from unlabelled ones.

Self-training refits the regression with its own predictions for unlabelled rows.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import linalg
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from pmlkit._typing import BoolArray, Features, FloatArray
from pmlkit.blocks import State
from pmlkit.methods.clear_pml.block_ridge import BlockRidge, RowSource
from pmlkit.methods.clear_pml.cell_passes import as_log_odds
from pmlkit.methods.clear_pml.dual_ridge import dual_of_values, search_in_dual
from pmlkit.methods.clear_pml.feature_weighting import FeatureMoments, fit_weighting, possible_weightings
from pmlkit.methods.clear_pml.landmarks import kernel_between

ROWS = 1000
_LEAST_AUC, _SURE = 0.7, 3.0  # standard errors above one half


@dataclass(frozen=True)
class EmptyRows:
    """What rows without candidates are taken for, and why.

    - `meaning`, one of {"unlabelled", "negative"}.
    """

    meaning: Literal["unlabelled", "negative"]
    reason: str


def decide_by_sample(X: Features, target: BoolArray, moments: FeatureMoments) -> EmptyRows:
    """Test on a sample of rows whether features predict which rows are empty.

    Rows that were skipped at random look like the others. Rows to which no label applies look different: emptiness
    is then predictable by leave-one-out ridge regression. Rows that were skipped by a rule that the features show look
    the same; only the user knows.

    - `X` (n_samples, n_features);
    - `target` (n_samples,): which rows are empty;
    - `moments`: of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.empty_rows import decide_by_sample
    >>> from pmlkit.methods.clear_pml.feature_weighting import feature_moments
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> [decide_by_sample(X, empty, feature_moments(X)).meaning for empty in (X[:, 0] > 0.5, np.arange(300) % 3 == 0)]
    ['negative', 'unlabelled']
    """
    n_empty, n_other = int(target.sum()), int((~target).sum())
    if not n_empty or not n_other:
        return EmptyRows("unlabelled", "too few rows to tell")
    weightings = possible_weightings(moments)
    rows = fit_weighting(moments, weightings[-1]).transform(X)
    _, values = kernel_between(rows, linear=weightings[0] != "standard")
    column = target.astype(np.float64)[:, None]
    penalty, _ = search_in_dual(values, column)
    ridge = dual_of_values(values, penalty)
    auc = float(roc_auc_score(target, ridge.loo_scores(column, ridge.fit(column))[:, 0]))
    error = float(np.sqrt((n_empty + n_other + 1) / (12.0 * n_empty * n_other)))
    negative = auc > max(_LEAST_AUC, 0.5 + _SURE * error)
    return EmptyRows(
        "negative" if negative else "unlabelled",
        f"features {'predict' if negative else 'do not predict'} which rows are empty "
        f"(leave-one-out AUC {auc:.2f}, standard error {error:.2f})",
    )


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

    - `ridge`, `model`: the regression and its solution for some targets;
    - `X`: features of the other rows;
    - `n_others`: how many there are;
    - `curves`: the calibration and the label correlations that turn scores into log odds, and what these are multiplied
      with;
    - `weight`: of one such row; the regression's own rows weigh one.

    Returns `intercept`, `dual_coef`: on the kernel with the landmarks, as `BlockRidge.on_kernel` has them.
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
