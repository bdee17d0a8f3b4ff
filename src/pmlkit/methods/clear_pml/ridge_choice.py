"""Which regression a fit uses: weighting of the features, kernel, penalty, and how it is solved."""

import logging
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pmlkit._typing import Features, FloatArray, IntArray
from pmlkit.blocks import RowBlocks, State
from pmlkit.methods.clear_pml.block_ridge import BlockRidge, block_ridge
from pmlkit.methods.clear_pml.dual_ridge import DualRidge, dual_of_values, dual_ridge, search_in_dual
from pmlkit.methods.clear_pml.feature_weighting import (
    FeatureMoments,
    FeatureWeighting,
    fit_weighting,
    possible_weightings,
)
from pmlkit.methods.clear_pml.landmarks import LandmarkKernel, kernel_between
from pmlkit.methods.clear_pml.loo_ridge import search_on_landmarks
from pmlkit.methods.clear_pml.many_labels import MANY_LABELS
from pmlkit.methods.clear_pml.primal_ridge import LinearKernel, PrimalRidge, primal_ridge
from pmlkit.methods.clear_pml.survey import Survey, candidate_table, chosen_rows
from pmlkit.methods.clear_pml.word_ridge import PENALTY, WordRidge, word_ridge

__all__ = ["LANDMARKS", "RidgeChoice", "choose_ridge", "solves_all_rows"]

logger = logging.getLogger(__name__)

LANDMARKS = 1000
"""How many there are by default; they cannot hold what rows with more features than that say."""

_ROWS_TO_COMPARE, _ROWS_TO_TRY = 250, 500  # whose errors decide on the weights of features, and on the penalty
_ALL_ROWS = 2_500  # up to which all are landmarks: no slower than with 1,000 of them
_ALL_ROWS_OF_TEXT = 8_000  # the same; beyond, wide text is solved by columns:
_FEWEST_COLUMNS, _MOST_COLUMNS = 5_000, 10_000  # between them, as many as have
_CUBE_PER_CELL = 5_000.0  # d^3 below this many times the products of a linear model,
_CELLS_PER_ROW = 20.0  # whose rows cost as much as so many cells
_MOSTLY_DIFFERENT = 0.8  # share of different rows from which solving with all of them is faster
_ROWS_IN_DOUBLE = 1_600  # solved with all of them as landmarks
_CELLS_IN_DOUBLE = 50_000_000  # of the kernel, beyond which it is kept in single precision
_CELLS = 400_000_000  # of the kernel; with more rows there are fewer landmarks


@dataclass(frozen=True)
class RidgeChoice:
    """A regression for the rows with cells.

    - `kernel`: None where the regression on words has its own.
    """

    weighting: FeatureWeighting
    kernel: LandmarkKernel | LinearKernel | None
    ridge: BlockRidge | DualRidge | PrimalRidge | WordRidge
    penalty: float


def solves_all_rows(survey: Survey, rows: RowBlocks, n_landmarks: int | Literal["auto"]) -> bool:
    """Return whether more rows than usual are landmarks, all of them, solved in one place."""
    if n_landmarks != "auto" or rows.n_labels > MANY_LABELS:
        return False
    if _is_wide_text(survey.moments, n_landmarks):
        return rows.n_rows <= _ALL_ROWS_OF_TEXT
    # Rows without candidates join the regression on landmarks, and not this one.
    return LANDMARKS < rows.n_rows == sum(survey.n_used) <= _ALL_ROWS


def choose_ridge(
    rows: RowBlocks,
    used: State,
    cells: State,
    survey: Survey,
    *,
    n_landmarks: int | Literal["auto"],
    exact: bool,
) -> RidgeChoice:
    """Choose weighting and penalty by leave-one-out errors, and solve the regression.

    - `used`, `cells`: features of the rows with cells, and `Cells`;
    - `exact`: whether all rows are landmarks, see `solves_all_rows`.
    """
    trial = chosen_rows(survey.labelled, _ROWS_TO_TRY)
    trial_X = rows.take_rows(rows.X, trial)
    table = rows.engine.map(candidate_table, cells, keep=False)
    targets = rows.take_rows(table, trial).toarray()
    weighting, start = _choose_weighting(survey.moments, trial_X, targets)
    n_used, many = sum(survey.n_used), rows.n_labels > MANY_LABELS
    is_wide_text = _is_wide_text(survey.moments, n_landmarks)
    if many and is_wide_text:
        words = word_ridge(rows.engine, used, cells, weighting, n_cells=survey.moments.n_nonzero)
        return RidgeChoice(weighting, None, words, PENALTY)
    if not exact and is_wide_text:
        columns = LinearKernel(_frequent_columns(survey.moments, rows.n_labels))
        by_columns, penalty = primal_ridge(
            rows.engine, used, cells, weighting, columns,
            n_rows=n_used, n_cells=survey.moments.n_nonzero, trial=(trial_X, targets), start=start,
        )  # fmt: skip
        return RidgeChoice(weighting, columns, by_columns, penalty)
    most = min(LANDMARKS if n_landmarks == "auto" else n_landmarks, max(100, _CELLS // n_used))
    chosen = chosen_rows(survey.everywhere, most)
    linear = possible_weightings(survey.moments)[0] != "standard"
    kernel, own = kernel_between(weighting.transform(rows.take_rows(rows.X, chosen)), linear=linear)
    # All different rows are landmarks already, and all rows would span the same functions.
    complete = n_used == rows.n_rows <= most
    if complete and not many and len(rows.sizes) == 1 and len(chosen) > _MOSTLY_DIFFERENT * n_used:
        if len(chosen) < n_used:
            kernel = replace(kernel, landmarks=weighting.transform(rows.X.compute()))
            own = kernel(kernel.landmarks)
        (everything,) = table
        penalty, _ = search_in_dual(own, everything.toarray(), trial, start=start)
        return RidgeChoice(weighting, kernel, dual_of_values(own, penalty), penalty)
    if exact and not complete and kernel.landmarks.shape[0] < n_used and (is_wide_text or len(chosen) == most):
        return _solve_with_all_rows(rows, used, cells, weighting, kernel, own, chosen=chosen, trial=trial, start=start)
    ridge, penalty = block_ridge(
        rows.engine,
        used,
        cells,
        weighting,
        kernel,
        n_rows=n_used,
        n_labels=rows.n_labels,
        dtype=np.float32 if n_used * kernel.landmarks.shape[0] > _CELLS_IN_DOUBLE else np.float64,
        own=own,
        trial=(kernel(weighting.transform(trial_X)), targets),
        start=start,
    )
    return RidgeChoice(weighting, kernel, ridge, penalty)


def _solve_with_all_rows(
    rows: RowBlocks,
    used: State,
    cells: State,
    weighting: FeatureWeighting,
    kernel: LandmarkKernel,
    own: FloatArray,
    *,
    chosen: IntArray,
    trial: IntArray,
    start: float,
) -> RidgeChoice:
    """Choose the penalty with fewer landmarks (text) or fewer rows, and solve with all rows as landmarks."""
    (of_rows,) = cells
    table = of_rows.sparse_values(of_rows.candidate.astype(np.float64))
    features = weighting.transform(used.compute())
    if kernel.linear:
        trial = np.searchsorted(np.flatnonzero(of_rows.used), trial)
        penalty, _ = search_on_landmarks(kernel, own, features, table, trial, start=start)
    else:
        penalty, _ = search_in_dual(own, table[chosen].toarray(), np.searchsorted(chosen, trial), start=start)
    dtype = np.float32 if features.shape[0] > _ROWS_IN_DOUBLE else np.float64
    kernel = replace(kernel, landmarks=features)
    return RidgeChoice(weighting, kernel, dual_ridge(kernel, penalty, dtype=dtype), penalty)


def _choose_weighting(
    moments: FeatureMoments, trial_X: Features, targets: FloatArray
) -> tuple[FeatureWeighting, float]:
    """Return the weighting with the smallest leave-one-out error of a few rows, and its penalty."""
    weightings = possible_weightings(moments)
    few = np.arange(0, len(targets), -(-len(targets) // _ROWS_TO_COMPARE))
    trials: list[tuple[FeatureWeighting, float, float]] = []
    for kind in weightings:
        weighting = fit_weighting(moments, kind)
        _, values = kernel_between(weighting.transform(trial_X[few]), linear=weightings[0] != "standard")
        trials.append((weighting, *search_in_dual(values, targets[few])))
    logger.info("Leave-one-out errors of the weightings: %s", {found[0].weighting: found[-1] for found in trials})
    weighting, penalty, _ = min(trials, key=lambda found: found[-1])
    return weighting, penalty


def _is_wide_text(moments: FeatureMoments, n_landmarks: int | Literal["auto"]) -> bool:
    is_wide = len(moments.n_with) >= LANDMARKS and possible_weightings(moments)[0] != "standard"
    return n_landmarks == "auto" and is_wide


def _frequent_columns(moments: FeatureMoments, n_labels: int) -> IntArray:
    """Return the columns in most rows first: as many as can be solved in the time of linear models of all labels."""
    n_products = (moments.n_nonzero + _CELLS_PER_ROW * moments.n_rows) * n_labels
    affordable = int(float(_CUBE_PER_CELL * n_products) ** (1.0 / 3.0))
    order = np.argsort(-moments.n_with, kind="stable")[: max(_FEWEST_COLUMNS, min(affordable, _MOST_COLUMNS))]
    return np.asarray(order[moments.n_with[order] > 0])
