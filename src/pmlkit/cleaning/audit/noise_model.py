r"""A logistic model of wrong candidates, learned from answers: Laplace's approximation, in dual form.

.. math:: \operatorname{logit} p_i = l_i + \sum_f b_f z_{if} + u_{\text{label}(i)} + g_i

with offset l (the log odds without answers), :math:`b_f \sim N(0, s_f^2)`, :math:`u \sim N(0, s_u^2)` and g a
Gaussian process over rows within a label. With n answers everything costs :math:`O(n^3)` plus one pass over the
candidates. The terms z need no answer and are computed once per audit: few of them for the calibration curve
(`curve_design`), more for the learning order (`order_design`, `LearningOrder`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve, cholesky
from scipy.special import expit, log_expit, logit

from pmlkit._arrays import generator
from pmlkit._typing import CSR, Features, FloatArray, IntArray
from pmlkit.cleaning.audit.answers import RIGHT, WRONG
from pmlkit.cleaning.calibration import best_other
from pmlkit.cleaning.estimates import log_odds
from pmlkit.numerics.scaling import scaled

if TYPE_CHECKING:
    from pmlkit.cleaning.result import CleaningResult

_N_ITER, _TOLERANCE = 100, 1e-9
_MAX_NEAR = 200_000  # candidates that are compared with the answered ones row by row
_ODDS = 6.0
# Priors of the noise model, by the log loss on unasked candidates after 1 to 100 answers, on the tuned sets.
_INTERCEPT_SD, _CURVE_SD = 0.7, 1.2
_LENGTH, _N_KNOTS = 2.0, 13  # of the process along the log odds
_MAX_VOTING = 6_000  # rows up to which neighbours vote
_N_VOTERS = 15
_MAX_LABELS = 3_000  # up to which pairs of labels are counted
_MAX_STORED = 50_000_000  # cells of X up to which rows are compared
_MAX_FITTED = 1_000  # answers that a fit uses
_PRIOR_LOG_ODDS = float(np.log(3.0))  # of the noise model with all terms


@dataclass(frozen=True, eq=False)
class Design:
    """Features of every candidate that do not depend on answers."""

    offset: FloatArray  # log odds of being wrong, (n_candidates,)
    Z: FloatArray  # standardised terms, (n_candidates, n_terms)
    sd: FloatArray  # prior standard deviations of their coefficients, (n_terms,)
    label: IntArray  # (n_candidates,)
    label_sd: float  # of the effect of each label
    rows: IntArray | None = None  # (n_candidates,)
    # Features of unit length, (n_samples, n_features), for the process over rows; None leaves it out.
    unit_rows: Features | None = None
    width: float = 1.0  # mean squared distance of rows
    row_sd: float = 0.0  # of the process over rows

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
    """A fitted model."""

    design: Design
    asked: IntArray  # the candidates that it learned from
    alpha: FloatArray  # derivatives of the log likelihood at the mode: the dual coefficients, aligned with `asked`
    root: FloatArray  # lower Cholesky factor of ``I + W^1/2 K W^1/2``, (n_answers, n_answers)
    root_weight: FloatArray  # the diagonal of ``W^1/2``
    log_evidence: float  # Laplace's approximation of the log marginal likelihood

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
        """Return the posterior variance of a weighted sum of all log odds, the process over rows left out."""
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

    `asked`: candidates that were answered. `wrong` (aligned with `asked`): 1 for wrong and 0 for right, or between
    where answers may be mistaken. `start` (aligned with `asked`): dual coefficients to begin with, say of a fit to
    fewer answers.

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


def curve_design(offset: FloatArray, label: IntArray) -> Design:
    """Return the design of the calibration curve: an intercept, a process along the log odds, an effect of each label.

    An answer tells most about candidates that were as suspicious as the one it is about. With a slope instead of the
    process, one surprising answer at the end of the scale moved every candidate: suspicious-first answers are no
    random sample.

    `offset` (n_candidates,): log odds of being wrong, without answers.
    """
    offset = np.clip(offset, -_ODDS, _ODDS)
    Z, sd = _along(offset)
    return Design(offset, Z, sd, label, 0.7)


def _along(offset: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return terms, and prior standard deviations, of an intercept and an Ornstein-Uhlenbeck process along log odds."""
    knots = np.linspace(-_ODDS, _ODDS, _N_KNOTS)
    covariance = np.exp(-np.abs(knots[:, None] - knots) / _LENGTH)
    between = np.maximum(1.0 - np.abs(offset[:, None] - knots) / (knots[1] - knots[0]), 0.0)
    Z = np.column_stack([np.ones(len(offset)), between @ np.linalg.cholesky(covariance)])
    return Z, np.concatenate([[_INTERCEPT_SD], np.full(_N_KNOTS, _CURVE_SD)])


def order_design(
    X: Features | None, Y: CSR, scores: FloatArray, offset: FloatArray, cells: IntArray, rows: IntArray
) -> Design:
    """Return the design of the learning order.

    `scores` (n_samples, n_labels): out-of-fold. `offset` (n_candidates,): log odds of being wrong, without answers.
    `cells` (n_candidates,): positions in ``Y.data``. `rows` (aligned with ``Y.data``).
    """
    row, label = rows[cells], Y.indices[cells]
    n_stored = 0 if X is None else X.nnz if sparse.issparse(X) else X.size
    unit = _unit_rows(X) if X is not None and n_stored <= _MAX_STORED else None
    score = logit(np.clip(scores[rows, Y.indices].astype(np.float64), 1e-4, 1.0 - 1e-4))
    other = best_other(score, Y)
    size = np.diff(Y.indptr)[row]
    count = np.bincount(Y.indices, minlength=Y.shape[1])
    terms = [
        score[cells],
        _rank_within(score, Y.indices, count)[cells],
        (score - np.where(np.isfinite(other), other, score))[cells],
        (size == 1).astype(np.float64),
        np.log(size),
        np.log(count[label]),
    ]
    if Y.shape[1] <= _MAX_LABELS:
        terms.append(_mean_lift(Y, rows, count)[cells])
    if unit is not None and Y.shape[0] <= _MAX_VOTING:
        terms.append(_votes(unit, Y, rows)[cells])
    Z = np.column_stack(terms)
    spread = Z.std(axis=0)
    Z = (Z - Z.mean(axis=0)) / np.where(spread > 1e-12, spread, 1.0)
    offset = np.clip(offset, -_ODDS, _ODDS)
    along, along_sd = _along(offset)
    Z = np.column_stack([along, Z]).astype(np.float32)
    sd = np.concatenate([along_sd, np.full(len(terms), 0.35)])
    return Design(
        offset, Z, sd, label, 0.6, rows=row, unit_rows=unit, width=1.0 if unit is None else _width(unit), row_sd=0.7
    )


def _rank_within(score: FloatArray, label: IntArray, count: IntArray) -> FloatArray:
    """Return the rank of each candidate's score within its label, as a share."""
    order = np.lexsort((score, label))
    first = np.concatenate([[0], np.cumsum(count)[:-1]])
    rank = np.empty(len(score))
    rank[order] = (np.arange(len(score)) - first[label[order]] + 0.5) / count[label[order]]
    return rank


def _mean_lift(Y: CSR, rows: IntArray, count: IntArray) -> FloatArray:
    """Return the mean log lift of each candidate with the row's others, the row itself left out."""
    indicator = Y.astype(np.float64)
    together = (indicator.T @ indicator).toarray()
    n = max(Y.shape[0] - 1, 1)
    size = np.diff(Y.indptr)[rows]
    lift = np.zeros(len(rows))
    # Candidates of a row, one offset at a time: the number of steps is the size of the largest row.
    place = np.arange(len(rows)) - Y.indptr[rows]
    for step in range(1, int(size.max(initial=1))):
        mine = np.flatnonzero(size > step)
        other = Y.indptr[rows[mine]] + (place[mine] + step) % size[mine]
        j, k = Y.indices[mine], Y.indices[other]
        expected = (count[j] - 1.0) * (count[k] - 1.0) / n
        lift[mine] += np.log((together[j, k] - 1.0 + 0.5) / (expected + 0.5))
    return np.asarray(lift / np.maximum(size - 1, 1))


def _votes(unit: Features, Y: CSR, rows: IntArray) -> FloatArray:
    """Return the logit of the share of the most similar rows that have the label."""
    n = Y.shape[0]
    k = min(_N_VOTERS, n - 1)
    if k < 1:
        return np.zeros(len(rows))
    indicator = Y.toarray() > 0
    votes = np.zeros(Y.shape)
    for start in range(0, n, 500):
        part = np.arange(start, min(start + 500, n))
        product = unit[part] @ unit.T
        cosine = product.toarray() if sparse.issparse(product) else product
        cosine[np.arange(len(part)), part] = -np.inf
        nearest = np.argpartition(-cosine, k - 1, axis=1)[:, :k]
        votes[part] = indicator[nearest].sum(axis=1)
    return np.asarray(logit((votes[rows, Y.indices] + 0.5) / (k + 1.0)))


def _unit_rows(X: Features) -> Features:
    """Return standardised (dense) or plain (sparse) rows of unit length, in single precision."""
    if sparse.issparse(X):
        return scaled(X.astype(np.float32), "unit")
    spread = X.std(axis=0)
    rows = ((X - X.mean(axis=0)) / np.where(spread > 1e-12, spread, 1.0)).astype(np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def _width(unit: Features) -> float:
    """Return the mean squared distance of rows, by a sample."""
    sample = unit[generator(0).permutation(unit.shape[0])[:300]]
    product = sample @ sample.T
    cosine = product.toarray() if sparse.issparse(product) else product
    return max(float(2.0 * (1.0 - cosine).mean()), 1e-6)


class LearningOrder:
    """Probabilities of being wrong and the order that follows from them, learned from answers.

    Two models are averaged by their marginal likelihoods: the calibration curve, which keeps the order of `result`
    within each label, and the noise model with all terms, which may overturn it. With few answers, or where its
    terms tell nothing, the first one weighs more.

    `curve`: design of the calibration curve. It and `probability` are by rank of suspicion; `queue` are ranks, the most
    suspicious first.
    """

    def __init__(self, result: "CleaningResult", curve: Design) -> None:
        self._curve = curve
        self._full = order_design(
            result.X, result.Y, result.scores, log_odds(result.doubt[result.order]), result.order, result.rows
        )
        self.probability: FloatArray = expit(curve.offset)
        self.queue: IntArray = np.arange(len(curve.offset))
        self.weight = 0.0
        self._curve_alpha, self._full_alpha = np.zeros(len(self.queue)), np.zeros(len(self.queue))

    def fitted(self, verdict: IntArray, rng: np.random.Generator) -> IntArray:
        """Return the ranks of answered candidates that a fit uses: all, or a random part of very many."""
        known = np.flatnonzero(np.isin(verdict, [WRONG, RIGHT]))
        return np.sort(rng.permutation(known)[:_MAX_FITTED]) if len(known) > _MAX_FITTED else known

    def fit(self, verdict: IntArray, rng: np.random.Generator, answer_error: float = 0.0) -> None:
        """Learn from what is known of each candidate, by rank."""
        asked = self.fitted(verdict, rng)
        if not len(asked):
            return
        wrong = np.where(verdict[asked] == WRONG, 1.0 - answer_error, answer_error)
        curve = fit_noise_model(self._curve, asked, wrong, self._curve_alpha[asked])
        full = fit_noise_model(self._full, asked, wrong, self._full_alpha[asked])
        self._curve_alpha[asked], self._full_alpha[asked] = curve.alpha, full.alpha
        self.weight = float(expit(full.log_evidence - curve.log_evidence + _PRIOR_LOG_ODDS))
        mixed = self.weight * expit(full.log_odds()) + (1.0 - self.weight) * expit(curve.log_odds())
        self.queue = np.argsort(-mixed, kind="stable")
        self.probability = np.where(verdict == WRONG, 1.0, np.where(verdict == RIGHT, 0.0, mixed))
