"""Nearest neighbours with a tie rule that does not depend on the search tree, and rows reconstructed from them."""

from collections.abc import Iterator

import numpy as np
from scipy import sparse
from scipy.optimize import nnls
from sklearn.metrics import pairwise_distances_chunked
from sklearn.neighbors import NearestNeighbors

from pmlkit._typing import CSR, BoolArray, Features, FloatArray, IntArray


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


# Ratio of smallest to largest eigenvalue above which the solution of a Gram system is trusted.
_SINGULAR = 1e-9
_SWEEPS = 60
_CELLS_AT_ONCE = 1 << 19


def reconstruction_weights(X: Features, neighbor: IntArray) -> FloatArray:
    r"""Return the non-negative weights that best reconstruct each row from its neighbours.

    Row by row, :math:`\min_{w \ge 0} \lVert x_i - \sum_r w_r x_{N(i, r)} \rVert^2`.

    `neighbor` (n_samples, k): row numbers of the neighbours, as :func:`pmlkit.numerics.neighbors.nearest` gives them.

    All k x k Gram systems are solved together by :func:`nonnegative_least_squares`, and the weights are then refined
    with the residuals of the rows themselves, so that they agree with ``scipy.optimize.nnls`` to its own precision.
    Rows whose neighbours are (nearly) linearly dependent are handed to it; their weights need not be unique. Of sparse
    rows, only the columns in use are made dense, block by block.
    """
    weights = np.zeros(neighbor.shape)
    for rows in _blocks(X, neighbor):
        target, around = _gathered(X, rows, neighbor[rows])
        gram = around @ around.transpose(0, 2, 1)
        cross = (around @ target[:, :, None])[:, :, 0]
        solution, sound = nonnegative_least_squares(gram, cross)
        weights[rows[sound]] = _refined(solution[sound], gram[sound], around[sound], target[sound])
        for i in np.flatnonzero(~sound):
            weights[rows[i]] = nnls(around[i].T, target[i])[0]
    return weights


def reconstruction_graph(X: Features, neighbor: IntArray) -> CSR:
    """Return the reconstruction weights as a sparse n x n array whose rows sum to one.

    A row whose weights are all zero stays a row of zeros.
    """
    weights = reconstruction_weights(X, neighbor)
    total = weights.sum(axis=1, keepdims=True)
    weights = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    n_samples, k = neighbor.shape
    # flatten() copies: the clean-up below would otherwise reorder the caller's neighbours.
    row_ends = np.arange(0, neighbor.size + 1, k)
    graph = sparse.csr_array((weights.ravel(), neighbor.flatten(), row_ends), (n_samples, n_samples))
    graph.eliminate_zeros()
    graph.sort_indices()
    return graph


def nonnegative_least_squares(gram: FloatArray, cross: FloatArray) -> tuple[FloatArray, BoolArray]:
    r"""Solve many small problems :math:`\min_{w \ge 0} \frac12 w' G w - c' w` together.

    - `gram` (n_problems, k, k): symmetric and positive semi-definite.
    - Returns `sound` (n_problems,): false where the Gram matrix is too near to singular for its solution to be trusted,
      or where the active set did not settle; the weights there are not to be used.

    Block principal pivoting (Judice and Pires 1994): all cells of the wrong sign change sides at once; after three
    exchanges that did not lower their number only the last of them does, which makes the method finite.
    """
    n_problems, k = cross.shape
    spectrum = np.linalg.eigvalsh(gram)
    # Principal submatrices have a spectrum within this one, so no later system is worse than this.
    sound = spectrum[:, 0] > _SINGULAR * spectrum[:, -1]
    weights = np.zeros((n_problems, k))
    positive = cross > 0
    tolerance = 1e-13 * np.abs(cross).max(axis=1, initial=0.0)
    fewest, patience = np.full(n_problems, k + 1), np.full(n_problems, 3)
    running = np.flatnonzero(sound)
    for _ in range(_SWEEPS):
        if not len(running):
            break
        G, c, chosen = gram[running], cross[running], positive[running]
        w = _solve_on(G, chosen, c)
        slope = (G @ w[:, :, None])[:, :, 0] - c
        wrong = np.where(chosen, w < 0, slope < -tolerance[running, None])
        n_wrong = wrong.sum(axis=1)
        done = n_wrong == 0
        weights[running[done]] = w[done]
        better = n_wrong < fewest[running]
        fewest[running] = np.where(better, n_wrong, fewest[running])
        patience[running] = np.where(better, 3, patience[running] - 1)
        last = np.arange(k) == (k - 1 - np.argmax(wrong[:, ::-1], axis=1))[:, None]
        positive[running] = chosen ^ np.where((patience[running] >= 0)[:, None], wrong, wrong & last)
        running = running[~done]
    sound[running] = False
    return weights, sound


def _solve_on(gram: FloatArray, chosen: BoolArray, cross: FloatArray) -> FloatArray:
    """Solve every system on its chosen columns, with zeros elsewhere."""
    system = np.where(chosen[:, :, None] & chosen[:, None, :], gram, np.eye(gram.shape[1]))
    return np.asarray(np.linalg.solve(system, np.where(chosen, cross, 0.0)[:, :, None])[:, :, 0])


def _refined(weights: FloatArray, gram: FloatArray, around: FloatArray, target: FloatArray) -> FloatArray:
    """Take a step of iterative refinement, which undoes the squared condition of the Gram matrix."""
    chosen = weights > 0
    residual = target - (weights[:, None, :] @ around)[:, 0, :]
    weights = weights + _solve_on(gram, chosen, (around @ residual[:, :, None])[:, :, 0])
    return np.asarray(np.where(chosen, np.maximum(weights, 0.0), 0.0))


def _blocks(X: Features, neighbor: IntArray) -> Iterator[IntArray]:
    """Yield row numbers in blocks whose gathered neighbours fit in a bounded dense array."""
    n_samples, k = neighbor.shape
    width = X.shape[1]
    if sparse.issparse(X):
        # A block uses at most as many columns as its rows have cells.
        cells = max(1.0, X.nnz / max(1, X.shape[0]))
        width = min(width, int(np.sqrt(_CELLS_AT_ONCE * cells)) + 1)
    size = max(1, _CELLS_AT_ONCE // max(1, (k + 1) * width))
    for start in range(0, n_samples, size):
        yield np.arange(start, min(start + size, n_samples))


def _gathered(X: Features, rows: IntArray, neighbor: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the rows (n, d) and their neighbours (n, k, d), dense, in double precision."""
    everyone = X[np.concatenate([rows, neighbor.ravel()])]
    if sparse.issparse(everyone):
        used, place = np.unique(everyone.indices, return_inverse=True)
        everyone = sparse.csr_array((everyone.data, place, everyone.indptr), (everyone.shape[0], len(used))).toarray()
    everyone = np.asarray(everyone, dtype=np.float64)
    return everyone[: len(rows)], everyone[len(rows) :].reshape(*neighbor.shape, -1)
