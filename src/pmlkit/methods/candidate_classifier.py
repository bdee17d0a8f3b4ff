"""Any scikit-learn classifier: confidences of candidates by cross-fitting, and a final fit weighted by them."""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import has_fit_parameter

from pmlkit._typing import CSR, BoolArray, Features, FloatArray
from pmlkit.methods.base import BasePML, Learned
from pmlkit.methods.clear_pml.cell_passes import blended_target
from pmlkit.methods.clear_pml.confidence_rounds import COMPETITION
from pmlkit.methods.clear_pml.posterior import (
    candidate_confidence,
    noise_floor,
    presence_weight,
    rescale_to_sum,
    shrunk_count,
    true_probabilities,
)
from pmlkit.methods.progress import Progress
from pmlkit.numerics.content import content_folds
from pmlkit.numerics.products import cells_at


class CandidateClassifier(BasePML):
    """Wrap any scikit-learn classifier: cross-fitted confidences, and a final fit weighted by them.

    For each label, copies of the classifier are fitted to the candidates of all folds but one and score that one. The
    scores, corrected for the rate at which labels become candidates without being true, give each candidate its
    confidence. One more copy per label is then fitted to all rows, doubtful candidates counting partly as absent.

    Parameters
    ----------
    estimator : classifier, optional
        With `predict_proba` or `decision_function`. By default ``LogisticRegression(max_iter=1000)``.
    n_folds : int, default=5
        Folds of the cross-fitting. Identical rows share a fold, and the folds do not depend on the order of the rows.
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default="hamming"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`.
    n_jobs : int, optional
        Number of labels fitted in parallel, as in scikit-learn.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_samples, n_labels)
        How likely each candidate is true, by models that never saw the row.
    out_of_fold_scores_ : float32 array of shape (n_samples, n_labels)
        The cross-fitted probability that each label is a candidate; NaN for unlabelled rows.
    noise_floor_ : float
        The estimated chance that a label which is not true is a candidate all the same.
    estimators_ : list
        A fitted classifier per label; instead the share of its candidates (a float) if all rows have the label, or
        none.
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    A classifier whose `fit` takes no `sample_weight` learns candidates as present or absent, whichever is likelier.
    Rows without candidates are left out. There are `n_folds` + 1 fits per label, so that wide dense features cost more
    than with methods that solve all labels at once.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from pmlkit import CandidateClassifier
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = CandidateClassifier(GaussianNB()).fit(strips.X, strips.Y)
    >>> model.decision_function(strips.X[:2]).shape
    (2, 10)
    """

    _many_small_products: ClassVar[bool] = False  # Nothing is known of the estimator.

    _cross_fits: ClassVar[bool] = True
    _scores_are_probabilities: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BasePML._parameter_constraints,
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self, estimator: Any = None, *, n_folds: int = 5, threshold: str | float = "hamming", n_jobs: int | None = None
    ) -> None:
        self.estimator = estimator
        self.n_folds = n_folds
        self.threshold = threshold
        self.n_jobs = n_jobs

    def _n_tasks(self, Y: CSR) -> int:
        return int(self.n_folds) + 1

    def _fit(self, X: Features, Y: CSR, progress: Progress) -> Learned:
        base = LogisticRegression(max_iter=1000) if self.estimator is None else self.estimator
        if not (hasattr(base, "predict_proba") or hasattr(base, "decision_function")):
            raise ValueError(f"estimator must be a classifier with predict_proba or decision_function, got {base!r}.")
        is_candidate = np.asarray(Y.toarray() > 0)
        fold = content_folds(X, self.n_folds)
        held_out = np.tile(is_candidate.mean(axis=0), (len(is_candidate), 1))
        with Parallel(n_jobs=self.n_jobs) as parallel:
            for k in range(self.n_folds):
                rows = fold == k
                if rows.any() and not rows.all():
                    models = _fit_labels(parallel, base, X[~rows], is_candidate[~rows], None)
                    held_out[rows] = _probabilities(models, X[rows])
                progress.step("fold")
            self.noise_floor_ = noise_floor(held_out, is_candidate)
            confidence = self._confidence(held_out, is_candidate)
            target = blended_target(is_candidate, confidence)
            self.estimators_ = _fit_labels(parallel, base, X, is_candidate, target)
        progress.step("all rows")
        return Learned(confidence=cells_at(confidence, Y), scores=held_out)

    def _confidence(self, held_out: FloatArray, is_candidate: BoolArray) -> FloatArray:
        floor = self.noise_floor_
        chance = true_probabilities(held_out, floor)
        most, presence = 0.0, 1.0
        if is_candidate.any(axis=1).all():
            most, presence = COMPETITION, presence_weight(chance, is_candidate, floor, competition=COMPETITION)
        ordered, plain = (
            candidate_confidence(chance, is_candidate, floor, competition=competition, presence=presence)
            for competition in (most, 0.0)
        )
        return rescale_to_sum(ordered, shrunk_count(float(plain.sum()), int(is_candidate.sum())))

    def _scores(self, X: Features) -> FloatArray:
        return _probabilities(self.estimators_, X)


def _fit_labels(
    parallel: Parallel, base: Any, X: Features, is_candidate: BoolArray, target: FloatArray | None
) -> list[Any]:
    return list(
        parallel(
            delayed(_fit_label)(base, X, is_candidate[:, k], None if target is None else target[:, k])
            for k in range(is_candidate.shape[1])
        )
    )


def _fit_label(base: Any, X: Features, present: BoolArray, target: FloatArray | None) -> Any:
    """Return a fitted classifier of one label, or the label's share where all rows agree."""
    weight = None
    if target is not None and has_fit_parameter(base, "sample_weight"):
        # A candidate with target 0.7 is a row with the label of weight 0.7, and one without it of weight 0.3.
        doubtful = np.flatnonzero(present & (target < 1.0))
        rows = np.concatenate([np.arange(len(present)), doubtful])
        weight = np.concatenate([np.where(present, target, 1.0), 1.0 - target[doubtful]])
        X, present = X[rows], np.concatenate([present, np.zeros(len(doubtful), dtype=bool)])
    elif target is not None:
        present = target > 0.5
    if present.all() or not present.any():
        return float((present.sum() + 0.5) / (len(present) + 1))
    model = clone(base)
    return model.fit(X, present) if weight is None else model.fit(X, present, sample_weight=weight)


def _probabilities(models: list[Any], X: Features) -> FloatArray:
    scores = np.empty((X.shape[0], len(models)))
    for k, model in enumerate(models):
        if isinstance(model, float):
            scores[:, k] = model
        elif hasattr(model, "predict_proba"):
            scores[:, k] = model.predict_proba(X)[:, 1]
        else:
            scores[:, k] = expit(model.decision_function(X))
    return scores
