import numpy as np
import pytest
from scipy import sparse

from pmlkit import _arrays
from pmlkit.methods.clear_pml.block_ridge import RowSource
from pmlkit.methods.clear_pml.feature_weighting import fit_weighting
from pmlkit.methods.clear_pml.landmarks import LandmarkKernel, kernel_between, row_blocks, smallest_hashes


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_the_kernel_is_the_formula(linear, container):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(7, 3)), rng.normal(size=(4, 3))
    kernel = LandmarkKernel(container(B), 0.8, linear)(container(A))
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            g = np.exp(-((a - b) ** 2).sum() / (2 * 0.8**2))
            assert kernel[i, j] == pytest.approx(a @ b + g if linear else (g + g**4) / 2, abs=1e-12)


def test_products_by_blocks_are_the_product(monkeypatch):
    monkeypatch.setattr("pmlkit.methods.clear_pml.landmarks._BLOCK_CELLS", 10)
    rng = np.random.default_rng(0)
    kernel = LandmarkKernel(rng.normal(size=(4, 2)), 1.0, linear=False)
    X, weights = rng.normal(size=(11, 2)), rng.normal(size=(4, 3))
    np.testing.assert_allclose(kernel.times(X, weights), kernel(X) @ weights)


def test_blocks_cover_all_rows_once(monkeypatch):
    monkeypatch.setattr("pmlkit.methods.clear_pml.landmarks._BLOCK_CELLS", 1000)
    blocks = list(row_blocks(1003, 7))
    covered = np.concatenate([np.arange(1003)[rows] for rows in blocks])
    np.testing.assert_array_equal(covered, np.arange(1003))
    assert max(rows.stop - rows.start for rows in blocks) * 7 <= 1000


def test_the_sample_follows_the_rows_wherever_they_stand():
    X = np.random.default_rng(0).normal(size=(50, 3))
    order = np.random.default_rng(1).permutation(50)
    chosen = {tuple(row) for row in X[smallest_hashes(X, 10)[1]]}
    assert chosen == {tuple(row) for row in X[order][smallest_hashes(X[order], 10)[1]]}
    assert len(chosen) == 10


def test_the_mean_distance_is_the_mean_over_pairs():
    X = np.random.default_rng(0).normal(size=(12, 3))
    pairs = [np.linalg.norm(X[i] - X[j]) for i in range(12) for j in range(12) if i != j]
    for rows, expected in ((X, np.mean(pairs)), (sparse.csr_array(X), np.mean(pairs)), (np.ones((3, 2)), 1.0)):
        assert kernel_between(rows, linear=False)[0].width == pytest.approx(expected)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("weighting", ["standard", "log"])
def test_few_wide_rows_are_weighted_at_a_time(monkeypatch, container, weighting):
    """Rows that are dense once they are weighted count by their features, not only by the landmarks."""
    monkeypatch.setattr("pmlkit.methods.clear_pml.landmarks._BLOCK_CELLS", 100)
    X = container(np.random.default_rng(0).poisson(0.5, size=(30, 20)).astype(float))
    fitted = fit_weighting(X, weighting)
    kernel = LandmarkKernel(fitted.transform(X[:4]), 1.0, linear=False)
    slices, blocks = zip(*RowSource(False, fitted, kernel).kernel_rows(X), strict=True)
    stays_sparse = container is sparse.csr_array and weighting == "log"
    assert {rows.stop - rows.start for rows in slices} == ({25, 5} if stays_sparse else {5})
    np.testing.assert_allclose(np.concatenate(blocks), kernel(fitted.transform(X)))


def test_hashes_do_not_depend_on_how_many_rows_are_hashed_at_a_time(monkeypatch):
    X = np.random.default_rng(0).poisson(0.3, size=(40, 6)).astype(float)
    whole = _arrays.row_hash(X)
    monkeypatch.setattr(_arrays, "_HASHED_CELLS", 20)
    assert np.array_equal(_arrays.row_hash(X), whole)
    assert np.array_equal(_arrays.row_hash(sparse.csr_array(X)), whole)
