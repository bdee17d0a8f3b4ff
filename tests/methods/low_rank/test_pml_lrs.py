"""PML-LRS through its estimator; the solver has its own tests in test_low_rank_sparse.py."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import label_ranking_average_precision_score

from pmlkit.data import load_digit_strips
from pmlkit.methods.low_rank.pml_lrs import PMLLRS, automatic_lam_u, automatic_lam_w

PUBLISHED = {"normalize": None, "fit_intercept": False}


def test_the_stored_optimum(oracle):
    model = PMLLRS(lam_w=0.1, lam_u=0.5, lam_v=0.3, tol=1e-8, **PUBLISHED).fit(oracle.X, oracle.Y)
    assert_allclose(model.objective_[-1], 54.180937102, rtol=1e-7)
    assert_allclose(model.coef_.T, oracle.load("pmllrs_convex_W"), atol=1e-6)
    assert_allclose(model.intercept_, 0.0)
    assert_allclose(model.decision_function(oracle.X_test), oracle.load("pmllrs_convex_scores_test"), atol=1e-6)
    truth = np.clip(oracle.load("pmllrs_convex_U"), 0.0, 1.0) * oracle.Y
    assert_allclose(model.label_confidence_.toarray(), truth, atol=1e-6)


def test_the_default_tolerance_is_kept(oracle):
    rough, fine = PMLLRS().fit(oracle.X, oracle.Y), PMLLRS(tol=1e-8).fit(oracle.X, oracle.Y)
    assert 0 <= rough.objective_[-1] / fine.objective_[-1] - 1 <= rough.gap_ <= 1e-4
    assert fine.gap_ <= 1e-8
    assert rough.n_iter_ < fine.n_iter_


@pytest.mark.parametrize("n_rows", [40, 200, 1000])
def test_automatic_weights_neither_collapse_nor_keep_everything(n_rows):
    strips = load_digit_strips(n_rows, random_state=0)
    model = PMLLRS().fit(strips.X, strips.Y)
    confidence = model.label_confidence_.data
    assert np.linalg.matrix_rank(model.coef_) > 1
    assert 0.05 < (confidence < 0.9).mean() < 0.95


def test_automatic_weights_rank_the_true_labels_first(oracle):
    scores = PMLLRS().fit(oracle.X, oracle.Y).decision_function(oracle.X_test)
    assert label_ranking_average_precision_score(oracle.truth_test, scores) > 0.73  # 0.559 where it collapses


def test_the_units_of_the_features_do_not_matter(oracle):
    model = PMLLRS(tol=1e-8, **PUBLISHED)
    scores = model.fit(oracle.X, oracle.Y).decision_function(oracle.X_test)
    others = model.fit(1000 * oracle.X, oracle.Y).decision_function(1000 * oracle.X_test)
    assert_allclose(others, scores, atol=1e-5)


def test_repeating_the_data_keeps_the_balance_of_signal_and_noise():
    Y = sparse.csr_array(np.eye(4)[:, :2])
    X = np.arange(8.0).reshape(4, 2)
    assert_allclose(automatic_lam_w(np.tile(X, (9, 1)), sparse.vstack([Y] * 9).tocsr()), 3 * automatic_lam_w(X, Y))
    assert_allclose(automatic_lam_w(sparse.csr_array(X), Y), automatic_lam_w(X, Y))
    assert_allclose(automatic_lam_u((900, 3), 0.4), 3 * automatic_lam_u((100, 3), 0.4))


@pytest.mark.parametrize("Y", [np.ones((6, 2)), np.eye(2)[[0, 1, 0, 1, 0, 1]]])
def test_odd_candidates_and_features_still_get_a_positive_weight(Y):
    for X in (np.zeros((6, 3)), np.ones((6, 3))):
        assert automatic_lam_w(X, sparse.csr_array(Y)) > 0
        assert np.isfinite(PMLLRS(**PUBLISHED).fit(X, Y).decision_function(X)).all()


def test_large_lam_v_suspects_nothing_and_the_box_no_absent_label(oracle):
    assert_allclose(PMLLRS(lam_v=3.0).fit(oracle.X, oracle.Y).label_confidence_.data, 1.0)
    free, boxed = (PMLLRS(lam_v=0.1, box=box, tol=1e-6).fit(oracle.X, oracle.Y) for box in (False, True))
    assert boxed.objective_[-1] > free.objective_[-1]
    assert 0 < boxed.label_confidence_.data.mean() < 1


@pytest.mark.parametrize("normalize", ["unit", "standard", None])
def test_scaling_is_remembered(oracle, normalize):
    model = PMLLRS(normalize=normalize, lam_w=1.0).fit(oracle.X, oracle.Y)
    scale = {"unit": np.linalg.norm(oracle.X_test, axis=1, keepdims=True), "standard": oracle.X.std(axis=0)}
    X = oracle.X_test / scale.get(normalize, 1.0)
    assert_allclose(model.decision_function(oracle.X_test), X @ model.coef_.T + model.intercept_)


def test_too_few_iterations_warn(oracle):
    with pytest.warns(
        ConvergenceWarning, match=r"after max_iter=3 iterations with a relative gap of .*, not tol=1.0e-04"
    ):
        PMLLRS(max_iter=3).fit(oracle.X, oracle.Y)


@pytest.mark.parametrize("wrong", [{"lam_w": 0.0}, {"lam_u": "big"}, {"lam_v": -1.0}, {"normalize": "rows"}])
def test_impossible_parameters_are_refused(oracle, wrong):
    with pytest.raises(ValueError, match=f"The '{next(iter(wrong))}' parameter of PMLLRS must be"):
        PMLLRS(**wrong).fit(oracle.X, oracle.Y)
