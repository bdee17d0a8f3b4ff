"""NLR: one regression for the labels that a row has, one for those that it lacks, and the noise between them."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from pmlkit._typing import CSR, BoolArray, Features, FloatArray
from pmlkit.methods.base import Learned
from pmlkit.methods.linear import RidgeStarted
from pmlkit.methods.progress import Progress
from pmlkit.numerics.products import cells_at
from pmlkit.numerics.scaling import Normalize
from pmlkit.numerics.spectral import ThinSVD, add_constant_column

_SETTLED = 1e-6  # relative change of both models that is not worth another round


def keep_best_candidate(is_noise: BoolArray, score: FloatArray, is_candidate: BoolArray) -> BoolArray:
    """Return the noise without the best-scored candidate of rows that would lose all their candidates."""
    lost = np.flatnonzero(is_candidate.any(axis=1) & ~(is_candidate & ~is_noise).any(axis=1))
    kept = is_noise.copy()
    kept[lost, np.argmax(np.where(is_candidate[lost], score[lost], -np.inf), axis=1)] = False
    return kept


@dataclass(frozen=True)
class Opposition:
    """What :func:`oppose` found.

    `coef`, `opposite_coef` (n_features, n_labels): the models of the labels that rows have and of those that they lack.
    """

    coef: FloatArray
    opposite_coef: FloatArray
    is_noise: BoolArray
    objective: FloatArray


def oppose(
    X: Any,
    Y: CSR,
    beta: float,
    gamma: float,
    lam: float,
    *,
    max_iter: int = 100,
    on_step: Callable[[], bool] = lambda: False,
) -> Opposition:
    r"""Alternate between the two regressions of :class:`NLR` and the noise, as the authors' program does.

    Each model is the exact minimiser for the other one. A candidate is noise where the N that minimises the objective
    over the reals would be positive, that is where :math:`XW_1 - XW_2 < 1 - \lambda / 2`; but every row keeps its best
    candidate. All rounds work in the coordinates of one singular value decomposition of X, where both systems are
    diagonal.
    """
    svd = ThinSVD(X)
    is_candidate = np.asarray(Y.toarray() > 0)
    target = is_candidate.astype(np.float64)
    ones = svd.project(np.ones((X.shape[0], 1)))
    squared, system = svd.squared[:, None], ((1.0 + beta) * svd.squared + gamma)[:, None]
    coef, opposite = np.zeros((2, len(squared), Y.shape[1]))
    is_noise = np.zeros_like(is_candidate)
    projected = svd.project(target)
    objective: list[float] = []
    for _ in range(max_iter):
        last_coef, last_opposite, last_noise = coef, opposite, is_noise
        coef = (projected + beta * (ones - squared * opposite)) / system
        opposite = (ones - projected + beta * (ones - squared * coef)) / system
        scores, opposite_scores = svd.scores(coef), svd.scores(opposite)
        margin = scores - opposite_scores
        is_noise = keep_best_candidate(is_candidate & (margin < 1.0 - 0.5 * lam), margin, is_candidate)
        kept = (is_candidate & ~is_noise).astype(np.float64)
        value = np.square(scores - kept).sum() + np.square(opposite_scores - 1.0 + kept).sum()
        value += beta * np.square(scores + opposite_scores - 1.0).sum() + lam * is_noise.sum()
        objective.append(float(value + gamma * (np.vdot(coef, coef) + np.vdot(opposite, opposite))))
        same_noise = np.array_equal(is_noise, last_noise)
        if not same_noise:
            projected = svd.project(kept)
        change = max(_largest(coef - last_coef), _largest(opposite - last_opposite))
        if on_step() or (same_noise and change <= _SETTLED * _largest(coef)):
            break
    return Opposition(svd.coefficients(coef), svd.coefficients(opposite), is_noise, np.asarray(objective))


def _largest(values: FloatArray) -> float:
    return float(np.abs(values).max(initial=0.0))


class NLR(RidgeStarted):
    r"""NLR: two linear models, of the labels that rows have and of those that they lack, tell noise apart.

    .. math::

        \begin{split}
        \min_{W_1, W_2, N} \; & \|XW_1 - (Y - N)\|^2 + \|XW_2 - (1 - Y + N)\|^2 \\
            & + \beta \|XW_1 + XW_2 - 1\|^2 + \gamma (\|W_1\|^2 + \|W_2\|^2) + \lambda \|N\|_1
        \end{split}

    over 0/1 noise N on the candidates.

    Parameters
    ----------
    beta : float, default=100.0
        How strictly the two models must add up to one; the published value.
    gamma : float or "auto", default="auto"
        Weight of the squared coefficients. ``"auto"`` is chosen by the leave-one-out error of a ridge regression on
        the candidates; the published value is 10.
    lam : float, default=1.7
        Price of a noisy candidate. A candidate is noise where the models' difference is below ``1 - lam / 2``: the
        larger, the more is kept, and from 4 on about everything. Published are 1.7 and 2.1.
    normalize : {"auto", "unit", "standard"} or None, default="auto"
        Scale rows to unit length, or divide columns by their standard deviation, or neither; ``"auto"`` chooses between
        the first two by the same error.
    max_iter : int, default=100
        Maximum number of rounds; the published number.
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default="cardinality"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_samples, n_labels)
        Half the models' difference plus one half, cut to [0, 1]; a confidence below ``1 - lam / 4`` was noise.
    n_dropped_ : int
        Number of candidates that were noise in the last round.
    coef_ : array of shape (n_labels, n_features)
        W1, for scaled features.
    intercept_ : array of shape (n_labels,)
    gamma_, normalize_
        What was chosen.
    objective_ : array of shape (n_iter,)
        After each round. It may rise: noise is rounded up to 1.
    n_iter_ : int
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    The iteration is that of the authors' program [1]_, in the coordinates of one singular value decomposition and with
    a stop when nothing changes. What is ours: a row never loses its last candidate (in the program nothing prevents
    that), a constant feature is added, and scaling and `gamma` are chosen on training rows. The program gives a row
    every label whose score, brought to [0, 1] within the row, exceeds 0.9.

    References
    ----------
    .. [1] F. Yang, Y. Jia, H. Liu, Y. Dong and J. Hou, "Noisy label removal for partial multi-label learning",
       KDD 2024.

    Examples
    --------
    >>> from pmlkit import NLR
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = NLR().fit(strips.X, strips.Y)
    >>> 0 < model.n_dropped_ < strips.Y.nnz
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **RidgeStarted._parameter_constraints,
        "beta": [Interval(Real, 0, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "lam": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        beta: float = 100.0,
        gamma: float | Literal["auto"] = "auto",
        lam: float = 1.7,
        normalize: Normalize | Literal["auto"] = "auto",
        max_iter: int = 100,
        threshold: str | float = "cardinality",
    ) -> None:
        self.beta = beta
        self.gamma = gamma
        self.lam = lam
        self.normalize = normalize
        self.max_iter = max_iter
        self.threshold = threshold

    def _fit(self, X: Features, Y: CSR, progress: Progress) -> Learned:
        self.gamma_ = self._regressed(X, np.asarray(Y.toarray(), dtype=np.float64), self.gamma).penalty
        rows = add_constant_column(self._scaled(X))
        found = oppose(
            rows, Y, self.beta, self.gamma_, self.lam, max_iter=self.max_iter, on_step=lambda: progress.step("round")
        )
        self._keep(found.coef)
        self.n_dropped_ = int(found.is_noise.sum())
        scores = np.asarray(rows @ found.coef)
        margin = scores - np.asarray(rows @ found.opposite_coef)
        confidence = np.clip(0.5 + 0.5 * cells_at(margin, Y), 0.0, 1.0)
        return Learned(confidence, scores, objective=found.objective, n_iter=len(found.objective))
