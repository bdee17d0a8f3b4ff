"""Labels that were not given but are probably true."""

import numpy as np

from pmlkit._typing import CSR, FloatArray, IntArray

__all__ = ["most_likely_missing"]

_BLOCK_ROWS = 20_000


def most_likely_missing(scores: FloatArray, Y: CSR, labels: IntArray, k: int) -> tuple[IntArray, IntArray]:
    """Return the `k` non-candidates with the highest scores, rows without candidates left out.

    Parameters
    ----------
    scores : array of shape (n_samples, n_labels)
        Out-of-fold.
    Y : CSR array of shape (n_samples, n_labels)
        Candidates.
    labels : array of int
        The labels to consider.
    k : int

    Returns
    -------
    rows, labels : arrays of int
        The highest score first, equals by row and label.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.missing import most_likely_missing
    >>> scores, Y = np.array([[0.9, 0.8], [0.7, 0.6], [0.9, 0.9]]), sparse.csr_array([[1, 0], [0, 1], [0, 0]])
    >>> [part.tolist() for part in most_likely_missing(scores, Y, np.array([0, 1]), 2)]
    [[0, 1], [1, 0]]
    """
    if k < 1:
        raise ValueError(f"k must be a number of labels (int >= 1), got {k!r}.")
    found: list[tuple[FloatArray, IntArray, IntArray]] = []
    labelled = np.flatnonzero(np.diff(Y.indptr) > 0)
    for start in range(0, len(labelled), _BLOCK_ROWS):
        rows = labelled[start : start + _BLOCK_ROWS]
        free = np.where(Y[rows][:, labels].toarray() > 0, -np.inf, scores[np.ix_(rows, labels)])
        flat = free.ravel()
        n_best = min(k, int(np.isfinite(flat).sum()))
        if n_best:
            least = np.partition(flat, len(flat) - n_best)[len(flat) - n_best]
            best = np.flatnonzero(flat >= least)
            found.append((flat[best], rows[best // len(labels)], labels[best % len(labels)]))
    if not found:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    value, row, label = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((label, row, -value))[:k]
    return row[order], label[order]
