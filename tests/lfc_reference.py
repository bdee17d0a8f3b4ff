"""PML-LFC as plainly as it can be written: dense n x n matrices, equation by equation.

The fast implementation is compared with this one. Nothing here is clever.
"""

import numpy as np


def shrink_singular_values(A, amount):
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    return U @ np.diag(np.maximum(s - amount, 0)) @ Vt


def predictor_step(X, P, alpha, W, n_iter, tol=0.0):
    """Minimise ||XW - P||^2 + alpha ||W||_* by accelerated proximal gradient from W."""
    gram, correlation = X.T @ X, X.T @ P
    lipschitz = 2 * np.linalg.norm(X, 2) ** 2
    Z, delta = W, 1.0
    for _ in range(n_iter):
        W_old = W
        W = shrink_singular_values(Z - 2 * (gram @ Z - correlation) / lipschitz, alpha / lipschitz)
        if np.sum((Z - W) * (W - W_old)) > 0:
            delta = 1.0
        delta_new = (1 + np.sqrt(1 + 4 * delta**2)) / 2
        Z = W + (delta - 1) / delta_new * (W - W_old)
        delta = delta_new
        if np.linalg.norm(W - W_old) <= tol * max(1.0, np.linalg.norm(W)):
            break
    return W


def mean_distance(X):
    D = np.sqrt(squared_distances(X))
    return (D.sum() - np.trace(D)) / (len(X) * (len(X) - 1))


def squared_distances(X):
    norms = (X**2).sum(axis=1)
    D2 = np.maximum(norms[:, None] + norms - 2 * X @ X.T, 0)
    np.fill_diagonal(D2, 0)
    return D2


def similarity_matrix(X, Y, similarity, width):
    S = np.exp(-squared_distances(X) / width**2)
    unit = Y / np.sqrt(Y.sum(axis=1, keepdims=True))
    C = unit @ unit.T
    return {"both": S * C, "features": S, "labels": C}[similarity]


def objective(X, Y, A, W, P, alpha, beta, lam):
    H = 1 - np.eye(len(X))
    fit = np.sum((X @ W - P) ** 2)
    nuclear = np.linalg.svd(W, compute_uv=False).sum()
    pairs = np.sum((H * (A - P @ P.T)) ** 2)
    return fit + alpha * nuclear + beta * pairs + lam * np.sum((P.sum(axis=1) - 1) ** 2)


def multiplicative_step(X, A, W, P, beta, lam):
    H = 1 - np.eye(len(X))
    XW = X @ W
    lifts = np.maximum(XW, 0) + 2 * beta * (H * A) @ P + lam
    lowers = P + np.maximum(-XW, 0) + 2 * beta * (H * (P @ P.T)) @ P + lam * P.sum(axis=1, keepdims=True) + 1e-12
    return P * np.sqrt(lifts / lowers)


def project_to_simplex(v):
    u = np.sort(v)[::-1]
    sums = np.cumsum(u) - 1
    k = np.flatnonzero(u * np.arange(1, len(v) + 1) > sums)[-1]
    return np.maximum(v - sums[k] / (k + 1), 0)


def projected_step(X, Y, A, W, P, beta, step):
    """One backtracked projected gradient step on the candidates' simplices."""
    H = 1 - np.eye(len(X))

    def value(P):
        return np.sum((X @ W - P) ** 2) + beta * np.sum((H * (A - P @ P.T)) ** 2)

    half_gradient = P - X @ W - 2 * beta * (H * (A - P @ P.T)) @ P
    before = value(P)
    while True:
        new = np.zeros_like(P)
        for i in range(len(X)):
            on = Y[i] > 0
            new[i, on] = project_to_simplex((P - step * half_gradient)[i, on])
        change = new - P
        model = before + 2 * np.sum(half_gradient * change) + np.sum(change**2) / step
        if value(new) <= min(model, before):
            return new, step
        step /= 2


def pml_lfc(X, Y, *, alpha, beta, lam, similarity, width, row_sum="penalty", n_outer=10, n_inner=2000, w_tol=1e-12):
    """Return P and W after `n_outer` alternations and a last predictor step."""
    A = similarity_matrix(X, Y, similarity, width)
    P = Y / Y.sum(axis=1, keepdims=True)
    W = predictor_step(X, P, alpha, np.zeros((X.shape[1], Y.shape[1])), n_inner, w_tol)
    step = 1.0
    for _ in range(n_outer):
        if row_sum == "penalty":
            P = multiplicative_step(X, A, W, P, beta, lam)
        else:
            P, step = projected_step(X, Y, A, W, P, beta, 2 * step)
        W = predictor_step(X, P, alpha, W, n_inner, w_tol)
    return P, W
