"""Public entry points: the function `clean` and the estimator `LabelCleaner`."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from pmlkit._arrays import (
    LabelFormat,
    Media,
    as_csr,
    as_ids,
    as_indicator,
    as_media,
    in_format,
    is_table,
    numbers_wanted,
    read_labels,
    row_hash,
)
from pmlkit._typing import CSR, Features, FloatArray, IntArray
from pmlkit._words import listing
from pmlkit.blocks import RowBlocks, holds_blocks
from pmlkit.cleaning.audit.answers import Settle
from pmlkit.cleaning.audit.engine import with_answers
from pmlkit.cleaning.calibration import false_probability
from pmlkit.cleaning.estimates import Verdict, assess
from pmlkit.cleaning.evidence import (
    Evidence,
    block_row_keys,
    checked_probabilities,
    cross_fit,
    fit_to_blocks,
    given_evidence,
    judged_blocks,
    predicts_labels,
    well_predicted,
)
from pmlkit.cleaning.result import CleaningResult
from pmlkit.methods import fitting, make_classifier
from pmlkit.methods.base import BasePML, model_file_state
from pmlkit.methods.progress import FitProgress


class _Validator(BaseEstimator):
    """Estimator for scikit-learn's `validate_data`."""


def clean(
    X: Any = None,
    Y: Any = None,
    *,
    pred_probs: Any = None,
    method: Any = "auto",
    every_row_has_a_label: bool | Literal["auto"] = "auto",
    empty_rows: Literal["auto", "unlabelled", "negative"] = "auto",
    n_folds: int = 5,
    min_rows: int = 5,
    label_names: Sequence[str] | None = None,
    row_names: Sequence[Any] | None = None,
    media: Any = None,
    verified: Any = None,
    settle: Settle = "latest",
    on_progress: Callable[[int, int | None], Any] | None = None,
) -> CleaningResult:
    """Find the candidates that are probably wrong.

    Only candidates are judged, each by models that never saw its row. Nothing is said about a row without candidates.

    Parameters
    ----------
    X : array, sparse matrix or DataFrame of shape (n_samples, n_features), optional
        Numbers only; `pmlkit.open_table` makes them of texts and categories. May be left out if there are `pred_probs`.
        Or a `Table` or `PMLDataset`, which has its own labels, names and media. Or `RowBlocks`, a table of many files
        or a Dask collection, up to 40 million cells (rows times labels): features stay in their blocks, so that there
        are no similar rows among the reasons.
    Y : candidate labels, optional
        An indicator of shape (n_samples, n_labels), 1 where a label was given to a row: array, sparse matrix or
        DataFrame. Or a list, pandas or polars Series or object array of label names per row.
    pred_probs : array, DataFrame or path, optional
        Out-of-sample probabilities of a model of your own, of shape (n_samples, n_labels), as of cross-validation: they
        are the evidence then, and no model is fitted. A file may be ``.npy``, ``.npz`` or Parquet.
    method : "auto", name of a method, or estimator, default="auto"
        The method that scores the candidates. ``"auto"`` is `ClearPML`. An estimator needs ``decision_function``
        or ``predict_proba``; unless it cross-fits inside, it is fitted once per fold.
    every_row_has_a_label : bool or "auto", default="auto"
        Whether at least one candidate of each row is true. "auto" takes it to be so unless some rows have no
        candidates. In labels given by crowds it often is not.
    empty_rows : {"auto", "unlabelled", "negative"}, default="auto"
        Whether rows without candidates were not labelled yet or have no label, for the methods that tell them apart
        (ClearPML). What "auto" decided, and why, is part of `CleaningResult.method` and of the report.
    n_folds : int, default=5
        Folds for methods that do not cross-fit inside.
    min_rows : int, default=5
        Labels on fewer rows are left alone.
    label_names : sequence of str, optional
        By default the columns of a DataFrame, or the sorted names per row.
    row_names : sequence, optional
        Names of the rows in reasons and reports; by default their numbers.
    media : array of uint8 images or sequence of texts, optional
        What a person sees of each row, for the report.
    verified : Answers, DataFrame, path of a CSV file or audit, optional
        Answers of people, with the columns ``row`` (or ``id``, as in `row_names`), ``label`` and ``answer`` ("wrong",
        "right" or "unsure"): wrong ones are removed, right ones stay, and doubts of the others are learned from them.
    settle : {"latest", "majority"}, default="latest"
        Which of several answers about one label counts; a tied majority counts as "unsure".
    on_progress : callable, optional
        Called after each step with the number of steps that are done and of all steps, None where that is unknown.
        Steps are the iterations of a fit, where scikit-learn has callbacks (1.9 and newer), and two comparisons
        afterwards. Each fit restarts at 0.

    Returns
    -------
    result : CleaningResult

    Examples
    --------
    >>> from pmlkit.cleaning import clean
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(300)
    >>> result = clean(strips.X, strips.Y, label_names=strips.label_names, media=strips.media)
    >>> result.noise_rate_.overall.low <= result.noise_rate_.overall <= result.noise_rate_.overall.high
    True
    """
    if every_row_has_a_label not in (True, False, "auto"):
        raise ValueError(f"every_row_has_a_label must be True, False or 'auto', got {every_row_has_a_label!r}.")
    if empty_rows not in ("auto", "unlabelled", "negative"):
        raise ValueError(f"empty_rows must be 'auto', 'unlabelled' or 'negative', got {empty_rows!r}.")
    given = _read(X, Y, pred_probs, label_names, row_names, media)
    judged = _labels_to_judge(given.Y, min_rows)
    candidates = as_csr(given.Y[:, judged])
    steps = _Steps(on_progress)
    if pred_probs is not None:
        probabilities = checked_probabilities(pred_probs, given.Y.shape, given.label_names)
        evidence = given_evidence(probabilities[:, judged], candidates)
    else:
        model = _judge(method, every_row_has_a_label=every_row_has_a_label, empty_rows=empty_rows)
        if given.blocks is None:
            names = [given.label_names[k] for k in judged]
            evidence = cross_fit(model, given.X, candidates, n_folds=n_folds, label_names=names, on_fit=steps.watch)
        else:
            evidence = fit_to_blocks(model, given.blocks, judged, candidates, on_fit=steps.watch)
    if not predicts_labels(evidence.scores, candidates):
        what = "probabilities" if pred_probs is not None else f"features{_used_columns(given.table)}"
        raise ValueError(
            f"The {what} do not predict the labels any better than chance, so no label can be judged by them: choose "
            "others."
        )
    verdict = assess(
        false_probability(evidence.scores, candidates, evidence.confidence),
        evidence.scores,
        candidates,
        given.row_keys(evidence),
        calibrated=evidence.confidence is not None,
        saw_labels=evidence.saw_labels,
        every_row_has_a_label=every_row_has_a_label,
        on_comparison=steps.advance,
    )
    result = _result(given, judged, candidates, evidence, verdict)
    return result if verified is None else with_answers(result, verified, settle)


@dataclass(frozen=True, eq=False)
class _Given:
    """What `clean` was given, in one form.

    `blocks`: rows that stay where they are, without `X`. `table`: where the rows came from, for messages.
    """

    X: Features | None
    Y: CSR
    label_names: tuple[str, ...]
    row_names: Sequence[Any] | None
    media: Media | None
    label_format: LabelFormat
    blocks: RowBlocks | None
    table: Any

    def row_keys(self, evidence: Evidence) -> IntArray:
        """Return numbers that identify the rows by their content, or where there is none by the evidence."""
        if self.blocks is not None:
            return block_row_keys(self.blocks)
        return row_hash(evidence.scores if self.X is None else self.X)


def _read(X: Any, Y: Any, pred_probs: Any, label_names: Any, row_names: Any, media: Any) -> _Given:
    """Validate rows and candidates of any kind; what is not given is taken from the table, if X is one."""
    blocks = table = None
    if holds_blocks(X):
        blocks, Y = judged_blocks(X, Y, pred_probs)
        X, table = None, blocks.table
        label_names = blocks.label_names if label_names is None else label_names
    elif Y is None and is_table(X):
        table, X, Y = X, X.X, X.Y
        label_names = table.label_names if label_names is None else label_names
    if table is not None:
        row_names = getattr(table, "row_names", getattr(table, "ids", None)) if row_names is None else row_names
        media = table.media if media is None else media
    if Y is None and isinstance(X, str | os.PathLike):
        raise ValueError(f"X must be features or a table, got the path {str(X)!r}: open it by pmlkit.open_table.")
    if Y is None:
        raise ValueError("Y must be given: the candidates to judge.")
    if X is None and pred_probs is None and blocks is None:
        raise ValueError("X must be given, the features to judge labels by, or pred_probs, a model's probabilities.")
    given = read_labels(Y, names=label_names)
    X, candidates = _validated(X, given.indicator)
    n_rows, n_labels = candidates.shape
    if n_labels == 1:
        raise ValueError(
            "Y holds a single label: a label is doubted by comparing it with others, so at least two are needed."
        )
    if not candidates.nnz:
        raise ValueError("Y has no candidate label in any row: there is nothing to clean.")
    names = label_names if label_names is not None else given.names
    names = tuple(str(name) for name in (names if names is not None else [f"label_{k}" for k in range(n_labels)]))
    if len(names) != n_labels:
        raise ValueError(f"label_names must name the {n_labels} labels, got {len(names)}.")
    return _Given(
        X=X,
        Y=candidates.astype(np.float64),
        label_names=names,
        row_names=as_ids(row_names, n_rows),
        media=as_media(media, n_rows),
        label_format=given.format if blocks is None else blocks.label_format,
        blocks=blocks,
        table=table,
    )


def _labels_to_judge(Y: CSR, min_rows: int) -> IntArray:
    """Return the labels on enough rows; a label on every row has nothing to be compared with."""
    count = np.bincount(Y.indices, minlength=Y.shape[1])
    judged = np.flatnonzero((count >= max(min_rows, 1)) & (count < Y.shape[0]))
    if len(judged) < 2:
        raise ValueError(
            f"Fewer than two labels are on at least {max(min_rows, 1)} rows but not on all of them: there is too "
            "little to judge any label by."
        )
    return judged


def _judge(method: Any, **said: Any) -> Any:
    """Return the unfitted method, told what is known of the rows as far as it has parameters for it."""
    model = make_classifier(method)
    known = model.get_params()
    return model.set_params(**{name: value for name, value in said.items() if value != "auto" and name in known})


def _result(given: _Given, judged: IntArray, candidates: CSR, evidence: Evidence, verdict: Verdict) -> CleaningResult:
    """Put what is known of the judged labels among all labels: the others have no doubts, and their share as scores."""
    (n_rows, n_labels), Y = given.Y.shape, given.Y
    count = np.bincount(Y.indices, minlength=n_labels)
    doubt = np.zeros(Y.nnz)
    doubt[np.isin(Y.indices, judged)] = verdict.doubt
    predicted = np.zeros(n_labels, dtype=bool)
    predicted[judged] = well_predicted(evidence.scores, candidates)
    scores = evidence.scores
    if len(judged) < n_labels:
        scores = np.tile((count / n_rows).astype(np.float32), (n_rows, 1))
        scores[:, judged] = evidence.scores
    return CleaningResult(
        X=given.X,
        Y=Y,
        doubt=doubt,
        scores=scores,
        label_names=given.label_names,
        row_names=given.row_names,
        media=given.media,
        rare_labels=np.setdiff1d(np.flatnonzero(count), judged),
        method=evidence.method + _said_of_empty_rows(evidence.empty_rows, Y, candidates),
        given=given.label_format,
        overall_rate=verdict.noise_rate,
        random_mistakes_=verdict.random_mistakes,
        safe_depths=verdict.safe_depths,
        predicted_labels=predicted,
        calibrated=evidence.confidence is not None,
    )


def _said_of_empty_rows(taken_for: str, Y: CSR, candidates: CSR) -> str:
    """Say what rows without labels were taken for; a row may have labels, but none that is judged."""
    if not taken_for:
        return ""
    has_others = (np.diff(candidates.indptr) == 0) & (np.diff(Y.indptr) > 0)
    return f"; rows without {'judged ' if has_others.any() else ''}labels taken for {taken_for}"


class _Steps:
    """Count the iterations of a fit, as far as scikit-learn reports them, and the two comparisons that follow it."""

    def __init__(self, on_progress: Callable[[int, int | None], Any] | None) -> None:
        self._on_progress, self._done = on_progress, 0
        self._total: int | None = None

    def watch(self, model: Any) -> None:
        """Follow the fit of an estimator."""
        if self._on_progress is not None and hasattr(model, "set_callbacks"):
            model.set_callbacks(FitProgress(self))

    def expect(self, total: int | None) -> None:
        """Start counting for a fit of `total` iterations."""
        self._done, self._total = -1, None if total is None else total + 2
        self.advance()

    def advance(self) -> None:
        """Report one more step."""
        self._done += 1
        if self._on_progress is not None:
            self._on_progress(self._done, self._total)


def _used_columns(table: Any) -> str:
    """Return from which columns of a table features were made; those that were not named are none."""
    columns = getattr(table, "feature_columns", None)
    if columns is None or not columns.names:
        return ""
    return f" of {listing(columns.names)}{f', without {listing(columns.left_out)},' if columns.left_out else ''}"


def _validated(X: Any, Y: Any) -> tuple[Any, Any]:
    """Return features, or None, and candidates as scikit-learn's validation makes them."""
    table = np.zeros((Y.shape[0], 1)) if X is None else X
    with numbers_wanted("clean"):
        table, y = validate_data(
            _Validator(), table, Y, accept_sparse="csr", dtype=[np.float64, np.float32], multi_output=True
        )
    if y.shape[0] == 1:
        raise ValueError("X has n_samples=1, but labels are judged by comparing rows: give at least two.")
    if X is None:
        return None, y
    return as_csr(table) if sparse.issparse(table) else table, y


def _final_has(name: str) -> Callable[[Any], bool]:
    def check(self: Any) -> bool:
        fitted = getattr(self, "estimator_", None)
        return hasattr(fitted if fitted is not None else make_classifier(self.estimator or self.method), name)

    return check


class LabelCleaner(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Remove the labels that are probably wrong, then fit an estimator on the rest.

    The form of `clean` that stands at the end of a scikit-learn pipeline: transformers cannot change labels, a
    classifier that cleans before it learns can.

    Parameters
    ----------
    estimator : estimator, optional
        Learns from the cleaned labels; by default the same kind as `method`.
    method : "auto", name of a method, or estimator, default="auto"
        The method that judges the labels, as in `clean`.
    precision : float, default=0.9
        Share of the removed labels that should be wrong indeed.
    keep_at_least_one : bool, default=True
        Never remove the most trusted candidate of a row.
    n_folds : int, default=5
        Folds for methods that do not cross-fit inside.
    min_rows : int, default=5
        Labels on fewer rows are left alone.

    Attributes
    ----------
    result_ : CleaningResult or None
        What was found in the labels; None with a single label.
    estimator_ : estimator
        Fitted on the cleaned labels.
    label_confidence_ : CSR array of shape (n_samples, n_labels)
        How likely each candidate is true.

    Examples
    --------
    >>> from pmlkit import CandidateLogistic, LabelCleaner
    >>> from pmlkit.data import load_digit_strips
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> strips = load_digit_strips(300)
    >>> model = make_pipeline(StandardScaler(), LabelCleaner(CandidateLogistic()))
    >>> model.fit(strips.X, strips.Y).predict(strips.X).shape
    (300, 10)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "method": [str, HasMethods("fit")],
        "precision": [Interval(Real, 0, 1, closed="right")],
        "keep_at_least_one": ["boolean"],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        "min_rows": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: Any = "auto",
        precision: float = 0.9,
        keep_at_least_one: bool = True,
        n_folds: int = 5,
        min_rows: int = 5,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.precision = precision
        self.keep_at_least_one = keep_at_least_one
        self.n_folds = n_folds
        self.min_rows = min_rows

    def __getstate__(self) -> dict[str, Any]:
        return model_file_state(super().__getstate__(), ("result_",))

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Clean the candidates and learn from what is left.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
        y : candidate labels
            In any format that `clean` takes. A single label, or a 1-D array of two classes, is learned as it is:
            labels are judged by comparing them with others.
        """
        self._validate_params()
        given, form, names = fitting.describe(y)
        _, target = validate_data(
            self, X, given, accept_sparse="csr", dtype=[np.float64, np.float32], multi_output=True
        )
        Y, self.classes_ = fitting.candidates(target, form)
        self.result_ = None
        self.label_confidence_ = Y
        if Y.shape[1] > 1:
            self.result_ = clean(X, y, method=self.method, n_folds=self.n_folds, min_rows=self.min_rows)
            self.label_confidence_ = self.result_.confidence
            y = self.result_.cleaned(y, precision=self.precision, keep_at_least_one=self.keep_at_least_one)
        self.label_names_ = np.asarray(names or [f"label_{k}" for k in range(Y.shape[1])], dtype=object)
        estimator = make_classifier(self.method if self.estimator is None else self.estimator)
        # Estimators of other packages know indicators only.
        self._answer_format = asdict(form) if form.has_names_per_row and not isinstance(estimator, BasePML) else None
        self.estimator_ = estimator.fit(X, y if self._answer_format is None else as_indicator(y, names=names).toarray())
        return self

    def predict(self, X: Any) -> Any:
        """Predict a set of labels for every row, by the fitted estimator."""
        check_is_fitted(self)
        answer = self.estimator_.predict(X)
        if self._answer_format is None:
            return answer
        return in_format(np.asarray(answer) > 0, LabelFormat(**self._answer_format), self.label_names_, like=X)

    @available_if(_final_has("decision_function"))
    def decision_function(self, X: Any) -> FloatArray:
        """Score every label for every row, by the fitted estimator."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.decision_function(X))

    @available_if(_final_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the fitted estimator."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @available_if(_final_has("predict_top_k"))
    def predict_top_k(self, X: Any, k: int) -> tuple[Any, FloatArray]:
        """Return the k best labels of every row and their scores, by the fitted estimator."""
        check_is_fitted(self)
        answer: tuple[Any, FloatArray] = self.estimator_.predict_top_k(X, k)
        return answer
