"""`clean` for a table at hand, `LabelCleaner` for pipelines."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
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
    as_csr,
    as_ids,
    as_indicator,
    as_media,
    in_format,
    is_table,
    read_labels,
    row_hash,
)
from pmlkit._typing import FloatArray
from pmlkit._words import listing
from pmlkit.blocks import holds_blocks
from pmlkit.cleaning.audit.answers import Settle
from pmlkit.cleaning.audit.engine import with_answers
from pmlkit.cleaning.calibration import false_probability
from pmlkit.cleaning.estimates import assess
from pmlkit.cleaning.evidence import (
    checked_probabilities,
    cross_fit,
    fit_to_blocks,
    given_evidence,
    judged_blocks,
    predicts_labels,
    row_keys,
    well_predicted,
)
from pmlkit.cleaning.result import CleaningResult
from pmlkit.data.files.side_features import read_probabilities
from pmlkit.methods import labels, make_classifier
from pmlkit.methods.base import BasePML
from pmlkit.methods.model_file import model_file_state


class _Validator(BaseEstimator):
    """Carries scikit-learn's validation, which wants an estimator."""


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
    on_fit: Callable[[Any], Any] = lambda model: None,
    on_comparison: Callable[[], Any] = lambda: None,
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
    Y : array, sparse matrix or DataFrame of shape (n_samples, n_labels)
        Candidates: 1 where a label was given to a row.
    pred_probs : array, DataFrame or path, optional
        Out-of-sample probabilities of a model of your own, of shape (n_samples, n_labels), as of cross-validation: they
        are the evidence then, and no model is fitted. A file may be ``.npy``, ``.npz`` or Parquet.
    method : "auto", name of a method, or estimator, default="auto"
        Who judges. ``"auto"`` is the best there is for cleaning. An estimator needs ``decision_function`` or
        ``predict_proba``; unless it cross-fits inside, it is fitted once per fold.
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
        By default the columns of a DataFrame.
    row_names : sequence, optional
        How the rows are called in reasons and reports; by default by their number.
    media : array of uint8 images or sequence of texts, optional
        What a person sees of each row, for the report.
    verified : Answers, DataFrame, path of a CSV file or audit, optional
        Answers of people, with the columns ``row`` (or ``id``, as in `row_names`), ``label`` and ``answer`` ("wrong",
        "right" or "unsure"): wrong ones are removed, right ones stay, and doubts of the others are learned from them.
    settle : {"latest", "majority"}, default="latest"
        Which of several answers about one label counts; a tie of the majority comes to "unsure".
    on_fit : callable, optional
        Called with each estimator before it is fitted, to watch it.
    on_comparison : callable, optional
        Called without arguments after each of the two comparisons with injected cells, which follow all fits.

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
    if Y is None:
        raise ValueError("Y must be given: the candidates to judge.")
    if X is None and pred_probs is None and blocks is None:
        raise ValueError("X must be given, the features to judge labels by, or pred_probs, a model's probabilities.")
    if every_row_has_a_label not in (True, False, "auto"):
        raise ValueError(f"every_row_has_a_label must be True, False or 'auto', got {every_row_has_a_label!r}.")
    if empty_rows not in ("auto", "unlabelled", "negative"):
        raise ValueError(f"empty_rows must be 'auto', 'unlabelled' or 'negative', got {empty_rows!r}.")
    given = read_labels(Y, names=label_names)
    names = label_names if label_names is not None else given.names
    X, candidates = _validated(X, given.indicator)
    candidates = candidates.astype(np.float64)
    n_rows, n_labels = candidates.shape
    if n_labels == 1:
        raise ValueError(
            "Y holds a single label: a label is doubted by comparing it with others, so at least two are needed."
        )
    if not candidates.nnz:
        raise ValueError("Y has no candidate label in any row: there is nothing to clean.")
    names = tuple(str(name) for name in (names if names is not None else [f"label_{k}" for k in range(n_labels)]))
    if len(names) != n_labels:
        raise ValueError(f"label_names must name the {n_labels} labels, got {len(names)}.")
    count = np.bincount(candidates.indices, minlength=n_labels)
    # A label on every row has nothing to be compared with.
    judged = np.flatnonzero((count >= max(min_rows, 1)) & (count < n_rows))
    if len(judged) < 2:
        raise ValueError(
            f"Fewer than two labels are on at least {max(min_rows, 1)} rows but not on all of them: there is too "
            "little to judge any label by."
        )
    part = as_csr(candidates[:, judged])
    if pred_probs is not None:
        if isinstance(pred_probs, str | os.PathLike):
            pred_probs = read_probabilities(pred_probs, n_rows)
        probabilities = checked_probabilities(pred_probs, (n_rows, n_labels), names)
        evidence = given_evidence(probabilities[:, judged], part)
    else:
        model = make_classifier(method)
        said = {"every_row_has_a_label": every_row_has_a_label, "empty_rows": empty_rows}
        known = model.get_params()
        model.set_params(**{name: value for name, value in said.items() if value != "auto" and name in known})
        if blocks is None:
            judged_names = [names[k] for k in judged]
            evidence = cross_fit(model, X, part, n_folds=n_folds, label_names=judged_names, on_fit=on_fit)
        else:
            evidence = fit_to_blocks(model, blocks, judged, part, on_fit=on_fit)
    if not predicts_labels(evidence.scores, part):
        what = f"features{_used_columns(table)}" if pred_probs is None else "probabilities"
        raise ValueError(
            f"The {what} do not predict the labels any better than chance, so no label can be judged by them: choose "
            "others."
        )
    verdict = assess(
        false_probability(evidence.scores, part, evidence.confidence),
        evidence.scores,
        part,
        row_hash(evidence.scores if X is None else X) if blocks is None else row_keys(blocks),
        calibrated=evidence.confidence is not None,
        every_row_has_a_label=every_row_has_a_label,
        on_comparison=on_comparison,
    )
    doubt = np.zeros(candidates.nnz)
    doubt[np.isin(candidates.indices, judged)] = verdict.doubt
    scores = evidence.scores
    predicted = np.zeros(n_labels, dtype=bool)
    predicted[judged] = well_predicted(evidence.scores, part)
    if len(judged) < n_labels:
        scores = np.tile((count / n_rows).astype(np.float32), (n_rows, 1))
        scores[:, judged] = evidence.scores
    result = CleaningResult(
        X=X,
        Y=candidates,
        doubt=doubt,
        scores=scores,
        label_names=names,
        row_names=as_ids(row_names, n_rows),
        media=as_media(media, n_rows),
        rare_labels=np.setdiff1d(np.flatnonzero(count), judged),
        method=evidence.method,
        given=given.format if blocks is None else blocks.label_format,
        overall_rate=verdict.noise_rate,
        random_mistakes_=verdict.random_mistakes,
        safe_depths=verdict.safe_depths,
        predicted_labels=predicted,
        calibrated=evidence.confidence is not None,
    )
    return result if verified is None else with_answers(result, verified, settle)


def _used_columns(table: Any) -> str:
    """Return from which columns of a table features were made; those that were not named are none."""
    columns = getattr(table, "feature_columns", None)
    if columns is None or not columns.names:
        return ""
    return f" of {listing(columns.names)}{f', without {listing(columns.left_out)},' if columns.left_out else ''}"


def _validated(X: Any, Y: Any) -> tuple[Any, Any]:
    """Return features, or None, and candidates as scikit-learn's validation makes them."""
    table = np.zeros((Y.shape[0], 1)) if X is None else X
    table, y = validate_data(
        _Validator(), table, Y, accept_sparse="csr", dtype=[np.float64, np.float32], multi_output=True,
        ensure_min_samples=2,
    )  # fmt: skip
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
        Who judges, as in `clean`.
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
    label_confidence_ : CSR array of shape (n_rows, n_labels)
        How likely each candidate is true.

    Examples
    --------
    >>> from pmlkit import CandidateLogistic
    >>> from pmlkit.cleaning import LabelCleaner
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
        given, form, names = labels.describe(y)
        _, target = validate_data(
            self, X, given, accept_sparse="csr", dtype=[np.float64, np.float32], multi_output=True
        )
        Y, self.classes_ = labels.candidates(target, form)
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
