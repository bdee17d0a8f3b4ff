"""PML-lc: a ranking loss weighted by confidences that are alike for labels that go together."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pmlkit._typing import BoolArray, FloatArray, IntArray
from pmlkit.methods.ranking.alternation import ConfidenceRanker, ConfidenceTerm
from pmlkit.methods.ranking.row_programs import solve_row_programs
from pmlkit.numerics.scaling import Normalize

__all__ = ["PMLLC", "LabelCorrelation", "candidate_similarity"]


def candidate_similarity(is_candidate: BoolArray) -> FloatArray:
    """Return how often labels are candidates together: the cosine of their columns, 0 on the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.ranking.pml_lc import candidate_similarity
    >>> candidate_similarity(np.array([[True, True], [True, False], [False, True]]))
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    together = is_candidate.T.astype(np.float64) @ is_candidate
    length = np.sqrt(np.maximum(np.diag(together), 1.0))
    similarity = together / length / length[:, None]
    np.fill_diagonal(similarity, 0.0)
    return np.asarray(similarity)


@dataclass(frozen=True)
class _SameSize:
    """Rows with equally many candidates: the cells, and the Laplacian of each row's candidates."""

    row: IntArray
    label: IntArray
    laplacian: FloatArray


@dataclass(frozen=True)
class LabelCorrelation:
    """The term R(P) of PML-lc: labels that go together have similar confidences.

    ``R(P) = sum_i ( smoothness * sum_{j < k in S_i} c_jk (p_ij - p_ik)^2 - reward * sum_j p_ij )``.

    Attributes
    ----------
    is_candidate : bool array of shape (n_rows, n_labels)
    similarity : array of shape (n_labels, n_labels)
        The c, symmetric, not negative.
    smoothness, reward : float
    """

    is_candidate: BoolArray
    similarity: FloatArray
    smoothness: float
    reward: float

    def penalty(self, confidence: FloatArray) -> float:
        """Return R(P)."""
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


class PMLLC(ConfidenceRanker):
    r"""PML-lc: a ranking weighted by confidences, alike for labels that go together.

    A linear ranking in which only confident candidates must stand above the other labels, and
    in which a candidate is confident when it ranks well and when candidates that often come with it are confident:

    .. math::

        \min_{W, b, P} \; \tfrac12 \sum_k \|w_k\|^2
            + \sum_i \sum_{j \in S_i} p_{ij} \Bigl( \frac{C_1}{|\bar S_i|} \sum_{k \notin S_i} \xi_{ijk} - C_3 \Bigr)
            + C_2 \sum_i \sum_{j < k \in S_i} c_{jk} (p_{ij} - p_{ik})^2,
        \qquad 0 \le p_{ij} \le 1, \quad \sum_j p_{ij} \ge 1,

    with :math:`\xi_{ijk} = \max(0,\, 1 - f_j(x_i) + f_k(x_i))` and :math:`c_{jk}` the cosine of the
    candidates' columns. Model and confidences are minimised in turn, each exactly.

    Parameters
    ----------
    C1 : float, default=1.0
        Weight of the ranking loss.
    C2 : float, default=0.05
        Weight of the similarity of confidences: the larger, the more evenly a row spreads its confidence.
    C3 : float, default=0.0
        Reward of confidence. With 0 the confidences of a row sum to one; otherwise candidates that
        cost less are trusted in full.
    pair_average : bool, default=True
        Average a candidate's loss over the row's other labels, as in the formula. False: sum it.
    normalize : {"unit", "standard"} or None, default=None
        Scale rows to unit length, or divide columns by their standard deviation, or neither.
    tol : float, default=1e-4
        Relative duality gap of the last model.
    max_iter : int, default=10
        How often confidences are chosen anew at the most. It ends earlier when they settle.
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default="size"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_rows, n_labels)
        P.
    coef_ : array of shape (n_labels, n_features)
        A single label has two rows, for its presence and its absence.
    intercept_ : array of shape (n_labels,)
        They sum to zero.
    duality_gap_ : float
        How near the last model is to the best one for its confidences at least, relative to its objective.
    objective_ : array
        After the first model, and then after each choice of confidences and each model. Never rises.
    n_iter_ : int
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    A reconstruction: no program of the authors is public. From the paper [1]_ come the loss weighted by
    confidences, the term of label correlations, the constraints on P, the alternation and the three trade-offs.
    Ours are the averages over pairs (which make the defaults independent of the number of labels), the cosine,
    the exact form of the reward and the defaults, which were chosen on made-up data. Rows whose labels are all
    candidates have confidences but no pairs.

    References
    ----------
    .. [1] M.-K. Xie and S.-J. Huang, "Partial multi-label learning", AAAI 2018.

    Examples
    --------
    >>> from pmlkit.data import load_digit_strips
    >>> from pmlkit.methods.ranking.pml_lc import PMLLC
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = PMLLC(normalize="unit").fit(strips.X, strips.Y)
    >>> model.label_confidence_.sum(axis=1)[:3].round(6)
    array([1., 1., 1.])
    """

    def __init__(
        self,
        *,
        C1: float = 1.0,
        C2: float = 0.05,
        C3: float = 0.0,
        pair_average: bool = True,
        normalize: Normalize = None,
        tol: float = 1e-4,
        max_iter: int = 10,
        threshold: str | float = "size",
    ) -> None:
        self.C1 = C1
        self.C2 = C2
        self.C3 = C3
        self.pair_average = pair_average
        self.normalize = normalize
        self.tol = tol
        self.max_iter = max_iter
        self.threshold = threshold

    def _term(self, X: Any, is_candidate: BoolArray) -> ConfidenceTerm:
        return LabelCorrelation(is_candidate, candidate_similarity(is_candidate), self.C2, self.C3)
