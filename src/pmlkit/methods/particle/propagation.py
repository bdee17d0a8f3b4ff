"""Label propagation restricted to the candidates."""

import numpy as np
from scipy import sparse

from pmlkit._arrays import row_of_cells
from pmlkit._typing import CSR, FloatArray, IntArray

__all__ = ["candidate_operator", "propagate", "reweight_to_class_mass", "rows_to_unit_range"]


def candidate_operator(graph: CSR, Y: CSR) -> CSR:
    """Return the graph as an operator on the candidate cells.

    - `graph` (n_samples, n_samples): transition weights between rows.
    - `Y` (n_samples, n_labels): candidates, with sorted indices.
    - Returns `operator` (n_cells, n_cells): for values `p` aligned with ``Y.data``, ``operator @ p`` is ``graph @ P``
      on the candidates, at the cost of the cells that neighbours have in common.
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

    - `graph` (n_samples, n_samples): the transition matrix T, with rows that sum to one (or zero).
    - `Y` (n_samples, n_labels): candidates, with sorted indices.
    - `alpha`: weight of the neighbours, in [0, 1).
    - `tol`: stop when the spectral norm of the change is below.
    - Returns `confidence`: rows sum to one.
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
