r"""Least squares with a nuclear-norm penalty, with a certificate.

.. math:: \min_W \; \|X W - P\|_F^2 + \alpha \|W\|_*

The nuclear norm does not change under rotation. In the eigenbasis of :math:`X^T X` a gradient is a
diagonal scaling, so that an accelerated step costs one scaling and one shrinkage of singular values,
whatever the number of rows. Where neither side of X is small enough to diagonalise, the same steps
are taken with products by X.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import svds

from pmlkit._typing import CSR, Features, FloatArray
from pmlkit.numerics.prox import nuclear_prox

__all__ = ["Basis", "LowRankFit", "eigenbasis", "fit_low_rank"]

LARGEST_DIAGONALISED = 4096
"""The smaller side of X up to which its Gram matrix is diagonalised."""


@dataclass(frozen=True)
class Basis:
    """Coordinates in which the least-squares problem is easy.

    Attributes
    ----------
    gram : callable
        Multiplies a coefficient matrix by X'X, in these coordinates.
    largest : float
        The largest eigenvalue of X'X.
    project : callable
        Brings targets P (CSR) to these coordinates: X'P, rotated.
    coefficients : callable
        Brings a solution back to the features' coordinates.
    size : int
        The number of coordinates.
    """

    gram: Callable[[FloatArray], FloatArray]
    largest: float
    project: Callable[[CSR], FloatArray]
    coefficients: Callable[[FloatArray], FloatArray]
    size: int


def eigenbasis(X: Features, weight: FloatArray | None = None) -> Basis:
    """Diagonalise X'X (or XX' where there are fewer rows than features) once.

    Parameters
    ----------
    X : dense array or CSR array of shape (n_rows, n_features)
    weight : array of shape (n_rows,), optional
        Row weights of the squared loss.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.numerics.low_rank import eigenbasis
    >>> basis = eigenbasis(np.diag([2.0, 1.0]))
    >>> basis.largest, basis.size
    (4.0, 2)
    """
    n_rows, n_features = X.shape
    root = np.ones(n_rows) if weight is None else np.sqrt(weight)
    weighted = _scale_rows(X, root)
    if min(n_rows, n_features) > LARGEST_DIAGONALISED:
        return _plain_basis(weighted, root)
    by_features = n_features <= n_rows
    gram = weighted.T @ weighted if by_features else weighted @ weighted.T
    eigenvalues, vectors = linalg.eigh(
        gram.toarray() if sparse.issparse(gram) else gram, driver="evd", overwrite_a=True, check_finite=False
    )
    # What lies below is rounding: the solution has nothing there.
    kept = eigenvalues > 1e-13 * max(eigenvalues[-1], 0.0) * len(eigenvalues)
    eigenvalues, vectors = eigenvalues[kept], vectors[:, kept]
    size = len(eigenvalues)
    largest = float(eigenvalues[-1]) if size else 0.0
    scale = eigenvalues[:, None]

    def gram_times(M: FloatArray) -> FloatArray:
        return np.asarray(scale * M)

    if by_features:

        def project(P: CSR) -> FloatArray:
            return np.asarray(vectors.T @ _dense(weighted.T @ _scale_rows(P, root)))

        def coefficients(M: FloatArray) -> FloatArray:
            return np.asarray(vectors @ M)
    else:
        singular = np.sqrt(scale)

        def project(P: CSR) -> FloatArray:
            return np.asarray(singular * (_scale_rows(P, root).T @ vectors).T)

        def coefficients(M: FloatArray) -> FloatArray:
            return np.asarray(weighted.T @ (vectors @ (M / singular)))

    return Basis(gram_times, largest, project, coefficients, size)


def _plain_basis(X: Features, root: FloatArray) -> Basis:
    """Leave the coordinates as they are and multiply by X where needed."""
    largest = float(svds(X, k=1, return_singular_vectors=False, v0=np.ones(min(X.shape)))[0]) ** 2
    # The estimate may fall short of the true value by its own tolerance; a step must not.
    return Basis(
        gram=lambda M: np.asarray(X.T @ (X @ M)),
        largest=largest * 1.001,
        project=lambda P: _dense(X.T @ _scale_rows(P, root)),
        coefficients=lambda M: M,
        size=X.shape[1],
    )


@dataclass(frozen=True)
class LowRankFit:
    """A solution in the basis' coordinates.

    Attributes
    ----------
    solution : array of shape (size, n_labels)
    nuclear_norm, rank, objective : numbers
    gap : float
        Certificate: the objective is at most `gap` times itself above the optimum.
    n_iter : int
    trace : array
        The objective after each step.
    """

    solution: FloatArray
    nuclear_norm: float
    rank: int
    objective: float
    gap: float
    n_iter: int
    trace: FloatArray


def fit_low_rank(
    basis: Basis,
    target: FloatArray,
    target_norm2: float,
    alpha: float,
    *,
    start: FloatArray | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
) -> LowRankFit:
    r"""Minimise :math:`\|XW - P\|^2 + \alpha\|W\|_*` by accelerated proximal gradient.

    Equations 4 to 8 of the PML-LFC paper, with the momentum of Ji and Ye (2009), a restart where
    the momentum points uphill, and a duality gap that certifies the result.

    Parameters
    ----------
    basis : Basis
    target : array of shape (size, n_labels)
        ``basis.project(P)``.
    target_norm2 : float
        The (weighted) squared norm of P.
    alpha : float
    start : array of shape (size, n_labels), optional
        Where to begin.
    tol : float, default=1e-6
        Stop when the relative duality gap is below.
    max_iter : int, default=1000

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.numerics.low_rank import eigenbasis, fit_low_rank
    >>> P = sparse.csr_array(np.diag([3.0, 1.0]))
    >>> basis = eigenbasis(np.eye(2))
    >>> fit = fit_low_rank(basis, basis.project(P), 10.0, alpha=4.0)
    >>> fit.rank, round(fit.objective, 6)
    (1, 9.0)
    """
    M = np.zeros_like(target) if start is None else start
    if basis.largest == 0.0 or not target.any():
        return LowRankFit(np.zeros_like(target), 0.0, 0, target_norm2, 0.0, 0, np.array([target_norm2]))
    step = 1.0 / (2.0 * basis.largest)
    shrink = _Shrinkage(alpha * step)
    Z, momentum, trace = M, 1.0, []
    gap, next_check = np.inf, 5
    for n_iter in range(1, max_iter + 1):
        previous = M
        M, values = shrink(Z - 2.0 * step * (basis.gram(Z) - target))
        change = M - previous
        if np.vdot(Z - M, change) > 0:
            momentum = 1.0
        next_momentum = (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum)) / 2.0
        Z = M + ((momentum - 1.0) / next_momentum) * change
        momentum = next_momentum
        gram_M = basis.gram(M)
        fit = float(np.vdot(M, gram_M) - 2.0 * np.vdot(M, target)) + target_norm2
        nuclear = float(values.sum())
        trace.append(fit + alpha * nuclear)
        if n_iter >= next_check or n_iter == max_iter:
            gap = _relative_gap(M, gram_M, target, target_norm2, alpha, fit, trace[-1])
            if gap <= tol:
                break
            # A check costs about as much as a step: look again when a linear rate could have got there.
            next_check = n_iter + max(3, n_iter // 6)
            shrink.be_careful(len(trace) > 30 and trace[-1] >= trace[-4])
    return LowRankFit(M, nuclear, len(values), trace[-1], gap, n_iter, np.asarray(trace))


def _relative_gap(
    M: FloatArray, gram_M: FloatArray, target: FloatArray, target_norm2: float, alpha: float, fit: float, value: float
) -> float:
    """Return the duality gap of M as a share of the objective.

    The residual, scaled until its correlation with X has spectral norm alpha at most, is feasible
    for the dual problem, so its dual value is a lower bound of the optimum.
    """
    correlation = 2.0 * (target - gram_M)
    small = correlation.T @ correlation if correlation.shape[0] >= correlation.shape[1] else correlation @ correlation.T
    last = len(small) - 1
    norm = np.sqrt(max(linalg.eigvalsh(small, subset_by_index=(last, last), check_finite=False)[0], 0.0))
    scale = 1.0 if norm <= alpha else alpha / norm
    dual = 2.0 * scale * (target_norm2 - float(np.vdot(M, target))) - scale * scale * fit
    return float((value - dual) / max(value, np.finfo(float).tiny))


class _Shrinkage:
    """Shrink singular values again and again, each time near the last.

    With hundreds of labels and few singular values above the threshold, a full decomposition is
    nearly all of the cost. The right subspace of the last call, widened a little, holds the new one
    up to a small error that the iteration corrects; it is trusted only while it also holds a
    singular value below the threshold, so that none above can be missing.
    """

    def __init__(self, amount: float) -> None:
        self._amount = amount
        self._subspace: FloatArray | None = None
        self._careful = False

    def be_careful(self, careful: bool) -> None:
        """Take full decompositions from now on where `careful`."""
        self._careful = self._careful or careful

    def __call__(self, A: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self._subspace is not None and not self._careful:
            near = self._near(A, self._subspace)
            if near is not None:
                return near
        shrunk, values = nuclear_prox(A, self._amount)
        wide = len(values) + 8
        if min(A.shape) >= 64 and 4 * wide <= min(A.shape):
            self._subspace = _leading(A, wide)
        else:
            self._subspace = None
        return shrunk, values

    def _near(self, A: FloatArray, subspace: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        left, _ = linalg.qr(A @ subspace, mode="economic", check_finite=False)
        right = A.T @ left
        squared, turn = linalg.eigh(right.T @ right, check_finite=False)
        values = np.sqrt(np.maximum(squared[::-1], 0.0))
        turn = turn[:, ::-1]
        if values[-1] >= 0.98 * self._amount or values[-1] <= 0.0:
            self._subspace = None
            return None
        directions = (right @ turn) / values
        self._subspace = directions
        kept = values > self._amount
        values = values[kept] - self._amount
        return np.asarray((left @ turn[:, kept] * values) @ directions[:, kept].T), values


def _leading(A: FloatArray, n: int) -> FloatArray:
    """Return the n leading right singular vectors."""
    gram = A.T @ A
    last = len(gram) - 1
    return np.asarray(linalg.eigh(gram, subset_by_index=(last - n + 1, last), check_finite=False)[1][:, ::-1])


def _scale_rows(A: Features, scale: FloatArray) -> Features:
    if (scale == 1.0).all():
        return A
    return sparse.csr_array(sparse.diags_array(scale) @ A) if sparse.issparse(A) else scale[:, None] * A


def _dense(A: Features) -> FloatArray:
    return np.asarray(A.toarray() if sparse.issparse(A) else A)
