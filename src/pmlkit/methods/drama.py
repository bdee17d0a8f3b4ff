"""DRAMA: confidences from the feature manifold, then boosted multi-output trees."""

import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy import sparse
from scipy.sparse.linalg import svds
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import NearestNeighbors
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils._param_validation import Interval

from pmlkit._arrays import generator, row_of_cells
from pmlkit._typing import CSR, Features, FloatArray, IntArray, RandomState
from pmlkit.methods.base import BasePML, Learned
from pmlkit.methods.progress import Progress
from pmlkit.numerics.content import canonical_problem, plain_rows
from pmlkit.numerics.kernels import scale_gamma
from pmlkit.numerics.neighbors import nearest, reconstruction_graph
from pmlkit.numerics.products import cells_at
from pmlkit.numerics.prox import project_rows_to_simplex
from pmlkit.numerics.scaling import scaled

# The largest kernel matrix that is kept: 8,192 rows, half a gigabyte.
_KERNEL_CELLS = 1 << 26
_CELLS_AT_ONCE = 1 << 24


def manifold_confidence(
    graph: CSR,
    Y: CSR,
    *,
    candidate_slack: float = 0.01,
    other_margin: float = 0.5,
    tol: float = 1e-6,
    max_iter: int = 2000,
) -> tuple[FloatArray, FloatArray]:
    """Find the confidences of :class:`DRAMA`: the smoothest ones with a margin between candidates and other labels.

    - `graph` (n_samples, n_samples): the reconstruction weights R.
    - `Y`: candidates, with sorted indices. A row without any has no sum constraint.
    - `candidate_slack`, `other_margin`: the deltas.
    - `tol`: stop when a projected gradient step moves the candidates' confidences by less on average.
    - Returns confidences, and the objective after every iteration, which never rises.

    An accelerated projected gradient method that restarts where the objective would rise. (A factorisation of
    `M = (I - R)'(I - R)` fills half of the matrix, since neighbour graphs have no small separators.)
    """
    roughness = sparse.csr_array(sparse.eye_array(graph.shape[0]) - graph)
    adjoint = sparse.csr_array(roughness.T)
    # Slightly above the Lipschitz constant of the gradient, which is only estimated.
    lipschitz = 2.02 * _largest_singular_value(roughness) ** 2
    confidence = project_to_margins(np.zeros(Y.shape), Y, candidate_slack, other_margin)
    residual = roughness @ confidence
    value = float(np.vdot(residual, residual))
    ahead, residual_ahead, momentum = confidence, residual, 1.0
    row = row_of_cells(Y)
    objective = []
    for _ in range(max_iter):
        descent = ahead - (2.0 / lipschitz) * (adjoint @ residual_ahead)
        new = project_to_margins(descent, Y, candidate_slack, other_margin)
        new_residual = roughness @ new
        new_value = float(np.vdot(new_residual, new_residual))
        if new_value > value and momentum > 1.0:
            ahead, residual_ahead, momentum = confidence, residual, 1.0
            continue
        moved = float(np.abs((new - ahead)[row, Y.indices]).sum()) / max(Y.nnz, 1)
        step, residual_step = new - confidence, new_residual - residual
        if np.vdot(ahead - new, step) > 0:  # the momentum points uphill: restart
            momentum = 1.0
        next_momentum = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        push = (momentum - 1.0) / next_momentum
        ahead, residual_ahead = new + push * step, new_residual + push * residual_step
        confidence, residual, value, momentum = new, new_residual, min(new_value, value), next_momentum
        objective.append(value)
        if moved < tol:
            break
    return confidence, np.asarray(objective)


def project_to_margins(table: FloatArray, Y: CSR, candidate_slack: float, other_margin: float) -> FloatArray:
    """Project every row on the constraints of :func:`manifold_confidence`."""
    n_samples = Y.shape[0]
    sizes, row = np.diff(Y.indptr), row_of_cells(Y)
    projected = np.minimum(table, -other_margin)
    cells = table[row, Y.indices]
    bounded = np.maximum(cells, -candidate_slack)
    short = np.bincount(row, weights=bounded, minlength=n_samples) < 1.0
    # Where the bounded cells sum to less than one, they are projected on a simplex shifted by the slack.
    on_simplex = project_rows_to_simplex(cells + candidate_slack, Y.indptr, 1.0 + sizes * candidate_slack)
    projected[row, Y.indices] = np.where(short[row], on_simplex - candidate_slack, bounded)
    return projected


def _largest_singular_value(A: CSR) -> float:
    if min(A.shape) <= 64:
        return float(np.linalg.norm(A.toarray(), 2))
    # A random start: a constant vector would be nearly orthogonal to the singular vector.
    start = generator(0).normal(size=A.shape[0])
    return float(svds(A, k=1, tol=1e-3, v0=start, return_singular_vectors=False)[0])


@dataclass(frozen=True)
class KernelRegression:
    """Regressions of several targets that share their support rows."""

    support_rows: Features
    dual: FloatArray
    bias: FloatArray
    gamma: float

    def predict(self, X: Features) -> FloatArray:
        """Return the predicted targets of every row."""
        predicted = np.empty((X.shape[0], len(self.bias)))
        size = max(1, _CELLS_AT_ONCE // max(self.support_rows.shape[0], X.shape[1]))
        for start in range(0, X.shape[0], size):
            rows = plain_rows(X[start : start + size], dense=not sparse.issparse(self.support_rows))
            kernel = rbf_kernel(rows, self.support_rows, gamma=self.gamma)
            predicted[start : start + size] = kernel @ self.dual + self.bias
        return predicted


def fit_kernel_regression(X: Features, targets: FloatArray, *, n_jobs: int | None = None) -> KernelRegression:
    """Fit scikit-learn's ``SVR()`` to every column of `targets`.

    The kernel matrix is computed once for all columns; beyond 8,192 rows each regression computes its own.
    """
    gamma = scale_gamma(X)
    shared = X.shape[0] ** 2 <= _KERNEL_CELLS
    features = rbf_kernel(X, gamma=gamma) if shared else X
    kernel = "precomputed" if shared else "rbf"
    # Several batches per worker: few enough to send, many enough to balance the load.
    n_batches = min(8 * effective_n_jobs(n_jobs), targets.shape[1])
    batches = Parallel(n_jobs=n_jobs)(
        delayed(_fit_columns)(features, targets[:, start::n_batches], kernel, gamma) for start in range(n_batches)
    )
    dual, bias = np.empty_like(targets), np.empty(targets.shape[1])
    for start, (some_dual, some_bias) in enumerate(batches):
        dual[:, start::n_batches], bias[start::n_batches] = some_dual, some_bias
    used: IntArray = np.flatnonzero(dual.any(axis=1))
    if not len(used):  # constant targets have no support rows, but a kernel needs one
        used = np.zeros(1, dtype=np.int64)
    return KernelRegression(X[used], dual[used], bias, gamma)


def _fit_columns(features: Features, targets: FloatArray, kernel: str, gamma: float) -> tuple[FloatArray, FloatArray]:
    dual, bias = np.zeros(targets.shape), np.empty(targets.shape[1])
    with config_context(assume_finite=True, skip_parameter_validation=True):
        for column, target in enumerate(targets.T):
            model = SVR(kernel=kernel, gamma=gamma).fit(features, target)
            coefficients = model.dual_coef_
            coefficients = coefficients.toarray() if sparse.issparse(coefficients) else coefficients
            dual[model.support_, column], bias[column] = coefficients[0], model.intercept_[0]
    return dual, bias


def _fit_tree(X: Features, fitted: FloatArray, residual: FloatArray, max_depth: int, seed: int) -> dict[str, Any]:
    """Fit a multi-output tree to the residuals, on the features and the predictions so far.

    Only its arrays are kept: they can be saved without trusting scikit-learn's binary tree type.
    """
    if sparse.issparse(X):
        Z = sparse.hstack([X, sparse.csr_array(fitted)], format="csc")
    else:
        Z = np.hstack([X, fitted])
    tree = DecisionTreeRegressor(max_depth=max_depth, random_state=seed).fit(Z, residual).tree_
    return {
        "feature": tree.feature,
        "threshold": tree.threshold,
        "children": np.stack([tree.children_left, tree.children_right]),
        "value": tree.value[:, :, 0],
        "depth": tree.max_depth,
    }


def _tree_outputs(tree: dict[str, Any], X: Features, fitted: FloatArray) -> FloatArray:
    """Let every row fall through a tree, and return what its leaf says."""
    each = np.arange(X.shape[0])
    node = np.zeros(X.shape[0], dtype=np.int64)
    for _ in range(tree["depth"]):
        feature = tree["feature"][node]
        ours = feature >= X.shape[1]
        place = np.where(ours | (feature < 0), 0, feature)
        given = X[each, place]
        made = fitted[each, np.where(ours, feature - X.shape[1], 0)]
        # scikit-learn's trees compare in single precision.
        value = np.where(ours, made, given).astype(np.float32)
        below = tree["children"][np.where(value <= tree["threshold"][node], 0, 1), node]
        node = np.where(feature >= 0, below, node)
    return np.asarray(tree["value"][node])


class DRAMA(BasePML):
    r"""DRAMA: discriminative confidences on the feature manifold, and gradient boosting on them.

    Every row, scaled to unit length, is reconstructed from its `n_neighbors` nearest ones with non-negative
    weights :math:`R` that sum to one. The confidences :math:`\Lambda` should follow the same weights and
    keep a margin between candidates :math:`S_i` and the other labels:

    .. math::

        \begin{split}
        & \min_\Lambda \lVert (I - R) \Lambda \rVert^2 \quad \text{so that} \quad
            \sum_{j \in S_i} \Lambda_{ij} \ge 1, \\
        & \Lambda_{ij} \ge -\delta_1 \; (j \in S_i), \quad \Lambda_{ij} \le -\delta_2 \; (j \notin S_i) .
        \end{split}

    They are then regressed on the features: one support vector regression per label first, then
    `boosting_rounds` multi-output trees, each fitted to the residuals on the features *and* the
    current predictions of all labels, which is how label correlations come in.

    Parameters
    ----------
    n_neighbors : int, default=10
        Number of neighbours from which a row is reconstructed (published: 10).
    boosting_rounds : int, default=10
        Number of trees (published: 10). 0 uses the support vector regressions alone: the baseline that the authors call
        N-DRAMA.
    max_depth : int, default=5
        Depth of the trees (published: 5, to be tuned between 3 and 8).
    learning_rate : float, default=1.0
        Factor of each tree's prediction (published: a line search, which always gives 1).
    delta1 : float, default=0.01
        How far below zero a candidate's confidence may lie.
    delta2 : float, default=0.5
        How far below zero that of the other labels has to lie.
    tol : float, default=1e-6
        Stop when a step changes the confidences of the candidates by less than this on average.
    max_iter : int, default=2000
        Maximum number of iterations for the confidences.
    max_rows : int, default=20_000
        Largest number of rows with candidates that `fit` accepts: a support vector regression takes time that
        grows with their square, for each label.
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default=0.0
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`. The published method uses 0.
    random_state : int, Generator, RandomState or None, default=None
        Chooses between equally good splits of a tree.
    n_jobs : int, optional
        Number of labels regressed in parallel, as in scikit-learn.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_samples, n_labels)
        :math:`\Lambda` on the candidates, clipped to [0, 1].
    margins_ : array of shape (n_labelled_rows, n_labels)
        :math:`\Lambda` as it is, of the training rows that have candidates.
    trees_ : list of dict
        Each the arrays of a scikit-learn tree: ``feature`` (numbers from `n_features_in_` on are
        predictions of labels), ``threshold``, ``children``, ``value`` and ``depth``.
    objective_ : array
        The objective above, after each iteration.
    n_iter_ : int
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    The margins and the tree stage are those of the authors' program. The line search is left out,
    because the mean of a leaf is a projection and the search always returns one. Kind and parameters
    of the first regressions are not published; these are scikit-learn's defaults. The quadratic program
    is solved by an accelerated projected gradient method instead of a general solver.

    Trees see predictions that the regressions made for their own training rows, but new ones at prediction time, so
    N-DRAMA may well rank better: compare the two. Rows without candidates are left out.

    References
    ----------
    .. [1] H. Wang, W. Liu, Y. Zhao, C. Zhang, T. Hu and G. Chen, "Discriminative and correlative
       partial multi-label learning", IJCAI 2019.

    Examples
    --------
    >>> from pmlkit.data import load_digit_strips
    >>> from pmlkit.methods.drama import DRAMA
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = DRAMA(boosting_rounds=2).fit(strips.X, strips.Y)
    >>> model.decision_function(strips.X[:2]).shape
    (2, 10)
    """

    _natural_cut = 0.0

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BasePML._parameter_constraints,
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "boosting_rounds": [Interval(Integral, 0, None, closed="left")],
        "max_depth": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "delta1": [Interval(Real, 0, None, closed="left")],
        "delta2": [Interval(Real, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_rows": [Interval(Integral, 2, None, closed="left")],
        "random_state": [Integral, np.random.Generator, np.random.RandomState, None],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        *,
        n_neighbors: int = 10,
        boosting_rounds: int = 10,
        max_depth: int = 5,
        learning_rate: float = 1.0,
        delta1: float = 0.01,
        delta2: float = 0.5,
        tol: float = 1e-6,
        max_iter: int = 2000,
        max_rows: int = 20_000,
        threshold: str | float = 0.0,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.boosting_rounds = boosting_rounds
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.delta1 = delta1
        self.delta2 = delta2
        self.tol = tol
        self.max_iter = max_iter
        self.max_rows = max_rows
        self.threshold = threshold
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _n_tasks(self, Y: CSR) -> int:
        return 2 + self.boosting_rounds

    def _fit(self, X: Features, Y: CSR, progress: Progress) -> Learned:
        if Y.shape[0] < 2:
            raise ValueError("DRAMA needs at least two rows with candidates, got n_samples = 1.")
        if Y.shape[0] > self.max_rows:
            raise ValueError(
                f"DRAMA would fit {Y.shape[1]} support vector regressions on {Y.shape[0]:,} rows, which may take "
                f"hours; max_rows allows {self.max_rows:,}. Raise max_rows, fit on a sample, or use another method."
            )
        problem = canonical_problem(X, Y)
        margins, objective = self._fit_margins(problem.X, problem.Y)
        progress.step("confidences")
        base = fit_kernel_regression(problem.X, margins, n_jobs=self.n_jobs)
        self._support_rows, self._dual, self._bias, self._gamma = base.support_rows, base.dual, base.bias, base.gamma
        progress.step("regressions")
        scores = self._boost(problem.X, margins, base.predict(problem.X), progress)

        self._label_order = problem.labels
        self.margins_ = problem.table_as_given(margins)
        return Learned(
            confidence=np.clip(cells_at(self.margins_, Y), 0.0, 1.0),
            scores=problem.table_as_given(scores),
            objective=objective,
            n_iter=len(objective),
        )

    def _fit_margins(self, X: Features, Y: CSR) -> tuple[FloatArray, FloatArray]:
        unit = scaled(X, "unit")
        neighbor = nearest(NearestNeighbors(n_jobs=self.n_jobs).fit(unit), self.n_neighbors)[1]
        margins, objective = manifold_confidence(
            reconstruction_graph(unit, neighbor),
            Y,
            candidate_slack=self.delta1,
            other_margin=self.delta2,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        if len(objective) == self.max_iter:
            warnings.warn(
                f"The confidences were still moving after max_iter={self.max_iter} iterations; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=5,
            )
        return margins, objective

    def _boost(self, X: Features, margins: FloatArray, fitted: FloatArray, progress: Progress) -> FloatArray:
        """Fit the trees one after the other, and return the training rows' scores."""
        rng = generator(self.random_state)
        self.trees_ = []
        for _ in range(self.boosting_rounds):
            seed = int(rng.integers(2**31 - 1))
            tree = _fit_tree(X, fitted, margins - fitted, self.max_depth, seed)
            fitted = fitted + self.learning_rate * _tree_outputs(tree, X, fitted)
            self.trees_.append(tree)
            if progress.step("tree"):
                break
        return fitted

    def _scores(self, X: Features) -> FloatArray:
        base = KernelRegression(self._support_rows, self._dual, self._bias, self._gamma)
        X = plain_rows(X)
        fitted = base.predict(X)
        for tree in self.trees_:
            fitted = fitted + self.learning_rate * _tree_outputs(tree, X, fitted)
        scores = np.empty_like(fitted)
        scores[:, self._label_order] = fitted
        return scores
