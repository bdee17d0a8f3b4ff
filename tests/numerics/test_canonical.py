import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from pmlkit.numerics import content
from pmlkit.numerics.content import canonical_problem, plain_rows


def random_problem(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, size=(9, 2)).astype(float)  # with twins, and rows of zeros
    return X, (rng.random((9, 4)) < 0.5).astype(float)


@example(3039)  # two pairs of twins whose labels mirror each other
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_shuffled_problems_become_the_same(seed):
    X, Y = random_problem(seed)
    rng = np.random.default_rng(seed)
    rows, labels = rng.permutation(9), rng.permutation(4)
    one = canonical_problem(X, sparse.csr_array(Y))
    other = canonical_problem(sparse.csr_array(X[rows]), sparse.csr_array(Y[rows][:, labels]))
    assert_array_equal(one.X, other.X)
    assert_array_equal(one.Y.toarray(), other.Y.toarray())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_the_way_back(seed, reorder):
    X, Y = random_problem(seed)
    given_Y = sparse.csr_array(Y)
    problem = canonical_problem(X, given_Y, reorder=reorder)
    assert_array_equal(problem.X, X[problem.rows])
    assert_array_equal(problem.table_as_given(problem.Y.toarray()), Y)
    number = np.arange(given_Y.nnz)
    assert_array_equal(problem.cells_as_given(number[problem.cells]), number)
    named = sparse.csr_array((number + 1.0, given_Y.indices, given_Y.indptr), Y.shape).toarray()
    ordered = sparse.csr_array((problem.cells + 1.0, problem.Y.indices, problem.Y.indptr), Y.shape).toarray()
    assert_array_equal(problem.table_as_given(ordered), named)
    if not reorder:
        assert_array_equal(problem.rows, np.arange(9))


@pytest.mark.parametrize(("limit", "dense"), [(4, True), (3, False)])
def test_only_small_rows_are_made_dense(monkeypatch, limit, dense):
    monkeypatch.setattr(content, "_SMALL", limit)
    rows = sparse.csr_array(np.eye(2, dtype=np.float32))
    assert isinstance(plain_rows(rows), np.ndarray) is dense
    assert isinstance(plain_rows(rows, dense=True), np.ndarray)
    assert plain_rows(rows).dtype == np.float64
