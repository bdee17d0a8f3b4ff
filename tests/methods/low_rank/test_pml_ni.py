"""PML-NI against the authors' numbers and the textbook form of their iteration."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from pmlkit.methods.low_rank.pml_ni import PMLNI, column_range, ranged, split_model
from pmlkit.numerics.spectral import ShiftedRows


def _problem(n_rows=20, n_features=6, n_labels=4, seed=0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n_rows, n_features)) < 0.5, rng.normal(size=(n_rows, n_features)), 0.0)
    X[:, 1], X[:, 2] = 0.0, 3.0
    Y = (X @ rng.normal(size=(n_features, n_labels)) > 0.5) | (rng.random((n_rows, n_labels)) < 0.3)
    return X, sparse.csr_array(Y.astype(float))


def _textbook(X, Y, lam, beta, gamma, max_iter=500):
    """The authors' iteration with a fresh inverse and a full SVD in every step."""
    U = V = dual = np.zeros((Y.shape[1], X.shape[1]))
    mu = 1e-4
    for n_iter in range(1, max_iter + 1):  # noqa: B007
        W = (Y.T @ X + mu * (U + V) + dual) @ np.linalg.inv(X.T @ X + (lam + mu) * np.eye(X.shape[1]))
        before = U
        left, values, right = np.linalg.svd(W - V - dual / mu, full_matrices=False)
        U = (left * np.maximum(values - beta / mu, 0)) @ right
        rest = W - U - dual / mu
        V = np.sign(rest) * np.maximum(np.abs(rest) - gamma / mu, 0)
        settled = mu * np.linalg.norm(U - before) / np.linalg.norm(W) < 1e-5
        agreed = np.linalg.norm(W - U - V) / np.linalg.norm(W) < 1e-7
        if settled:
            mu = min(1.1 * mu, 1e10)
        dual = dual + mu * (U + V - W)
        if settled and agreed:
            break
    return U.T, V.T, n_iter


def test_the_authors_scores(oracle):
    model = PMLNI().fit(oracle.X, oracle.Y)
    assert model.n_iter_ == 206
    assert_allclose(model.decision_function(oracle.X_test), oracle.load("pmlni_scores_test"), atol=1e-12)
    assert_allclose(np.column_stack([model.coef_, model.intercept_]), oracle.load("pmlni_U"), atol=1e-12)


def test_the_authors_labels_follow_from_the_scores(oracle):
    """Their size predictor, with its two quirks, gives their labels from our scores.

    Their count of errors adds one where all the labels lie on one side of the threshold, and at test
    time the predictor (not the comparison) is fed scores without the constant feature's part.
    """
    model = PMLNI().fit(oracle.X, oracle.Y)
    scores = model.decision_function(oracle.X)
    target = []
    for row, candidates in zip(scores, oracle.Y > 0, strict=True):
        order = np.argsort(row)
        ascending, relevant = row[order], candidates[order]
        cuts = [ascending[0] - 0.1, *(ascending[1:] + ascending[:-1]) / 2, ascending[-1] + 0.1]
        errors = [relevant[:j].sum() + (~relevant[j:]).sum() for j in range(len(row) + 1)]
        errors[0], errors[-1] = errors[0] + 1, errors[-1] + 1
        target.append(cuts[np.argmin(errors)])
    predictor = np.linalg.lstsq(np.column_stack([scores, np.ones(len(scores))]), np.array(target), rcond=None)[0]
    assert_allclose(predictor, oracle.load("pmlni_sizepred_cand"), atol=1e-10)
    test_scores = model.decision_function(oracle.X_test)
    threshold = (test_scores - model.intercept_) @ predictor[:-1] + predictor[-1]
    assert_array_equal(test_scores >= threshold[:, None], oracle.load("pmlni_labels_test_thr_from_candidates") > 0)


def test_our_labels_are_as_good_as_the_authors_with_candidates(oracle):
    predicted = PMLNI().fit(oracle.X, oracle.Y).predict(oracle.X_test)
    theirs = oracle.load("pmlni_labels_test_thr_from_candidates")
    assert np.mean(predicted != theirs) < 0.1


@pytest.mark.parametrize("shape", [(20, 6), (6, 20)])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("weights", [(10.0, 0.5, 0.5), (0.5, 1.0, 0.2), (0.0, 0.3, 0.1)])
def test_same_iteration_as_the_textbook(shape, container, weights):
    X, Y = _problem(*shape)
    rows = ranged(container(X), *column_range(container(X)))
    dense = np.column_stack([_to_range(X), np.ones(len(X))])
    U, V, n_iter = _textbook(dense, Y.toarray(), *weights, max_iter=120)
    found = split_model(rows, Y, *weights, max_iter=120)
    assert found.n_iter == n_iter
    assert_allclose(found.low_rank, U, atol=1e-8)
    assert_allclose(found.sparse, V, atol=1e-8)


def _to_range(X):
    low, high = X.min(axis=0), X.max(axis=0)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(2 * (X - low) / (high - low) - 1)


def test_the_objective_is_that_of_the_parts(oracle):
    Y = sparse.csr_array(oracle.Y.astype(float))
    rows = ranged(oracle.X, *column_range(oracle.X))
    found = split_model(rows, Y, 0.5, 1.0, 0.2)
    W = found.low_rank + found.sparse
    assert np.abs(found.sparse).max() > 0.01, "no noise part: the problem tests nothing"
    expected = (
        0.5 * np.linalg.norm(oracle.Y - rows @ W) ** 2
        + 0.25 * np.linalg.norm(W) ** 2
        + np.linalg.norm(found.low_rank, "nuc")
        + 0.2 * np.abs(found.sparse).sum()
    )
    assert_allclose(found.objective[-1], expected, rtol=1e-6)


def test_the_noise_part_needs_a_cheaper_weight_than_the_low_rank_part(oracle):
    assert_array_equal(PMLNI(beta=0.5, gamma=0.5).fit(oracle.X, oracle.Y).noise_coef_, 0.0)
    assert np.abs(PMLNI(beta=5.0, gamma=0.5).fit(oracle.X, oracle.Y).noise_coef_).max() > 0.01


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_columns_are_brought_to_the_range(container):
    X, _ = _problem()
    scale, shift = column_range(container(X))
    assert_allclose(X * scale + shift, _to_range(X), atol=1e-12)
    assert_allclose((scale[1:3], shift[1:3]), 0.0)
    rows = ranged(container(X), scale, shift)
    assert_allclose(rows @ np.eye(7), np.column_stack([_to_range(X), np.ones(len(X))]), atol=1e-12)


def test_sparse_rows_stay_sparse():
    X, _ = _problem()
    X[:, 3] = np.arange(20) + 5.0  # a column without zeros
    rows = ranged(sparse.csr_array(X), *column_range(sparse.csr_array(X)))
    assert isinstance(rows, ShiftedRows)
    assert rows.X.nnz <= np.count_nonzero(X)


def test_confidences_are_the_clipped_reconstruction(oracle):
    model = PMLNI().fit(oracle.X, oracle.Y)
    expected = np.clip(model.decision_function(oracle.X), 0.0, 1.0) * oracle.Y
    assert_allclose(model.label_confidence_.toarray(), expected)


def test_impossible_parameters_are_refused(oracle):
    with pytest.raises(ValueError, match="The 'beta' parameter of PMLNI must be"):
        PMLNI(beta=-1.0).fit(oracle.X, oracle.Y)
