"""What a cell of the label table looks like, computed without its own candidacy.

The same numbers for given and for injected cells must not give away which of the two a cell is: counts leave out the
cell itself and its row, and the number of a row's candidates is no feature.
"""

import numpy as np
from scipy.special import logit

from pmlkit._arrays import row_of_cells
from pmlkit._typing import CSR, FloatArray, IntArray
from pmlkit.cleaning.calibration import noise_rates

__all__ = ["JITTER", "CellFeatures"]

JITTER = np.array([0.15, 0.01, 0.3, 0.15, 0.1, 0.2, 0.15, 0.02])
"""Noise to be added to each feature before anything is learned from it, as standard deviations."""

_N_RANKED = 10_000  # rows among which a score is ranked
_BLOCK_CELLS = 5_000_000
_N_RELATED = 30_000  # rows from which it is learned how labels go together
_MAX_RELATED = 3_000  # labels up to which it is learned
_PRIOR = 0.05  # ridge of that, relative to the variance


class CellFeatures:
    """Looks up what cells look like, each without its own candidacy.

    Parameters
    ----------
    scores : array of shape (n_samples, n_labels)
        Out-of-fold probabilities.
    Y : CSR array of shape (n_samples, n_labels)
        Candidates.
    fold : array of int of shape (n_samples,)
        What is learned from other rows is learned from those of the other folds.
    by_content : array of int of shape (n_samples,)
        The rows in an order that does not depend on theirs.
    every_row_has_a_label : bool
        Whether a row's only candidate must be true.
    """

    def __init__(
        self, scores: FloatArray, Y: CSR, fold: IntArray, by_content: IntArray, *, every_row_has_a_label: bool
    ) -> None:
        self.scores, self.Y, self.every_row_has_a_label = scores, Y, every_row_has_a_label
        self.fold, self.by_content = fold, by_content
        self.relations = _relations(scores, Y, fold, by_content)
        self.sizes = np.diff(Y.indptr)
        labelled = np.flatnonzero(self.sizes)
        self.n_labelled = len(labelled)
        ranked = labelled[:: -(-len(labelled) // _N_RANKED)]
        self.ranked = np.sort(scores[ranked], axis=0)
        self.count = np.bincount(Y.indices, minlength=Y.shape[1])
        indicator = Y.astype(np.float64)
        self.together = (indicator.T @ indicator).toarray()
        self.keys = row_of_cells(Y) * Y.shape[1] + Y.indices
        own = _log_odds(scores[row_of_cells(Y), Y.indices])
        self.best_label, self.best, self.second = _two_best(own, Y)
        self.usual_best = float(self.best[labelled].mean())
        self.log_floor = float(np.log(noise_rates(scores, Y).max()))
        self.row_total = np.bincount(
            row_of_cells(Y), weights=np.logaddexp(0.0, own - self.log_floor), minlength=Y.shape[0]
        )

    def draw(self, n_cells: int, rng: np.random.Generator, *, by_score: bool) -> tuple[IntArray, IntArray]:
        """Draw non-candidates: rows in proportion to their candidates, labels alike or in proportion to scores."""
        size = self.sizes[self.by_content]
        rows = self.by_content[rng.choice(len(size), size=3 * n_cells, p=size / size.sum())]
        uniform = rng.random(len(rows))
        n_labels = self.Y.shape[1]
        if by_score:
            total = self.scores[rows].astype(np.float64).cumsum(axis=1)
            labels = (uniform[:, None] * total[:, -1:] > total).sum(axis=1)
        else:
            labels = (uniform * n_labels).astype(np.int64)
        labels = np.minimum(labels, n_labels - 1)
        key = rows * n_labels + labels
        place = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        free = np.flatnonzero(self.keys[place] != key)[:n_cells]
        return rows[free], labels[free]

    def features(self, rows: IntArray, labels: IntArray, *, own: bool) -> FloatArray:
        """Return what cells look like, one column per number in `JITTER`.

        Score, rank within the label, frequency, lead over the row's best other candidate, rank in the row,
        co-occurrence with the row's other candidates, the score of the best other candidate, and what the row's other
        labels, given or not, add to the score.
        """
        score = self.scores[rows, labels]
        log_odds = _log_odds(score)
        other = self.best[rows]
        if own:
            other = np.where(self.best_label[rows] == labels, self.second[rows], other)
        alone = ~np.isfinite(other)
        other = np.where(alone, self.usual_best, other)
        rank = np.empty(len(rows))
        for k in np.unique(labels):
            mine = labels == k
            rank[mine] = np.searchsorted(self.ranked[:, k], score[mine]) / len(self.ranked)
        n_better, added = self._in_row(rows, labels)
        return np.column_stack(
            [
                log_odds,
                rank,
                np.log((self.count[labels] - own + 0.5) / self.n_labelled),
                np.where(alone, 0.0, log_odds - other),
                np.log1p(n_better),
                self._co_occurrence(rows, labels, own=own),
                other,
                added,
            ]
        )

    def _in_row(self, rows: IntArray, labels: IntArray) -> tuple[IntArray, FloatArray]:
        """Return how many labels of the row score higher, and what its other labels add, by `_relations`."""
        n_better, added = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
        step = max(1, _BLOCK_CELLS // self.Y.shape[1])
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            row, label = rows[part], labels[part]
            scores = self.scores[row]
            n_better[part] = (scores > scores[np.arange(len(row)), label][:, None]).sum(axis=1)
            surprise = self.Y[row].toarray() - scores
            total = np.zeros(len(row))
            for k, relation in enumerate(self.relations):
                mine = self.fold[row] == k
                total[mine] = np.einsum("ij,ij->i", surprise[mine], relation[label[mine]])
            added[part] = total
        return n_better, added

    def _co_occurrence(self, rows: IntArray, labels: IntArray, *, own: bool) -> FloatArray:
        """Return the mean log lift of a label with the row's other candidates, by all other rows."""
        size = self.sizes[rows]
        cell = np.repeat(np.arange(len(rows)), size)
        first = np.cumsum(size) - size
        other = self.Y.indices[np.arange(len(cell)) - np.repeat(first - self.Y.indptr[rows], size)]
        label = labels[cell]
        is_other = other != label
        cell, other, label = cell[is_other], other[is_other], label[is_other]
        expected = (self.count[label] - own) * (self.count[other] - 1.0) / self.n_labelled
        lift = np.log((self.together[label, other] - own + 0.5) / (expected + 0.5))
        total = np.bincount(cell, weights=lift, minlength=len(rows))
        return np.asarray(total / np.maximum(np.bincount(cell, minlength=len(rows)), 1))

    def row_log_odds(self, rows: IntArray, labels: IntArray, *, own: bool) -> FloatArray:
        """Return the log odds of being true among the row's candidates, of which at least one is true."""
        log_odds = _log_odds(self.scores[rows, labels]) - self.log_floor
        if self.every_row_has_a_label:
            others = self.row_total[rows] - (np.logaddexp(0.0, log_odds) if own else 0.0)
            log_odds = log_odds - np.log(np.maximum(-np.expm1(-np.maximum(others, 0.0)), 1e-9))
        return np.asarray(np.clip(log_odds, -10.0, 10.0))


def _relations(scores: FloatArray, Y: CSR, fold: IntArray, by_content: IntArray) -> list[FloatArray]:
    """Return per fold of the rows how what is surprising about the other labels of a row foretells each label.

    Ridge regression of a label's residual (candidate minus score) on those of all others, by the inverse of their
    covariance, on the rows of the other folds. A row of the result belongs to the label that is foretold. Its
    coefficients add up to zero: an injected cell's row has one candidate more than it had, and the mere number of
    a row's candidates must not tell injected cells from given ones.
    """
    n_labels = Y.shape[1]
    if n_labels > _MAX_RELATED:
        return []
    labelled = by_content[np.diff(Y.indptr)[by_content] > 0]
    some = labelled[:: -(-len(labelled) // _N_RELATED)]
    n_folds = int(fold.max()) + 1
    moment, count = np.zeros((n_folds, n_labels, n_labels)), np.zeros(n_folds)
    step = max(1, _BLOCK_CELLS // n_labels)
    for start in range(0, len(some), step):
        rows = some[start : start + step]
        surprise = Y[rows].toarray() - scores[rows].astype(np.float64)
        for k in range(n_folds):
            mine = surprise[fold[rows] == k]
            moment[k] += mine.T @ mine
            count[k] += len(mine)
    found = []
    for k in range(n_folds):
        n = max(count.sum() - count[k], 1.0)
        covariance = (moment.sum(axis=0) - moment[k]) / n
        spread = np.sqrt(np.diag(covariance) + 1e-6)
        correlation = covariance / np.outer(spread, spread)
        precision = np.linalg.inv(correlation + (_PRIOR + n_labels / n) * np.eye(n_labels))
        relation = -precision / np.diag(precision)[:, None] * np.outer(spread, 1.0 / spread)
        np.fill_diagonal(relation, 0.0)
        relation -= relation.sum(axis=1, keepdims=True) / max(n_labels - 1, 1)
        np.fill_diagonal(relation, 0.0)
        found.append(relation)
    return found


def _two_best(log_odds: FloatArray, Y: CSR) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return per row its best candidate, that one's log odds, and those of the second; -inf where there is none."""
    row = row_of_cells(Y)
    order = np.lexsort((-log_odds, row))
    size = np.diff(Y.indptr)
    label = np.full(Y.shape[0], -1, dtype=np.int64)
    best, second = np.full(Y.shape[0], -np.inf), np.full(Y.shape[0], -np.inf)
    one, two = np.flatnonzero(size > 0), np.flatnonzero(size > 1)
    label[one] = Y.indices[order[Y.indptr[one]]]
    best[one] = log_odds[order[Y.indptr[one]]]
    second[two] = log_odds[order[Y.indptr[two] + 1]]
    return label, best, second


def _log_odds(probability: FloatArray) -> FloatArray:
    return np.asarray(logit(np.clip(probability, 1e-4, 1.0 - 1e-4)), dtype=np.float64)
