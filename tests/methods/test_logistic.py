import logging

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.preprocessing import normalize

from pmlkit import CandidateLogistic
from pmlkit.data import load_digit_strips
from pmlkit.methods import logistic
from pmlkit.methods.logistic import choose_regression
from pmlkit.numerics.content import content_folds


def test_equals_one_scikit_learn_model_per_label(oracle):
    model = CandidateLogistic(C=3.0, normalize="unit").fit(oracle.X, oracle.Y)
    X = normalize(oracle.X)
    scores = model.decision_function(oracle.X_test)
    for label in range(oracle.Y.shape[1]):
        reference = LogisticRegression(solver="liblinear", C=3.0, tol=1e-8).fit(X, oracle.Y[:, label])
        assert_allclose(scores[:, label], reference.predict_proba(normalize(oracle.X_test))[:, 1], atol=1e-5)


def test_confidence_comes_from_models_that_never_saw_the_row(oracle):
    model = CandidateLogistic(C=1.0, normalize="unit", n_folds=4).fit(oracle.X, oracle.Y)
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
    one = CandidateLogistic(C=1.0, normalize="standard").fit(oracle.X, oracle.Y)
    other = CandidateLogistic(C=1.0, normalize="standard").fit(oracle.X * units, oracle.Y)
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


@pytest.mark.parametrize("normalize", ["unit", "standard"])
def test_many_dense_columns_are_fitted_in_the_space_of_the_rows(normalize):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 300)) + 1
    X[3] = 0
    X[5] = X[4]
    Y = rng.random((40, 3)) < 0.4
    Y[~Y.any(axis=1), 0] = True
    rows, basis = logistic._in_row_space(X)
    assert rows.shape == (40, 40)
    assert_allclose(rows @ basis.T, X, atol=1e-12)
    dense = CandidateLogistic(normalize=normalize).fit(X, Y)
    as_it_is = CandidateLogistic(normalize=normalize).fit(sparse.csr_array(X), Y)  # sparse rows never change
    assert (dense.C_, dense.n_iter_) == (as_it_is.C_, as_it_is.n_iter_)
    assert_allclose(dense.coef_, as_it_is.coef_, atol=1e-9)
    assert_allclose(dense.intercept_, as_it_is.intercept_, atol=1e-9)
    assert_allclose(dense.label_confidence_.toarray(), as_it_is.label_confidence_.toarray(), atol=1e-9)


def test_rows_without_many_entries_are_fitted_as_they_are():
    X = np.zeros((40, 300))
    X[:, :40] = np.eye(40)
    for same in (X, np.ones((40, 80)), sparse.csr_array(np.ones((40, 300)))):
        assert logistic._in_row_space(same) == (same, None)


def test_parallel_is_the_same(oracle):
    one = CandidateLogistic().fit(oracle.X, oracle.Y)
    two = CandidateLogistic(n_jobs=2).fit(oracle.X, oracle.Y)
    assert (one.coef_ == two.coef_).all()


def _grid_losses(X, Y, scaling, values):
    """Out-of-fold log loss of all labels by scikit-learn's own functions, for each C."""
    rows = normalize(X) if scaling == "unit" else X / X.std(axis=0)
    fold = content_folds(X, 3, seed=2)
    losses = []
    for C in values:
        total = 0.0
        for k in range(3):
            train, test = fold != k, fold == k
            for label in Y.T:
                model = LogisticRegression(solver="liblinear", C=C, tol=1e-8).fit(rows[train], label[train])
                total += log_loss(label[test], model.predict_proba(rows[test])[:, 1], labels=[0, 1], normalize=False)
        losses.append(total)
    return np.array(losses)


@pytest.mark.parametrize("scaling", ["unit", "standard"])
def test_the_chosen_penalty_is_the_best_of_the_grid(oracle, scaling):
    values = 10.0 ** np.arange(-4, 4)
    losses = _grid_losses(oracle.X, oracle.Y, scaling, values)
    chosen = choose_regression(oracle.X, sparse.csr_array(oracle.Y), scaling, "auto")
    assert chosen == (scaling, pytest.approx(values[losses.argmin()]))
    best = {name: _grid_losses(oracle.X, oracle.Y, name, values).min() for name in ("unit", "standard")}
    assert choose_regression(oracle.X, sparse.csr_array(oracle.Y))[0] == min(best, key=best.get)


def test_what_is_given_stays(oracle):
    Y = sparse.csr_array(oracle.Y)
    assert choose_regression(oracle.X, Y, None, 3.0) == (None, 3.0)
    assert choose_regression(oracle.X, Y, "auto", 3.0)[1] == 3.0
    assert choose_regression(oracle.X, Y, None, "auto")[0] is None
    model = CandidateLogistic().fit(oracle.X, oracle.Y)
    assert (model.normalize_, model.C_) == choose_regression(oracle.X, Y)


def test_the_choice_follows_the_units_of_the_features():
    """One column of large numbers that mean nothing: unit rows would be all alike."""
    strips = load_digit_strips(300, random_state=0)
    X = np.column_stack([strips.X.toarray() if sparse.issparse(strips.X) else strips.X, np.linspace(0, 1e4, 300)])
    assert CandidateLogistic().fit(X, strips.Y).normalize_ == "standard"
    assert CandidateLogistic().fit(strips.X, strips.Y).normalize_ == "unit"


def test_a_sample_of_rows_and_labels_decides_about_many(oracle, monkeypatch):
    X, Y = np.tile(oracle.X, (10, 1)) + 1e-3 * np.arange(960)[:, None], sparse.csr_array(np.tile(oracle.Y, (10, 1)))
    seen = []
    held_out_loss = logistic._held_out_loss
    monkeypatch.setattr(logistic, "_CHOICE_ROWS", 300)
    monkeypatch.setattr(logistic, "_CHOICE_LABELS", 2)
    monkeypatch.setattr(
        logistic, "_held_out_loss", lambda p, X, t, tests, C: seen.append(t.shape) or held_out_loss(p, X, t, tests, C)
    )
    chosen = choose_regression(X, Y)
    assert all(240 <= n_rows <= 300 and n_labels == 2 for n_rows, n_labels in seen)
    order = np.random.default_rng(0).permutation(960)
    assert choose_regression(X[order], Y[order]) == chosen


def test_noise_predicts_nothing_out_of_fold():
    """Labels that have nothing to do with the features: the choice of C must not make them look predictable."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(400, 50)), (rng.random((400, 6)) < 0.4).astype(int)
    scores = CandidateLogistic().fit(X, Y).out_of_fold_scores_
    labelled = Y.any(axis=1)
    areas = [roc_auc_score(Y[labelled, k], scores[labelled, k]) for k in range(6)]
    assert 0.4 < np.mean(areas) < 0.55
