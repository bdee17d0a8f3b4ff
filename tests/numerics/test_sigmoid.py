import numpy as np
import pytest
from scipy import special

from pmlkit.numerics.sigmoid import expit, logit


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_they_are_those_of_scipy_and_keep_the_precision(kind):
    values = np.concatenate([np.linspace(-80, 80, 2001), [-1e4, 1e4]]).astype(kind)
    chance = expit(values)
    assert chance.dtype == kind
    np.testing.assert_allclose(chance, special.expit(values), rtol=4 * np.finfo(kind).eps, atol=1e-37)
    inside = chance[(chance > 1e-6) & (chance < 1.0 - 1e-6)]
    assert logit(inside).dtype == kind
    np.testing.assert_allclose(
        logit(inside), special.logit(inside), rtol=8 * np.finfo(kind).eps, atol=1e-6 * (kind is np.float32) + 1e-15
    )
