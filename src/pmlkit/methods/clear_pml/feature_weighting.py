"""Weightings of the features before distances between rows are computed."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import sparse

from pmlkit._typing import Features, FloatArray
from pmlkit.numerics.scaling import column_scale, scaled

__all__ = ["FeatureWeighting", "Weighting", "fit_weighting", "possible_weightings"]

Weighting = Literal["standard", "unit", "log", "idf"]

_MOSTLY_ZERO = 0.3
"""Below this share of non-zero cells, features are taken for counts of rare things, such as words."""


@dataclass(frozen=True)
class FeatureWeighting:
    """A weighting of features, fitted to training rows. Its rows have unit length (or are zero).

    Attributes
    ----------
    weighting : {"standard", "unit", "log", "idf"}
    shift, scale : array of shape (n_features,)
        What is subtracted from a column (nothing where it is zero), and what it is divided by.
    """

    weighting: Weighting
    shift: FloatArray
    scale: FloatArray

    def transform(self, X: Features) -> Features:
        """Return weighted rows; sparse ones stay sparse unless columns are centred.

        Examples
        --------
        >>> import numpy as np
        >>> from pmlkit.methods.clear_pml.feature_weighting import fit_weighting
        >>> X = np.array([[0.0, 2.0], [4.0, 0.0]])
        >>> fit_weighting(X, "unit").transform(X)
        array([[0., 1.],
               [1., 0.]])
        """
        # Distances of near rows are differences of large numbers: single precision would not do.
        X = X.astype(np.float64, copy=False)
        if self.weighting in ("log", "idf"):
            X = _logarithm(X)
        if self.shift.any():
            X = np.asarray(X.toarray() if sparse.issparse(X) else X) - self.shift
        if self.weighting in ("standard", "idf"):
            X = scaled(X, "standard", self.scale)
        return scaled(X, "unit")


def possible_weightings(X: Features) -> tuple[Weighting, ...]:
    """Return the weightings to compare, by the share of cells that are zero.

    Columns of measurements are standardised or left alone; counts of rare things are damped by a logarithm, with
    or without the inverse share of rows that have them (idf).
    """
    n_cells = X.shape[0] * X.shape[1]
    n_nonzero = X.count_nonzero() if sparse.issparse(X) else np.count_nonzero(X)
    return ("log", "idf") if n_nonzero < _MOSTLY_ZERO * n_cells else ("standard", "unit")


def fit_weighting(X: Features, weighting: Weighting) -> FeatureWeighting:
    """Fit a weighting to training rows.

    Parameters
    ----------
    X : dense array or CSR array of shape (n_rows, n_features)
    weighting : {"standard", "unit", "log", "idf"}
        Columns centred and divided by their standard deviation; as they are; the logarithm of one plus the
        cell (of its size, for negative ones); the same, rare columns counting more. Then unit rows.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.feature_weighting import fit_weighting
    >>> fit_weighting(np.array([[1.0, 0.0], [1.0, 1.0]]), "idf").scale.round(3)
    array([1.   , 0.712])
    """
    shift, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
    if weighting == "standard":
        shift = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
        scale = column_scale(X).astype(np.float64)
    elif weighting == "idf":
        n_rows = X.shape[0]
        n_with = X.count_nonzero(axis=0) if sparse.issparse(X) else np.count_nonzero(X, axis=0)
        scale = 1.0 / (1.0 + np.log((1.0 + n_rows) / (1.0 + n_with)))
    return FeatureWeighting(weighting, shift, scale)


def _logarithm(X: Features) -> Features:
    if not sparse.issparse(X):
        return np.asarray(np.sign(X) * np.log1p(np.abs(X)))
    damped = np.sign(X.data) * np.log1p(np.abs(X.data))
    return sparse.csr_array((damped, X.indices, X.indptr), shape=X.shape)
