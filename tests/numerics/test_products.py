import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from pmlkit.numerics import products
from pmlkit.numerics.products import inner_products


@pytest.mark.parametrize("density", [0.01, 0.5])
@pytest.mark.parametrize("small", [0, 2**25])
def test_inner_products_are_the_same_by_every_route(density, small, monkeypatch):
    monkeypatch.setattr(products, "_SMALL_PRODUCT", small)
    rng = np.random.default_rng(0)
    A = sparse.random_array((40, 60), density=density, format="csr", rng=rng)
    B = sparse.random_array((7, 60), density=density, format="csr", rng=rng)
    expected = A.toarray() @ B.toarray().T
    for left in (A, A.toarray()):
        for right in (B, B.toarray()):
            assert_allclose(inner_products(left, right), expected, atol=1e-14)
    assert_allclose(inner_products(A, A), A.toarray() @ A.toarray().T, atol=1e-14)
