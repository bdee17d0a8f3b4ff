r"""Low-rank labels plus sparse noise, with a low-rank linear model of the labels, to a certified accuracy.

.. math::

    \min_{W, U} \; \tfrac12 \|XW - U\|_F^2 + \lambda_w \|W\|_* + \lambda_u \|U\|_* + \lambda_v \|Y - U\|_1

The problem is jointly convex, and a dual bound certifies how far a solution is from the optimum.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from pmlkit._typing import FloatArray
from pmlkit.numerics.prox import nuclear_prox, soft_threshold
from pmlkit.numerics.spectral import ThinSVD, spectral_norm

__all__ = ["LowRankSparse", "Penalties", "split_low_rank_sparse"]

_RELAXATION = 1.6
_CHECK_EVERY = 10
# A step size follows its residuals when they differ by more than this factor, and by no more than the other at once.
_TOLERATED, _LARGEST_MOVE = 1.5, 5.0


@dataclass(frozen=True)
class Penalties:
    """The three trade-offs, all positive, and whether noise is confined to ``0 <= Y - U <= Y``."""

    lam_w: float
    lam_u: float
    lam_v: float
    box: bool = False


@dataclass(frozen=True)
class LowRankSparse:
    """What :func:`split_low_rank_sparse` finds.

    - `coordinates` (r, n_labels): W in the coordinates of the SVD.
    - `truth` (n_samples, n_labels): U. Where it equals Y, it does so exactly.
    - `objective`: the objective at each check.
    - `gap`: certificate: the last objective is at most this share of itself above the optimum.
    """

    coordinates: FloatArray
    truth: FloatArray
    objective: FloatArray
    gap: float
    n_iter: int


class _Copy:
    """A copy of a block that carries one penalty, and the running disagreement of the two."""

    def __init__(self, value: FloatArray) -> None:
        self.value = value
        self.dual = np.zeros_like(value)
        self.disagreement = self.change = 0.0

    @property
    def pull(self) -> FloatArray:
        """Where the copy wants its block to be."""
        return self.value - self.dual

    def follow(self, block: FloatArray, prox: Callable[[FloatArray], FloatArray]) -> None:
        """Move towards the block, over-relaxed, as far as the penalty lets it."""
        relaxed = _RELAXATION * block + (1.0 - _RELAXATION) * self.value
        value = prox(relaxed + self.dual)
        self.dual += relaxed - value
        self.disagreement, self.change = float(linalg.norm(block - value)), float(linalg.norm(value - self.value))
        self.value = value


def split_low_rank_sparse(
    svd: ThinSVD,
    Y: FloatArray,
    penalties: Penalties,
    *,
    max_iter: int = 1000,
    tol: float = 1e-4,
    on_check: Callable[[], bool] = lambda: False,
) -> LowRankSparse:
    """Minimise the objective by the alternating direction method of multipliers.

    W and U are one block, solved for jointly; the copies that carry the two nuclear norms and the
    sparse noise are the other. In the coordinates of the SVD the joint solve is a scaling,
    so that step sizes can be adapted to the residuals at no cost.

    `tol`: stop at this relative duality gap.
    """
    low_w, low_u, clean = _Copy(np.zeros((len(svd.squared), Y.shape[1]))), _Copy(Y), _Copy(Y)
    nuclear_w = nuclear_u = 0.0

    def shrink_w(A: FloatArray) -> FloatArray:
        nonlocal nuclear_w
        shrunk, values = nuclear_prox(A, penalties.lam_w / step_w)
        nuclear_w = float(values.sum())
        return shrunk

    def shrink_u(A: FloatArray) -> FloatArray:
        nonlocal nuclear_u
        shrunk, values = nuclear_prox(A, penalties.lam_u / step_u)
        nuclear_u = float(values.sum())
        return shrunk

    def remove_noise(A: FloatArray) -> FloatArray:
        amount = penalties.lam_v / step_u
        return Y - (np.clip(Y - A - amount, 0.0, Y) if penalties.box else soft_threshold(Y - A, amount))

    squared = svd.squared[:, None]
    step_w, step_u = float(np.sqrt(squared.max(initial=0.0) * squared.mean())) if squared.size else 1.0, 1.0
    bound, gap, next_balance = -np.inf, np.inf, _CHECK_EVERY
    objective: list[float] = []
    for n_iter in range(1, max_iter + 1):
        middle = (low_u.pull + clean.pull) / 2.0
        weight = 2.0 * step_u / (1.0 + 2.0 * step_u)
        W = (weight * svd.project(middle) + step_w * low_w.pull) / (weight * squared + step_w)
        scores = svd.scores(W)
        U = (scores + 2.0 * step_u * middle) / (1.0 + 2.0 * step_u)
        low_w.follow(W, shrink_w)
        low_u.follow(U, shrink_u)
        clean.follow(U, remove_noise)
        if n_iter % _CHECK_EVERY and n_iter < max_iter:
            continue
        if penalties.box:
            truth, nuclear_truth = clean.value, float(linalg.svdvals(clean.value, check_finite=False).sum())
        else:
            truth, nuclear_truth = low_u.value, nuclear_u
        objective.append(
            float(
                0.5 * linalg.norm(svd.scores(low_w.value) - truth) ** 2
                + penalties.lam_w * nuclear_w
                + penalties.lam_u * nuclear_truth
                + penalties.lam_v * np.abs(Y - truth).sum()
            )
        )
        bound = max(bound, _dual_value(svd, Y, penalties, scores - U, -step_u * clean.dual))
        gap = (objective[-1] - bound) / max(objective[-1], np.finfo(float).tiny)
        if on_check() or gap <= tol:
            break
        # Ever more rarely: with step sizes that keep moving, convergence is not guaranteed.
        if n_iter >= next_balance:
            step_w *= _balance(low_w)
            step_u *= _balance(low_u, clean)
            next_balance = n_iter + max(_CHECK_EVERY, n_iter // 4)
    return LowRankSparse(low_w.value, clean.value, np.asarray(objective), gap, n_iter)


def _dual_value(svd: ThinSVD, Y: FloatArray, penalties: Penalties, residual: FloatArray, slope: FloatArray) -> float:
    r"""Return a lower bound of the optimum from any pair of matrices.

    The dual problem is to maximise :math:`\langle S, Y\rangle - \tfrac12\|Z\|^2` where
    :math:`\|X^T Z\|_2 \le \lambda_w`, :math:`\|S + Z\|_2 \le \lambda_u` and :math:`|S| \le \lambda_v`;
    with the box, S is free and :math:`\sum_{ij \in Y} \min(0, \lambda_v - S_{ij})` is added. Shrinking
    (Z, S) together until all constraints hold makes any pair feasible.
    """
    excess = max(
        1.0,
        spectral_norm(svd.project(residual)) / penalties.lam_w,
        spectral_norm(slope + residual) / penalties.lam_u,
    )
    if not penalties.box:
        excess = max(excess, float(np.abs(slope).max()) / penalties.lam_v)
    Z, S = residual / excess, slope / excess
    value = float(np.vdot(S, Y) - 0.5 * linalg.norm(Z) ** 2)
    return value + float(np.vdot(np.minimum(0.0, penalties.lam_v - S), Y)) if penalties.box else value


def _balance(*copies: _Copy) -> float:
    """Return the factor for a step size that evens out the relative residuals; rescale the duals to it."""
    disagreement, change, size, dual = (
        float(np.hypot.reduce(parts))
        for parts in zip(
            *((copy.disagreement, copy.change, linalg.norm(copy.value), linalg.norm(copy.dual)) for copy in copies),
            strict=True,
        )
    )
    if min(disagreement, change, size, dual) == 0.0:
        return 1.0
    factor = float(np.sqrt((disagreement / size) / (change / dual)))
    if 1.0 / _TOLERATED < factor < _TOLERATED:
        return 1.0
    factor = float(np.clip(factor, 1.0 / _LARGEST_MOVE, _LARGEST_MOVE))
    for copy in copies:
        copy.dual /= factor
    return factor
