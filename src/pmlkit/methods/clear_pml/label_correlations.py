r"""Correct the log odds of each label by those of the other labels of its row.

The corrected log odds are :math:`z'_k = z_k + b_k + \sum_j w_{jk} \hat z_j`, with :math:`\hat z` standardised.
The weights are fitted by logistic regression with a ridge penalty that grows with the number of labels, because few
rows say little about a pair of labels.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.special import expit

from pmlkit._typing import FloatArray

__all__ = ["LabelCorrelations", "fit_label_correlations"]

_PRIOR = 8.0  # precision of each correction, times the number of labels
_STEPS = 15  # accelerated gradient steps: more of them change no ranking
_TOLERANCE = 1e-4
_LEAST_SPREAD = 0.2  # below, a label carries no signal but the trace of the row's own target


@dataclass(frozen=True)
class LabelCorrelations:
    """A linear correction of log odds by the log odds of all labels.

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

    def adjust(self, log_odds: FloatArray) -> FloatArray:
        """Return the corrected log odds, in the precision of the given ones."""
        kind = log_odds.dtype
        # The mean enters as a constant, so that the large array is neither shifted nor copied.
        weights = self.weights / self.spread[:, None]
        corrected = log_odds @ weights.astype(kind)
        corrected += log_odds
        corrected += (self.offset - self.mean @ weights).astype(kind)
        return np.asarray(corrected)


def fit_label_correlations(log_odds: FloatArray, target: FloatArray) -> LabelCorrelations:
    """Fit the corrections.

    Parameters
    ----------
    log_odds : array of shape (n_rows, n_labels)
        Made without the row's own target.
    target : array of shape (n_rows, n_labels)
        Probabilities, or 0 and 1.

    Notes
    -----
    The second derivative of the logistic loss is at most 1/4, so that one Cholesky factor bounds the Hessian
    of all labels, and every step with it lowers the loss.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.label_correlations import fit_label_correlations
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(2000, 2))
    >>> target = (rng.uniform(size=(2000, 1)) < 1 / (1 + np.exp(-z[:, :1]))) * [1.0, 1.0]  # the second is the first
    >>> correlations = fit_label_correlations(z, target)
    >>> bool(correlations.weights[0, 1] > 0.5 > abs(correlations.weights[0, 0]))
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
        if change < _TOLERANCE:
            break
    return LabelCorrelations(mean, spread, weights, offset)
