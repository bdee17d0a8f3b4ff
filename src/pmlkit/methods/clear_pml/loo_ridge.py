r"""Kernel ridge regression on landmarks, with exact leave-one-out scores at the cost of one fit.

With the centred kernel K of the n rows with m landmarks and the kernel M between the landmarks, ridge regression
of targets y fits :math:`\bar y + K (K^\top K + \lambda M)^{-1} K^\top (y - \bar y)`. It is a linear smoother: the
score of a row by the model of all other rows follows from its leverage. With all rows as landmarks this
is ordinary kernel ridge regression.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy import linalg

from pmlkit._typing import CSR, Features, FloatArray, IntArray
from pmlkit.methods.clear_pml.landmarks import LandmarkKernel, row_blocks

_REGULARIZATIONS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
LARGEST_LEVERAGE = 1.0 - 1e-6


def search_penalty(
    factor_at: Callable[[float], FloatArray],
    moments: FloatArray,
    some: FloatArray,
    wanted: FloatArray,
    n_rows: int,
    *,
    start: float,
) -> tuple[float, float]:
    """Choose the penalty of the regression on landmarks by the leave-one-out squared error, from moments of all rows.

    - `factor_at`: the triangular factor of the regression at a penalty;
    - `moments` (n_landmarks, n_targets): of the centred kernel rows with the centred targets;
    - `some` (n_landmarks, n_some_rows): centred kernel rows whose errors are counted;
    - `wanted` (n_some_rows, n_targets): their centred targets;
    - `n_rows`: how many rows the moments are of;
    - `start`: where the search begins.
    """

    def errors_at(penalty: float) -> FloatArray:
        factor = factor_at(penalty)
        design = forward(factor, some)
        leverage = np.minimum(np.einsum("ji,ji->i", design, design) + 1.0 / n_rows, LARGEST_LEVERAGE)
        left_out = (wanted - design.T @ forward(factor, moments)) / (1.0 - leverage)[:, None]
        return np.asarray(np.einsum("ij,ij->i", left_out, left_out))

    return walk_penalties(errors_at, wanted, start=start)


def search_on_landmarks(
    kernel: LandmarkKernel, own: FloatArray, X: Features, target: CSR, some: IntArray, *, start: float
) -> tuple[float, float]:
    """Choose the penalty of the regression on landmarks by the leave-one-out errors of some rows, in single precision.

    - `own` (n_landmarks, n_landmarks): the kernel between the landmarks;
    - `X` (n_rows, n_features): weighted rows;
    - `target` (n_rows, n_targets);
    - `some`: the rows whose errors are counted;
    - `start`: where the search begins.
    """
    n_rows, n_landmarks = X.shape[0], len(own)
    precision = kernel.precision(np.float32)
    kernel = replace(kernel, landmarks=kernel.landmarks.astype(precision))
    values = np.empty((n_rows, n_landmarks), dtype=np.float32)
    for rows in row_blocks(n_rows, n_landmarks):
        values[rows] = kernel(X[rows].astype(precision))
    values -= values.mean(axis=0, dtype=np.float64).astype(np.float32)
    gram = values.T @ values
    # What rounding leaves of directions that rows do not show must not make the matrix indefinite.
    gram[np.diag_indices_from(gram)] += n_landmarks * np.finfo(np.float32).eps * gram.diagonal().max()
    own = own.astype(np.float32)
    mean = np.asarray(target.mean(axis=0), dtype=np.float64).ravel()
    moments = (target.astype(np.float32).T @ values).T
    wanted = (target[some].toarray() - mean).astype(np.float32)

    def factor_at(penalty: float) -> FloatArray:
        system = gram + np.float32(penalty) * own
        # Symmetric, so that the transpose is the same matrix in the order of LAPACK.
        return np.asarray(linalg.cholesky(system.T, lower=True, overwrite_a=True, check_finite=False))

    return search_penalty(factor_at, moments, values[some].T, wanted, n_rows, start=start)


def walk_penalties(
    errors_of: Callable[[float], FloatArray], wanted: FloatArray, *, start: float
) -> tuple[float, float]:
    """Walk downhill on the grid of penalties, then on to the strongest within one standard error of the smallest error.

    With few rows the smallest error is often due to chance; with many the second search changes nothing.

    - `errors_of`: the squared leave-one-out error of each counted row at a penalty;
    - `wanted` (n_counted_rows, n_targets): the centred targets of these rows;
    - `start`: where the search begins; from near the answer it takes fewer steps.

    Returns `penalty`, `error`: the smallest error, in units of the targets' variance.
    """

    def errors_at(place: int) -> FloatArray:
        return errors_of(_REGULARIZATIONS[place])

    first = min(range(len(_REGULARIZATIONS)), key=lambda place: abs(np.log(_REGULARIZATIONS[place] / start)))
    # Stronger penalties first: one is needed for the standard error in any case.
    neighbor = first + 1 if first + 1 < len(_REGULARIZATIONS) else first - 1
    tried = {place: errors_at(place) for place in (first, neighbor)}
    best = min(tried, key=lambda place: tried[place].mean())
    step = neighbor - first if best == neighbor else first - neighbor
    while 0 <= best + step < len(_REGULARIZATIONS):
        tried[best + step] = errors_at(best + step)
        if tried[best + step].mean() >= tried[best].mean():
            break
        best += step
    variance = float(np.einsum("ij,ij->", wanted, wanted)) / len(wanted)
    error = float(tried[best].mean()) / max(variance, 1e-300)
    chosen = best
    while chosen + 1 < len(_REGULARIZATIONS):
        if chosen + 1 not in tried:
            tried[chosen + 1] = errors_at(chosen + 1)
        excess = tried[chosen + 1] - tried[best]
        if excess.mean() > excess.std() / np.sqrt(len(wanted)):
            break
        chosen += 1
    return _REGULARIZATIONS[chosen], error


def forward(factor: FloatArray, right: FloatArray, *, in_place: bool = False) -> FloatArray:
    """Solve with a lower triangular factor; `in_place` may take over the memory of the right side."""
    return np.asarray(linalg.solve_triangular(factor, right, lower=True, overwrite_b=in_place, check_finite=False))
