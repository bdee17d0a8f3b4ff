"""The two doors: `clean` for a table at hand, `LabelCleaner` for pipelines."""

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from pmlkit._arrays import as_csr
from pmlkit._labels import read_labels
from pmlkit._typing import FloatArray
from pmlkit._validation import as_ids, as_media
from pmlkit.cleaning.calibration import false_probability
from pmlkit.cleaning.evidence import cross_fit
from pmlkit.cleaning.foretelling import foretells
from pmlkit.cleaning.result import CleaningResult
from pmlkit.methods import make_classifier

__all__ = ["LabelCleaner", "clean"]


class _Validator(BaseEstimator):
    """Carries scikit-learn's validation, which wants an estimator."""


def clean(
    X: Any,
    Y: Any,
    *,
    method: Any = "auto",
    n_folds: int = 5,
    min_rows: int = 5,
    label_names: Sequence[str] | None = None,
    row_names: Sequence[Any] | None = None,
    media: Any = None,
    on_fit: Callable[[Any], Any] = lambda model: None,
) -> CleaningResult:
    """Find the candidates that are probably wrong.

    Only candidates are judged, each by models that never saw its row. A row without candidates is unlabelled: it
    is not an error and nothing is said about it.

    Parameters
    ----------
    X : array, sparse matrix or DataFrame of shape (n_rows, n_features)
        Numbers only; `pmlkit.tables` makes them of texts and categories.
    Y : array, sparse matrix or DataFrame of shape (n_rows, n_labels)
        Candidates: 1 where a label was given to a row.
    method : "auto", name of a method, or estimator, default="auto"
        Who judges. ``"auto"`` is the best there is for cleaning. An estimator needs ``decision_function`` or
        ``predict_proba``; unless it cross-fits inside, it is fitted once per fold.
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
    on_fit : callable, optional
        Called with each estimator before it is fitted, to watch it.

    Returns
    -------
    result : CleaningResult

    Examples
    --------
    >>> from pmlkit.cleaning import clean
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(300)
    >>> result = clean(strips.X, strips.Y, label_names=strips.label_names, media=strips.media)
    >>> bool(0.2 < result.noise_rate_.overall.rate < 0.7)
    True
    """
    labels = read_labels(Y, names=label_names)
    names = label_names if label_names is not None else labels.names
    X, candidates = validate_data(
        _Validator(),
        X,
        labels.indicator,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        multi_output=True,
        ensure_min_samples=2,
    )
    X = as_csr(X) if sparse.issparse(X) else X
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
            f"Fewer than two labels are on at least {min_rows} rows: there is too little to judge any label by."
        )
    part = as_csr(candidates[:, judged])
    evidence = cross_fit(make_classifier(method), X, part, n_folds=n_folds, on_fit=on_fit)
    if not foretells(evidence.scores, part):
        raise ValueError(
            "The features do not foretell the labels any better than chance, so no label can be judged by them: choose "
            "others."
        )
    doubt = np.zeros(candidates.nnz)
    doubt[np.isin(candidates.indices, judged)] = false_probability(evidence.scores, part, evidence.confidence)
    scores = evidence.scores
    if len(judged) < n_labels:
        scores = np.tile((count / n_rows).astype(np.float32), (n_rows, 1))
        scores[:, judged] = evidence.scores
    return CleaningResult(
        X=X,
        Y=candidates,
        doubt=doubt,
        scores=scores,
        label_names=names,
        row_names=as_ids(row_names, n_rows),
        media=as_media(media, n_rows),
        rare_labels=np.setdiff1d(np.flatnonzero(count), judged),
        method=evidence.method,
        given=labels.format,
    )


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
    result_ : CleaningResult
        What was found in the labels.
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

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Clean the candidates and learn from what is left.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_rows, n_features)
        y : array, sparse matrix or DataFrame of shape (n_rows, n_labels)
            Candidates.
        """
        self._validate_params()
        result = clean(X, y, method=self.method, n_folds=self.n_folds, min_rows=self.min_rows)
        cleaned = result.cleaned(y, precision=self.precision, keep_at_least_one=self.keep_at_least_one)
        estimator = make_classifier(self.method if self.estimator is None else self.estimator)
        self.estimator_ = estimator.fit(X, cleaned)
        self.result_ = result
        self.label_confidence_ = result.confidence
        self.label_names_ = np.asarray(result.label_names, dtype=object)
        self.classes_ = np.arange(result.Y.shape[1])
        self.n_features_in_ = result.X.shape[1]
        return self

    def predict(self, X: Any) -> Any:
        """Give every row a set of labels, as the fitted estimator does."""
        check_is_fitted(self)
        return self.estimator_.predict(X)

    @available_if(_final_has("decision_function"))
    def decision_function(self, X: Any) -> FloatArray:
        """Score every label for every row, as the fitted estimator does."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.decision_function(X))

    @available_if(_final_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Return the fitted estimator's probabilities."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)
