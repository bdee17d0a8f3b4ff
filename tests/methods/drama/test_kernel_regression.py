import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.svm import SVR

from pmlkit.methods import drama
from pmlkit.methods.drama import fit_kernel_regression


@pytest.mark.parametrize("kernel_cells", [1 << 26, 0], ids=["shared kernel", "own kernels"])
@pytest.mark.parametrize(("container", "n_jobs"), [(np.asarray, None), (sparse.csr_array, None), (np.asarray, 2)])
def test_equals_one_regression_after_the_other(monkeypatch, kernel_cells, container, n_jobs):
    monkeypatch.setattr(drama, "_KERNEL_CELLS", kernel_cells)
    monkeypatch.setattr(drama, "_CELLS_AT_ONCE", 100)  # several blocks
    rng = np.random.default_rng(0)
    X, new = np.maximum(rng.normal(size=(50, 6)), 0.0), np.maximum(rng.normal(size=(20, 6)), 0.0)
    targets = np.sin(X[:, :3]) + X[:, 3:]
    expected = np.stack([SVR().fit(X, target).predict(new) for target in targets.T], axis=1)
    with parallel_config("threading"):  # processes take long to start
        model = fit_kernel_regression(container(X), targets, n_jobs=n_jobs)
    assert_allclose(model.predict(container(new)), expected, rtol=0, atol=1e-10)


def test_constant_targets():
    model = fit_kernel_regression(np.eye(4), np.full((4, 2), -0.5))
    assert_allclose(model.predict(np.ones((3, 4))), -0.5, atol=0.1)


def test_constant_features():
    assert np.isfinite(fit_kernel_regression(np.ones((4, 2)), np.arange(4.0)[:, None]).predict(np.ones((1, 2)))).all()
