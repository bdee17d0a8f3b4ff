import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.preprocessing import normalize

from pmlkit.numerics.scaling import column_scale, scaled

X = np.random.default_rng(0).normal(size=(30, 4)) * [1, 100, 0.01, 1] * (np.arange(4) != 3)


def test_scale_is_the_standard_deviation_and_one_for_constants():
    expected = X.std(axis=0)
    expected[3] = 1
    assert_allclose(column_scale(X), expected)
    assert_allclose(column_scale(sparse.csr_array(X)), expected)


def test_constant_column_with_rounding_noise_is_left_alone():
    noisy = np.full((50, 1), 0.1 + 0.2) + 1e-17
    assert column_scale(noisy)[0] == 1.0


def test_weights_repeat_rows():
    weight = np.arange(30) % 3
    assert_allclose(column_scale(X, sample_weight=weight.astype(float)), column_scale(np.repeat(X, weight, axis=0)))


@pytest.mark.parametrize("how", ["unit", "standard", None])
def test_sparse_equals_dense(how):
    scale = column_scale(X)
    dense, thin = scaled(X, how, scale), scaled(sparse.csr_array(X), how, scale)
    assert_allclose(thin.toarray(), dense)


def test_standard_needs_a_scale():
    with pytest.raises(ValueError, match="column scale"):
        scaled(X, "standard")


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_unit_rows_are_those_of_scikit_learn_and_zeros_stay(container, kind):
    rows = np.where(np.random.default_rng(0).uniform(size=X.shape) < 0.5, X, 0.0).astype(kind)
    rows[3] = 0.0
    found = scaled(container(rows), "unit")
    assert found.dtype == kind
    assert_allclose(
        found.toarray() if sparse.issparse(found) else found,
        normalize(rows),
        rtol=1e-6 if kind is np.float32 else 1e-14,
    )
