"""Schirn: candidates = truth of high rank + sparse noise, by a linear model whose predictions have a high rank, too."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from pmlkit._typing import CSR, BoolArray, Features, FloatArray
from pmlkit.exceptions import PMLWarning
from pmlkit.methods.base import Learned
from pmlkit.methods.linear import RidgeStarted
from pmlkit.methods.nlr import keep_best_candidate
from pmlkit.methods.progress import Progress
from pmlkit.numerics.products import cells_at
from pmlkit.numerics.scaling import Normalize
from pmlkit.numerics.spectral import ThinSVD, add_constant_column, eigenpairs

# Constants of the authors' program.
_FIRST_STEP, _STEP_GROWTH, _LARGEST_STEP = 1e-4, 1.1, 10.0
_RUNAWAY = 10.0  # times the size of the candidates, from which on predictions have lost touch with them


def raise_singular_values(G: FloatArray, by: float) -> FloatArray:
    """Return G with `by` added to all its singular values but those that are zero."""
    squared, right = eigenpairs(G.T @ G)
    return np.asarray(G + by * (G @ (right / np.sqrt(squared))) @ right.T)


@dataclass(frozen=True)
class HighRank:
    """What :func:`fit_high_rank` found.

    `ran_away`: whether the iteration was stopped because its predictions grew without limit; `coef` is then the last
    good one.
    """

    coef: FloatArray
    is_noise: BoolArray
    objective: FloatArray
    ran_away: bool


def fit_high_rank(
    X: Any,
    Y: CSR,
    lam: float,
    alpha: float,
    b: float,
    *,
    max_iter: int = 100,
    on_step: Callable[[], bool] = lambda: False,
) -> HighRank:
    r"""Minimise :math:`\|C - (Y - N)\|^2 + \alpha\|N\|_1 - 2\lambda\|C\|_* + b\|W\|^2`, C = XW, as the authors do.

    Their augmented Lagrangian iteration with a growing step size :math:`\mu` and multipliers :math:`\Phi`:

    1. :math:`W = (2bI + \mu X^\top X)^{-1} X^\top (\mu C - \Phi)`;
    2. a candidate is noise where :math:`C < \tfrac12 - \tfrac\alpha2`, but every row keeps its best candidate;
    3. C is :math:`(2(Y - N) + \Phi + \mu XW) / (2 + \mu)` with :math:`\lambda / (1 + \mu/2)` added to its singular
       values;
    4. :math:`\Phi` grows by :math:`\mu (XW - C)`.

    The problem is not convex and the iteration need not converge. It ends when C is not finite or ten times as large as
    the candidates, with the last coefficients before. All rounds work in the coordinates of one singular value
    decomposition of X.
    """
    svd = ThinSVD(X)
    is_candidate = np.asarray(Y.toarray() > 0)
    target = is_candidate.astype(np.float64)
    limit = _RUNAWAY * max(float(np.linalg.norm(target)), np.sqrt(target.size))
    smooth: FloatArray = np.ones_like(target)
    multiplier, step = smooth, _FIRST_STEP
    is_noise = np.zeros_like(is_candidate)
    coef = np.zeros((len(svd.squared), Y.shape[1]))
    objective: list[float] = []
    ran_away = False
    for _ in range(max_iter):
        moved = svd.project(step * smooth - multiplier) / (2.0 * b + step * svd.squared)[:, None]
        noise = keep_best_candidate(is_candidate & (smooth < 0.5 - 0.5 * alpha), smooth, is_candidate)
        scores = svd.scores(moved)
        middle = (2.0 * (target - noise * target) + multiplier + step * scores) / (2.0 + step)
        size = float(np.linalg.norm(middle))
        if not size <= limit:
            ran_away = True
            break
        smooth = raise_singular_values(middle, lam / (1.0 + 0.5 * step))
        multiplier = multiplier + step * (scores - smooth)
        step = min(_STEP_GROWTH * step, _LARGEST_STEP)
        coef, is_noise = moved, noise
        value = np.square(smooth - target + noise).sum() + alpha * noise.sum() + b * np.vdot(coef, coef)
        objective.append(float(value - 2.0 * lam * np.linalg.norm(smooth, "nuc")))
        if on_step():
            break
    return HighRank(svd.coefficients(coef), is_noise, np.asarray(objective), ran_away)


class Schirn(RidgeStarted):
    r"""Schirn: sparse noise in the candidates, and predictions of high rank.

    .. math::

        \min_{W, N} \; \|XW - (Y - N)\|^2 + \alpha \|N\|_1 - 2\lambda \|XW\|_* + b \|W\|^2

    over 0/1 noise N on the candidates. Where other methods ask for labels of low rank, this one argues that the
    truth has a higher rank than its noisy version, and *raises* singular values.

    Parameters
    ----------
    lam : float, default=0.04
        By how much singular values are raised; published for music_style. Large values make the problem unbounded.
    alpha : float, default=0.5
        Price of a noisy candidate: candidates predicted below ``0.5 - alpha / 2`` are noise. Published for music_style.
    b : float or "auto", default="auto"
        Weight of the squared coefficients. ``"auto"`` is chosen by the leave-one-out error of a ridge regression on
        the candidates; published is 0.1 for music_style, from a grid up to 1000.
    normalize : {"auto", "unit", "standard"} or None, default="auto"
        Scale rows to unit length, or divide columns by their standard deviation, or neither; ``"auto"`` chooses between
        the first two by the same error.
    max_iter : int, default=100
        Number of rounds; the published number.
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default="cardinality"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_samples, n_labels)
        The score of each candidate, cut to [0, 1].
    n_dropped_ : int
        Number of candidates that were noise in the last round.
    coef_ : array of shape (n_labels, n_features)
        W, for scaled features.
    intercept_ : array of shape (n_labels,)
    b_, normalize_
        What was chosen.
    objective_ : array of shape (n_iter,)
        After each round. It need not fall: C = XW holds only in the end.
    n_iter_ : int
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    The iteration is that of the authors' program [1]_, in the coordinates of one singular value decomposition. Ours are
    two guards (a row never loses its last candidate; an iteration that runs away is stopped, with a warning), a
    constant feature, and the choice of scaling and `b` on training rows. The program chooses all its parameters by
    the average precision on the *test* rows of a single split; here nothing is, so the published figures cannot be
    expected.

    References
    ----------
    .. [1] C. Si, Y. Cui, F. Yang, X. Yang and W. Shen, "Revisiting sparsity constraint under high-rank property in
       partial multi-label learning", CVPR 2026, arXiv:2505.20938.

    Examples
    --------
    >>> from pmlkit import Schirn
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = Schirn().fit(strips.X, strips.Y)
    >>> 0 < model.n_dropped_ < strips.Y.nnz
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **RidgeStarted._parameter_constraints,
        "lam": [Interval(Real, 0, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "b": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
    }

    def __init__(
        self,
        *,
        lam: float = 0.04,
        alpha: float = 0.5,
        b: float | Literal["auto"] = "auto",
        normalize: Normalize | Literal["auto"] = "auto",
        max_iter: int = 100,
        threshold: str | float = "cardinality",
    ) -> None:
        self.lam = lam
        self.alpha = alpha
        self.b = b
        self.normalize = normalize
        self.max_iter = max_iter
        self.threshold = threshold

    def _fit(self, X: Features, Y: CSR, progress: Progress) -> Learned:
        self.b_ = self._regressed(X, np.asarray(Y.toarray(), dtype=np.float64), self.b).penalty
        rows = add_constant_column(self._scaled(X))
        found = fit_high_rank(
            rows, Y, self.lam, self.alpha, self.b_, max_iter=self.max_iter, on_step=lambda: progress.step("round")
        )
        if found.ran_away:
            warnings.warn(
                f"Schirn stopped after {len(found.objective)} of {self.max_iter} rounds because its predictions grew "
                f"without limit (lam={self.lam:g}). Lower lam or raise b.",
                PMLWarning,
                stacklevel=2,
            )
        self._keep(found.coef)
        self.n_dropped_ = int(found.is_noise.sum())
        scores = np.asarray(rows @ found.coef)
        confidence = np.clip(cells_at(scores, Y), 0.0, 1.0)
        return Learned(confidence, scores, objective=found.objective, n_iter=max(len(found.objective), 1))
