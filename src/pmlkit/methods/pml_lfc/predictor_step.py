r"""Least squares with a nuclear-norm penalty, with a certificate.

.. math:: \min_W \; \|X W - P\|_F^2 + \alpha \|W\|_*

The nuclear norm does not change under rotation. In the eigenbasis of :math:`X^T X` the quadratic part is diagonal, so
that a step costs a scaling and a shrinkage of singular values, whatever the number of rows, and splitting the two parts
(ADMM) needs few steps. Where neither side of X is small enough to diagonalise, accelerated proximal gradient steps are
taken with products by X. Both stop by the same certificate, a duality gap.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import linalg

from pmlkit._typing import FloatArray
from pmlkit.methods.pml_lfc.basis import LARGEST_DIAGONALISED, Basis
from pmlkit.numerics.prox import nuclear_prox
from pmlkit.numerics.spectral import spectral_norm

_TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class LowRankFit:
    """A solution in the basis' coordinates.

    `gap`: certificate: the objective is at most this share of itself above the optimum. `trace`: the objective after
    each step. `multiplier`, `penalty`, `subspace`: for a warm start of a similar problem (ADMM only).
    """

    solution: FloatArray
    nuclear_norm: float
    rank: int
    objective: float
    gap: float
    n_iter: int
    trace: FloatArray
    multiplier: FloatArray | None = None
    penalty: float = 0.0
    subspace: FloatArray | None = None


def fit_low_rank(
    basis: Basis,
    target: FloatArray,
    target_norm2: float,
    alpha: float,
    *,
    start: LowRankFit | None = None,
    tol: float = 1e-6,
    max_iter: int = 5000,
    solver: Literal["auto", "admm", "accelerated"] = "auto",
) -> LowRankFit:
    r"""Minimise :math:`\|XW - P\|^2 + \alpha\|W\|_*` (equation 3 of the PML-LFC paper).

    - `target` (size, n_labels), `target_norm2`: X'P in the basis, and the (weighted) squared norm of P.
    - `start`: the solution of a similar problem in the same basis.
    - `tol`: stop when the relative duality gap is below.
    - `solver`: ADMM needs an eigenbasis, and then a fraction of the steps of the paper's accelerated proximal gradient;
      "auto" takes it where there is one.
    """
    if basis.largest == 0.0 or not target.any():
        return LowRankFit(np.zeros_like(target), 0.0, 0, target_norm2, 0.0, 0, np.array([target_norm2]))
    problem = _Problem(basis, target, target_norm2, alpha)
    if solver == "accelerated" or basis.eigenvalues is None:
        return _accelerated(problem, start, tol, max_iter)
    return _admm(problem, basis.eigenvalues[:, None], start, tol, max_iter)


@dataclass(frozen=True)
class _Problem:
    basis: Basis
    target: FloatArray
    target_norm2: float
    alpha: float

    def fit(self, M: FloatArray, gram_M: FloatArray) -> float:
        """Return the squared error of a solution."""
        return float(np.vdot(M, gram_M) - 2.0 * np.vdot(M, self.target)) + self.target_norm2

    def gap(self, M: FloatArray, gram_M: FloatArray, fit: float, value: float) -> float:
        """Return the duality gap of a solution as a share of the objective.

        The residual, scaled until its correlation with X has spectral norm alpha at most, is feasible for the dual
        problem, so its dual value is a lower bound of the optimum.
        """
        largest, cross = spectral_norm(self.target - gram_M), float(np.vdot(M, self.target))
        return relative_gap(largest, cross, self.target_norm2, self.alpha, fit, value)


def _accelerated(problem: _Problem, start: LowRankFit | None, tol: float, max_iter: int) -> LowRankFit:
    """Accelerated proximal gradient (equations 4 to 8).

    With the momentum of Ji and Ye (2009), and a restart where the momentum points uphill.
    """
    basis, target, alpha = problem.basis, problem.target, problem.alpha
    M = np.zeros_like(target) if start is None else start.solution
    step = 1.0 / (2.0 * basis.largest)
    shrink = _Shrinkage(None)
    Z, momentum = M, 1.0
    trace: list[float] = []
    next_check = 3
    while True:
        previous = M
        M, values = shrink(Z - 2.0 * step * (basis.gram(Z) - target), alpha * step)
        change = M - previous
        if np.vdot(Z - M, change) > 0:
            momentum = 1.0
        next_momentum = (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum)) / 2.0
        Z = M + ((momentum - 1.0) / next_momentum) * change
        momentum = next_momentum
        gram_M = basis.gram(M)
        fit = problem.fit(M, gram_M)
        trace.append(fit + alpha * float(values.sum()))
        if len(trace) >= min(next_check, max_iter):
            gap = problem.gap(M, gram_M, fit, trace[-1])
            if gap <= tol or len(trace) >= max_iter:
                break
            # A check costs about as much as a step: check at growing intervals.
            next_check = len(trace) + max(3, len(trace) // 6)
    return LowRankFit(M, float(values.sum()), len(values), trace[-1], gap, len(trace), np.asarray(trace))


def _admm(
    problem: _Problem, eigenvalues: FloatArray, start: LowRankFit | None, tol: float, max_iter: int
) -> LowRankFit:
    """Split the quadratic part, diagonal here, from the nuclear norm.

    Over-relaxed, with a penalty that keeps primal and dual residuals of a size (Boyd et al. 2011).
    """
    basis, target, alpha = problem.basis, problem.target, problem.alpha
    typical = max(float(np.median(eigenvalues)), 1e-4 * basis.largest)
    first_penalty = 2.0 * np.sqrt(basis.largest * typical)
    if start is None or start.multiplier is None:
        penalty = first_penalty
        Z, U = np.zeros_like(target), np.zeros_like(target)
    else:
        penalty, Z, U = start.penalty, start.solution, start.multiplier / start.penalty
    twice = 2.0 * target
    shrink = _Shrinkage(None if start is None else start.subspace)
    trace: list[float] = []
    last_gap = np.inf
    next_check, check_every = 1, 1 if min(target.shape) < 64 else 3
    while True:
        M = Z - U
        M *= penalty
        M += twice
        M *= 1.0 / (2.0 * eigenvalues + penalty)
        previous = Z
        U += 1.6 * M
        U -= 0.6 * Z
        Z, values = shrink(U, alpha / penalty)
        U -= Z
        gram_Z = eigenvalues * Z
        fit = problem.fit(Z, gram_Z)
        trace.append(fit + alpha * float(values.sum()))
        if len(trace) >= min(next_check, max_iter):
            gap = problem.gap(Z, gram_Z, fit, trace[-1])
            if gap <= tol or len(trace) >= max_iter:
                break
            if gap >= last_gap:
                shrink.subspace = None
            last_gap = gap
            next_check = len(trace) + (check_every if gap < 10.0 * tol else 3)
        if len(trace) % 3 == 0:
            primal = np.linalg.norm(M - Z) / max(np.linalg.norm(M), _TINY)
            dual = np.linalg.norm(Z - previous) / max(np.linalg.norm(U), _TINY)
            change = 2.0 if primal > 5.0 * dual else 0.5 if dual > 5.0 * primal else 1.0
            if 1e-6 < penalty * change / first_penalty < 1e6:
                penalty, U = penalty * change, U / change
    return LowRankFit(
        Z, float(values.sum()), len(values), trace[-1], gap, len(trace), np.asarray(trace),
        multiplier=U * penalty, penalty=penalty, subspace=shrink.subspace,
    )  # fmt: skip


def relative_gap(largest: float, cross: float, target_norm2: float, alpha: float, fit: float, value: float) -> float:
    """Return the gap from the residual's correlation with X, its largest singular value, and ``<W, X'P>``."""
    norm = 2.0 * largest
    scale = 1.0 if norm <= alpha else alpha / norm
    dual = 2.0 * scale * (target_norm2 - cross) - scale * scale * fit
    return float((value - dual) / max(value, _TINY))


class _Shrinkage:
    """Soft-threshold the singular values of a sequence of similar matrices.

    With hundreds of labels and few singular values above the threshold, a full decomposition is nearly all of the
    cost. The right subspace of the last call, slightly widened, contains the new one up to a small error that the
    iteration corrects. It is discarded when it no longer contains a singular value below the threshold. As one above
    may still be missing, for instance after a warm start from another problem, the solver sets it to None when
    the duality gap does not fall.
    """

    def __init__(self, subspace: FloatArray | None) -> None:
        self.subspace = subspace

    def __call__(self, A: FloatArray, amount: float) -> tuple[FloatArray, FloatArray]:
        if self.subspace is not None:
            near = self._near(A, amount, self.subspace)
            if near is not None:
                return near
        shrunk, values = nuclear_prox(A, amount)
        wide = len(values) + 8
        pays = min(A.shape) >= 64 and 4 * wide <= min(A.shape)
        self.subspace = _leading(A, wide) if pays else None
        return shrunk, values

    def _near(self, A: FloatArray, amount: float, subspace: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        left, _ = linalg.qr(A @ subspace, mode="economic", check_finite=False)
        right = A.T @ left
        squared, turn = linalg.eigh(right.T @ right, check_finite=False)
        values = np.sqrt(np.maximum(squared[::-1], 0.0))
        if values[-1] >= 0.98 * amount or values[-1] <= 0.0:
            return None
        turn = turn[:, ::-1]
        directions = (right @ turn) / values
        self.subspace = directions
        kept = values > amount
        values = values[kept] - amount
        return np.asarray((left @ turn[:, kept] * values) @ directions[:, kept].T), values


def _leading(A: FloatArray, n: int) -> FloatArray:
    """Return the n leading right singular vectors."""
    if A.shape[1] > LARGEST_DIAGONALISED >= A.shape[0]:
        return np.asarray(linalg.qr(A.T @ _leading(A.T, n), mode="economic", check_finite=False)[0])
    gram = A.T @ A
    last = len(gram) - 1
    return np.asarray(linalg.eigh(gram, subset_by_index=(last - n + 1, last), check_finite=False)[1][:, ::-1])
