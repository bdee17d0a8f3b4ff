r"""Linear methods on scaled features: what they share, and the ridge regression that some of them start from.

That regression is of all labels at once, with scaling and penalty chosen by the leave-one-out error on the candidates,
which one singular value decomposition per scaling gives for all penalties; nothing but training rows is seen.
(Generalised cross-validation would be cheaper, but with fewer rows than features it prefers next to no penalty.)
"""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions

from pmlkit._typing import CSR, Features, FloatArray, IntArray
from pmlkit.methods.base import BasePML
from pmlkit.numerics.content import content_folds
from pmlkit.numerics.scaling import Normalize, column_scale, scaled
from pmlkit.numerics.spectral import ShiftedRows, ThinSVD

_PENALTY_SHARES = 10.0 ** np.arange(-4.0, 1.5, 0.5)  # of the largest squared singular value
_CHOICE_ROWS = 5000  # rows whose leave-one-out errors decide
_BLOCK_ROWS = 2000


def _scaled(X: Features, normalize: Normalize, scale: FloatArray | None) -> Any:
    return scaled(X, normalize, scale).astype(np.float64, copy=False)


@dataclass(frozen=True)
class RidgeFit:
    """A ridge regression with an unpenalised intercept.

    `scale` (n_features,): what the columns were divided by. `rows` (n_samples, n_features): scaled and centred. `mean`
    (n_features,): of the scaled rows. `svd`: of `rows`. `intercept` (n_labels,): for scaled rows that are not centred.
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
        fitted = np.asarray(self.rows @ self.coef) + target.mean(axis=0)
        weight = 1.0 / (self.svd.squared + self.penalty)
        leverage = np.empty((len(target), 1))
        for first in range(0, len(target), _BLOCK_ROWS):
            block = np.arange(first, min(first + _BLOCK_ROWS, len(target)))
            leverage[block, 0] = 1.0 / len(target) + np.square(_turned(self.rows, self.svd, block)) @ weight
        return np.asarray((fitted - leverage * target) / np.maximum(1.0 - leverage, 1e-6))


def _turned(rows: Any, svd: ThinSVD, chosen: IntArray) -> FloatArray:
    """Return some rows in the coordinates of the right singular vectors."""
    if rows.shape[0] < rows.shape[1]:
        return svd.rotated[chosen]
    some = ShiftedRows(rows.X[chosen], rows.shift) if isinstance(rows, ShiftedRows) else rows[chosen]
    return np.asarray(some @ svd.right)


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

    `penalty`: ``"auto"`` is the value with the smallest leave-one-out error, over all labels together. At most 5,000
    rows, chosen by a hash of their content, are left out.
    """
    centre = target.mean(axis=0)
    chosen = np.arange(len(target))
    if len(chosen) > _CHOICE_ROWS:
        chosen = np.flatnonzero(content_folds(X, -(-len(chosen) // _CHOICE_ROWS)) == 0)
    best: tuple[float, RidgeFit] | None = None
    for choice in ("unit", "standard") if normalize == "auto" else (normalize,):
        scale = column_scale(X).astype(np.float64) if choice == "standard" else None
        rows, mean = _centered(_scaled(X, choice, scale))
        svd = ThinSVD(rows)
        projected = svd.project(target - centre)
        left = target[chosen] - centre
        error, value = float(np.square(left).sum()), 1.0 if penalty == "auto" else penalty
        if len(svd.squared) and (penalty == "auto" or normalize == "auto"):
            values = svd.squared[-1] * _PENALTY_SHARES if penalty == "auto" else np.array([penalty])
            turned = _turned(rows, svd, chosen)
            errors = _left_out_errors(svd.squared, projected, turned, left, len(target), values)
            error, value = float(errors.min()), float(values[np.argmin(errors)])
        if best is None or error < best[0]:
            coef = svd.coefficients(projected / (svd.squared + value)[:, None])
            best = error, RidgeFit(choice, scale, rows, mean, svd, value, coef, centre - mean @ coef)
    assert best is not None
    return best[1]


def _left_out_errors(
    squared: FloatArray,
    projected: FloatArray,
    turned: FloatArray,
    centered_target: FloatArray,
    n_rows: int,
    penalties: FloatArray,
) -> FloatArray:
    """Return the sum of squared leave-one-out errors for each penalty."""
    errors, squares = np.empty(len(penalties)), np.square(turned)
    for number, penalty in enumerate(penalties):
        weight = 1.0 / (squared + penalty)
        residual = centered_target - turned @ (weight[:, None] * projected)
        # The intercept's share of the leverage counts: with few rows and little penalty it is what makes the sum one.
        leverage = 1.0 / n_rows + squares @ weight
        errors[number] = np.square(residual / np.maximum(1.0 - leverage, 1e-6)[:, None]).sum()
    return errors


class LinearMethod(BasePML):
    """Base of methods that score labels by a linear function of scaled features."""

    normalize: Any
    max_iter: int

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BasePML._parameter_constraints,
        "normalize": [StrOptions({"unit", "standard"}), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def _n_tasks(self, Y: CSR) -> int:
        return int(self.max_iter)

    def _scaled_training_rows(self, X: Features) -> Any:
        self._scale = column_scale(X) if self.normalize == "standard" else None
        return self._scaled(X)

    def _scaled(self, X: Features) -> Any:
        return _scaled(X, self.normalize, self._scale)

    def _keep(self, coef: FloatArray, *, has_constant: bool = True) -> None:
        """Keep coefficients of shape (n_features, n_labels), those of a constant feature last where there is one."""
        self.intercept_ = coef[-1] if has_constant else np.zeros(coef.shape[1])
        self.coef_ = np.ascontiguousarray((coef[:-1] if has_constant else coef).T)

    def _scores(self, X: Features) -> FloatArray:
        return np.asarray(self._scaled(X) @ self.coef_.T + self.intercept_)


class RidgeStarted(LinearMethod):
    """Base of linear methods that take scaling and penalty from a ridge regression on the candidates."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearMethod._parameter_constraints,
        "normalize": [StrOptions({"auto", "unit", "standard"}), None],
    }

    def _regressed(self, X: Features, candidates: FloatArray, penalty: float | Literal["auto"]) -> RidgeFit:
        """Fit the regression, and keep the scaling that it chose."""
        ridge = fit_ridge(X, candidates, self.normalize, penalty)
        self.normalize_, self._scale = ridge.normalize, ridge.scale
        return ridge

    def _scaled(self, X: Features) -> Any:
        return _scaled(X, self.normalize_, self._scale)
