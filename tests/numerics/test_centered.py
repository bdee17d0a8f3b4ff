"""Centred rows: the same linear models, whatever the axes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from pmlkit.numerics.centered import centered_rows


def _rows(shape, seed=0):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) < 0.3, rng.normal(size=shape) + 1.0, 0.0)


@pytest.mark.parametrize("shape", [(30, 6), (6, 30), (1, 4), (5, 5)])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("turned", [True, False])
def test_scores_are_those_of_the_model_as_given(shape, kind, turned, monkeypatch):
    if not turned:
        monkeypatch.setattr("pmlkit.numerics.centered._MAX_SIDE", 0)
    X = _rows(shape)
    centered = centered_rows(kind(X))
    rng = np.random.default_rng(1)
    model = rng.normal(size=(len(centered.squared), 3)), rng.normal(size=3)
    coef, intercept = centered.as_given(*model)
    assert_allclose(X @ coef + intercept, centered.rows @ model[0] + model[1], atol=1e-10)
    # The penalty does not notice the turn, and columns of the turned rows are orthogonal.
    assert_allclose((coef**2).sum(), (model[0] ** 2).sum())
    table = centered.rows @ np.eye(len(centered.squared))
    assert_allclose((table**2).sum(axis=0), centered.squared, atol=1e-10)
    assert_allclose(centered.rows.T @ np.ones((shape[0], 1)), 0.0, atol=1e-10)
    chosen = np.arange(0, shape[0], 2)
    assert_allclose(centered.take(chosen) @ model[0], table[chosen] @ model[0], atol=1e-12)


def test_only_thin_sparse_rows_stay_sparse():
    full, thin = sparse.csr_array(_rows((40, 20))), sparse.random_array((400, 200), density=0.005, rng=0).tocsr()
    assert centered_rows(full).basis is not None
    assert centered_rows(thin).basis is None


def test_directions_without_spread_are_dropped():
    X = _rows((30, 4))
    X[:, 3] = 5.0
    assert len(centered_rows(np.hstack([X, X])).squared) == 3
