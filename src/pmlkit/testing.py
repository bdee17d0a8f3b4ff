"""Checks of the contract that every estimator for candidate labels keeps."""

import pickle
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.testing import assert_allclose, assert_array_equal, assert_raises_regex
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from pmlkit._arrays import generator
from pmlkit._typing import FloatArray, IntArray
from pmlkit.exceptions import PMLWarning
from pmlkit.persistence import dumps, loads

__all__ = ["check_pml_estimator", "pml_checks"]

Check = Callable[[Any], None]


def check_pml_estimator(estimator: Any) -> None:
    """Check that an estimator keeps the contract of pmlkit's methods.

    It runs every check of :func:`pml_checks`; the first that fails raises AssertionError with the
    check's name in front. scikit-learn's own ``check_estimator`` is separate: run both.

    Parameters
    ----------
    estimator : estimator
        An unfitted instance. It is cloned, never changed.

    Examples
    --------
    >>> from pmlkit import MLkNN
    >>> from pmlkit.testing import check_pml_estimator
    >>> check_pml_estimator(MLkNN())
    """
    for check in pml_checks():
        try:
            check(estimator)
        except Exception as error:
            raise AssertionError(f"{name_of(check)}({estimator!r}): {error}") from error


def pml_checks() -> list[Check]:
    """Return the checks, each a function of an unfitted estimator, for use with pytest's parametrize.

    Examples
    --------
    >>> from pmlkit import MLkNN
    >>> from pmlkit.testing import pml_checks
    >>> pml_checks()[0](MLkNN())
    """
    return [
        check_confidences_on_candidates,
        check_inputs_untouched,
        check_permuting_rows,
        check_permuting_labels,
        check_sparse_equals_dense,
        check_float32_close_to_float64,
        check_same_seed_same_result,
        check_unlabelled_rows,
        check_out_of_fold_scores,
        check_no_candidates_at_all,
        check_container_kinds,
        check_names_per_row,
        check_label_names,
        check_probabilities,
        check_top_k,
        check_coef_shape,
        check_random_state_defaults_to_none,
        check_bad_candidates,
        *(partial(check_awkward_candidates, case=case) for case in _AWKWARD),
        check_fewer_rows_than_features,
        check_constant_features,
        check_pickle_round_trip,
        check_skops_round_trip,
        check_clone_and_refit,
        check_in_pipeline_and_search,
        check_some_labels_are_predicted,
    ]


def name_of(check: Check) -> str:
    """Return a check's name, with its case."""
    if isinstance(check, partial):
        return f"{check.func.__name__}[{check.keywords['case']}]"
    return check.__name__


def _problem(n_samples: int = 60, n_features: int = 8, n_labels: int = 5, seed: int = 0) -> tuple[FloatArray, IntArray]:
    """Make a small learnable problem: about two true labels and one false candidate per row."""
    rng = generator(seed)
    X = rng.normal(size=(n_samples, n_features))
    affinity = X @ rng.normal(size=(n_features, n_labels)) + 0.3 * rng.normal(size=(n_samples, n_labels))
    Y = (affinity > np.quantile(affinity, 0.7)).astype(np.int64)
    Y[np.arange(n_samples), affinity.argmax(axis=1)] = 1
    Y[np.arange(n_samples), rng.integers(n_labels, size=n_samples)] = 1
    return X, Y


def _fitted(estimator: Any, X: Any, Y: Any) -> Any:
    model = clone(estimator)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    return model.fit(X, Y)


def _assert_same(
    model: Any, other: Any, X: Any, X_other: Any = None, rows: Any = ..., labels: Any = ..., tol: float = 1e-6
) -> None:
    """Assert equal scores and confidences, after permuting the second model's answer."""
    scores = model.decision_function(X)
    scale = np.abs(scores).max() + 1.0
    other_scores = other.decision_function(X if X_other is None else X_other)[:, labels]
    assert_allclose(other_scores, scores, rtol=0, atol=tol * scale, err_msg="scores differ")
    confidence = model.label_confidence_.toarray()
    other_confidence = other.label_confidence_.toarray()[rows][:, labels]
    assert_allclose(other_confidence, confidence, rtol=0, atol=tol, err_msg="confidences differ")


def check_confidences_on_candidates(estimator: Any) -> None:
    """Confidences lie in [0, 1] and on the candidates' pattern."""
    X, Y = _problem()
    confidence = _fitted(estimator, X, Y).label_confidence_
    assert isinstance(confidence, sparse.csr_array), f"label_confidence_ is a {type(confidence)}, not a csr_array"
    assert confidence.shape == Y.shape
    assert_array_equal(confidence.indptr, sparse.csr_array(Y).indptr)
    assert_array_equal(confidence.indices, sparse.csr_array(Y).indices)
    assert np.isfinite(confidence.data).all(), "confidences are not finite"
    assert confidence.data.min() >= 0, "a confidence is negative"
    assert confidence.data.max() <= 1, "a confidence is above 1"
    assert np.ptp(confidence.data) > 0, "all confidences are equal"


def check_inputs_untouched(estimator: Any) -> None:
    """Neither fit nor predict changes its inputs."""
    X, Y = _problem()
    for kind in (np.array, sparse.csr_array):
        features, candidates = kind(X), kind(Y)
        _fitted(estimator, features, candidates).predict(features)
        assert_array_equal(sparse.csr_array(features).toarray(), X, err_msg=f"X was changed ({kind.__name__})")
        assert_array_equal(sparse.csr_array(candidates).toarray(), Y, err_msg=f"Y was changed ({kind.__name__})")


def check_permuting_rows(estimator: Any) -> None:
    """Permuting the rows permutes the confidences and leaves the scores."""
    X, Y = _problem()
    order = generator(1).permutation(len(X))
    _assert_same(_fitted(estimator, X, Y), _fitted(estimator, X[order], Y[order]), X, rows=np.argsort(order))


def check_permuting_labels(estimator: Any) -> None:
    """Permuting the labels permutes the answer."""
    X, Y = _problem()
    order = generator(2).permutation(Y.shape[1])
    _assert_same(_fitted(estimator, X, Y), _fitted(estimator, X, Y[:, order]), X, labels=np.argsort(order))


def check_sparse_equals_dense(estimator: Any) -> None:
    """Sparse X and Y give the same answer as dense ones."""
    X, Y = _problem()
    X = np.where(X > 0, X, 0.0)
    rows = sparse.csr_array(X)
    _assert_same(_fitted(estimator, X, Y), _fitted(estimator, rows, sparse.csr_array(Y)), X, rows)


def check_float32_close_to_float64(estimator: Any) -> None:
    """float32 features give nearly the same answer."""
    X, Y = _problem()
    X = X.astype(np.float32).astype(np.float64)
    _assert_same(_fitted(estimator, X, Y), _fitted(estimator, X.astype(np.float32), Y), X, tol=1e-2)


def check_same_seed_same_result(estimator: Any) -> None:
    """Two fits with the same seed agree to the last bit."""
    X, Y = _problem()
    first, second = _fitted(estimator, X, Y), _fitted(estimator, X, Y)
    assert_array_equal(first.decision_function(X), second.decision_function(X))
    assert_array_equal(first.label_confidence_.data, second.label_confidence_.data)


def check_unlabelled_rows(estimator: Any) -> None:
    """Rows without candidates are accepted and get no confidence."""
    X, Y = _problem()
    Y[::4] = 0
    model = _fitted(estimator, X, Y)
    assert model.label_confidence_.shape == Y.shape
    assert_array_equal(np.diff(model.label_confidence_.indptr), Y.sum(axis=1))
    assert np.isfinite(model.decision_function(X)).all()


def check_out_of_fold_scores(estimator: Any) -> None:
    """Out-of-fold scores, where a method keeps them, hardly depend on the row's own labels."""
    X, Y = _problem()
    Y[::4] = 0
    model = _fitted(estimator, X, Y)
    if not hasattr(model, "out_of_fold_scores_"):
        return
    assert model.out_of_fold_scores_.shape == Y.shape
    assert_array_equal(np.isnan(model.out_of_fold_scores_).any(axis=1), Y.sum(axis=1) == 0)
    assert_array_equal(np.isnan(model.out_of_fold_scores_).all(axis=1), Y.sum(axis=1) == 0)
    own, in_sample = [], []
    for row in (1, 2, 3):
        other = _fitted(estimator, X, _with(Y, row, 1 - Y[row]))
        own.append(np.abs(other.out_of_fold_scores_[row] - model.out_of_fold_scores_[row]).max())
        in_sample.append(np.abs(other.decision_function(X[[row]]) - model.decision_function(X[[row]])).max())
    assert np.mean(own) < 0.5 * np.mean(in_sample), "out_of_fold_scores_ depend on the row's own labels"


def check_no_candidates_at_all(estimator: Any) -> None:
    """No candidate anywhere is a clear error."""
    X, Y = _problem()
    assert_raises_regex(ValueError, "no candidate", _fitted, estimator, X, np.zeros_like(Y))


def check_container_kinds(estimator: Any) -> None:
    """`predict` answers in the kind of container that `fit` was given."""
    X, Y = _problem()
    names = [f"tag {k}" for k in range(Y.shape[1])]
    dense = _fitted(estimator, X, Y).predict(X)
    assert isinstance(dense, np.ndarray)
    assert set(np.unique(dense)) <= {0, 1}
    for kind in (sparse.csr_array, sparse.csr_matrix):
        answer = _fitted(estimator, X, kind(Y)).predict(X)
        assert isinstance(answer, kind), f"fitted on a {kind.__name__}, answered with {type(answer)}"
        assert_array_equal(answer.toarray(), dense)
    index = pd.Index([f"row {i}" for i in range(len(X))])
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])], index=index)
    answer = _fitted(estimator, frame, pd.DataFrame(Y, columns=names, index=index)).predict(frame)
    assert isinstance(answer, pd.DataFrame)
    assert list(answer.columns) == names
    assert list(answer.index) == list(index)
    assert_array_equal(answer.to_numpy(), dense)


def check_names_per_row(estimator: Any) -> None:
    """Lists of label names are learned like the indicator, and answered by lists of names."""
    X, Y = _problem()
    names = np.array([f"tag {k}" for k in range(Y.shape[1])])
    reference, model = _fitted(estimator, X, Y), _fitted(estimator, X, [list(names[row > 0]) for row in Y])
    assert list(model.label_names_) == list(names)
    assert_array_equal(model.decision_function(X), reference.decision_function(X))
    assert model.predict(X) == [list(names[row > 0]) for row in reference.predict(X)]


def check_probabilities(estimator: Any) -> None:
    """Probabilities, where a method has them, lie in [0, 1] and rank as the scores do."""
    X, Y = _problem()
    model = _fitted(estimator, X, Y)
    if not hasattr(model, "predict_proba"):
        return
    probability, scores = model.predict_proba(X), model.decision_function(X)
    assert probability.shape == Y.shape
    assert probability.min() >= 0, "a probability is negative"
    assert probability.max() <= 1, "a probability is above 1"
    ordered = np.take_along_axis(probability, np.argsort(scores, axis=1, kind="stable"), axis=1)
    assert (np.diff(ordered, axis=1) >= 0).all(), "probabilities and scores rank labels differently"


def check_top_k(estimator: Any) -> None:
    """The best labels are those with the highest scores, best first."""
    X, Y = _problem()
    model = _fitted(estimator, X, Y)
    names, scores = model.predict_top_k(X, 2)
    assert_array_equal(scores, -np.sort(-model.decision_function(X), axis=1)[:, :2])
    assert names.shape == (len(X), 2)
    assert set(names.ravel()) <= set(model.label_names_)


def check_coef_shape(estimator: Any) -> None:
    """Coefficients, where a method has them, have the shape (n_labels, n_features), as in scikit-learn."""
    X, Y = _problem()
    coef = getattr(_fitted(estimator, X, Y), "coef_", None)
    assert coef is None or coef.shape == (Y.shape[1], X.shape[1]), f"coef_ has the shape {coef.shape}"


def check_random_state_defaults_to_none(estimator: Any) -> None:
    """The default of `random_state`, where there is one, is None."""
    default = type(estimator)().get_params().get("random_state")
    assert default is None, f"random_state={default!r} by default"


def check_label_names(estimator: Any) -> None:
    """Label names come from the DataFrame, or are made up in order."""
    X, Y = _problem()
    names = [f"tag {k}" for k in range(Y.shape[1])]
    assert list(_fitted(estimator, X, pd.DataFrame(Y, columns=names)).label_names_) == names
    assert list(_fitted(estimator, X, Y).label_names_) == [f"label_{k}" for k in range(Y.shape[1])]


def check_bad_candidates(estimator: Any) -> None:
    """Values other than 0 and 1, and a wrong number of rows, are clear errors."""
    X, Y = _problem()
    wrong = _with(Y, (0, 0), 2)
    assert_raises_regex(ValueError, "0/1", _fitted, estimator, X, wrong)
    assert_raises_regex(ValueError, "0/1", _fitted, estimator, X, np.where(Y > 0, 1, -1))
    assert_raises_regex(ValueError, "0/1", _fitted, estimator, X, sparse.csr_array(wrong))
    assert_raises_regex(ValueError, "inconsistent number", _fitted, estimator, X, Y[:-1])


def _with(Y: IntArray, where: Any, value: Any) -> IntArray:
    changed = Y.copy()
    changed[where] = value
    return changed


_AWKWARD: dict[str, Callable[[FloatArray, IntArray], tuple[FloatArray, IntArray]]] = {
    "label with no positive": lambda X, Y: (X, _with(Y, (slice(None), 1), 0)),
    "label on every row": lambda X, Y: (X, _with(Y, (slice(None), 1), 1)),
    "row with all labels": lambda X, Y: (X, _with(Y, 3, 1)),
    "duplicate rows": lambda X, Y: (np.repeat(X[:20], 3, axis=0), Y[:60]),
    "one label": lambda X, Y: (X, Y[:, :1]),
    "two labels": lambda X, Y: (X, Y[:, :2]),
    "one candidate per row": lambda X, Y: (X, np.eye(Y.shape[1], dtype=int)[Y.argmax(axis=1)]),
    "all labels on all rows": lambda X, Y: (X, np.ones_like(Y)),
    "labels that follow exactly from the features": lambda X, Y: (X, (X[:, : Y.shape[1]] > 0.5).astype(np.int64)),
    "labels regardless of the features": lambda X, Y: (X, generator(4).permutation(Y)),
    "all rows alike": lambda X, Y: (X, np.tile(Y[:1], (len(Y), 1))),
}


def check_awkward_candidates(estimator: Any, case: str) -> None:
    """Odd but legitimate candidates give finite scores and confidences; a method may warn that they teach nothing."""
    X, Y = _AWKWARD[case](*_problem())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PMLWarning)
        warnings.simplefilter("ignore", DataConversionWarning)  # that a single column is read as one label
        model = _fitted(estimator, X, Y)
    scores, answer = model.decision_function(X), model.predict(X)
    assert scores.shape == answer.shape == Y.shape
    assert np.isfinite(scores).all(), "scores are not finite"
    assert np.isfinite(model.label_confidence_.data).all(), "confidences are not finite"
    assert ((model.label_confidence_.data >= 0) & (model.label_confidence_.data <= 1)).all()


def check_fewer_rows_than_features(estimator: Any) -> None:
    """More features than rows is no problem, nor are rows never seen."""
    X, Y = _problem(n_samples=25, n_features=60)
    assert np.isfinite(_fitted(estimator, X[:20], Y[:20]).decision_function(X)).all()


def check_constant_features(estimator: Any) -> None:
    """Constant and all-zero columns, and an all-zero row, are no problem."""
    X, Y = _problem()
    X[:, 0], X[:, 1], X[5] = 3.0, 0.0, 0.0
    assert np.isfinite(_fitted(estimator, X, Y).decision_function(X)).all()


def check_pickle_round_trip(estimator: Any) -> None:
    """A pickled model answers as before."""
    X, Y = _problem()
    model = _fitted(estimator, X, Y)
    assert_array_equal(pickle.loads(pickle.dumps(model)).decision_function(X), model.decision_function(X))


def check_skops_round_trip(estimator: Any) -> None:
    """A model saved with pmlkit's own safe format answers as before."""
    X, Y = _problem()
    names = [f"tag {k}" for k in range(Y.shape[1])]
    model = _fitted(estimator, X, pd.DataFrame(Y, columns=names))
    copy = loads(dumps(model), trusted=[type(model)])
    assert_array_equal(copy.decision_function(X), model.decision_function(X))
    pd.testing.assert_frame_equal(copy.predict(X), model.predict(X))


def check_clone_and_refit(estimator: Any) -> None:
    """A clone is unfitted, and a second fit forgets the first."""
    X, Y = _problem()
    model = _fitted(estimator, X, Y)
    assert not hasattr(clone(model), "label_confidence_")
    other_X, other_Y = _problem(n_samples=40, n_features=6, n_labels=3, seed=3)
    fresh = _fitted(estimator, other_X, other_Y)
    assert_array_equal(model.fit(other_X, other_Y).decision_function(other_X), fresh.decision_function(other_X))


def check_in_pipeline_and_search(estimator: Any) -> None:
    """Works in a Pipeline, in GridSearchCV and in cross_val_predict."""
    X, Y = _problem()
    pipeline = make_pipeline(MinMaxScaler(), clone(estimator))
    assert pipeline.fit(X, Y).predict(X).shape == Y.shape
    scores = cross_val_predict(clone(estimator), X, Y, cv=KFold(3), method="decision_function")
    assert scores.shape == Y.shape
    grid = {"threshold": ["at_least_one", 0.5]} if "threshold" in estimator.get_params() else {}
    search = GridSearchCV(clone(estimator), grid, cv=KFold(2), error_score="raise")
    assert search.fit(X, Y).best_estimator_.predict(X).shape == Y.shape


def check_some_labels_are_predicted(estimator: Any) -> None:
    """The default threshold gives labels, and not all of them."""
    X, Y = _problem()
    share = _fitted(estimator, X, Y).predict(X).mean()
    assert 0 < share < 1, f"a share of {share} of all cells is predicted"
