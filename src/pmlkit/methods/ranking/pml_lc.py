"""PML-lc: a ranking loss weighted by confidences, which labels that occur together support in each other."""

from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval

from pmlkit._typing import BoolArray, FloatArray
from pmlkit.methods.ranking.alternation import ConfidenceProblem, ConfidenceRanker
from pmlkit.methods.ranking.convex import LabelCorrelation
from pmlkit.methods.ranking.printed import PrintedProblem
from pmlkit.numerics.scaling import Normalize


def co_occurrence(is_candidate: BoolArray) -> FloatArray:
    """Return the share of rows in which both labels are candidates."""
    table = is_candidate.astype(np.float64)
    return np.asarray(table.T @ table / len(table))


def candidate_similarity(is_candidate: BoolArray) -> FloatArray:
    """Return the cosine of the labels' candidate columns, 0 on the diagonal."""
    together = is_candidate.T.astype(np.float64) @ is_candidate
    length = np.sqrt(np.maximum(np.diag(together), 1.0))
    similarity = together / length / length[:, None]
    np.fill_diagonal(similarity, 0.0)
    return np.asarray(similarity)


class PMLLC(ConfidenceRanker):
    r"""PML-lc: a ranking weighted by confidences, which labels that occur together support in each other.

    .. math::

        \begin{split}
        \min_{W, b, P} \; & \sum_k \|w_k\|^2
            + C_1 \sum_i \frac{1}{\gamma_i} \sum_{k, l} \max(0, p_{ik} - p_{il})\, \xi_{ikl} \\
            & - C_2 \sum_i \sum_{k, l \in S_i} s_{kl} p_{ik} p_{il},
        \qquad 0 \le p_{ik} \le 1, \quad \sum_k p_{ik} \ge 1,
        \end{split}

    with confidences P on the candidates :math:`S_i`, slacks :math:`\xi_{ikl}` of the scores' margins
    :math:`f_k(x_i) - f_l(x_i) \ge 1`, :math:`\gamma_i = |S_i| |\bar S_i| + |S_i|^2 / 2`, and :math:`s_{kl}` the share
    of rows in which both labels are candidates. Model and confidences are learned in turn.

    Parameters
    ----------
    C1 : float, default=1.0
        Weight of the ranking loss; the published value.
    C2 : float, optional
        Weight of the co-occurrence of labels. Default: 0.1, or 0.05 for the convex variant. The paper
        searches 1 to 10; see Notes.
    variant : {"printed", "convex"}, default="printed"
        The problem above, or a convex relative: only pairs of a candidate and another label count, and the last term
        is :math:`C_2 \sum_i \sum_{j < k} c_{jk} (p_{ij} - p_{ik})^2` with the cosine c of the candidate columns, see
        :mod:`pmlkit.methods.ranking.convex`.
    reward : float, default=0.0
        Only of the convex variant: a reward per unit of confidence. With 0 the confidences of a row sum to one.
    normalize : {"unit", "standard"} or None, default=None
        Scale rows to unit length, or divide columns by their standard deviation, or neither.
    tol : float, default=1e-4
        Relative duality gap of the last model.
    max_iter : int, default=10
        Maximum number of rounds; fewer when confidences or objective settle.
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default="size"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_samples, n_labels)
        P. As printed, a row trusts some of its candidates and all of them equally: with 1, or with one over their
        number.
    coef_ : array of shape (n_labels, n_features)
        A single label has two rows, for its presence and its absence.
    intercept_ : array of shape (n_labels,)
        They sum to zero.
    duality_gap_ : float
        Relative duality gap of the last model, for its confidences.
    objective_ : array of shape (n_iter + 1,)
        After each model.
    n_iter_ : int
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    The problem is that of the paper [1]_, equations 1 to 5. The paper does not say how P starts (here: 1 on all
    candidates); its co-occurrence rate is read as the share of rows with both labels. In the confidence step
    the slacks are not cut at zero, as printed; therefore the objective may rise. That step is exact for rows
    with at most ten candidates, see :mod:`pmlkit.methods.ranking.printed`.

    The co-occurrence term grows with the number of trusted candidates and the loss of a row does not: from about
    ``C2 = 0.2`` on nearly all candidates are trusted, and with the published 1 to 10 all of them were on each of 13
    data sets. The method then is :class:`RankSVM` with another weight of the loss.

    References
    ----------
    .. [1] M.-K. Xie and S.-J. Huang, "Partial multi-label learning", AAAI 2018.

    Examples
    --------
    >>> from pmlkit import PMLLC
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = PMLLC(normalize="unit").fit(strips.X, strips.Y)
    >>> bool(model.label_confidence_.sum(axis=1).min() >= 1 - 1e-9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ConfidenceRanker._parameter_constraints,
        "C2": [Interval(Real, 0, None, closed="left"), None],
    }

    def __init__(
        self,
        *,
        C1: float = 1.0,
        C2: float | None = None,
        variant: Literal["printed", "convex"] = "printed",
        reward: float = 0.0,
        normalize: Normalize = None,
        tol: float = 1e-4,
        max_iter: int = 10,
        threshold: str | float = "size",
    ) -> None:
        self.C1 = C1
        self.C2 = C2
        self.variant = variant
        self.reward = reward
        self.normalize = normalize
        self.tol = tol
        self.max_iter = max_iter
        self.threshold = threshold

    def _problem(self, X: Any, is_candidate: BoolArray) -> ConfidenceProblem:
        if self.variant == "convex":
            smoothness = 0.05 if self.C2 is None else self.C2
            return LabelCorrelation(is_candidate, self.C1, self.reward, candidate_similarity(is_candidate), smoothness)
        weight = 0.1 if self.C2 is None else self.C2
        return PrintedProblem(is_candidate, self.C1, correlation=weight * co_occurrence(is_candidate))
