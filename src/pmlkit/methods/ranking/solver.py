r"""The linear ranking support vector machine, solved to a certified duality gap.

.. math::

    \min_{W, b} \; \tfrac12 \|W\|_F^2
        + \sum_i \sum_{k \in S_i} u_{ik} \sum_{l \notin S_i} \max(0,\, 1 - f_{ik} + f_{il}),
    \qquad f_i = W^\top x_i + b .

The loss has kinks and n |S| q pairs; neither is smoothed away or enumerated. An augmented Lagrangian
method (the proximal point method on the dual) replaces the loss by its Moreau envelope around a
multiplier G, an n x q matrix of forces, and updates G; each envelope problem is once differentiable and piecewise
quadratic, and is solved by Newton's method with conjugate gradients. Envelope, gradient and second derivative come
from :func:`~pmlkit.methods.ranking.hinge.prox_ranking_hinge`; its ties are the only curvature of the loss.
Memory is a few n x q arrays.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pmlkit._typing import BoolArray, FloatArray
from pmlkit.methods.ranking.hinge import RankingProx, candidate_cost, prox_ranking_hinge
from pmlkit.numerics.spectral import CenteredRows

_FIRST_STIFFNESS = 0.1  # of the envelope, in units of a row's total weight
_MAX_CG = 300
_CG_REDUCTION = 0.3
_LEAST_CAUTION = 0.01
_MAX_BACKTRACKS = 30
_ENOUGH = 1e-4  # share of the decrease promised by the slope that a step must keep
_NOTHING = 1e-4  # share of the zero model's loss that counts as none
_ROUNDING = 1e-10  # relative change of the envelope's value that may be rounding


@dataclass(frozen=True)
class RankingSolution:
    """A solution and its certificate.

    - `intercept` (n_labels,): both for the centred rows, see :meth:`CenteredRows.as_given`.
    - `multiplier` (n_samples, n_labels): the forces on the scores: a dual solution.
    - `stiffness`: of the last envelope.
    - `objective` (n_iter + 1,): the best value so far, at the start and after each iteration.
    - `gap`: at least how near the last value is to the optimum, relative to the value.
    """

    coef: FloatArray
    intercept: FloatArray
    scores: FloatArray
    multiplier: FloatArray
    stiffness: float
    objective: FloatArray
    gap: float


@dataclass(frozen=True)
class _Problem:
    features: CenteredRows
    is_candidate: BoolArray
    weight: FloatArray

    def envelope(self, model: "_Model", multiplier: FloatArray, stiffness: float) -> "_Envelope":
        """Return the envelope's value at a model, its gradient and ties (equation of Moreau)."""
        pulled = model.scores + multiplier / stiffness
        prox = prox_ranking_hinge(pulled, self.is_candidate, self.weight / stiffness)
        force = stiffness * (pulled - prox.point)
        # The force is a subgradient at the proximal point, so Fenchel's equality gives the loss there.
        total = -float(force[self.is_candidate].sum())
        value = 0.5 * float(np.vdot(model.coef, model.coef)) + float(np.vdot(force, prox.point)) + total
        return _Envelope(value + 0.5 / stiffness * float(np.vdot(force, force)), force, total, prox)


@dataclass(frozen=True)
class _Model:
    coef: FloatArray
    intercept: FloatArray
    scores: FloatArray

    def moved(self, step: float, direction: "_Model") -> "_Model":
        return _Model(
            self.coef + step * direction.coef,
            self.intercept + step * direction.intercept,
            self.scores + step * direction.scores,
        )


@dataclass(frozen=True)
class _Envelope:
    value: float
    force: FloatArray
    total_force: float
    prox: RankingProx


def solve_ranking_svm(
    features: CenteredRows,
    is_candidate: BoolArray,
    weight: FloatArray,
    *,
    tol: float = 1e-5,
    max_iter: int = 500,
    start: RankingSolution | None = None,
    on_iteration: Callable[[], bool] | None = None,
) -> RankingSolution:
    """Minimise half the squared coefficients plus the weighted ranking hinge loss.

    - `features`: the n rows.
    - `weight` (n_samples, n_labels): the weight u of each candidate's pairs (the loss's constant C included), 0 off the
      candidates.
    - `tol`: stop when the duality gap is this small, relative to the objective (or to a ten-thousandth of the loss of
      no model, where that is more).
    - `max_iter`: Newton steps and multiplier updates at the most.
    - `start`: of a problem with other weights. The result is never worse than its model.

    The gap is the sum of three parts, all zero at a solution: half the squared difference of W and its dual
    counterpart, the Fenchel gap of the loss, and the amount by which the forces on a label do not cancel, times the
    largest intercept (at least 1): the certificate holds for all intercepts that differ from the returned ones by no
    more than that. The first and last are what Newton steps reduce, the second is what a multiplier update reduces;
    each iteration does what the larger part asks for.
    """
    problem = _Problem(features, is_candidate, weight)
    n_labels = is_candidate.shape[1]
    without_model = float((weight * (~is_candidate).sum(axis=1, keepdims=True)).sum())
    if start is None:
        stiffness = _FIRST_STIFFNESS * without_model / len(weight) or 1.0
        multiplier: FloatArray = np.zeros(is_candidate.shape)
        model = _Model(np.zeros((len(features.squared), n_labels)), np.zeros(n_labels), np.zeros(is_candidate.shape))
    else:
        stiffness, multiplier = 0.25 * start.stiffness, start.multiplier
        model = _Model(start.coef, start.intercept, start.scores)

    trace: list[float] = []
    best, bound, certificate = model, -np.inf, multiplier
    caution, n_newton = 0.0, 0
    envelope = problem.envelope(model, multiplier, stiffness)
    while True:
        loss = float(np.vdot(weight, candidate_cost(model.scores, is_candidate)))
        value = 0.5 * float(np.vdot(model.coef, model.coef)) + loss
        slope = model.coef + features.rows.T @ envelope.force
        imbalance = envelope.force.sum(axis=0)
        fenchel_gap = loss - envelope.total_force - float(np.vdot(envelope.force, model.scores))
        reach = max(1.0, float(np.abs(model.intercept - model.intercept.mean()).max()))
        newton_gap = 0.5 * float(np.vdot(slope, slope)) + reach * float(np.abs(imbalance).sum())
        if value - fenchel_gap - newton_gap >= bound:
            bound, certificate = value - fenchel_gap - newton_gap, envelope.force
        if not trace or value < trace[-1]:
            best = model
        trace.append(min([value, *trace[-1:]]))
        # Rows that can be ranked at no cost have an objective of zero, which no gap is small against.
        gap = (trace[-1] - bound) / max(trace[-1], _NOTHING * without_model, np.finfo(float).tiny)
        if gap <= tol or len(trace) > max_iter or (on_iteration and len(trace) > 1 and on_iteration()):
            break
        if newton_gap <= fenchel_gap:
            multiplier, stiffness = envelope.force, stiffness * _growth(n_newton)
            envelope, n_newton = problem.envelope(model, multiplier, stiffness), 0
        else:
            direction = _newton_direction(problem, envelope, slope, imbalance, stiffness, caution)
            descent = float(np.vdot(slope, direction.coef) + imbalance @ direction.intercept)
            model, envelope, step = _line_search(problem, model, envelope, direction, descent, multiplier, stiffness)
            caution, n_newton = _adapted(caution, step), n_newton + 1
    return RankingSolution(best.coef, best.intercept, best.scores, certificate, stiffness, np.asarray(trace), gap)


def _growth(n_newton: int) -> float:
    """Return by how much to change the stiffness: stiffer converges faster, until Newton's method finds it hard."""
    if n_newton <= 3:
        return 2.0
    return 1.0 if n_newton <= 5 else 0.5


def _adapted(caution: float, step: float) -> float:
    """Return more caution after a shortened step, less after a full one."""
    if step < 0.5:
        return min(1.0, max(4.0 * caution, _LEAST_CAUTION))
    return caution / 4.0 if caution > _LEAST_CAUTION else 0.0


def _newton_direction(
    problem: _Problem, envelope: _Envelope, slope: FloatArray, imbalance: FloatArray, stiffness: float, caution: float
) -> _Model:
    """Solve the Newton system roughly, by conjugate gradients.

    The envelope curves only along differences within ties: its second derivative takes the tied scores
    minus the mean of their group. A step can make new ties that it does not know of; `caution` mixes in so
    much of the largest curvature possible, the identity. The preconditioner takes the curvature as if it acted on
    each label by itself, by the same share of all rows.
    """
    features, shape = problem.features, envelope.force.shape
    tied, tie = envelope.prox.tied_cell, envelope.prox.tie
    share = 1.0 / np.maximum(np.bincount(tie), 1)
    row, label = np.divmod(tied, shape[1])
    involved = np.flatnonzero(np.bincount(row, minlength=shape[0]))
    if not caution and 2 * len(involved) < shape[0]:
        rows = features.take(involved)
        place = np.searchsorted(involved, row) * shape[1] + label
    else:
        rows, place = features.rows, tied
    pushed = np.zeros((rows.shape[0], shape[1]))
    activity = (1.0 - caution) * np.bincount(label, weights=1.0 - share[tie], minlength=shape[1])
    activity += caution * shape[0]
    # Intercepts have no penalty: without damping, a label without ties would have no curvature at all.
    damping = 1e-3 * stiffness + 0.1 * np.abs(imbalance)
    coef_diagonal = 1.0 + stiffness * np.multiply.outer(features.squared / shape[0], activity)
    intercept_diagonal = stiffness * activity + damping

    coef, intercept = np.zeros_like(slope), np.zeros_like(imbalance)
    residual, intercept_residual = -slope, -imbalance
    along, intercept_along = residual / coef_diagonal, intercept_residual / intercept_diagonal
    size = first_size = float(np.vdot(residual, along) + intercept_residual @ intercept_along)
    for _ in range(_MAX_CG):
        if size <= _CG_REDUCTION**2 * first_size:
            break
        pulled = rows @ along + intercept_along
        tied_pull = pulled.ravel()[place]
        mean_pull = (np.bincount(tie, weights=tied_pull) * share)[tie]
        if caution:
            pushed = (caution * stiffness) * pulled
        pushed.ravel()[place] = stiffness * (tied_pull - (1.0 - caution) * mean_pull)
        curved = along + rows.T @ pushed
        intercept_curved = pushed.sum(axis=0) + damping * intercept_along
        step = size / float(np.vdot(along, curved) + intercept_along @ intercept_curved)
        coef += step * along
        intercept += step * intercept_along
        residual = residual - step * curved
        intercept_residual = intercept_residual - step * intercept_curved
        scaled, intercept_scaled = residual / coef_diagonal, intercept_residual / intercept_diagonal
        last, size = size, float(np.vdot(residual, scaled) + intercept_residual @ intercept_scaled)
        along = scaled + (size / last) * along
        intercept_along = intercept_scaled + (size / last) * intercept_along
    return _Model(coef, intercept, features.rows @ coef + intercept)


def _line_search(
    problem: _Problem,
    model: _Model,
    envelope: _Envelope,
    direction: _Model,
    descent: float,
    multiplier: FloatArray,
    stiffness: float,
) -> tuple[_Model, _Envelope, float]:
    """Go along a direction until the envelope has decreased enough; steps by quadratic interpolation.

    Near the solution the decrease drowns in rounding; then the slope tells (Hager and Zhang 2005).
    """
    step = 1.0
    for _ in range(_MAX_BACKTRACKS):
        moved = model.moved(step, direction)
        reached = problem.envelope(moved, multiplier, stiffness)
        excess = reached.value - envelope.value - step * descent
        if excess <= -(1 - _ENOUGH) * step * descent:
            break
        if reached.value <= envelope.value + _ROUNDING * abs(envelope.value):
            slope = float(np.vdot(moved.coef, direction.coef) + np.vdot(reached.force, direction.scores))
            if slope <= -(1 - 2 * _ENOUGH) * descent:
                break
        step *= float(np.clip(-0.5 * step * descent / excess, 0.1, 0.6))
    return moved, reached, step
