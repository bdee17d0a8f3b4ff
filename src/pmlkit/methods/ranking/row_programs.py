"""Small quadratic programs, one per row, over confidences that sum to at least one."""

from dataclasses import dataclass, fields

import numpy as np

from pmlkit._typing import BoolArray, FloatArray, IntArray
from pmlkit.numerics.prox import project_rows_to_simplex

__all__ = ["project_confidences", "solve_row_programs"]


def project_confidences(values: FloatArray, indptr: IntArray) -> FloatArray:
    """Project every row of a sparse pattern on ``{0 <= p <= 1, sum p >= 1}``.

    Parameters
    ----------
    values : array of shape (n_cells,)
        The cells of all rows, one row after the other.
    indptr : array of shape (n_rows + 1,)
        Where each row begins. Every row has at least one cell.

    Notes
    -----
    Cutting the cells to [0, 1] is the projection where the sum then reaches one. Where it does not,
    the constraint on the sum holds with equality, and on the simplex no cell can exceed one.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.ranking.row_programs import project_confidences
    >>> project_confidences(np.array([1.5, 0.2, 0.3, -0.1]), np.array([0, 2, 4]))
    array([1. , 0.2, 0.7, 0.3])
    """
    cut = np.clip(values, 0.0, 1.0)
    short = np.add.reduceat(cut, indptr[:-1]) < 1.0
    if short.any():
        sizes = np.diff(indptr)
        cells = np.repeat(short, sizes)
        cut[cells] = project_rows_to_simplex(values[cells], np.concatenate([[0], np.cumsum(sizes[short])]))
    return cut


@dataclass
class _Unsolved:
    row: IntArray
    linear: FloatArray
    quadratic: FloatArray
    step: FloatArray
    small: FloatArray
    point: FloatArray
    ahead: FloatArray
    momentum: FloatArray

    def __getitem__(self, chosen: BoolArray) -> "_Unsolved":
        return _Unsolved(*(getattr(self, field.name)[chosen] for field in fields(self)))


def solve_row_programs(
    linear: FloatArray, quadratic: FloatArray, start: FloatArray, *, tol: float = 1e-7, max_iter: int = 20_000
) -> FloatArray:
    """Minimise ``linear . p + p' quadratic p / 2`` over ``{0 <= p <= 1, sum p >= 1}`` in every row.

    Parameters
    ----------
    linear : array of shape (n_rows, size)
    quadratic : array of shape (n_rows, size, size)
        Symmetric and positive semidefinite.
    start : array of shape (n_rows, size)
        Feasible points to start from; the answer is never worse.
    tol : float, default=1e-7
        A row is solved when its projected gradient is this small, relative to `linear`.
    max_iter : int, default=20000

    Returns
    -------
    solution : array of shape (n_rows, size)

    Notes
    -----
    Accelerated projected gradient (Nesterov), all unsolved rows at once, each with its own step length
    and its own restart of the momentum where that points uphill (O'Donoghue and Candes 2015). A Laplacian does not
    curve along equal confidences, where gradient steps would be slow: the best multiple of the start comes first. Where
    nothing decides, that is the smallest one.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.ranking.row_programs import solve_row_programs
    >>> solve_row_programs(np.array([[1.0, 2.0]]), np.eye(2)[None], np.ones((1, 2))).round(6)
    array([[1., 0.]])
    """
    start = _best_multiple(linear, quadratic, start)
    solution = start.copy()
    size = linear.shape[1]
    steepness = np.abs(linear).max(axis=1)
    # The largest row sum bounds the largest eigenvalue; next to no curvature, a step crosses the box at once.
    bound = np.maximum(np.abs(quadratic).sum(axis=2).max(axis=1), 1e-6 * steepness)
    step = 1.0 / np.maximum(bound, np.finfo(float).tiny)
    small = np.maximum(tol * np.minimum(step * steepness, 1.0), 4 * np.finfo(float).eps)
    left = _Unsolved(np.arange(len(linear)), linear, quadratic, step, small, start, start, np.ones(len(linear)))
    for _ in range(max_iter):
        slope = left.linear + np.matmul(left.quadratic, left.ahead[:, :, None])[:, :, 0]
        ends = np.arange(0, slope.size + 1, size)
        reached = project_confidences((left.ahead - left.step[:, None] * slope).ravel(), ends).reshape(-1, size)
        moved, gained = reached - left.point, left.ahead - reached
        uphill = np.einsum("ij,ij->i", gained, moved) > 0
        momentum = np.where(uphill, 1.0, left.momentum)
        left.momentum = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        push = np.where(uphill, 0.0, (momentum - 1.0) / left.momentum)
        left.point, left.ahead = reached, reached + push[:, None] * moved
        solution[left.row] = reached
        unsolved = np.abs(gained).max(axis=1) > left.small
        if not unsolved.all():
            left = left[unsolved]
            if not len(left.row):
                break
    worse = _value(linear, quadratic, solution) > _value(linear, quadratic, start)
    solution[worse] = start[worse]
    return solution


def _best_multiple(linear: FloatArray, quadratic: FloatArray, start: FloatArray) -> FloatArray:
    """Scale every row within the constraints, exactly."""
    slope = np.einsum("ij,ij->i", linear, start)
    curvature = np.einsum("ij,ijk,ik->i", start, quadratic, start)
    lowest, highest = 1.0 / start.sum(axis=1), 1.0 / start.max(axis=1)
    flat = np.where(slope < 0, highest, lowest)
    factor = np.divide(-slope, curvature, out=flat, where=curvature > 1e-12 * np.abs(slope))
    return np.asarray(start * np.clip(factor, lowest, highest)[:, None])


def _value(linear: FloatArray, quadratic: FloatArray, p: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->i", linear, p) + 0.5 * np.einsum("ij,ijk,ik->i", p, quadratic, p))
