"""Where false labels would rank in this very data set: non-candidates, scored as if they were candidates.

A label that was not given to a row is false there (the assumption of partial multi-label learning), and out-of-fold
evidence does not depend on a cell's own candidacy. So a sample of non-candidates shows, without refitting anything,
what false candidates look like:

- `CellFeatures` describes given and injected cells alike, so that nothing gives away which of the two a cell is: counts
  leave out the cell itself and its row, and the number of a row's candidates is no feature.
- `InjectedCells` fits a small classifier that tells injected cells from given ones; given cells that look injected are
  suspicious.
- `RankMixture` tells how many given cells are random mistakes, and how many right labels rank among them. Ranked among
  injected cells, which are false and were drawn at random, random mistakes are anywhere: their ranks are uniform. Right
  labels look less like mistakes. How much less can be seen from the mean rank of all given cells, once a share of
  random mistakes is supposed; how many right labels rank high all the same then follows from the usual model of a ROC
  curve, two normal distributions. One share explains both the mean rank and the number of cells that rank high.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtr, ndtri

from pmlkit._arrays import generator, row_of_cells
from pmlkit._typing import CSR, BoolArray, FloatArray, IntArray
from pmlkit.cleaning.calibration import noise_rates, two_best

ENOUGH_ROWS = 30
"""Of labels on fewer rows nothing is said, and nothing removed unseen."""

JITTER = np.array([0.15, 0.01, 0.3, 0.15, 0.1, 0.2, 0.15, 0.02])
"""Noise to be added to each feature before anything is learned from it, as standard deviations."""

# Features of cells
_N_RANKED = 10_000  # rows among which a score is ranked
_BLOCK_CELLS = 5_000_000
_N_RELATED = 30_000  # rows from which it is learned how labels go together
_MAX_RELATED = 3_000  # labels up to which it is learned
_PRIOR = 0.05  # ridge of that, relative to the variance

# Injected cells
_N_INJECTED = 8000
_N_FITTED = 30_000  # given cells that the classifiers are fitted on, at most
_N_FOLDS = 3
_BY_SCORE = 0.4  # share of the mixed null that is drawn in proportion to the scores
_BLOCK = 50_000
_KNOTS = (0.02, 0.25, 0.5, 0.75, 0.98)
_RIDGE = 1.0
_ROW_WEIGHT = 0.5  # of the at-least-one posterior

# Ranks
_TAIL = 0.4  # of the injected cells: those among which given cells are counted to find the share
_NARROW_TAIL = 0.2
# Right labels that no feature predicts are as anywhere as random mistakes, and the model of two normal distributions
# does not know them. Without any noise up to 2 % of the labels of the sets that gates were chosen on looked so.
_UNPREDICTED = 0.02
_DEPTHS = np.arange(1, 17) / 20.0
_STEP = 1e-4
_MOST_BELOW = 0.5
_Z90 = 1.645
# What the model gets wrong about a table, as a standard deviation: a constant, and a part of the share. The root mean
# square of the errors on the five sets with uniform noise that gates were chosen on is .017 without noise, .017, .032
# and .053 at 10, 25 and 50 %. The quantile is that of a sixth set, by Student's distribution with four degrees.
_MODEL_ERROR = (0.017, 0.1)
_T90 = 2.34
_UNIFORM_SPREAD = 0.29  # standard deviation of uniform ranks


@dataclass(frozen=True)
class RankMixture:
    """The ranks of given cells among injected ones.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.injected_null import RankMixture
    >>> rng = np.random.default_rng(0)
    >>> right = np.sqrt(0.5) * rng.normal(size=7000) + 2.0
    >>> rank = np.concatenate([rng.random(3000), np.searchsorted(np.sort(rng.normal(size=8000)), right) / 8000])
    >>> bool(abs(RankMixture(rank, 8000).random_share() - 0.3) < 0.03)
    True
    """

    rank: FloatArray  # share of the injected cells that look more like a mistake than the given one, (n_given,)
    n_injected: int

    def random_share(self, *, standard_errors: float = 0.0) -> float:
        """Estimate the share of given cells that are random mistakes.

        `standard_errors`: by how many the estimate is lowered.
        """
        share, error = self._share_and_error(_TAIL)
        return float(np.clip(share - standard_errors * error, 0.0, 1.0))

    def interval(self) -> tuple[float, float]:
        """Bound the share: it should be inside nine times in ten, what the model gets wrong about a table included.

        From below by a count among the most suspicious fifth of the injected cells only: fewer right labels are there,
        but fewer of the mistakes, too, than of the injected cells, and the estimate runs low.
        """
        if not len(self.rank) or not self.n_injected or self.rank.mean() <= 0.5:
            return 0.0, 1.0
        ends = []
        for sign, tail in ((-1.0, _NARROW_TAIL), (1.0, _TAIL)):
            signed, error = self._share_and_error(tail)
            share = max(signed, 0.0)
            width = np.hypot(_Z90 * error, _T90 * _model_error(share))
            ends.append(float(np.clip(share + sign * width, 0.0, 1.0)))
        return ends[0], ends[1]

    def _share_and_error(self, tail: float) -> tuple[float, float]:
        """Return the share, below 0 if even none is too much, and its standard error."""
        if not len(self.rank) or not self.n_injected:
            return 0.0, 0.0
        inside = self.rank <= tail
        count, mean = float(inside.mean()), float(self.rank.mean())
        share = _share(count, mean, tail)
        by_count = (_share(count + _STEP, mean, tail) - _share(count - _STEP, mean, tail)) / (2 * _STEP)
        by_mean = (_share(count, mean + _STEP, tail) - _share(count, mean - _STEP, tail)) / (2 * _STEP)
        spread = float(np.std(by_count * inside + by_mean * self.rank))
        return share, spread * float(np.sqrt(1.0 / len(self.rank) + 1.0 / self.n_injected))

    def safe_depths(self, *, standard_errors: float = 1.0, model_errors: float = 0.0) -> "SafeDepths":
        """Bound the share of random mistakes among the given cells that rank first, at growing depth.

        The share of random mistakes and the number of cells are moved to the safe side by this many standard errors,
        the share also by this many times what the model gets wrong about a table, and two in a hundred right labels may
        be such as no feature predicts.
        """
        n_given = len(self.rank)
        if not n_given or not self.n_injected:
            return SafeDepths(0.0, np.zeros(len(_DEPTHS), dtype=np.int64), np.zeros(len(_DEPTHS)))
        n_cells = np.searchsorted(np.sort(self.rank), _DEPTHS, side="right")
        share = self.random_share(standard_errors=standard_errors)
        share = min(max(share - model_errors * _model_error(share), 0.0), 0.99)
        error = standard_errors * _UNIFORM_SPREAD * np.sqrt(1.0 / n_given + 1.0 / self.n_injected)
        separation = (float(self.rank.mean()) - error - share / 2.0) / (1.0 - share)
        right = (1.0 - share) * (right_share(_DEPTHS, separation) + _UNPREDICTED * _DEPTHS)
        counted = np.maximum(n_cells - standard_errors * np.sqrt(n_cells), 1e-9) / n_given
        return SafeDepths(share, n_cells, np.maximum(1.0 - right / counted, 0.0))


@dataclass(frozen=True)
class SafeDepths:
    """How precise it is, at least, to take the given cells that look most like mistakes for mistakes.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.injected_null import SafeDepths
    >>> depths = SafeDepths(0.3, np.array([40, 90, 150]), np.array([0.8, 0.95, 0.7]))
    >>> depths.depth(0.9), depths.depth(0.99)
    (90, 0)
    """

    random_share: float  # lower bound of the share of random mistakes among all given cells
    n_cells: IntArray  # how many given cells rank among the first 5 %, 10 %, ... 80 % of the injected ones
    precision: FloatArray  # lower bound of the share of random mistakes among these; 0 where there is none

    def depth(self, precision: float) -> int:
        """Return how many cells can be taken at a precision."""
        reached = np.flatnonzero(self.precision >= precision)
        return int(self.n_cells[reached[-1]]) if len(reached) else 0


def right_share(depth: FloatArray | float, separation: float) -> FloatArray:
    """Return the share of right labels that rank among the first `depth` of the injected cells.

    `depth`: share of the injected cells. `separation`: chance that a right label ranks behind an injected cell: the
    area under the ROC curve.

    Examples
    --------
    >>> from pmlkit.cleaning.injected_null import right_share
    >>> right_share(0.2, 0.5).round(6).item(), right_share(0.2, 0.95).round(4).item()
    (0.2, 0.0008)
    """
    shift = np.sqrt(2.0) * ndtri(np.clip(separation, 0.5, 0.9999))
    return np.asarray(ndtr(ndtri(depth) - shift))


def _model_error(share: float) -> float:
    return _MODEL_ERROR[0] + _MODEL_ERROR[1] * share


def _share(count: float, mean: float, tail: float) -> float:
    """Return the share that explains how many given cells rank in the tail, and their mean rank.

    Below 0 where fewer right labels rank in the tail than two normal distributions allow.
    """
    most = min(2.0 * (1.0 - mean), 1.0 - 1e-6)  # right labels cannot rank behind more than all injected cells

    def excess(share: float) -> float:
        right = right_share(tail, (mean - share / 2.0) / (1.0 - share))
        return share * tail + (1.0 - share) * float(right) - count

    # The excess grows with the share. Ranks that are no higher than those of injected cells tell nothing.
    if mean <= 0.5 or most <= 0.0:
        return 0.0
    if excess(0.0) >= 0.0:
        return -_MOST_BELOW if excess(-_MOST_BELOW) >= 0.0 else float(brentq(excess, -_MOST_BELOW, 0.0, xtol=1e-9))
    return most if excess(most) <= 0.0 else float(brentq(excess, 0.0, most, xtol=1e-9))


@dataclass(frozen=True)
class InjectedNull:
    """What the comparison with injected cells says."""

    # `random`, `mixed`: log density ratio of injected to given cells, out of fold: injected at random, and partly by
    # score. All arrays are aligned with ``Y.data``.
    random: FloatArray
    mixed: FloatArray
    row_log_odds: FloatArray  # log odds of being true, given the row's other candidates
    ranks: RankMixture  # of all given cells among all injected ones
    # The same within labels on at least `ENOUGH_ROWS` rows, the only ones that may be removed unseen.
    common_ranks: RankMixture
    # means of `random`, `mixed` and `row_log_odds` over the cells that were injected at random
    of_injected: tuple[float, float, float]

    def suspicion(self, share_random: float) -> FloatArray:
        """Return log odds, up to a constant, of being injected; `share_random` of the mistakes are random ones."""
        return _suspicion(share_random, self.random, self.mixed, self.row_log_odds)

    def suspicion_of_injected(self, share_random: float) -> float:
        """Return the mean of the same over the cells that were injected at random."""
        return float(_suspicion(share_random, *map(np.asarray, self.of_injected)))


class InjectedCells:
    """Non-candidates that are scored as if they had been given, beside the candidates.

    `scores` (n_samples, n_labels): out-of-fold probabilities. `Y`: candidates. `row_keys` (n_samples,): numbers that
    identify rows by their content, so that the order of the rows does not change the result. `every_row_has_a_label`:
    whether a row's only candidate must be true.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.injected_null import InjectedCells
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(400, noise=0.3)
    >>> spread = np.random.default_rng(0).normal(0, 0.1, strips.Y.shape)
    >>> scores = np.clip(strips.truth.toarray() * 0.6 + 0.2 + spread, 0.01, 0.99)
    >>> cells = InjectedCells(scores, strips.Y, np.arange(400), every_row_has_a_label=True)
    >>> bool(0.1 < cells.compare(np.full(strips.Y.nnz, 0.3)).ranks.random_share() < 0.4)
    True
    """

    def __init__(self, scores: FloatArray, Y: CSR, row_keys: IntArray, *, every_row_has_a_label: bool) -> None:
        self._rng = rng = generator(0)
        by_content = np.argsort(row_keys, kind="stable")
        fold = np.empty(Y.shape[0], dtype=np.int64)
        fold[by_content] = rng.permutation(np.arange(Y.shape[0]) % _N_FOLDS)
        cells = CellFeatures(scores, Y, fold, by_content, every_row_has_a_label=every_row_has_a_label)
        rows = row_of_cells(Y)
        position = np.empty(Y.shape[0], dtype=np.int64)
        position[by_content] = np.arange(Y.shape[0])
        in_order = np.lexsort((Y.indices, position[rows]))
        self._examples = in_order[np.sort(rng.permutation(Y.nnz)[:_N_FITTED])]
        at_random = cells.draw(_N_INJECTED, rng, by_score=False)
        by_score = cells.draw(int(_BY_SCORE * _N_INJECTED), rng, by_score=True)
        n_random = len(at_random[0]) - len(by_score[0])
        self._given = _Looks(cells.features(rows, Y.indices, own=True), fold[rows])
        self._random = _Looks(cells.features(*at_random, own=False), fold[at_random[0]])
        by_score_looks = _Looks(cells.features(*by_score, own=False), fold[by_score[0]])
        self._mixed = _Looks(
            np.vstack([self._random.features[:n_random], by_score_looks.features]),
            np.concatenate([self._random.fold[:n_random], by_score_looks.fold]),
        )
        self._row_log_odds = cells.row_log_odds(rows, Y.indices, own=True)
        self._random_row_log_odds = cells.row_log_odds(*at_random, own=False)
        is_common = np.bincount(Y.indices, minlength=Y.shape[1]) >= ENOUGH_ROWS
        self._is_common, self._is_common_random = is_common[Y.indices], is_common[at_random[1]]

    def compare(self, doubt: FloatArray, *, with_relations: bool = False) -> "InjectedNull":
        """Tell given from injected cells.

        `doubt` (aligned with ``Y.data``): a first guess of how likely each candidate is false: doubtful ones count less
        as examples of given cells. `with_relations`: whether it counts how labels go together. That says much about
        which are false, but little about how many: beside other mistakes a mistake looks unlike an injected cell, and
        the count runs low.
        """
        n = len(JITTER) if with_relations else len(JITTER) - 1
        given = self._given.first(n)
        examples = _Looks(given.features[self._examples], given.fold[self._examples])
        trust = 1.0 - doubt[self._examples]
        random, mixed = (
            _fit_folds(examples, looks.first(n), trust, self._rng) for looks in (self._random, self._mixed)
        )
        injected = self._random.first(n)
        by_random, by_mixed = random.log_ratio(injected), mixed.log_ratio(injected)
        null = by_random - _ROW_WEIGHT * self._random_row_log_odds
        found = random.log_ratio(given)
        z = found - _ROW_WEIGHT * self._row_log_odds
        return InjectedNull(
            found,
            mixed.log_ratio(given),
            self._row_log_odds,
            _ranks(z, null),
            _ranks(z[self._is_common], null[self._is_common_random]),
            (_mean(by_random), _mean(by_mixed), _mean(self._random_row_log_odds)),
        )


def _suspicion(share_random: float, random: FloatArray, mixed: FloatArray, row_log_odds: FloatArray) -> FloatArray:
    return np.asarray(share_random * random + (1.0 - share_random) * mixed - _ROW_WEIGHT * row_log_odds)


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else 0.0


def _ranks(given: FloatArray, injected: FloatArray) -> RankMixture:
    """Rank given cells among injected ones, those that look most like a mistake first."""
    n_behind = np.searchsorted(np.sort(injected), given)
    return RankMixture(1.0 - n_behind / max(len(injected), 1), len(injected))


@dataclass(frozen=True)
class _Looks:
    """Features of cells, and the folds of their rows."""

    features: FloatArray
    fold: IntArray

    def first(self, n: int) -> "_Looks":
        """Return them with the first `n` features only."""
        return _Looks(self.features[:, :n], self.fold)


@dataclass(frozen=True)
class _FoldModels:
    """One classifier per fold of the rows, fitted on the others."""

    knots: list[FloatArray]
    coef: list[FloatArray]

    def log_ratio(self, looks: _Looks) -> FloatArray:
        ratio = np.empty(len(looks.fold))
        for start in range(0, len(ratio), _BLOCK):
            part = slice(start, start + _BLOCK)
            by_fold = _spline_basis(looks.features[part], self.knots) @ np.column_stack(self.coef)
            ratio[part] = np.take_along_axis(by_fold, looks.fold[part][:, None], axis=1)[:, 0]
        return ratio


def _fit_folds(given: _Looks, injected: _Looks, trust: FloatArray, rng: np.random.Generator) -> _FoldModels:
    features = np.vstack([given.features, injected.features])
    features += JITTER[: features.shape[1]] * rng.standard_normal(features.shape)
    knots = [np.quantile(column, _KNOTS) for column in features.T]
    basis = _spline_basis(features, knots)
    is_injected = np.repeat([False, True], [len(given.fold), len(injected.fold)])
    weight = np.concatenate([trust, np.ones(len(injected.fold))])
    in_fold = np.concatenate([given.fold, injected.fold])
    coef = []
    for k in range(_N_FOLDS):
        train = in_fold != k
        y, w = is_injected[train], weight[train]
        # Both classes count alike, so that the log odds are the log density ratio.
        w = w * np.where(y, 0.5 / max(w[y].sum(), 1e-9), 0.5 / max(w[~y].sum(), 1e-9)) * train.sum()
        coef.append(_logistic(basis[train], y, w))
    return _FoldModels(knots, coef)


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


class CellFeatures:
    """Looks up what cells look like, each without its own candidacy.

    `scores` (n_samples, n_labels): out-of-fold probabilities. `Y`: candidates. `fold` (n_samples,): what is learned
    from other rows is learned from those of the other folds. `by_content` (n_samples,): the rows in an order that does
    not depend on theirs. `every_row_has_a_label`: whether a row's only candidate must be true.
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
        self.best_label, self.best, self.second = two_best(own, Y)
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


def _log_odds(probability: FloatArray) -> FloatArray:
    return np.asarray(logit(np.clip(probability, 1e-4, 1.0 - 1e-4)), dtype=np.float64)
