r"""The confidence steps of PML-LFC: update P for a fixed W.

.. math::

    \min_{P \ge 0} \; \|XW - P\|^2 + \beta \|H \circ (A - PP^T)\|^2 + \lambda \|P 1 - 1\|^2

with P zero off the candidates and H leaving out the diagonal. Confidences are held as the ``data``
of a CSR array with the candidates' pattern. A row of weight w counts as w equal rows.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from pmlkit._typing import CSR, FloatArray
from pmlkit.methods.pml_lfc.label_pairs import MANY_LABELS, LabelPairs
from pmlkit.methods.pml_lfc.similarity import RowSimilarity
from pmlkit.numerics.products import cells_of_product, transposed_product
from pmlkit.numerics.prox import project_rows_to_simplex

TINY = 1e-12


@dataclass(frozen=True)
class Fitted:
    """Predictions for the training rows.

    Attributes
    ----------
    cells : array aligned with ``Y.data``
        XW on the candidates.
    norm2 : float
        The weighted squared norm of XW, all labels included.
    """

    cells: FloatArray
    norm2: float


@dataclass(frozen=True)
class ConfidenceState:
    """Confidences and quantities derived from them, each computed once.

    Attributes
    ----------
    confidence : array aligned with ``Y.data``
    similar : array aligned with ``Y.data``
        The product of the similarity with the confidences, other rows only.
    gram : array of shape (n_labels, n_labels)
        P'P, weighted; of many labels its cells at the :class:`LabelPairs`.
    row_sum, row_norm2 : arrays of shape (n_samples,)
    """

    confidence: FloatArray
    similar: FloatArray
    gram: FloatArray
    row_sum: FloatArray
    row_norm2: FloatArray


@dataclass(frozen=True)
class ConfidenceProblem:
    """The fixed parts of the objective.

    Attributes
    ----------
    Y : CSR array
        Candidates; every row has one.
    weight : array of shape (n_samples,)
    similarity : RowSimilarity
    beta : float
        Weight of the pairs.
    row_sum_weight : float
        The paper's lambda; 0 where the rows are kept on the simplex instead.
    """

    Y: CSR
    weight: FloatArray
    similarity: RowSimilarity
    beta: float
    row_sum_weight: float

    def uniform(self) -> FloatArray:
        """Return the initial confidences, equal for all candidates of a row (equation 10)."""
        sizes = np.diff(self.Y.indptr)
        return np.repeat(1.0 / sizes, sizes)

    def state(self, confidence: FloatArray) -> ConfidenceState:
        """Compute the quantities derived from the confidences."""
        starts = self.Y.indptr[:-1]
        return ConfidenceState(
            confidence,
            self.similarity.times(confidence) if self.beta else np.zeros_like(confidence),
            self._gram(confidence),
            np.add.reduceat(confidence, starts),
            np.add.reduceat(confidence**2, starts),
        )

    def value(self, state: ConfidenceState, fitted: Fitted | None) -> float:
        """Return the objective without the nuclear norm; without `fitted`, that of the pairs alone."""
        weight, cell_weight, p = self.weight, self._cell_weight, state.confidence
        # A row of weight w is w identical rows, with similarity 1 between them.
        copies = weight - 1.0
        squares = self.similarity.sum_of_squares + float(weight @ copies)
        cross = float(cell_weight @ (p * state.similar)) + float((weight * copies) @ state.row_norm2)
        quartic = float((state.gram**2).sum()) - float(weight @ state.row_norm2**2)
        value = self.beta * (squares - 2.0 * cross + quartic)
        value += self.row_sum_weight * float(weight @ (state.row_sum - 1.0) ** 2)
        if fitted is not None:
            value += fitted.norm2 - 2.0 * float(cell_weight @ (p * fitted.cells)) + float(weight @ state.row_norm2)
        return value

    def gradient_parts(self, state: ConfidenceState, fitted: Fitted | None) -> tuple[FloatArray, FloatArray]:
        """Return two non-negative parts of half the gradient: those that increase and those that decrease P.

        Their difference, decrease - increase, is half the gradient divided by the row's weight.
        """
        p = state.confidence
        own = self._by_cell(state.row_norm2) * p
        product = self._times_gram(p, state.gram) - self._cell_weight * own
        increase = np.maximum(state.similar, 0)
        decrease = np.maximum(-state.similar, 0) + np.maximum(product, 0)
        if self._has_weights:
            copies = self._cell_weight - 1.0
            increase += np.maximum(copies, 0) * p + np.maximum(-copies, 0) * own
            decrease += np.maximum(-copies, 0) * p + np.maximum(copies, 0) * own
        increase *= 2.0 * self.beta
        decrease *= 2.0 * self.beta
        increase += self.row_sum_weight
        decrease += self.row_sum_weight * self._by_cell(state.row_sum)
        if fitted is not None:
            increase += np.maximum(fitted.cells, 0)
            decrease += p + np.maximum(-fitted.cells, 0)
        return increase, decrease

    def _gram(self, p: FloatArray) -> FloatArray:
        if self._pairs is not None:
            return self._pairs.gram(p, p * self._cell_weight)
        P = self.matrix(p)
        return transposed_product(P, self.matrix(p * self._cell_weight) if self._has_weights else P)

    def _times_gram(self, p: FloatArray, gram: FloatArray) -> FloatArray:
        if self._pairs is not None:
            return self._pairs.cells(p, gram)
        return cells_of_product(self.matrix(p), gram, self.Y)

    @cached_property
    def _pairs(self) -> LabelPairs | None:
        return LabelPairs(self.Y) if self.Y.shape[1] > MANY_LABELS else None

    @cached_property
    def _cell_weight(self) -> FloatArray:
        return self._by_cell(self.weight)

    @cached_property
    def _has_weights(self) -> bool:
        return bool((self.weight != 1.0).any())

    def _by_cell(self, of_rows: FloatArray) -> FloatArray:
        return np.repeat(of_rows, np.diff(self.Y.indptr))

    def matrix(self, cells: FloatArray) -> CSR:
        """Return cells on the candidates' pattern as a matrix."""
        return sparse.csr_array((cells, self.Y.indices, self.Y.indptr), shape=self.Y.shape)


def multiplicative_step(problem: ConfidenceProblem, state: ConfidenceState, fitted: Fitted | None) -> ConfidenceState:
    r"""Multiply every confidence by :math:`\sqrt{\text{increase} / \text{decrease}}` (equation 14).

    The square root is only proved to lower the quadratic part of the objective; where the whole
    rises, the fourth root is taken, which is proved for the quartic part, and smaller powers after
    it. Zeros stay zero, so P stays on the candidates.
    """
    before = problem.value(state, fitted)
    increase, decrease = problem.gradient_parts(state, fitted)
    log_ratio = np.log((increase + TINY**2) / (decrease + TINY))
    power = 0.5
    while power > 1e-6:
        new = problem.state(state.confidence * np.exp(power * log_ratio))
        if problem.value(new, fitted) <= before:
            return new
        power /= 2.0
    return state


def projected_step(
    problem: ConfidenceProblem, state: ConfidenceState, fitted: Fitted | None, step: float
) -> tuple[ConfidenceState, float]:
    """Take a projected gradient step on the rows' simplices, with backtracking.

    Parameters
    ----------
    problem, state, fitted
    step : float
        Step size to try first, for instance twice the last one.

    Returns
    -------
    state : ConfidenceState
    step : float
        The step size used.
    """
    before = problem.value(state, fitted)
    increase, decrease = problem.gradient_parts(state, fitted)
    slope = decrease - increase
    cell_weight = np.repeat(problem.weight, np.diff(problem.Y.indptr))
    while step > 1e-300:
        moved = project_rows_to_simplex(state.confidence - step * slope, problem.Y.indptr)
        change = moved - state.confidence
        if not change.any():
            break
        new = problem.state(moved)
        model = before + 2.0 * float(cell_weight @ (slope * change)) + float(cell_weight @ change**2) / step
        if problem.value(new, fitted) <= min(model, before):
            return new, step
        step /= 2.0
    return state, step
