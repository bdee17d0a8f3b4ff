r"""The confidence steps of PML-LFC: improve P while W stays.

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
from pmlkit.methods.pml_lfc.similarity import RowSimilarity
from pmlkit.numerics.products import cells_of_product, transposed_product
from pmlkit.numerics.prox import project_rows_to_simplex

__all__ = ["ConfidenceProblem", "ConfidenceState", "Fitted", "multiplicative_step", "projected_step"]

_TINY = 1e-12


@dataclass(frozen=True)
class Fitted:
    """What the predictor says of the training rows.

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
    """Confidences and what follows from them, so that nothing is computed twice.

    Attributes
    ----------
    confidence : array aligned with ``Y.data``
    similar : array aligned with ``Y.data``
        The product of the similarity with the confidences, other rows only.
    gram : array of shape (n_labels, n_labels)
        P'P, weighted.
    row_sum, row_norm2 : arrays of shape (n_rows,)
    """

    confidence: FloatArray
    similar: FloatArray
    gram: FloatArray
    row_sum: FloatArray
    row_norm2: FloatArray


@dataclass(frozen=True)
class ConfidenceProblem:
    """The parts of the objective that do not change.

    Attributes
    ----------
    Y : CSR array
        Candidates; every row has one.
    weight : array of shape (n_rows,)
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
        """Return the start: every candidate of a row alike (equation 10)."""
        sizes = np.diff(self.Y.indptr)
        return np.repeat(1.0 / sizes, sizes)

    def state(self, confidence: FloatArray) -> ConfidenceState:
        """Compute what follows from the confidences."""
        P = self.matrix(confidence)
        starts = self.Y.indptr[:-1]
        return ConfidenceState(
            confidence,
            self.similarity.times(confidence) if self.beta else np.zeros_like(confidence),
            transposed_product(P, self.matrix(confidence * self._cell_weight) if self._has_weights else P),
            np.add.reduceat(confidence, starts),
            np.add.reduceat(confidence**2, starts),
        )

    def value(self, state: ConfidenceState, fitted: Fitted | None) -> float:
        """Return the objective without the nuclear norm; without `fitted`, that of the pairs alone."""
        weight, cell_weight, p = self.weight, self._cell_weight, state.confidence
        # Copies of a row are other rows: they are equal, with similarity 1.
        copies = weight - 1.0
        squares = self.similarity.sum_of_squares + float(weight @ copies)
        cross = float(cell_weight @ (p * state.similar)) + float((weight * copies) @ state.row_norm2)
        quartic = float((state.gram**2).sum()) - float(weight @ state.row_norm2**2)
        value = self.beta * (squares - 2.0 * cross + quartic)
        value += self.row_sum_weight * float(weight @ (state.row_sum - 1.0) ** 2)
        if fitted is not None:
            value += fitted.norm2 - 2.0 * float(cell_weight @ (p * fitted.cells)) + float(weight @ state.row_norm2)
        return value

    def pull(self, state: ConfidenceState, fitted: Fitted | None) -> tuple[FloatArray, FloatArray]:
        """Return the two parts, neither negative, of half the gradient: what lifts and what lowers P.

        Their difference, lowers - lifts, is half the gradient divided by the row's weight.
        """
        p = state.confidence
        own = self._by_cell(state.row_norm2) * p
        product = cells_of_product(self.matrix(p), state.gram, self.Y) - self._cell_weight * own
        lifts = np.maximum(state.similar, 0)
        lowers = np.maximum(-state.similar, 0) + np.maximum(product, 0)
        if self._has_weights:
            copies = self._cell_weight - 1.0
            lifts += np.maximum(copies, 0) * p + np.maximum(-copies, 0) * own
            lowers += np.maximum(-copies, 0) * p + np.maximum(copies, 0) * own
        lifts *= 2.0 * self.beta
        lowers *= 2.0 * self.beta
        lifts += self.row_sum_weight
        lowers += self.row_sum_weight * self._by_cell(state.row_sum)
        if fitted is not None:
            lifts += np.maximum(fitted.cells, 0)
            lowers += p + np.maximum(-fitted.cells, 0)
        return lifts, lowers

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
    r"""Multiply every confidence by :math:`\sqrt{\text{lifts} / \text{lowers}}` (equation 14).

    The square root is only proved to lower the quadratic part of the objective; where the whole
    rises, the fourth root is taken, which is proved for the quartic part, and smaller powers after
    it. Zeros stay zero, so P stays on the candidates.
    """
    before = problem.value(state, fitted)
    lifts, lowers = problem.pull(state, fitted)
    log_ratio = np.log((lifts + _TINY**2) / (lowers + _TINY))
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
    """Take a projected gradient step on the rows' simplices, as long as still goes down.

    Parameters
    ----------
    problem, state, fitted
    step : float
        Length to try first: twice the last one is a good start.

    Returns
    -------
    state : ConfidenceState
    step : float
        The length taken.
    """
    before = problem.value(state, fitted)
    lifts, lowers = problem.pull(state, fitted)
    slope = lowers - lifts
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
