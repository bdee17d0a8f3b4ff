r"""Approximate ridge regression of thousands of labels on the words of sparse rows, with leave-one-out scores.

With the products of pairs of words :math:`X^\top X` replaced by their diagonal D and the largest directions V of what
is left of it in the units of :math:`\sqrt{D + \lambda}`, the coefficients are
:math:`(D + \lambda)^{-1/2} (I - V S V^\top) (D + \lambda)^{-1/2} X^\top y` with
:math:`S = \Sigma^2 / (1 + \Sigma^2)`: a sparse matrix, which has a number only where a word and a candidate meet, and
directions times labels.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg, sparse

from pmlkit._typing import CSR, Features, FloatArray
from pmlkit.blocks import Engine, State
from pmlkit.methods.clear_pml.cells import Cells
from pmlkit.methods.clear_pml.dual_ridge import LEAST_REST
from pmlkit.methods.clear_pml.feature_weighting import FeatureWeighting
from pmlkit.methods.clear_pml.landmarks import row_blocks

PENALTY = 0.3
_DIRECTIONS, _OVERSAMPLED, _PASSES = 100, 10, 3


@dataclass(frozen=True)
class WordKernel:
    """Scores of weighted rows by their words and by directions of words.

    - `squares` (n_words,): sums of squares of the columns;
    - `directions` (n_words, n_directions): in the units of the rows;
    - `shrinkage` (n_directions,);
    - `topics` (n_directions, n_labels): the products of directions and targets.
    """

    squares: FloatArray
    directions: FloatArray
    shrinkage: FloatArray
    topics: FloatArray

    def times(self, X: Features, weights: CSR) -> FloatArray:
        """Return the scores of rows by the words' coefficients."""
        rows = sparse.csr_array(X, dtype=np.float64)
        product = np.empty((rows.shape[0], weights.shape[1]))
        scale = sparse.diags_array(1.0 / (self.squares + PENALTY))
        for some in row_blocks(rows.shape[0], weights.shape[1]):
            part = rows[some]
            product[some] = (part @ scale @ weights).toarray() - (part @ self.directions * self.shrinkage) @ self.topics
        return product


@dataclass(frozen=True)
class WordRows:
    """How passes get at the leave-one-out scores of the rows of a block."""

    kernel: WordKernel

    def loo_scores(
        self, source: CSR, leverage: Any, cells: Cells, target: FloatArray, weights: tuple[FloatArray, CSR]
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Yield slices of rows and the scores that they have without their own target and their own squares."""
        topics, words = weights
        squares = self.kernel.squares
        for some in row_blocks(source.shape[0], words.shape[1]):
            rows = source[some].astype(np.float64)
            without = rows.copy()
            without.data = rows.data / (np.maximum(squares[rows.indices] - rows.data**2, 0.0) + PENALTY)
            along = rows @ self.kernel.directions
            # By Sherman and Morrison, as the row is taken out of the directions' sums of squares.
            rest = 1.0 - self.kernel.shrinkage
            taken = along * (1.0 - rest / np.maximum(1.0 - (along**2) @ rest, LEAST_REST)[:, None])
            scores = (without @ words).toarray()
            scores -= taken @ topics
            own = np.asarray(without.multiply(rows).sum(axis=1)).ravel() - np.einsum("ij,ij->i", taken, along)
            inside = slice(cells.pattern.indptr[some.start], cells.pattern.indptr[some.stop])
            number = cells.row_numbers(some)
            scores[number, cells.pattern.indices[inside]] -= own[number] * target[inside]
            yield some, scores


@dataclass(frozen=True)
class WordRidge:
    """The regression of any targets on the rows of all blocks.

    - `source`, `leverage`, `cells`: weighted rows in single precision, nothing, and `Cells`.
    """

    engine: Engine
    source: State
    leverage: State
    cells: State
    rows: WordRows

    def fit(self, target: State) -> tuple[FloatArray, CSR]:
        """Return the products of directions and targets, and those of words and targets."""
        words = self.engine.reduce(word_products, self.source, self.cells, target)
        return np.ascontiguousarray((words.T @ self.rows.kernel.directions).T), words

    def weights(self, model: tuple[FloatArray, CSR]) -> tuple[FloatArray, CSR]:
        """Return the same."""
        return model

    def kernel_of(self, model: tuple[FloatArray, CSR]) -> tuple[WordKernel, CSR]:
        """Return the kernel with the directions' products, and those of words."""
        return replace(self.rows.kernel, topics=model[0]), model[1]


def word_ridge(engine: Engine, X: State, cells: State, weighting: FeatureWeighting, *, n_cells: int) -> WordRidge:
    """Find the directions in a few passes, and return the regression.

    - `engine`, `X`, `cells`: features and `Cells` of the rows;
    - `n_cells`: about how many cells of X are not zero.
    """
    source = engine.map(weighted_words, X, keep=engine.keeps(8 * n_cells), weighting=weighting)
    squares = np.asarray(engine.reduce(word_squares, source))
    scale = 1.0 / np.sqrt(squares + PENALTY)
    width = min(_DIRECTIONS + _OVERSAMPLED, len(squares))
    basis = np.random.default_rng(0).normal(size=(len(squares), width))
    for _ in range(_PASSES):
        found = engine.reduce(direction_products, source, basis=basis, scale=scale)
        basis, _ = linalg.qr(found, mode="economic", overwrite_a=True, check_finite=False)
    found = engine.reduce(direction_products, source, basis=basis, scale=scale)
    small = basis.T @ found
    values, turn = linalg.eigh((small + small.T) / 2.0)
    kept = np.argsort(-values)[: min(_DIRECTIONS, width)]
    values = np.maximum(values[kept], 0.0)
    directions = (basis @ turn[:, kept]) * scale[:, None]
    kernel = WordKernel(squares, directions, values / (1.0 + values), np.zeros((len(kept), 0)))
    return WordRidge(engine, source, engine.of([None] * engine.n_blocks), cells, WordRows(kernel))


def weighted_words(X: Features, *, weighting: FeatureWeighting) -> CSR:
    """Return a block's weighted rows in single precision."""
    if not X.shape[0]:
        return sparse.csr_array(X.shape, dtype=np.float32)
    return sparse.csr_array(weighting.transform(X)).astype(np.float32)


def word_squares(rows: CSR) -> FloatArray:
    """Return the sums of squares of a block's columns."""
    return np.asarray(np.bincount(rows.indices, rows.data.astype(np.float64) ** 2, minlength=rows.shape[1]), np.float64)


def direction_products(rows: CSR, *, basis: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the product of a block's pairs of scaled words with a basis."""
    along = rows @ (scale[:, None] * basis)
    return np.asarray(scale[:, None] * (rows.T @ along))


def word_products(rows: CSR, cells: Cells, target: FloatArray) -> CSR:
    """Return the products of a block's words and targets."""
    return sparse.csr_array(rows.T.astype(np.float64) @ cells.sparse_values(target))
