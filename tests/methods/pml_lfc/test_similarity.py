import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from pmlkit.data import make_pml
from pmlkit.methods.pml_lfc import similarity
from pmlkit.methods.pml_lfc.similarity import cells_of_product, row_similarity


def dense_similarity(X, Y, compare, width):
    X = X.toarray() if sparse.issparse(X) else X
    S = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / width**2)
    unit = Y.toarray() / np.sqrt(Y.toarray().sum(axis=1, keepdims=True))
    A = {"both": S * (unit @ unit.T), "features": S, "labels": unit @ unit.T}[compare]
    np.fill_diagonal(A, 0)
    return A


def problem(seed=0, n=60, q=6, is_sparse=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)) * (rng.random((n, 5)) < 0.5)
    Y = (rng.random((n, q)) < 0.3).astype(float)
    Y[np.arange(n), rng.integers(q, size=n)] = 1
    return (sparse.csr_array(X) if is_sparse else X), sparse.csr_array(Y), rng.random(n) * 2


@pytest.mark.parametrize("budget", [2**24, 50])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("compare", ["both", "features", "labels"])
def test_exact_products_equal_the_dense_matrix(compare, is_sparse, budget, monkeypatch):
    monkeypatch.setattr(similarity, "EXACT_CELLS", budget)
    X, Y, weight = problem(is_sparse=is_sparse)
    prepared = row_similarity(X, Y, weight, compare=compare, width=2.0, approx="exact", rng=np.random.default_rng(0))
    p = np.random.default_rng(1).random(Y.nnz)
    P = sparse.csr_array((p, Y.indices, Y.indptr), shape=Y.shape).toarray()
    A = dense_similarity(X, Y, compare, 2.0)
    expected = (A @ (weight[:, None] * P))[Y.toarray() > 0]
    assert_allclose(prepared.times(p), expected, rtol=1e-10)
    assert_allclose(prepared.sum_of_squares, weight @ A**2 @ weight, rtol=1e-10)
    assert prepared.chosen == "exact"


@pytest.mark.parametrize("block", [2**23, 64])
@pytest.mark.parametrize("compare", ["both", "features"])
def test_a_complete_feature_map_is_exact(compare, block, monkeypatch):
    """With every row a landmark the map is the kernel, up to single precision."""
    monkeypatch.setattr(similarity, "_BLOCK_CELLS", block)
    X, Y, weight = problem()
    prepared = row_similarity(X, Y, weight, compare=compare, width=2.0, approx="features", rng=np.random.default_rng(0))
    p = np.random.default_rng(1).random(Y.nnz)
    P = sparse.csr_array((p, Y.indices, Y.indptr), shape=Y.shape).toarray()
    expected = (dense_similarity(X, Y, compare, 2.0) @ (weight[:, None] * P))[Y.toarray() > 0]
    assert prepared.chosen == "features"
    assert_allclose(prepared.times(p), expected, rtol=2e-3, atol=2e-3 * expected.max())
    assert_allclose(prepared.sum_of_squares, weight @ dense_similarity(X, Y, compare, 2.0) ** 2 @ weight, rtol=1e-9)


def test_auto_mixes_rare_and_frequent_labels(monkeypatch, caplog):
    monkeypatch.setattr(similarity, "EXACT_CELLS", 1000)
    monkeypatch.setattr(similarity, "N_FEATURES", 5)
    X, Y, weight = problem()
    Y = Y.tolil()
    Y[:, 0], Y[10:, 1] = 1, 0
    Y = sparse.csr_array(Y)
    with caplog.at_level("INFO", logger="pmlkit"):
        prepared = row_similarity(X, Y, weight, compare="both", width=2.0, rng=np.random.default_rng(0))
    assert prepared.chosen == "mixed"
    assert "Row similarity: mixed" in caplog.text
    p = np.ones(Y.nnz)
    rare = Y.indices == 1
    exact = row_similarity(X, Y, weight, compare="both", width=2.0, approx="exact", rng=np.random.default_rng(0))
    assert_allclose(prepared.times(p)[rare], exact.times(p)[rare], rtol=1e-12)
    assert_allclose(prepared.times(p)[~rare], exact.times(p)[~rare], rtol=0.5)


def test_mapped_confidences_follow_the_exact_ones():
    from pmlkit import PMLLFC

    data = make_pml(1500, 200, 8, density=0.05, noise=0.5, random_state=0)
    exact = PMLLFC(kernel_approx="exact", random_state=0).fit(data.X, data.Y)
    mapped = PMLLFC(kernel_approx="features", random_state=0).fit(data.X, data.Y)
    correlation = np.corrcoef(exact.label_confidence_.data, mapped.label_confidence_.data)[0, 1]
    assert correlation >= 0.99


def test_cells_of_product_in_blocks(monkeypatch):
    monkeypatch.setattr(similarity, "_BLOCK_CELLS", 7)
    rng = np.random.default_rng(0)
    left, right = sparse.csr_array(rng.random((20, 4))), rng.random((4, 3))
    pattern = sparse.csr_array((rng.random((20, 3)) < 0.5).astype(float))
    assert_allclose(cells_of_product(left, right, pattern), (left @ right)[pattern.toarray() > 0])
