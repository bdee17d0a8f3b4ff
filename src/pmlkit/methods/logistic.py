"""One-vs-rest logistic regression on the candidates, with cross-fitted confidences."""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.utils._param_validation import Interval, StrOptions

from pmlkit._arrays import row_of_cells
from pmlkit._typing import CSR, BoolArray, Features, FloatArray
from pmlkit.methods.base import BasePML, Learned
from pmlkit.methods.progress import Progress
from pmlkit.numerics.folds import content_folds
from pmlkit.numerics.scaling import Normalize, column_scale, scaled

__all__ = ["CandidateLogistic"]


def _fit_label(X: Features, target: BoolArray, C: float, max_iter: int) -> tuple[FloatArray, int]:
    """Return the coefficients of one label, the intercept last, and the iterations they took."""
    n_present = int(target.sum())
    coef = np.zeros(X.shape[1] + 1)
    if n_present in (0, len(target)):
        # Nothing to tell apart: a constant near the label's share, half a row short of certainty.
        share = (n_present + 0.5) / (len(target) + 1)
        coef[-1] = np.log(share / (1 - share))
        return coef, 1
    model = LogisticRegression(solver="liblinear", C=C, tol=1e-6, max_iter=max_iter).fit(X, target)
    coef[:-1], coef[-1] = model.coef_[0], model.intercept_[0]
    return coef, int(model.n_iter_[0])


def _log_odds(X: Features, coef: FloatArray) -> FloatArray:
    return np.asarray(X @ coef[:-1] + coef[-1])


class CandidateLogistic(BasePML):
    r"""One-vs-rest logistic regression on the candidates: the baseline to beat.

    Takes every candidate for true and fits one logistic regression a label. What makes it useful
    for finding wrong labels is cross-fitting: the confidence of a row's candidates comes from
    models that never saw the row.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the ridge penalty, as in scikit-learn.
    normalize : {"unit", "standard"} or None, default="unit"
        Scale rows to unit length, or divide columns by their standard deviation, or neither.
    n_folds : int, default=5
        Folds of the cross-fitted confidences. Identical rows share a fold, and the folds do not
        depend on the order of the rows.
    max_iter : int, default=1000
        Iterations of the solver (liblinear's trust-region Newton method).
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default="cardinality"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`. It is
        chosen on cross-fitted scores.
    n_jobs : int, optional
        Labels fitted at once, as in scikit-learn.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_rows, n_labels)
        The cross-fitted probability of each candidate.
    out_of_fold_scores_ : float32 array of shape (n_samples, n_labels)
        The cross-fitted probability of every label; NaN for unlabelled rows.
    coef_ : array of shape (n_labels, n_features)
    intercept_ : array of shape (n_labels,)
    n_iter_ : int
        The most iterations that a label took.
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    Rows without candidates are left out. Scores are probabilities.

    Examples
    --------
    >>> from pmlkit import CandidateLogistic
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = CandidateLogistic().fit(strips.X, strips.Y)
    >>> model.label_confidence_.nnz == strips.Y.nnz
    True
    """

    _scores_are_probabilities: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BasePML._parameter_constraints,
        "C": [Interval(Real, 0, None, closed="neither")],
        "normalize": [StrOptions({"unit", "standard"}), None],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        normalize: Normalize = "unit",
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
        fold = content_folds(X, self.n_folds)
        self._scale = column_scale(X) if self.normalize == "standard" else None
        X = scaled(X, self.normalize, self._scale)
        columns = Y.tocsc()
        held_out_scores = np.empty(Y.shape)
        with Parallel(n_jobs=self.n_jobs) as parallel:
            for k in range(self.n_folds):
                held_out = fold == k
                if held_out.any() and not held_out.all():
                    coef, _ = self._fit_labels(parallel, X[~held_out], columns[~held_out])
                    held_out_scores[held_out] = _log_odds(X[held_out], coef.T)
                elif held_out.any():  # All rows are twins: the only honest guess is the labels' shares.
                    held_out_scores[:] = _log_odds(X, self._fit_labels(parallel, 0 * X, columns)[0].T)
                progress.step("fold")
            coef, n_iter = self._fit_labels(parallel, X, columns)
        progress.step("all rows")
        self.coef_, self.intercept_ = coef[:, :-1], coef[:, -1]
        scores = expit(held_out_scores)
        row = row_of_cells(Y)
        return Learned(confidence=scores[row, Y.indices], scores=scores, out_of_fold=True, n_iter=n_iter)

    def _fit_labels(self, parallel: Parallel, X: Features, columns: Any) -> tuple[FloatArray, int]:
        fitted = parallel(
            delayed(_fit_label)(X, columns[:, [k]].toarray()[:, 0] > 0, self.C, self.max_iter)
            for k in range(columns.shape[1])
        )
        return np.asarray([coef for coef, _ in fitted]), max(n_iter for _, n_iter in fitted)

    def _scores(self, X: Features) -> FloatArray:
        X = scaled(X, self.normalize, self._scale)
        return np.asarray(expit(X @ self.coef_.T + self.intercept_))
