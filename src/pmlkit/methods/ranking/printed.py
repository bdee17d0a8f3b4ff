r"""The problem of PML-lc and PML-fp as printed, and the exact choice of its confidences.

With candidates :math:`S_i`, other labels :math:`\bar S_i`, scores f, confidences P and
:math:`\gamma_i = |S_i| |\bar S_i| + |S_i|^2 / 2`, both methods minimise (equations 3, 4 and 6 of the paper)

.. math::

    \sum_k \|w_k\|^2 + C_1 \sum_i \frac{1}{\gamma_i} \sum_{k, l} \max(0, p_{ik} - p_{il})\, \xi_{ikl}
        + \sum_i \sum_{k \in S_i} d_{ik} p_{ik} - \sum_i \sum_{k, l \in S_i} s_{kl} p_{ik} p_{il}

over :math:`0 \le p_{ik} \le 1`, zero off the candidates, :math:`\sum_k p_{ik} \ge 1`. PML-fp has d (its weighted
distances to prototypes) and no s, PML-lc has s (its weighted co-occurrence rates) and no d.

The model takes :math:`\xi_{ikl} = \max(0, 1 - f_{ik} + f_{il})`, the confidences the same without the cut at 0.
Then both orders of a pair add up to :math:`|p_k - p_l| - (p_k - p_l)(f_k - f_l)`, which makes the choice of a row's
confidences simple. The sum of :math:`|p_k - p_l|` is the Lovasz extension of the set function
:math:`|A| (q - |A|)`, so the objective of PML-fp is the Lovasz extension of

.. math:: F(A) = \frac{C_1}{\gamma} |A| (q - |A|) - \sum_{k \in A} g_k, \qquad
    g_k = \frac{C_1}{\gamma} \sum_l (f_k - f_l) - d_k ,

whose best set of each size m holds the m largest g. If some F(A) is at most 0, the best of these sets with
confidence 1 is the solution of the linear program; otherwise it is confidence 1/|A| on the set with the smallest
F(A) / |A|. The term s is concave in p (s is a Gram matrix) and leaves the solutions of the same two kinds.
So the confidences of a row always have two levels, and the next model is a Rank-SVM with weights.
"""

from dataclasses import dataclass

import numpy as np

from pmlkit._typing import BoolArray, FloatArray, IntArray

_MAX_ENUMERATED = 10  # candidates of a row up to which all their subsets are tried
_BLOCK_SETS = 2**22  # values of subsets held at a time
_MAX_ROUNDS = 50


@dataclass(frozen=True)
class PrintedProblem:
    """The printed problem, for :func:`~pmlkit.methods.ranking.alternation.alternate`.

    `distance` (n_samples, n_labels): the d of PML-fp, its weight C3 included. `correlation` (n_labels, n_labels): the s
    of PML-lc, its weight C2 included; positive semidefinite.
    """

    is_candidate: BoolArray
    C1: float
    distance: FloatArray | None = None
    correlation: FloatArray | None = None

    @property
    def pair_weight(self) -> FloatArray:
        """C1 / gamma, of shape (n_samples, 1)."""
        n_candidates = self.is_candidate.sum(axis=1, keepdims=True)
        n_others = self.is_candidate.shape[1] - n_candidates
        return np.asarray(self.C1 / (n_candidates * n_others + 0.5 * n_candidates**2))

    def pairs(self, confidence: FloatArray) -> tuple[BoolArray, FloatArray]:
        """Return the confident labels and the weights of their pairs with all others of the row."""
        # The solver has half the squared coefficients, the paper all of them.
        return confidence > 0, 0.5 * self.pair_weight * confidence

    def chosen(self, confidence: FloatArray, scores: FloatArray) -> FloatArray:
        """Return the best confidences for the scores of a model."""
        n_labels = scores.shape[1]
        gain = self.pair_weight * (n_labels * scores - scores.sum(axis=1, keepdims=True))
        if self.distance is not None:
            gain = gain - self.distance
        if self.correlation is None:
            return best_confidences(gain, self.is_candidate, self.pair_weight[:, 0])
        return best_correlated_confidences(
            gain, self.is_candidate, self.pair_weight[:, 0], self.correlation, confidence
        )

    def objective(self, model_value: float, confidence: FloatArray) -> float:
        """Return the printed objective."""
        total = 2.0 * model_value
        if self.distance is not None:
            total += float(np.vdot(self.distance, confidence))
        if self.correlation is not None:
            total -= float(np.vdot(confidence @ self.correlation, confidence))
        return total


def best_confidences(gain: FloatArray, is_candidate: BoolArray, pair_weight: FloatArray) -> FloatArray:
    """Minimise ``u sum_{k<l} |p_k - p_l| - gain . p`` over ``0 <= p <= 1, sum p >= 1`` in each row, exactly.

    `is_candidate` (n_samples, n_labels): other labels have confidence 0. Every row has a candidate. `pair_weight`
    (n_samples,): the u.
    """
    n_labels = gain.shape[1]
    size = np.arange(1, n_labels + 1)
    order = np.argsort(np.where(is_candidate, -gain, np.inf), axis=1, kind="stable")
    taken = np.cumsum(np.take_along_axis(gain, order, axis=1), axis=1)
    value = pair_weight[:, None] * size * (n_labels - size) - taken
    value[size > is_candidate.sum(axis=1, keepdims=True)] = np.inf
    n_taken, level = _best_level(value, size)
    confidence = np.zeros(gain.shape)
    np.put_along_axis(confidence, order, np.where(size <= size[n_taken][:, None], level[:, None], 0.0), axis=1)
    return confidence


def _best_level(value: FloatArray, size: IntArray) -> tuple[IntArray, FloatArray]:
    """Return for each row the best set of a linear objective, and its confidence: 1, or one over its size."""
    whole = np.argmin(value, axis=1)
    shared = np.argmin(value / size, axis=1)
    trusted = np.take_along_axis(value, whole[:, None], axis=1)[:, 0] <= 0
    best = np.where(trusted, whole, shared)
    return best, np.where(trusted, 1.0, 1.0 / size[best])


def best_correlated_confidences(
    gain: FloatArray, is_candidate: BoolArray, pair_weight: FloatArray, correlation: FloatArray, start: FloatArray
) -> FloatArray:
    """Minimise ``u sum_{k<l} |p_k - p_l| - gain . p - p' correlation p`` over ``0 <= p <= 1, sum p >= 1`` in each row.

    `gain`, `is_candidate`, `pair_weight`: see :func:`best_confidences`. `correlation` (n_labels, n_labels): positive
    semidefinite. `start` (n_samples, n_labels): feasible confidences; the answer is never worse.

    Rows with at most ten candidates are solved exactly, by trying all sets of candidates. For others the concave
    term is replaced by its tangent, which leaves the program of :func:`best_confidences`, until nothing changes
    (the convex-concave procedure), from `start`, from all candidates and from the best set without correlation.
    """
    n_candidates = is_candidate.sum(axis=1)
    confidence = np.zeros(gain.shape)
    for n in np.unique(n_candidates[n_candidates <= _MAX_ENUMERATED]):
        rows = np.flatnonzero(n_candidates == n)
        step = max(1, _BLOCK_SETS >> int(n))
        for first in range(0, len(rows), step):
            block = rows[first : first + step]
            label = np.nonzero(is_candidate[block])[1].reshape(-1, n)
            confidence[block[:, None], label] = _best_subset(
                np.take_along_axis(gain[block], label, axis=1),
                correlation[label[:, :, None], label[:, None, :]],
                pair_weight[block],
                gain.shape[1],
            )
    many = np.flatnonzero(n_candidates > _MAX_ENUMERATED)
    if len(many):
        parts = gain[many], is_candidate[many], pair_weight[many]
        confidence[many] = _by_tangents(*parts, correlation, start[many])
    return confidence


def _best_subset(gain: FloatArray, correlation: FloatArray, pair_weight: FloatArray, n_labels: int) -> FloatArray:
    """Try all sets of candidates with confidence 1 and with one over their size."""
    n = gain.shape[1]
    member = (np.arange(1, 2**n)[:, None] >> np.arange(n) & 1).astype(np.float64)
    size = member.sum(axis=1)
    linear = pair_weight[:, None] * size * (n_labels - size) - gain @ member.T
    inner = correlation.reshape(len(gain), -1) @ (member[:, :, None] * member[:, None, :]).reshape(len(member), -1).T
    whole, shared = linear - inner, linear / size - inner / size**2
    best_whole, best_shared = np.argmin(whole, axis=1), np.argmin(shared, axis=1)
    row = np.arange(len(gain))
    is_whole = whole[row, best_whole] <= shared[row, best_shared]
    best = np.where(is_whole, best_whole, best_shared)
    return np.asarray(member[best] * np.where(is_whole, 1.0, 1.0 / size[best])[:, None])


def _by_tangents(
    gain: FloatArray, is_candidate: BoolArray, pair_weight: FloatArray, correlation: FloatArray, start: FloatArray
) -> FloatArray:
    """Run the convex-concave procedure from three starts and return the best end of each row."""

    def value(p: FloatArray) -> FloatArray:
        level, n_taken = p.max(axis=1), np.count_nonzero(p, axis=1)
        spread = pair_weight * level * n_taken * (p.shape[1] - n_taken)
        return np.asarray(spread - np.einsum("ij,ij->i", gain + p @ correlation, p))

    best, best_value = start, value(start)
    for p in (start, is_candidate.astype(np.float64), best_confidences(gain, is_candidate, pair_weight)):
        for _ in range(_MAX_ROUNDS):
            last, p = p, best_confidences(gain + 2.0 * p @ correlation, is_candidate, pair_weight)
            if np.array_equal(p, last):
                break
        reached = value(p)
        better = reached < best_value
        best, best_value = np.where(better[:, None], p, best), np.minimum(reached, best_value)
    return best
