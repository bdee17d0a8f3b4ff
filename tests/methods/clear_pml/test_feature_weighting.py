import numpy as np
import pytest
from scipy import sparse

from pmlkit.methods.clear_pml.feature_weighting import fit_weighting, possible_weightings


@pytest.fixture
def counts():
    return np.random.default_rng(0).poisson(0.2, size=(40, 12)).astype(float)


@pytest.mark.parametrize("weighting", ["standard", "unit", "log", "idf"])
def test_rows_have_unit_length_and_sparse_equals_dense(counts, weighting):
    dense = fit_weighting(counts, weighting).transform(counts)
    stored = sparse.csr_array(counts)
    rows = fit_weighting(stored, weighting).transform(stored)
    length = np.linalg.norm(dense, axis=1)
    np.testing.assert_allclose(length[length > 0], 1.0)
    np.testing.assert_allclose(rows.toarray() if sparse.issparse(rows) else rows, dense, atol=1e-12)
    assert sparse.issparse(rows) == (weighting != "standard")


def test_standard_rows_do_not_depend_on_the_units(counts):
    other = counts * np.arange(1, 13) + 5.0
    np.testing.assert_allclose(
        fit_weighting(other, "standard").transform(other),
        fit_weighting(counts, "standard").transform(counts),
        atol=1e-9,
    )


def test_rare_columns_weigh_more():
    X = np.zeros((10, 2))
    X[:, 0] = 1.0
    X[0, 1] = 1.0
    row = fit_weighting(X, "idf").transform(X)[0]
    assert row[1] > row[0]


def test_which_weightings_are_tried_depends_on_the_zeros(counts):
    assert possible_weightings(counts) == possible_weightings(sparse.csr_array(counts)) == ("log", "idf")
    assert (
        possible_weightings(counts + 1.0) == possible_weightings(sparse.csr_array(counts + 1.0)) == ("standard", "unit")
    )
