"""Rounds for thousands of labels: what is known of labels follows the candidates, and not rows times labels.

Leave-one-out scores are computed for a few rows at a time and kept at the candidates; those of all labels only for a
sample of rows. One curve serves all labels, because most of them have too few candidates for one of their own.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.special import expit

from pmlkit._typing import CSR, FloatArray, IntArray
from pmlkit.blocks import State
from pmlkit.methods.clear_pml.block_ridge import all_scores, candidate_values, sample_rows
from pmlkit.methods.clear_pml.cells import Cells
from pmlkit.methods.clear_pml.confidence_rounds import Estimate, Evidence, Rounds

MANY_LABELS = 2_000
"""Labels beyond which these rounds take the place of the others."""

_SAMPLE_CELLS = 8_000_000  # scores of the sample of rows
_DENSE_CELLS = 100_000_000  # held-out scores, beyond which only the candidates' and the best ones are kept
_BEST = 10  # of a row
_CURVE_CELLS = 2_000_000
_LOW_SHARE = 0.3
_MAX_STEPS, _MAX_FLOOR_STEPS = 50, 1_000


@dataclass(frozen=True)
class SharedCurve:
    r"""Probabilities ``expit(a + b u + c u^2 + d log(frequency))`` with ``u = log(1 + max(score, 0) / spread)``.

    - `spread`, `log_frequency` (n_labels,): the root mean square of each label's leave-one-out scores, and the log of
      its share of the rows;
    - `coef` (4,).
    """

    spread: FloatArray
    log_frequency: FloatArray
    coef: FloatArray

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the probabilities of scores of all labels."""
        return self._values(scores, self.spread, self.log_frequency)

    def at_cells(self, scores: FloatArray, labels: IntArray) -> FloatArray:
        """Return the probabilities of single scores."""
        return self._values(scores, self.spread[labels], self.log_frequency[labels])

    def _values(self, scores: FloatArray, spread: FloatArray, log_frequency: FloatArray) -> FloatArray:
        kind = scores.dtype
        units = np.maximum(scores, 0.0)
        units /= spread.astype(kind)
        np.log1p(units, out=units)
        values = units * self.coef[2].astype(kind)
        values += self.coef[1].astype(kind)
        values *= units
        values += (self.coef[0] + self.coef[3] * log_frequency).astype(kind)
        return np.asarray(expit(values, out=values))


def fit_shared_curve(scores: FloatArray, target: CSR, spread: FloatArray, frequency: FloatArray) -> SharedCurve:
    """Fit the curve to leave-one-out scores of a sample of rows by maximum likelihood.

    - `scores` (n_rows, n_labels);
    - `target` (n_rows, n_labels): probabilities at the candidates;
    - `spread`, `frequency` (n_labels,): the root mean square of all rows' scores, and the shares of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.methods.clear_pml.many_labels import fit_shared_curve
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=(500, 20))
    >>> target = sparse.csr_array((scores > 1.0).astype(float))
    >>> curve = fit_shared_curve(scores, target, np.ones(20), np.full(20, 0.2))
    >>> (curve.probabilities(np.array([[0.0, 2.0]])[:, [0, 1] * 10])[0, :2] > 0.5).tolist()
    [False, True]
    """
    log_frequency = np.log(np.maximum(frequency, 0.5 / max(len(scores), 1) / 1e3))
    curve = SharedCurve(spread, log_frequency, np.array([0.0, 1.0, 0.0, 1.0]))
    row = np.repeat(np.arange(target.shape[0]), np.diff(target.indptr))
    is_cell = np.zeros(scores.shape, dtype=bool)
    is_cell[row, target.indices] = True
    others = np.flatnonzero(~is_cell.ravel())
    step = max(1, len(others) // _CURVE_CELLS)
    others = others[::step]
    flat = np.concatenate([row * scores.shape[1] + target.indices, others])
    label = flat % scores.shape[1]
    wanted = np.concatenate([target.data, np.zeros(len(others))])
    weight = np.concatenate([np.ones(len(target.data)), np.full(len(others), float(step))])
    units = np.log1p(np.maximum(scores.ravel()[flat].astype(np.float64), 0.0) / spread[label])
    design = np.column_stack([np.ones_like(units), units, units**2, log_frequency[label]])
    coef = curve.coef
    for _ in range(_MAX_STEPS):
        chance = expit(design @ coef)
        slack = weight * chance * (1.0 - chance)
        hessian = design.T @ (design * slack[:, None]) + 1e-3 * np.eye(4)
        change = np.linalg.solve(hessian, design.T @ (weight * (wanted - chance)) - 1e-3 * (coef - curve.coef))
        coef = coef + change * min(1.0, 1.0 / max(float(np.abs(change).max()), 1e-300))
        if np.abs(change).max() < 1e-8:
            break
    return replace(curve, coef=coef)


def frequency_floor(scores: FloatArray, candidates: CSR, frequency: FloatArray) -> FloatArray:
    """Return the probability of each label that it is a candidate where it is false: ``a + b * frequency``.

    Both numbers are the most likely ones for the candidates among the rows that score lowest for a label.
    """
    n_rows, n_labels = scores.shape
    n_low = max(1, int(_LOW_SHARE * n_rows))
    highest = np.partition(scores, n_low - 1, axis=0)[n_low - 1]
    row = np.repeat(np.arange(n_rows), np.diff(candidates.indptr))
    is_low = scores[row, candidates.indices] <= highest[candidates.indices]
    found = np.bincount(candidates.indices[is_low], minlength=n_labels)
    rows = (scores <= highest).sum(axis=0)
    often = rows * frequency
    same = share = max(float(found.sum()), 0.01 * float(often.sum())) / float(rows.sum() + often.sum())
    for _ in range(_MAX_FLOOR_STEPS):  # of expectation maximisation: each candidate belongs to one of the two parts
        ratio = found / np.maximum(same * rows + share * often, 1e-300)
        before = share
        same, share = same * float(ratio @ rows) / float(rows.sum()), share * float(ratio @ often) / float(often.sum())
        if abs(share - before) < 1e-6:
            break
    least = 0.01 * frequency
    return np.asarray(np.clip(np.clip(same + share * frequency, least, frequency), 1e-9, 0.9))


class ManyLabelRounds(Rounds):
    """Rounds that keep leave-one-out scores at the candidates; without a label map."""

    def __init__(self, *args: Any, n_rows: int, n_labels: int, per_label: FloatArray, **kwargs: Any) -> None:
        super().__init__(*args, n_rows=n_rows, n_labels=n_labels, **kwargs)
        self.step = -(-n_rows // max(1, _SAMPLE_CELLS // n_labels))
        self.frequency = np.asarray(per_label) / n_rows

    def evidence(self, target: State, powers: Any = None) -> Evidence:
        """Fit the regression to a target, and the curve to the leave-one-out scores of the sample."""
        engine, ridge = self.engine, self.ridge
        model: Any = ridge.fit(target)  # type: ignore[arg-type]
        weights = engine.share(ridge.weights(model))  # type: ignore[union-attr]
        known, (squares, sample) = engine.map_reduce(
            cell_scores, ridge.source, ridge.leverage, self.cells, target, self.first,  # type: ignore[union-attr]
            rows=self._shared_rows, weights=weights, step=self.step,
        )  # fmt: skip
        sampled = np.concatenate([part for part, _ in sample])
        wanted = sparse.csr_array(sparse.vstack([part for _, part in sample]))
        spread = np.sqrt(squares / self.n_rows) + 1e-6
        curve = fit_shared_curve(sampled, wanted, spread, self.frequency)
        return Evidence(model, curve, weights, target, known, sampled, wanted)  # type: ignore[arg-type]

    predictor = evidence

    def first_evidence(self) -> tuple[Evidence, Any]:
        """Return the evidence of the candidates themselves, and the mean noise floor of the labels."""
        first = self.evidence(self.engine.map(candidate_values, self.cells, keep=False))
        candidates: Any = first.sample_target
        floor: Any = frequency_floor(first.scores, candidates, self.frequency)
        self.floor = floor
        self.chance = self.engine.map(chance_at_cells, self.cells, first.known, curve=first.calibration, floor=floor)
        return replace(first, sample_target=candidates.toarray()), float(floor.mean())

    def estimate(self, mode: Literal["auto", "several", "single"]) -> Estimate:
        """Estimate confidences in one mode; "auto" is "several"."""
        return super().estimate("several" if mode == "auto" else mode)

    def _scored(self, evidence: Evidence) -> tuple[State, ...]:
        return self._none, self._none, self.cells, evidence.target, evidence.known

    def _correlations(self, estimate: Estimate, before: State) -> None:
        """There is no label map."""

    def held_out_scores(self, evidence: Evidence, Y: State, correlations: Any) -> State:
        """Return the held-out probabilities of a block's rows, sparse where there are many of them."""
        return self.engine.map(
            best_scores, self.ridge.source, self.ridge.leverage, self.cells, evidence.target, Y,  # type: ignore[union-attr]
            keep=False, rows=self._shared_rows, weights=evidence.weights, curve=evidence.calibration,
            is_dense=self.n_rows * self.n_labels <= _DENSE_CELLS,
        )  # fmt: skip


def loo_scores(source: Any, leverage: Any, cells: Cells, target: FloatArray, rows: Any, weights: Any) -> Any:
    """Yield slices of a block's rows and their leave-one-out scores for all labels."""
    own = getattr(rows, "loo_scores", None)
    if own is not None:
        return own(source, leverage, cells, target, weights)
    return all_scores(source, leverage, cells, target, None, rows=rows, weights=weights)


def cell_scores(
    source: Any,
    leverage: Any,
    cells: Cells,
    target: FloatArray,
    first: int,
    *,
    rows: Any,
    weights: Any,
    step: int,
) -> tuple[FloatArray, tuple[FloatArray, list[Any]]]:
    """Return leave-one-out scores at the cells; the sums of squares of all; scores and targets of the sample."""
    known = np.zeros(cells.pattern.nnz)
    squares = np.zeros(cells.pattern.shape[1])
    chosen = sample_rows(cells, first, step)
    sampled: list[FloatArray] = [np.zeros((0, cells.pattern.shape[1]), dtype=np.float32)]
    for some, scores in loo_scores(source, leverage, cells, target, rows, weights):
        known[cells.pattern.indptr[some.start] : cells.pattern.indptr[some.stop]] = cells.at(scores, some)
        squares += np.einsum("ij,ij->j", scores, scores)
        inside = chosen[(chosen >= some.start) & (chosen < some.stop)]
        if len(inside):
            sampled.append(scores[inside - some.start].astype(np.float32))
    return known, (squares, [(np.concatenate(sampled), cells.sparse_values(target)[chosen])])


def chance_at_cells(cells: Cells, known: FloatArray, *, curve: SharedCurve, floor: FloatArray) -> FloatArray:
    """Return the probabilities of being true, by those of being a candidate."""
    labels = cells.pattern.indices
    least = floor[labels]
    chance = (curve.at_cells(known, labels) - least) / (1.0 - least)
    return np.asarray(np.clip(chance, least / 100.0, 1.0 - 1e-6))


def best_scores(
    source: Any,
    leverage: Any,
    cells: Cells,
    target: FloatArray,
    Y: CSR,
    *,
    rows: Any,
    weights: Any,
    curve: SharedCurve,
    is_dense: bool,
) -> FloatArray | CSR:
    """Return the held-out probabilities of a block: all of them, or the candidates' and the best ones of each row."""
    n_labels = cells.pattern.shape[1]
    places = np.flatnonzero(cells.used)
    scored = loo_scores(source, leverage, cells, target, rows, weights)
    if is_dense:
        full = np.full((len(cells.used), n_labels), np.nan, dtype=np.float32)
        for some, scores in scored:
            full[places[some]] = curve.probabilities(scores)
        return full
    parts = []
    for some, scores in scored:
        probability = curve.probabilities(scores)
        best = np.argpartition(probability, n_labels - _BEST, axis=1)[:, n_labels - _BEST :]
        inside = slice(cells.pattern.indptr[some.start], cells.pattern.indptr[some.stop])
        row = np.concatenate([np.repeat(np.arange(len(best)), _BEST), cells.row_numbers(some)])
        label = np.concatenate([best.ravel(), cells.pattern.indices[inside]])
        flat = np.unique(row * n_labels + label)
        parts.append((places[some][flat // n_labels], flat % n_labels, probability.ravel()[flat]))
    shape = len(cells.used), n_labels
    if not parts:
        return sparse.csr_array(shape, dtype=np.float32)
    row, label, value = (np.concatenate([part[k] for part in parts]) for k in range(3))
    return sparse.csr_array((value.astype(np.float32), (row, label)), shape=shape)
