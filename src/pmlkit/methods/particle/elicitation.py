"""Credible labels: candidates that neighbours support, by label propagation (PARTICLE, first stage)."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from pmlkit._arrays import row_of_cells
from pmlkit._typing import CSR, BoolArray, Features, FloatArray, IntArray
from pmlkit.numerics.neighbors import nearest, reconstruction_graph

_FOLDS = 10


def propagated_confidence(
    X: Features, Y: CSR, index: Any, *, n_neighbors: int, alpha: float, with_self: bool = False
) -> tuple[CSR, int]:
    """Return confidences by label propagation over the reconstruction graph.

    `index`: fitted on `X`. `alpha`: how much comes from the neighbours, in [0, 1). `with_self`: whether a row counts
    among its own neighbours, as in the authors' program; it then rebuilds itself perfectly and nothing flows. Returns
    confidences after the class-mass correction, each row mapped to [0, 1], and the number of iterations.
    """
    neighbor = nearest(index, n_neighbors, X if with_self else None)[1]
    flow, n_iter = propagate(reconstruction_graph(X, neighbor), Y, alpha=alpha)
    mass = sparse.csr_array((reweight_to_class_mass(flow, Y), Y.indices, Y.indptr), Y.shape)
    row = row_of_cells(Y)
    values = rows_to_unit_range(mass.toarray())[row, Y.indices]
    return sparse.csr_array((values, Y.indices, Y.indptr), Y.shape), n_iter


def neighbour_votes(distance: FloatArray, neighbor: IntArray, confidence: CSR) -> FloatArray:
    r"""Let neighbours vote with their confidences, each row mapped to [0, 1].

    Neighbour r has the weight :math:`1 - d_r / \sum_s d_s`. (A single neighbour has the weight one,
    and a single label, which has no others to be compared with, gets the weighted mean.)
    """
    k = distance.shape[1]
    total = distance.sum(axis=1, keepdims=True)
    share = np.divide(distance, total, out=np.full_like(distance, 1.0 / k), where=total > 0)
    weight = 1.0 - share if k > 1 else np.ones_like(share)
    row_ends = np.arange(0, neighbor.size + 1, k)
    voters = sparse.csr_array((weight.ravel(), neighbor.ravel(), row_ends), (len(neighbor), confidence.shape[0]))
    votes = (voters @ confidence).toarray()
    if votes.shape[1] == 1:
        return np.asarray(votes / weight.sum(axis=1, keepdims=True))
    return rows_to_unit_range(votes)


def credible_labels(votes: FloatArray, confidence: FloatArray, candidate: BoolArray, threshold: float) -> BoolArray:
    """Choose the candidates whose votes reach a threshold, and at least one of each row.

    `votes`, `confidence` (n_samples, n_labels): where no candidate reaches the threshold, the one with the most votes
    is taken, and among equals the one with the highest confidence.
    """
    credible = np.asarray((votes >= threshold) & candidate)
    bare = np.flatnonzero(candidate.any(axis=1) & ~credible.any(axis=1))
    own = np.where(candidate[bare], votes[bare], -1.0)
    finalist = own == own.max(axis=1, keepdims=True, initial=-1.0)
    credible[bare, np.argmax(np.where(finalist, confidence[bare], -1.0), axis=1)] = True
    return credible


def credible_labels_by_folds(
    X: Features, Y: CSR, *, n_neighbors: int, alpha: float, threshold: float
) -> tuple[FloatArray, BoolArray]:
    """Elicit credible labels as the authors' program does.

    Ten contiguous folds, each judged by the rows of the others. Where no candidate reaches the
    threshold, labels that do are taken although they are no candidates.
    """
    n_samples = Y.shape[0]
    votes = np.empty(Y.shape)
    size = -(-n_samples // _FOLDS)
    for start in range(0, n_samples, size):
        held_out = np.arange(start, min(start + size, n_samples))
        rest = np.setdiff1d(np.arange(n_samples), held_out)
        index = NearestNeighbors().fit(X[rest])
        confidence, _ = propagated_confidence(
            X[rest], Y[rest], index, n_neighbors=n_neighbors, alpha=alpha, with_self=True
        )
        votes[held_out] = neighbour_votes(*nearest(index, n_neighbors, X[held_out]), confidence)
    popular = votes >= threshold
    credible = popular & (Y.toarray() > 0)
    outside = ~credible.any(axis=1)
    credible[outside] = popular[outside]
    return votes, credible


def candidate_operator(graph: CSR, Y: CSR) -> CSR:
    """Return the graph as an operator on the candidate cells.

    For values `p` aligned with ``Y.data``, ``operator @ p`` is ``graph @ P`` on the candidates, at the cost of the
    cells that neighbours have in common. `Y`: candidates, with sorted indices.
    """
    n_labels = Y.shape[1]
    edges = graph.tocoo()
    sizes = np.diff(Y.indptr)
    # One entry for every edge and candidate of its receiving row; kept where the sending row has it too.
    per_edge = sizes[edges.coords[0]]
    edge = np.repeat(np.arange(len(per_edge)), per_edge)
    within = np.arange(len(edge)) - np.repeat(np.cumsum(per_edge) - per_edge, per_edge)
    to_cell = Y.indptr[edges.coords[0][edge]].astype(np.int64) + within
    wanted = edges.coords[1][edge].astype(np.int64) * n_labels + Y.indices[to_cell]
    cell_key = np.repeat(np.arange(Y.shape[0], dtype=np.int64), sizes) * n_labels + Y.indices
    from_cell = np.minimum(np.searchsorted(cell_key, wanted), max(Y.nnz - 1, 0))
    shared = cell_key[from_cell] == wanted if Y.nnz else np.zeros(0, dtype=bool)
    return sparse.csr_array((edges.data[edge][shared], (to_cell[shared], from_cell[shared])), (Y.nnz, Y.nnz))


def propagate(
    graph: CSR, Y: CSR, *, alpha: float = 0.95, tol: float = 1e-5, max_iter: int = 1000
) -> tuple[FloatArray, int]:
    r"""Propagate confidences along a graph, restricted to the candidates.

    .. math::

        P \leftarrow \text{rows to sum one of } Y \circ (\alpha T P + (1 - \alpha) Y)

    `graph`: the transition matrix T, with rows that sum to one (or zero). `alpha`: weight of the neighbours, in [0, 1).
    `tol`: stop when the spectral norm of the change is below. Returns confidences, whose rows sum to one, and the
    number of iterations.
    """
    operator = candidate_operator(graph, Y)
    row = row_of_cells(Y)
    confidence = np.ones(Y.nnz)
    n_iter, settled = 0, False
    while not settled and n_iter < max_iter:
        flow = alpha * (operator @ confidence) + (1.0 - alpha)
        flow /= np.bincount(row, weights=flow, minlength=Y.shape[0])[row]
        settled = _spectral_norm_below(sparse.csr_array((flow - confidence, Y.indices, Y.indptr), Y.shape), tol)
        confidence = flow
        n_iter += 1
    return confidence, n_iter


def _spectral_norm_below(change: CSR, tol: float) -> bool:
    """Return whether the largest singular value is below `tol`, computing it only where bounds do not decide."""
    frobenius = float(np.linalg.norm(change.data))
    if frobenius < tol:
        return True
    if frobenius >= tol * np.sqrt(min(change.shape)):
        return False
    gram = (change.T @ change).toarray()
    return bool(np.linalg.eigvalsh(gram)[-1] < tol * tol)


def reweight_to_class_mass(confidence: FloatArray, Y: CSR) -> FloatArray:
    """Scale every label so that its confidences sum to the number of its candidates."""
    label: IntArray = Y.indices
    n_labels = Y.shape[1]
    mass = np.bincount(label, weights=confidence, minlength=n_labels)
    count = np.bincount(label, minlength=n_labels)
    return np.asarray(confidence * (count / np.where(mass > 0, mass, 1.0))[label])


def rows_to_unit_range(scores: FloatArray) -> FloatArray:
    """Map every row to [0, 1] by its smallest and largest value.

    A row of equal values becomes ones, or zeros where the values are zero.
    """
    low, high = scores.min(axis=1, keepdims=True), scores.max(axis=1, keepdims=True)
    flat = np.broadcast_to((high != 0).astype(scores.dtype), scores.shape)
    return np.asarray(np.divide(scores - low, high - low, out=flat.copy(), where=high > low))
