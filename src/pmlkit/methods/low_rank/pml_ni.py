"""PML-NI: a low-rank model of the true labels and a sparse model of the noise."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import linalg, sparse
from sklearn.utils._param_validation import Interval
from sklearn.utils.sparsefuncs import min_max_axis

from pmlkit._typing import CSR, Features, FloatArray
from pmlkit.methods.base import BasePML, Learned
from pmlkit.methods.progress import Progress
from pmlkit.numerics.products import cells_at
from pmlkit.numerics.prox import nuclear_prox, soft_threshold
from pmlkit.numerics.spectral import ShiftedRows, ThinSVD, add_constant_column

# Constants of the authors' program.
_FIRST_STEP, _STEP_GROWTH, _LARGEST_STEP = 1e-4, 1.1, 1e10
_SMALL_CHANGE, _SMALL_DISAGREEMENT = 1e-5, 1e-7


def column_range(X: Features) -> tuple[FloatArray, FloatArray]:
    """Return `scale` and `shift` that bring every column to [-1, 1]: ``X * scale + shift``.

    A constant column gets scale and shift 0.
    """
    low, high = min_max_axis(X, axis=0) if sparse.issparse(X) else (X.min(axis=0), X.max(axis=0))
    low, high = low.astype(np.float64), high.astype(np.float64)
    varies = high > low
    scale = np.divide(2.0, high - low, out=np.zeros_like(low), where=varies)
    return scale, np.where(varies, -1.0 - low * scale, 0.0)


def ranged(X: Features, scale: FloatArray, shift: FloatArray) -> Any:
    """Return the rows ``[X * scale + shift, 1]``; for sparse X they are left implicit."""
    if not sparse.issparse(X):
        return add_constant_column(X * scale + shift)
    stretched = sparse.csr_array(X @ sparse.diags_array(scale))
    stretched = sparse.csr_array((stretched.data, stretched.indices, stretched.indptr), (X.shape[0], X.shape[1] + 1))
    return ShiftedRows(stretched, np.append(shift, 1.0))


@dataclass(frozen=True)
class TwoParts:
    """What :func:`split_model` finds; coefficients have shape (n_features, n_labels).

    `low_rank`, `sparse`: the model of the truth, and that of the noise. `objective`: the objective after each
    iteration. It need not fall: the two parts add up to the whole model only at convergence.
    """

    low_rank: FloatArray
    sparse: FloatArray
    objective: FloatArray
    n_iter: int


def split_model(
    X: Any,
    Y: CSR,
    lam: float,
    beta: float,
    gamma: float,
    *,
    max_iter: int = 500,
    on_step: Callable[[], bool] = lambda: False,
) -> TwoParts:
    r"""Minimise :math:`\tfrac12\|Y - XW\|^2 + \tfrac\lambda2\|W\|^2 + \beta\|U\|_* + \gamma\|V\|_1`, W = U + V.

    The authors' augmented Lagrangian iteration, number for number, with a growing step size; only
    the linear system is solved in another way, by one diagonalisation for all step sizes.
    """
    svd = ThinSVD(X)
    correlation = np.asarray(X.T @ Y.toarray())
    U, V, dual = (np.zeros_like(correlation) for _ in range(3))
    step = _FIRST_STEP
    objective: list[float] = []
    for n_iter in range(1, max_iter + 1):  # noqa: B007
        target = correlation + step * (U + V) + dual
        W = svd.solve_ridge(target, lam + step)
        size = linalg.norm(W)
        before = U
        U, values = nuclear_prox(W - V - dual / step, beta / step)
        V = soft_threshold(W - U - dual / step, gamma / step)
        # W solves (X'X + (lam + step) I) W = target, which gives the squared loss at no cost.
        squares = np.vdot(W, target) - step * size**2 - 2.0 * np.vdot(W, correlation) + Y.nnz
        objective.append(float(0.5 * squares + beta * values.sum() + gamma * np.abs(V).sum()))
        disagreement = U + V - W
        settled = step * linalg.norm(U - before) < _SMALL_CHANGE * size
        if settled:
            step = min(_STEP_GROWTH * step, _LARGEST_STEP)
        dual += step * disagreement
        if on_step() or (settled and linalg.norm(disagreement) < _SMALL_DISAGREEMENT * size):
            break
    return TwoParts(U, V, np.asarray(objective), n_iter)


class PMLNI(BasePML):
    r"""PML-NI: a low-rank model of the truth and a sparse model of feature-induced noise, learned together.

    .. math::

        \min_{U, V} \; \tfrac12 \|Y - \Phi W\|_F^2 + \tfrac\lambda2 \|W\|_F^2 + \beta \|U\|_* + \gamma \|V\|_1 ,
        \qquad W = U + V ,

    where :math:`\Phi` are the features, each brought to [-1, 1], and a constant one. The candidates
    are explained by both parts, the predictions are made with U alone.

    Parameters
    ----------
    lam : float, default=10.0
        Weight of the ridge penalty; the published value.
    beta : float, default=0.5
        Weight of the nuclear norm; the published value.
    gamma : float, default=0.5
        Weight of the sparse part; the published value. From `beta` on, the sparse part is zero, see Notes.
    max_iter : int, default=500
        Maximum number of iterations; the published value.
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default="size"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`. The
        published method uses the size predictor.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_samples, n_labels)
        The reconstruction :math:`\Phi U` on the candidates, clipped to [0, 1].
    coef_, noise_coef_ : array of shape (n_labels, n_features)
        U and V, for features brought to [-1, 1].
    intercept_, noise_intercept_ : array of shape (n_labels,)
    objective_ : array
        The objective after each iteration. It need not fall: W = U + V holds only at convergence.
    n_iter_ : int
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    Scores are those of the authors' program: the same iteration with a growing step size, the constant feature
    penalised like the others, test rows mapped by the training rows' ranges. Two things differ. The program fits the
    size predictor to the *true* training labels, which a user does not have: here it sees the candidates. And it trains
    the size predictor on scores with the constant feature's part but applies it to scores without: here both have it.
    Both concern only :meth:`predict`. Confidences are not part of the published method.

    The nuclear norm of a matrix is at most the sum of its absolute entries. Where `gamma` is not
    below `beta`, as with the published values, nothing is therefore gained by a sparse part, and
    it comes out as zero: the method is then a ridge and nuclear-norm regression on the candidates.

    The linear system is solved through one diagonalisation of the smaller Gram matrix. Sparse
    features stay sparse: bringing them to [-1, 1] adds one and the same row to every row, which is
    carried along apart. Rows without candidates are left out.

    References
    ----------
    .. [1] M.-K. Xie and S.-J. Huang, "Partial multi-label learning with noisy label
       identification", AAAI 2020; IEEE TPAMI 44(7), 2022.

    Examples
    --------
    >>> from pmlkit.data import load_digit_strips
    >>> from pmlkit.methods.low_rank.pml_ni import PMLNI
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = PMLNI().fit(strips.X, strips.Y)
    >>> model.decision_function(strips.X[:2]).shape
    (2, 10)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BasePML._parameter_constraints,
        "lam": [Interval(Real, 0, None, closed="left")],
        "beta": [Interval(Real, 0, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        lam: float = 10.0,
        beta: float = 0.5,
        gamma: float = 0.5,
        max_iter: int = 500,
        threshold: str | float = "size",
    ) -> None:
        self.lam = lam
        self.beta = beta
        self.gamma = gamma
        self.max_iter = max_iter
        self.threshold = threshold

    def _n_tasks(self, Y: CSR) -> int:
        return int(self.max_iter)

    def _fit(self, X: Features, Y: CSR, progress: Progress) -> Learned:
        self._column_scale, self._column_shift = column_range(X)
        rows = ranged(X, self._column_scale, self._column_shift)
        found = split_model(
            rows, Y, self.lam, self.beta, self.gamma, max_iter=self.max_iter, on_step=lambda: progress.step("iteration")
        )
        self.coef_, self.intercept_ = found.low_rank[:-1].T, found.low_rank[-1]
        self.noise_coef_, self.noise_intercept_ = found.sparse[:-1].T, found.sparse[-1]
        scores = np.asarray(rows @ found.low_rank)
        return Learned(
            confidence=np.clip(cells_at(scores, Y), 0.0, 1.0),
            scores=scores,
            objective=found.objective,
            n_iter=found.n_iter,
        )

    def _scores(self, X: Features) -> FloatArray:
        rows = ranged(X, self._column_scale, self._column_shift)
        return np.asarray(rows @ np.vstack([self.coef_.T, self.intercept_]))
