r"""A logistic model of wrong candidates, learned from answers: Laplace's approximation, in dual form.

.. math:: \operatorname{logit} p_i = l_i + \sum_f b_f z_{if} + u_{\text{label}(i)} + g_i

with offset l (the log odds without answers), :math:`b_f \sim N(0, s_f^2)`, :math:`u \sim N(0, s_u^2)` and g a
Gaussian process over rows within a label. With n answers everything costs :math:`O(n^3)` plus one pass over the
candidates.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.special import expit, log_expit

from pmlkit._typing import Features, FloatArray, IntArray

__all__ = ["Design", "NoiseModel", "fit_noise_model"]

_N_ITER, _TOLERANCE = 100, 1e-9
_MAX_NEAR = 200_000  # candidates that are compared with the answered ones row by row


@dataclass(frozen=True, eq=False)
class Design:
    """What the model knows of every candidate before any answer.

    Attributes
    ----------
    offset : array of shape (n_candidates,)
        Log odds of being wrong.
    Z : array of shape (n_candidates, n_terms)
        Standardised terms.
    sd : array of shape (n_terms,)
        Prior standard deviations of their coefficients.
    label : array of int of shape (n_candidates,)
    label_sd : float
        Of the effect of each label.
    rows : array of int of shape (n_candidates,), optional
    unit_rows : array or CSR array of shape (n_samples, n_features), optional
        Features of unit length, for the process over rows; None leaves it out.
    width : float
        Mean squared distance of rows.
    row_sd : float
        Of the process over rows.
    """

    offset: FloatArray
    Z: FloatArray
    sd: FloatArray
    label: IntArray
    label_sd: float
    rows: IntArray | None = None
    unit_rows: Features | None = None
    width: float = 1.0
    row_sd: float = 0.0

    def covariance(self, asked: IntArray) -> FloatArray:
        """Return the prior covariance of the log odds of some candidates."""
        Z = self.Z[asked].astype(np.float64) * self.sd
        same_label = self.label[asked][:, None] == self.label[asked]
        total = Z @ Z.T + self.label_sd**2 * same_label
        if self.unit_rows is not None and self.rows is not None:
            total += self.row_sd**2 * same_label * self._kernel(self.rows[asked], self.rows[asked])
        return np.asarray(total)

    def _kernel(self, rows: IntArray, others: IntArray) -> FloatArray:
        """Return exp(-squared distance / its mean) between rows."""
        assert self.unit_rows is not None
        product = self.unit_rows[rows] @ self.unit_rows[others].T
        cosine = np.asarray(product.toarray() if hasattr(product, "toarray") else product, dtype=np.float64)
        return np.asarray(np.exp(-2.0 * np.maximum(1.0 - cosine, 0.0) / self.width))


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """A fitted model.

    Attributes
    ----------
    design : Design
    asked : array of int
        The candidates that it learned from.
    alpha : array aligned with `asked`
        Derivatives of the log likelihood at the mode: the dual coefficients.
    root : array of shape (n_answers, n_answers)
        Lower Cholesky factor of ``I + W^1/2 K W^1/2``.
    root_weight : array
        The diagonal of ``W^1/2``.
    log_evidence : float
        Laplace's approximation of the log marginal likelihood.
    """

    design: Design
    asked: IntArray
    alpha: FloatArray
    root: FloatArray
    root_weight: FloatArray
    log_evidence: float

    def log_odds(self) -> FloatArray:
        """Return the log odds of being wrong of every candidate, at the mode."""
        d, alpha = self.design, self.alpha
        coefficients = d.sd**2 * (d.Z[self.asked].T.astype(np.float64) @ alpha)
        n_labels = int(d.label.max()) + 1 if len(d.label) else 0
        by_label = d.label_sd**2 * np.bincount(d.label[self.asked], weights=alpha, minlength=n_labels)
        odds = d.offset + d.Z @ coefficients.astype(d.Z.dtype) + by_label[d.label]
        if d.unit_rows is not None and d.rows is not None:
            self._add_row_effects(odds)
        return np.asarray(odds)

    def _add_row_effects(self, odds: FloatArray) -> None:
        """Add the process over rows, in very large tables only to the most suspicious candidates."""
        d = self.design
        assert d.rows is not None
        n_near = min(len(odds), _MAX_NEAR)
        near = np.argpartition(-odds, n_near - 1)[:n_near] if n_near < len(odds) else np.arange(len(odds))
        order = near[np.argsort(d.label[near], kind="stable")]
        labels, starts = np.unique(d.label[order], return_index=True)
        members = dict(zip(labels.tolist(), np.split(order, starts[1:]), strict=True))
        for label in np.unique(d.label[self.asked]).tolist():
            mine = d.label[self.asked] == label
            cells = members.get(label)
            if cells is not None:
                odds[cells] += d._kernel(d.rows[cells], d.rows[self.asked[mine]]) @ (d.row_sd**2 * self.alpha[mine])

    def variance_of_sum(self, weight: FloatArray) -> float:
        """Return the posterior variance of a weighted sum of all log odds, the process over rows left out.

        Parameters
        ----------
        weight : array of shape (n_candidates,)
        """
        d = self.design
        n_labels = int(d.label.max()) + 1 if len(d.label) else 0
        by_term = (weight @ d.Z) * d.sd
        by_label = d.label_sd * np.bincount(d.label, weights=weight, minlength=n_labels)
        prior = float(by_term @ by_term + by_label @ by_label)
        if not len(self.asked):
            return prior
        shared = (d.Z[self.asked] * d.sd) @ by_term + d.label_sd * by_label[d.label[self.asked]]
        scaled = self.root_weight * shared
        return max(prior - float(scaled @ cho_solve((self.root, True), scaled)), 0.0)


def fit_noise_model(design: Design, asked: IntArray, wrong: FloatArray, start: FloatArray | None = None) -> NoiseModel:
    """Fit the model to answers by Newton's method.

    Parameters
    ----------
    design : Design
    asked : array of int
        Candidates that were answered.
    wrong : array aligned with `asked`
        1 for wrong and 0 for right, or between where answers may be mistaken.
    start : array aligned with `asked`, optional
        Dual coefficients to begin with, say of a fit to fewer answers.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.audit.noise_model import Design, fit_noise_model
    >>> design = Design(np.zeros(4), np.ones((4, 1)), np.array([2.0]), np.zeros(4, dtype=int), 0.5)
    >>> model = fit_noise_model(design, np.array([0, 1]), np.array([1.0, 1.0]))
    >>> bool((model.log_odds() > 0.5).all())
    True
    """
    n = len(asked)
    offset = design.offset[asked].astype(np.float64)
    K = design.covariance(asked)
    alpha = np.zeros(n) if start is None else start
    shift = K @ alpha
    objective = -np.inf
    step = 1.0
    root, root_weight = np.eye(n), np.zeros(n)
    for _ in range(_N_ITER):
        odds = offset + shift
        chance = expit(odds)
        weight = np.maximum(chance * (1.0 - chance), 1e-10)
        root_weight = np.sqrt(weight)
        root = root_weight[:, None] * K * root_weight
        root[np.diag_indices(n)] += 1.0
        root = cholesky(root, lower=True, overwrite_a=True, check_finite=False)
        value = _log_posterior(alpha, shift, odds, wrong)
        if value - objective < _TOLERANCE and step == 1.0 and np.isfinite(objective):
            break
        objective = value
        b = weight * shift + wrong - chance
        full = b - root_weight * cho_solve((root, True), root_weight * (K @ b), check_finite=False)
        step = 1.0
        while True:  # halve the step until the objective rises
            new = alpha + step * (full - alpha)
            new_shift = K @ new
            if _log_posterior(new, new_shift, offset + new_shift, wrong) >= objective - 1e-12 or step < 1e-4:
                break
            step /= 2.0
        alpha, shift = new, new_shift
    evidence = _log_posterior(alpha, shift, offset + shift, wrong) - float(np.log(np.diag(root)).sum())
    return NoiseModel(design, asked, alpha, root, root_weight, evidence)


def _log_posterior(alpha: FloatArray, shift: FloatArray, odds: FloatArray, wrong: FloatArray) -> float:
    likelihood = wrong * log_expit(odds) + (1.0 - wrong) * log_expit(-odds)
    return float(likelihood.sum() - 0.5 * (alpha @ shift))
