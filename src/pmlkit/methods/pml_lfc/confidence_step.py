r"""The confidence steps of PML-LFC: update P for a fixed W.

.. math::

    \min_{P \ge 0} \; \|XW - P\|^2 + \beta \|H \circ (A - PP^T)\|^2 + \lambda \|P 1 - 1\|^2

with P zero off the candidates and H leaving out the diagonal. Confidences are held as the ``data``
of a CSR array with the candidates' pattern. A row of weight w counts as w equal rows.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from pmlkit._typing import CSR, FloatArray
from pmlkit.methods.pml_lfc.basis import Basis
from pmlkit.methods.pml_lfc.predictor_step import LowRankFit
from pmlkit.methods.pml_lfc.similarity import MANY_LABELS, LabelPairs, RowSimilarity
from pmlkit.numerics.products import cells_of_product, transposed_product
from pmlkit.numerics.prox import project_rows_to_simplex

_TINY = 1e-12


@dataclass(frozen=True)
class Fitted:
    """Predictions for the training rows: XW at the candidates, and the weighted squared norm of all of XW."""

    cells: FloatArray
    norm2: float


@dataclass(frozen=True)
class ConfidenceState:
    """Confidences and quantities derived from them, each computed once.

    `confidence` and `similar`, the product of the similarity with them, other rows only: at the candidates. `gram`
    (n_labels, n_labels): P'P, weighted; of many labels its cells at the :class:`LabelPairs`. `row_sum`, `row_norm2`
    (n_samples,).
    """

    confidence: FloatArray
    similar: FloatArray
    gram: FloatArray
    row_sum: FloatArray
    row_norm2: FloatArray


@dataclass(frozen=True)
class ConfidenceProblem:
    """The fixed parts of the objective.

    `Y`: candidates; every row has one. `beta`: weight of the pairs. `row_sum_weight`: the paper's lambda; 0 where the
    rows are kept on the simplex instead.
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
        weight, cell_weight, p = self.weight, self.cell_weight, state.confidence
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
        product = self._times_gram(p, state.gram) - self.cell_weight * own
        increase = np.maximum(state.similar, 0)
        decrease = np.maximum(-state.similar, 0) + np.maximum(product, 0)
        if self._has_weights:
            copies = self.cell_weight - 1.0
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
            return self._pairs.gram(p, p * self.cell_weight)
        P = self.matrix(p)
        return transposed_product(P, self.matrix(p * self.cell_weight) if self._has_weights else P)

    def _times_gram(self, p: FloatArray, gram: FloatArray) -> FloatArray:
        if self._pairs is not None:
            return self._pairs.cells(p, gram)
        return cells_of_product(self.matrix(p), gram, self.Y)

    @cached_property
    def _pairs(self) -> LabelPairs | None:
        return LabelPairs(self.Y) if self.Y.shape[1] > MANY_LABELS else None

    @cached_property
    def cell_weight(self) -> FloatArray:
        """The weight of each candidate's row."""
        return self._by_cell(self.weight)

    @cached_property
    def _has_weights(self) -> bool:
        return bool((self.weight != 1.0).any())

    def _by_cell(self, of_rows: FloatArray) -> FloatArray:
        return np.repeat(of_rows, np.diff(self.Y.indptr))

    def matrix(self, cells: FloatArray) -> CSR:
        """Return cells on the candidates' pattern as a matrix."""
        return sparse.csr_array((cells, self.Y.indices, self.Y.indptr), shape=self.Y.shape)


class Steps(ABC):
    """The steps of the alternation, for rows in memory and in blocks; states and fitted values are their own.

    `row_sum`: "penalty" or "simplex", which decides how confidences are improved.
    """

    def __init__(self, row_sum: str) -> None:
        self._row_sum, self._step = row_sum, 1.0

    @property
    @abstractmethod
    def basis(self) -> Basis:
        """Coordinates of the predictor."""

    @abstractmethod
    def start(self) -> Any:
        """Return the state of the first confidences."""

    @abstractmethod
    def _state(self, confidence: Any) -> Any:
        """Compute the quantities derived from the confidences."""

    @abstractmethod
    def value(self, state: Any, fitted: Any) -> float:
        """Return the objective without the nuclear norm; without `fitted`, that of the pairs alone."""

    @abstractmethod
    def _gradient(self, state: Any, fitted: Any) -> Any:
        """Return the parts of `ConfidenceProblem.gradient_parts`."""

    @abstractmethod
    def _multiplied(self, state: Any, gradient: Any, power: float) -> Any:
        """Return confidences after a multiplicative step, see :func:`multiplied`."""

    @abstractmethod
    def _projected(self, state: Any, gradient: Any, step: float) -> Any:
        """Return confidences after a projected gradient step, see :func:`projected`."""

    @abstractmethod
    def _change(self, state: Any, gradient: Any, moved: Any) -> tuple[int, float, float]:
        """Return how many confidences changed, the change along half the gradient, and its squared norm, weighted."""

    @abstractmethod
    def mean_confidence(self, state: Any) -> FloatArray:
        """Return the mean confidence per label if there is an intercept, else zeros."""

    @abstractmethod
    def target(self, state: Any) -> tuple[FloatArray, float]:
        """Return the confidences, projected on the basis, and the squared norm of what the linear part fits."""

    @abstractmethod
    def fitted(self, low_rank: LowRankFit, state: Any) -> Any:
        """Return the predictions for the training rows."""

    def coefficients(self, low_rank: LowRankFit, state: Any) -> tuple[FloatArray, FloatArray]:
        """Return coefficients and intercepts in the features' coordinates."""
        coef = self.basis.coefficients(low_rank.solution)
        return coef, self.mean_confidence(state) - self.basis.mean @ coef

    def improve(self, state: Any, fitted: Any) -> Any:
        r"""Return the state after a step of the confidences that does not raise the objective.

        The penalty's step multiplies every confidence by :math:`\sqrt{\text{increase} / \text{decrease}}` (equation
        14). The square root is only proved to lower the quadratic part of the objective; where the whole rises, the
        fourth root is taken, which is proved for the quartic part, and smaller powers after it. On the simplex it is a
        projected gradient step with backtracking, from twice the last step size.
        """
        before, gradient = self.value(state, fitted), self._gradient(state, fitted)
        if self._row_sum == "penalty":
            power = 0.5
            while power > 1e-6:
                new = self._state(self._multiplied(state, gradient, power))
                if self.value(new, fitted) <= before:
                    return new
                power /= 2.0
            return state
        self._step *= 2.0
        while self._step > 1e-300:
            moved = self._projected(state, gradient, self._step)
            n_changed, along, squared = self._change(state, gradient, moved)
            if not n_changed:
                break
            new = self._state(moved)
            if self.value(new, fitted) <= min(before + 2.0 * along + squared / self._step, before):
                return new
            self._step /= 2.0
        return state


def multiplied(state: ConfidenceState, gradient: tuple[FloatArray, FloatArray], *, power: float) -> FloatArray:
    """Multiply confidences by a power of increase / decrease. Zeros stay zero, so P stays on the candidates."""
    increase, decrease = gradient
    return np.asarray(state.confidence * np.exp(power * np.log((increase + _TINY**2) / (decrease + _TINY))))


def projected(Y: CSR, state: ConfidenceState, gradient: tuple[FloatArray, FloatArray], *, step: float) -> FloatArray:
    """Go down the gradient, and project every row on its simplex."""
    moved = state.confidence - step * (gradient[1] - gradient[0])
    return np.asarray(project_rows_to_simplex(moved, Y.indptr) if Y.nnz else moved)
