r"""UPML: risks that are unbiased although every candidate set may hold false labels.

If a true label is always a candidate and a false one is with probability :math:`\rho_j`, then with candidates y

.. math:: u_j = \frac{y_j - \rho_j}{1 - \rho_j}, \qquad v_j = 1 - u_j = \frac{1 - y_j}{1 - \rho_j}

have the expectations of "label j is true" and "label j is false". Replacing the truth by them in a loss leaves its
expectation unchanged:

- Hamming loss: :math:`\sum_j u_j \phi(f_j) + v_j \phi(-f_j)`;
- ranking loss: :math:`\sum_{j \ne k} u_j v_k \phi(f_j - f_k)`, and the Hamming loss for the place of the threshold.

With the square loss the minimiser is a ridge regression on u. With the logistic loss it is convex, because
:math:`\phi(-f) - \phi(f) = f`. For labels that are not candidates u is negative, so without a penalty these losses have
no minimum.
"""

from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.utils._param_validation import Interval, StrOptions

from pmlkit._typing import CSR, Features, FloatArray
from pmlkit.methods.base import Learned
from pmlkit.methods.linear import RidgeStarted
from pmlkit.methods.progress import Progress
from pmlkit.numerics.products import cells_at
from pmlkit.numerics.scaling import Normalize

_HIGHEST_RATE = 0.9  # beyond, the variance of the corrected risk is what one measures
_BLOCK_PAIRS = 2**20


def noise_rates(probability: FloatArray, anchor: float) -> FloatArray:
    r"""Estimate how often each label is a candidate of rows that lack it.

    Where a label is certainly false, its probability of being a candidate is :math:`\rho_j`; the rows with the lowest
    predictions stand for such rows.

    `probability`: predicted probability that a label is a candidate. `anchor`: the quantile to take; 0 is the minimum.
    """
    return np.asarray(np.clip(np.quantile(probability, anchor, axis=0), 0.0, _HIGHEST_RATE))


def logistic_risk(scores: FloatArray, relevance: FloatArray) -> tuple[float, FloatArray]:
    r"""Return the sum of :math:`u \phi(f) + (1 - u) \phi(-f)` with the logistic loss, and its gradient.

    `scores`, `relevance` (n_samples, n_labels): f and u.
    """
    return float((scores * (1.0 - relevance) - log_expit(scores)).sum()), expit(scores) - relevance


def ranking_risk(scores: FloatArray, relevance: FloatArray) -> tuple[float, FloatArray]:
    r"""Return the unbiased ranking risk with the sigmoid loss, and its gradient.

    Pairs are averaged over one of their labels, so that the risk is as large as a Hamming risk: :math:`\frac1q \sum_{j
    \ne k} u_j v_k \phi(f_j - f_k) + \sum_j u_j \phi(f_j) + v_j \phi(-f_j)` with :math:`\phi(z) = 1 / (1 + e^z)`.

    `scores`, `relevance` (n_samples, n_labels): f and u.

    Every row costs the square of the number of labels, in blocks of rows.
    """
    n_rows, n_labels = scores.shape
    loss = expit(-scores)
    slope = -loss * (1.0 - loss)
    total = float((relevance * loss + (1.0 - relevance) * (1.0 - loss)).sum())
    gradient = slope * (2.0 * relevance - 1.0)
    step = max(1, _BLOCK_PAIRS // n_labels**2)
    for first in range(0, n_rows, step):
        f, u = scores[first : first + step], relevance[first : first + step]
        weight = u[:, :, None] * (1.0 - u[:, None, :])
        weight[:, np.arange(n_labels), np.arange(n_labels)] = 0.0
        loss = expit(f[:, None, :] - f[:, :, None])
        total += float(np.vdot(weight, loss)) / n_labels
        slope = weight * loss * (loss - 1.0) / n_labels
        gradient[first : first + step] += slope.sum(axis=2) - slope.sum(axis=1)
    return total, gradient


_RISKS = {"logistic": logistic_risk, "ranking": ranking_risk}


class UPML(RidgeStarted):
    r"""uPML: a linear model with an unbiased risk for false candidates.

    It assumes that a true label is always a candidate and that a false label :math:`j` is a candidate with
    probability :math:`\rho_j`, whatever the row. The rates are estimated, and the loss is corrected so that its
    expectation is the loss on the truth.

    Parameters
    ----------
    loss : {"square", "logistic", "ranking"}, default="square"
        Square loss has a closed form: :math:`(\hat y - \rho) / (1 - \rho)` of a ridge regression on the candidates.
        ``"logistic"`` is the corrected logistic loss, ``"ranking"`` the corrected pairwise loss with the sigmoid loss.
    anchor : float, default=0.05
        At least 0 and below 0.5. The rate of a label is this quantile of its out-of-fold probabilities of being a
        candidate, over the training rows. 0 is their minimum, as published, which a single row decides.
    penalty : float or "auto", default="auto"
        Weight of the squared coefficients, for the square loss; the others use a quarter of it, as their curvature is
        a quarter. ``"auto"`` is chosen by the leave-one-out error on the candidates.
    normalize : {"auto", "unit", "standard"} or None, default="auto"
        Scale rows to unit length, or divide columns by their standard deviation, or neither; ``"auto"`` chooses between
        the first two in the same way.
    max_iter : int, default=200
        Maximum number of L-BFGS iterations; not for the square loss.
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default="cardinality"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_samples, n_labels)
        The corrected out-of-fold probability of each candidate (of a ridge regression, whatever the loss), from 0 to 1.
    noise_rate_ : array of shape (n_labels,)
        The estimated :math:`\rho`.
    coef_ : array of shape (n_labels, n_features)
        For scaled features.
    intercept_ : array of shape (n_labels,)
    penalty_, normalize_
        What was chosen.
    n_iter_ : int
    out_of_fold_scores_ : array of shape (n_samples, n_labels)
        Only with the square loss: each row's scores by the regression on the other rows.
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    Scores are estimates of the probability that a label is true with the square loss (not cut to [0, 1]) and with the
    logistic loss, and margins above a virtual threshold label with the ranking loss.

    The authors [1]_ prove that both risks are unbiased and consistent, and train with the sigmoid loss and stochastic
    gradients. Ours are the penalty, its choice, L-BFGS, and the quantile in place of the minimum. Theorem 2 of the
    paper also covers the corrected posterior inside :class:`ClearPML`.

    References
    ----------
    .. [1] M.-K. Xie and S.-J. Huang, "CCMN: A general framework for learning with class-conditional multi-label noise",
       IEEE TPAMI, 2022.

    Examples
    --------
    >>> from pmlkit import UPML
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = UPML().fit(strips.X, strips.Y)
    >>> model.decision_function(strips.X[:2]).shape
    (2, 10)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **RidgeStarted._parameter_constraints,
        "loss": [StrOptions({"square", "logistic", "ranking"})],
        "anchor": [Interval(Real, 0, 0.5, closed="left")],
        "penalty": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
    }

    def __init__(
        self,
        *,
        loss: Literal["square", "logistic", "ranking"] = "square",
        anchor: float = 0.05,
        penalty: float | Literal["auto"] = "auto",
        normalize: Normalize | Literal["auto"] = "auto",
        max_iter: int = 200,
        threshold: str | float = "cardinality",
    ) -> None:
        self.loss = loss
        self.anchor = anchor
        self.penalty = penalty
        self.normalize = normalize
        self.max_iter = max_iter
        self.threshold = threshold

    @property
    def _natural_cut(self) -> float:  # type: ignore[override]
        return 0.0 if self.loss == "ranking" else 0.5

    @property
    def _cross_fits(self) -> bool:  # type: ignore[override]
        return self.loss == "square"

    @property
    def _scores_are_probabilities(self) -> bool:  # type: ignore[override]
        return self.loss == "logistic"

    def _n_tasks(self, Y: CSR) -> int:
        return 1

    def _fit(self, X: Features, Y: CSR, progress: Progress) -> Learned:
        candidates = np.asarray(Y.toarray(), dtype=np.float64)
        ridge = self._regressed(X, candidates, self.penalty)
        self.penalty_ = ridge.penalty
        held_out = ridge.leave_one_out(candidates)
        rate = self.noise_rate_ = noise_rates(held_out, self.anchor)
        corrected = (held_out - rate) / (1.0 - rate)
        confidence = cells_at(corrected, Y)
        coef, intercept, n_iter = ridge.coef / (1.0 - rate), (ridge.intercept - rate) / (1.0 - rate), 1
        scores = corrected
        if self.loss != "square":
            relevance = (candidates - rate) / (1.0 - rate)
            centre = intercept + ridge.mean @ coef
            coef, centre, n_iter = self._minimize(ridge.rows, relevance, coef, centre, ridge.penalty)
            scores = self._as_scores(np.asarray(ridge.rows @ coef) + centre)
            intercept = centre - ridge.mean @ coef
        self.coef_, self.intercept_ = np.ascontiguousarray(coef.T), intercept
        progress.step("fit")
        return Learned(confidence, scores, n_iter=n_iter)

    def _minimize(
        self, rows: Any, relevance: FloatArray, coef: FloatArray, centre: FloatArray, penalty: float
    ) -> tuple[FloatArray, FloatArray, int]:
        """Minimise the penalised risk by L-BFGS, from the solution of the square loss."""
        risk, shape = _RISKS[self.loss], coef.shape

        def value(flat: FloatArray) -> tuple[float, FloatArray]:
            model = flat.reshape(shape[0] + 1, shape[1])
            total, gradient = risk(np.asarray(rows @ model[:-1]) + model[-1], relevance)
            total += 0.125 * penalty * float(np.vdot(model[:-1], model[:-1]))
            slope = np.asarray(rows.T @ gradient) + 0.25 * penalty * model[:-1]
            return total, np.concatenate([slope.ravel(), gradient.sum(axis=0)])

        # The logistic curve is 4 (p - 1/2) where it is steepest.
        start = np.concatenate([4.0 * coef.ravel(), 4.0 * (centre - 0.5)])
        found = minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": int(self.max_iter)})
        model = found.x.reshape(shape[0] + 1, shape[1])
        return model[:-1], model[-1], max(int(found.nit), 1)

    def _as_scores(self, scores: FloatArray) -> FloatArray:
        return np.asarray(expit(scores)) if self.loss == "logistic" else scores

    def _scores(self, X: Features) -> FloatArray:
        return self._as_scores(super()._scores(X))
