"""Platt scaling of regression scores: one logistic curve per label, with slopes shrunk towards a common one."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from pmlkit._typing import FloatArray

__all__ = ["ScoreCalibration", "fit_calibration"]

_FREQUENT = 20.0  # positives from which a label counts for the typical slope
_TYPICAL_SLOPE = 3.0
_LOOSE, _FIRM = 0.1, 3.0  # precision of the slopes' prior before and after the typical slope is known
_MAX_NEWTON_STEPS = 25


@dataclass(frozen=True)
class ScoreCalibration:
    """Probabilities ``expit(intercept + slope * (score - mean) / spread)`` per label.

    Attributes
    ----------
    mean, spread, intercept, slope : arrays of shape (n_labels,)
    """

    mean: FloatArray
    spread: FloatArray
    intercept: FloatArray
    slope: FloatArray

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the probabilities of scores."""
        gain = (self.slope / self.spread).astype(scores.dtype)
        offset = (self.intercept - self.mean * self.slope / self.spread).astype(scores.dtype)
        return np.asarray(expit(scores * gain + offset))


def fit_calibration(scores: FloatArray, target: FloatArray) -> ScoreCalibration:
    """Fit the curves to leave-one-out scores by maximum likelihood, with slopes shrunk to that of a typical label.

    Parameters
    ----------
    scores : array of shape (n_rows, n_labels)
        Made without the row's own target.
    target : array of shape (n_rows, n_labels)
        Probabilities, or 0 and 1.

    Notes
    -----
    Slopes are never negative. Without a signal, the leave-one-out score of a row is the mean of the
    others, which falls when the row's own target rises: a free slope would exploit that.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.score_calibration import fit_calibration
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.uniform(size=(2000, 1))
    >>> calibration = fit_calibration(scores, (rng.uniform(size=scores.shape) < scores).astype(float))
    >>> calibration.probabilities(np.array([[0.2], [0.8]])).round(1)
    array([[0.2],
           [0.8]])
    """
    mean = target.mean(axis=0, dtype=np.float64)
    floor = 0.5 / len(target)
    share = np.clip(mean, floor, 1.0 - floor)
    spread = np.sqrt(share * (1.0 - share))
    units = (scores - mean.astype(scores.dtype)) / spread.astype(scores.dtype)
    start = logit(share), np.full(len(mean), _TYPICAL_SLOPE)
    _, slopes = _maximum(units, target, *start, _TYPICAL_SLOPE, _LOOSE)
    frequent = target.sum(axis=0) >= _FREQUENT
    typical = float(np.median(slopes[frequent])) if frequent.any() else _TYPICAL_SLOPE
    intercept, slope = _maximum(units, target, start[0], slopes, typical, _FIRM)
    return ScoreCalibration(mean, spread, intercept, slope)


def _maximum(
    units: FloatArray, target: FloatArray, intercept: FloatArray, slope: FloatArray, centre: float, precision: float
) -> tuple[FloatArray, FloatArray]:
    """Return the most likely intercepts and slopes (Newton's method per label, until convergence)."""
    intercept, slope = intercept.astype(np.float64), slope.astype(np.float64)
    moving = np.arange(len(slope))
    for _ in range(_MAX_NEWTON_STEPS):
        some, wanted = (units, target) if len(moving) == len(slope) else (units[:, moving], target[:, moving])
        old_slope = slope[moving]
        chance = expit(some * old_slope.astype(units.dtype) + intercept[moving].astype(units.dtype))
        rest = wanted - chance
        weight = chance * (1.0 - chance)
        slant = weight * some
        a, b = weight.sum(axis=0, dtype=np.float64) + 1e-9, slant.sum(axis=0, dtype=np.float64)
        c = np.einsum("ij,ij->j", slant, some).astype(np.float64) + precision
        u = rest.sum(axis=0, dtype=np.float64)
        v = np.einsum("ij,ij->j", rest, some).astype(np.float64) - precision * (old_slope - centre)
        determinant = np.maximum(a * c - b * b, 1e-12)
        # Small steps: far from the maximum the quadratic model of a logistic curve leads astray.
        to_intercept = np.clip((c * u - b * v) / determinant, -2.0, 2.0)
        new_slope = np.maximum(old_slope + np.clip((a * v - b * u) / determinant, -2.0, 2.0), 0.0)
        intercept[moving] += to_intercept
        slope[moving] = new_slope
        moving = moving[np.maximum(np.abs(to_intercept), np.abs(new_slope - old_slope)) >= 1e-5]
        if not len(moving):
            break
    return intercept, slope
