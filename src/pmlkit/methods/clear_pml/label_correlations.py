r"""Correct the log odds of each label by those of the other labels of its row.

The corrected log odds are :math:`z'_k = z_k + b_k + \sum_j w_{jk} \hat z_j`, with :math:`\hat z` standardised.
The weights are fitted by logistic regression with a ridge penalty that grows with the number of labels, because few
rows say little about a pair of labels. With many labels it is smaller for those that share rows with few others.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from pmlkit._typing import FloatArray
from pmlkit.methods.clear_pml.score_calibration import expit

_PRIOR = 8.0  # precision of each correction, times the number of labels:
_ROWS_TO_MEET = 3  # the geometric mean of all of them and those that share so many rows,
_FEWEST_MET = 50  # but at least so many
_STEPS = 6  # more of them change no ranking
_CELLS_IN_DOUBLE = 1_000_000
_LARGEST_CURVATURE = 0.25
_TOLERANCE = 1e-4
_LEAST_SPREAD = 0.2  # below, a label carries no signal but the trace of the row's own target


@dataclass(frozen=True)
class LabelCorrelations:
    """A linear correction of log odds by the log odds of all labels.

    - `mean`, `spread` (n_labels,): of the log odds that it was fitted to;
    - `weights` (n_labels, n_labels): what a label (row) adds to another (column);
    - `offset` (n_labels,).
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

    - `log_odds` (n_rows, n_labels): made without the row's own target;
    - `target` (n_rows, n_labels): probabilities, or 0 and 1.

    The Hessian of a label is nearly the Gram matrix of the log odds times the label's mean curvature ``p (1 - p)``
    (that along its own log odds, where it is larger), which makes a few accelerated steps enough. A label whose steps
    grow gets twice the curvature, up to 1/4, with which every step lowers the loss.

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
    mean = log_odds.mean(axis=0, dtype=np.float64)
    spread = np.maximum(log_odds.std(axis=0, dtype=np.float64), _LEAST_SPREAD)
    kind = np.float64 if log_odds.size <= _CELLS_IN_DOUBLE else np.float32
    units = ((log_odds - mean) / spread).astype(kind, copy=False)
    log_odds, target = log_odds.astype(kind, copy=False), target.astype(kind, copy=False)
    n_labels = units.shape[1]
    prior = _precision(target)
    # One eigenbasis serves all labels: in it, a label's step is a division by its own curvature.
    eigenvalues, vectors = linalg.eigh((units.T @ units).astype(np.float64), check_finite=False)
    squares = np.maximum(np.einsum("ij,ij->j", units, units), 1e-12)
    weights, offset = np.zeros((n_labels, n_labels)), np.zeros(n_labels)
    ahead, momentum, curvature = weights, 1.0, np.zeros(n_labels)
    last_change = np.full(n_labels, np.inf)
    for _ in range(_STEPS):
        chance = expit(log_odds + units @ ahead.astype(kind) + offset.astype(kind))
        rest = target - chance
        slack = chance * (1.0 - chance)
        mean_slack = slack.mean(axis=0, dtype=np.float64)
        along_itself = np.einsum("ij,ij,ij->j", slack, units, units) / squares
        curvature = np.maximum(curvature, np.maximum(mean_slack, along_itself))
        gradient = (units.T @ rest).astype(np.float64) - prior * ahead
        new_weights = ahead + vectors @ ((vectors.T @ gradient) / (eigenvalues[:, None] * curvature + prior))
        offset = offset + np.clip(rest.mean(axis=0, dtype=np.float64) / np.maximum(mean_slack, 1e-6), -2.0, 2.0)
        if np.vdot(ahead - new_weights, new_weights - weights) > 0:
            momentum = 1.0
        next_momentum = (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum)) / 2.0
        ahead = new_weights + (momentum - 1.0) / next_momentum * (new_weights - weights)
        change = np.abs(new_weights - weights).max(axis=0)
        curvature = np.minimum(np.where(change > last_change, 2.0 * curvature, curvature), _LARGEST_CURVATURE)
        weights, momentum, last_change = new_weights, next_momentum, change
        if change.max() < _TOLERANCE:
            break
    return LabelCorrelations(mean, spread, weights, offset)


def _precision(target: FloatArray) -> FloatArray:
    """Return the precision of the corrections of each label."""
    n_labels = target.shape[1]
    if n_labels <= _FEWEST_MET:
        return np.full(n_labels, _PRIOR * n_labels)
    given = sparse.csr_array(target > 0).astype(np.float32)
    shared = sparse.csr_array(given.T @ given)
    n_met = np.bincount(shared.indices[shared.data >= _ROWS_TO_MEET], minlength=n_labels)
    return np.asarray(_PRIOR * np.sqrt(n_labels * np.maximum(n_met, _FEWEST_MET)))
