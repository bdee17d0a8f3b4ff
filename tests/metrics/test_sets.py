"""Hamming loss and F1 against scikit-learn, dense and sparse."""

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from pmlkit.metrics import hamming_loss, macro_f1, micro_f1


@st.composite
def pairs(draw):
    shape = (draw(st.integers(1, 7)), draw(st.integers(2, 6)))
    table = arrays(np.int8, shape, elements=st.integers(0, 1))
    return draw(table), draw(table)


@settings(max_examples=50, deadline=None)
@given(pairs(), st.sampled_from([0.0, 1.0, np.nan]), st.sampled_from(["zhang", "sklearn"]))
def test_equal_scikit_learn(pair, zero_division, convention):
    assert hamming_loss(*pair, convention=convention) == pytest.approx(sklearn.metrics.hamming_loss(*pair))
    for average, measure in (("micro", micro_f1), ("macro", macro_f1)):
        expected = sklearn.metrics.f1_score(*pair, average=average, zero_division=zero_division)
        value = measure(*pair, convention=convention, zero_division=zero_division)
        assert value == pytest.approx(expected, nan_ok=True)


@settings(max_examples=50, deadline=None)
@given(pairs())
def test_sparse_equals_dense(pair):
    truth, predictions = pair
    for measure in (hamming_loss, micro_f1, macro_f1):
        expected = measure(truth, predictions)
        assert measure(sparse.csr_array(truth), sparse.csr_array(predictions)) == expected
        assert measure(truth, sparse.csr_array(predictions)) == expected
        assert measure(sparse.csr_array(truth), predictions) == expected


def test_stored_zeros_and_unsorted_columns_count_for_what_they_are():
    # Row 0 stores its columns backwards with a zero among them; row 1 stores only a zero.
    messy = sparse.csr_array((np.array([1, 0, 1, 0]), np.array([3, 1, 0, 2]), np.array([0, 3, 4])), shape=(2, 4))
    clean = [[1, 0, 0, 1], [0, 0, 0, 0]]
    before = messy.data.copy(), messy.indices.copy(), messy.indptr.copy()
    assert hamming_loss(messy, clean) == 0.0
    assert hamming_loss(clean, messy) == 0.0
    assert micro_f1(messy, messy) == 1.0
    for now, then in zip((messy.data, messy.indices, messy.indptr), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_one_label_that_is_always_or_never_there():
    truth, predictions = [[1, 0], [1, 0]], [[1, 0], [1, 0]]
    assert macro_f1(truth, predictions) == 0.5
    assert macro_f1(truth, predictions, zero_division=np.nan) == 1.0
    assert np.isnan(macro_f1([[0], [0]], [[0], [0]], zero_division=np.nan))


def test_a_wide_sparse_table_is_never_made_dense():
    # Dense, this would be 8 GB of booleans.
    shape = (200_000, 40_000)
    rows = np.arange(shape[0])
    truth = sparse.csr_array((np.ones(shape[0]), (rows, rows % shape[1])), shape=shape)
    predictions = sparse.csr_array((np.ones(shape[0]), (rows, (rows + rows % 2) % shape[1])), shape=shape)
    assert micro_f1(truth, predictions) == 0.5
