import logging

import numpy as np
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from pmlkit import CandidateLogistic
from pmlkit.numerics.folds import content_folds


def test_equals_one_scikit_learn_model_a_label(oracle):
    model = CandidateLogistic(C=3.0).fit(oracle.X, oracle.Y)
    X = normalize(oracle.X)
    scores = model.decision_function(oracle.X_test)
    for label in range(oracle.Y.shape[1]):
        reference = LogisticRegression(solver="liblinear", C=3.0, tol=1e-8).fit(X, oracle.Y[:, label])
        assert_allclose(scores[:, label], reference.predict_proba(normalize(oracle.X_test))[:, 1], atol=1e-5)


def test_confidence_comes_from_models_that_never_saw_the_row(oracle):
    model = CandidateLogistic(n_folds=4).fit(oracle.X, oracle.Y)
    fold = content_folds(oracle.X, 4)
    X = normalize(oracle.X)
    for label in (0, 3):
        for k in range(4):
            reference = LogisticRegression(solver="liblinear", tol=1e-8).fit(X[fold != k], oracle.Y[fold != k, label])
            held_out = np.flatnonzero((fold == k) & (oracle.Y[:, label] == 1))
            expected = expit(reference.decision_function(X[held_out]))
            assert_allclose(model.label_confidence_.toarray()[held_out, label], expected, atol=1e-5)


def test_standard_scaling_does_not_depend_on_units(oracle):
    units = np.linspace(1, 1000, oracle.X.shape[1])
    one = CandidateLogistic(normalize="standard").fit(oracle.X, oracle.Y)
    other = CandidateLogistic(normalize="standard").fit(oracle.X * units, oracle.Y)
    assert_allclose(other.decision_function(oracle.X_test * units), one.decision_function(oracle.X_test), atol=1e-4)


def test_rows_without_candidates_are_left_out_and_said(oracle, caplog):
    Y = oracle.Y.copy()
    Y[:10] = 0
    with caplog.at_level(logging.INFO, logger="pmlkit"):
        model = CandidateLogistic().fit(oracle.X, Y)
    assert "leaves out 10 rows without candidates" in caplog.text
    without = CandidateLogistic().fit(oracle.X[10:], Y[10:])
    assert_allclose(model.decision_function(oracle.X_test), without.decision_function(oracle.X_test))


def test_identical_rows_get_the_labels_shares():
    X = np.ones((20, 3))
    Y = np.zeros((20, 2), dtype=int)
    Y[:5, 0], Y[:, 1] = 1, 1
    model = CandidateLogistic().fit(X, Y)
    # Not exactly a quarter: the solver shrinks the intercept too.
    assert_allclose(model.label_confidence_.toarray()[:5, 0], 0.25, atol=0.05)


def test_parallel_is_the_same(oracle):
    one = CandidateLogistic().fit(oracle.X, oracle.Y)
    two = CandidateLogistic(n_jobs=2).fit(oracle.X, oracle.Y)
    assert (one.coef_ == two.coef_).all()
