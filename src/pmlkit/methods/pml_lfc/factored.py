r"""Coordinates for a predictor in factored form, for data too large for a dense matrix of features by labels.

The solution of least squares with a nuclear norm has low rank, :math:`W = U V^T`, and each of the two factors solves a
ridge problem when the other is given. From a first V, the leading directions of :math:`X^T P`, such steps find the
column space of W; within it the problem is small and is solved as always. What the restriction to it costs is known:
a duality gap for the whole problem, from products with sparse matrices only.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, svds

from pmlkit._typing import CSR, Features, FloatArray
from pmlkit.methods.pml_lfc.basis import Basis, RowBasis, scale_rows, squared_norm
from pmlkit.methods.pml_lfc.predictor_step import LowRankFit, fit_low_rank, relative_gap

_COLUMNS = 64  # solved at a time
_POWER_STEPS, _RIDGE_STEPS, _ROUNDS = 2, 6, 2


@dataclass(frozen=True, kw_only=True)
class FactoredBasis(RowBasis):
    """Fewer coordinates than X has.

    `vectors` (n_features, size): their axes. `rotated` (n_samples, size): X, centred, along them.
    """

    vectors: FloatArray
    rotated: FloatArray


class FactoredProblem:
    """The predictor's problem, with products by X and by sparse targets only; `size`: largest number of directions."""

    def __init__(self, X: Features, weight: FloatArray, *, center: bool, size: int) -> None:
        self.X, self.weight, self.size = X, weight, size
        self.mean = np.asarray(weight @ X / weight.sum()) if center else np.zeros(X.shape[1])
        self.norm2 = squared_norm(X, weight, self.mean)
        self._single = X.astype(np.float32)  # Directions need no more: the problem is then solved within them.

    def first_basis(self, Y: CSR, weight: FloatArray, alpha: float) -> FactoredBasis:
        """Return a basis for confidences that are equal for all candidates of a row."""
        n_labels = Y.shape[1]
        sizes = np.diff(Y.indptr)
        P = sparse.csr_array((np.repeat(1.0 / sizes, sizes), Y.indices, Y.indptr), shape=Y.shape)
        weighted = scale_rows(P, weight).astype(np.float32)
        norm2 = float(weight @ (1.0 / sizes))  # Also without a mean: it only enters a stopping rule here.
        rng = np.random.default_rng(0)
        V = np.linalg.qr(rng.normal(size=(n_labels, min(self.size, n_labels))).astype(np.float32))[0]
        for _ in range(_POWER_STEPS if self.size < n_labels else 0):
            V = np.linalg.qr(weighted.T @ self._scores(self._correlate(weighted @ V)))[0]
        # Singular values of W are about one, and a ridge of alpha / 2 goes with one.
        ridge = self._ridge(self._correlate(weighted @ V), np.full(V.shape[1], alpha / 2.0), None)
        basis = self._basis(ridge)
        for _ in range(_ROUNDS):
            fit = fit_low_rank(basis, basis.project(P), norm2, alpha, tol=1e-3)
            basis = self.refreshed(basis, fit, P, alpha)
        return basis

    def refreshed(self, basis: FactoredBasis, fit: LowRankFit, P: CSR, alpha: float) -> FactoredBasis:
        """Return a basis that holds a better solution: one ridge step for the features' factor, the old basis kept."""
        left, right = low_rank_factors(basis, fit)
        if not right.size:
            return basis
        values = np.sqrt(np.einsum("ij,ij->j", left, left))
        weighted = scale_rows(P, self.weight).astype(np.float32)
        start = self._correlate(weighted @ right.T.astype(np.float32))
        better = self._ridge(start, alpha / (2.0 * values), left)
        return self._basis(np.hstack([better, basis.vectors[:, ::-1]])[:, : max(self.size, better.shape[1])])

    def gap(self, basis: FactoredBasis, fit: LowRankFit, P: CSR, norm2: float, alpha: float) -> float:
        """Return the relative duality gap for the whole problem, not only for the basis."""
        weighted = scale_rows(P, self.weight)
        left, right = _thin(fit.solution)
        inside = self.weight[:, None] * (basis.rotated @ left)

        def matvec(v: FloatArray) -> FloatArray:
            v = v.ravel()
            return self._correlate((weighted @ v - inside @ (right @ v))[:, None])[:, 0]

        def rmatvec(u: FloatArray) -> FloatArray:
            scores = self._scores(u.reshape(-1, 1))[:, 0]
            return np.asarray(weighted.T @ scores - right.T @ (inside.T @ scores))

        shape = self.X.shape[1], P.shape[1]
        operator = LinearOperator(shape, matvec=matvec, rmatvec=rmatvec, dtype=np.float64)
        start = np.random.default_rng(0).normal(size=min(shape))
        # The estimate may be too small by its tolerance.
        largest = 1.002 * float(svds(operator, k=1, v0=start, tol=1e-3, return_singular_vectors=False)[0])
        cross = float(np.vdot(fit.solution, basis.project(P)))
        return relative_gap(largest, cross, norm2, alpha, fit.objective - alpha * fit.nuclear_norm, fit.objective)

    def _scores(self, U: FloatArray) -> FloatArray:
        X = self._single if U.dtype == np.float32 else self.X
        return np.asarray(X @ U - self.mean.astype(U.dtype) @ U)

    def _correlate(self, A: FloatArray) -> FloatArray:
        """Return X'A for the centred X; A is weighted already."""
        X = self._single if A.dtype == np.float32 else self.X
        return np.asarray(X.T @ A - np.outer(self.mean.astype(A.dtype), A.sum(axis=0)))

    def _ridge(self, target: FloatArray, penalty: FloatArray, start: FloatArray | None) -> FloatArray:
        """Solve ``(X'X + penalty_j) u_j = target_j`` for every column, by conjugate gradients."""
        result = np.empty(target.shape)
        for first in range(0, target.shape[1], _COLUMNS):
            some = slice(first, first + _COLUMNS)
            result[:, some] = self._ridge_columns(
                target[:, some],
                penalty[some].astype(np.float32),
                None if start is None else start[:, some].astype(np.float32),
            )
        return result

    def _ridge_columns(self, target: FloatArray, penalty: FloatArray, start: FloatArray | None) -> FloatArray:
        def system(U: FloatArray) -> FloatArray:
            return self._correlate(weight * self._scores(U)) + penalty * U

        weight = self.weight[:, None].astype(np.float32)
        tiny = np.finfo(np.float32).tiny

        U = np.zeros_like(target) if start is None else start.copy()
        residual = target.copy() if start is None else target - system(U)
        direction = residual.copy()
        norm2 = np.einsum("ij,ij->j", residual, residual)
        for _ in range(_RIDGE_STEPS):
            image = system(direction)
            step = norm2 / np.maximum(np.einsum("ij,ij->j", direction, image), tiny)
            U += step * direction
            residual -= step * image
            new = np.einsum("ij,ij->j", residual, residual)
            direction = residual + (new / np.maximum(norm2, tiny)) * direction
            norm2 = new
        return U

    def _basis(self, directions: FloatArray) -> FactoredBasis:
        """Return orthonormal coordinates of the space of some directions, in which X'X is diagonal."""
        Q, _ = linalg.qr(directions, mode="economic", check_finite=False)
        rotated = self._scores(Q)
        eigenvalues, turn = np.linalg.eigh(rotated.T @ (self.weight[:, None] * rotated))
        kept = eigenvalues > 1e-12 * max(float(eigenvalues[-1]), 0.0)
        eigenvalues, turn = eigenvalues[kept], turn[:, kept]
        vectors, rotated = Q @ turn, rotated @ turn
        return FactoredBasis(
            gram=lambda M: eigenvalues[:, None] * M,
            largest=float(eigenvalues.max(initial=0.0)),
            norm2=self.norm2,
            project=lambda P: np.ascontiguousarray((scale_rows(P, self.weight).T @ rotated).T),
            coefficients=lambda M: np.asarray(vectors @ M),
            mean=self.mean,
            eigenvalues=eigenvalues,
            vectors=vectors,
            rotated=rotated,
        )


def low_rank_factors(basis: Basis, fit: LowRankFit) -> tuple[FloatArray, FloatArray]:
    """Return W as ``left @ right``: (n_features, rank), orthogonal columns, and (rank, n_labels), orthonormal rows."""
    left, right = _thin(fit.solution)
    return basis.coefficients(left), right


def _thin(M: FloatArray) -> tuple[FloatArray, FloatArray]:
    if not M.any():
        return np.zeros((M.shape[0], 0)), np.zeros((0, M.shape[1]))
    U, values, Vt = linalg.svd(M, full_matrices=False, check_finite=False)
    kept = values > 1e-10 * values[0]
    return U[:, kept] * values[kept], Vt[kept]
