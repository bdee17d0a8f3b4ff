"""Self-training: refit the regression with its own predictions for the rows without candidates."""

from collections.abc import Callable

import numpy as np
from scipy import linalg

from pmlkit._typing import Features, FloatArray
from pmlkit.methods.clear_pml.landmarks import LandmarkKernel, row_blocks
from pmlkit.methods.clear_pml.loo_ridge import LooRidge

__all__ = ["fit_with_pseudo_labels"]


def fit_with_pseudo_labels(
    ridge: LooRidge,
    model: tuple[FloatArray, FloatArray],
    kernel: LandmarkKernel,
    X: Features,
    guess: Callable[[FloatArray], FloatArray],
    weight: float,
) -> tuple[FloatArray, FloatArray]:
    """Refit the regression to its own rows and to others, whose targets are made of its scores.

    Parameters
    ----------
    ridge, model : LooRidge, tuple
        The regression and its solution for some targets.
    kernel : LandmarkKernel
    X : dense array or CSR array of float64 of shape (n_rows, n_features)
        The other rows.
    guess : callable
        Turns the model's scores into targets.
    weight : float
        Of one such row; the regression's own rows weigh one.

    Returns
    -------
    intercept, dual_coef : arrays
        On the kernel with the landmarks, as `LooRidge.on_kernel` has them.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.self_training import fit_with_pseudo_labels
    >>> from pmlkit.methods.clear_pml.loo_ridge import ridge_system
    >>> from pmlkit.methods.clear_pml.landmarks import LandmarkKernel
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> kernel = LandmarkKernel(X, 1.0, linear=False)
    >>> ridge = ridge_system(kernel, X).solved(0.1)
    >>> model = ridge.fit(X[:, :1])
    >>> weightless = fit_with_pseudo_labels(ridge, model, kernel, X[:5], np.sign, 0.0)
    >>> bool(np.allclose(weightless[1], ridge.on_kernel(model)[1]))
    True
    """
    intercept, dual = ridge.on_kernel(model)
    n_own, n_others = len(ridge.design), X.shape[0]
    total, gram = np.zeros_like(ridge.mean), np.zeros_like(ridge.factor)
    target_total, moments = np.zeros_like(intercept), np.zeros_like(dual)
    for rows in row_blocks(n_others, len(total)):
        block = kernel(X[rows])
        target = guess(block @ dual + intercept)
        total += block.sum(axis=0)
        gram += block.T @ block
        target_total += target.sum(axis=0)
        moments += block.T @ target
    # Moments of both groups about their own means, plus those between the means.
    mean, target_mean = total / n_others, target_total / n_others
    gram -= n_others * np.outer(mean, mean)
    moments -= n_others * np.outer(mean, target_mean)
    shift, target_shift = mean - ridge.mean, target_mean - model[0]
    share = weight * n_others / (n_own + weight * n_others)
    # The factor holds the own rows' moments and the penalty.
    gram = ridge.factor @ ridge.factor.T + weight * gram + n_own * share * np.outer(shift, shift)
    moments = (
        ridge.factor @ model[1].astype(np.float64) + weight * moments + n_own * share * np.outer(shift, target_shift)
    )
    dual = linalg.solve(gram, moments, assume_a="pos", check_finite=False)
    return model[0] + share * target_shift - (ridge.mean + share * shift) @ dual, dual
