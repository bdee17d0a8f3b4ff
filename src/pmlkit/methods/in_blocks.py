"""Rows in blocks: the fit of a model, and its answers, computed block by block when they are asked for."""

import copy
from dataclasses import asdict
from typing import Any

import numpy as np
from scipy import sparse

from pmlkit._threads import one_blas_thread
from pmlkit._typing import CSR, Features, FloatArray, IntArray
from pmlkit.blocks import as_row_blocks
from pmlkit.methods.calibration import calibrated
from pmlkit.methods.model_card import training_record
from pmlkit.methods.model_file import ONLY_FOR_TRAINING
from pmlkit.methods.progress import Progress

MANY_ROWS = 20_000
"""Rows from which products are large enough for several threads."""


def fit(model: Any, X: Any, y: Any, sample_weight: Any, verified: Any) -> None:
    """Fit a method to rows in blocks: what is known of the rows stays in the blocks."""
    name = type(model).__name__
    if not model._fits_blocks:
        raise ValueError(f"{name} learns from data in memory only, not from blocks: compute X and y first.")
    if sample_weight is not None:
        raise ValueError("sample_weight is not supported for data in blocks: leave it out.")
    rows = as_row_blocks(X, y)
    if rows.Y is None:
        raise ValueError("y must be given: the candidates to learn from.")
    if rows.n_labels < 2:
        raise ValueError("Data in blocks needs at least two labels: a single label is learned in memory.")
    model.n_features_in_ = rows.n_features
    model.__dict__.pop("feature_names_in_", None)
    if rows.names_in is not None:
        model.feature_names_in_ = np.asarray(rows.names_in, dtype=object)
    model._paired = False
    progress = Progress(model, model._n_tasks(sparse.csr_array((0, rows.n_labels))), rows, None)
    options: dict[str, Any] = {} if verified is None else {"verified": verified}
    with one_blas_thread(when=model._many_small_products and rows.n_rows < MANY_ROWS):
        learned = model._fit_blocks(rows, progress, **options)
    progress.close()
    model.classes_ = np.arange(rows.n_labels)
    model.label_names_ = np.asarray(rows.label_names, dtype=object)
    model.__dict__.pop("table_reader_", None)
    if (reader := getattr(rows.table, "table_reader", None)) is not None:
        model.table_reader_ = reader
    model._label_format = asdict(rows.label_format)
    state = rows.engine.map(_confidence, rows.Y, learned.confidence, keep=False)
    model.label_confidence_ = rows.as_array(state, width=rows.n_labels, dtype=np.float64, is_sparse=True)
    model._fit_rule(learned.sample, None)
    if model._cross_fits:
        model.out_of_fold_scores_ = rows.lazy(_single_precision, learned.scores, width=rows.n_labels, dtype=np.float32)
    model.training_record_ = training_record(learned.sample[1], learned.sample[0] if model._cross_fits else None)
    model._keep_trace(learned)
    rows.engine.finish()


def answers(model: Any, X: Any, function: Any, width: int, *, dtype: Any = np.float64, **options: Any) -> Any:
    """Return a model's answer for rows in blocks: computed block by block when it is asked for."""
    if model._is_binary:
        raise ValueError("The model was fitted on a 1-D y: compute X first, blocks need several labels.")
    rows = as_row_blocks(X)
    if rows.n_features != model.n_features_in_:
        raise ValueError(
            f"X has {rows.n_features} features, but {type(model).__name__} expects {model.n_features_in_}."
        )
    model = copy.copy(model)
    for name in ("label_confidence_", *ONLY_FOR_TRAINING):
        model.__dict__.pop(name, None)
    return rows.lazy(function, rows.X, width=width, dtype=dtype, model=rows.engine.share(model), **options)


def decision(X: Features, *, model: Any) -> FloatArray:
    """Return the scores of a block's rows."""
    return np.asarray(model._own_scores(X))


def probability(X: Features, *, model: Any) -> FloatArray:
    """Return the probabilities of a block's rows."""
    scores = model._own_scores(X)
    return calibrated(scores, model._curve) if model._calibrates else scores


def label_set(X: Features, *, model: Any) -> Any:
    """Return the label sets of a block's rows as an indicator."""
    return model._rule().label_sets(model._own_scores(X)).astype(np.int8)


def top(X: Features, *, model: Any, k: int, part: int) -> Any:
    """Return the best labels of a block's rows (part 0) or their scores (part 1)."""
    return best_labels(model._own_scores(X), k)[part]


def _confidence(Y: CSR, confidence: FloatArray) -> CSR:
    """Return a block's confidences in the pattern of its candidates."""
    return sparse.csr_array((np.clip(confidence, 0.0, 1.0), Y.indices, Y.indptr), Y.shape)


def _single_precision(scores: FloatArray) -> FloatArray:
    """Return scores as they are kept."""
    return scores.astype(np.float32)


def best_labels(scores: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
    """Return the k best labels of every row, best first, and their scores; of equal ones the first labels.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.in_blocks import best_labels
    >>> best_labels(np.array([[0.1, 0.9, 0.4, 0.4]]), 2)
    (array([[1, 2]]), array([[0.9, 0.4]]))
    """
    n_rows, n_labels = scores.shape
    if k > n_labels // 8:
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return best, np.take_along_axis(scores, best, axis=1)
    least = np.partition(scores, n_labels - k, axis=1)[:, n_labels - k, None]
    enough = scores >= least
    best = np.zeros((n_rows, k), dtype=np.intp)
    tied = enough.sum(axis=1) > k
    best[~tied] = np.nonzero(enough[~tied])[1].reshape(-1, k)
    best[tied] = np.argsort(-scores[tied], axis=1, kind="stable")[:, :k]
    order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
    best = np.take_along_axis(best, order, axis=1)
    return best, np.take_along_axis(scores, best, axis=1)
