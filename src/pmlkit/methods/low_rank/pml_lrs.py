"""PML-LRS: candidates are a low-rank truth plus sparse noise."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy import linalg, sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from pmlkit._typing import CSR, Features, FloatArray
from pmlkit.methods.base import Learned
from pmlkit.methods.linear import LinearMethod
from pmlkit.methods.progress import Progress
from pmlkit.numerics.products import cells_at
from pmlkit.numerics.prox import nuclear_prox, soft_threshold
from pmlkit.numerics.scaling import Normalize
from pmlkit.numerics.spectral import ThinSVD, add_constant_column, spectral_norm

# The shares of the noise level at which the two low-rank penalties act; chosen on eight data sets, see Notes.
_SHARE_W = 0.2
_SHARE_U = 0.03
_RELAXATION = 1.6
_CHECK_EVERY = 10
# A step size follows its residuals when they differ by more than this factor, and by no more than the other at once.
_TOLERATED, _LARGEST_MOVE = 1.5, 5.0


@dataclass(frozen=True)
class Penalties:
    """The three trade-offs, all positive, and whether noise is confined to ``0 <= Y - U <= Y``."""

    lam_w: float
    lam_u: float
    lam_v: float
    box: bool = False


@dataclass(frozen=True)
class LowRankSparse:
    """What :func:`split_low_rank_sparse` finds.

    - `coordinates` (r, n_labels): W in the coordinates of the SVD.
    - `truth` (n_samples, n_labels): U. Where it equals Y, it does so exactly.
    - `objective`: the objective at each check.
    - `gap`: certificate: the last objective is at most this share of itself above the optimum.
    """

    coordinates: FloatArray
    truth: FloatArray
    objective: FloatArray
    gap: float
    n_iter: int


class _Copy:
    """A copy of a block that carries one penalty, and the running disagreement of the two."""

    def __init__(self, value: FloatArray) -> None:
        self.value = value
        self.dual = np.zeros_like(value)
        self.disagreement = self.change = 0.0

    @property
    def pull(self) -> FloatArray:
        """The value towards which the block is pulled."""
        return self.value - self.dual

    def follow(self, block: FloatArray, prox: Callable[[FloatArray], FloatArray]) -> None:
        """Move towards the block, over-relaxed, as far as the penalty lets it."""
        relaxed = _RELAXATION * block + (1.0 - _RELAXATION) * self.value
        value = prox(relaxed + self.dual)
        self.dual += relaxed - value
        self.disagreement, self.change = float(linalg.norm(block - value)), float(linalg.norm(value - self.value))
        self.value = value


def split_low_rank_sparse(
    svd: ThinSVD,
    Y: FloatArray,
    penalties: Penalties,
    *,
    max_iter: int = 1000,
    tol: float = 1e-4,
    on_check: Callable[[], bool] = lambda: False,
) -> LowRankSparse:
    """Minimise the objective of PML-LRS by the alternating direction method of multipliers; a dual bound certifies it.

    W and U are one block, solved for jointly; the copies that carry the two nuclear norms and the
    sparse noise are the other. In the coordinates of the SVD the joint solve is a scaling,
    so that step sizes can be adapted to the residuals at no cost.

    `tol`: stop at this relative duality gap.
    """
    low_w, low_u, clean = _Copy(np.zeros((len(svd.squared), Y.shape[1]))), _Copy(Y), _Copy(Y)
    nuclear_w = nuclear_u = 0.0

    def shrink_w(A: FloatArray) -> FloatArray:
        nonlocal nuclear_w
        shrunk, values = nuclear_prox(A, penalties.lam_w / step_w)
        nuclear_w = float(values.sum())
        return shrunk

    def shrink_u(A: FloatArray) -> FloatArray:
        nonlocal nuclear_u
        shrunk, values = nuclear_prox(A, penalties.lam_u / step_u)
        nuclear_u = float(values.sum())
        return shrunk

    def remove_noise(A: FloatArray) -> FloatArray:
        amount = penalties.lam_v / step_u
        return Y - (np.clip(Y - A - amount, 0.0, Y) if penalties.box else soft_threshold(Y - A, amount))

    squared = svd.squared[:, None]
    step_w, step_u = float(np.sqrt(squared.max(initial=0.0) * squared.mean())) if squared.size else 1.0, 1.0
    bound, gap, next_balance = -np.inf, np.inf, _CHECK_EVERY
    objective: list[float] = []
    for n_iter in range(1, max_iter + 1):
        middle = (low_u.pull + clean.pull) / 2.0
        weight = 2.0 * step_u / (1.0 + 2.0 * step_u)
        W = (weight * svd.project(middle) + step_w * low_w.pull) / (weight * squared + step_w)
        scores = svd.scores(W)
        U = (scores + 2.0 * step_u * middle) / (1.0 + 2.0 * step_u)
        low_w.follow(W, shrink_w)
        low_u.follow(U, shrink_u)
        clean.follow(U, remove_noise)
        if n_iter % _CHECK_EVERY and n_iter < max_iter:
            continue
        if penalties.box:
            truth, nuclear_truth = clean.value, float(linalg.svdvals(clean.value, check_finite=False).sum())
        else:
            truth, nuclear_truth = low_u.value, nuclear_u
        objective.append(
            float(
                0.5 * linalg.norm(svd.scores(low_w.value) - truth) ** 2
                + penalties.lam_w * nuclear_w
                + penalties.lam_u * nuclear_truth
                + penalties.lam_v * np.abs(Y - truth).sum()
            )
        )
        bound = max(bound, _dual_value(svd, Y, penalties, scores - U, -step_u * clean.dual))
        gap = (objective[-1] - bound) / max(objective[-1], np.finfo(float).tiny)
        if on_check() or gap <= tol:
            break
        # Ever more rarely: with step sizes that keep moving, convergence is not guaranteed.
        if n_iter >= next_balance:
            step_w *= _balance(low_w)
            step_u *= _balance(low_u, clean)
            next_balance = n_iter + max(_CHECK_EVERY, n_iter // 4)
    return LowRankSparse(low_w.value, clean.value, np.asarray(objective), gap, n_iter)


def _dual_value(svd: ThinSVD, Y: FloatArray, penalties: Penalties, residual: FloatArray, slope: FloatArray) -> float:
    r"""Return a lower bound of the optimum from any pair of matrices.

    The dual problem is to maximise :math:`\langle S, Y\rangle - \tfrac12\|Z\|^2` where
    :math:`\|X^T Z\|_2 \le \lambda_w`, :math:`\|S + Z\|_2 \le \lambda_u` and :math:`|S| \le \lambda_v`;
    with the box, S is free and :math:`\sum_{ij \in Y} \min(0, \lambda_v - S_{ij})` is added. Shrinking
    (Z, S) together until all constraints hold makes any pair feasible.
    """
    excess = max(
        1.0, spectral_norm(svd.project(residual)) / penalties.lam_w, spectral_norm(slope + residual) / penalties.lam_u
    )
    if not penalties.box:
        excess = max(excess, float(np.abs(slope).max()) / penalties.lam_v)
    Z, S = residual / excess, slope / excess
    value = float(np.vdot(S, Y) - 0.5 * linalg.norm(Z) ** 2)
    return value + float(np.vdot(np.minimum(0.0, penalties.lam_v - S), Y)) if penalties.box else value


def _balance(*copies: _Copy) -> float:
    """Return the factor for a step size that evens out the relative residuals; rescale the duals to it."""
    disagreement, change, size, dual = (
        float(np.hypot.reduce(parts))
        for parts in zip(
            *((copy.disagreement, copy.change, linalg.norm(copy.value), linalg.norm(copy.dual)) for copy in copies),
            strict=True,
        )
    )
    if min(disagreement, change, size, dual) == 0.0:
        return 1.0
    factor = float(np.sqrt((disagreement / size) / (change / dual)))
    if 1.0 / _TOLERATED < factor < _TOLERATED:
        return 1.0
    factor = float(np.clip(factor, 1.0 / _LARGEST_MOVE, _LARGEST_MOVE))
    for copy in copies:
        copy.dual /= factor
    return factor


def automatic_lam_w(X: Features, Y: CSR) -> float:
    r"""Return a penalty of W that grows with the data as noise does.

    Random labels of the same frequency correlate with the features by about
    :math:`\sqrt{p(1-p)}\,\|X\|_F`, p being the share of candidates among all cells; a fifth of
    that keeps what is clearly signal. It does not depend on the units of X.
    """
    n_cells = Y.shape[0] * Y.shape[1]
    share = Y.nnz / n_cells
    size = linalg.norm(X.data if sparse.issparse(X) else X)
    # The bounds only matter where all or no cells are candidates, or X is zero.
    return float(_SHARE_W * np.sqrt(max(share * (1.0 - share), 1.0 / n_cells)) * (size or 1.0))


def automatic_lam_u(shape: tuple[int, int], lam_v: float) -> float:
    r"""Return a penalty of U in proportion to `lam_v`.

    Robust principal component analysis balances the two at :math:`\lambda_u = \lambda_v \sqrt{\max(n, q)}`; here the
    features already say what is noise, and a small share of that is enough.
    """
    return _SHARE_U * lam_v * float(np.sqrt(max(shape)))


class PMLLRS(LinearMethod):
    r"""PML-LRS: split the candidates into a low-rank truth and sparse noise, and model the truth.

    .. math::

        \begin{split}
        \min_{W, U, V} \; & \tfrac12 \|XW - U\|_F^2 + \lambda_w \|W\|_* + \lambda_u \|U\|_* + \lambda_v \|V\|_1 \\
            & \text{so that} \quad Y = U + V .
        \end{split}

    U are the true labels, V the noise. A candidate counts as noise when the model's score for it lies more than
    `lam_v` below one. The problem is convex and is solved to a certified accuracy.

    Parameters
    ----------
    lam_w : float or "auto", default="auto"
        Weight of the model's nuclear norm. ``"auto"`` grows with the data as noise does.
    lam_u : float or "auto", default="auto"
        Weight of the truth's nuclear norm. ``"auto"`` is in proportion to `lam_v`.
    lam_v : float, default=0.4
        Weight of the noise. It is measured on the scale of the labels: from about 1 on nothing is
        taken for noise; near 0 everything is, and the model collapses to zero.
    box : bool, default=False
        Allow noise only on candidates, and between 0 and 1: ``0 <= V <= Y``. An extension; the
        published problem lets V be negative and lie anywhere.
    normalize : {"unit", "standard"} or None, default="unit"
        Scale rows to unit length, or divide columns by their standard deviation, or neither.
    fit_intercept : bool, default=True
        Add a constant feature, penalised like the others. The published problem has none.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-4
        Relative duality gap at which to stop: the objective is then at most this share above the best possible one.
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default="cardinality"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_samples, n_labels)
        U on the candidates, clipped to [0, 1].
    coef_ : array of shape (n_labels, n_features)
    intercept_ : array of shape (n_labels,)
    lam_w_, lam_u_ : float
        The `lam_w` and `lam_u` that were used.
    objective_ : array
        The objective, every tenth iteration.
    gap_ : float
        The relative duality gap that was reached.
    n_iter_ : int
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    The objective is the published one [1]_ as far as it is known: the authors' program is not public, and
    which of their symbols belongs to which term is not certain, hence the plain names. The solver, the
    box, the constant feature and the automatic weights are ours. The published weights are tuned for
    each data set; the automatic ones were chosen once on eight data sets of 96 to 3,000
    rows so that none collapses, and follow the number of rows and labels and the units of X.

    Rows without candidates are left out. One diagonalisation of the smaller Gram matrix of X, then
    every iteration costs two products with X and two thin singular value shrinkages.

    References
    ----------
    .. [1] L. Sun, S. Feng, T. Wang, C. Lang and Y. Jin, "Partial multi-label learning by low-rank
       and sparse decomposition", AAAI 2019.

    Examples
    --------
    >>> from pmlkit import PMLLRS
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = PMLLRS().fit(strips.X, strips.Y)
    >>> bool(model.gap_ <= 1e-4)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearMethod._parameter_constraints,
        "lam_w": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "lam_u": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "lam_v": [Interval(Real, 0, None, closed="neither")],
        "box": ["boolean"],
        "fit_intercept": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        lam_w: float | str = "auto",
        lam_u: float | str = "auto",
        lam_v: float = 0.4,
        box: bool = False,
        normalize: Normalize = "unit",
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-4,
        threshold: str | float = "cardinality",
    ) -> None:
        self.lam_w = lam_w
        self.lam_u = lam_u
        self.lam_v = lam_v
        self.box = box
        self.normalize = normalize
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.threshold = threshold

    def _n_tasks(self, Y: CSR) -> int:
        return -(-int(self.max_iter) // 10)

    def _fit(self, X: Features, Y: CSR, progress: Progress) -> Learned:
        X = self._scaled_training_rows(X.astype(np.float64, copy=False))
        self.lam_w_ = automatic_lam_w(X, Y) if isinstance(self.lam_w, str) else float(self.lam_w)
        self.lam_u_ = automatic_lam_u(Y.shape, self.lam_v) if isinstance(self.lam_u, str) else float(self.lam_u)
        svd = ThinSVD(add_constant_column(X) if self.fit_intercept else X)
        found = split_low_rank_sparse(
            svd,
            Y.toarray(),
            Penalties(self.lam_w_, self.lam_u_, float(self.lam_v), self.box),
            max_iter=self.max_iter,
            tol=self.tol,
            on_check=lambda: progress.step("ten iterations"),
        )
        if found.gap > self.tol and found.n_iter == self.max_iter:
            warnings.warn(
                f"PMLLRS stopped after max_iter={self.max_iter} iterations with a relative gap of {found.gap:.1e}, "
                f"not tol={self.tol:.1e}; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self._keep(svd.coefficients(found.coordinates), has_constant=self.fit_intercept)
        self.gap_ = found.gap
        return Learned(
            confidence=np.clip(cells_at(found.truth, Y), 0.0, 1.0),
            scores=svd.scores(found.coordinates),
            objective=found.objective,
            n_iter=found.n_iter,
        )
