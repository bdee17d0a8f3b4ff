"""Thousands of labels: a factored predictor and pairs of labels, against the dense ways."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from pmlkit import PMLLFC
from pmlkit.data import make_pml
from pmlkit.methods.pml_lfc import confidence_step, estimator, similarity
from pmlkit.methods.pml_lfc.similarity import LabelPairs, row_similarity
from pmlkit.persistence import dumps, loads


@pytest.fixture(scope="module")
def texts():
    return make_pml(400, 900, 30, density=0.02, random_state=0)


@pytest.fixture
def many(monkeypatch):
    """Treat every number of labels as many."""
    monkeypatch.setattr(confidence_step, "MANY_LABELS", 1)
    monkeypatch.setattr(similarity, "MANY_LABELS", 1)


def candidates(n_samples, n_labels, seed=0):
    rng = np.random.default_rng(seed)
    given = rng.random((n_samples, n_labels)) < 0.2
    given[np.arange(n_samples), rng.integers(n_labels, size=n_samples)] = True
    return sparse.csr_array(given.astype(float))


@pytest.mark.parametrize("at_once", [1, 50, 2**24])
def test_label_pairs_are_the_cells_of_the_dense_products(monkeypatch, at_once):
    monkeypatch.setattr("pmlkit.methods.pml_lfc.similarity._PAIRS_AT_ONCE", at_once)
    Y = candidates(60, 12)
    rng = np.random.default_rng(1)
    left, right = (sparse.csr_array((rng.random(Y.nnz), Y.indices, Y.indptr), shape=Y.shape) for _ in range(2))
    pairs = LabelPairs(Y)
    gram = pairs.gram(left.data, right.data)
    dense = (left.T @ right).toarray()
    assert gram.sum() == pytest.approx(dense.sum())
    expected = (left @ dense)[Y.toarray() > 0]
    np.testing.assert_allclose(pairs.cells(left.data, gram), expected, rtol=1e-12)


@pytest.mark.parametrize(("compare", "approx"), [("both", "features"), ("both", "exact"), ("labels", "auto")])
def test_similarities_of_many_labels_are_those_of_few(texts, monkeypatch, compare, approx):
    def times():
        prepared = row_similarity(
            texts.X.astype(float),
            sparse.csr_array(texts.Y.astype(float)),
            np.linspace(0.5, 2.0, texts.Y.shape[0]),
            compare=compare,
            width=5.0,
            approx=approx,
            rng=np.random.default_rng(0),
        )
        return prepared.times(np.linspace(0.1, 1.0, texts.Y.nnz))

    few = times()
    monkeypatch.setattr(similarity, "MANY_LABELS", 1)
    np.testing.assert_allclose(times(), few, rtol=2e-5, atol=2e-5 * few.max())


@pytest.mark.usefixtures("many")
def test_a_fit_with_pairs_of_labels_is_the_fit_with_dense_matrices(texts, monkeypatch):
    by_pairs = PMLLFC(random_state=0).fit(texts.X, texts.Y)
    monkeypatch.undo()
    dense = PMLLFC(random_state=0).fit(texts.X, texts.Y)
    np.testing.assert_allclose(by_pairs.label_confidence_.data, dense.label_confidence_.data, atol=1e-5)
    np.testing.assert_allclose(by_pairs.decision_function(texts.X), dense.decision_function(texts.X), atol=1e-5)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("alpha", "gap"), [(10.0, 0.02), (2.0, 0.2)])
def test_a_factored_predictor_is_the_dense_one_within_its_gap(texts, alpha, gap, intercept):
    weight = np.linspace(0.5, 2.0, texts.Y.shape[0])
    fits = [
        PMLLFC(alpha=alpha, max_rank=rank, fit_intercept=intercept, random_state=0).fit(texts.X, texts.Y, weight)
        for rank in (None, 200)
    ]
    dense, factored = fits
    assert factored.coef_factors_ is not None
    assert not hasattr(factored, "coef_")
    assert factored.rank_ == factored.coef_factors_[0].shape[1]
    assert factored.optimality_gap_ < gap
    assert abs(factored.objective_[-1] / dense.objective_[-1] - 1.0) < 1e-3
    np.testing.assert_allclose(factored.label_confidence_.data, dense.label_confidence_.data, atol=1e-2)
    np.testing.assert_allclose(factored.decision_function(texts.X), dense.decision_function(texts.X), atol=5e-2)
    assert (factored.objective_[1:] <= factored.objective_[:-1]).all()


def test_the_gap_says_what_a_small_rank_costs(texts):
    weight = np.ones(texts.Y.shape[0])
    tight = PMLLFC(alpha=2.0, max_rank=3, joint=False, random_state=0).fit(texts.X, texts.Y, weight)
    free = PMLLFC(alpha=2.0, max_rank=None, joint=False, random_state=0).fit(texts.X, texts.Y, weight)
    values = []
    for model in (tight, free):
        P = model.label_confidence_.toarray()
        W = model.coef_factors_[0] @ model.coef_factors_[1] if model is tight else model.coef_
        fit = np.linalg.norm(model.decision_function(texts.X) - P) ** 2
        unit = texts.X / np.maximum(np.sqrt(texts.X.multiply(texts.X).sum(axis=1)), 1e-300)[:, None]
        centred = unit.toarray() - unit.toarray().mean(axis=0)
        values.append(fit + 2.0 * 0.01 * np.linalg.norm(centred) * np.linalg.norm(W, "nuc"))
    assert tight.rank_ <= 3
    assert tight.optimality_gap_ > 0.01
    assert values[1] < values[0]
    assert values[0] - values[1] <= tight.optimality_gap_ * values[0]


def test_no_array_of_rows_or_features_by_labels(monkeypatch):
    """Dense, the predictor would take 670 MB, labels by labels 140 and the scores of the training rows 34."""
    monkeypatch.setattr(estimator, "_THRESHOLD_CELLS", 200_000)
    n_samples, n_features, n_labels = 1000, 20_000, 4200
    rng = np.random.default_rng(0)
    X = sparse.random_array((n_samples, n_features), density=0.001, rng=rng, format="csr")
    Y = sparse.csr_array(
        (np.ones(3 * n_samples), (np.repeat(np.arange(n_samples), 3), rng.integers(n_labels, size=3 * n_samples))),
        shape=(n_samples, n_labels),
    )
    Y.data[:] = 1.0
    tracemalloc.start()
    model = PMLLFC(max_rank=8, max_iter=2, random_state=0).fit(X, Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32e6
    names, scores = model.predict_top_k(X[:20], 5)
    assert names.shape == scores.shape == (20, 5)
    assert not model.threshold_weights_.any()


def test_large_data_are_factored_by_themselves(texts, monkeypatch):
    monkeypatch.setattr(estimator, "LARGEST_DIAGONALISED", 100)
    monkeypatch.setattr(estimator, "_DENSE_CELLS", 900 * 29)
    assert PMLLFC(random_state=0).fit(texts.X, texts.Y).coef_factors_ is not None
    assert PMLLFC(max_rank=None, random_state=0).fit(texts.X, texts.Y).coef_factors_ is None
    monkeypatch.setattr(estimator, "_DENSE_CELLS", 900 * 30)
    assert PMLLFC(random_state=0).fit(texts.X, texts.Y).coef_factors_ is None


def test_a_factored_model_survives_its_file(texts):
    model = PMLLFC(max_rank=10, random_state=0).fit(texts.X, texts.Y)
    copy = loads(dumps(model))
    assert (copy.decision_function(texts.X) == model.decision_function(texts.X)).all()


def test_a_second_fit_forgets_the_form_of_the_first(texts):
    model = PMLLFC(max_rank=10, random_state=0).fit(texts.X, texts.Y)
    model.set_params(max_rank=None).fit(texts.X, texts.Y)
    assert model.coef_factors_ is None
    assert model.coef_.shape == (30, 900)


def test_warm_start_keeps_the_factored_basis(texts):
    model = PMLLFC(max_rank=200, warm_start=True, random_state=0).fit(texts.X, texts.Y)
    again = model.set_params(alpha=5.0).fit(texts.X, texts.Y).objective_[-1]
    fresh = PMLLFC(alpha=5.0, max_rank=200, random_state=0).fit(texts.X, texts.Y).objective_[-1]
    assert again <= fresh * 1.001
