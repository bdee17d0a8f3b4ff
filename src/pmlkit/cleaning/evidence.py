"""Out-of-fold evidence: what models that never saw a row say about its labels.

`ClearPML` and `CandidateLogistic` cross-fit inside and are fitted once. Any other estimator is fitted once per fold, on
the rows of the other folds.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from pmlkit._typing import CSR, Features, FloatArray
from pmlkit.methods import CandidateLogistic, ClearPML
from pmlkit.methods.base import BasePML, Learned, labelled_rows
from pmlkit.methods.progress import Progress
from pmlkit.numerics.folds import content_folds

__all__ = ["Evidence", "cross_fit"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evidence:
    """What is known of every cell, by models that did not see the row's own labels.

    Attributes
    ----------
    scores : array of shape (n_rows, n_labels)
        About how likely a row with these features is to be given the label; float32.
    method : str
        Who made it, in words.
    confidence : array, optional
        How likely each candidate is true, aligned with ``Y.data``, where the method judges that by itself.
    """

    scores: FloatArray
    method: str
    confidence: FloatArray | None = None


class _RecordingLogistic(CandidateLogistic):
    """A `CandidateLogistic` that keeps its cross-fitted scores of all cells, not only of the candidates."""

    def _fit(self, X: Features, Y: CSR, progress: Progress) -> Learned:
        learned = super()._fit(X, Y, progress)
        self.held_out_scores_ = learned.scores
        return learned


def cross_fit(
    model: Any,
    X: Features,
    Y: CSR,
    *,
    n_folds: int = 5,
    on_fit: Callable[[Any], Any] = lambda model: None,
) -> Evidence:
    """Score every cell by models that did not see its row.

    Parameters
    ----------
    model : estimator
        Unfitted; it is not changed.
    X : array or CSR array of shape (n_rows, n_features)
    Y : CSR array of shape (n_rows, n_labels)
        Candidates, in canonical form (`pmlkit._arrays.as_csr`).
    n_folds : int, default=5
        For estimators that do not cross-fit inside. Identical rows share a fold.
    on_fit : callable, optional
        Called with each estimator before it is fitted, to watch it.

    Returns
    -------
    evidence : Evidence

    Examples
    --------
    >>> from pmlkit.cleaning.evidence import cross_fit
    >>> from pmlkit.data import load_digit_strips
    >>> from pmlkit.methods import CandidateLogistic
    >>> strips = load_digit_strips(100)
    >>> cross_fit(CandidateLogistic(), strips.X, strips.Y).scores.shape
    (100, 10)
    """
    name = type(model).__name__
    if not (hasattr(model, "decision_function") or hasattr(model, "predict_proba")):
        raise ValueError(f"method must have decision_function or predict_proba, got {model!r}.")
    if type(model) is CandidateLogistic:
        recorder = _RecordingLogistic(**model.get_params())
        on_fit(recorder)
        recorder.fit(X, Y)
        scores = np.tile(np.asarray(Y.mean(axis=0), dtype=np.float32).ravel(), (Y.shape[0], 1))
        scores[labelled_rows(Y)] = recorder.held_out_scores_
        return Evidence(scores, f"{name}, cross-fitted in {recorder.n_folds} folds")
    if type(model) is ClearPML:
        fitted = clone(model)
        on_fit(fitted)
        fitted.fit(X, Y)
        scores = np.nan_to_num(fitted.out_of_fold_scores_)
        return Evidence(scores, f"{name}, each row left out in turn", fitted.label_confidence_.data)
    return Evidence(_over_folds(model, X, Y, n_folds, on_fit), f"{name}, cross-fitted in {n_folds} folds")


def _over_folds(model: Any, X: Features, Y: CSR, n_folds: int, on_fit: Callable[[Any], Any]) -> FloatArray:
    fold = content_folds(X, n_folds)
    if fold.max() == 0:
        raise ValueError("All rows have the same features: nothing tells a right label from a wrong one.")
    raw = np.empty(Y.shape, dtype=np.float32)
    # scikit-learn's own estimators take no sparse labels.
    target = Y if isinstance(model, BasePML) else Y.toarray().astype(np.int8)
    for k in range(int(fold.max()) + 1):
        held_out = fold == k
        fitted = clone(model)
        on_fit(fitted)
        fitted.fit(X[~held_out], target[~held_out])
        raw[held_out] = _raw_scores(fitted, X[held_out], Y.shape[1])
    return _as_probabilities(raw, Y)


def _raw_scores(fitted: Any, X: Features, n_labels: int) -> FloatArray:
    if hasattr(fitted, "decision_function"):
        scores = fitted.decision_function(X)
    else:
        scores = fitted.predict_proba(X)
        if isinstance(scores, list):  # scikit-learn's trees and forests: one array of two classes per label
            scores = np.column_stack([part[:, -1] for part in scores])
    return np.asarray(scores, dtype=np.float32).reshape(X.shape[0], n_labels)


def _as_probabilities(raw: FloatArray, Y: CSR) -> FloatArray:
    """Put scores of any scale on that of probabilities: one logistic curve per label, of out-of-fold scores."""
    if raw.min() >= 0 and raw.max() <= 1:
        return raw
    scores = np.empty_like(raw)
    columns = Y.tocsc()
    for k in range(Y.shape[1]):
        target = np.zeros(len(raw), dtype=bool)
        target[columns.indices[columns.indptr[k] : columns.indptr[k + 1]]] = True
        centre, scale = raw[:, k].mean(), raw[:, k].std()
        if not 0 < target.sum() < len(target) or scale == 0:
            scores[:, k] = target.mean()
            continue
        z = ((raw[:, k] - centre) / scale)[:, None]
        curve = LogisticRegression().fit(z, target)
        # A score that speaks against its own label is no evidence at all.
        slope = max(float(curve.coef_[0, 0]), 0.0)
        scores[:, k] = expit(slope * z[:, 0] + float(curve.intercept_[0]))
    return scores
