"""PML-LENFN: candidates weighted by near and far rows, and a linear model guided by a nonlinear one."""

from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from scipy import linalg
from scipy.special import expit
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import row_norms

from pmlkit._arrays import generator, row_of_cells
from pmlkit._typing import CSR, Features, FloatArray, IntArray
from pmlkit.methods.base import Learned
from pmlkit.methods.linear import RidgeStarted
from pmlkit.methods.progress import Progress
from pmlkit.numerics.content import content_folds
from pmlkit.numerics.products import cells_at, inner_products
from pmlkit.numerics.scaling import Normalize
from pmlkit.numerics.spectral import ThinSVD, add_constant_column

_REFERENCE_ROWS = 10_000  # with which rows are compared at the most
_BLOCK_CELLS = 4_000_000
_FIRST_STEP, _HALVINGS = 1e-3, 30  # of the gradient step, as published; and how often it may be halved
_FIRST_ROUNDS, _SETTLED = 5, 1e-3  # the published stop: the relative fall of the objective after so many rounds
_LEAST_CURVATURE = 1e-6  # of the label penalty, relative to `lam_coef`


def enhance_labels(X: Features, Y: CSR, own: float, far: float, margin: float) -> FloatArray:
    r"""Weight each candidate by the labels of the rows that are near and far.

    .. math:: J = Y \circ (own \, Y + (1 - own - far) \, \bar Y_{near} + far \, (1 - \bar Y_{far}))

    With similarities :math:`e^{-d / 2 \sigma^2}`, d the distance and :math:`\sigma` the mean distance to the nearest
    row, near rows are within `margin` times the range of the row's similarities from the largest one, far rows
    from the smallest one. The weights are aligned with ``Y.data``.
    """
    compared = np.arange(X.shape[0])
    if len(compared) > _REFERENCE_ROWS:
        compared = np.flatnonzero(content_folds(X, -(-len(compared) // _REFERENCE_ROWS)) == 0)
    if len(compared) < 2:
        return np.ones(Y.nnz)
    labels = np.asarray(Y[compared].toarray(), dtype=np.float64)
    nearest, farthest = np.empty(X.shape[0]), np.empty(X.shape[0])
    for rows, distance in _distances(X, compared):
        nearest[rows] = distance.min(axis=1, initial=np.inf)
        farthest[rows] = np.where(np.isfinite(distance), distance, 0.0).max(axis=1)
    scale = max(2.0 * float(nearest.mean()) ** 2, 1e-12)
    weights = np.empty(Y.nnz)
    for rows, distance in _distances(X, compared):
        # Relative to the similarity of the nearest row, so that nothing underflows.
        similarity = np.exp((nearest[rows, None] - distance) / scale)
        least = np.exp((nearest[rows] - farthest[rows]) / scale)
        slack = margin * (1.0 - least)
        # The tolerance keeps the nearest and the farthest row, whose similarities are computed twice.
        near = (similarity >= ((1.0 - slack) * (1.0 - 1e-12))[:, None]) & np.isfinite(distance)
        distant = (similarity <= ((least + slack) * (1.0 + 1e-12))[:, None]) & np.isfinite(distance)
        of_near = near @ labels / near.sum(axis=1, keepdims=True)
        of_far = 1.0 - distant @ labels / distant.sum(axis=1, keepdims=True)
        mixed = own + (1.0 - own - far) * of_near + far * of_far
        begin, end = Y.indptr[rows.start], Y.indptr[rows.stop]
        place = np.repeat(np.arange(rows.stop - rows.start), np.diff(Y.indptr[rows.start : rows.stop + 1]))
        weights[begin:end] = mixed[place, Y.indices[begin:end]]
    return weights


def _distances(X: Features, compared: IntArray) -> Iterator[tuple[slice, FloatArray]]:
    """Yield blocks of rows with their distances to the compared rows; infinite to the row itself."""
    others = X[compared]
    squares = row_norms(X, squared=True)
    step = max(1, _BLOCK_CELLS // len(compared))
    for first in range(0, X.shape[0], step):
        rows = slice(first, min(first + step, X.shape[0]))
        distance = squares[rows, None] + squares[compared] - 2.0 * inner_products(X[rows], others)
        distance = np.sqrt(np.maximum(distance, 0.0))
        distance[compared[None, :] == np.arange(rows.start, rows.stop)[:, None]] = np.inf
        yield rows, distance


def label_laplacian(J: FloatArray) -> FloatArray:
    """Return D - P, P how much of a label's weight lies on rows with another one, D the row sums of P."""
    meet = J.T @ J
    share = meet / np.maximum(np.diag(meet), 1e-300)[:, None]
    return np.asarray(np.diag(share.sum(axis=1)) - share)


def fit_guided(
    X: Any,
    J: FloatArray,
    V: FloatArray,
    lam: tuple[float, float, float, float],
    *,
    max_iter: int = 200,
    on_step: Callable[[], bool] = lambda: False,
) -> tuple[FloatArray, FloatArray]:
    r"""Minimise the objective of :class:`PMLLENFN` for given J by turns; `lam` are its four weights.

    W and U are exact minimisers for the rest, V takes a gradient step, shortened where it would raise the objective.
    `V` (n_features, n_units) is where the sigmoids start; U starts as the regression of J on them. Returns W and the
    objective after each round.

    The Sylvester equation of W is diagonal in the singular vectors of X and the eigenvectors of the symmetric part
    of :math:`\lambda_1 I + \lambda_2 L`, both computed once. L need not be positive semi-definite; eigenvalues are
    kept above zero.
    """
    lam_coef, lam_labels, lam_guide, lam_units = lam
    svd = ThinSVD(X)
    laplacian = label_laplacian(J)
    penalty, basis = linalg.eigh(lam_coef * np.eye(J.shape[1]) + 0.5 * lam_labels * (laplacian + laplacian.T))
    penalty = np.maximum(penalty, _LEAST_CURVATURE * lam_coef)
    system = 2.0 * svd.squared[:, None] + penalty
    fixed = svd.project(J) @ basis
    # Only the part of V in the span of the rows counts.
    units = svd.project(np.asarray(X @ V)) / svd.squared[:, None]
    hidden = expit(svd.scores(units))
    guide = _ridge(hidden, J, lam_guide)
    step = _FIRST_STEP
    objective: list[float] = []
    for number in range(max_iter):
        turned = (fixed + svd.project(hidden @ guide) @ basis) / system
        coef = turned @ basis.T
        scores = svd.scores(coef)
        guide = _ridge(hidden, scores, lam_guide)
        rest = hidden @ guide - scores
        gradient = svd.project(hidden * (1.0 - hidden) * (rest @ guide.T)) + lam_units * units
        value = float(np.vdot(rest, rest) + lam_units * np.vdot(units, units))
        for _ in range(_HALVINGS):
            moved = units - step * gradient
            moved_hidden = expit(svd.scores(moved))
            rest = moved_hidden @ guide - scores
            moved_value = float(np.vdot(rest, rest) + lam_units * np.vdot(moved, moved))
            if moved_value <= value:
                units, hidden, value = moved, moved_hidden, moved_value
                break
            step /= 2.0
        residual = scores - J
        linear = float(np.vdot(residual, residual) + (np.square(turned) * penalty).sum())
        objective.append(linear + value + lam_guide * float(np.vdot(guide, guide)))
        if on_step():
            break
        if number >= _FIRST_ROUNDS and objective[-2] - objective[-1] < _SETTLED * objective[-2]:
            break
    return svd.coefficients(coef), np.asarray(objective)


def _ridge(A: FloatArray, target: FloatArray, penalty: float) -> FloatArray:
    return np.asarray(linalg.solve(A.T @ A + penalty * np.eye(A.shape[1]), A.T @ target, assume_a="pos"))


class PMLLENFN(RidgeStarted):
    r"""PML-LENFN: near and far rows weight the candidates, and a nonlinear model guides a linear one.

    .. math::

        \begin{split}
        \min_{W, U, V} \; & \|XW - J\|^2 + \|XW - s(XV)U\|^2 + \lambda_1 \|W\|^2 \\
            & + \lambda_2 \operatorname{tr}(W L W^\top) + \lambda_3 \|U\|^2 + \lambda_4 \|V\|^2
        \end{split}

    J weights each candidate by how many near rows have the label and how many far rows lack it, L is the Laplacian of
    the labels' co-occurrence in J, and s the sigmoid.

    Parameters
    ----------
    own_weight : float, default=0.7
        Weight of the row's own labels in J, from 0 to 1.
    far_weight : float, default=0.1
        Weight of far rows in J; near rows have the rest, so that it and `own_weight` are at most 1 together.
    margin : float, default=0.2
        Which share of the range of a row's similarities counts as near, and as far; from 0 to 1.
    lam1 : float or "auto", default="auto"
        Weight of the squared coefficients. ``"auto"`` is chosen by the leave-one-out error of a ridge regression on
        the candidates; the published value is 10.
    lam2, lam3, lam4 : float, default=1.0, 0.01, 10.0
        Weights of the label Laplacian and of the nonlinear model's coefficients; the published values.
    normalize : {"auto", "unit", "standard"} or None, default="auto"
        Scale rows to unit length, or divide columns by their standard deviation, or neither; ``"auto"`` chooses between
        the first two by the same error.
    max_iter : int, default=200
        Maximum number of rounds; the published number.
    random_state : int, RandomState instance or None, default=None
        Draws the initial V.
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default="cardinality"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_samples, n_labels)
        The score of each candidate, cut to [0, 1].
    coef_ : array of shape (n_labels, n_features)
        W, for scaled features.
    intercept_ : array of shape (n_labels,)
    lam1_, normalize_
        What was chosen.
    objective_ : array of shape (n_iter,)
    n_iter_ : int
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    The rounds are those of the authors' program [1]_. Ours: a row is not its own neighbour (in the program it always
    is, and the first row is nobody's), U starts from V instead of at random, a gradient step that would raise the
    objective is halved, and scaling and `lam1` are chosen on training rows. With more than 10,000 rows, near and
    far rows are looked for among that many.

    References
    ----------
    .. [1] Y. Chen, Y. Wu, N. Han, X. Fang, B. Chen and J. Wen, "Partial multi-label learning based on near-far
       neighborhood label enhancement and nonlinear guidance", ACM Multimedia 2024.

    Examples
    --------
    >>> from pmlkit import PMLLENFN
    >>> from pmlkit.data import load_digit_strips
    >>> from pmlkit.metrics import cleaning_auc
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = PMLLENFN(random_state=0).fit(strips.X, strips.Y)
    >>> bool(cleaning_auc(strips.truth, strips.Y, model.label_confidence_) > 0.7)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **RidgeStarted._parameter_constraints,
        "own_weight": [Interval(Real, 0, 1, closed="both")],
        "far_weight": [Interval(Real, 0, 1, closed="both")],
        "margin": [Interval(Real, 0, 1, closed="both")],
        "lam1": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "lam2": [Interval(Real, 0, None, closed="left")],
        "lam3": [Interval(Real, 0, None, closed="neither")],
        "lam4": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        own_weight: float = 0.7,
        far_weight: float = 0.1,
        margin: float = 0.2,
        lam1: float | Literal["auto"] = "auto",
        lam2: float = 1.0,
        lam3: float = 0.01,
        lam4: float = 10.0,
        normalize: Normalize | Literal["auto"] = "auto",
        max_iter: int = 200,
        random_state: Any = None,
        threshold: str | float = "cardinality",
    ) -> None:
        self.own_weight = own_weight
        self.far_weight = far_weight
        self.margin = margin
        self.lam1 = lam1
        self.lam2 = lam2
        self.lam3 = lam3
        self.lam4 = lam4
        self.normalize = normalize
        self.max_iter = max_iter
        self.random_state = random_state
        self.threshold = threshold

    def _fit(self, X: Features, Y: CSR, progress: Progress) -> Learned:
        if self.own_weight + self.far_weight > 1.0:
            raise ValueError(
                f"own_weight and far_weight must add up to at most 1, got {self.own_weight:g} and {self.far_weight:g}."
            )
        candidates = np.asarray(Y.toarray(), dtype=np.float64)
        # The linear step is a ridge regression on the mean of J and the guide, with half of `lam1`.
        given = self.lam1 if self.lam1 == "auto" else 0.5 * self.lam1
        self.lam1_ = 2.0 * self._regressed(X, candidates, given).penalty
        features = self._scaled(X)
        candidates[row_of_cells(Y), Y.indices] = enhance_labels(
            features, Y, self.own_weight, self.far_weight, self.margin
        )
        rows = add_constant_column(features)
        coef, objective = fit_guided(
            rows,
            candidates,
            generator(self.random_state).normal(size=(rows.shape[1], Y.shape[1])),
            (self.lam1_, self.lam2, self.lam3, self.lam4),
            max_iter=self.max_iter,
            on_step=lambda: progress.step("round"),
        )
        self._keep(coef)
        scores = np.asarray(rows @ coef)
        confidence = np.clip(cells_at(scores, Y), 0.0, 1.0)
        return Learned(confidence, scores, objective=objective, n_iter=len(objective))
