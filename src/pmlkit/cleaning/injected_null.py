"""Where false labels would rank in this very data set: non-candidates, scored as if they were candidates.

A label that was not given to a row is false there (the assumption of partial multi-label learning), and out-of-fold
evidence does not depend on a cell's own candidacy. So a sample of non-candidates shows, without refitting anything,
what false candidates look like. A small classifier learns to tell these injected cells from the given ones, by
`pmlkit.cleaning.cell_features`; given cells that look injected are suspicious, and how they rank among the injected
ones tells how many are random mistakes (`pmlkit.cleaning.rank_mixture`).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from pmlkit._arrays import generator, row_of_cells
from pmlkit._typing import CSR, BoolArray, FloatArray, IntArray
from pmlkit.cleaning.cell_features import JITTER, CellFeatures
from pmlkit.cleaning.rank_mixture import RankMixture

__all__ = ["ENOUGH_ROWS", "InjectedCells", "InjectedNull"]

ENOUGH_ROWS = 30
"""Of labels on fewer rows nothing is said, and nothing removed unseen."""

_N_INJECTED = 8000
_N_FITTED = 30_000  # given cells that the classifiers are fitted on, at most
_N_FOLDS = 3
_BY_SCORE = 0.4  # share of the mixed null that is drawn in proportion to the scores
_BLOCK = 50_000
_KNOTS = (0.02, 0.25, 0.5, 0.75, 0.98)
_RIDGE = 1.0
_ROW_WEIGHT = 0.5  # of the at-least-one posterior


@dataclass(frozen=True)
class InjectedNull:
    """What the comparison with injected cells says.

    Attributes
    ----------
    random, mixed : arrays aligned with ``Y.data``
        Log density ratio of injected to given cells, out of fold: injected at random, and partly by score.
    row_log_odds : array aligned with ``Y.data``
        Log odds of being true, given the row's other candidates.
    ranks : RankMixture
        Of all given cells among all injected ones.
    common_ranks : RankMixture
        The same within labels on at least `ENOUGH_ROWS` rows, the only ones that may be removed unseen.
    """

    random: FloatArray
    mixed: FloatArray
    row_log_odds: FloatArray
    ranks: RankMixture
    common_ranks: RankMixture

    def suspicion(self, share_random: float) -> FloatArray:
        """Return log odds, up to a constant, of being injected; `share_random` of the mistakes are random ones."""
        ratio = share_random * self.random + (1.0 - share_random) * self.mixed
        return np.asarray(ratio - _ROW_WEIGHT * self.row_log_odds)


class InjectedCells:
    """Non-candidates that are scored as if they had been given, beside the candidates.

    Parameters
    ----------
    scores : array of shape (n_samples, n_labels)
        Out-of-fold probabilities.
    Y : CSR array of shape (n_samples, n_labels)
        Candidates.
    row_keys : array of shape (n_samples,)
        Numbers that identify rows by their content, so that the order of the rows does not change the result.
    every_row_has_a_label : bool
        Whether a row's only candidate must be true.

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

        Parameters
        ----------
        doubt : array aligned with ``Y.data``
            A first guess of how likely each candidate is false: doubtful ones count less as examples of given cells.
        with_relations : bool, default=False
            Whether it counts how labels go together. That says much about which are false, but little about how many:
            beside other mistakes a mistake looks unlike an injected cell, and the count runs low.
        """
        n = len(JITTER) if with_relations else len(JITTER) - 1
        given = self._given.first(n)
        examples = _Looks(given.features[self._examples], given.fold[self._examples])
        trust = 1.0 - doubt[self._examples]
        random, mixed = (
            _fit_folds(examples, looks.first(n), trust, self._rng) for looks in (self._random, self._mixed)
        )
        null = random.log_ratio(self._random.first(n)) - _ROW_WEIGHT * self._random_row_log_odds
        found = random.log_ratio(given)
        z = found - _ROW_WEIGHT * self._row_log_odds
        return InjectedNull(
            found,
            mixed.log_ratio(given),
            self._row_log_odds,
            _ranks(z, null),
            _ranks(z[self._is_common], null[self._is_common_random]),
        )


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
