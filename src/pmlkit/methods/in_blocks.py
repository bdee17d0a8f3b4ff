"""Fits to rows in blocks: what a method hands back, and a fitted model's answers for one block."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from pmlkit._typing import CSR, Features, FloatArray, IntArray
from pmlkit.blocks import State
from pmlkit.methods.calibration import calibrated

__all__ = [
    "LearnedBlocks",
    "best_labels",
    "confidence",
    "decision",
    "label_set",
    "probability",
    "single_precision",
    "top",
]


@dataclass(frozen=True)
class LearnedBlocks:
    """What a method's ``_fit_blocks`` hands back.

    Attributes
    ----------
    confidence : State
        Of each block: how likely each candidate is true, aligned with its ``Y.data``.
    scores : State
        Of each block: scores of its rows, made without the row's own labels where the method can; NaN in rows without
        candidates. Not kept, but computed when asked for.
    sample : tuple of array, CSR array and array
        Scores, candidates and confidences (aligned with the candidates) of a sample of rows with candidates, the
        same for all layouts of the blocks: thresholds are chosen on it.
    objective, n_iter : optional
        As in `Learned`.
    """

    confidence: State
    scores: State
    sample: tuple[FloatArray, CSR, FloatArray]
    objective: FloatArray | None = None
    n_iter: int | None = None


def decision(X: Features, *, model: Any) -> FloatArray:
    """Return the scores of a block's rows."""
    return np.asarray(model._own_scores(X))


def probability(X: Features, *, model: Any) -> FloatArray:
    """Return the probabilities of a block's rows."""
    scores = model._own_scores(X)
    return calibrated(scores, model._curve) if model._calibrates else scores


def label_set(X: Features, *, model: Any) -> Any:
    """Return the label sets of a block's rows as an indicator."""
    return model._rule().label_sets(model._own_scores(X)).astype(np.int8)


def top(X: Features, *, model: Any, k: int, part: int) -> Any:
    """Return the best labels of a block's rows (part 0) or their scores (part 1)."""
    return best_labels(model._own_scores(X), k)[part]


def confidence(Y: CSR, confidence: FloatArray) -> CSR:
    """Return a block's confidences in the pattern of its candidates."""
    return sparse.csr_array((np.clip(confidence, 0.0, 1.0), Y.indices, Y.indptr), Y.shape)


def single_precision(scores: FloatArray) -> FloatArray:
    """Return scores as they are kept."""
    return scores.astype(np.float32)


def best_labels(scores: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
    """Return the k best labels of every row, best first, and their scores; of equal ones the first labels.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.in_blocks import best_labels
    >>> best_labels(np.array([[0.1, 0.9, 0.4, 0.4]]), 2)
    (array([[1, 2]]), array([[0.9, 0.4]]))
    """
    n_rows, n_labels = scores.shape
    if k > n_labels // 8:
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return best, np.take_along_axis(scores, best, axis=1)
    least = np.partition(scores, n_labels - k, axis=1)[:, n_labels - k, None]
    enough = scores >= least
    best = np.zeros((n_rows, k), dtype=np.intp)
    tied = enough.sum(axis=1) > k
    best[~tied] = np.nonzero(enough[~tied])[1].reshape(-1, k)
    best[tied] = np.argsort(-scores[tied], axis=1, kind="stable")[:, :k]
    order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
    best = np.take_along_axis(best, order, axis=1)
    return best, np.take_along_axis(scores, best, axis=1)
