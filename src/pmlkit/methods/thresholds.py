"""From scores to label sets and probabilities: the threshold strategies and the curve that all methods share.

Every strategy ends as the same simple rule: a row's threshold is a linear function of the row's scores, ``scores @
weights + offset`` (all strategies but ``"size"`` have no weights: one number serves all rows), a label is given when
its score reaches the threshold, and ``at_least_one`` adds the best label where no score does.
"""

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.utils._param_validation import Interval, StrOptions

from pmlkit._arrays import row_of_cells
from pmlkit._typing import CSR, BoolArray, FloatArray, IntArray

__all__ = ["THRESHOLDS", "LabelRule", "fit_threshold"]

THRESHOLDS = ("cardinality", "at_least_one", "size", "hamming", "f1")
"""The named strategies; a number is a fixed threshold."""

_REGRESSED_LABELS = 4096
_CURVE_ROWS, _CURVE_STEPS = 50_000, 50
_CURVE_CELLS = 2**15  # that stay in the processor's caches

THRESHOLD_CONSTRAINT: list[Any] = [StrOptions(set(THRESHOLDS)), Interval(Real, None, None, closed="neither")]


@dataclass(frozen=True)
class LabelRule:
    """A fitted threshold: a row's threshold is ``scores @ weights + offset``.

    `at_least_one`: whether a row without any score above its threshold gets its best label.
    """

    weights: FloatArray
    offset: float
    at_least_one: bool

    def margin(self, scores: FloatArray) -> FloatArray:
        """Return how far each score lies above its row's threshold."""
        if not self.weights.any():
            return np.asarray(scores - self.offset)
        return np.asarray(scores - (scores @ self.weights + self.offset)[:, None])

    def label_sets(self, scores: FloatArray) -> BoolArray:
        """Return the predicted label sets as an indicator."""
        given = self.margin(scores) >= 0
        # With a single label, "at least one" would always predict it.
        if self.at_least_one and scores.shape[1] > 1:
            bare = np.flatnonzero(~given.any(axis=1))
            given[bare, np.argmax(scores[bare], axis=1)] = True
        return given


def fit_threshold(
    threshold: str | float,
    scores: FloatArray,
    Y: CSR,
    confidence: FloatArray,
    *,
    natural_cut: float,
    weight: FloatArray | None = None,
) -> LabelRule:
    """Fit a threshold to the scores and candidates of training rows; true labels are never used.

    Parameters
    ----------
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float
        - ``"cardinality"``: one threshold for all scores, such that training rows get as many labels on average as the
          confidences say that they have (the noise-corrected cardinality); each row gets at least one label;
        - ``"at_least_one"``: the method's own decision threshold; each row gets at least one label;
        - ``"size"``: the size predictor of Elisseeff and Weston (2002), fitted to the
          candidates: each training row's best threshold, regressed on its scores; a row may get no
          label; with more than 4,096 labels the mean of the rows' best thresholds;
        - ``"hamming"``: one threshold for all scores, which minimises the expected Hamming loss on the
          training rows if each candidate is true with the probability given by its confidence and
          other labels are false; a row may get no label;
        - ``"f1"``: likewise, but maximises the expected micro-F1; each row gets at least one label;
        - a number: that fixed threshold; a row may get no label.
    scores : array of shape (n_samples, n_labels)
        Scores of training rows.
    Y : CSR array of shape (n_samples, n_labels)
        Their candidates.
    confidence : array aligned with ``Y.data``
    natural_cut : float
        The method's own decision threshold.
    weight : array of shape (n_samples,), optional
        A row of weight 2 counts as two equal rows.

    Returns
    -------
    rule : LabelRule
        ``rule.label_sets(scores)`` is the indicator of the label sets, ``rule.margin(scores)`` the scores minus the
        threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.methods.thresholds import fit_threshold
    >>> scores = np.array([[0.9, 0.2], [0.8, 0.6]])
    >>> Y = sparse.csr_array(np.array([[1, 0], [1, 1]]))
    >>> rule = fit_threshold("hamming", scores, Y, np.array([1.0, 0.9, 0.1]), natural_cut=0.5)
    >>> rule.label_sets(scores).tolist()
    [[True, False], [True, False]]
    """
    none = np.zeros(scores.shape[1])
    if not isinstance(threshold, str):
        return LabelRule(none, float(threshold), at_least_one=False)
    if weight is not None and weight.any():
        # Rows of weight 0 count as absent: their scores would otherwise move the middle between two scores.
        counted = weight > 0
        confidence = confidence[np.repeat(counted, np.diff(Y.indptr))]
        scores, Y, weight = scores[counted], Y[counted], weight[counted]
    if scores.shape[1] == 1 or threshold == "at_least_one":
        return LabelRule(none, natural_cut, at_least_one=True)
    if threshold == "size":
        weights, offset = _size_predictor(scores, Y, weight)
        return LabelRule(weights, offset, at_least_one=False)
    if threshold in ("hamming", "f1"):
        cut = _expected_best_cut(threshold, scores, Y, confidence, weight)
        return LabelRule(none, cut, at_least_one=threshold == "f1")
    if weight is not None:
        confidence = confidence * np.repeat(weight, np.diff(Y.indptr))
    return LabelRule(none, _cardinality_cut(scores, float(confidence.sum()), weight), at_least_one=True)


def _cardinality_cut(scores: FloatArray, wanted: float, weight: FloatArray | None) -> float:
    """Return the threshold with the wanted total weight of scores above it, as nearly as ties allow."""
    if weight is None:
        ascending = np.sort(scores, axis=None)
        from_top = np.arange(1.0, ascending.size + 1.0)
    else:
        order = np.argsort(scores, axis=None, kind="stable")
        ascending = scores.ravel()[order]
        from_top = np.cumsum(np.repeat(weight, scores.shape[1])[order[::-1]])
    size = len(ascending)
    # Equal scores are all above the threshold or all below.
    reached = min(int(np.searchsorted(from_top, wanted - 0.5 * (weight is None))), size - 1)
    tie = ascending[size - 1 - reached]
    n_above = size - int(np.searchsorted(ascending, tie, side="right"))
    n_with = size - int(np.searchsorted(ascending, tie, side="left"))
    above = from_top[n_above - 1] if n_above else 0.0
    n_taken = n_with if from_top[n_with - 1] - wanted <= wanted - above and n_with < size else n_above
    if n_taken == 0:
        return float(np.nextafter(ascending[-1], np.inf))
    lowest, next_lower = ascending[size - n_taken], ascending[size - n_taken - 1]
    middle = (lowest + next_lower) / 2
    return float(middle if middle > next_lower else lowest)


def _expected_best_cut(
    measure: str, scores: FloatArray, Y: CSR, confidence: FloatArray, weight: FloatArray | None
) -> float:
    """Return the threshold with the best expected Hamming loss or micro-F1, confidences taken as probabilities."""
    values, size = scores.ravel(), scores.size
    cell = row_of_cells(Y) * scores.shape[1] + Y.indices
    of_cell = np.argsort(cell)
    of_cell = of_cell[np.argsort(-values[cell[of_cell]], kind="stable")]
    expected = float(np.cumsum(confidence[of_cell])[-1]) if len(cell) else 0.0
    # Only the highest scores are sorted: where more than twice the expected labels are given, most of them are wrong.
    n_top = size if weight is not None else min(size, int(2.0 * expected) + 2)
    while True:
        kept = _places_of_highest(values, n_top)
        order = np.argsort(-values[kept], kind="stable")
        descending, true = values[kept][order], _values_at(kept, cell, confidence)[order]
        taken = np.ones(len(order)) if weight is None else np.repeat(weight, scores.shape[1])[kept[order]]
        hits, given = np.cumsum(taken * true), np.cumsum(taken)
        n_true = expected if weight is None else hits[-1]
        gain = 2.0 * hits - given if measure == "hamming" else 2.0 * hits / np.maximum(given + n_true, 1e-300)
        # No threshold lies between equal scores.
        possible = np.append(descending[1:] < descending[:-1], True)
        best = int(np.argmax(np.where(possible, gain, -np.inf)))
        # The F1 of k labels is at most 2 expected / (k + expected).
        needed = 2.0 * n_true / gain[best] - n_true if gain[best] > 0 else np.inf
        if len(kept) == size or measure == "hamming" or needed < len(kept):
            break
        n_top = int(min(size, needed + 2.0))
    if gain[best] <= 0:
        return float(np.nextafter(descending[0], np.inf))
    if best + 1 == len(descending):
        return float(descending[best])
    middle = (descending[best] + descending[best + 1]) / 2
    return float(middle if middle > descending[best + 1] else descending[best])


def _places_of_highest(values: FloatArray, n_highest: int) -> IntArray:
    """Return where the highest values are, and those that are equal to the last of them, in ascending order."""
    if n_highest >= values.size:
        return np.arange(values.size)
    last = np.partition(values, values.size - n_highest)[values.size - n_highest]
    return np.flatnonzero(values >= last)


def _values_at(places: IntArray, cell: IntArray, value: FloatArray) -> FloatArray:
    """Return values at sorted places, zero where there is none of the cells."""
    found = np.zeros(len(places))
    where = np.minimum(np.searchsorted(places, cell), len(places) - 1)
    is_there = places[where] == cell
    found[where[is_there]] = value[is_there]
    return found


def _size_predictor(scores: FloatArray, Y: CSR, weight: FloatArray | None) -> tuple[FloatArray, float]:
    """Regress each row's best threshold on its scores (minimum-norm least squares).

    The candidate thresholds of a row are the midpoints of its sorted scores, 0.1 below the
    smallest and 0.1 above the largest; the first one with the fewest errors counts. With more labels than
    `_REGRESSED_LABELS` the regression has a constant only.
    """
    order = np.argsort(scores, axis=1, kind="stable")
    ascending = np.take_along_axis(scores, order, axis=1)
    relevant = np.take_along_axis(Y.toarray() > 0, order, axis=1)
    zero = np.zeros((len(scores), 1))
    missed = np.hstack([zero, np.cumsum(relevant, axis=1)])
    false = np.hstack([zero, np.cumsum(~relevant[:, ::-1], axis=1)])[:, ::-1]
    cuts = np.hstack([ascending[:, :1] - 0.1, (ascending[:, 1:] + ascending[:, :-1]) / 2, ascending[:, -1:] + 0.1])
    target = np.take_along_axis(cuts, np.argmin(missed + false, axis=1)[:, None], axis=1)[:, 0]
    if scores.shape[1] > _REGRESSED_LABELS:
        return np.zeros(scores.shape[1]), float(np.average(target, weights=weight))
    root = np.ones(len(scores)) if weight is None else np.sqrt(weight)
    design = root[:, None] * np.hstack([scores, np.ones_like(zero)])
    solution = np.linalg.lstsq(design, root * target, rcond=None)[0]
    return solution[:-1], float(solution[-1])


def fit_curve(scores: FloatArray, Y: CSR, confidence: FloatArray) -> tuple[float, float]:
    r"""Fit the curve :math:`P(\text{true}) = \sigma(a \operatorname{logit}(s) + b)` by maximum likelihood (Platt).

    The expected truth is the target: the confidence at a candidate and 0 elsewhere. The true labels are not needed.

    `scores` (n_samples, n_labels): out-of-fold scores of training rows, between 0 and 1. `Y` (n_samples, n_labels):
    their candidates. Returns: (1, 0), the identity, where scores do not increase with the confidences.
    """
    target = np.zeros(Y.shape)
    target[row_of_cells(Y), Y.indices] = confidence
    step = -(-len(scores) // _CURVE_ROWS)
    z, t = _log_odds(scores[::step]).ravel(), target[::step].ravel()
    curve = np.array([1.0, 0.0])
    for _ in range(_CURVE_STEPS):
        total = sum(
            _derivatives(z[i : i + _CURVE_CELLS], t[i : i + _CURVE_CELLS], curve)
            for i in range(0, len(z), _CURVE_CELLS)
        )
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
