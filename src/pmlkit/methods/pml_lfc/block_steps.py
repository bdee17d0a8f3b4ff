"""The steps of PML-LFC for rows in blocks: confidences stay with their rows, sums over the rows come to the client."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from pmlkit._typing import CSR, Features, FloatArray, IntArray
from pmlkit.blocks import State
from pmlkit.methods.fitting import LearnedBlocks
from pmlkit.methods.labelled_rows import LabelledRows, stacked_sample
from pmlkit.methods.pml_lfc.basis import Basis
from pmlkit.methods.pml_lfc.confidence_step import (
    ConfidenceProblem,
    ConfidenceState,
    Fitted,
    Steps,
    multiplied,
    projected,
)
from pmlkit.methods.pml_lfc.predictor_step import LowRankFit
from pmlkit.methods.pml_lfc.similarity import RowSimilarity
from pmlkit.methods.pml_lfc.solver import Solution
from pmlkit.numerics.kernels import EXACT_DISTANCE_ROWS, mean_distance
from pmlkit.numerics.products import as_dense, cells_of_product, transposed_product
from pmlkit.numerics.spectral import eigenpairs

_NO_SIMILARITY = RowSimilarity(np.zeros_like, 0.0, "")


@dataclass(frozen=True)
class BlockState:
    """Confidences in blocks, and what all rows make of them.

    `parts`: `ConfidenceState` of each block, without the gram. `gram` (n_labels, n_labels). `total` (n_labels,): sums
    of the confidences. `norm2`: the sum of their squares.
    """

    parts: State
    gram: FloatArray
    total: FloatArray
    norm2: float


@dataclass(frozen=True)
class BlockFitted:
    """Predictions at the candidates, in blocks, and the squared norm of all."""

    cells: State
    norm2: float


def block_basis(rows: LabelledRows, X: State, n_features: int, *, center: bool) -> tuple[Basis, FloatArray]:
    """Diagonalise X'X; return the basis and its axes."""
    mean = rows.engine.reduce(_column_sums, X) / rows.n_rows if center else np.zeros(n_features)
    eigenvalues, vectors = eigenpairs(rows.engine.reduce(_feature_gram, X, mean=mean))
    scale = eigenvalues[:, None]
    basis = Basis(
        gram=lambda M: scale * M,
        largest=float(eigenvalues.max(initial=0.0)),
        norm2=float(eigenvalues.sum()),
        coefficients=lambda M: np.ascontiguousarray((M.T @ vectors.T).T),
        mean=mean,
        eigenvalues=eigenvalues,
    )
    return basis, vectors


def sampled_distance(rows: LabelledRows, X: State, rng: np.random.Generator) -> float:
    """Return the mean distance between two rows; of many rows by the same number of them as in memory."""
    chosen = np.arange(rows.n_rows)
    if rows.n_rows > EXACT_DISTANCE_ROWS:
        chosen = np.sort(rng.choice(rows.n_rows, EXACT_DISTANCE_ROWS // 4, replace=False))
    return mean_distance(rows.take(X, chosen), np.ones(len(chosen)), rng)


class BlockSteps(Steps):
    """The steps for rows in blocks.

    `X`: scaled features. `basis`: with its axes, see `block_basis`. `intercept`: whether labels have one.
    """

    def __init__(
        self,
        rows: LabelledRows,
        X: State,
        basis: tuple[Basis, FloatArray],
        similarity: RowSimilarity,
        *,
        intercept: bool,
        row_sum: str,
        beta: float,
        row_sum_weight: float,
    ) -> None:
        super().__init__(row_sum)
        self.rows, self.X, self.similarity, self.intercept = rows, X, similarity, intercept
        self._basis, self.vectors = basis
        self.weights: dict[str, Any] = {"beta": beta, "row_sum_weight": row_sum_weight if row_sum == "penalty" else 0.0}

    @property
    def basis(self) -> Basis:
        """Coordinates of the predictor."""
        return self._basis

    def start(self) -> BlockState:
        """Return the state of the first confidences."""
        return self._state(self.rows.engine.map(_uniform, self.rows.Y))

    def _state(self, confidence: State) -> BlockState:
        engine, Y = self.rows.engine, self.rows.Y
        similar = self.similarity.times(confidence) if self.weights["beta"] else engine.map(np.zeros_like, confidence)
        gram, total, norm2 = engine.reduce(_sums, Y, confidence)
        return BlockState(engine.map(_parts, Y, confidence, similar), gram, total, norm2)

    def value(self, state: BlockState, fitted: BlockFitted | None) -> float:
        """Return the objective without the nuclear norm."""
        cells = [] if fitted is None else [fitted.cells]
        local = float(self.rows.engine.reduce(_local_value, self.rows.Y, state.parts, *cells, **self.weights))
        pairs = self.similarity.sum_of_squares + float((state.gram**2).sum())
        return local + float(self.weights["beta"]) * pairs + (0.0 if fitted is None else fitted.norm2)

    def _gradient(self, state: BlockState, fitted: BlockFitted | None) -> State:
        cells = [] if fitted is None else [fitted.cells]
        return self.rows.engine.map(_gradient, self.rows.Y, state.parts, *cells, gram=state.gram, **self.weights)

    def _multiplied(self, state: BlockState, gradient: State, power: float) -> State:
        return self.rows.engine.map(multiplied, state.parts, gradient, power=power)

    def _projected(self, state: BlockState, gradient: State, step: float) -> State:
        return self.rows.engine.map(projected, self.rows.Y, state.parts, gradient, step=step)

    def _change(self, state: BlockState, gradient: State, moved: State) -> tuple[int, float, float]:
        found: tuple[int, float, float] = self.rows.engine.reduce(_change, state.parts, gradient, moved)
        return found

    def mean_confidence(self, state: BlockState) -> FloatArray:
        """Return the mean confidence per label if there is an intercept, else zeros."""
        return state.total / self.rows.n_rows if self.intercept else np.zeros_like(state.total)

    def target(self, state: BlockState) -> tuple[FloatArray, float]:
        """Return the confidences, projected on the basis, and the squared norm of what the linear part fits."""
        plain = self.rows.engine.reduce(_correlation, self.X, self.rows.Y, state.parts, mean=self.basis.mean)
        mean = self.mean_confidence(state)
        return np.ascontiguousarray((plain.T @ self.vectors).T), state.norm2 - self.rows.n_rows * float(mean @ mean)

    def fitted(self, low_rank: LowRankFit, state: BlockState) -> BlockFitted:
        """Return the predictions for the training rows."""
        mean = self.mean_confidence(state)
        norm2 = float(np.vdot(low_rank.solution, self.basis.gram(low_rank.solution)))
        coef, intercept = self.coefficients(low_rank, state)
        cells = self.rows.engine.map(_fitted_cells, self.X, self.rows.Y, coef=coef, intercept=intercept)
        return BlockFitted(cells, norm2 + self.rows.n_rows * float(mean @ mean))

    def learned(self, solution: Solution, n_scores: int) -> LearnedBlocks:
        """Return what was learned; the threshold is chosen on about so many scores, of rows that are evenly spread."""
        engine, n_rows = self.rows.engine, self.rows.n_rows
        coef, intercept = self.coefficients(solution.low_rank, solution.state)
        linear: dict[str, Any] = {"coef": coef, "intercept": intercept}
        confidence = engine.map(_confidence, solution.state.parts)
        n_sampled = min(n_rows, max(1, n_scores // len(intercept)))
        sampled = np.linspace(0, n_rows - 1, n_sampled).astype(np.intp)
        parts = engine.reduce(
            _linear_sample, self.X, self.rows.Y, confidence, self.rows.first_rows, rows=sampled, **linear
        )
        return LearnedBlocks(
            confidence,
            scores=engine.map(_linear_scores, self.X, keep=False, **linear),
            sample=stacked_sample(parts),
            objective=solution.objective,
            n_iter=solution.n_iter,
        )


def _problem(Y: CSR, beta: float, row_sum_weight: float) -> ConfidenceProblem:
    return ConfidenceProblem(Y, np.ones(Y.shape[0]), _NO_SIMILARITY, beta, row_sum_weight)


def _column_sums(X: Features) -> FloatArray:
    return np.asarray(X.sum(axis=0)).ravel()


def _feature_gram(X: Features, *, mean: FloatArray) -> FloatArray:
    if not sparse.issparse(X):
        centred = X - mean
        return np.asarray(centred.T @ centred)
    between = np.outer(mean, _column_sums(X) - 0.5 * X.shape[0] * mean)
    return as_dense(X.T @ X) - between - between.T


def _uniform(Y: CSR) -> FloatArray:
    sizes = np.diff(Y.indptr)
    return np.repeat(1.0 / sizes, sizes)


def _sums(Y: CSR, confidence: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    P = sparse.csr_array((confidence, Y.indices, Y.indptr), shape=Y.shape)
    total: Any = np.bincount(Y.indices, weights=confidence, minlength=Y.shape[1])
    return transposed_product(P, P), total, float(confidence @ confidence)


def _parts(Y: CSR, confidence: FloatArray, similar: FloatArray) -> ConfidenceState:
    row = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    sums: Any = [np.bincount(row, weights=values, minlength=Y.shape[0]) for values in (confidence, confidence**2)]
    return ConfidenceState(confidence, similar, np.zeros((0, 0)), *sums)


def _local_value(
    Y: CSR, state: ConfidenceState, fitted: FloatArray | None = None, *, beta: float, row_sum_weight: float
) -> float:
    """Return a block's part of the objective: all of it but the squares of the similarity, the gram and XW."""
    return _problem(Y, beta, row_sum_weight).value(state, None if fitted is None else Fitted(fitted, 0.0))


def _gradient(
    Y: CSR,
    state: ConfidenceState,
    fitted: FloatArray | None = None,
    *,
    gram: FloatArray,
    beta: float,
    row_sum_weight: float,
) -> tuple[FloatArray, FloatArray]:
    whole = ConfidenceState(state.confidence, state.similar, gram, state.row_sum, state.row_norm2)
    found = None if fitted is None else Fitted(fitted, 0.0)
    return _problem(Y, beta, row_sum_weight).gradient_parts(whole, found)


def _change(
    state: ConfidenceState, gradient: tuple[FloatArray, FloatArray], moved: FloatArray
) -> tuple[int, float, float]:
    change = moved - state.confidence
    return int(np.count_nonzero(change)), float((gradient[1] - gradient[0]) @ change), float(change @ change)


def _correlation(X: Features, Y: CSR, state: ConfidenceState, *, mean: FloatArray) -> FloatArray:
    P = sparse.csr_array((state.confidence, Y.indices, Y.indptr), shape=Y.shape)
    if not sparse.issparse(X):
        return transposed_product(X - mean, P)
    return np.asarray(transposed_product(X, P) - np.outer(mean, np.asarray(P.sum(axis=0)).ravel()))


def _fitted_cells(X: Features, Y: CSR, *, coef: FloatArray, intercept: FloatArray) -> FloatArray:
    return np.asarray(cells_of_product(X, coef, Y) + intercept[Y.indices])


def _confidence(state: ConfidenceState) -> FloatArray:
    return state.confidence


def _linear_sample(
    X: Features, Y: CSR, confidence: FloatArray, first: int, *, coef: FloatArray, intercept: FloatArray, rows: IntArray
) -> list[Any]:
    """Return scores, candidates and confidences of a block's rows among some rows."""
    some = rows[(rows >= first) & (rows < first + X.shape[0])] - first
    table = sparse.csr_array((confidence, Y.indices, Y.indptr), shape=Y.shape)
    return [(np.asarray(X[some] @ coef + intercept), Y[some], table[some].data)]


def _linear_scores(X: Features, *, coef: FloatArray, intercept: FloatArray) -> FloatArray:
    return np.asarray(X @ coef + intercept)
