"""Support vector regression of many targets on one radial kernel."""

from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy import sparse
from sklearn import config_context
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVR

from pmlkit._typing import Features, FloatArray, IntArray
from pmlkit.numerics.canonical import plain_rows
from pmlkit.numerics.kernels import scale_gamma

__all__ = ["KernelRegression", "fit_kernel_regression"]

# The largest kernel matrix that is kept: 8,192 rows, half a gigabyte.
_KERNEL_CELLS = 1 << 26
_CELLS_AT_ONCE = 1 << 24


@dataclass(frozen=True)
class KernelRegression:
    """Regressions of several targets that share their support rows."""

    support_rows: Features
    dual: FloatArray
    bias: FloatArray
    gamma: float

    def predict(self, X: Features) -> FloatArray:
        """Return the predicted targets of every row."""
        predicted = np.empty((X.shape[0], len(self.bias)))
        size = max(1, _CELLS_AT_ONCE // max(self.support_rows.shape[0], X.shape[1]))
        for start in range(0, X.shape[0], size):
            rows = plain_rows(X[start : start + size], dense=not sparse.issparse(self.support_rows))
            kernel = rbf_kernel(rows, self.support_rows, gamma=self.gamma)
            predicted[start : start + size] = kernel @ self.dual + self.bias
        return predicted


def fit_kernel_regression(X: Features, targets: FloatArray, *, n_jobs: int | None = None) -> KernelRegression:
    """Fit scikit-learn's ``SVR()`` to every column of `targets`.

    The kernel matrix is computed once for all columns; beyond 8,192 rows each regression computes
    its own.
    """
    gamma = scale_gamma(X)
    shared = X.shape[0] ** 2 <= _KERNEL_CELLS
    features = rbf_kernel(X, gamma=gamma) if shared else X
    kernel = "precomputed" if shared else "rbf"
    # Several batches per worker: few enough to send, many enough to balance the load.
    n_batches = min(8 * effective_n_jobs(n_jobs), targets.shape[1])
    batches = Parallel(n_jobs=n_jobs)(
        delayed(_fit_columns)(features, targets[:, start::n_batches], kernel, gamma) for start in range(n_batches)
    )
    dual, bias = np.empty_like(targets), np.empty(targets.shape[1])
    for start, (some_dual, some_bias) in enumerate(batches):
        dual[:, start::n_batches], bias[start::n_batches] = some_dual, some_bias
    used: IntArray = np.flatnonzero(dual.any(axis=1))
    if not len(used):  # constant targets have no support rows, but a kernel needs one
        used = np.zeros(1, dtype=np.int64)
    return KernelRegression(X[used], dual[used], bias, gamma)


def _fit_columns(features: Features, targets: FloatArray, kernel: str, gamma: float) -> tuple[FloatArray, FloatArray]:
    dual, bias = np.zeros(targets.shape), np.empty(targets.shape[1])
    with config_context(assume_finite=True, skip_parameter_validation=True):
        for column, target in enumerate(targets.T):
            model = SVR(kernel=kernel, gamma=gamma).fit(features, target)
            coefficients = model.dual_coef_
            coefficients = coefficients.toarray() if sparse.issparse(coefficients) else coefficients
            dual[model.support_, column], bias[column] = coefficients[0], model.intercept_[0]
    return dual, bias
