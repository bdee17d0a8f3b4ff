"""Platt scaling of regression scores: one logistic curve per label, with slopes shrunk towards a common one."""

from dataclasses import dataclass

import numpy as np

from pmlkit._typing import FloatArray, IntArray

_FREQUENT = 20.0  # positives from which a label counts for the typical slope
_TYPICAL_SLOPE = 3.0
_LOOSE, _FIRM = 0.1, 3.0  # precision of the slopes' prior before and after the typical slope is known
_MAX_NEWTON_STEPS = 25
_N_BINS, _WIDEST = 512, 8.0  # bins of scores, within so many standard deviations of the target
_BLOCK_CELLS = 1_000_000


@dataclass(frozen=True)
class ScoreCalibration:
    """Probabilities ``expit(intercept + slope * (score - mean) / spread)`` per label.

    - `mean`, `spread`, `intercept`, `slope` (n_labels,);
    - `power`: of the scores (of their size, for negative ones), before anything else.
    """

    mean: FloatArray
    spread: FloatArray
    intercept: FloatArray
    slope: FloatArray
    power: float = 1.0

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the probabilities of scores."""
        scores = _to_power(scores, self.power)
        gain = (self.slope / self.spread).astype(scores.dtype)
        offset = (self.intercept - self.mean * self.slope / self.spread).astype(scores.dtype)
        return np.asarray(expit(scores * gain + offset))


def fit_calibration(scores: FloatArray, target: FloatArray, power: float = 1.0) -> ScoreCalibration:
    """Fit the curves to leave-one-out scores by maximum likelihood, with slopes shrunk to that of a typical label.

    - `scores` (n_rows, n_labels): made without the row's own target;
    - `target` (n_rows, n_labels): probabilities, or 0 and 1;
    - `power`: of the scores; below one, the curves rise fast at first and then slowly.

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
    cells = _summarise(_to_power(scores, power), target, mean, spread)
    intercept, slope, typical = logit(share), np.full(len(mean), _TYPICAL_SLOPE), _TYPICAL_SLOPE
    frequent = np.flatnonzero(target.sum(axis=0) >= _FREQUENT)
    if len(frequent):
        found = _maximum(cells.of_labels(frequent), intercept[frequent], slope[frequent], typical, _LOOSE)
        intercept[frequent], slope[frequent] = found
        typical = float(np.median(slope[frequent]))
    intercept, slope = _maximum(cells, intercept, slope, typical, _FIRM)
    return ScoreCalibration(mean, spread, intercept, slope, power)


def log_likelihood(probability: FloatArray, target: FloatArray) -> float:
    """Return the mean log likelihood of probabilities, over all cells.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.score_calibration import log_likelihood
    >>> round(log_likelihood(np.array([[0.5, 0.2]]), np.array([[1.0, 0.0]])), 3)
    -0.458
    """
    total = 0.0
    for first in range(0, len(target), step := max(1, _BLOCK_CELLS // target.shape[1])):
        p, y = probability[first : first + step], target[first : first + step]
        p = np.clip(p, 1e-6, 1.0 - 1e-6)
        total += float(np.sum(y * np.log(p) + (1.0 - y) * np.log1p(-p), dtype=np.float64))
    return total / target.size


def _to_power(scores: FloatArray, power: float) -> FloatArray:
    return scores if power == 1.0 else np.copysign(np.abs(scores) ** power, scores)


@dataclass(frozen=True)
class _Cells:
    """Standardised scores with their targets, of single rows or of bins of rows; arrays of shape (n_bins, n_labels).

    - `units`, `target`: means over the rows of the bin;
    - `count`: how many rows the bin has; one where there is no array.
    """

    units: FloatArray
    target: FloatArray
    count: FloatArray | None

    def of_labels(self, labels: IntArray) -> "_Cells":
        count = None if self.count is None else self.count[:, labels]
        return _Cells(self.units[:, labels], self.target[:, labels], count)


def _summarise(scores: FloatArray, target: FloatArray, mean: FloatArray, spread: FloatArray) -> _Cells:
    """Standardise scores; with many rows, replace them by the means of narrow bins (equal for the curve's purposes)."""
    n_rows, n_labels = scores.shape
    if n_rows <= 2 * _N_BINS:
        return _Cells((scores - mean.astype(scores.dtype)) / spread.astype(scores.dtype), target, None)
    units, shares, counts = (np.zeros((_N_BINS, n_labels)) for _ in range(3))
    step = max(1, _BLOCK_CELLS // n_rows)
    for first in range(0, n_labels, step):
        block = slice(first, min(first + step, n_labels))
        # One label after the other in memory, and so its bins.
        some = ((scores[:, block] - mean[block]) / spread[block]).T
        low = np.maximum(some.min(axis=1, keepdims=True), -_WIDEST)
        width = np.maximum(np.minimum(some.max(axis=1, keepdims=True), _WIDEST) - low, 1e-12)
        place = np.clip((some - low) * (_N_BINS / width), 0.0, _N_BINS - 1.0).astype(np.intp)
        place += _N_BINS * np.arange(len(some))[:, None]
        flat, size = place.ravel(), _N_BINS * len(some)
        count = np.bincount(flat, minlength=size)
        for total, cells in ((units, some), (shares, target[:, block].T)):
            sums = np.bincount(flat, weights=cells.ravel(), minlength=size) / np.maximum(count, 1)
            total[:, block] = sums.reshape(len(some), _N_BINS).T
        counts[:, block] = count.reshape(len(some), _N_BINS).T
    return _Cells(units, shares, counts)


def _maximum(
    cells: _Cells, intercept: FloatArray, slope: FloatArray, centre: float, precision: float
) -> tuple[FloatArray, FloatArray]:
    """Return the most likely intercepts and slopes (Newton's method per label, until convergence)."""
    intercept, slope = intercept.astype(np.float64), slope.astype(np.float64)
    moving = np.arange(len(slope))
    kind = cells.units.dtype
    for _ in range(_MAX_NEWTON_STEPS):
        some = cells if len(moving) == len(slope) else cells.of_labels(moving)
        units = some.units
        old_slope = slope[moving]
        chance = expit(units * old_slope.astype(kind) + intercept[moving].astype(kind))
        rest = some.target - chance
        weight = chance * (1.0 - chance)
        if some.count is not None:
            rest, weight = rest * some.count, weight * some.count
        slant = weight * units
        a, b = weight.sum(axis=0, dtype=np.float64) + 1e-9, slant.sum(axis=0, dtype=np.float64)
        c = np.einsum("ij,ij->j", slant, units).astype(np.float64) + precision
        u = rest.sum(axis=0, dtype=np.float64)
        v = np.einsum("ij,ij->j", rest, units).astype(np.float64) - precision * (old_slope - centre)
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


# SciPy takes one value after the other; NumPy's exponential and logarithm take several at a time. The results are those
# of SciPy to a few units in the last place.
def expit(values: FloatArray) -> FloatArray:
    """Return ``1 / (1 + exp(-values))``.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.score_calibration import expit
    >>> expit(np.array([-1e4, 0.0, 1e4]))
    array([0. , 0.5, 1. ])
    """
    result = np.negative(values)
    with np.errstate(over="ignore", under="ignore"):
        np.exp(result, out=result)
        result += 1.0
        return np.reciprocal(result, out=result)


def logit(probability: FloatArray) -> FloatArray:
    """Return the log odds of probabilities between 0 and 1, both excluded.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.score_calibration import logit
    >>> logit(np.array([0.5]))
    array([0.])
    """
    return np.asarray(np.log(probability / (1.0 - probability)))
