"""Rank-SVM: every candidate above every other label, by a margin."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from scipy import linalg, sparse
from scipy.special import expit
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils._param_validation import Interval, StrOptions

from pmlkit._arrays import row_of_cells
from pmlkit._typing import CSR, Features, FloatArray
from pmlkit.methods.base import Learned
from pmlkit.methods.progress import Progress
from pmlkit.methods.ranking.alternation import LinearRanker, candidate_indicator
from pmlkit.methods.ranking.hinge import pair_weight
from pmlkit.methods.ranking.solver import solve_ranking_svm
from pmlkit.methods.thresholds import fit_threshold
from pmlkit.numerics.content import content_folds
from pmlkit.numerics.kernels import scale_gamma
from pmlkit.numerics.scaling import Normalize
from pmlkit.numerics.spectral import centered_rows

_NULL = 1e-10  # share of the kernel's diagonal below which a landmark adds nothing but rounding


@dataclass(frozen=True)
class KernelMap:
    """The map ``x -> k(x, landmarks) T^-1`` with the triangular factor T of the landmarks' kernel, ``K = T'T``."""

    landmarks: Features
    factor: FloatArray
    gamma: float

    def features(self, X: Features) -> FloatArray:
        """Return the features of rows."""
        kernel = rbf_kernel(X, self.landmarks, gamma=self.gamma)
        return np.asarray(linalg.solve_triangular(self.factor, kernel.T, trans="T", check_finite=False).T)

    def expansion(self, coef: FloatArray) -> FloatArray:
        """Return the coefficients of ``k(x, landmarks)`` for given coefficients of the features."""
        return np.asarray(linalg.solve_triangular(self.factor, coef, check_finite=False))


def kernel_map(X: Features, gamma: float, max_landmarks: int) -> KernelMap:
    """Make the map for the kernel ``exp(-gamma |x - z|^2)``.

    `max_landmarks`: with no more rows than that, all rows are landmarks and the kernel between them is exact. With
    more, about that number is chosen by a hash of their content (Nystroem's approximation), whatever their order.

    The kernel of the landmarks is factorised with pivoting; landmarks that are combinations of
    earlier ones (twins, to begin with) are dropped.
    """
    n_samples = X.shape[0]
    landmarks = X if n_samples <= max_landmarks else X[content_folds(X, -(-n_samples // max_landmarks)) == 0]
    factor, pivot, rank, _ = linalg.lapack.dpstrf(rbf_kernel(landmarks, gamma=gamma), tol=_NULL)
    landmarks = landmarks[pivot[:rank] - 1]
    if sparse.issparse(landmarks):
        landmarks = sparse.csr_array(landmarks)
    return KernelMap(landmarks, np.triu(factor[:rank, :rank]), gamma)


def _kernel_width(X: Features, gamma: float | str) -> float:
    """Return gamma as a number; the words mean what they mean in scikit-learn."""
    if not isinstance(gamma, str):
        return float(gamma)
    return scale_gamma(X) if gamma == "scale" else 1.0 / X.shape[1]


def _margin_confidence(scores: FloatArray, Y: CSR) -> FloatArray:
    """Return the logistic function of each candidate's margin above its row's predicted threshold."""
    rule = fit_threshold("size", scores, Y, Y.data, natural_cut=0.0)
    row = row_of_cells(Y)
    return np.asarray(expit(rule.margin(scores)[row, Y.indices]))


class RankSVM(LinearRanker):
    r"""Rank-SVM on the candidates: each candidate above each other label, by a margin.

    A baseline that treats every candidate as true. It minimises

    .. math::

        \begin{split}
        & \tfrac12 \sum_k \|w_k\|^2 + C \sum_i \frac{1}{|S_i|\,|\bar S_i|}
            \sum_{k \in S_i,\, l \notin S_i} \max\bigl(0,\; 1 - f_k(x_i) + f_l(x_i)\bigr), \\
        & f_k(x) = w_k^\top x + b_k ,
        \end{split}

    over the candidates :math:`S_i` of each row and its other labels :math:`\bar S_i`, to a certified duality gap.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    kernel : {"linear", "rbf"}, default="linear"
        With ``"rbf"``, :math:`\exp(-\gamma \|x - z\|^2)` takes the place of the inner product.
    gamma : {"scale", "auto"} or float, default="scale"
        The :math:`\gamma` of the RBF kernel; ``"scale"`` and ``"auto"`` as in :class:`sklearn.svm.SVC`.
    max_landmarks : int, default=2000
        Largest number of training rows in the expansion of the RBF kernel. With fewer training rows, all of them take
        part, and the solution is exact; with more, about this number is chosen and the kernel is approximated
        (Nystroem).
    normalize : {"unit", "standard"} or None, default=None
        Scale rows to unit length, or divide columns by their standard deviation, or neither.
    tol : float, default=1e-4
        Relative duality gap to reach.
    max_iter : int, default=500
        Maximum number of iterations of the solver; a warning tells when they do not suffice.
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default="size"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`. The
        published method uses the size predictor.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_samples, n_labels)
        The logistic function of each candidate's margin above the threshold predicted for its row. A
        heuristic: the method itself trusts all candidates, and the scores have seen them.
    coef_ : array of shape (n_labels, n_features)
        Only of the linear kernel. A single label has two rows, for its presence and its absence.
    landmarks_, dual_coef_, gamma_
        Only of the RBF kernel: rows, their coefficients of shape (n_landmarks, n_labels), and the number.
    intercept_ : array of shape (n_labels,)
        They sum to zero.
    duality_gap_ : float
        How near the objective is to its minimum at least, relative to itself.
    objective_ : array
        The best value so far, at the start and after each iteration.
    n_iter_ : int
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    Objective, kernels and threshold are those of the paper [1]_. The authors' Frank-Wolfe method handles one
    variable per pair; the solver here (:mod:`pmlkit.methods.ranking.solver`) never enumerates pairs and stops by a
    certificate. The intercepts come from the same minimisation, not from a least-squares fit afterwards.

    Rows without candidates, or whose labels are all candidates, have no pairs and do not count. A single
    label is ranked against its absence, which makes the method a support vector machine with ``2 C``.

    References
    ----------
    .. [1] A. Elisseeff and J. Weston, "A kernel method for multi-labelled classification", Advances
       in Neural Information Processing Systems 14, 2002.

    Examples
    --------
    >>> from pmlkit.data import load_digit_strips
    >>> from pmlkit.methods.ranking.rank_svm import RankSVM
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = RankSVM().fit(strips.X, strips.Y)
    >>> model.decision_function(strips.X[:2]).shape, bool(model.duality_gap_ <= 1e-4)
    ((2, 10), True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearRanker._parameter_constraints,
        "C": [Interval(Real, 0, None, closed="neither")],
        "kernel": [StrOptions({"linear", "rbf"})],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "max_landmarks": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Literal["linear", "rbf"] = "linear",
        gamma: float | str = "scale",
        max_landmarks: int = 2000,
        normalize: Normalize = None,
        tol: float = 1e-4,
        max_iter: int = 500,
        threshold: str | float = "size",
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.max_landmarks = max_landmarks
        self.normalize = normalize
        self.tol = tol
        self.max_iter = max_iter
        self.threshold = threshold

    def _fit(self, X: Features, Y: CSR, progress: Progress) -> Learned:
        X = self._scaled_training_rows(X)
        rows = X
        if self.kernel == "rbf":
            self.gamma_ = _kernel_width(X, self.gamma)
            kernel = kernel_map(X, self.gamma_, self.max_landmarks)
            rows = kernel.features(X)
        features, is_candidate = centered_rows(rows), candidate_indicator(Y)
        solution = solve_ranking_svm(
            features,
            is_candidate,
            self.C * pair_weight(is_candidate),
            tol=self.tol,
            max_iter=self.max_iter,
            on_iteration=lambda: progress.step("iteration"),
        )
        coef = self._keep_solution(features, solution, self.max_iter)
        if self.kernel == "rbf":
            self.landmarks_, self.dual_coef_ = kernel.landmarks, kernel.expansion(coef)
        else:
            self.coef_ = np.ascontiguousarray(coef.T)
        scores = np.asarray(rows @ coef + self.intercept_)
        n_iter = max(len(solution.objective) - 1, 1)
        return Learned(_margin_confidence(scores, Y), scores, objective=solution.objective, n_iter=n_iter)

    def _scores(self, X: Features) -> FloatArray:
        if self.kernel == "linear":
            return super()._scores(X)
        kernel = rbf_kernel(self._scaled(X), self.landmarks_, gamma=self.gamma_)
        return np.asarray(kernel @ self.dual_coef_ + self.intercept_)
