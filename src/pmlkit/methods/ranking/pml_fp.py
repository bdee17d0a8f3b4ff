"""PML-fp: a ranking loss weighted by confidences, and prototypes that say which candidates look right."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.extmath import row_norms

from pmlkit._typing import BoolArray, Features, FloatArray
from pmlkit.methods.ranking.alternation import ConfidenceRanker, ConfidenceTerm
from pmlkit.numerics.scaling import Normalize

__all__ = ["PMLFP", "FeaturePrototypes"]


@dataclass(frozen=True)
class FeaturePrototypes:
    """The term R(P) of PML-fp: confident candidates lie near the prototype of their label.

    ``R(P) = sum over candidates of p_ij (pull |x_i - o_j|^2 / s - reward)`` with the best prototypes
    o, which are the means of the rows weighted by the label's confidences, and with s, the mean
    squared distance of the rows from their common mean.

    Attributes
    ----------
    X : array or CSR array of shape (n_rows, n_features)
    is_candidate : bool array of shape (n_rows, n_labels)
    pull, reward : float
    """

    X: Features
    is_candidate: BoolArray
    pull: float
    reward: float

    def penalty(self, confidence: FloatArray) -> float:
        """Return R(P)."""
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


class PMLFP(ConfidenceRanker):
    r"""PML-fp: a ranking weighted by confidences, with feature prototypes of the labels.

    A linear ranking in which only confident candidates must stand above the other labels, and
    in which a candidate is confident when it ranks well and its row lies near the label's other rows:

    .. math::

        \min_{W, b, P, o} \; \tfrac12 \sum_k \|w_k\|^2 + \sum_i \sum_{j \in S_i} p_{ij} \Bigl(
            \frac{C_1}{|\bar S_i|} \sum_{k \notin S_i} \xi_{ijk} + \frac{C_2}{s} \|x_i - o_j\|^2 - C_3 \Bigr),
        \qquad 0 \le p_{ij} \le 1, \quad \sum_j p_{ij} \ge 1,

    with :math:`\xi_{ijk} = \max(0,\, 1 - f_j(x_i) + f_k(x_i))` and :math:`s` the mean squared
    distance of the rows from their mean. Model, confidences and prototypes are minimised in turn, each exactly.

    Parameters
    ----------
    C1 : float, default=1.0
        Weight of the ranking loss.
    C2 : float, default=1.0
        Weight of the distances to the prototypes; 0 leaves the ranking alone to decide.
    C3 : float, default=0.8
        Reward of a confident candidate: candidates that cost more lose their confidence. With 0,
        each row keeps its best candidate only.
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
        P: 0 or 1.
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
    confidences, the prototypes, the constraints on P, the alternation and the three trade-offs. Ours are the
    averages over pairs, the unit s of the distances (both make the defaults independent of the number
    of labels and of the scale of X), the exact form of the reward and the defaults, which were chosen on made-up
    data. Rows whose labels are all candidates have confidences but no pairs.

    References
    ----------
    .. [1] M.-K. Xie and S.-J. Huang, "Partial multi-label learning", AAAI 2018.

    Examples
    --------
    >>> from pmlkit.data import load_digit_strips
    >>> from pmlkit.methods.ranking.pml_fp import PMLFP
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = PMLFP(normalize="unit").fit(strips.X, strips.Y)
    >>> sorted(set(model.label_confidence_.data.tolist()))
    [0.0, 1.0]
    """

    def __init__(
        self,
        *,
        C1: float = 1.0,
        C2: float = 1.0,
        C3: float = 0.8,
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
        return FeaturePrototypes(X, is_candidate, self.C2, self.C3)
