"""The Gaussian kernel between rows: bandwidth, blocks of it, and a Nystroem feature map."""

import numpy as np
from scipy import linalg, sparse

from pmlkit._typing import Features, FloatArray
from pmlkit.numerics.products import as_dense, inner_products

EXACT_DISTANCE_ROWS = 6000
"""Largest number of rows for which the mean distance is exact; above, it is estimated from a quarter as many rows."""


def squared_distances(A: Features, B: Features) -> FloatArray:
    """Return all squared Euclidean distances between the rows of A and of B, never negative."""
    inner = inner_products(A, B)
    inner *= -2.0
    norms = _squared_norms(A)
    inner += norms[:, None]
    inner += norms if B is A else _squared_norms(B)
    return np.asarray(np.maximum(inner, 0.0, out=inner))


def gaussian_block(A: Features, B: Features, width: float) -> FloatArray:
    """Return ``exp(-distance**2 / width**2)`` between the rows of A and of B (equation 5)."""
    block = squared_distances(A, B)
    block *= -1.0 / (width * width)
    return np.exp(block, out=block)


def scale_gamma(X: Features) -> float:
    """Return scikit-learn's ``gamma="scale"``: one over the number of features times their variance."""
    variance = float(X.multiply(X).mean() - X.mean() ** 2) if sparse.issparse(X) else float(X.var())
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0


def mean_distance(X: Features, weight: FloatArray, rng: np.random.Generator) -> float:
    """Return the mean Euclidean distance between two different rows.

    `weight` (n_samples,): a row of weight 2 counts as two equal rows. `rng`: draws the sample where there are more than
    `EXACT_DISTANCE_ROWS` rows.
    """
    n_samples = X.shape[0]
    if n_samples > EXACT_DISTANCE_ROWS:
        chosen = np.sort(rng.choice(n_samples, EXACT_DISTANCE_ROWS // 4, replace=False))
        X, weight = X[chosen], weight[chosen]
    total = 0.0
    for first in range(0, X.shape[0], 512):
        rows = slice(first, first + 512)
        # Pairs above the diagonal only, twice: the matrix is symmetric.
        squared = squared_distances(X[rows], X[first:])
        distance = np.sqrt(squared, out=squared)
        size = len(distance)
        inside = distance[:, :size]
        np.fill_diagonal(inside, 0.0)
        beyond = distance[:, size:]
        total += float(weight[rows] @ (inside @ weight[rows] + 2.0 * (beyond @ weight[first + size :])))
    mass = weight.sum()
    # For integer weights the first term is the number of ordered pairs of different rows.
    pairs = max(mass * (mass - 1.0), mass * mass - weight @ weight)
    return float(total / pairs) if pairs > 0 else 0.0


def nystrom_features(
    X: Features, width: float, n_features: int, weight: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return features whose inner products approximate the Gaussian kernel.

    Landmarks are training rows drawn without replacement; features are ``K(X, landmarks) V e^-1/2``
    with the eigenpairs (e, V) of the landmarks' own kernel (Williams and Seeger 2001).
    """
    possible = np.flatnonzero(weight > 0)
    landmarks = X[np.sort(rng.choice(possible, min(n_features, len(possible)), replace=False))]
    return landmark_features(X, landmarks, landmark_weights(landmarks, width), width)


def landmark_weights(landmarks: Features, width: float) -> FloatArray:
    """Return what makes features of kernel rows with landmarks: ``V e^-1/2``."""
    eigenvalues, vectors = linalg.eigh(gaussian_block(landmarks, landmarks, width), check_finite=False)
    # Directions below single precision would only add noise.
    kept = eigenvalues > 1e-6 * eigenvalues[-1]
    return np.asarray((vectors[:, kept] / np.sqrt(eigenvalues[kept])).astype(np.float32))


def landmark_features(X: Features, landmarks: Features, whiten: FloatArray, width: float) -> FloatArray:
    """Return the features of rows, by landmarks and their weights."""
    features = np.empty((X.shape[0], whiten.shape[1]), dtype=np.float32)
    dense_landmarks = as_dense(landmarks)
    norms = _squared_norms(landmarks)
    scale = -1.0 / (width * width)
    for first in range(0, X.shape[0], 8192):
        rows = X[first : first + 8192]
        block = np.asarray(rows @ dense_landmarks.T)
        block *= -2.0
        block += _squared_norms(rows)[:, None]
        block += norms
        np.maximum(block, 0.0, out=block)
        block *= scale
        np.matmul(np.exp(block, out=block).astype(np.float32), whiten, out=features[first : first + 8192])
    return features


def _squared_norms(A: Features) -> FloatArray:
    if sparse.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    return np.asarray(np.einsum("ij,ij->i", A, A))
