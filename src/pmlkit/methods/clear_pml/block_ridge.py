r"""Ridge regression on landmarks over row blocks: kernel moments, the factor, leverages, and passes over the rows.

Blocks keep their rows of the design (see `pmlkit.methods.clear_pml.loo_ridge`) where memory allows. Where it does not,
kernel rows are computed again in each pass, and coefficients of the kernel take the place of those of the design.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy import linalg, sparse

from pmlkit._typing import Features, FloatArray, IntArray
from pmlkit.blocks import Engine, LocalEngine, State
from pmlkit.methods.clear_pml.cells import Cells
from pmlkit.methods.clear_pml.feature_weighting import FeatureWeighting
from pmlkit.methods.clear_pml.landmarks import LandmarkKernel, row_blocks
from pmlkit.methods.clear_pml.loo_ridge import LARGEST_LEVERAGE, forward, search_penalty

_DENSE = 0.05  # share of cells from which a dense product is faster

Moments = tuple[int, FloatArray, FloatArray]
"""Rows, the mean of their kernel rows, and the sum of outer products about the mean."""


@dataclass(frozen=True)
class RowSource:
    """How passes get at the rows of a block: kept ones as they are, or kernel rows about the mean.

    - `weighting`, `kernel`, `mean`: of kernel rows.
    """

    kept: bool
    weighting: FeatureWeighting
    kernel: LandmarkKernel
    mean: FloatArray | None = None

    def rows(self, source: Any, some: Any = None, *, width: int = 1) -> Iterator[tuple[slice, FloatArray]]:
        """Yield slices of the rows (of some rows) and the rows themselves."""
        source = source if some is None else source[some]
        m = self.kernel.landmarks.shape[0]
        if self.kept:
            for rows in row_blocks(source.shape[0], max(m, width)):
                yield rows, source[rows]
            return
        for rows, block in self.kernel_rows(source, width=width):
            if self.mean is not None:
                block -= self.mean
            yield rows, block

    def kernel_rows(self, X: Features, *, width: int = 1) -> Iterator[tuple[slice, FloatArray]]:
        """Yield slices of rows and their kernel rows; neither these nor weighted features take much memory."""
        n_landmarks, n_features = self.kernel.landmarks.shape
        is_dense = not sparse.issparse(X) or self.weighting.shift.any()
        for rows in row_blocks(X.shape[0], max(n_landmarks, width, n_features if is_dense else 1)):
            yield rows, self.kernel(self.weighting.transform(X[rows]))


@dataclass(frozen=True)
class BlockRidge:
    """Ridge regression of any targets on the rows of all blocks.

    - `source`: rows of the design where `rows` says that they are kept, otherwise features;
    - `cells`: `Cells` of the rows;
    - `factor` (n_landmarks, n_landmarks): the lower triangular factor of the penalised moments; design rows are
      solutions with it;
    - `mean` (n_landmarks,): of the kernel rows.
    """

    engine: Engine
    source: State
    leverage: State
    cells: State
    rows: RowSource
    factor: FloatArray
    mean: FloatArray
    n_rows: int
    n_labels: int
    dtype: DTypeLike

    def fit(self, target: State) -> tuple[FloatArray, FloatArray]:
        """Return the targets' means and the coefficients of the design's columns."""
        total, moments = self.engine.reduce(target_moments, self.source, self.cells, target, rows=self.rows)
        return total / self.n_rows, moments if self.rows.kept else forward(self.factor, moments)

    def weights(self, model: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Return means and coefficients for the rows that passes see."""
        if self.rows.kept:
            return model[0].astype(self.dtype), model[1].astype(self.dtype)
        return model[0], self.dual(model)

    def dual(self, model: tuple[FloatArray, FloatArray]) -> FloatArray:
        """Return the coefficients of the kernel."""
        coef = model[1].astype(np.float64)
        return np.asarray(linalg.solve_triangular(self.factor, coef, trans="T", lower=True, check_finite=False))

    def on_kernel(self, model: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Return intercepts and coefficients for the kernel with the landmarks itself."""
        dual = self.dual(model)
        return model[0] - self.mean @ dual, dual


def loo_scores(
    block: FloatArray, target: FloatArray, leverage: FloatArray, weights: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """Return the score of each row by the model fitted to all other rows."""
    fitted = block @ weights[1] + weights[0]
    keep = (1.0 / (1.0 - leverage)).astype(block.dtype)[:, None]
    return np.asarray(target - (target - fitted) * keep)


def block_ridge(
    engine: Engine,
    X: State,
    cells: State,
    weighting: FeatureWeighting,
    kernel: LandmarkKernel,
    *,
    n_rows: int,
    n_labels: int,
    dtype: DTypeLike,
    penalty: float | None = None,
    own: FloatArray | None = None,
    trial: tuple[FloatArray, FloatArray] | None = None,
    start: float = 3.0,
) -> tuple[BlockRidge, float]:
    """Compute the kernel moments, choose the penalty, and return the regression and its penalty.

    - `engine`, `X`, `cells`: features and `Cells` of the rows;
    - `weighting`, `kernel`: from features to kernel rows;
    - `n_rows`, `n_labels`: of all blocks;
    - `dtype`: of rows that are kept; all sums are float64;
    - `penalty`: where given, it is not searched for;
    - `own` (n_landmarks, n_landmarks): the kernel between the landmarks where it is known;
    - `trial`: rows whose leave-one-out errors decide on the penalty;
    - `start`: where the search begins.
    """
    own = kernel_between_landmarks(kernel, own)
    kept = engine.keeps(n_rows * len(own) * np.dtype(dtype).itemsize)
    rows = RowSource(kept, weighting, kernel)
    values: State | None = None
    if kept:
        values, moments = engine.map_reduce(kernel_rows, X, combine=merge_moments, rows=rows, dtype=np.dtype(dtype))
    else:
        moments = engine.reduce(kernel_moments, X, combine=merge_moments, rows=rows)
    _, mean, gram = moments
    rows = RowSource(kept, weighting, kernel, mean)

    @cache
    def factor_at(strength: float) -> FloatArray:
        return np.asarray(linalg.cholesky(gram + strength * own, lower=True, overwrite_a=True, check_finite=False))

    if penalty is None:
        assert trial is not None
        given = engine.map(candidate_values, cells)
        source = X if values is None else values
        total, products = engine.reduce(target_moments, source, cells, given, rows=rows, whole_mean=mean)
        target_mean = total / n_rows
        some = (trial[0] - mean).T
        penalty, _ = search_penalty(factor_at, products, some, trial[1] - target_mean, n_rows, start=start)
    factor = factor_at(penalty)
    if values is not None:
        in_place = isinstance(engine, LocalEngine) and engine.memory_budget is None
        solved = engine.map(design_rows, values, factor=factor, mean=mean, n_rows=n_rows, in_place=in_place)
        del values
        source, leverage = engine.map(_item, solved, place=0, keep=False), engine.map(_item, solved, place=1)
    else:
        source, leverage = X, engine.map(leverages, X, rows=rows, factor=factor, n_rows=n_rows)
    return BlockRidge(engine, source, leverage, cells, rows, factor, mean, n_rows, n_labels, dtype), penalty


def kernel_between_landmarks(kernel: LandmarkKernel, known: FloatArray | None = None) -> FloatArray:
    """Return the kernel between the landmarks, safely positive definite."""
    own = kernel(kernel.landmarks) if known is None else known.copy()
    # A row's kernel with itself is 1 or 2: this is far below anything that rows could show.
    own[np.diag_indices_from(own)] += 1e-9 * len(own)
    return own


def kernel_rows(X: Features, *, rows: RowSource, dtype: Any) -> tuple[tuple[FloatArray, FloatArray], Moments]:
    """Return a block's kernel rows about their own mean with that mean, and their moments."""
    values = np.empty((X.shape[0], rows.kernel.landmarks.shape[0]), dtype=dtype)
    total = np.zeros(values.shape[1])
    for some, block in rows.kernel_rows(X):
        total += block.sum(axis=0)
        values[some] = block
    mean = total / max(len(values), 1)
    gram = np.zeros((len(mean), len(mean)))
    for some in row_blocks(*values.shape):
        block = values[some] - mean
        gram += block.T @ block
        values[some] = block
    return (values, mean), (len(values), mean, gram)


def kernel_moments(X: Features, *, rows: RowSource) -> Moments:
    """Return the moments of a block's kernel rows, which are not kept."""
    m = rows.kernel.landmarks.shape[0]
    found: Moments = 0, np.zeros(m), np.zeros((m, m))
    for _, block in rows.kernel_rows(X):
        mean = block.mean(axis=0)
        block -= mean
        found = merge_moments(found, (len(block), mean, block.T @ block))
    return found


def merge_moments(first: Moments, second: Moments) -> Moments:
    """Return the moments of two groups of rows together."""
    n = first[0] + second[0]
    if not (first[0] and second[0]):
        return first if first[0] else second
    shift = second[1] - first[1]
    between = np.outer(shift, shift) * (first[0] * second[0] / n)
    return n, first[1] + shift * (second[0] / n), first[2] + second[2] + between


def design_rows(
    kernel_and_mean: tuple[FloatArray, FloatArray], *, factor: FloatArray, mean: FloatArray, n_rows: int, in_place: bool
) -> tuple[FloatArray, FloatArray]:
    """Return a block's rows of the design, and their leverages."""
    values, own_mean = kernel_and_mean
    design = values if in_place else np.empty_like(values)
    leverage = np.empty(len(values))
    for some in row_blocks(*values.shape):
        block = forward(factor, (values[some] + (own_mean - mean)).T, in_place=True).T
        leverage[some] = np.einsum("ij,ij->i", block, block)
        design[some] = block
    leverage += 1.0 / n_rows
    return design, np.minimum(leverage, LARGEST_LEVERAGE)


def leverages(X: Features, *, rows: RowSource, factor: FloatArray, n_rows: int) -> FloatArray:
    """Return the leverages of a block's rows, whose design is not kept."""
    leverage = np.empty(X.shape[0])
    for some, block in rows.rows(X):
        design = forward(factor, block.T)
        leverage[some] = np.einsum("ji,ji->i", design, design)
    return np.minimum(leverage + 1.0 / n_rows, LARGEST_LEVERAGE)


def target_moments(
    source: Any, cells: Cells, target: FloatArray, *, rows: RowSource, whole_mean: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the sums of a block's targets, and their products with its rows.

    - `target`: at the cells;
    - `whole_mean`: of all kernel rows, where the source is a block's kernel rows about their own mean.
    """
    own_mean = None
    if isinstance(source, tuple):
        source, own_mean = source
    table = cells.sparse_values(target)
    n_labels = table.shape[1]
    is_dense = table.nnz > _DENSE * table.shape[0] * n_labels
    total = np.asarray(table.sum(axis=0, dtype=np.float64)).ravel()
    products: FloatArray = np.zeros((rows.kernel.landmarks.shape[0], n_labels))
    for some, block in rows.rows(source, width=n_labels if is_dense else 1):
        if is_dense:
            products += block.T @ cells.dense(target, some).astype(block.dtype, copy=False)
        else:
            products += (table[some].astype(block.dtype).T @ block).T
    if own_mean is not None and whole_mean is not None:
        products += np.outer(own_mean - whole_mean, total)
    return total, products


def candidate_values(cells: Cells) -> FloatArray:
    """Return one at the candidates."""
    return cells.candidate.astype(np.float64)


def sample_rows(cells: Cells, first: int, step: int) -> IntArray:
    """Return which rows of a block belong to the sample: every step-th of all rows, wherever blocks begin."""
    return np.arange((-first) % step, cells.n_rows, step)


def sample_scores(
    source: Any,
    leverage: FloatArray,
    cells: Cells,
    target: FloatArray,
    first: int,
    *,
    rows: RowSource,
    weights: tuple[FloatArray, FloatArray],
    step: int,
) -> FloatArray:
    """Return leave-one-out scores of a block's sample rows."""
    chosen = sample_rows(cells, first, step)
    table = cells.sparse_values(target)
    if step > 1:
        source, leverage, table = source[chosen], leverage[chosen], table[chosen]
    scores = np.empty(table.shape, dtype=weights[1].dtype)
    for some, block in rows.rows(source, width=table.shape[1]):
        part = table[some].toarray().astype(scores.dtype, copy=False)
        scores[some] = loo_scores(block, part, leverage[some], weights)
    return scores


def all_scores(
    source: Any,
    leverage: FloatArray,
    cells: Cells,
    target: FloatArray,
    known: FloatArray | None,
    *,
    rows: RowSource,
    weights: tuple[FloatArray, FloatArray],
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield slices of a block's rows and their leave-one-out scores: the known ones, or computed again."""
    if known is not None:
        for some, _ in cells.slices(known.shape[1]):
            yield some, known[some]
        return
    for some, block in rows.rows(source, width=cells.pattern.shape[1]):
        yield (
            some,
            loo_scores(block, cells.dense(target, some).astype(block.dtype, copy=False), leverage[some], weights),
        )


def _item(pair: tuple[Any, Any], *, place: int) -> Any:
    return pair[place]
