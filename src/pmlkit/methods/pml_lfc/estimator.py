"""The estimator of PML-LFC. The paper's equations are cited by number; docs/methods/pml-lfc.md lists corrections."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import joblib
import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from pmlkit._arrays import generator
from pmlkit._typing import CSR, Features, FloatArray, IntArray, RandomState
from pmlkit.blocks import RowBlocks
from pmlkit.methods.base import BasePML, Learned, LearnedBlocks
from pmlkit.methods.labelled_rows import LabelledRows
from pmlkit.methods.pml_lfc.basis import LARGEST_DIAGONALISED, eigenbasis
from pmlkit.methods.pml_lfc.block_similarity import block_similarity
from pmlkit.methods.pml_lfc.block_steps import BlockSteps, block_basis, sampled_distance
from pmlkit.methods.pml_lfc.confidence_step import Steps
from pmlkit.methods.pml_lfc.factored import FactoredProblem, low_rank_factors
from pmlkit.methods.pml_lfc.predictor_step import LowRankFit
from pmlkit.methods.pml_lfc.similarity import MANY_LABELS, Compare, KernelApprox, RowSimilarity, row_similarity
from pmlkit.methods.pml_lfc.solver import Prepared, Solution, StepsInMemory, alternate, refined
from pmlkit.methods.progress import Progress
from pmlkit.methods.threads import one_blas_thread
from pmlkit.numerics.kernels import mean_distance
from pmlkit.numerics.scaling import Normalize, column_scale, scaled

logger = logging.getLogger(__name__)

_DENSE_CELLS = 2**25
"""Largest dense predictor, features times labels, where X is too large to diagonalise."""
_AUTO_RANK = 256
_THRESHOLD_CELLS = 2**23
"""Scores of training rows on which the threshold of many labels is chosen, those of a sample of the rows."""
_ALL_CELLS = 2**28
"""Largest number of scores of few labels that are all used."""


class PMLLFC(BasePML):
    r"""PML-LFC: confidences and a low-rank predictor, learned together from features and labels.

    Two rows with similar features and similar candidates should have similar confidences, and a
    linear predictor of low rank should agree with the confidences:

    .. math::

        \min_{W, P} \; \|XW - P\|_F^2 + \alpha \|W\|_* + \beta \|H \circ (A - PP^T)\|_F^2
            + \lambda \|P \mathbf 1 - \mathbf 1\|^2

    with :math:`P \ge 0` and :math:`P_{ij} = 0` off the candidates.

    Parameters
    ----------
    alpha : float, default=10.0
        Weight of the predictor's nuclear norm, positive. The paper uses 10.
    alpha_scale : {"frobenius", "paper"}, default="frobenius"
        With ``"frobenius"``, alpha is multiplied by a hundredth of the Frobenius norm of the (centred)
        features, so that its effect does not depend on the number of rows and the scale of the features.
        ``"paper"`` takes alpha as it is.
    fit_intercept : bool, default=True
        Give each label an intercept, outside the nuclear norm. The paper has none.
    beta : float, default=10.0
        Weight of the similarity of pairs. The paper uses 10.
    row_sum_weight : float, default=10.0
        The paper's lambda, which it never states: how strongly a row's confidences are held to
        sum to one. Not used with ``row_sum="simplex"``.
    similarity : {"both", "features", "labels"}, default="both"
        What makes rows similar. ``"features"`` is the paper's ablation oF, ``"labels"`` oL.
    joint : bool, default=True
        False is the ablation nJ: the confidences are learned first, without the predictor (run
        `max_iter` up and `tol` down to take them to convergence), then the predictor once.
    bandwidth : {"mean", "paper"} or float, default="mean"
        Bandwidth of the Gaussian kernel: the mean distance of two rows, or the printed formula, which
        is n times larger, so that all rows are equally similar and features have no effect.
    normalize : {"unit", "standard"} or None, default="unit"
        Scale rows to unit length, or divide columns by their standard deviation, or neither (the
        paper says nothing, and alpha depends on the scale).
    kernel_approx : {"auto", "exact", "features"}, default="auto"
        How products with the similarity are computed: exactly (one kernel block per label), by a
        feature map of the kernel in linear time, or by size: exact up to 16.8 million kernel cells.
    row_sum : {"penalty", "simplex"}, default="penalty"
        Hold row sums to one by the penalty of the paper's update rule, or exactly, by projection.
    beta_scale : {"paper", "pairs"}, default="paper"
        With ``"pairs"`` beta is divided by the number of rows, so that the pairs of a row weigh as
        much as the row's own fit; as printed, they outweigh it by a factor of about n and the predictor has
        little effect on the confidences.
    max_rank : int, "auto" or None, default="auto"
        Largest rank for which the predictor is sought, in factored form: memory and time then follow the candidates
        and this number, and not features times labels. ``None`` seeks it among all ranks, with a dense W. ``"auto"`` is
        None up to 33 million cells of W, or where a side of X is at most 4,096; beyond, it is 256.
    max_iter : int, default=10
        Maximum number of outer iterations, each one step of the confidences and one of the predictor.
    tol : float, default=1e-3
        Stop when the objective changes by less, relatively. 0 runs all iterations.
    w_tol : float, default=1e-6
        Relative duality gap to which the predictor is solved at the end (before, as long
        as the confidences move, at least a hundred times that).
    warm_start : bool, default=False
        Start from the last solution and keep what alpha and beta do not change, when fitted again
        on the same data: for a grid of alpha and beta. Keeps the kernel blocks in memory.
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default="size"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`. The
        paper reports a Hamming loss but no threshold.
    random_state : int, Generator, RandomState or None, default=None
        Draws the landmarks of the feature map, and the rows of the mean distance above 6,000 rows.

    Attributes
    ----------
    coef_ : array of shape (n_labels, n_features)
        The predictor W, transposed, for the normalised features. Not there in factored form.
    coef_factors_ : tuple of arrays of shape (n_labels, rank) and (rank, n_features), or None
        In factored form: `coef_` is their product.
    intercept_ : array of shape (n_labels,)
        Zeros without `fit_intercept`.
    label_confidence_ : CSR array of shape (n_samples, n_labels)
        P, clipped to [0, 1].
    objective_ : array
        The objective at the start and after every half step; it never rises. (Of the pairs alone
        where ``joint=False``.)
    n_iter_ : int
        Number of outer iterations.
    rank_ : int
        Rank of `coef_`.
    bandwidth_ : float
        Width of the Gaussian kernel.
    kernel_approx_ : str
        "exact", "features" or "mixed".
    optimality_gap_ : float
        The predictor's objective is at most this share of itself above its optimum; in factored form above that among
        all ranks, so that it also says what `max_rank` costs.
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    In the objective, P are the confidences and W the predictor. :math:`A = S \circ C` is the similarity of rows by
    features (a Gaussian kernel) times that by candidates (their cosine), and H leaves out the diagonal.

    The defaults are one setting for all data with which 36 of the paper's 40 figures are met
    (docs/methods/pml-lfc.md). :meth:`as_printed` is the method as the paper prints it.

    Rows without candidates are left out: their confidences are all zero by definition, so they
    would only pull the predictor towards zero. Sparse features stay sparse. Rows may be given in blocks
    (docs/scaling.md): up to 4,096 features and labels, without `max_rank`, `warm_start` and weights.

    References
    ----------
    .. [1] T. Yu, G. Yu, J. Wang and M. Guo, "Partial Multi-label Learning with Label and Feature
       Collaboration", DASFAA 2020.

    Examples
    --------
    >>> from pmlkit import PMLLFC
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(300, random_state=0)
    >>> model = PMLLFC(random_state=0).fit(strips.X, strips.Y)
    >>> bool((model.objective_[1:] <= model.objective_[:-1]).all())
    True
    """

    _one_label_as_two: ClassVar[bool] = True
    _fits_blocks: ClassVar[bool] = True
    _many_small_products: ClassVar[bool] = False  # `_fit` limits the threads of its parts itself.

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BasePML._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "alpha_scale": [StrOptions({"paper", "frobenius"})],
        "fit_intercept": ["boolean"],
        "beta": [Interval(Real, 0, None, closed="left")],
        "row_sum_weight": [Interval(Real, 0, None, closed="left")],
        "similarity": [StrOptions({"both", "features", "labels"})],
        "joint": ["boolean"],
        "bandwidth": [StrOptions({"mean", "paper"}), Interval(Real, 0, None, closed="neither")],
        "normalize": [StrOptions({"unit", "standard"}), None],
        "kernel_approx": [StrOptions({"auto", "exact", "features"})],
        "row_sum": [StrOptions({"penalty", "simplex"})],
        "beta_scale": [StrOptions({"paper", "pairs"})],
        "max_rank": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "w_tol": [Interval(Real, 0, None, closed="neither")],
        "warm_start": ["boolean"],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        *,
        alpha: float = 10.0,
        alpha_scale: Literal["paper", "frobenius"] = "frobenius",
        fit_intercept: bool = True,
        beta: float = 10.0,
        row_sum_weight: float = 10.0,
        similarity: Compare = "both",
        joint: bool = True,
        bandwidth: Literal["mean", "paper"] | float = "mean",
        normalize: Normalize = "unit",
        kernel_approx: KernelApprox = "auto",
        row_sum: Literal["penalty", "simplex"] = "penalty",
        beta_scale: Literal["paper", "pairs"] = "paper",
        max_rank: int | Literal["auto"] | None = "auto",
        max_iter: int = 10,
        tol: float = 1e-3,
        w_tol: float = 1e-6,
        warm_start: bool = False,
        threshold: str | float = "size",
        random_state: RandomState = None,
    ) -> None:
        self.alpha = alpha
        self.alpha_scale = alpha_scale
        self.fit_intercept = fit_intercept
        self.beta = beta
        self.row_sum_weight = row_sum_weight
        self.similarity = similarity
        self.joint = joint
        self.bandwidth = bandwidth
        self.normalize = normalize
        self.kernel_approx = kernel_approx
        self.row_sum = row_sum
        self.beta_scale = beta_scale
        self.max_rank = max_rank
        self.max_iter = max_iter
        self.tol = tol
        self.w_tol = w_tol
        self.warm_start = warm_start
        self.threshold = threshold
        self.random_state = random_state

    @classmethod
    def as_printed(cls, **params: Any) -> Self:
        """Return the method as the paper prints it: no intercept, alpha as it is.

        The paper states no threshold; here it is ``"cardinality"``.

        Parameters
        ----------
        **params
            Parameters of the class.

        Examples
        --------
        >>> from pmlkit import PMLLFC
        >>> PMLLFC.as_printed(beta=1.0)
        PMLLFC(alpha_scale='paper', beta=1.0, fit_intercept=False,
               threshold='cardinality')
        """
        return cls(**{"alpha_scale": "paper", "fit_intercept": False, "threshold": "cardinality", **params})

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows and their candidate labels.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
        y : array, sparse matrix or DataFrame of shape (n_samples, n_labels)
            Candidate labels, in any format of :meth:`BasePML.fit`.
        sample_weight : array of shape (n_samples,), optional
            A row of weight 2 counts as two equal rows, a row of weight 0 as none.

        Returns
        -------
        self
        """
        self._fit_checked(X, y, sample_weight)
        return self

    def _n_tasks(self, Y: CSR) -> int:
        return int(self.max_iter)

    def _fit(self, X: Features, Y: CSR, progress: Progress, sample_weight: FloatArray | None = None) -> Learned:
        data, start = self._prepare(X, Y, sample_weight)
        with one_blas_thread():
            return self._solve(data, start, progress)

    def _fit_blocks(self, rows: RowBlocks, progress: Progress) -> LearnedBlocks:
        if self.warm_start or not (self.max_rank is None or self.max_rank == "auto"):
            raise ValueError("PMLLFC has no warm_start and no max_rank for data in blocks: leave them out.")
        if rows.n_features > LARGEST_DIAGONALISED or rows.n_labels > MANY_LABELS:
            raise ValueError(
                f"PMLLFC learns from blocks of up to {LARGEST_DIAGONALISED:,} features and {MANY_LABELS:,} labels, got "
                f"{rows.n_features:,} and {rows.n_labels:,}: select features, or compute X and y first."
            )
        labelled = LabelledRows.of(rows)
        rows.engine.begin(labelled.fit_key(self, rows))
        rng = generator(self.random_state)
        self._scale = labelled.column_scale() if self.normalize == "standard" else None
        X = labelled.scaled(self.normalize, self._scale)
        basis = block_basis(labelled, X, rows.n_features, center=self.fit_intercept)
        width = self._width(lambda: sampled_distance(labelled, X, rng), labelled.n_rows)
        similarity = block_similarity(
            labelled, X, compare=self.similarity, width=width, approx=self.kernel_approx, rng=rng
        )
        steps = BlockSteps(
            labelled, X, basis, similarity, intercept=self.fit_intercept, **self._weights(labelled.n_rows)
        )
        with one_blas_thread():
            solution = self._alternated(steps, progress)
        coefficients, self.intercept_ = steps.coefficients(solution.low_rank, solution.state)
        self.coef_ = coefficients.T
        self.coef_factors_: tuple[FloatArray, FloatArray] | None = None
        self._keep(solution, width, similarity)
        return steps.learned(solution, _THRESHOLD_CELLS)

    def _solve(self, data: Prepared, start: tuple[LowRankFit, FloatArray] | None, progress: Progress) -> Learned:
        low_rank, confidence = (None, None) if start is None else start
        steps = StepsInMemory(data, confidence=confidence, **self._weights(data.weight.sum()))
        solution = self._alternated(steps, progress, start=low_rank)
        if data.factored is not None:
            solution = refined(steps, solution, alpha=self._alpha_of(data.basis.norm2), w_tol=self.w_tol)
        self.__dict__.pop("coef_", None)
        self.coef_factors_ = None
        if data.factored is not None:
            left, right = low_rank_factors(steps.basis, solution.low_rank)
            self.coef_factors_ = right.T, left.T
            self.intercept_ = steps.mean_confidence(solution.state) - (steps.basis.mean @ left) @ right
        else:
            coefficients, self.intercept_ = steps.coefficients(solution.low_rank, solution.state)
            self.coef_ = coefficients.T
        self._keep(solution, data.width, data.similarity)
        confidence = solution.state.confidence
        if self.warm_start:
            self._warm = (steps.data, (solution.low_rank, confidence), self.row_sum)
        rows = _threshold_rows(*data.Y.shape)
        scores = self._linear(data.X if rows is None else data.X[rows])
        return Learned(confidence, scores, objective=solution.objective, n_iter=solution.n_iter, rows=rows)

    def _keep(self, solution: Solution, width: float, similarity: RowSimilarity) -> None:
        self.rank_, self.optimality_gap_ = solution.low_rank.rank, solution.low_rank.gap
        self.bandwidth_, self.kernel_approx_ = width, similarity.chosen

    def _weights(self, n_rows: float) -> dict[str, Any]:
        beta = self.beta if self.beta_scale == "paper" else self.beta / max(n_rows - 1.0, 1.0)
        return {"beta": beta, "row_sum_weight": self.row_sum_weight, "row_sum": self.row_sum}

    def _alternated(self, steps: Steps, progress: Progress, start: LowRankFit | None = None) -> Solution:
        return alternate(
            steps,
            alpha=self._alpha_of(steps.basis.norm2),
            joint=self.joint,
            max_iter=self.max_iter,
            tol=self.tol,
            w_tol=self.w_tol,
            stop=progress.step,
            start=start,
        )

    def _alpha_of(self, norm2: float) -> float:
        """Return alpha on the scale of the objective."""
        return float(self.alpha * (0.01 * np.sqrt(norm2) if self.alpha_scale == "frobenius" else 1.0))

    def _linear(self, X: Features) -> FloatArray:
        """Return the scores of scaled rows."""
        if self.coef_factors_ is None:
            return np.asarray(X @ self.coef_.T + self.intercept_)
        labels, features = self.coef_factors_
        return np.asarray((X @ features.T) @ labels.T + self.intercept_)

    def _prepare(
        self, X: Features, Y: CSR, sample_weight: FloatArray | None
    ) -> tuple[Prepared, tuple[LowRankFit, FloatArray] | None]:
        """Compute what does not depend on alpha and beta; with `warm_start`, only once for the same data."""
        key = None
        if self.warm_start:
            key = joblib.hash(
                (
                    (X, Y, sample_weight, self.random_state),
                    (self.normalize, self.fit_intercept, self.similarity, self.bandwidth, self.kernel_approx),
                    self.max_rank,
                )
            )
            if hasattr(self, "_warm") and self._warm[0].key == key:
                data, start, row_sum = self._warm
                # The result of the other rule may be a stationary point of this one.
                return data, start if row_sum == self.row_sum else None
        rng = generator(self.random_state)
        self._scale = column_scale(X, sample_weight=sample_weight) if self.normalize == "standard" else None
        X = scaled(X.astype(np.float64, copy=False), self.normalize, self._scale)
        weight = np.ones(Y.shape[0]) if sample_weight is None else sample_weight
        size = self._factored_size(X.shape, Y.shape[1])
        factored = None if size is None else FactoredProblem(X, weight, center=self.fit_intercept, size=size)
        with ThreadPoolExecutor(1) as beside:
            with one_blas_thread():  # the two are independent: one core each
                if factored is None:
                    basis = beside.submit(eigenbasis, X, weight, center=self.fit_intercept)
                else:
                    basis = beside.submit(factored.first_basis, Y, weight, self._alpha_of(factored.norm2))
                width = self._width(lambda: mean_distance(X, weight, rng), float(weight.sum()))
                similarity = row_similarity(
                    X, Y, weight, compare=self.similarity, width=width, approx=self.kernel_approx, rng=rng
                )
            rotated = basis.result()  # the rest of it may use all cores
        return Prepared(X, Y, weight, rotated, self.fit_intercept, similarity, width, key, factored), None

    def _factored_size(self, shape: tuple[int, ...], n_labels: int) -> int | None:
        """Return the number of directions of a factored predictor, None for a dense one."""
        if self.max_rank != "auto":
            return None if self.max_rank is None else min(int(self.max_rank), *shape)
        large = min(shape) > LARGEST_DIAGONALISED and shape[1] * n_labels > _DENSE_CELLS
        return _AUTO_RANK if large else None

    def _width(self, mean_distance_of_rows: Callable[[], float], n_rows: float) -> float:
        if not isinstance(self.bandwidth, str):
            return float(self.bandwidth)
        distance = mean_distance_of_rows()
        if distance == 0.0:
            logger.info("All rows have the same features: they are all equally similar.")
            return 1.0
        return distance * n_rows if self.bandwidth == "paper" else distance

    def _scores(self, X: Features) -> FloatArray:
        return self._linear(scaled(X, self.normalize, self._scale))

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_warm"}


def _threshold_rows(n_samples: int, n_labels: int) -> IntArray | None:
    """Return the rows on whose scores the threshold is chosen, evenly spread; None for all."""
    n_rows = max(1, _THRESHOLD_CELLS // n_labels)
    if n_rows >= n_samples or (n_labels <= MANY_LABELS and n_samples * n_labels <= _ALL_CELLS):
        return None
    return np.linspace(0, n_samples - 1, n_rows).astype(np.intp)
