"""What the answers of a reviewer say: about the cells themselves, the noise model and the labels' rates."""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit

from pmlkit._typing import BoolArray, FloatArray, IntArray
from pmlkit.methods.clear_pml.posterior import candidate_confidence

__all__ = ["fit_label_rates", "likeliest_noise_model", "read_verified"]

_SHIFT_VARIANCE, _LABEL_VARIANCE = 4.0, 0.5  # of the log odds' corrections, for all labels and for each
_NEEDED_GAIN = 2.0  # in log likelihood, to leave the default noise model
_THETAS = (0.05, 0.2, 0.5, 1.0, 2.0)
_PRESENCES = (1.0, 3.0, 10.0, 30.0, 100.0, float("inf"))


def read_verified(verified: Any, shape: tuple[int, int]) -> tuple[BoolArray, BoolArray]:
    """Return which cells are right, and which wrong, by an array of +1, -1 and 0 (not reviewed).

    - `verified` (n_samples, n_labels);
    - `shape`: of the candidates.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.verified import read_verified
    >>> read_verified(np.array([[1, 0, -1]]), (1, 3))
    (array([[ True, False, False]]), array([[False, False,  True]]))
    """
    values = np.asarray(verified.toarray() if sparse.issparse(verified) else verified)
    if values.shape != shape:
        raise ValueError(f"verified must have the shape of y, {shape}, got {values.shape}.")
    if not np.isin(values, (-1, 0, 1)).all():
        raise ValueError("verified must hold +1 (right), -1 (wrong) and 0 (not reviewed), got other values.")
    return values > 0, values < 0


def likeliest_noise_model(
    chance: FloatArray,
    is_candidate: BoolArray,
    right: BoolArray,
    wrong: BoolArray,
    floor: float,
    *,
    competition: float,
    presence: float,
) -> tuple[float, float]:
    """Return the competition and the presence weight under which the answers are likeliest.

    - `chance`, `is_candidate` (n_samples, n_labels): probabilities of being true, and the candidates as they were
      given, of rows with answers;
    - `right`, `wrong` (n_samples, n_labels): the answers;
    - `competition`, `presence`: defaults, kept unless the answers clearly speak for others.
    """
    asked = (right | wrong) & is_candidate
    is_true = right[asked]

    def fit(competition: float, presence: float) -> float:
        confidence = candidate_confidence(chance, is_candidate, floor, competition=competition, presence=presence)
        log_odds = _log_odds(confidence[asked])
        shift, _ = fit_label_rates(log_odds, np.zeros(len(log_odds), dtype=int), is_true, 1)
        z = log_odds + shift
        return float(np.sum(np.where(is_true, z, 0.0) - np.logaddexp(0.0, z)) - shift**2 / (2.0 * _SHIFT_VARIANCE))

    best = competition, presence
    threshold = fit(*best) + _NEEDED_GAIN
    for theta in _THETAS:
        for weight in _PRESENCES:
            found = fit(1.0 - theta, weight)
            if found > threshold:
                best, threshold = (1.0 - theta, weight), found
    return best


def fit_label_rates(
    log_odds: FloatArray, label: IntArray, is_true: BoolArray, n_labels: int
) -> tuple[float, FloatArray]:
    """Fit how much more or less often candidates are right than their confidences say, by answered cells.

    The corrections have normal priors about zero (MAP by Newton's method). Which cells were asked may depend on their
    confidences: the model is conditional on them.

    - `log_odds` (n_answers,): of the confidences without the answers;
    - `label` (n_answers,);
    - `is_true` (n_answers,).

    Returns `shift`, `per_label` (n_labels,): what is added to the log odds of all labels, and to those of each.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.verified import fit_label_rates
    >>> _, per_label = fit_label_rates(np.zeros(200), np.arange(200) % 2, np.arange(200) % 2 == 0, 2)
    >>> bool(per_label[0] > 1 > -1 > per_label[1])
    True
    """
    shift, per_label = 0.0, np.zeros(n_labels)
    for _ in range(30):
        p = expit(log_odds + shift + per_label[label])
        rest, slack = is_true - p, p * (1.0 - p)
        weight = np.bincount(label, weights=slack, minlength=n_labels)
        right = np.bincount(label, weights=rest, minlength=n_labels) - per_label / _LABEL_VARIANCE
        diagonal = weight + 1.0 / _LABEL_VARIANCE
        # The labels' own corrections are eliminated from the system, which leaves one equation for the shift.
        curvature = weight.sum() + 1.0 / _SHIFT_VARIANCE - (weight**2 / diagonal).sum()
        step = (rest.sum() - shift / _SHIFT_VARIANCE - (weight * right / diagonal).sum()) / curvature
        steps = (right - weight * step) / diagonal
        shift, per_label = shift + float(np.clip(step, -2.0, 2.0)), per_label + np.clip(steps, -2.0, 2.0)
        if max(abs(step), float(np.abs(steps).max())) < 1e-6:
            break
    return shift, per_label


def _log_odds(confidence: FloatArray) -> FloatArray:
    inside = np.clip(confidence, 1e-6, 1.0 - 1e-6)
    return np.asarray(np.log(inside) - np.log1p(-inside))
