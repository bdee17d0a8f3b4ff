r"""Let the labels of a row speak for and against each other.

Every label's log odds are corrected by those of all labels, :math:`z'_k = z_k + b_k + \sum_j w_{jk} \hat z_j`, with
:math:`\hat z` in units of its own spread. The corrections are fitted by logistic regression with a prior at zero that
is the firmer the more labels there are: few rows say nothing about a pair of labels.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.special import expit

from pmlkit._typing import FloatArray

__all__ = ["LabelMap", "fit_label_map"]

_PRIOR = 8.0  # precision of each correction, times the number of labels
_STEPS = 15  # accelerated ones: what is left after them changes no ranking
_STILL = 1e-4
_LEAST_SPREAD = 0.2  # below, a label says nothing: what moves it is the trace of the row's own target


@dataclass(frozen=True)
class LabelMap:
    """Corrections of log odds by the log odds of all labels.

    Attributes
    ----------
    mean, spread : arrays of shape (n_labels,)
        Of the log odds that it was fitted to.
    weights : array of shape (n_labels, n_labels)
        What a label (row) adds to another (column).
    offset : array of shape (n_labels,)
    """

    mean: FloatArray
    spread: FloatArray
    weights: FloatArray
    offset: FloatArray

    def corrected(self, log_odds: FloatArray) -> FloatArray:
        """Return the corrected log odds, in the precision of the given ones."""
        kind = log_odds.dtype
        # The mean's own share is a constant: so the large array is neither shifted nor copied.
        weights = self.weights / self.spread[:, None]
        corrected = log_odds @ weights.astype(kind)
        corrected += log_odds
        corrected += (self.offset - self.mean @ weights).astype(kind)
        return np.asarray(corrected)


def fit_label_map(log_odds: FloatArray, target: FloatArray) -> LabelMap:
    """Fit the corrections.

    Parameters
    ----------
    log_odds : array of shape (n_rows, n_labels)
        Made without the row's own target.
    target : array of shape (n_rows, n_labels)
        Probabilities, or 0 and 1.

    Notes
    -----
    The curvature of a logistic loss is at most a quarter: one Cholesky factor for all labels bounds it, and
    every step with that factor goes down.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.numerics.label_map import fit_label_map
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(2000, 2))
    >>> target = (rng.uniform(size=(2000, 1)) < 1 / (1 + np.exp(-z[:, :1]))) * [1.0, 1.0]  # the second is the first
    >>> label_map = fit_label_map(z, target)
    >>> bool(label_map.weights[0, 1] > 0.5 > abs(label_map.weights[0, 0]))
    True
    """
    log_odds = log_odds.astype(np.float64, copy=False)
    mean, spread = log_odds.mean(axis=0), np.maximum(log_odds.std(axis=0), _LEAST_SPREAD)
    units = (log_odds - mean) / spread
    n_labels = units.shape[1]
    prior = _PRIOR * n_labels
    bound = units.T @ units / 4.0
    bound[np.diag_indices_from(bound)] += prior
    factor = linalg.cho_factor(bound, check_finite=False)
    weights, offset = np.zeros((n_labels, n_labels)), np.zeros(n_labels)
    ahead_weights, ahead_offset, momentum = weights, offset, 1.0
    for _ in range(_STEPS):
        rest = target - expit(log_odds + units @ ahead_weights + ahead_offset)
        new_weights = ahead_weights + linalg.cho_solve(factor, units.T @ rest - prior * ahead_weights)
        new_offset = ahead_offset + 4.0 * rest.mean(axis=0)
        if np.vdot(ahead_weights - new_weights, new_weights - weights) > 0:
            momentum = 1.0
        next_momentum = (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum)) / 2.0
        push = (momentum - 1.0) / next_momentum
        ahead_weights = new_weights + push * (new_weights - weights)
        ahead_offset = new_offset + push * (new_offset - offset)
        change = max(float(np.abs(new_weights - weights).max()), float(np.abs(new_offset - offset).max()))
        weights, offset, momentum = new_weights, new_offset, next_momentum
        if change < _STILL:
            break
    return LabelMap(mean, spread, weights, offset)
