"""What the noise model looks at in each candidate: terms that need no answer, computed once per audit."""

import numpy as np
from scipy import sparse
from scipy.special import logit

from pmlkit._arrays import generator
from pmlkit._typing import CSR, Features, FloatArray, IntArray
from pmlkit.cleaning.audit.noise_model import Design
from pmlkit.numerics.scaling import scaled

__all__ = ["curve_design", "order_design"]

_ODDS = 6.0
# Priors of the noise model, by the log loss on unasked candidates after 1 to 100 answers, on the tuned sets.
_INTERCEPT_SD, _CURVE_SD = 0.7, 1.2
_LENGTH, _N_KNOTS = 2.0, 13  # of the process along the log odds
_MAX_VOTING = 6_000  # rows up to which neighbours vote
_N_VOTERS = 15
_MAX_LABELS = 3_000  # up to which pairs of labels are counted
_MAX_STORED = 50_000_000  # cells of X up to which rows are compared


def curve_design(offset: FloatArray, label: IntArray) -> Design:
    """Return the design of the calibration curve: an intercept, a process along the log odds, an effect of each label.

    An answer tells most about candidates that were as suspicious as the one it is about. With a slope instead of the
    process, one surprising answer at the end of the scale moved every candidate: suspicious-first answers are no
    random sample.

    Parameters
    ----------
    offset : array of shape (n_candidates,)
        Log odds of being wrong, without answers.
    label : array of int of shape (n_candidates,)
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

    Parameters
    ----------
    X : array or CSR array of shape (n_samples, n_features), optional
    Y : CSR array of shape (n_samples, n_labels)
    scores : array of shape (n_samples, n_labels)
        Out-of-fold.
    offset : array of shape (n_candidates,)
        Log odds of being wrong, without answers.
    cells : array of int of shape (n_candidates,)
        Positions in ``Y.data``.
    rows : array of int aligned with ``Y.data``
    """
    row, label = rows[cells], Y.indices[cells]
    n_stored = 0 if X is None else X.nnz if sparse.issparse(X) else X.size
    unit = _unit_rows(X) if X is not None and n_stored <= _MAX_STORED else None
    score = logit(np.clip(scores[rows, Y.indices].astype(np.float64), 1e-4, 1.0 - 1e-4))
    size = np.diff(Y.indptr)[row]
    count = np.bincount(Y.indices, minlength=Y.shape[1])
    terms = [
        score[cells],
        _rank_within(score, Y.indices, count)[cells],
        (score - _best_other(score, Y, rows))[cells],
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


def _best_other(score: FloatArray, Y: CSR, rows: IntArray) -> FloatArray:
    """Return the best score among the row's other candidates; a candidate's own where there is none."""
    order = np.lexsort((-score, rows))
    size = np.diff(Y.indptr)
    starts = Y.indptr[:-1][size > 0]
    best = np.full(Y.shape[0], -np.inf)
    second = np.full(Y.shape[0], -np.inf)
    top = order[starts]
    best[rows[top]] = score[top]
    several = starts[size[rows[top]] > 1]
    second[rows[order[several]]] = score[order[several + 1]]
    is_top = np.zeros(len(score), dtype=bool)
    is_top[top] = True
    other = np.where(is_top, second[rows], best[rows])
    return np.where(np.isfinite(other), other, score)


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
