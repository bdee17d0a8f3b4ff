r"""Cross-fitted one-vs-rest logistic regressions of rows in blocks: many at once, by passes over the rows.

Each regression, a column of the coefficients, is of one label, on all rows or on those of all folds but one. It
minimises

.. math:: \tfrac12 \|w\|^2 + C \sum_i \log(1 + \exp(-y_i \, x_i^T w)),

its last coefficient being the intercept, which is penalised too (as liblinear does). A pass sends the coefficients to
the blocks and gets losses and gradients back: features x labels x (folds + 1) numbers each way. Steps are Newton steps
with the Hessian of a sample of the rows, which needs no pass. What it does not know of the Hessian is learned from the
gradients, as in limited-memory BFGS.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit

from pmlkit._arrays import row_of_cells
from pmlkit._typing import CSR, Features, FloatArray, IntArray
from pmlkit.blocks import State
from pmlkit.methods.labelled_rows import LabelledRows
from pmlkit.numerics.products import cells_at

_SAMPLE_ROWS, _SAMPLE_CELLS = 10_000, 2**24  # whose Hessian is used: rows, and cells of dense rows
_NEAR = 1e-2  # squared distance to the sample's optimum from which all rows go on
_COEFFICIENTS, _REGRESSIONS = 2**21, 512  # that are fitted together, at the most
_RULE_ROWS, _RULE_SCORES = 50_000, 40_000_000  # on which the threshold is chosen
_CELLS = 2**21  # of scores at a time
_PAIRS = 4  # of steps and changes of the gradient that are remembered
_TOLERANCE = 1e-16  # of the squared distance to the optimum, measured by the Hessian, which is at least the identity
_FINEST = 1e-20  # likewise, as a share of the objective
_ROUNDING = 1e-12  # share of the objective, below which a difference of two sums over the rows says nothing
_POLISHING = 10  # steps after the objective has stopped telling
_DECREASE = 1e-4  # share of the promised decrease that a step must bring
_HALVINGS = 30

Evaluate = Callable[[FloatArray, IntArray], tuple[FloatArray, FloatArray]]
"""From coefficients and the numbers of their regressions to the objectives and their gradients."""


def sample_step(n_rows: int, n_labels: int) -> int:
    """Return k, where every k-th row is enough to choose a threshold."""
    return -(-n_rows // max(1, min(_RULE_ROWS, _RULE_SCORES // n_labels)))


def constant_log_odds(n_present: Any, n_rows: Any) -> Any:
    """Return the log odds of labels that all rows have, or none: near their share, half a row short of certainty."""
    share = (n_present + 0.5) / (n_rows + 1)
    return np.log(share / (1 - share))


def fit_regressions(
    rows: LabelledRows,
    X: State,
    fold: State,
    *,
    n_folds: int,
    C: float,
    max_iter: int,
    on_progress: Callable[[float], Any],
) -> tuple[FloatArray, FloatArray, int]:
    """Fit every label to all rows of scaled features, and to all rows but those of each fold.

    `max_iter`: most passes. `on_progress`: told the share of the labels that are done. Returns coefficients of shape
    (n_labels, n_features + 1), the intercepts last; those without each fold; and the number of passes.
    """
    engine, n_labels = rows.engine, len(rows.n_candidates)
    fold_rows, fold_candidates = engine.reduce(_fold_counts, rows.Y, fold, n_folds=n_folds)
    squares = engine.reduce(_sums_of_squares, X)
    n_columns = len(squares)
    twins = np.flatnonzero(fold_rows == rows.n_rows)
    left_out = np.flatnonzero((fold_rows > 0) & (fold_rows < rows.n_rows))
    part = max(1, min(_SAMPLE_ROWS, _SAMPLE_CELLS // n_columns if _is_dense(rows, n_columns) else _SAMPLE_ROWS))
    chosen = rows.sampled(part, seed=3)
    sample = rows.take(X, chosen), rows.take(rows.Y, chosen), rows.take(fold, chosen)
    solver = _Solver(rows, X, fold, sample, squares, C, max_iter)
    coef_without = np.zeros((n_folds, n_labels, n_columns))
    coef = np.zeros((n_labels, n_columns))
    n_passes = 0
    group = max(1, min(_COEFFICIENTS // n_columns, _REGRESSIONS) // (1 + len(left_out)))
    for first in range(0, n_labels, group):
        labels = np.arange(first, min(first + group, n_labels))
        without = np.concatenate([[-1], left_out])
        n_rows = rows.n_rows - np.concatenate([[0], fold_rows[left_out]])
        present = rows.n_candidates[labels] - np.vstack([np.zeros(len(labels)), fold_candidates[left_out][:, labels]])
        found, passes = solver.fit(labels, without, np.asarray(present), n_rows)
        coef[labels], coef_without[left_out[:, None], labels] = found[0], found[1:]
        n_passes = max(n_passes, passes)
        on_progress((labels[-1] + 1) / n_labels)
    if len(twins):  # All rows are identical: the shares of the labels are all there is.
        nothing = _Solver(rows, engine.map(_zeros, X), fold, (0.0 * sample[0], *sample[1:]), squares * 0.0, C, max_iter)
        present = rows.n_candidates[None, :].astype(np.float64)
        coef_without[twins] = nothing.fit(np.arange(n_labels), np.array([-1]), present, np.array([rows.n_rows]))[0]
    return coef, coef_without, n_passes


@dataclass(frozen=True)
class _Solver:
    """What the fits of all labels share."""

    rows: LabelledRows
    X: State
    fold: State
    sample: tuple[Features, CSR, IntArray]
    squares: FloatArray
    C: float
    max_iter: int

    def fit(self, labels: IntArray, without: IntArray, present: FloatArray, n_rows: IntArray) -> tuple[FloatArray, int]:
        """Fit some labels to the rows without each of some folds (-1: to all rows).

        `present` (n_fits, n_labels): candidates of the labels among the rows of a fit. Returns coefficients of shape
        (n_fits, n_labels, n_features + 1) and the number of passes.
        """
        coef = np.zeros((*present.shape, len(self.squares)))
        coef[..., -1] = constant_log_odds(present, n_rows[:, None])
        fits, places = np.nonzero((present > 0) & (present < n_rows[:, None]))
        if not len(fits):
            return coef, 1
        label, left_out = labels[places], without[fits]
        X, Y, fold = self.sample
        is_all = X.shape[0] == self.rows.n_rows
        used = np.array([np.count_nonzero(fold != k) for k in without])
        weight = (n_rows / np.maximum(used, 1))[fits]
        missing = np.maximum(self.squares - self.rows.n_rows / X.shape[0] * _sums_of_squares(X), 0.0)
        hessian = SampleHessian(X, fold, self.C, left_out, weight, missing, 1e-6 if is_all else 1e-2)

        def of_sample(coef: FloatArray, columns: IntArray) -> tuple[FloatArray, FloatArray]:
            found = loss_and_gradient(X, Y, fold, coef=coef, label=label[columns], left_out=left_out[columns])
            return _penalised(coef, found, self.C * weight[columns])

        def of_all(coef: FloatArray, columns: IntArray) -> tuple[FloatArray, FloatArray]:
            which: dict[str, Any] = {"coef": coef, "label": label[columns], "left_out": left_out[columns]}
            found = self.rows.engine.reduce(loss_and_gradient, self.X, self.rows.Y, self.fold, **which)
            return _penalised(coef, found, self.C)

        start: FloatArray = np.zeros((len(self.squares), len(fits)))
        start[-1] = coef[fits, places, -1]
        if not is_all:
            # The optimum of the sample is near that of all rows, and costs no pass.
            start, _ = minimise(of_sample, hessian, start, max_iter=self.max_iter, tolerance=_NEAR)
        found, n_passes = minimise(of_all, hessian, start, max_iter=self.max_iter)
        coef[fits, places] = found.T
        return coef, n_passes


def _penalised(coef: FloatArray, found: tuple[FloatArray, FloatArray], C: Any) -> tuple[FloatArray, FloatArray]:
    loss, gradient = found
    return 0.5 * np.einsum("ij,ij->j", coef, coef) + C * loss, coef + C * gradient


def held_out_scores(X: Features, fold: IntArray, *, coef: FloatArray) -> FloatArray:
    """Return each row's probabilities by the regressions that were fitted without its fold."""
    scores = np.empty((X.shape[0], coef.shape[1]))
    for k in np.unique(fold):
        rows = np.flatnonzero(fold == k)
        scores[rows] = expit(X[rows] @ coef[k, :, :-1].T + coef[k, :, -1])
    return scores


def held_out_confidence(X: Features, Y: CSR, fold: IntArray, *, coef: FloatArray) -> FloatArray:
    """Return a block's held-out scores of the candidates; some rows at a time."""
    cells = np.empty(Y.nnz)
    step = max(1, _SAMPLE_CELLS // Y.shape[1])
    for first in range(0, X.shape[0], step):
        rows = slice(first, min(first + step, X.shape[0]))
        some = Y[rows]
        scores = held_out_scores(X[rows], fold[rows], coef=coef)
        cells[Y.indptr[rows.start] : Y.indptr[rows.stop]] = cells_at(scores, some)
    return cells


def scores_of_all_rows(X: Features, fold: IntArray, Y: CSR, *, coef: FloatArray) -> FloatArray:
    """Return held-out scores of a block's rows; NaN in those without candidates."""
    scores = np.full(Y.shape, np.nan)
    scores[np.diff(Y.indptr) > 0] = held_out_scores(X, fold, coef=coef)
    return scores


def rule_sample(
    X: Features, Y: CSR, fold: IntArray, confidence: FloatArray, first: int, *, coef: FloatArray, step: int
) -> list[Any]:
    """Return held-out scores, candidates and confidences of every step-th row."""
    rows = np.arange((-first) % step, X.shape[0], step)
    table = sparse.csr_array((confidence, Y.indices, Y.indptr), shape=Y.shape)
    return [(held_out_scores(X[rows], fold[rows], coef=coef), Y[rows], table[rows].data)]


def _is_dense(rows: LabelledRows, n_columns: int) -> bool:
    return rows.n_bytes >= 4 * rows.n_rows * (n_columns - 1)


def _sums_of_squares(X: Features) -> FloatArray:
    squares = X.multiply(X).sum(axis=0) if sparse.issparse(X) else np.einsum("ij,ij->j", X, X)
    return np.append(np.asarray(squares).ravel(), X.shape[0])


def _fold_counts(Y: CSR, fold: IntArray, *, n_folds: int) -> tuple[IntArray, IntArray]:
    key = fold[row_of_cells(Y)].astype(np.int64) * Y.shape[1] + Y.indices
    cells = np.bincount(key, minlength=n_folds * Y.shape[1]).reshape(n_folds, Y.shape[1])
    return np.bincount(fold, minlength=n_folds), cells


def _zeros(X: Features) -> Features:
    return 0.0 * X


def loss_and_gradient(
    X: Features, Y: CSR, fold: IntArray, *, coef: FloatArray, label: IntArray, left_out: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the sums over a block's rows of the logistic losses, and their gradients, of every regression.

    `coef` (n_features + 1, n_regressions): the intercepts last. `label`, `left_out` (n_regressions,): the label of each
    regression, and the fold whose rows it does not see (-1: it sees all).
    """
    total, gradient = np.zeros(coef.shape[1]), np.zeros(coef.shape)
    for rows in _slices(X, coef.shape[1]):
        x = X[rows]
        sign = 2.0 * Y[rows][:, label].toarray() - 1.0
        margin = x @ coef[:-1]
        margin += coef[-1]
        margin *= sign
        small = np.exp(-np.abs(margin))
        loss = np.log1p(small) + np.maximum(-margin, 0.0)
        residual = np.where(margin >= 0.0, small, 1.0)
        residual /= 1.0 + small
        residual *= -sign
        held_out = fold[rows, None] == left_out
        loss[held_out] = 0.0
        residual[held_out] = 0.0
        total += loss.sum(axis=0)
        gradient[:-1] += x.T @ residual
        gradient[-1] += residual.sum(axis=0)
    return total, gradient


def _slices(X: Features, n_columns: int) -> Iterator[slice]:
    step = max(1, _CELLS // max(1, n_columns))
    for first in range(0, X.shape[0], step):
        yield slice(first, first + step)


@dataclass(frozen=True)
class SampleHessian:
    """Hessians of the regressions, estimated from a sample of the rows.

    - `weight` (n_regressions,): how many rows a row of the sample stands for.
    - `missing` (n_features + 1,): sums of squares of all rows that the sample's rows, weighted, do not reach: of
      features that it hardly has.
    - `accuracy`: of the solutions, at best.
    """

    X: Features
    fold: IntArray
    C: float
    left_out: IntArray
    weight: FloatArray
    missing: FloatArray
    accuracy: float

    def at(self, coef: FloatArray, columns: IntArray) -> Callable[[FloatArray, FloatArray], FloatArray]:
        """Return a function that divides by the Hessians at some coefficients, to a relative accuracy per column."""
        chance = expit(self.X @ coef[:-1] + coef[-1])
        curvature = chance * (1.0 - chance)
        curvature[self.fold[:, None] == self.left_out[columns]] = 0.0
        typical = curvature.mean(axis=0) if len(curvature) else np.zeros(len(columns))
        curvature *= self.C * self.weight[columns]
        squares = self.X.multiply(self.X).tocsr() if sparse.issparse(self.X) else self.X**2
        extra = 1.0 + self.C * np.outer(self.missing, typical)
        diagonal = extra + np.vstack([squares.T @ curvature, curvature.sum(axis=0)])

        def times(V: FloatArray, some: IntArray) -> FloatArray:
            weighted = self.X @ V[:-1]
            weighted += V[-1]
            weighted *= curvature[:, some]
            return np.asarray(np.vstack([self.X.T @ weighted, weighted.sum(axis=0)]) + extra[:, some] * V)

        return lambda G, wanted: _conjugate_gradients(times, diagonal, G, np.maximum(wanted, self.accuracy))


def _conjugate_gradients(
    times: Callable[[FloatArray, IntArray], FloatArray], diagonal: FloatArray, G: FloatArray, accuracy: FloatArray
) -> FloatArray:
    """Solve one system per column, each until its residual is small; all columns share the products."""
    solution, residual = np.zeros_like(G), G.copy()
    goal = accuracy * np.linalg.norm(G, axis=0)
    scaled = residual / diagonal
    direction, product = scaled.copy(), _dots(residual, scaled)
    for _ in range(G.shape[0] + 10):
        some = np.flatnonzero((np.linalg.norm(residual, axis=0) > goal) & (product > 0.0))
        if not len(some):
            break
        image = times(direction[:, some], some)
        length = product[some] / _dots(direction[:, some], image)
        solution[:, some] += length * direction[:, some]
        residual[:, some] -= length * image
        scaled = residual[:, some] / diagonal[:, some]
        new = _dots(residual[:, some], scaled)
        direction[:, some] = scaled + (new / product[some]) * direction[:, some]
        product[some] = new
    return solution


def minimise(
    evaluate: Evaluate, hessian: SampleHessian, start: FloatArray, *, max_iter: int, tolerance: float = _TOLERANCE
) -> tuple[FloatArray, int]:
    """Minimise all regressions; return their coefficients and the number of passes.

    A regression leaves the passes when it is at its optimum: by default, when its coefficients are within 1e-8 of it.
    """
    coef = start.copy()
    active = np.arange(coef.shape[1])
    value, gradient = evaluate(coef, active)
    first_norm = np.maximum(np.linalg.norm(gradient, axis=0), np.finfo(float).tiny)
    pairs: list[tuple[FloatArray, FloatArray]] = []
    n_passes, n_silent = 1, np.zeros(coef.shape[1], dtype=int)
    while n_passes < max_iter:
        some = gradient[:, active]
        # Rough steps far from the optimum, exact ones near it.
        wanted = np.minimum(0.1, np.linalg.norm(some, axis=0) / first_norm[active])
        divide = hessian.at(coef[:, active], active)
        known = [(step[:, active], change[:, active]) for step, change in pairs]
        direction = -_two_loops(some, known, lambda G, w=wanted, d=divide: d(G, w))  # type: ignore[misc]
        slope = _dots(some, direction)
        n_silent[active] += -slope <= _ROUNDING * np.abs(value[active])
        open_ = (-slope > tolerance + _FINEST * np.abs(value[active])) & (n_silent[active] <= _POLISHING)
        active, direction, slope = active[open_], direction[:, open_], slope[open_]
        if not len(active):
            break
        step, change = np.zeros_like(coef), np.zeros_like(coef)
        length, waiting = 1.0, np.arange(len(active))
        for _ in range(_HALVINGS):
            columns = active[waiting]
            move = length * direction[:, waiting]
            new_value, new_gradient = evaluate(coef[:, columns] + move, columns)
            n_passes += 1
            allowed = value[columns] + _DECREASE * length * slope[waiting]
            fine = new_value <= allowed + _ROUNDING * np.abs(value[columns])
            moved = columns[fine]
            step[:, moved], change[:, moved] = move[:, fine], new_gradient[:, fine] - gradient[:, moved]
            coef[:, moved] += move[:, fine]
            value[moved], gradient[:, moved] = new_value[fine], new_gradient[:, fine]
            waiting, length = waiting[~fine], length / 2.0
            if not len(waiting):
                break
        # No step lowers the objective of what still waits: rounding is all that is left.
        active = np.delete(active, waiting)
        pairs = [*pairs, (step, change)][-_PAIRS:] if hessian.accuracy > 1e-4 else []
    return coef, n_passes


def _two_loops(
    gradient: FloatArray, pairs: list[tuple[FloatArray, FloatArray]], divide: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Divide gradients by Hessians that are corrected by what earlier steps changed (limited-memory BFGS)."""
    reduced, shares = gradient.copy(), []
    for step, change in reversed(pairs):
        curvature = _dots(step, change)
        inverse = np.where(curvature > 0.0, 1.0 / np.where(curvature > 0.0, curvature, 1.0), 0.0)
        shares.append((inverse * _dots(step, reduced), inverse))
        reduced -= shares[-1][0] * change
    result = divide(reduced)
    for (step, change), (share, inverse) in zip(pairs, reversed(shares), strict=True):
        result += step * np.where(inverse > 0.0, share - inverse * _dots(change, result), 0.0)
    if pairs:
        uphill = _dots(gradient, result) <= 0.0
        if uphill.any():
            result[:, uphill] = divide(gradient)[:, uphill]
    return result


def _dots(A: FloatArray, B: FloatArray) -> FloatArray:
    """Return the inner products of the columns."""
    return np.asarray(np.einsum("ij,ij->j", A, B))
