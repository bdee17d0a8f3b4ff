"""What a method hands back to its base class, from data in memory and from rows in blocks."""

from dataclasses import dataclass

from pmlkit._typing import CSR, FloatArray, IntArray
from pmlkit.blocks import State


@dataclass(frozen=True)
class Learned:
    """What a method's ``_fit`` hands back.

    Attributes
    ----------
    confidence : array aligned with ``Y.data``
        How likely each candidate is true, in [0, 1].
    scores : array of shape (n_samples, n_labels)
        Scores of the training rows, made without the row's own labels where the method can;
        the threshold is chosen on them.
    objective : array, optional
        The trace of what the method minimises.
    n_iter : int, optional
        How many iterations it took.
    rows : array, optional
        The rows whose scores are given, ascending, where they are not all: a sample is enough for a threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.base import Learned
    >>> learned = Learned(confidence=np.array([0.9, 0.2]), scores=np.array([[0.8, 0.3]]))
    >>> learned.n_iter is None
    True
    """

    confidence: FloatArray
    scores: FloatArray
    objective: FloatArray | None = None
    n_iter: int | None = None
    rows: IntArray | None = None
    sample: tuple[FloatArray, CSR, FloatArray] | None = None


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
