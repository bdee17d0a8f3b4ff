"""The scorers inside scikit-learn's own searches."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier

from pmlkit import metrics
from pmlkit.metrics import scorer, scorers

X, Y = make_multilabel_classification(n_samples=120, n_features=8, n_classes=4, n_labels=2, random_state=0)
SIGNS = {
    "hamming_loss": -1,
    "ranking_loss": -1,
    "one_error": -1,
    "coverage": -1,
    "average_precision": 1,
    "micro_f1": 1,
    "macro_f1": 1,
}
SET_MEASURES = ("hamming_loss", "micro_f1", "macro_f1")


@pytest.fixture(scope="module")
def model():
    return OneVsRestClassifier(LogisticRegression()).fit(X, Y)


@pytest.mark.parametrize("name", SIGNS)
def test_value_and_sign(model, name):
    assert list(scorers) == list(SIGNS)
    answers = model.predict(X) if name in SET_MEASURES else model.decision_function(X)
    expected = SIGNS[name] * getattr(metrics, name)(Y, answers)
    assert expected != 0
    assert scorers[name](model, X, Y) == pytest.approx(expected)


@pytest.mark.parametrize("name", SIGNS)
def test_grid_search_prefers_the_better_model(name):
    # C = 1e-6 predicts nearly the same for every row.
    search = GridSearchCV(
        OneVsRestClassifier(LogisticRegression()), {"estimator__C": [1e-6, 1.0]}, scoring=scorer(name), cv=3
    )
    search.fit(X, Y)
    assert search.best_params_ == {"estimator__C": 1.0}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_all_scorers_at_once_and_sparse_truth():
    model = OneVsRestClassifier(LogisticRegression())
    search = GridSearchCV(model, {"estimator__C": [0.1, 1.0]}, scoring=scorers, refit="average_precision", cv=3)
    search.fit(X, Y)
    dense = {name: search.cv_results_[f"mean_test_{name}"] for name in scorers}
    search.fit(X, sparse.csr_matrix(Y))
    for name, values in dense.items():
        np.testing.assert_allclose(search.cv_results_[f"mean_test_{name}"], values)


def test_options_reach_the_measure(model):
    value = scorer("coverage", convention="sklearn", normalize=False)(model, X, Y)
    assert value == -metrics.coverage(Y, model.decision_function(X), convention="sklearn", normalize=False)
    assert value != scorers["coverage"](model, X, Y)


def test_two_labels_are_not_mistaken_for_one_binary_label():
    model = OneVsRestClassifier(LogisticRegression()).fit(X, Y[:, :2])
    expected = metrics.average_precision(Y[:, :2], model.decision_function(X))
    assert scorers["average_precision"](model, X, Y[:, :2]) == expected


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(n_estimators=10, random_state=0),
        MLPClassifier((4,), max_iter=400, tol=1e-2, random_state=0),
    ],
)
def test_an_estimator_with_probabilities_only(estimator):
    assert not hasattr(estimator, "decision_function")
    result = cross_validate(estimator, X, Y, cv=2, scoring=scorers["average_precision"], error_score="raise")
    assert ((result["test_score"] > 0) & (result["test_score"] <= 1)).all()


def test_unknown_name():
    with pytest.raises(ValueError, match="^name.*'hamming_loss', .*'macro_f1'.*'accuracy'"):
        scorer("accuracy")
