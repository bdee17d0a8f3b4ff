"""Base class of all methods: validation, label formats, thresholds, confidences, and what is written to model files.

A method subclasses :class:`BasePML`, assigns its parameters in ``__init__`` and implements two
functions on validated arrays, ``_fit`` and ``_scores``. Everything else is here.
"""

import copy
from abc import ABCMeta, abstractmethod
from collections.abc import Collection, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from pmlkit._arrays import LabelFormat, as_csr, in_format, is_table, moderate, numbers_wanted, ranked_names
from pmlkit._typing import CSR, Features, FloatArray, IntArray
from pmlkit.blocks import RowBlocks, as_row_blocks, holds_blocks
from pmlkit.methods import fitting
from pmlkit.methods.fitting import Learned, LearnedBlocks
from pmlkit.methods.model_card import card_text
from pmlkit.methods.progress import CallbackSupportMixin, Progress, with_callbacks
from pmlkit.methods.threads import one_of_each_warning
from pmlkit.methods.thresholds import THRESHOLD_CONSTRAINT, LabelRule, calibrated, fit_curve, fit_threshold

__all__ = ["BasePML", "Learned", "LearnedBlocks"]

_SCORES_AT_ONCE = 16_000_000
"""Scores that are in memory at a time while label sets, or the best labels, are made of them."""

writing_model_file: ContextVar[bool] = ContextVar("writing_model_file", default=False)
"""True while `pmlkit.persistence` writes a model: state that only training needs is then left out."""
_ONLY_FOR_TRAINING = ("out_of_fold_scores_", "_index", "_skl_callbacks")

_SINGLE_PRECISION = {"coef_", "coef_factors_", "dual_coef_"}
_LARGE_MATRIX = 250_000
"""Cells beyond which coefficients are written to model files in single precision."""


class BasePML(CallbackSupportMixin, ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of all methods that learn from candidate labels.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_samples, n_labels)
        How likely each candidate of the training rows is true, in [0, 1]; only candidates are stored.
    label_names_ : object array of shape (n_labels,)
        Names of the labels, in the order of the columns; ``label_0``, ``label_1``, ... if `y` has none.
    classes_ : array
        The numbers of the labels; for a 1-D `y` its two classes.
    out_of_fold_scores_ : float32 array of shape (n_samples, n_labels)
        Scores of the training rows by models that did not see the row's labels; NaN in rows without candidates. Only of
        methods that cross-fit.
    n_features_in_ : int
    feature_names_in_ : object array of shape (n_features,)
        Only if `X` has column names.

    Examples
    --------
    A method that scores every label by its frequency; ``docs/extending.md`` has one that learns.

    >>> import numpy as np
    >>> from pmlkit.methods.base import BasePML, Learned
    >>> class Frequency(BasePML):
    ...     def __init__(self, *, threshold="cardinality"):
    ...         self.threshold = threshold
    ...
    ...     def _fit(self, X, Y, progress):
    ...         self.rate_ = Y.mean(axis=0)
    ...         return Learned(confidence=self.rate_[Y.indices], scores=self._scores(X))
    ...
    ...     def _scores(self, X):
    ...         return np.tile(self.rate_, (X.shape[0], 1))
    >>> model = Frequency().fit([[0.0], [1.0], [2.0]], [["a", "b"], ["b"], ["b", "c"]])
    >>> model.predict_top_k([[5.0]], 1)[0]
    [['b']]
    """

    threshold: str | float

    _uses_unlabelled: ClassVar[bool] = False
    """Whether rows without candidates reach ``_fit``; otherwise they are left out."""

    _cross_fits: ClassVar[bool] = False
    """Whether the scores of training rows are made without the row's labels, and kept as ``out_of_fold_scores_``."""

    _cleaning_is_calibrated: ClassVar[bool] = False
    """Whether the map from evidence to doubts of `pmlkit.clean` was fitted to the confidences of this method."""

    _natural_cut: ClassVar[float] = 0.5
    """The score at which the method is undecided."""

    _one_label_as_two: ClassVar[bool] = False
    """Whether a single label is learned as two that exclude each other, "present" and "absent";
    scores are then the difference of the two. For methods that compare a row's labels."""

    _scores_are_probabilities: ClassVar[bool] = False
    """Whether the scores are probabilities: the method then has ``predict_proba``."""

    _calibrates: ClassVar[bool] = False
    """Whether ``predict_proba`` maps the scores to probabilities of the true labels, by a curve that is fitted
    to the training scores and the confidences. Without it, the scores are returned as they are."""

    _many_small_products: ClassVar[bool] = True
    """Whether fits to few rows are quicker with one thread of linear algebra, because it is many small steps."""

    _fits_blocks: ClassVar[bool] = False
    """Whether the method has ``_fit_blocks``, and so learns from data that is larger than memory."""

    _names_of_columns: Sequence[str] | None = None
    """The label names where ``y`` has none."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {"threshold": THRESHOLD_CONSTRAINT}

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        # Left False: scikit-learn's multi-output check wants `decision_function(X) > 0` to be the
        # prediction, which would forbid ranking scores that are probabilities. See docs/architecture.md.
        tags.target_tags.multi_output = False
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows and their candidate labels.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features), Table or PMLDataset
            A table or data set has its own labels; of a table the model remembers the columns, for
            ``pmlkit.open_table(new, like=model)``.
        y : candidate labels, in one of these formats
            - an indicator of shape (n_samples, n_labels): array, sparse matrix or DataFrame of 0/1,
              1 where a label was given to a row; a DataFrame's columns become `label_names_`;
            - a list (or pandas or polars Series, or object array) that holds a list, tuple or set of
              label names per row; the sorted names become `label_names_`;
            - a 1-D array of two classes: a single label.

            A row without any candidate is unlabelled. With a single label there are no unlabelled
            rows: the label is absent where it is not given.

        Returns
        -------
        self
        """
        self._fit_checked(X, y)
        return self

    @with_callbacks
    @one_of_each_warning()
    def _fit_checked(self, X: Any, y: Any, sample_weight: Any = None, verified: Any = None) -> None:
        self._validate_params()
        fit = fitting.in_blocks if holds_blocks(X) else fitting.in_memory
        fit(self, X, y, sample_weight, verified)

    def _fit_rule(self, sample: tuple[FloatArray, CSR, FloatArray], weight: FloatArray | None) -> None:
        """Fit the threshold and the curve of probabilities to scores, candidates and confidences of training rows."""
        natural_cut = 0.0 if self._paired else self._natural_cut
        rule = fit_threshold(self.threshold, *sample, natural_cut=natural_cut, weight=weight)
        self._curve = fit_curve(*sample) if self._calibrates and sample[1].shape[1] > 1 else (1.0, 0.0)
        self.threshold_weights_, self.threshold_offset_ = rule.weights, rule.offset
        self._at_least_one = rule.at_least_one

    def __getstate__(self) -> dict[str, Any]:
        return estimator_state(super().__getstate__())

    def decision_function(self, X: Any) -> Any:
        """Score every label for every row; higher means more likely.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        scores : array of shape (n_samples, n_labels)
            Columns in the order of `label_names_`. For a 1-D `y`: shape (n_samples,), with the
            threshold subtracted, as in scikit-learn.
        """
        check_is_fitted(self)
        if holds_blocks(X):
            return self._answers(X, _decision, len(self.label_names_))
        scores = self._scores_checked(X)
        return self._rule().margin(scores)[:, 0] if self._is_binary else scores

    @available_if(lambda self: self._scores_are_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of every label for every row.

        Only methods whose scores are probabilities have this function. Methods that estimate which candidates
        are true (ClearPML) return the probability that the label is true; methods that learn the candidates
        as they are return the probability that the label would be given.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        probabilities : array of shape (n_samples, n_labels)
            Columns in the order of `label_names_`; a row need not sum to one, because it may have
            several labels. For a 1-D `y`: shape (n_samples, 2), the columns in the order of `classes_`.
        """
        check_is_fitted(self)
        if holds_blocks(X):
            return self._answers(X, _probability, len(self.label_names_))
        scores = self._scores_checked(X)
        if self._is_binary:
            return np.hstack([1.0 - scores, scores])
        return self._probabilities(scores)

    def predict(self, X: Any) -> Any:
        """Predict a set of labels for every row.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        label_sets : labels of n_samples rows
            In the format of the candidates that `fit` was given: an indicator in the same kind of
            container, or the names per row.
        """
        check_is_fitted(self)
        if holds_blocks(X):
            return self._answers(X, _label_set, len(self.label_names_), dtype=np.int8)
        rows, rule = self._checked_rows(X), self._rule()
        if self._is_binary:
            return self.classes_[(rule.margin(self._own_scores(rows))[:, 0] > 0).astype(int)]
        blocks = self._blocks_to_score(rows)
        if len(blocks) == 1:
            given = rule.label_sets(self._own_scores(rows))
        else:  # Of many rows and labels only the label sets are kept, not the scores.
            parts = [sparse.csr_array(rule.label_sets(self._own_scores(rows[some]))) for some in blocks]
            given = sparse.csr_array(sparse.vstack(parts))
        return in_format(given, LabelFormat(**self._label_format), self.label_names_, like=X)

    def predict_top_k(self, X: Any, k: int) -> tuple[Any, FloatArray]:
        """Return the k best labels of every row, best first, and their scores.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
        k : int
            From 1 to the number of labels.

        Returns
        -------
        names : k label names for each of the n_samples rows
            A list of lists if `fit` was given names per row in a list; a DataFrame with the columns
            ``"1"`` to ``str(k)`` (and the index of a pandas `X`) if it was given a DataFrame or Series;
            otherwise an object array of shape (n_samples, k).
        scores : array of shape (n_samples, k)
            The values of `decision_function` for these labels. Equal scores are in the order of `label_names_`.
        """
        check_is_fitted(self)
        if self._is_binary:
            raise ValueError("predict_top_k ranks several labels, but the model was fitted on a 1-D y: use predict.")
        n_labels = len(self.label_names_)
        if isinstance(k, bool) or k not in range(1, n_labels + 1):
            raise ValueError(f"k must be a whole number from 1 to the number of labels, {n_labels}, got {k!r}.")
        if holds_blocks(X):
            best = self._answers(X, _top, int(k), dtype=np.int64, k=int(k), part=0)
            return best, self._answers(X, _top, int(k), k=int(k), part=1)
        rows = self._checked_rows(X)
        parts = [best_labels(self._own_scores(rows[some]), int(k)) for some in self._blocks_to_score(rows)]
        best, scores = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return ranked_names(self.label_names_[best], self._label_format["container"], like=X), scores

    def card(self) -> str:
        """Return a model card in Markdown: what the model was trained on, how, when, with which versions, its limits.

        ``pmlkit info model.skops`` shows the same of a model file. The cards of two equal fits differ in the date only.

        Examples
        --------
        >>> from pmlkit import MLkNN
        >>> model = MLkNN(n_neighbors=1).fit([[0.0], [1.0], [2.0]], [["a"], ["b"], ["a", "b"]])
        >>> print(model.card())  # doctest: +ELLIPSIS
        # Model card: MLkNN
        ...
        | rows | 3 |
        | features | 1 |
        | labels | 2 |
        | candidates | 4: 1.33 per row, 66.7 % of the cells |
        ...
        """
        check_is_fitted(self)
        if not sparse.issparse(getattr(self, "label_confidence_", None)):
            raise ValueError("A model that was fitted to blocks has no card yet: its confidences are not in memory.")
        return card_text(self)

    @property
    def _is_binary(self) -> bool:
        return bool(self._label_format["container"] == "1d")

    def _scores_checked(self, X: Any) -> FloatArray:
        return self._own_scores(self._checked_rows(X))

    def _checked_rows(self, X: Any) -> Features:
        if is_table(X):
            X = X.features_for(self) if hasattr(X, "features_for") else X.X
        with numbers_wanted(type(self).__name__):
            X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return moderate(as_csr(X) if sparse.issparse(X) else X)

    def _blocks_to_score(self, X: Features) -> list[slice]:
        step = max(1, _SCORES_AT_ONCE // len(self.label_names_))
        return [slice(first, first + step) for first in range(0, X.shape[0], step)]

    def _own_scores(self, X: Features) -> FloatArray:
        scores = self._scores(X)
        return fitting.difference(scores) if self._paired else scores

    def _probabilities(self, scores: FloatArray) -> FloatArray:
        return calibrated(scores, self._curve) if self._calibrates and scores.shape[1] > 1 else scores

    def _answers(self, X: Any, function: Any, width: int, *, dtype: Any = np.float64, **options: Any) -> Any:
        """Return the answer for rows in blocks, which is computed block by block when it is asked for."""
        if self._is_binary:
            raise ValueError("The model was fitted on a 1-D y: compute X first, blocks need several labels.")
        rows = as_row_blocks(X)
        if rows.n_features != self.n_features_in_:
            raise ValueError(
                f"X has {rows.n_features} features, but {type(self).__name__} expects {self.n_features_in_}."
            )
        model = copy.copy(self)
        for name in ("label_confidence_", *_ONLY_FOR_TRAINING):
            model.__dict__.pop(name, None)
        return rows.lazy(function, rows.X, width=width, dtype=dtype, model=rows.engine.share(model), **options)

    def _rule(self) -> LabelRule:
        return LabelRule(self.threshold_weights_, self.threshold_offset_, self._at_least_one)

    def _n_tasks(self, Y: CSR) -> int:
        """Return how often ``_fit`` calls ``progress.step`` at the most."""
        return 1

    def _fit_blocks(self, rows: RowBlocks, progress: Progress) -> LearnedBlocks:
        """Learn from rows in blocks; only for methods with ``_fits_blocks``."""
        raise NotImplementedError

    @abstractmethod
    def _fit(self, X: Features, Y: CSR, progress: Progress) -> Learned:
        """Learn from clean arrays: X float, Y a CSR array of ones with sorted indices."""

    @abstractmethod
    def _scores(self, X: Features) -> FloatArray:
        """Score clean rows."""


def _decision(X: Features, *, model: Any) -> FloatArray:
    return np.asarray(model._own_scores(X))


def _probability(X: Features, *, model: Any) -> FloatArray:
    return np.asarray(model._probabilities(model._own_scores(X)))


def _label_set(X: Features, *, model: Any) -> Any:
    return model._rule().label_sets(model._own_scores(X)).astype(np.int8)


def _top(X: Features, *, model: Any, k: int, part: int) -> Any:
    """Return the best labels of a block's rows (part 0) or their scores (part 1)."""
    return best_labels(model._own_scores(X), k)[part]


def best_labels(scores: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
    """Return the k best labels of every row, best first, and their scores; of equal ones the first labels.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.base import best_labels
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


def model_file_state(state: dict[str, Any], left_out: Collection[str]) -> dict[str, Any]:
    """Return the state of an estimator, for a model file without the attributes that only training needs."""
    return {name: value for name, value in state.items() if name not in left_out} if writing_model_file.get() else state


def estimator_state(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a method, for a model file as small as it can be."""
    in_memory = sparse.issparse(state.get("label_confidence_"))
    state = model_file_state(state, _ONLY_FOR_TRAINING if in_memory else (*_ONLY_FOR_TRAINING, "label_confidence_"))
    if writing_model_file.get():
        for name in _SINGLE_PRECISION & state.keys():
            state[name] = _shortened(state[name])
    return state


def _shortened(value: Any) -> Any:
    """Return large matrices of numbers in single precision."""
    if isinstance(value, tuple):
        return tuple(_shortened(part) for part in value)
    large = isinstance(value, np.ndarray) and value.dtype == np.float64 and value.size > _LARGE_MATRIX
    return value.astype(np.float32) if large else value
