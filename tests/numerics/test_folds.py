import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from pmlkit.numerics import content
from pmlkit.numerics.content import content_folds


@given(seed=st.integers(0, 1000), n=st.integers(2, 60), n_folds=st.integers(2, 7), values=st.integers(1, 50))
@settings(max_examples=80, deadline=None)
def test_twins_share_a_fold_and_order_does_not_matter(seed, n, n_folds, values):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, values + 1, size=(n, 2)).astype(float)
    fold = content_folds(X, n_folds)
    assert fold.min() >= 0
    assert fold.max() < n_folds
    for i in range(n):
        twins = (X[i] == X).all(axis=1)
        assert len(set(fold[twins])) == 1
    order = rng.permutation(n)
    assert_array_equal(content_folds(X[order], n_folds), fold[order])
    assert_array_equal(content_folds(sparse.csr_array(X), n_folds), fold)
    assert_array_equal(content_folds(X.astype(np.float32), n_folds), fold)


def test_folds_are_even_without_twins():
    X = np.random.default_rng(0).normal(size=(1003, 3))
    assert sorted(np.bincount(content_folds(X, 5))) == [200, 200, 201, 201, 201]


def test_large_groups_are_balanced_by_the_rest():
    X = np.concatenate([np.zeros(300), np.arange(1, 101)])[:, None]
    assert sorted(np.bincount(content_folds(X, 3), minlength=3)) == [50, 50, 300]


def test_explicit_zeros_do_not_count():
    X = sparse.csr_array((np.array([1.0, 0.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    twin = sparse.csr_array(np.array([[1.0, 0.0]]))
    both = sparse.vstack([X, twin], format="csr")
    fold = content_folds(sparse.csr_array(both), 2)
    assert fold[0] == fold[1]


def test_another_seed_gives_other_folds():
    X = np.random.default_rng(0).normal(size=(100, 3))
    assert (content_folds(X, 5, seed=1) != content_folds(X, 5)).any()


def test_many_rows_are_assigned_by_their_own_hash(monkeypatch):
    X = np.random.default_rng(0).normal(size=(3000, 3))
    X[1000:2000] = X[:1000]
    monkeypatch.setattr(content, "RANKED_ROWS", 2999)
    fold = content_folds(X, 5)
    assert_array_equal(content_folds(X[2500:], 5), content.folds_of_hashes(*content.row_hashes(X[2500:]), 5))
    assert_array_equal(fold[2500:], content.folds_by_remainder(X[2500:].astype(np.float32), 5))
    assert_array_equal(fold[:1000], fold[1000:2000])
    assert np.bincount(fold).min() > 500
