"""Coordinates for least squares: the eigenvectors of X'X where it can be diagonalised, otherwise the features."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from pmlkit._typing import CSR, Features, FloatArray
from pmlkit.numerics.products import as_dense, transposed_product
from pmlkit.numerics.spectral import eigenpairs

LARGEST_DIAGONALISED = 4096
"""The smaller side of X up to which its Gram matrix is diagonalised."""


@dataclass(frozen=True, kw_only=True)
class Basis:
    """Coordinates of the least-squares problem.

    `gram` multiplies a coefficient matrix by X'X in these coordinates, whose largest eigenvalue and the sum of whose
    eigenvalues are `largest` and `norm2`; `coefficients` maps a solution back to the features. `mean` (n_features,): of
    X if it was centred, else zeros. `eigenvalues`: those of X'X where the coordinates are its eigenvectors.
    """

    gram: Callable[[FloatArray], FloatArray]
    largest: float
    norm2: float
    coefficients: Callable[[FloatArray], FloatArray]
    mean: FloatArray
    eigenvalues: FloatArray | None = None


@dataclass(frozen=True, kw_only=True)
class RowBasis(Basis):
    """Coordinates for rows in memory: `project` maps targets P (CSR) to X'P in them."""

    project: Callable[[CSR], FloatArray]


def eigenbasis(X: Features, weight: FloatArray | None = None, *, center: bool = False) -> RowBasis:
    """Diagonalise X'X (or XX' where there are fewer rows than features) once.

    `weight` (n_samples,): of the rows in the squared loss. `center`: take the columns less their mean (without making a
    sparse X dense).
    """
    n_samples, n_features = X.shape
    weight = np.ones(n_samples) if weight is None else weight
    total = weight.sum()
    mean = np.asarray(weight @ X / total) if center else np.zeros(n_features)
    if center and not sparse.issparse(X):
        # Explicitly where that costs nothing: the correction below cancels where the mean is large.
        return replace(eigenbasis(X - mean, weight), mean=mean)

    def correlate(A: FloatArray) -> FloatArray:
        """Return X'A for the centred X."""
        return np.asarray(X.T @ A - np.outer(mean, A.sum(axis=0)) if center else X.T @ A)

    def project_plain(P: CSR) -> FloatArray:
        weighted = scale_rows(P, weight)
        correlation = transposed_product(X, weighted)
        return correlation - np.outer(mean, weighted.sum(axis=0)) if center else correlation

    if min(n_samples, n_features) > LARGEST_DIAGONALISED:
        return _plain_basis(X, weight, mean, correlate, project_plain)
    root = np.sqrt(weight)
    if n_features <= n_samples:
        gram = as_dense(X.T @ scale_rows(X, weight))
        if center:
            gram -= total * np.outer(mean, mean)
    else:
        gram = as_dense(X @ X.T)
        if center:
            shift = X @ mean
            gram -= shift[:, None] + shift - mean @ mean
        if not (weight == 1.0).all():
            gram *= np.outer(root, root)
    eigenvalues, vectors = eigenpairs(gram)
    scale = eigenvalues[:, None]
    singular = np.sqrt(scale)
    if n_features <= n_samples:
        # With the short side first the product is up to a third faster.
        project = lambda P: np.ascontiguousarray((project_plain(P).T @ vectors).T)  # noqa: E731
        coefficients = lambda M: np.ascontiguousarray((M.T @ vectors.T).T)  # noqa: E731
    else:
        weighted = root[:, None] * vectors
        # The left vectors of a centred X sum to zero: P need not be centred.
        project = lambda P: singular * (P.T @ weighted).T  # noqa: E731
        coefficients = lambda M: correlate(weighted @ (M / singular))  # noqa: E731
    return RowBasis(
        gram=lambda M: scale * M,
        largest=float(eigenvalues.max(initial=0.0)),
        norm2=float(eigenvalues.sum()),
        project=project,
        coefficients=coefficients,
        mean=mean,
        eigenvalues=eigenvalues,
    )


def _plain_basis(
    X: Features,
    weight: FloatArray,
    mean: FloatArray,
    correlate: Callable[[FloatArray], FloatArray],
    project: Callable[[CSR], FloatArray],
) -> RowBasis:
    """Return the basis of the features themselves, with products by X."""

    def gram(M: FloatArray) -> FloatArray:
        return correlate(weight[:, None] * (X @ M - mean @ M))

    operator = LinearOperator((X.shape[1],) * 2, matvec=lambda v: gram(v[:, None])[:, 0], dtype=np.float64)
    start = np.random.default_rng(0).normal(size=X.shape[1])  # not in a null space, almost surely
    largest = 0.0
    if operator.matvec(start).any():
        largest = float(eigsh(operator, k=1, v0=start, tol=1e-3, return_eigenvectors=False)[0])
    norm2 = squared_norm(X, weight, mean)
    # The estimate may be too small by its tolerance, and the step size must not be too large.
    return RowBasis(
        gram=gram, largest=largest * 1.002, norm2=norm2, project=project, coefficients=lambda M: M, mean=mean
    )


def squared_norm(X: Features, weight: FloatArray, mean: FloatArray) -> float:
    """Return the weighted squared norm of rows less their mean."""
    squared = X.multiply(X).sum(axis=1) if sparse.issparse(X) else np.einsum("ij,ij->i", X, X)
    return float(weight @ squared - weight.sum() * mean @ mean)


def scale_rows(A: Features, scale: FloatArray) -> Features:
    """Return rows times a number each, and the rows themselves where these are all one."""
    if (scale == 1.0).all():
        return A
    return sparse.csr_array(sparse.diags_array(scale) @ A) if sparse.issparse(A) else scale[:, None] * A
