"""Kernel ridge regression on few rows, all of them landmarks: the penalty is searched for in the dual.

This is the regression of `pmlkit.methods.clear_pml.loo_ridge` with every row as a landmark, and its search. In the dual
neither the moments of the kernel nor the rows of a design are needed.
"""

import numpy as np
from scipy import linalg

from pmlkit._typing import FloatArray, IntArray
from pmlkit.methods.clear_pml.dual_ridge import LEAST_REST, DualRidge
from pmlkit.methods.clear_pml.loo_ridge import walk_penalties

__all__ = ["search_in_dual"]


def search_in_dual(
    values: FloatArray, target: FloatArray, rows: IntArray | None = None, *, start: float = 3.0
) -> tuple[DualRidge, float]:
    """Choose the penalty by the leave-one-out squared error, and return the regression.

    Parameters
    ----------
    values : array of shape (n_rows, n_rows)
        The kernel between the rows.
    target : array of shape (n_rows, n_targets)
    rows : array of int, optional
        The rows whose errors are counted, default all.
    start : float, default=3.0
        Where the search begins.

    Returns
    -------
    ridge : DualRidge
    error : float
        The smallest error, in units of the targets' variance.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.dual_search import search_in_dual
    >>> from pmlkit.methods.clear_pml.landmarks import LandmarkKernel
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> ridge, error = search_in_dual(LandmarkKernel(X, 1.0, linear=False)(X), X[:, :1] ** 2)
    >>> bool(error < 0.3)
    True
    """
    n_rows = len(values)
    mean = values.mean(axis=0)
    centred = values - mean
    centred -= mean[:, None] - mean.mean()
    wanted = target - target.mean(axis=0)
    tried: dict[float, DualRidge] = {}

    def errors_at(penalty: float) -> FloatArray:
        system = centred.copy()
        system.flat[:: n_rows + 1] += penalty
        # Symmetric, so that the transpose is the same matrix in the order of LAPACK.
        factor = linalg.cholesky(system.T, lower=True, overwrite_a=True, check_finite=False)
        (invert,) = linalg.get_lapack_funcs(("trtri",), (factor,))
        inverse, _ = invert(factor, lower=1)
        ridge = tried[penalty] = DualRidge(factor, np.einsum("ij,ij->j", inverse, inverse), mean, penalty)
        rest = np.maximum(penalty * ridge.diagonal - 1.0 / n_rows, LEAST_REST)
        left_out = inverse.T @ (inverse @ wanted) * (penalty / rest)[:, None]
        errors = np.asarray(np.einsum("ij,ij->i", left_out, left_out))
        return errors if rows is None else errors[rows]

    counted = wanted if rows is None else wanted[rows]
    penalty, error = walk_penalties(errors_at, counted, start=start)
    return tried[penalty], error
