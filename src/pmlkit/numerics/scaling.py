"""Put features on a common scale, without ever making a sparse matrix dense."""

from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize as unit_rows
from sklearn.utils.sparsefuncs import mean_variance_axis

from pmlkit._typing import Features, FloatArray

__all__ = ["Normalize", "column_scale", "scaled"]

Normalize = Literal["unit", "standard"] | None


def column_scale(X: Features, *, sample_weight: FloatArray | None = None) -> FloatArray:
    """Return each column's standard deviation, with 1 for constant columns.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.numerics.scaling import column_scale
    >>> column_scale(np.array([[0.0, 5.0], [2.0, 5.0]]))
    array([1., 1.])
    """
    if sparse.issparse(X):
        _, variance = mean_variance_axis(X, axis=0, weights=sample_weight)
    else:
        mean = np.average(X, axis=0, weights=sample_weight)
        variance = np.average((X - mean) ** 2, axis=0, weights=sample_weight)
    deviation = np.sqrt(variance)
    # A constant column leaves rounding noise: dividing by it would blow that noise up.
    floor = 10 * np.finfo(deviation.dtype).eps * np.maximum(1.0, np.sqrt(variance.max(initial=0.0)))
    return np.where(deviation > floor, deviation, 1.0).astype(deviation.dtype, copy=False)


def scaled(X: Features, normalize: Normalize, scale: FloatArray | None = None) -> Any:
    """Return X with unit rows, with columns divided by `scale`, or as it is.

    Columns are divided but never centred, so that sparse and dense rows give the same
    answer; an intercept takes care of the mean. Rows of zeros stay zero.

    Parameters
    ----------
    X : dense array or CSR array of shape (n_rows, n_features)
    normalize : {"unit", "standard"} or None
    scale : array of shape (n_features,), optional
        What `column_scale` gave for the training rows; needed for ``"standard"``.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.numerics.scaling import scaled
    >>> scaled(np.array([[3.0, 4.0]]), "unit")
    array([[0.6, 0.8]])
    """
    if normalize == "unit":
        return unit_rows(X)
    if normalize == "standard":
        if scale is None:
            raise ValueError('normalize="standard" needs the column scale of the training rows.')
        return sparse.csr_array(X @ sparse.diags_array(1.0 / scale)) if sparse.issparse(X) else X / scale
    return X
