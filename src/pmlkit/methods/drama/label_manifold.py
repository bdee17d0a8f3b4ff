"""Confidences that are smooth on the feature manifold and keep a margin (DRAMA, first stage)."""

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import svds

from pmlkit._arrays import generator, row_of_cells
from pmlkit._typing import CSR, FloatArray
from pmlkit.numerics.prox import project_rows_to_simplex


def manifold_confidence(
    graph: CSR,
    Y: CSR,
    *,
    candidate_slack: float = 0.01,
    other_margin: float = 0.5,
    tol: float = 1e-6,
    max_iter: int = 2000,
) -> tuple[FloatArray, FloatArray]:
    r"""Find the smoothest confidences with a margin between candidates and other labels.

    .. math::

        \min_\Lambda \lVert (I - R) \Lambda \rVert^2 \quad \text{s.t.} \quad
        \Lambda_{ij} \ge -\delta_1 \; (j \in S_i), \quad \Lambda_{ij} \le -\delta_2 \; (j \notin S_i), \quad
        \sum_{j \in S_i} \Lambda_{ij} \ge 1 .

    - `graph` (n_samples, n_samples): the reconstruction weights R.
    - `Y` (n_samples, n_labels): candidates S, with sorted indices. A row without any has no sum constraint.
    - `candidate_slack`, `other_margin`: :math:`\delta_1` and :math:`\delta_2`.
    - `tol`: stop when a projected gradient step moves the candidates' confidences by less on average.
    - Returns `objective`: its value after every iteration; never rises.

    Notes
    -----
    An accelerated projected gradient method that restarts where the objective would rise. Each iteration costs two
    products with the sparse `I - R` and one projection of the rows; no system is solved. (A factorisation of `M = (I -
    R)'(I - R)` fills half of the matrix, since neighbour graphs have no small separators.)
    """
    roughness = sparse.csr_array(sparse.eye_array(graph.shape[0]) - graph)
    adjoint = sparse.csr_array(roughness.T)
    # Slightly above the Lipschitz constant of the gradient, which is only estimated.
    lipschitz = 2.02 * _largest_singular_value(roughness) ** 2
    confidence = project_to_margins(np.zeros(Y.shape), Y, candidate_slack, other_margin)
    residual = roughness @ confidence
    value = float(np.vdot(residual, residual))
    ahead, residual_ahead, momentum = confidence, residual, 1.0
    row = row_of_cells(Y)
    objective = []
    for _ in range(max_iter):
        descent = ahead - (2.0 / lipschitz) * (adjoint @ residual_ahead)
        new = project_to_margins(descent, Y, candidate_slack, other_margin)
        new_residual = roughness @ new
        new_value = float(np.vdot(new_residual, new_residual))
        if new_value > value and momentum > 1.0:
            ahead, residual_ahead, momentum = confidence, residual, 1.0
            continue
        moved = float(np.abs((new - ahead)[row, Y.indices]).sum()) / max(Y.nnz, 1)
        step, residual_step = new - confidence, new_residual - residual
        if np.vdot(ahead - new, step) > 0:  # the momentum points uphill: restart
            momentum = 1.0
        next_momentum = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        push = (momentum - 1.0) / next_momentum
        ahead, residual_ahead = new + push * step, new_residual + push * residual_step
        confidence, residual, value, momentum = new, new_residual, min(new_value, value), next_momentum
        objective.append(value)
        if moved < tol:
            break
    return confidence, np.asarray(objective)


def project_to_margins(table: FloatArray, Y: CSR, candidate_slack: float, other_margin: float) -> FloatArray:
    """Project every row on the constraints of :func:`manifold_confidence`."""
    n_samples = Y.shape[0]
    sizes = np.diff(Y.indptr)
    row = np.repeat(np.arange(n_samples), sizes)
    projected = np.minimum(table, -other_margin)
    cells = table[row, Y.indices]
    bounded = np.maximum(cells, -candidate_slack)
    short = np.bincount(row, weights=bounded, minlength=n_samples) < 1.0
    # Where the bounded cells sum to less than one, they are projected on a simplex shifted by the slack.
    on_simplex = project_rows_to_simplex(cells + candidate_slack, Y.indptr, 1.0 + sizes * candidate_slack)
    projected[row, Y.indices] = np.where(short[row], on_simplex - candidate_slack, bounded)
    return projected


def _largest_singular_value(A: CSR) -> float:
    if min(A.shape) <= 64:
        return float(np.linalg.norm(A.toarray(), 2))
    # A random start: a constant vector would be nearly orthogonal to the singular vector.
    start = generator(0).normal(size=A.shape[0])
    return float(svds(A, k=1, tol=1e-3, v0=start, return_singular_vectors=False)[0])
