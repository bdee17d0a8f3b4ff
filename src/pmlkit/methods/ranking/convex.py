r"""Convex relatives of PML-lc and PML-fp: pairs inside the candidate set do not count, and confidence is rewarded.

With :math:`\xi_{ijk} = \max(0, 1 - f_j(x_i) + f_k(x_i))`, both minimise

.. math::

    \tfrac12 \sum_k \|w_k\|^2 + C_1 \sum_i \sum_{j \in S_i} \frac{p_{ij}}{|\bar S_i|} \sum_{k \notin S_i} \xi_{ijk}
        - \text{reward} \sum_{ij} p_{ij} + R(P)

over the model and over the confidences in turn, each exactly, so that the objective never rises. For PML-lc the term
R(P) asks for similar confidences of labels that occur together, for PML-fp for rows near the prototypes of their
confident labels.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from sklearn.utils.extmath import row_norms

from pmlkit._typing import BoolArray, Features, FloatArray, IntArray
from pmlkit.methods.ranking.hinge import candidate_cost
from pmlkit.numerics.prox import project_rows_to_simplex


@dataclass(frozen=True)
class _CandidateRanking(ABC):
    """The loss that both share: candidates against the row's other labels, averaged over the latter."""

    is_candidate: BoolArray
    C1: float
    reward: float

    @cached_property
    def _weight(self) -> FloatArray:
        n_others = (~self.is_candidate).sum(axis=1, keepdims=True)
        return np.asarray(self.C1 * self.is_candidate / np.maximum(n_others, 1))

    def pairs(self, confidence: FloatArray) -> tuple[BoolArray, FloatArray]:
        """Return the candidates and the weights of their pairs."""
        return self.is_candidate, self._weight * confidence

    def chosen(self, confidence: FloatArray, scores: FloatArray) -> FloatArray:
        """Return the best confidences for the scores of a model."""
        return self.minimizer(confidence, self._weight * candidate_cost(scores, self.is_candidate))

    def objective(self, model_value: float, confidence: FloatArray) -> float:
        """Return the objective."""
        return model_value + self.penalty(confidence)

    @abstractmethod
    def penalty(self, confidence: FloatArray) -> float:
        """Return R(P) minus the reward."""

    @abstractmethod
    def minimizer(self, confidence: FloatArray, cost: FloatArray) -> FloatArray:
        """Return the P with the smallest ``(P * cost).sum() + penalty(P)``, given the present confidences."""


@dataclass(frozen=True)
class _SameSize:
    """Rows with equally many candidates: the cells, and the Laplacian of each row's candidates."""

    row: IntArray
    label: IntArray
    laplacian: FloatArray


@dataclass(frozen=True)
class LabelCorrelation(_CandidateRanking):
    """The term R(P) of PML-lc: labels that occur together have similar confidences.

    ``R(P) = smoothness * sum_i sum_{j < k in S_i} c_jk (p_ij - p_ik)^2``.

    `similarity` (n_labels, n_labels): the c, symmetric, not negative.
    """

    similarity: FloatArray
    smoothness: float

    def penalty(self, confidence: FloatArray) -> float:
        """Return R(P) minus the reward."""
        total = -self.reward * float(confidence.sum())
        for group in self._groups:
            p = confidence[group.row[:, None], group.label]
            total += self.smoothness * float(np.einsum("ij,ijk,ik->", p, group.laplacian, p, optimize=True))
        return total

    def minimizer(self, confidence: FloatArray, cost: FloatArray) -> FloatArray:
        """Return the best P: a convex quadratic program over ``0 <= p <= 1, sum p >= 1`` in each row."""
        best = np.zeros_like(confidence)
        for group in self._groups:
            cells = group.row[:, None], group.label
            curvature = 2.0 * self.smoothness * group.laplacian
            best[cells] = solve_row_programs(cost[cells] - self.reward, curvature, confidence[cells])
        return best

    @cached_property
    def _groups(self) -> list[_SameSize]:
        sizes = self.is_candidate.sum(axis=1)
        first = np.cumsum(sizes) - sizes
        label_of_cell = np.nonzero(self.is_candidate)[1]
        groups = []
        for size in np.unique(sizes):
            row = np.flatnonzero(sizes == size)
            label = label_of_cell[first[row][:, None] + np.arange(size)]
            laplacian = -self.similarity[label[:, :, None], label[:, None, :]]
            diagonal = np.arange(size)
            laplacian[:, diagonal, diagonal] -= laplacian.sum(axis=2)
            groups.append(_SameSize(row, label, laplacian))
        return groups


@dataclass(frozen=True)
class FeaturePrototypes(_CandidateRanking):
    """The term R(P) of PML-fp: confident candidates are near the prototype of their label.

    ``R(P) = pull * sum over candidates of p_ij |x_i - o_j|^2 / s`` with the best prototypes
    o, which are the means of the rows weighted by the label's confidences, and with s, the mean
    squared distance of the rows from their common mean.
    """

    X: Features
    pull: float

    def penalty(self, confidence: FloatArray) -> float:
        """Return R(P) minus the reward."""
        return float(np.vdot(confidence, self.pull * self.distances(confidence) - self.reward))

    def minimizer(self, confidence: FloatArray, cost: FloatArray) -> FloatArray:
        """Return the best P for the prototypes of the present confidences.

        A linear program over ``0 <= p <= 1, sum p >= 1`` in each row: it takes the candidates whose
        price is negative, or the cheapest one where none is.
        """
        price = cost + self.pull * self.distances(confidence) - self.reward
        price = np.where(self.is_candidate, price, np.inf)
        chosen = price < 0
        none = np.flatnonzero(~chosen.any(axis=1))
        chosen[none, np.argmin(price[none], axis=1)] = True
        return chosen.astype(np.float64)

    def distances(self, confidence: FloatArray) -> FloatArray:
        """Return the squared distances of all rows to all prototypes, over s."""
        if not self.pull:
            return np.zeros(confidence.shape)
        # A label that lost all its confidence keeps the mean of its candidates: any prototype is best for it.
        mass = np.where(confidence.any(axis=0), confidence, self.is_candidate)
        prototype = (self.X.T @ mass).T / np.maximum(mass.sum(axis=0), 1e-300)[:, None]
        squared = self._squares[:, None] - 2.0 * (self.X @ prototype.T) + row_norms(prototype, squared=True)
        return np.asarray(np.maximum(squared, 0.0) / self._spread)

    @cached_property
    def _squares(self) -> FloatArray:
        return np.asarray(row_norms(self.X, squared=True))

    @cached_property
    def _spread(self) -> float:
        mean = np.asarray(self.X.mean(axis=0))
        spread, size = float(self._squares.mean() - mean @ mean), float(self._squares.mean())
        return spread if spread > 1e-12 * size else 1.0


def project_confidences(values: FloatArray, indptr: IntArray) -> FloatArray:
    """Project every row of a sparse pattern on ``{0 <= p <= 1, sum p >= 1}``.

    `values` (n_cells,): the cells of all rows, one row after the other. `indptr` (n_samples + 1,): where each row
    begins. Every row has at least one cell.

    Cutting the cells to [0, 1] is the projection where the sum then reaches one. Where it does not,
    the constraint on the sum holds with equality, and on the simplex no cell can exceed one.
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

    - `quadratic` (n_samples, size, size): symmetric and positive semidefinite.
    - `start` (n_samples, size): feasible points to start from; the answer is never worse.
    - `tol`: a row is solved when its projected gradient is this small, relative to `linear`.

    Accelerated projected gradient (Nesterov), all unsolved rows at once, each with its own step length
    and its own restart of the momentum where that points uphill (O'Donoghue and Candes 2015). A Laplacian does not
    curve along equal confidences, where gradient steps would be slow: the best multiple of the start comes first. Where
    nothing decides, that is the smallest one.
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
