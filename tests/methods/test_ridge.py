"""The ridge regression that linear methods start from, against explicit refits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.preprocessing import normalize

from pmlkit.methods import linear
from pmlkit.methods.linear import fit_ridge


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("shape", [(40, 6), (20, 30)])
def test_equals_scikit_learn_and_its_refits_without_each_row(container, shape, monkeypatch):
    monkeypatch.setattr(linear, "_BLOCK_ROWS", 7)
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
@pytest.mark.parametrize("n_features", [20, 120])
def test_the_penalty_minimises_the_leave_one_out_error(oracle, scaling, n_features):
    """With fewer rows than features, too, where other criteria would choose no penalty."""
    rng = np.random.default_rng(0)
    X = np.hstack([oracle.X, rng.random((96, n_features - 20))])
    target = oracle.Y.astype(float)
    fit = fit_ridge(X, target, normalize=scaling)
    rows = normalize(X) if scaling == "unit" else X / X.std(axis=0)
    largest = np.linalg.norm(rows - rows.mean(axis=0), 2) ** 2
    penalties = largest * 10.0 ** np.arange(-4.0, 1.5, 0.5)
    errors = []
    for penalty in penalties:
        folds = cross_val_predict(Ridge(alpha=penalty), rows, target, cv=LeaveOneOut())
        errors.append(np.square(target - folds).sum())
    assert_allclose(fit.penalty, penalties[np.argmin(errors)])
    assert 0 < np.argmin(errors) < len(errors) - 1


def test_a_sample_of_rows_decides_about_many(oracle, monkeypatch):
    X, target = np.vstack([oracle.X, oracle.X + 0.01]), np.vstack([oracle.Y, oracle.Y]).astype(float)
    seen = []
    plain = linear._left_out_errors
    monkeypatch.setattr(linear, "_CHOICE_ROWS", 50)
    monkeypatch.setattr(linear, "_left_out_errors", lambda *a: seen.append(len(a[3])) or plain(*a))
    chosen = fit_ridge(X, target).penalty
    assert max(seen) <= 50
    order = np.random.default_rng(0).permutation(192)
    assert_allclose(fit_ridge(X[order], target[order]).penalty, chosen)


def test_the_scaling_with_the_smaller_error_is_chosen(oracle):
    X = np.column_stack([oracle.X, 1e4 * np.linspace(0, 1, 96)])
    assert fit_ridge(X, oracle.Y.astype(float)).normalize == "standard"


def test_features_that_say_nothing_leave_the_means():
    target = np.array([[0.0], [1.0], [1.0]])
    fit = fit_ridge(np.ones((3, 2)), target)
    assert_allclose(fit.coef, 0.0)
    assert_allclose(fit.leave_one_out(target), [[1.0], [0.5], [0.5]])


def test_a_scaling_that_leaves_nothing_is_not_chosen():
    """Unit rows of one feature are all alike."""
    X = np.linspace(1.0, 2.0, 30)[:, None]
    fit = fit_ridge(X, (X > 1.5).astype(float))
    assert fit.normalize == "standard"
    assert fit.coef[0, 0] > 0
