"""The first pass over the data, and which regression a fit uses by it.

The pass finds counts, moments of the features, label pairs, and samples of rows by their content. The choice is that of
the weighting of the features, of kernel and penalty, and of how the regression is solved.
"""

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy import sparse

from pmlkit._typing import CSR, Features, FloatArray, IntArray
from pmlkit.blocks import RowBlocks, State
from pmlkit.exceptions import PMLWarning
from pmlkit.methods.clear_pml.block_ridge import BlockRidge, block_ridge
from pmlkit.methods.clear_pml.cells import Cells
from pmlkit.methods.clear_pml.dual_ridge import DualRidge, dual_of_values, dual_ridge, search_in_dual
from pmlkit.methods.clear_pml.feature_weighting import (
    FeatureMoments,
    FeatureWeighting,
    feature_moments,
    fit_weighting,
    possible_weightings,
)
from pmlkit.methods.clear_pml.landmarks import (
    HashSample,
    LandmarkKernel,
    kernel_between,
    merge_smallest,
    smallest_hashes,
)
from pmlkit.methods.clear_pml.loo_ridge import search_on_landmarks
from pmlkit.methods.clear_pml.many_labels import MANY_LABELS
from pmlkit.methods.clear_pml.primal_ridge import LinearKernel, PrimalRidge, primal_ridge
from pmlkit.methods.clear_pml.word_ridge import PENALTY, WordRidge, word_ridge

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

_TWINS, _ROWS_OF_TWINS = 0.95, 20  # Jaccard index of two labels, and candidates of each, above which they are told
_TWINS_NAMED = 3  # pairs


@dataclass(frozen=True)
class Survey:
    """What is known after the first pass.

    - `pairs` (n_labels, n_labels): on how many rows two labels meet; the labels' counts on the diagonal;
    - `everywhere`, `labelled`: the rows with the smallest hashes, of all rows and of those with cells;
    - `n_used`: rows with cells, of each block;
    - `n_given_rows`, `n_candidates`, `n_answers`: rows with given candidates, candidates after the answers, and
      answers.
    """

    moments: FeatureMoments
    pairs: CSR
    everywhere: HashSample
    labelled: HashSample
    n_used: list[int]
    n_given_rows: int
    n_candidates: int
    n_answers: int

    def packed(self) -> dict[str, Any]:
        """Return plain arrays and numbers, as engines send and store them."""
        moments = self.moments
        return {
            "moments": (moments.n_rows, moments.n_with, moments.mean, moments.variance),
            "pairs": self.pairs,
            "everywhere": self.everywhere,
            "labelled": self.labelled,
            "counts": (self.n_used, self.n_given_rows, self.n_candidates, self.n_answers),
        }

    @classmethod
    def of(cls, packed: dict[str, Any]) -> "Survey":
        """Return the survey of `packed`."""
        moments = FeatureMoments(*packed["moments"])
        return cls(moments, packed["pairs"], packed["everywhere"], packed["labelled"], *packed["counts"])


def survey_block(X: Features, Y: CSR, cells: Cells, first: int, *, size: int) -> dict[str, Any]:
    """Survey one block; `size` rows of the smallest hashes are kept."""
    everywhere = smallest_hashes(X, size)
    labelled = everywhere if cells.used.all() else smallest_hashes(X[cells.used], size)
    numbers = np.flatnonzero(cells.used)
    answered = cells.right | cells.wrong
    return Survey(
        feature_moments(X),
        sparse.csr_array(Y.T @ Y),
        (everywhere[0], everywhere[1] + first),
        (labelled[0], numbers[labelled[1]] + first),
        [cells.n_rows],
        int((np.diff(Y.indptr) > 0).sum()),
        int(cells.candidate.sum()),
        int(answered.sum()),
    ).packed() | {"size": size}


def merge_surveys(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return the survey of two groups of blocks together."""
    a, b, size = Survey.of(first), Survey.of(second), first["size"]
    return Survey(
        a.moments.merged(b.moments),
        a.pairs + b.pairs,
        merge_smallest(a.everywhere, b.everywhere, size),
        merge_smallest(a.labelled, b.labelled, size),
        a.n_used + b.n_used,
        a.n_given_rows + b.n_given_rows,
        a.n_candidates + b.n_candidates,
        a.n_answers + b.n_answers,
    ).packed() | {"size": size}


def candidate_table(cells: Cells) -> CSR:
    """Return the candidates of all rows of a block."""
    everywhere = cells.of_all_rows()
    return everywhere.sparse_values(everywhere.candidate.astype(np.float64))


def chosen_rows(sample: HashSample, size: int) -> IntArray:
    """Return the rows with the smallest hashes, in their order in the data."""
    return np.sort(sample[1][:size])


def twin_labels(pairs: CSR, n_rows: int) -> list[tuple[int, int]]:
    """Return the pairs of labels with nearly the same candidates."""
    count = pairs.diagonal()
    meet = sparse.coo_array(pairs)
    first, second = meet.coords
    usual = (count > _ROWS_OF_TWINS) & (count < _TWINS * n_rows)
    twins = (first < second) & usual[first] & usual[second]
    twins &= meet.data > _TWINS * (count[first] + count[second] - meet.data)
    return sorted(zip(first[twins].tolist(), second[twins].tolist(), strict=True))


def warn_of_twin_labels(twins: list[tuple[int, int]], names: Sequence[Any]) -> None:
    """Warn of labels that cannot be distinguished by the data."""
    if twins:
        told = [f"{str(names[a])!r} and {str(names[b])!r}" for a, b in twins[:_TWINS_NAMED]]
        more = f" and {len(twins) - len(told)} more pairs" if len(twins) > len(told) else ""
        warnings.warn(
            f"Labels have nearly the same candidates: {', '.join(told)}{more}. The data cannot tell which of the two a "
            "row has: merge them, or do not trust their difference.",
            PMLWarning,
            stacklevel=3,
        )


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
