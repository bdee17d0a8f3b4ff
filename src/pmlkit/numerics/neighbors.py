"""Nearest neighbours with a tie rule that does not depend on the search tree."""

import numpy as np
from scipy import sparse
from sklearn.metrics import pairwise_distances_chunked
from sklearn.neighbors import NearestNeighbors

from pmlkit._typing import Features, FloatArray, IntArray

__all__ = ["nearest"]


def nearest(index: NearestNeighbors, k: int, X: Features | None = None) -> tuple[FloatArray, IntArray]:
    """Return the k nearest indexed rows, nearest first, equal distances by row number.

    `index`: fitted on the rows to search. `k`: must be smaller than the number of indexed rows when `X` is None. `X`:
    the query rows. None: the indexed rows themselves, each without itself.
    """
    n_indexed = index.n_samples_fit_
    available = n_indexed if X is not None else n_indexed - 1
    k = min(k, available)
    distance, neighbor = index.kneighbors(X, n_neighbors=min(k + 1, available))
    order = np.lexsort((neighbor, distance), axis=1)
    distance, neighbor = np.take_along_axis(distance, order, 1), np.take_along_axis(neighbor, order, 1)
    if distance.shape[1] > k:
        # Only where the k-th and the next distance are equal can the search have returned the wrong ones.
        tied = np.flatnonzero(distance[:, k] == distance[:, k - 1])
        distance, neighbor = distance[:, :k].copy(), neighbor[:, :k].copy()
        _settle_ties(index, X, tied, distance, neighbor)
    return distance, neighbor


def _settle_ties(
    index: NearestNeighbors, X: Features | None, tied: IntArray, distance: FloatArray, neighbor: IntArray
) -> None:
    """Search the tied rows again by brute force, in place, with a stable order."""
    if not len(tied):
        return
    k = distance.shape[1]
    rows_there = index._fit_X
    asking = (rows_there if X is None else X)[tied]
    if not sparse.issparse(rows_there):
        # Subtracting the (rounded) mean avoids cancellation between large values; integers stay integers.
        level = np.round(rows_there.mean(axis=0))
        rows_there, asking = rows_there - level, asking - level
    done = 0
    for block in pairwise_distances_chunked(asking, rows_there):
        rows = tied[done : done + len(block)]
        if X is None:
            block[np.arange(len(rows)), rows] = np.inf
        best = np.argsort(block, axis=1, kind="stable")[:, :k]
        neighbor[rows] = best
        distance[rows] = np.take_along_axis(block, best, 1)
        done += len(block)
