"""One-vs-rest logistic regression on the candidates, with cross-fitted confidences."""

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.utils._param_validation import Interval, StrOptions

from pmlkit._typing import CSR, BoolArray, Features, FloatArray, IntArray
from pmlkit.blocks import RowBlocks
from pmlkit.methods import block_logistic
from pmlkit.methods.base import BasePML, Learned, LearnedBlocks
from pmlkit.methods.block_logistic import constant_log_odds, sample_step
from pmlkit.methods.labelled_rows import LabelledRows, stacked_sample
from pmlkit.methods.progress import Progress
from pmlkit.numerics.content import content_folds
from pmlkit.numerics.products import cells_at
from pmlkit.numerics.scaling import Normalize, column_scale, scaled

_FIRST_C: dict[Normalize, float] = {"unit": 1.0, "standard": 0.01, None: 1.0}
_C_STEP, _C_LIMIT = 10.0, 1e5
_CHOICE_ROWS, _CHOICE_LABELS, _CHOICE_TESTS = 2000, 40, 500  # rows, labels and held-out rows that decide

_ROW_SPACE_ROWS = 2000  # with more, the basis takes longer than fits without it


def _fit_label(X: Features, target: BoolArray, C: float, max_iter: int, tol: float = 1e-8) -> tuple[FloatArray, int]:
    """Return the coefficients of one label, the intercept last, and the number of iterations."""
    n_present = int(target.sum())
    coef = np.zeros(X.shape[1] + 1)
    if n_present in (0, len(target)):
        coef[-1] = constant_log_odds(n_present, len(target))  # a single class
        return coef, 1
    model = LogisticRegression(solver="liblinear", C=C, tol=tol, max_iter=max_iter).fit(X, target)
    coef[:-1], coef[-1] = model.coef_[0], model.intercept_[0]
    return coef, int(model.n_iter_[0])


def _in_row_space(X: Features) -> tuple[Features, FloatArray | None]:
    """Return rows of many columns in an orthonormal basis of the space that they span, and the basis; or X and None.

    With a ridge penalty the coefficients lie in that space, and so does every iterate of the solver: a fit in as many
    columns as there are rows is the same, and much shorter.
    """
    n_rows = X.shape[0]
    if sparse.issparse(X) or n_rows > _ROW_SPACE_ROWS or np.count_nonzero(X) <= 2 * n_rows**2:
        return X, None  # liblinear skips zeros
    basis, rows = np.linalg.qr(X.T)
    return np.ascontiguousarray(rows.T), basis


def _log_odds(X: Features, coef: FloatArray) -> FloatArray:
    return np.asarray(X @ coef[:-1] + coef[-1])


def choose_regression(
    X: Features,
    Y: CSR,
    normalize: Normalize | Literal["auto"] = "auto",
    C: float | Literal["auto"] = "auto",
    *,
    n_jobs: int | None = None,
) -> tuple[Normalize, float]:
    """Choose scaling and penalty of logistic regressions by the likelihood of held-out candidates, where "auto" asks.

    For each scaling, C goes up or down by factors of ten from a usual value for as long as the likelihood improves,
    which takes three or four fits. At most 2,000 rows (chosen by a hash of their content) and 40 labels (evenly
    spread over the labels ordered by frequency) take part. With 1,500 rows or more one third of them is held out,
    with fewer all thirds in turn.
    """
    if X.shape[0] > _CHOICE_ROWS and "auto" in (normalize, C):
        chosen = content_folds(X, -(-X.shape[0] // _CHOICE_ROWS), seed=1) == 0
        X, Y = X[chosen], Y[chosen]
    return _choose(X, Y, normalize, C, n_jobs)


def _choose(
    X: Features, Y: CSR, normalize: Normalize | Literal["auto"], C: float | Literal["auto"], n_jobs: int | None
) -> tuple[Normalize, float]:
    """Choose by a sample of the rows."""
    if normalize != "auto" and C != "auto":
        return normalize, C
    fold = content_folds(X, 3, seed=2)
    n_tests = min(max(-(-3 * _CHOICE_TESTS // X.shape[0]), 1), 3)
    tests = [fold == k for k in range(n_tests) if 0 < np.count_nonzero(fold == k) < len(fold)]
    target = Y[:, _spread_labels(Y)].toarray() > 0
    best: tuple[float, Normalize, float] | None = None
    with Parallel(n_jobs=n_jobs) as parallel:
        for scaling in ("unit", "standard") if normalize == "auto" else (normalize,):
            rows, _ = _in_row_space(scaled(X, scaling, column_scale(X) if scaling == "standard" else None))
            loss = partial(_held_out_loss, parallel, rows, target, tests)
            value, best_C = _best_C(loss, _FIRST_C[scaling]) if C == "auto" else (loss(C), C)
            if best is None or value < best[0]:
                best = value, scaling, best_C
    assert best is not None
    return best[1:]


def _spread_labels(Y: CSR) -> IntArray:
    """Return up to 40 labels, evenly spread over the labels ordered by frequency."""
    by_count = np.argsort(np.bincount(Y.indices, minlength=Y.shape[1]), kind="stable")
    spread = np.linspace(0, len(by_count) - 1, min(len(by_count), _CHOICE_LABELS)).astype(int)
    return np.asarray(by_count[spread])


def _held_out_loss(parallel: Parallel, X: Any, target: BoolArray, tests: list[BoolArray], C: float) -> float:
    """Return the negative log-likelihood of the held-out candidates."""
    total = 0.0
    for held_out in tests:
        train = X[~held_out]
        fitted = parallel(delayed(_fit_label)(train, labels, C, 100, 1e-3) for labels in target[~held_out].T)
        odds = _log_odds(X[held_out], np.asarray([coef for coef, _ in fitted]).T)
        total += float(np.logaddexp(0.0, np.where(target[held_out], -odds, odds)).sum())
    return total


def _best_C(loss: Callable[[float], float], first: float) -> tuple[float, float]:
    """Go up from the first C, or else down, for as long as the loss falls; return loss and C."""
    value, C = loss(first), first
    for factor in (_C_STEP, 1.0 / _C_STEP):
        while 1.0 / _C_LIMIT < C * factor < _C_LIMIT and (next_value := loss(C * factor)) < value:
            value, C = next_value, C * factor
        if first != C:
            break
    # Powers of ten by multiplication are not exact.
    return value, float(f"{C:.6g}")


class CandidateLogistic(BasePML):
    r"""One-vs-rest logistic regression on the candidates: the baseline to beat.

    Treats every candidate as true and fits one logistic regression per label, with the scaling of the features and
    the penalty that predict held-out candidates best. The confidence of a row's candidates comes from models that
    were fitted without the row.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Inverse strength of the ridge penalty, as in scikit-learn. ``"auto"`` chooses a power of ten by the likelihood
        of held-out candidates, see :func:`choose_regression`.
    normalize : {"auto", "unit", "standard"} or None, default="auto"
        Scale rows to unit length, or divide columns by their standard deviation, or neither. ``"auto"`` chooses
        between the first two in the same way.
    n_folds : int, default=5
        Folds of the out-of-fold confidences. Identical rows share a fold, and the folds do not
        depend on the order of the rows.
    max_iter : int, default=1000
        Maximum number of iterations of the solver (liblinear's trust-region Newton method).
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default="cardinality"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`. It is
        chosen on out-of-fold scores.
    n_jobs : int, optional
        Number of labels fitted in parallel, as in scikit-learn.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_samples, n_labels)
        The out-of-fold probability of each candidate.
    coef_ : array of shape (n_labels, n_features)
        For scaled features.
    intercept_ : array of shape (n_labels,)
    C_ : float
        The C that was used.
    normalize_ : {"unit", "standard"} or None
        The scaling that was used.
    n_iter_ : int
        The largest number of iterations over the labels.
    label_names_, classes_, n_features_in_, out_of_fold_scores_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    Rows without candidates are left out. Scores are probabilities of being a *candidate*. The choice of scaling and C
    sees the candidates of all rows, those of a fold included: two numbers chosen from some eight settings, by thousands
    of cells. Everything else that enters an out-of-fold score is learned without the row. With more than 50,000 rows
    (fewer with more than 800 labels) the threshold is chosen on every k-th row.

    Rows in blocks have the same optimum and the same folds, found by passes over the blocks instead of liblinear.

    Examples
    --------
    >>> from pmlkit import CandidateLogistic
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = CandidateLogistic().fit(strips.X, strips.Y)
    >>> model.normalize_, model.C_, model.label_confidence_.nnz == strips.Y.nnz
    ('unit', 10.0, True)
    """

    _cross_fits: ClassVar[bool] = True
    _scores_are_probabilities: ClassVar[bool] = True
    _fits_blocks: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BasePML._parameter_constraints,
        "C": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "normalize": [StrOptions({"auto", "unit", "standard"}), None],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        *,
        C: float | Literal["auto"] = "auto",
        normalize: Normalize | Literal["auto"] = "auto",
        n_folds: int = 5,
        max_iter: int = 1000,
        threshold: str | float = "cardinality",
        n_jobs: int | None = None,
    ) -> None:
        self.C = C
        self.normalize = normalize
        self.n_folds = n_folds
        self.max_iter = max_iter
        self.threshold = threshold
        self.n_jobs = n_jobs

    def _n_tasks(self, Y: CSR) -> int:
        return int(self.n_folds) + 1

    def _fit(self, X: Features, Y: CSR, progress: Progress) -> Learned:
        self.normalize_, self.C_ = choose_regression(X, Y, self.normalize, self.C, n_jobs=self.n_jobs)
        fold = content_folds(X, self.n_folds)
        self._scale = column_scale(X) if self.normalize_ == "standard" else None
        X, basis = _in_row_space(scaled(X, self.normalize_, self._scale))
        columns = Y.tocsc()
        held_out_scores = np.empty(Y.shape)
        with Parallel(n_jobs=self.n_jobs) as parallel:
            for k in range(self.n_folds):
                held_out = fold == k
                if held_out.any() and not held_out.all():
                    coef, _ = self._fit_labels(parallel, X[~held_out], columns[~held_out])
                    held_out_scores[held_out] = _log_odds(X[held_out], coef.T)
                elif held_out.any():  # All rows are identical: the shares of the labels are all there is.
                    held_out_scores[:] = _log_odds(X, self._fit_labels(parallel, 0 * X, columns)[0].T)
                progress.step("fold")
            coef, n_iter = self._fit_labels(parallel, X, columns)
        progress.step("all rows")
        self.coef_, self.intercept_ = coef[:, :-1] if basis is None else coef[:, :-1] @ basis.T, coef[:, -1]
        scores = expit(held_out_scores)
        confidence = cells_at(scores, Y)
        step, sample = sample_step(*Y.shape), None
        if step > 1:
            table = sparse.csr_array((confidence, Y.indices, Y.indptr), shape=Y.shape)
            sample = scores[::step], Y[::step], table[::step].data
        return Learned(confidence=confidence, scores=scores, n_iter=n_iter, sample=sample)

    def _fit_blocks(self, rows: RowBlocks, progress: Progress) -> LearnedBlocks:
        assert rows.Y is not None
        engine, labelled = rows.engine, LabelledRows.of(rows)
        engine.begin(labelled.fit_key(self, rows))
        trial: tuple[Any, Any] = (None, None)
        if "auto" in (self.normalize, self.C):
            chosen = labelled.sampled(_CHOICE_ROWS, seed=1)
            trial = labelled.take(labelled.X, chosen), labelled.take(labelled.Y, chosen)
        self.normalize_, self.C_ = _choose(*trial, self.normalize, self.C, self.n_jobs)
        fold = labelled.folds(self.n_folds)
        self._scale = labelled.column_scale() if self.normalize_ == "standard" else None
        X = labelled.scaled(self.normalize_, self._scale)
        steps = [0]

        def on_progress(share: float) -> None:
            while steps[0] < int(share * (self.n_folds + 1)):
                progress.step("labels")
                steps[0] += 1

        options: dict[str, Any] = {"n_folds": self.n_folds, "C": self.C_, "max_iter": self.max_iter}
        coef, without, n_iter = block_logistic.fit_regressions(labelled, X, fold, on_progress=on_progress, **options)
        self.coef_, self.intercept_ = coef[:, :-1], coef[:, -1]
        shared = engine.share(without)
        confidence = engine.map(block_logistic.held_out_confidence, X, labelled.Y, fold, coef=shared)
        step = block_logistic.sample_step(labelled.n_rows, rows.n_labels)
        parts = engine.reduce(
            block_logistic.rule_sample, *(X, labelled.Y, fold, confidence, labelled.first_rows), coef=shared, step=step
        )
        return LearnedBlocks(
            confidence=confidence,
            scores=engine.map(block_logistic.scores_of_all_rows, X, fold, rows.Y, coef=shared, keep=False),
            sample=stacked_sample(parts),
            n_iter=n_iter,
        )

    def _fit_labels(self, parallel: Parallel, X: Features, columns: Any) -> tuple[FloatArray, int]:
        fitted = parallel(
            delayed(_fit_label)(X, columns[:, [k]].toarray()[:, 0] > 0, self.C_, self.max_iter)
            for k in range(columns.shape[1])
        )
        return np.asarray([coef for coef, _ in fitted]), max(n_iter for _, n_iter in fitted)

    def _scores(self, X: Features) -> FloatArray:
        X = scaled(X, self.normalize_, self._scale)
        return np.asarray(expit(X @ self.coef_.T + self.intercept_))
