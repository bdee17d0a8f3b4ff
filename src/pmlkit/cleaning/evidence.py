"""Out-of-fold evidence: what models that never saw a row say about its labels, and how well it predicts them.

Methods that cross-fit inside (`ClearPML`, `CandidateLogistic`, `CandidateClassifier`) are fitted once. Any other
estimator is fitted once per fold, on the rows of the other folds. Or the user brings probabilities of his own model.
With rows in blocks the features stay where they are; candidates and their scores are collected.
"""

import copy
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from pmlkit._arrays import as_csr, frame_names, row_hash
from pmlkit._typing import CSR, BoolArray, Features, FloatArray, IntArray
from pmlkit._words import did_you_mean
from pmlkit.blocks import RowBlocks, as_row_blocks
from pmlkit.data.files.side_features import read_probabilities
from pmlkit.exceptions import PMLWarning
from pmlkit.methods.base import BasePML
from pmlkit.numerics.content import content_folds

_TOO_GOOD = 0.99  # mean AUC from which probabilities must be in-sample
_MAX_AUC_ROWS = 20_000
_Z95 = 1.645
_LEAST_AUC = 0.6

MOST_CELLS = 40_000_000
"""Scores, rows times labels, that are judged in one place: 160 MB."""


@dataclass(frozen=True)
class Evidence:
    """What is known of every cell, by models that did not see the row's own labels."""

    # About how likely a row with these features is to be given the label; float32, (n_samples, n_labels).
    scores: FloatArray
    method: str  # who made it, in words
    # How likely each candidate is true, aligned with ``Y.data``, by the method that the map of
    # `pmlkit.cleaning.calibration` was fitted with; None for any other, to which that map does not quite apply.
    confidence: FloatArray | None = None
    saw_labels: bool = False  # whether it is so good that its model must have seen the labels
    empty_rows: str = ""  # what rows without candidates were taken for, and why; "" where nothing is known of that


def cross_fit(
    model: Any,
    X: Features,
    Y: CSR,
    *,
    n_folds: int = 5,
    label_names: Sequence[str] | None = None,
    on_fit: Callable[[Any], Any] = lambda model: None,
) -> Evidence:
    """Score every cell by models that did not see its row.

    `model`: unfitted; it is not changed. `Y`: candidates, in canonical form (`pmlkit._arrays.as_csr`). `n_folds`: for
    estimators that do not cross-fit inside. Identical rows share a fold. `label_names`: for warnings of estimators that
    cross-fit inside. `on_fit`: called with each estimator before it is fitted, to watch it.

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
    if not getattr(model, "_cross_fits", False):
        return Evidence(_over_folds(model, X, Y, n_folds, on_fit), f"{name}, cross-fitted in {n_folds} folds")
    fitted = clone(model)
    fitted._names_of_columns = label_names
    on_fit(fitted)
    fitted.fit(X, Y)
    if sparse.issparse(fitted.out_of_fold_scores_):
        raise ValueError(
            f"clean needs a score of every label for every row, too many for {Y.shape[0]:,} rows x {Y.shape[1]:,} "
            f"labels: give some of the rows, or fit {name}, whose label_confidence_ is lowest where labels are "
            "probably wrong."
        )
    return evidence_of(fitted, fitted.out_of_fold_scores_, fitted.label_confidence_.data, Y)


def evidence_of(fitted: Any, scores: FloatArray, confidence: FloatArray, Y: CSR) -> Evidence:
    """Return the evidence of a method that cross-fits inside; `scores` are changed in rows without candidates."""
    name = type(fitted).__name__
    scores[np.diff(Y.indptr) == 0] = np.asarray(Y.mean(axis=0), dtype=np.float32).ravel()
    if getattr(fitted, "_cleaning_is_calibrated", False):
        empty = f"{fitted.empty_rows_}: {fitted.empty_rows_reason_}" if fitted.empty_rows_ else ""
        return Evidence(scores, f"{name}, each row left out in turn", confidence, empty_rows=empty)
    return Evidence(_as_probabilities(scores, Y), f"{name}, cross-fitted")


def checked_probabilities(pred_probs: Any, shape: tuple[int, int], names: Sequence[str]) -> FloatArray:
    """Return the user's probabilities as an array, or say what is wrong with them.

    `pred_probs`: array, DataFrame or path; a DataFrame whose columns are the labels in another order is put in order.
    `shape`: of the candidates. `names`: of the labels.

    Examples
    --------
    >>> from pmlkit.cleaning.evidence import checked_probabilities
    >>> checked_probabilities([[0.1, 0.9]], (1, 2), ["a", "b"]).tolist()
    [[0.1, 0.9]]
    """
    if isinstance(pred_probs, str | os.PathLike):
        pred_probs = read_probabilities(pred_probs, shape[0])
    try:
        values = np.asarray(pred_probs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"pred_probs must hold numbers only: {error}") from error
    if values.shape != shape:
        raise ValueError(
            f"pred_probs must have one row per row and one column per label of Y, {shape}, got {values.shape}."
        )
    columns = frame_names(pred_probs)
    if columns is not None and sorted(columns) == sorted(names):
        values = values[:, [columns.index(name) for name in names]]
    elif columns is not None and (known := set(columns) & set(names)):
        other = next(name for name in columns if name not in known)
        raise ValueError(
            f"pred_probs has a column {other!r}, which is no label.{did_you_mean(other, set(names) - known)} Call its "
            "columns as the labels, or all of them otherwise: then they count in the order of the labels."
        )
    if not np.isfinite(values).all():
        row, label = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(
            f"pred_probs holds {values[row, label]} (first in row {row}, label {names[label]!r}): "
            "give every row a probability for every label."
        )
    if values.min() < 0 or values.max() > 1:
        worst = values.min() if values.min() < 0 else values.max()
        raise ValueError(
            f"pred_probs must be probabilities in [0, 1], got {worst:.4g}: "
            "apply a sigmoid or a calibration to scores first."
        )
    return values


def given_evidence(probabilities: FloatArray, Y: CSR) -> Evidence:
    """Take the user's out-of-sample probabilities as the evidence; warn if they are too good to be out of sample."""
    auc, error = label_auc(probabilities, Y)
    count = np.bincount(Y.indices, minlength=Y.shape[1])
    known = np.isfinite(error)
    weights = np.maximum(count[known], 1)
    saw_labels = bool(known.any()) and float(np.average(auc[known], weights=weights)) > _TOO_GOOD
    if saw_labels:
        warnings.warn(
            PMLWarning(
                "pred_probs tell given labels from others almost perfectly. If the model has seen these labels in "
                "training, it hides their errors: give cross-validated probabilities."
            ),
            stacklevel=3,
        )
    return Evidence(probabilities.astype(np.float32), "your probabilities (pred_probs)", saw_labels=saw_labels)


def label_auc(scores: FloatArray, Y: CSR) -> tuple[FloatArray, FloatArray]:
    """Return per label the AUC of telling its candidates from other labelled rows, and its error if it were 0.5.

    0.5 and infinity for labels that are on no row, or on all. `scores`: out-of-fold. `Y`: candidates.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.evidence import label_auc
    >>> Y = sparse.csr_array(np.tile([[1, 0], [0, 1]], (20, 1)))
    >>> label_auc(Y.toarray() + 0.5, Y)[0].tolist()
    [1.0, 1.0]
    """
    labelled = np.flatnonzero(np.diff(Y.indptr) > 0)
    rows = labelled[:: max(1, -(-len(labelled) // _MAX_AUC_ROWS))]
    given = Y[rows].tocsc()
    auc, error = np.full(Y.shape[1], 0.5), np.full(Y.shape[1], np.inf)
    for k in range(Y.shape[1]):
        mine = given.indices[given.indptr[k] : given.indptr[k + 1]]
        n_with, n_without = len(mine), len(rows) - len(mine)
        if n_with and n_without:
            rank_sum = float(rankdata(scores[rows, k])[mine].sum())
            auc[k] = (rank_sum - n_with * (n_with + 1) / 2) / (n_with * n_without)
            error[k] = np.sqrt((len(rows) + 1) / (12 * n_with * n_without))
    return auc, error


def predicts_labels(scores: FloatArray, Y: CSR) -> bool:
    """Test whether candidates score higher than other rows of their label, beyond chance.

    Features that have nothing to do with the labels, such as a column of random numbers, leave nothing to judge by.
    The probabilities of `pmlkit.cleaning.calibration` were fitted on evidence that means something, and are far off
    where it does not. A test by the rank-sum statistics of all labels together, at a level of 5 %.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.evidence import predicts_labels
    >>> Y = sparse.csr_array(np.tile([[1, 0], [0, 1]], (20, 1)))
    >>> predicts_labels(Y.toarray() + 0.5, Y), predicts_labels(np.full((40, 2), 0.5), Y)
    (True, False)
    """
    auc, error = label_auc(scores, Y)
    known = np.isfinite(error)
    weight = np.bincount(Y.indices, minlength=Y.shape[1])[known]
    excess = float(weight @ (auc[known] - 0.5))
    return excess > _Z95 * float(np.sqrt(np.square(weight * error[known]).sum()))


def well_predicted(scores: FloatArray, Y: CSR) -> BoolArray:
    """Tell which labels the evidence predicts well enough to say how many of their candidates are false.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.evidence import well_predicted
    >>> Y = sparse.csr_array(np.tile([[1, 0], [0, 1], [1, 1]], (20, 1)))
    >>> well_predicted(Y.toarray() * [1.0, 0.0] + 0.5, Y).tolist()
    [True, False]
    """
    auc, error = label_auc(scores, Y)
    return np.asarray(auc - _Z95 * np.where(np.isfinite(error), error, 1.0) > _LEAST_AUC)


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


def judged_blocks(X: Any, Y: Any, pred_probs: Any) -> tuple[RowBlocks, CSR]:
    """Return rows in blocks that `clean` can judge and all their candidates, or say why it cannot."""
    if pred_probs is not None:
        raise ValueError("pred_probs are for data in memory: leave them out, or compute Y first and leave X out.")
    rows = as_row_blocks(X, Y)
    if rows.Y is None:
        raise ValueError("Y must be given: the candidates to judge.")
    if rows.n_rows * rows.n_labels > MOST_CELLS:
        raise ValueError(
            f"clean judges blocks of up to {MOST_CELLS:,} cells, got {rows.n_rows:,} rows x {rows.n_labels:,} labels: "
            "give some of the rows, or fit ClearPML to all, whose label_confidence_ is lowest where labels are "
            "probably wrong."
        )
    return rows, rows.Y.compute()


def fit_to_blocks(model: Any, rows: RowBlocks, judged: IntArray, Y: CSR, *, on_fit: Callable[[Any], Any]) -> Evidence:
    """Score every cell of the judged labels by a method that learns from blocks and cross-fits inside."""
    if not (getattr(model, "_fits_blocks", False) and getattr(model, "_cross_fits", False)):
        raise ValueError(
            f"{type(model).__name__} cannot judge labels in blocks: use ClearPML, or compute X and Y first."
        )
    assert rows.Y is not None
    part = copy.copy(rows)
    part.Y = rows.engine.map(_columns, rows.Y, labels=judged)
    part.n_labels, part.label_names = len(judged), tuple(rows.label_names[k] for k in judged)
    fitted = clone(model)
    on_fit(fitted)
    fitted.fit(part)
    scores, confidence = (_here(rows, array) for array in (fitted.out_of_fold_scores_, fitted.label_confidence_))
    return evidence_of(fitted, np.array(scores), confidence.data, Y)


def block_row_keys(rows: RowBlocks) -> IntArray:
    """Return numbers that identify the rows by their content."""
    return np.concatenate(rows.engine.reduce(_keys, rows.X))


def _here(rows: RowBlocks, array: Any) -> Any:
    client = getattr(rows.engine, "client", None)
    return array.compute() if client is None else array.compute(scheduler=client)


def _columns(Y: CSR, *, labels: IntArray) -> CSR:
    return as_csr(Y[:, labels])


def _keys(X: Features) -> list[Any]:
    return [row_hash(X)]
