"""Where false labels would rank in this very data set: non-candidates, scored as if they were candidates.

A label that was not given to a row is false there (the assumption of partial multi-label learning), and out-of-fold
evidence does not depend on a cell's own candidacy. So a sample of non-candidates shows, without refitting anything,
what false candidates look like. A small classifier learns to tell these injected cells from the given ones; given cells
that look injected are suspicious, and their number bounds the rate of random mistakes.

What a cell looks like must not give away whether it was given: counts leave out the cell itself and its row, training
adds noise to every feature, and the number of a row's candidates is no feature.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from pmlkit._arrays import row_of_cells
from pmlkit._random import generator
from pmlkit._typing import CSR, BoolArray, FloatArray, IntArray
from pmlkit.cleaning.calibration import noise_rates

__all__ = ["InjectedNull", "injected_null"]

_N_INJECTED = 8000
_N_FITTED = 30_000  # given cells that the classifiers are fitted on, at most
_N_FOLDS = 3
_BY_SCORE = 0.4  # share of the mixed null that is drawn in proportion to the scores
_N_RANKED = 10_000  # rows among which a score is ranked
_BLOCK = 50_000
_KNOTS = (0.02, 0.25, 0.5, 0.75, 0.98)
_JITTER = np.array([0.15, 0.01, 0.3, 0.15, 0.1, 0.2, 0.15])  # standard deviations, one per feature
_RIDGE = 1.0
_ROW_WEIGHT = 0.5  # of the at-least-one posterior
_TAIL, _HALF = 0.2, 0.5
_TRUE_RATIO = 0.1  # usual density of right labels in the tail, relative to the half
_LARGE_TRUE_RATIO = 0.25


@dataclass(frozen=True)
class InjectedNull:
    """What the comparison with injected cells says.

    Attributes
    ----------
    random, mixed : arrays aligned with ``Y.data``
        Log density ratio of injected to given cells, out of fold: injected at random, and partly by score.
    row_log_odds : array aligned with ``Y.data``
        Log odds of being true, given the row's other candidates.
    n_tail, n_half : int
        Given cells that look more like a mistake than 80 % and than half of the injected ones.
    """

    random: FloatArray
    mixed: FloatArray
    row_log_odds: FloatArray
    n_tail: int
    n_half: int

    def suspicion(self, share_random: float) -> FloatArray:
        """Return log odds, up to a constant, of being injected; `share_random` of the mistakes are random ones."""
        ratio = share_random * self.random + (1.0 - share_random) * self.mixed
        return np.asarray(ratio - _ROW_WEIGHT * self.row_log_odds)

    def random_rate(self, *, standard_errors: float = 0.0, cautious: bool = False) -> float:
        """Estimate the share of the candidates that were given at random, or bound it.

        Where the injected cells that look most like mistakes are, there are few right labels. What there are is taken
        off by the number of given cells in the wider half. Where much is wrong the rate is too low, by a fifth if
        half of the candidates are mistakes: these make given cells look like injected ones.

        Parameters
        ----------
        standard_errors : float, default=0
            By how many the counts are moved, positive towards a smaller rate.
        cautious : bool, default=False
            Whether more right labels than usual may look like mistakes.
        """
        n_cells = len(self.random)
        ratio = _LARGE_TRUE_RATIO if cautious else _TRUE_RATIO
        tail = max(self.n_tail - standard_errors * np.sqrt(self.n_tail + 1), 0.0) / n_cells
        half = (self.n_half + standard_errors * np.sqrt(self.n_half)) / n_cells
        return float(np.clip((tail - ratio * half) / (_TAIL - ratio * _HALF), 0.0, min(tail / _TAIL, 1.0)))


def injected_null(
    scores: FloatArray, Y: CSR, doubt: FloatArray, row_keys: IntArray, *, every_row_has_a_label: bool
) -> InjectedNull:
    """Compare the candidates with non-candidates that are scored as if they had been given.

    Parameters
    ----------
    scores : array of shape (n_samples, n_labels)
        Out-of-fold probabilities.
    Y : CSR array of shape (n_samples, n_labels)
        Candidates.
    doubt : array aligned with ``Y.data``
        A first guess of how likely each candidate is false: doubtful ones count less as examples of given cells.
    row_keys : array of shape (n_samples,)
        Numbers that identify rows by their content, so that the order of the rows does not change the result.
    every_row_has_a_label : bool
        Whether a row's only candidate must be true.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.injected_null import injected_null
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(400, noise=0.3)
    >>> spread = np.random.default_rng(0).normal(0, 0.1, strips.Y.shape)
    >>> scores = np.clip(strips.truth.toarray() * 0.6 + 0.2 + spread, 0.01, 0.99)
    >>> even = np.full(strips.Y.nnz, 0.3)
    >>> null = injected_null(scores, strips.Y, even, np.arange(400), every_row_has_a_label=True)
    >>> bool(0.1 < null.random_rate() < 0.4)
    True
    """
    cells = _Cells(scores, Y, every_row_has_a_label)
    rng = generator(0)
    by_content = np.argsort(row_keys, kind="stable")
    fold = np.empty(Y.shape[0], dtype=np.int64)
    fold[by_content] = rng.permutation(np.arange(Y.shape[0]) % _N_FOLDS)
    given = row_of_cells(Y), Y.indices
    position = np.empty(Y.shape[0], dtype=np.int64)
    position[by_content] = np.arange(Y.shape[0])
    in_order = np.lexsort((given[1], position[given[0]]))
    fitted = np.sort(rng.permutation(Y.nnz)[:_N_FITTED])
    examples = in_order[fitted]
    at_random = cells.draw(by_content, _N_INJECTED, rng, by_score=False)
    by_score = cells.draw(by_content, int(_BY_SCORE * _N_INJECTED), rng, by_score=True)
    n_random = len(at_random[0]) - len(by_score[0])
    mixture = tuple(np.concatenate([a[:n_random], b]) for a, b in zip(at_random, by_score, strict=True))
    row_log_odds = cells.row_log_odds(*given, own=True)
    ratios = []
    for injected in (at_random, mixture):
        models = _fit_folds(cells, (given[0][examples], given[1][examples]), injected, 1.0 - doubt[examples], fold, rng)
        ratios.append(models.log_ratio(cells, *given, own=True))
        if injected is at_random:
            null = models.log_ratio(cells, *injected, own=False)
            null -= _ROW_WEIGHT * cells.row_log_odds(*injected, own=False)
    z = ratios[0] - _ROW_WEIGHT * row_log_odds
    tail, half = np.quantile(null, [1.0 - _TAIL, 1.0 - _HALF])
    return InjectedNull(ratios[0], ratios[1], row_log_odds, int((z > tail).sum()), int((z > half).sum()))


class _Cells:
    """Looks up what cells look like, each without its own candidacy."""

    def __init__(self, scores: FloatArray, Y: CSR, every_row_has_a_label: bool) -> None:
        self.scores, self.Y, self.every_row_has_a_label = scores, Y, every_row_has_a_label
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

    def draw(
        self, by_content: IntArray, n_cells: int, rng: np.random.Generator, *, by_score: bool
    ) -> tuple[IntArray, IntArray]:
        """Draw non-candidates: rows in proportion to their candidates, labels alike or in proportion to scores."""
        size = self.sizes[by_content]
        rows = by_content[rng.choice(len(size), size=3 * n_cells, p=size / size.sum())]
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
        """Return what cells look like, one column per number in `_JITTER`.

        Score, rank within the label, frequency, lead over the row's best other candidate, rank in the row,
        co-occurrence with the row's other candidates, and the score of the best other candidate.
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
        better = (self.scores[rows] > score[:, None]).sum(axis=1)
        return np.column_stack(
            [
                log_odds,
                rank,
                np.log((self.count[labels] - own + 0.5) / self.n_labelled),
                np.where(alone, 0.0, log_odds - other),
                np.log1p(better),
                self._co_occurrence(rows, labels, own=own),
                other,
            ]
        )

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


@dataclass(frozen=True)
class _FoldModels:
    """One classifier per fold of the rows, fitted on the others."""

    fold: IntArray
    knots: list[FloatArray]
    coef: list[FloatArray]

    def log_ratio(self, cells: _Cells, rows: IntArray, labels: IntArray, *, own: bool) -> FloatArray:
        ratio = np.empty(len(rows))
        for start in range(0, len(rows), _BLOCK):
            part = slice(start, start + _BLOCK)
            basis = _spline_basis(cells.features(rows[part], labels[part], own=own), self.knots)
            by_fold = basis @ np.column_stack(self.coef)
            ratio[part] = np.take_along_axis(by_fold, self.fold[rows[part]][:, None], axis=1)[:, 0]
        return ratio


def _fit_folds(
    cells: _Cells,
    given: tuple[IntArray, IntArray],
    injected: tuple[IntArray, ...],
    trust: FloatArray,
    fold: IntArray,
    rng: np.random.Generator,
) -> _FoldModels:
    features = np.vstack([cells.features(*given, own=True), cells.features(injected[0], injected[1], own=False)])
    features += _JITTER * rng.standard_normal(features.shape)
    knots = [np.quantile(column, _KNOTS) for column in features.T]
    basis = _spline_basis(features, knots)
    is_injected = np.repeat([False, True], [len(given[0]), len(injected[0])])
    weight = np.concatenate([trust, np.ones(len(injected[0]))])
    in_fold = fold[np.concatenate([given[0], injected[0]])]
    coef = []
    for k in range(_N_FOLDS):
        train = in_fold != k
        y, w = is_injected[train], weight[train]
        # Both classes count alike, so that the log odds are the log density ratio.
        w = w * np.where(y, 0.5 / max(w[y].sum(), 1e-9), 0.5 / max(w[~y].sum(), 1e-9)) * train.sum()
        coef.append(_logistic(basis[train], y, w))
    return _FoldModels(fold, knots, coef)


def _spline_basis(features: FloatArray, knots: list[FloatArray]) -> FloatArray:
    """Return a linear spline of each feature, and the product of each with the first."""
    columns = [np.ones(len(features))]
    first = columns[0]
    for j, knot in enumerate(knots):
        width = max(float(knot[-1] - knot[0]), 1e-9) / 2.0
        value = np.clip(features[:, j], knot[0], knot[-1])
        linear = (value - knot.mean()) / width
        columns.append(linear)
        columns.extend(np.maximum(value - inner, 0.0) / width for inner in knot[1:-1])
        if j == 0:
            first = linear
        else:
            columns.append(first * linear)
    return np.column_stack(columns)


def _logistic(basis: FloatArray, y: BoolArray, weight: FloatArray) -> FloatArray:
    """Fit a ridge-penalised logistic regression by Newton's method; the first column is the intercept."""
    coef = np.zeros(basis.shape[1])
    penalty = np.full(len(coef), _RIDGE)
    penalty[0] = 1e-6
    for _ in range(12):
        p = expit(basis @ coef)
        gradient = basis.T @ (weight * (y - p)) - penalty * coef
        hessian = (basis * np.maximum(weight * p * (1.0 - p), 1e-9)[:, None]).T @ basis + np.diag(penalty)
        step = np.linalg.solve(hessian, gradient)
        size = float(np.abs(step).max())
        coef += step * min(1.0, 5.0 / max(size, 1e-9))
        if size < 1e-4:
            break
    return coef


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
