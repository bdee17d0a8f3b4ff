"""PML-fp: a ranking loss weighted by confidences, which prefer labels with a near prototype."""

from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.extmath import row_norms

from pmlkit._typing import BoolArray, Features, FloatArray
from pmlkit.methods.ranking.alternation import ConfidenceProblem, ConfidenceRanker
from pmlkit.methods.ranking.convex import FeaturePrototypes
from pmlkit.methods.ranking.printed import PrintedProblem
from pmlkit.numerics.scaling import Normalize


def prototype_distances(X: Features, is_candidate: BoolArray) -> FloatArray:
    """Return the distance of every row to every label's prototype, the mean of the rows that carry the candidate."""
    n_carriers = np.maximum(is_candidate.sum(axis=0), 1)
    prototype = np.asarray(X.T @ is_candidate.astype(np.float64)).T / n_carriers[:, None]
    squared = row_norms(X, squared=True)[:, None] - 2.0 * (X @ prototype.T) + row_norms(prototype, squared=True)
    return np.asarray(np.sqrt(np.maximum(squared, 0.0)))


class PMLFP(ConfidenceRanker):
    r"""PML-fp: a ranking weighted by confidences, which prefer labels with a near prototype.

    .. math::

        \begin{split}
        \min_{W, b, P} \; & \sum_k \|w_k\|^2
            + C_1 \sum_i \frac{1}{\gamma_i} \sum_{k, l} \max(0, p_{ik} - p_{il})\, \xi_{ikl} \\
            & + C_3 \sum_i \sum_{k \in S_i} p_{ik} \|x_i - q_k\|,
        \qquad 0 \le p_{ik} \le 1, \quad \sum_k p_{ik} \ge 1,
        \end{split}

    with confidences P on the candidates :math:`S_i`, slacks :math:`\xi_{ikl}` of the scores' margins
    :math:`f_k(x_i) - f_l(x_i) \ge 1`, :math:`\gamma_i = |S_i| |\bar S_i| + |S_i|^2 / 2`, and prototypes :math:`q_k`,
    the mean of the rows that carry candidate k. Model and confidences are learned in turn.

    Parameters
    ----------
    C1 : float, default=1.0
        Weight of the ranking loss; the published value.
    C3 : float, optional
        Weight of the distances to the prototypes. Default: 10, or 1 for the convex variant. The paper searches
        1, 10 and 100.
    variant : {"printed", "convex"}, default="printed"
        The problem above, or a convex relative: only pairs of a candidate and another label count, the distances are
        squared, over the mean squared distance of the rows from their mean, and the prototypes follow the
        confidences, see :mod:`pmlkit.methods.ranking.convex`.
    reward : float, default=0.8
        Only of the convex variant: candidates that cost more lose their confidence. With 0, each row keeps its best
        candidate only.
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
        number. With the convex variant 0 or 1.
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
    The problem is that of the paper [1]_, equations 1 to 3, 6 and 7: the distances are not squared, the prototypes are
    computed once, and nothing rewards confidence but slacks below zero, which the confidence step does not cut, as
    printed; therefore the objective may rise. The paper does not say how P starts (here: 1 on all candidates). The
    confidence step is a linear program per row with a closed form, see :mod:`pmlkit.methods.ranking.printed`.

    The distances have the unit of the features and the loss of a row is about 1: with features on a large scale the
    distances alone decide, whatever the model says.

    References
    ----------
    .. [1] M.-K. Xie and S.-J. Huang, "Partial multi-label learning", AAAI 2018.

    Examples
    --------
    >>> from pmlkit import PMLFP
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = PMLFP(normalize="unit").fit(strips.X, strips.Y)
    >>> bool(model.label_confidence_.sum(axis=1).min() >= 1 - 1e-9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ConfidenceRanker._parameter_constraints,
        "C3": [Interval(Real, 0, None, closed="left"), None],
    }

    def __init__(
        self,
        *,
        C1: float = 1.0,
        C3: float | None = None,
        variant: Literal["printed", "convex"] = "printed",
        reward: float = 0.8,
        normalize: Normalize = None,
        tol: float = 1e-4,
        max_iter: int = 10,
        threshold: str | float = "size",
    ) -> None:
        self.C1 = C1
        self.C3 = C3
        self.variant = variant
        self.reward = reward
        self.normalize = normalize
        self.tol = tol
        self.max_iter = max_iter
        self.threshold = threshold

    def _problem(self, X: Any, is_candidate: BoolArray) -> ConfidenceProblem:
        if self.variant == "convex":
            return FeaturePrototypes(is_candidate, self.C1, self.reward, X, 1.0 if self.C3 is None else self.C3)
        weight = 10.0 if self.C3 is None else self.C3
        return PrintedProblem(is_candidate, self.C1, distance=weight * prototype_distances(X, is_candidate))
