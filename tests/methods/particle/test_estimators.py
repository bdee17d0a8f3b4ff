import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.svm import SVC

from pmlkit.methods.particle import ParticleMAP, ParticleVLS
from pmlkit.numerics import content

BOTH = pytest.mark.parametrize("method", [ParticleVLS, ParticleMAP])


def test_released_variant_reproduces_the_authors_program(oracle):
    model = ParticleVLS(variant="released").fit(oracle.X, oracle.Y)
    assert_array_equal(model.credible_, oracle.load("particle_credible_train") > 0)
    votes = oracle.load("particle_vls_votes_unceiled_test")
    scores = 6 * model.decision_function(oracle.X_test)
    # The virtual label's votes are one number a row.
    assert_allclose(scores - scores[:, :1], votes - votes[:, :1], rtol=0, atol=1e-12)


def test_released_map_counts_the_authors_votes(oracle):
    model = ParticleMAP(variant="released").fit(oracle.X, oracle.Y)
    wins = oracle.load("particle_map_votes_test").astype(int)
    assert_array_equal(model.decision_function(oracle.X_test), model.posterior_[np.arange(6), wins])


@BOTH
def test_credible_labels_are_candidates_and_mostly_right(method, oracle):
    model = method().fit(oracle.X, oracle.Y)
    candidate, truth = oracle.Y > 0, oracle.load("Ytrue_train")
    assert not (model.credible_ & ~candidate).any()
    assert model.credible_.any(axis=1).all()
    assert truth[model.credible_].mean() > 0.9 > truth[candidate].mean()
    assert roc_auc_score(truth[candidate], model.label_confidence_.toarray()[candidate]) > 0.85


@BOTH
def test_only_the_released_variant_depends_on_the_order_of_the_rows(method, oracle):
    order = np.random.default_rng(0).permutation(len(oracle.X))

    def credible(variant):
        straight = method(variant=variant).fit(oracle.X, oracle.Y)
        shuffled = method(variant=variant).fit(oracle.X[order], oracle.Y[order])
        return straight.credible_[order], shuffled.credible_

    assert_array_equal(*credible("paper"))
    assert not np.array_equal(*credible("released"))


def test_positive_scores_are_the_published_rule(oracle):
    model = ParticleVLS(threshold=1e-12).fit(oracle.X, oracle.Y)
    scores = model.decision_function(oracle.X_test)
    assert_array_equal(model.predict(oracle.X_test), (scores > 0).astype(int))
    assert np.abs(scores).max() <= 1
    default = ParticleVLS().fit(oracle.X, oracle.Y).predict(oracle.X_test)
    assert default.any(axis=1).all()
    assert_array_equal(default[(scores > 0).any(axis=1)], (scores > 0)[(scores > 0).any(axis=1)])


def test_posterior_is_counted_over_training_rows(oracle):
    model = ParticleMAP().fit(oracle.X, oracle.Y)
    wins = _wins(oracle, model)
    n_rows, n_labels = oracle.Y.shape
    expected = np.empty((n_labels, n_labels))
    for j in range(n_labels):
        prior = (1 + oracle.Y[:, j].sum()) / (2 + n_rows)
        for c in range(n_labels):
            for_label = model.credible_[:, j]
            against = oracle.Y[:, j] == 0
            present = (1 + np.sum(wins[for_label, j] == c)) / (n_labels + for_label.sum())
            absent = (1 + np.sum(wins[against, j] == c)) / (n_labels + against.sum())
            expected[j, c] = prior * present / (prior * present + (1 - prior) * absent)
    assert_allclose(model.posterior_, expected, rtol=1e-12)


def _wins(oracle, model):
    """Count wins on the training rows, one machine after the other."""
    n_labels = oracle.Y.shape[1]
    wins = np.zeros(oracle.Y.shape, dtype=int)
    for j in range(n_labels):
        for k in range(j + 1, n_labels):
            positive = model.credible_[:, j] & (oracle.Y[:, k] == 0)
            negative = model.credible_[:, k] & (oracle.Y[:, j] == 0)
            if not positive.any() or not negative.any():
                continue
            rows = positive | negative
            won = SVC(kernel="linear", C=1.0).fit(oracle.X[rows], positive[rows]).predict(oracle.X)
            wins[:, j] += won
            wins[:, k] += ~won
    return wins


@BOTH
def test_large_sparse_rows_stay_sparse(method, oracle, monkeypatch):
    expected = method().fit(oracle.X, oracle.Y)
    monkeypatch.setattr(content, "_SMALL", 0)
    model = method().fit(sparse.csr_array(oracle.X), oracle.Y)
    assert sparse.issparse(model._support_rows)
    rows = sparse.csr_array(oracle.X_test)
    assert_allclose(model.decision_function(rows), expected.decision_function(oracle.X_test), rtol=0, atol=1e-9)


@BOTH
def test_too_many_pairs_are_refused_at_once(method, oracle):
    with pytest.raises(ValueError, match=r"would train \d+ pairwise machines for 6 labels.*max_pairs allows 5"):
        method(max_pairs=5).fit(oracle.X, oracle.Y)


@BOTH
def test_one_neighbour_and_one_row(method, oracle):
    assert np.isfinite(method(n_neighbors=1).fit(oracle.X, oracle.Y).decision_function(oracle.X_test)).all()
    with pytest.raises(ValueError, match="at least two rows"):
        method().fit(oracle.X[:1], oracle.Y[:1])


def test_a_pair_without_rows_counts_for_neither_label():
    X = np.array([[0.0, 1.0], [0.1, 1.0], [1.0, 0.0], [1.0, 0.1], [1.0, 0.2]])
    Y = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 1], [0, 1, 1], [0, 1, 1]])
    model = ParticleMAP(n_neighbors=2).fit(X, Y)
    scores = model.decision_function(X)
    # Labels 1 and 2 always come together: no machine can tell them apart, and none is preferred.
    assert_allclose(scores[:, 1], scores[:, 2])


@BOTH
def test_features_of_large_values_end_with_one_warning(method):
    """Without the limit, these 30 rows take minutes (libsvm, and no interrupt)."""
    rng = np.random.default_rng(0)
    X, Y = 1e4 * rng.normal(size=(30, 6)), (rng.random((30, 4)) < 0.5).astype(int)
    Y[~Y.any(axis=1), 0] = 1
    with pytest.warns(ConvergenceWarning, match="standard deviation") as caught:
        model = method().fit(X, Y)
    assert len(caught) == 1
    assert np.isfinite(model.decision_function(X)).all()
