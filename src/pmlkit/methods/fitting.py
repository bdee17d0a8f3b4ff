"""What a fit does besides the method's own `_fit`: checked data go in, fitted attributes come out."""

import logging
import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, validate_data

from pmlkit._arrays import (
    LabelFormat,
    as_csr,
    column_names,
    is_frame,
    is_table,
    label_format,
    moderate,
    names_per_row,
    numbers_wanted,
    read_labels,
    refuse_texts,
)
from pmlkit._typing import CSR, BoolArray, FloatArray, IntArray
from pmlkit.blocks import State, as_row_blocks
from pmlkit.methods.model_card import training_record
from pmlkit.methods.progress import Progress
from pmlkit.methods.threads import one_blas_thread

logger = logging.getLogger(__name__)

_MANY_ROWS, _LARGE_SIDE = 20_000, 4_000
"""Rows, and smaller side of X, from which products are large enough for several threads."""


@dataclass(frozen=True)
class Learned:
    """What a method's ``_fit`` returns.

    Attributes
    ----------
    confidence : array aligned with ``Y.data``
        How likely each candidate is true, in [0, 1].
    scores : array of shape (n_samples, n_labels)
        Scores of the training rows, made without the row's own labels where the method can;
        the threshold is chosen on them.
    objective : array, optional
        What the method minimises, after each iteration.
    n_iter : int, optional
        Number of iterations.
    rows : array, optional
        Ascending numbers of the rows whose scores are given, if not all: a sample is enough for a threshold.
    sample : tuple of array, CSR array and array, optional
        Scores, candidates and confidences (aligned with the candidates) that the threshold is chosen on, if not all.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.base import Learned
    >>> learned = Learned(confidence=np.array([0.9, 0.2]), scores=np.array([[0.8, 0.3]]))
    >>> learned.n_iter is None
    True
    """

    confidence: FloatArray
    scores: FloatArray
    objective: FloatArray | None = None
    n_iter: int | None = None
    rows: IntArray | None = None
    sample: tuple[FloatArray, CSR, FloatArray] | None = None


@dataclass(frozen=True)
class LearnedBlocks:
    """What a method's ``_fit_blocks`` returns; `objective` and `n_iter` as in `Learned`.

    `confidence`: of each block, aligned with its ``Y.data``. `scores`: of each block's rows, made without the row's own
    labels where the method can; NaN in rows without candidates; not kept, but computed when asked for. `sample`:
    scores, candidates and confidences (aligned with the candidates) of a sample of rows with candidates, the same for
    all layouts of the blocks: thresholds are chosen on it.
    """

    confidence: State
    scores: State
    sample: tuple[FloatArray, CSR, FloatArray]
    objective: FloatArray | None = None
    n_iter: int | None = None


def in_memory(model: Any, X: Any, y: Any, sample_weight: Any, verified: Any) -> None:
    """Fit a method to data in memory."""
    table = X if y is None and is_table(X) else None
    if table is not None:
        X, y = getattr(table, "frame", table.X), table.Y
    y, form, names = describe(y)
    with numbers_wanted(type(model).__name__):
        X, y = validate_data(
            model, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], multi_output=True, ensure_min_samples=1
        )
    X = moderate(as_csr(X) if sparse.issparse(X) else X)
    Y, classes = candidates(y, form)
    progress = Progress(model, model._n_tasks(Y), X, y)
    labelled = labelled_rows(Y)
    used = np.ones_like(labelled) if model._uses_unlabelled else labelled
    Y_used = Y
    if not used.all():
        logger.info("%s leaves out %d rows without candidates.", type(model).__name__, (~used).sum())
        X, Y_used = X[used], Y[used]
    model._paired = model._one_label_as_two and Y.shape[1] == 1
    if model._paired:
        Y_used = present_and_absent(Y_used)
    options: dict[str, Any] = {} if verified is None else {"verified": verified}
    if sample_weight is not None:
        weight = _check_sample_weight(sample_weight, y, ensure_non_negative=True, dtype=np.float64)
        options["sample_weight"] = weight[used]
    small = X.shape[0] < _MANY_ROWS and min(X.shape) < _LARGE_SIDE
    with one_blas_thread(when=small and model._many_small_products):
        learned = model._fit(X, Y_used, progress, **options)
    progress.close()
    if model._paired:
        confidence = learned.confidence[Y_used.indices == 0]
        learned, Y_used = replace(learned, confidence=confidence, scores=difference(learned.scores)), Y

    default = model._names_of_columns or [f"label_{k}" for k in range(Y.shape[1])]
    _keep(model, learned, classes, names or default if table is None else table.label_names, form, table)
    # Same pattern as Y: rows that were left out have no candidates.
    model.label_confidence_ = sparse.csr_array((np.clip(learned.confidence, 0.0, 1.0), Y.indices, Y.indptr), Y.shape)
    has_candidates = labelled_rows(Y_used)
    weight = options.get("sample_weight")
    if learned.rows is not None:
        confidence, scores = model.label_confidence_[labelled][learned.rows], learned.scores
        model._fit_rule((scores, confidence, confidence.data), None if weight is None else weight[learned.rows])
    else:
        scores = learned.scores[has_candidates]
        sample = learned.sample or (scores, Y_used[has_candidates], learned.confidence)
        model._fit_rule(sample, None if weight is None else weight[has_candidates])
    record = Y_used[has_candidates], scores if model._cross_fits else None
    if model._cross_fits and sparse.issparse(scores):
        assert learned.sample is not None
        model.out_of_fold_scores_, record = learned.scores, (learned.sample[1], learned.sample[0])
    elif model._cross_fits:
        model.out_of_fold_scores_ = np.full(Y.shape, np.nan, dtype=np.float32)
        model.out_of_fold_scores_[labelled] = scores
    model.training_record_ = training_record(*record)


def in_blocks(model: Any, X: Any, y: Any, sample_weight: Any, verified: Any) -> None:
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
    with one_blas_thread(when=model._many_small_products and rows.n_rows < _MANY_ROWS):
        learned = model._fit_blocks(rows, progress, **options)
    progress.close()
    _keep(model, learned, np.arange(rows.n_labels), rows.label_names, rows.label_format, rows.table)
    state = rows.engine.map(_confidence, rows.Y, learned.confidence, keep=False)
    model.label_confidence_ = rows.as_array(state, width=rows.n_labels, dtype=np.float64, is_sparse=True)
    model._fit_rule(learned.sample, None)
    if model._cross_fits:
        model.out_of_fold_scores_ = rows.lazy(_single_precision, learned.scores, width=rows.n_labels, dtype=np.float32)
    model.training_record_ = training_record(learned.sample[1], learned.sample[0] if model._cross_fits else None)
    rows.engine.finish()


def _keep(
    model: Any, learned: Learned | LearnedBlocks, classes: Any, names: Any, form: LabelFormat, table: Any
) -> None:
    """Keep names, formats and the trace of the objective."""
    model.classes_, model.label_names_ = classes, np.asarray(names, dtype=object)
    model._label_format = asdict(form)  # A dict, because model files hold plain types.
    model.__dict__.pop("table_reader_", None)
    if (reader := getattr(table, "table_reader", None)) is not None:
        model.table_reader_ = reader
    if learned.objective is not None:
        model.objective_ = learned.objective
    if learned.n_iter is not None:
        model.n_iter_ = learned.n_iter


def difference(scores: FloatArray) -> FloatArray:
    """Return the scores of a single label that was learned as two: "present" minus "absent"."""
    return np.asarray(scores[:, :1] - scores[:, 1:])


def _confidence(Y: CSR, confidence: FloatArray) -> CSR:
    return sparse.csr_array((np.clip(confidence, 0.0, 1.0), Y.indices, Y.indptr), Y.shape)


def _single_precision(scores: FloatArray) -> FloatArray:
    return scores.astype(np.float32)


def describe(y: Any) -> tuple[Any, LabelFormat, list[str | int] | None]:
    """Return what scikit-learn can validate (an indicator for names per row), the format, and the names if any."""
    if is_frame(y):
        refuse_texts(y, "y")
    if names_per_row(y, "y") is None:
        return y, label_format(y), column_names(y)
    labels = read_labels(y, "y")
    return labels.indicator, labels.format, labels.names


def candidates(y: Any, form: LabelFormat) -> tuple[CSR, Any]:
    """Return validated candidates as a CSR array of ones, and the classes.

    `form`: the format in which they were given. Returns `classes`: the two classes of a 1-D `y`, otherwise the label
    numbers.
    """
    if not sparse.issparse(y) and np.ndim(y) == 1:
        return _one_label(y)
    if not sparse.issparse(y) and y.dtype.kind == "f" and type_of_target(y).startswith("continuous"):
        check_classification_targets(y)
    indicator = read_labels(y, "y").indicator
    if indicator.shape[1] == 1 and not form.has_names_per_row:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected: it is read as a single label, 1 where "
            "it is present and 0 where it is absent, and no row counts as unlabelled.",
            DataConversionWarning,
            stacklevel=5,
        )
    return indicator.astype(np.float64).copy(), np.arange(indicator.shape[1])


def _one_label(y: Any) -> tuple[CSR, Any]:
    check_classification_targets(y)
    classes = np.unique(y)
    if len(classes) > 2:
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {type_of_target(y)}. "
            "Give several labels as a list of label names per row, or as an indicator of 0/1."
        )
    if len(classes) < 2:
        raise ValueError(f"y holds only one class ({classes[0]!r}): a single label needs rows with and without it.")
    return sparse.csr_array((y == classes[1]).astype(np.float64)[:, None]), classes


def present_and_absent(Y: CSR) -> CSR:
    """Return a single label as two labels that exclude each other."""
    present = Y.toarray()
    return sparse.csr_array(np.hstack([present, 1.0 - present]))


def labelled_rows(Y: CSR) -> BoolArray:
    """Return which rows have a candidate; with one label, all have."""
    if Y.shape[1] == 1:
        return np.ones(Y.shape[0], dtype=bool)
    labelled: BoolArray = np.diff(Y.indptr) > 0
    if not labelled.any():
        raise ValueError("y has no candidate label in any row: there is nothing to learn from.")
    return labelled
