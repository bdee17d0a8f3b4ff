import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import label_ranking_average_precision_score
from sklearn.tree import DecisionTreeRegressor

from pmlkit.methods import drama
from pmlkit.methods.drama import DRAMA
from pmlkit.numerics import content


def test_stored_confidences(oracle):
    model = DRAMA(boosting_rounds=0, tol=1e-9).fit(oracle.X, oracle.Y)
    stored = json.loads((oracle.folder / "drama_meta.json").read_text())
    assert_allclose(model.objective_[-1], stored["obj"], rtol=1e-10)
    assert model.n_iter_ == len(model.objective_)
    expected = oracle.load("drama_conf_train")
    assert_allclose(model.margins_, expected, rtol=0, atol=1e-5)
    assert_allclose(
        model.label_confidence_.toarray(), np.where(oracle.Y > 0, np.clip(expected, 0, 1), 0), rtol=0, atol=1e-5
    )


def test_stored_naive_scores(oracle):
    stored = oracle.load("drama_naive_scores_test")
    regression = drama.fit_kernel_regression(oracle.X, oracle.load("drama_conf_train"))
    assert_allclose(regression.predict(oracle.X_test), stored, rtol=0, atol=1e-6)
    # libsvm stops at a tolerance of 1e-3, so the last digits of the confidences may change its path.
    model = DRAMA(boosting_rounds=0, tol=1e-9).fit(oracle.X, oracle.Y)
    assert_allclose(model.decision_function(oracle.X_test), stored, rtol=0, atol=2e-3)


def test_default_accuracy_is_enough(oracle):
    rough, exact = (DRAMA(boosting_rounds=0, tol=tol).fit(oracle.X, oracle.Y) for tol in (1e-6, 1e-9))
    assert np.abs(rough.margins_ - exact.margins_).mean() < 2e-4
    assert rough.n_iter_ < exact.n_iter_


def test_trees_reduce_the_residual_and_learn_the_stored_quality(oracle):
    residual = []
    for rounds in (0, 1, 3, 10):
        model = DRAMA(boosting_rounds=rounds).fit(oracle.X, oracle.Y)
        assert len(model.trees_) == rounds
        residual.append(np.linalg.norm(model.margins_ - model.decision_function(oracle.X)))
    assert residual == sorted(residual, reverse=True)
    scores = model.decision_function(oracle.X_test)
    assert label_ranking_average_precision_score(oracle.truth_test, scores) > 0.74


def test_a_line_search_would_be_idle(oracle):
    rng = np.random.default_rng(0)
    fitted, residual = rng.normal(size=oracle.Y.shape), rng.normal(size=oracle.Y.shape)
    tree = drama._fit_tree(oracle.X, fitted, residual, 5, seed=0)
    output = drama._tree_outputs(tree, oracle.X, fitted)
    assert_allclose(np.vdot(output, residual) / np.vdot(output, output), 1.0)


@pytest.mark.parametrize("n_labels", [1, 4])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_trees_answer_as_scikit_learn_does(n_labels, container):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5)) * (rng.random((80, 5)) < 0.6)
    fitted, residual = rng.normal(size=(80, n_labels)), rng.normal(size=(80, n_labels))
    new_X, new_fitted = rng.normal(size=(30, 5)), rng.normal(size=(30, n_labels))
    reference = DecisionTreeRegressor(max_depth=4, random_state=7).fit(np.hstack([X, fitted]), residual)
    tree = drama._fit_tree(X, fitted, residual, 4, seed=7)
    expected = reference.predict(np.hstack([new_X, new_fitted])).reshape(30, n_labels)
    assert_allclose(drama._tree_outputs(tree, container(new_X), new_fitted), expected)


def test_learning_rate_shortens_the_steps(oracle):
    full = DRAMA(boosting_rounds=1).fit(oracle.X, oracle.Y).decision_function(oracle.X)
    half = DRAMA(boosting_rounds=1, learning_rate=0.5).fit(oracle.X, oracle.Y).decision_function(oracle.X)
    none = DRAMA(boosting_rounds=0).fit(oracle.X, oracle.Y).decision_function(oracle.X)
    assert_allclose(half, (full + none) / 2)


def test_wider_margins(oracle):
    model = DRAMA(boosting_rounds=0, delta1=0.0, delta2=1.0).fit(oracle.X, oracle.Y)
    assert model.margins_[oracle.Y > 0].min() >= -1e-12
    assert model.margins_[oracle.Y == 0].max() <= -1.0


def test_large_sparse_rows_stay_sparse(oracle, monkeypatch):
    X, X_test = sparse.csr_array(oracle.X), sparse.csr_array(oracle.X_test)
    expected = DRAMA(boosting_rounds=0).fit(oracle.X, oracle.Y).decision_function(oracle.X_test)
    monkeypatch.setattr(content, "_SMALL", 0)
    naive = DRAMA(boosting_rounds=0).fit(X, oracle.Y)
    assert sparse.issparse(naive._support_rows)
    assert_allclose(naive.decision_function(X_test), expected, rtol=0, atol=1e-6)
    boosted = DRAMA(boosting_rounds=3).fit(X, oracle.Y)
    assert_allclose(boosted.decision_function(X_test), boosted.decision_function(oracle.X_test), atol=1e-9)


def test_a_callback_stops_the_boosting(oracle):
    class Impatient:
        def step(self, name):
            return name == "tree"

    model = DRAMA()
    model._fit(oracle.X, sparse.csr_array(oracle.Y.astype(float)), Impatient())
    assert len(model.trees_) == 1


def test_seeds(oracle):
    fits = [DRAMA(random_state=seed).fit(oracle.X, oracle.Y).decision_function(oracle.X_test) for seed in (0, 0, 1)]
    assert_array_equal(fits[0], fits[1])
    assert not np.array_equal(fits[0], fits[2])


def test_what_is_refused(oracle):
    with pytest.raises(ValueError, match=r"6 support vector regressions on 96 rows.*max_rows allows 95"):
        DRAMA(max_rows=95).fit(oracle.X, oracle.Y)
    with pytest.raises(ValueError, match="at least two rows"):
        DRAMA().fit(oracle.X[:1], oracle.Y[:1])
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        DRAMA(max_iter=2, boosting_rounds=0).fit(oracle.X, oracle.Y)
