"""Weightings of the features before distances between rows are computed."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import sparse

from pmlkit._typing import Features, FloatArray
from pmlkit.numerics.scaling import column_moments, scale_of_moments, scaled

Weighting = Literal["standard", "unit", "log", "idf"]

_MOSTLY_ZERO = 0.3
"""Below this share of non-zero cells, features are taken for counts of rare things, such as words."""


@dataclass(frozen=True)
class FeatureWeighting:
    """A weighting of features, fitted to training rows. Its rows have unit length (or are zero).

    - `weighting`, one of {"standard", "unit", "log", "idf"};
    - `shift`, `scale` (n_features,): what is subtracted from a column (nothing where it is zero), and what it is
      divided by.
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


@dataclass(frozen=True)
class FeatureMoments:
    """What the weightings depend on; those of two groups of rows can be merged.

    - `n_with` (n_features,): how many rows have a non-zero value;
    - `mean`, `variance` (n_features,).
    """

    n_rows: int
    n_with: FloatArray
    mean: FloatArray
    variance: FloatArray

    @property
    def n_nonzero(self) -> int:
        """How many cells are not zero."""
        return int(self.n_with.sum())

    def merged(self, other: "FeatureMoments") -> "FeatureMoments":
        """Return the moments of both groups of rows together."""
        n = self.n_rows + other.n_rows
        if not (self.n_rows and other.n_rows):
            return self if self.n_rows else other
        share = other.n_rows / n
        shift = other.mean.astype(np.float64) - self.mean
        variance = (1.0 - share) * self.variance + share * other.variance + share * (1.0 - share) * shift**2
        return FeatureMoments(n, self.n_with + other.n_with, self.mean + share * shift, variance)


def feature_moments(X: Features) -> FeatureMoments:
    """Return the moments of rows.

    - `X` (n_rows, n_features).

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.feature_weighting import feature_moments
    >>> X = np.array([[1.0, 0.0], [1.0, 1.0], [4.0, 0.0]])
    >>> whole, parts = feature_moments(X), feature_moments(X[:1]).merged(feature_moments(X[1:]))
    >>> bool(np.allclose(whole.variance, parts.variance)), whole.n_with.tolist()
    (True, [3, 1])
    """
    if not X.shape[0]:
        return FeatureMoments(0, *(np.zeros(X.shape[1]) for _ in range(3)))
    n_with = X.count_nonzero(axis=0) if sparse.issparse(X) else np.count_nonzero(X, axis=0)
    return FeatureMoments(X.shape[0], n_with, *column_moments(X))


def possible_weightings(X: Features | FeatureMoments) -> tuple[Weighting, ...]:
    """Return the weightings to compare, by the share of cells that are zero.

    Columns of measurements are standardised or left alone; counts of rare things are damped by a logarithm, with
    or without the inverse share of rows that have them (idf).
    """
    moments = X if isinstance(X, FeatureMoments) else feature_moments(X)
    n_cells = moments.n_rows * len(moments.n_with)
    return ("log", "idf") if moments.n_nonzero < _MOSTLY_ZERO * n_cells else ("standard", "unit")


def fit_weighting(X: Features | FeatureMoments, weighting: Weighting) -> FeatureWeighting:
    """Fit a weighting to training rows.

    - `X` (n_rows, n_features), or its moments;
    - `weighting`, one of {"standard", "unit", "log", "idf"}: columns centred and divided by their standard deviation;
      as they are; the logarithm of one plus the cell (of its size, for negative ones); the same, rare columns counting
      more. Then unit rows.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.feature_weighting import fit_weighting
    >>> fit_weighting(np.array([[1.0, 0.0], [1.0, 1.0]]), "idf").scale.round(3)
    array([1.   , 0.712])
    """
    moments = X if isinstance(X, FeatureMoments) else feature_moments(X)
    n_features = len(moments.n_with)
    shift, scale = np.zeros(n_features), np.ones(n_features)
    if weighting == "standard":
        shift = moments.mean.astype(np.float64)
        scale = scale_of_moments(moments.mean, moments.variance, moments.n_rows).astype(np.float64)
    elif weighting == "idf":
        scale = 1.0 / (1.0 + np.log((1.0 + moments.n_rows) / (1.0 + moments.n_with)))
    return FeatureWeighting(weighting, shift, scale)


def _logarithm(X: Features) -> Features:
    if not sparse.issparse(X):
        return np.asarray(np.sign(X) * np.log1p(np.abs(X)))
    damped = np.sign(X.data) * np.log1p(np.abs(X.data))
    return sparse.csr_array((damped, X.indices, X.indptr), shape=X.shape)
