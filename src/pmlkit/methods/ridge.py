r"""Ridge regression of all labels on scaled features, with scaling and penalty chosen by cross-validation.

Shared by the linear methods that start from, or consist of, such a regression (`upml`, `nlr`, `schirn`). The choice
uses generalised cross-validation on the candidates, which one singular value decomposition per scaling gives for
all penalties; no row is held out and nothing but training rows is seen.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse

from pmlkit._typing import Features, FloatArray
from pmlkit.numerics.scaling import Normalize, column_scale, scaled
from pmlkit.numerics.spectral import ShiftedRows, ThinSVD

__all__ = ["RidgeFit", "fit_ridge", "scaled_rows"]

_PENALTY_SHARES = 10.0 ** np.arange(-5.0, 1.0, 0.5)  # of the largest squared singular value
_BLOCK_ROWS = 2000


def scaled_rows(X: Features, normalize: Normalize, scale: FloatArray | None) -> Any:
    """Return rows scaled as the training rows were, as float64."""
    return scaled(X, normalize, scale).astype(np.float64, copy=False)


@dataclass(frozen=True)
class RidgeFit:
    """A ridge regression with an unpenalised intercept.

    Attributes
    ----------
    normalize : {"unit", "standard"} or None
    scale : array of shape (n_features,) or None
        What the columns were divided by.
    rows : array or ShiftedRows of shape (n_samples, n_features)
        Scaled and centred.
    mean : array of shape (n_features,)
        Of the scaled rows.
    svd : ThinSVD
        Of `rows`.
    penalty : float
    coef : array of shape (n_features, n_labels)
    intercept : array of shape (n_labels,)
        For scaled rows that are not centred.
    """

    normalize: Normalize
    scale: FloatArray | None
    rows: Any
    mean: FloatArray
    svd: ThinSVD
    penalty: float
    coef: FloatArray
    intercept: FloatArray

    def leave_one_out(self, target: FloatArray) -> FloatArray:
        """Return the prediction for each training row by the regression on all other rows."""
        centre = target.mean(axis=0)
        fitted = np.asarray(self.rows @ self.coef) + centre
        leverage = (1.0 / len(target) + self._leverage())[:, None]
        return np.asarray((fitted - leverage * target) / np.maximum(1.0 - leverage, 1e-6))

    def _leverage(self) -> FloatArray:
        right, weight = self.svd.right, 1.0 / (self.svd.squared + self.penalty)
        leverage = np.empty(self.rows.shape[0])
        for first in range(0, len(leverage), _BLOCK_ROWS):
            block = slice(first, first + _BLOCK_ROWS)
            shifted = isinstance(self.rows, ShiftedRows)
            rows = ShiftedRows(self.rows.X[block], self.rows.shift) if shifted else self.rows[block]
            leverage[block] = np.square(rows @ right) @ weight
        return leverage


def _centered(X: Features) -> tuple[Any, FloatArray]:
    """Return rows minus their mean, sparse rows implicitly so, and the mean."""
    mean = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    return (ShiftedRows(X, -mean) if sparse.issparse(X) else X - mean), mean


def fit_ridge(
    X: Features,
    target: FloatArray,
    normalize: Normalize | Literal["auto"] = "auto",
    penalty: float | Literal["auto"] = "auto",
) -> RidgeFit:
    r"""Minimise :math:`\|XW + 1b^\top - T\|^2 + \text{penalty} \|W\|^2` over W and b, for scaled rows X.

    Parameters
    ----------
    X : dense array or CSR array of shape (n_samples, n_features)
    target : array of shape (n_samples, n_labels)
    normalize : {"auto", "unit", "standard"} or None, default="auto"
    penalty : float or "auto", default="auto"
        ``"auto"`` is the value with the smallest generalised cross-validation error, over all labels together.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.ridge import fit_ridge
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> fit = fit_ridge(X, X @ np.ones((3, 2)), normalize=None)
    >>> fit.coef.round(3)
    array([[1., 1.],
           [1., 1.],
           [1., 1.]])
    """
    centre = target.mean(axis=0)
    best: tuple[float, RidgeFit] | None = None
    for choice in ("unit", "standard") if normalize == "auto" else (normalize,):
        scale = column_scale(X).astype(np.float64) if choice == "standard" else None
        rows, mean = _centered(scaled_rows(X, choice, scale))
        svd = ThinSVD(rows)
        projected = svd.project(target - centre)
        squares = float(np.square(target - centre).sum())
        error, chosen = _generalised_error(svd.squared, projected, squares, len(target), penalty)
        if best is None or error < best[0]:
            coef = svd.coefficients(projected / (svd.squared + chosen)[:, None])
            best = error, RidgeFit(choice, scale, rows, mean, svd, chosen, coef, centre - mean @ coef)
    assert best is not None
    return best[1]


def _generalised_error(
    squared: FloatArray, projected: FloatArray, squares: float, n_rows: int, penalty: float | Literal["auto"]
) -> tuple[float, float]:
    """Return the smallest generalised cross-validation error and its penalty."""
    if not len(squared):
        return squares, 1.0 if penalty == "auto" else penalty
    penalties = squared[-1] * _PENALTY_SHARES if penalty == "auto" else np.array([penalty])
    shrink = squared / (squared + penalties[:, None])
    explained = (2.0 * shrink - shrink**2) @ (np.square(projected).sum(axis=1) / squared)
    freedom = np.maximum(n_rows - 1.0 - shrink.sum(axis=1), 1e-3 * n_rows)
    error = np.maximum(squares - explained, 0.0) / freedom**2
    best = int(np.argmin(error))
    return float(error[best]), float(penalties[best])
