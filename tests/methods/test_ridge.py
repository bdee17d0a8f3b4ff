"""The ridge regression that linear methods start from, against explicit refits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.preprocessing import normalize

from pmlkit.methods import ridge
from pmlkit.methods.ridge import fit_ridge


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("shape", [(40, 6), (20, 30)])
def test_equals_scikit_learn_and_its_refits_without_each_row(container, shape, monkeypatch):
    monkeypatch.setattr(ridge, "_BLOCK_ROWS", 7)
    rng = np.random.default_rng(0)
    X, target = rng.normal(size=shape) + 1.0, rng.normal(size=(shape[0], 3))
    fit = fit_ridge(container(X), target, normalize="unit", penalty=0.3)
    rows = normalize(X)
    reference = Ridge(alpha=0.3).fit(rows, target)
    assert_allclose(fit.coef.T, reference.coef_, atol=1e-10)
    assert_allclose(fit.intercept, reference.intercept_, atol=1e-10)
    expected = [
        Ridge(alpha=0.3).fit(np.delete(rows, i, axis=0), np.delete(target, i, axis=0)).predict(rows[i : i + 1])[0]
        for i in range(shape[0])
    ]
    assert_allclose(fit.leave_one_out(target), expected, atol=1e-8)


@pytest.mark.parametrize("scaling", ["unit", "standard"])
def test_the_penalty_minimises_the_generalised_error(oracle, scaling):
    target = oracle.Y.astype(float)
    fit = fit_ridge(oracle.X, target, normalize=scaling)
    rows = normalize(oracle.X) if scaling == "unit" else oracle.X / oracle.X.std(axis=0)
    rows = rows - rows.mean(axis=0)
    centred = target - target.mean(axis=0)
    penalties = np.linalg.norm(rows, 2) ** 2 * 10.0 ** np.arange(-5.0, 1.0, 0.5)
    errors = []
    for penalty in penalties:
        hat = rows @ np.linalg.solve(rows.T @ rows + penalty * np.eye(20), rows.T)
        errors.append(np.square(centred - hat @ centred).sum() / (len(rows) - 1 - np.trace(hat)) ** 2)
    assert_allclose(fit.penalty, penalties[np.argmin(errors)])
    assert 0 < np.argmin(errors) < len(errors) - 1


def test_the_scaling_with_the_smaller_error_is_chosen(oracle):
    X = np.column_stack([oracle.X, 1e4 * np.linspace(0, 1, 96)])
    assert fit_ridge(X, oracle.Y.astype(float)).normalize == "standard"


def test_features_that_say_nothing_leave_the_means():
    target = np.array([[0.0], [1.0], [1.0]])
    fit = fit_ridge(np.ones((3, 2)), target)
    assert_allclose(fit.coef, 0.0)
    assert_allclose(fit.leave_one_out(target), [[1.0], [0.5], [0.5]])
