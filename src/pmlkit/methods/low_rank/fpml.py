"""fPML: factorise features and candidates together, and fit a model to the reconstruction."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import linalg, sparse
from sklearn.utils._param_validation import Interval, StrOptions

from pmlkit._arrays import row_of_cells
from pmlkit._typing import CSR, Features, FloatArray
from pmlkit.methods.base import Learned
from pmlkit.methods.linear import LinearMethod
from pmlkit.methods.progress import Progress
from pmlkit.numerics.products import cells_at
from pmlkit.numerics.scaling import Normalize
from pmlkit.numerics.spectral import add_constant_column, smaller_gram

_AUTOMATIC_SHARE = 0.05
_LARGEST_RANK = 100


@dataclass(frozen=True)
class Factors:
    """What :func:`factorise` finds.

    `rows` (n_samples, rank): G, shared by features and candidates. `labels` (rank, n_labels): Q. `features` (rank,
    n_features): F. `coef` (n_features, n_labels): W. `objective`: the objective after each round; it never rises.
    """

    rows: FloatArray
    labels: FloatArray
    features: FloatArray
    coef: FloatArray
    objective: FloatArray
    n_iter: int


def first_factors(Y: CSR, rank: int) -> tuple[FloatArray, FloatArray]:
    """Return G and Q whose product is the best approximation of Y of that rank."""
    squared, vectors = linalg.eigh((Y.T @ Y).toarray(), check_finite=False)
    squared, vectors = squared[::-1][:rank], vectors[:, ::-1][:, :rank]
    # Directions without any candidate stay zero.
    root = np.where(squared > 1e-12 * squared[0], np.maximum(squared, 0.0), 0.0) ** 0.25
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    return np.asarray(Y @ (vectors * inverse)), np.asarray((vectors * root).T)


def ridge_on_rows(X: Features, weight: float, penalty: float) -> Callable[[FloatArray], FloatArray]:
    """Return the function ``T -> (weight X'X + penalty I)^-1 weight X'T``, factorised once."""
    system = weight * smaller_gram(X)
    system[np.diag_indices_from(system)] += penalty
    factor = linalg.cho_factor(system, overwrite_a=True, check_finite=False)
    if X.shape[0] < X.shape[1]:
        return lambda T: np.asarray(weight * (X.T @ linalg.cho_solve(factor, T, check_finite=False)))
    return lambda T: linalg.cho_solve(factor, weight * np.asarray(X.T @ T), check_finite=False)


def factorise(
    X: Features,
    Y: CSR,
    rank: int,
    lam_x: float,
    lam_fit: float,
    lam_reg: float,
    *,
    max_iter: int = 200,
    tol: float = 1e-4,
    on_step: Callable[[], bool] = lambda: False,
) -> Factors:
    """Minimise the objective of :class:`FPML` block by block: F, W, Q, G, each to its exact minimum.

    `tol`: stop when a round lowers the objective by less than this share.
    """
    solve_coef = ridge_on_rows(X, lam_fit, lam_reg)
    G, Q = first_factors(Y, rank)
    squares_X = float(linalg.norm(X.data if sparse.issparse(X) else X) ** 2)
    ridge, row = lam_reg * np.eye(rank), row_of_cells(Y)
    objective: list[float] = []
    for n_iter in range(1, max_iter + 1):
        GG = G.T @ G
        XG = np.asarray(X.T @ G)
        F = _solve(lam_x * GG + ridge, lam_x * XG.T)
        # W = ridge regression of GQ on X; its left half is enough for every product with X.
        half = solve_coef(G)
        W = half @ Q
        XW = np.asarray(X @ half) @ Q
        Q = _solve((1.0 + lam_fit) * GG + ridge, np.asarray((Y.T @ G).T) + lam_fit * (XG.T @ W))
        FF = F @ F.T
        XF = np.asarray(X @ F.T)
        pull = np.asarray(Y @ Q.T) + lam_x * XF + lam_fit * (XW @ Q.T)
        G = _solve((1.0 + lam_fit) * (Q @ Q.T) + lam_x * FF + ridge, pull.T).T

        GQ = G @ Q
        objective.append(
            float(
                Y.nnz - 2.0 * GQ[row, Y.indices].sum() + np.vdot(GQ, GQ)
                + lam_x * (squares_X - 2.0 * np.vdot(XF, G) + np.vdot(G.T @ G, FF))
                + lam_fit * linalg.norm(GQ - XW) ** 2
                + lam_reg * sum(linalg.norm(part) ** 2 for part in (G, Q, F, W))
            )
        )  # fmt: skip
        if on_step() or (n_iter > 1 and objective[-2] - objective[-1] <= tol * objective[-2]):
            break
    return Factors(G, Q, F, W, np.asarray(objective), n_iter)


def _solve(A: FloatArray, B: FloatArray) -> FloatArray:
    return np.asarray(linalg.solve(A, B, assume_a="pos", check_finite=False))


def automatic_lam_reg(Y: CSR) -> float:
    r"""Return a weight of the factors' sizes that grows with the data as noise does.

    The penalty shrinks the singular values of the reconstruction by about `lam_reg`; those of
    random labels of the same frequency p reach :math:`\sqrt{p(1-p)}\,(\sqrt n + \sqrt q)`. A
    twentieth of that reduces the noise and leaves the rest to the features.
    """
    n_samples, n_labels = Y.shape
    share = Y.nnz / (n_samples * n_labels)
    # The lower bound only matters where all cells are candidates.
    spread = np.sqrt(max(share * (1.0 - share), 1.0 / (n_samples * n_labels)))
    return float(_AUTOMATIC_SHARE * spread * (np.sqrt(n_samples) + np.sqrt(n_labels)))


class FPML(LinearMethod):
    r"""fPML: one set of row factors for features and candidates, and a linear model of the reconstruction.

    .. math::

        \begin{split}
        \min_{G, Q, F, W} \; & \|Y - GQ\|_F^2 + \lambda_x \|X - GF\|_F^2 + \lambda_{fit} \|GQ - XW\|_F^2 \\
            & + \lambda_{reg} \left(\|G\|_F^2 + \|Q\|_F^2 + \|F\|_F^2 + \|W\|_F^2\right)
        \end{split}

    Rows with similar features get similar factors G, hence similar reconstructed labels GQ: a candidate that
    similar rows do not share is reconstructed badly, and gets a low confidence.

    Parameters
    ----------
    lam_x : float, default=1.0
        Weight of the features' factorisation; the published value.
    lam_fit : float, default=1.0
        Weight of the model's fit to the reconstruction; the published value.
    lam_reg : float or "auto", default="auto"
        Weight of the factors' sizes. The published value is 10 for all data, and too much for small data, see Notes.
        ``"auto"`` grows with the data as noise does; it is made for features of about unit length.
    rank : int, optional
        Number of factors. By default as many as there are labels (or rows, if fewer), but at most
        100: `lam_reg` then decides how many are used.
    normalize : {"unit", "standard"} or None, default="unit"
        Scale rows to unit length, or divide columns by their standard deviation, or neither.
    fit_intercept : bool, default=True
        Add a constant feature, treated like the others. The published problem has none.
    max_iter : int, default=200
        Maximum number of rounds.
    tol : float, default=1e-4
        Stop when a round lowers the objective by less than this share.
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default="cardinality"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_samples, n_labels)
        The reconstruction GQ on the candidates, clipped to [0, 1].
    coef_ : array of shape (n_labels, n_features)
    intercept_ : array of shape (n_labels,)
    lam_reg_ : float
        The `lam_reg` that was used.
    rank_ : int
    objective_ : array
        The objective after each round; it never rises.
    n_iter_ : int
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    A reconstruction: no program of the authors is public. The idea and the values 1, 1, 10 are
    published; where exactly the weights stand is not certain. The updates are the exact minimisers of
    each block, in the order F, W, Q, G, from the singular value decomposition of Y. The paper can
    also use unlabelled rows; here rows without candidates are left out.

    `lam_reg` cuts singular values of the reconstruction, and those of Y grow with the square root of the
    number of rows: 10 suits a few thousand rows, and below a few hundred it leaves a single factor, that is
    the same ranking of labels for every row.

    References
    ----------
    .. [1] G. Yu, X. Chen, C. Domeniconi, J. Wang, Z. Li, Z. Zhang and X. Wu, "Feature-induced
       partial multi-label learning", ICDM 2018.

    Examples
    --------
    >>> from pmlkit.data import load_digit_strips
    >>> from pmlkit.methods.low_rank.fpml import FPML
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = FPML().fit(strips.X, strips.Y)
    >>> bool((model.objective_[1:] <= model.objective_[:-1]).all())
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearMethod._parameter_constraints,
        "lam_x": [Interval(Real, 0, None, closed="left")],
        "lam_fit": [Interval(Real, 0, None, closed="neither")],
        "lam_reg": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "rank": [Interval(Integral, 1, None, closed="left"), None],
        "fit_intercept": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        lam_x: float = 1.0,
        lam_fit: float = 1.0,
        lam_reg: float | str = "auto",
        rank: int | None = None,
        normalize: Normalize = "unit",
        fit_intercept: bool = True,
        max_iter: int = 200,
        tol: float = 1e-4,
        threshold: str | float = "cardinality",
    ) -> None:
        self.lam_x = lam_x
        self.lam_fit = lam_fit
        self.lam_reg = lam_reg
        self.rank = rank
        self.normalize = normalize
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.threshold = threshold

    def _fit(self, X: Features, Y: CSR, progress: Progress) -> Learned:
        X = self._scaled_training_rows(X.astype(np.float64, copy=False))
        X = add_constant_column(X) if self.fit_intercept else X
        self.lam_reg_ = automatic_lam_reg(Y) if isinstance(self.lam_reg, str) else float(self.lam_reg)
        self.rank_ = min(*Y.shape, self.rank or _LARGEST_RANK)
        found = factorise(
            X,
            Y,
            self.rank_,
            self.lam_x,
            self.lam_fit,
            self.lam_reg_,
            max_iter=self.max_iter,
            tol=self.tol,
            on_step=lambda: progress.step("round"),
        )
        self._keep(found.coef, has_constant=self.fit_intercept)
        reconstruction = found.rows @ found.labels
        return Learned(
            confidence=np.clip(cells_at(reconstruction, Y), 0.0, 1.0),
            scores=np.asarray(X @ found.coef),
            objective=found.objective,
            n_iter=found.n_iter,
        )
