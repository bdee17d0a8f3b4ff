"""What one pass does with a block: pure functions from scores and values at the cells to values at the cells."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse

from pmlkit._typing import CSR, BoolArray, FloatArray, IntArray
from pmlkit.methods.clear_pml.block_ridge import all_scores, sample_rows
from pmlkit.methods.clear_pml.cells import Cells, SideBySide
from pmlkit.methods.clear_pml.label_correlations import LabelCorrelations
from pmlkit.methods.clear_pml.posterior import candidate_confidence, no_true_label, true_probabilities
from pmlkit.methods.clear_pml.score_calibration import ScoreCalibration, expit, logit

Mode = Literal["several", "single"]

KEPT = 0.5  # weight of the given candidates in the target, beside their confidences
_SURELY_TRUE = 1.0 - 1e-9
_LEAST_OF_MANY = 1e-6  # probability of one of thousands of labels


@dataclass(frozen=True)
class NoiseModel:
    """What confidences depend on beside chances and candidates.

    - `floor`: probability that a false label is a candidate; with thousands of labels one for each;
    - `presence`: weight of having a true label, see `candidate_confidence`;
    - `independent`: whether the candidates of a row are taken one by one, without competition;
    - `competition`: in the mode "several".
    """

    floor: float | FloatArray
    presence: float
    independent: bool
    competition: float

    def in_mode(self, mode: Mode) -> float:
        """Return the competition in a mode."""
        return self.competition if mode == "several" else 1.0

    def floor_at(self, cells: Cells, layout: SideBySide) -> Any:
        """Return the floor for cells that stand side by side."""
        if np.ndim(self.floor) == 0:
            return self.floor
        full = np.ones(layout.shape)
        full[layout.row, layout.place] = np.asarray(self.floor)[cells.pattern.indices]
        return full

    def options(self, competition: float) -> dict[str, float]:
        """Return the options of `candidate_confidence`."""
        if self.independent:
            return {"competition": 0.0, "presence": 1.0}
        return {"competition": competition, "presence": self.presence}


def sample(scores: FloatArray, cells: Cells, target: FloatArray, first: int, *, step: int) -> list[Any]:
    """Return the scores and targets of a block's sample rows."""
    return [(scores, sample_values(cells, target, first, step=step)[0])]


def sample_values(cells: Cells, values: FloatArray, first: int, *, step: int) -> list[CSR]:
    """Return values of a block's sample rows as a CSR array."""
    table = cells.sparse_values(values)
    return [table if step == 1 else table[sample_rows(cells, first, step)]]


def given_sample(cells: Cells, confidence: FloatArray, first: int, *, step: int) -> list[CSR]:
    """Return the confidences of the candidates as they were given, of a block's sample rows."""
    everything = cells.sparse_values(confidence)
    if not cells.given.all():
        row = cells.row_numbers(slice(0, cells.n_rows))[cells.given]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=cells.n_rows))])
        parts = confidence[cells.given], cells.pattern.indices[cells.given], indptr
        everything = sparse.csr_array(parts, shape=cells.pattern.shape)
    return [everything if step == 1 else everything[sample_rows(cells, first, step)]]


def _over(scored: tuple[Any, ...], rows: Any, weights: Any, calibration: ScoreCalibration) -> Any:
    for some, scores in all_scores(*scored, rows=rows, weights=weights):
        yield some, calibration.probabilities(scores)


def chance_values(*scored: Any, rows: Any, weights: Any, calibration: ScoreCalibration, floor: float) -> FloatArray:
    """Return the probabilities of being true, by those of being a candidate."""
    cells = scored[2]
    parts = [cells.at(true_probabilities(p, floor), some) for some, p in _over(scored, rows, weights, calibration)]
    return _joined(parts)


def refined_values(
    *scored: Any, rows: Any, weights: Any, calibration: Any, noise: NoiseModel, competition: float
) -> FloatArray:
    """Return the confidences by an evidence of earlier confidences."""
    cells = scored[2]
    if _at_cells(scored):
        chance = _inside(calibration.at_cells(scored[4], cells.pattern.indices), least=_LEAST_OF_MANY)
    else:
        chance = _joined([cells.at(_inside(p), some) for some, p in _over(scored, rows, weights, calibration)])
    return confidence_values(cells, chance, noise=noise, competition=competition)


def corrected_probabilities(
    *scored: Any, rows: Any, weights: Any, calibration: ScoreCalibration, correlations: LabelCorrelations
) -> Any:
    """Yield slices of rows and their probabilities after the correction by label correlations."""
    for some, probability in _over(scored, rows, weights, calibration):
        yield some, expit(correlations.adjust(as_log_odds(probability)))


def corrected_values(*scored: Any, **how: Any) -> FloatArray:
    """Return the probabilities of being true after the correction by label correlations."""
    if _at_cells(scored):
        return _inside(how["calibration"].at_cells(scored[4], scored[2].pattern.indices), least=_LEAST_OF_MANY)
    return _joined([scored[2].at(_inside(p), some) for some, p in corrected_probabilities(*scored, **how)])


def out_of_fold_scores(*scored: Any, **how: Any) -> FloatArray:
    """Return the corrected probabilities of a block's rows; NaN where rows are without cells."""
    *rest, Y = scored
    cells = rest[2]
    scores = np.full((len(cells.used), cells.pattern.shape[1]), np.nan, dtype=np.float32)
    places = np.flatnonzero(cells.used)
    for some, probability in corrected_probabilities(*rest, **how):
        scores[places[some]] = probability
    if Y.shape[1] > 1:
        scores[np.diff(Y.indptr) == 0] = np.nan
    return scores


def hits(*scored: Any, rows: Any, weights: Any, calibration: ScoreCalibration) -> BoolArray:
    """Return whether the label with the highest leave-one-out probability is a candidate."""
    cells: Cells = scored[2]
    found = np.zeros(cells.n_rows, dtype=bool)
    for some, probability in _over(scored, rows, weights, calibration):
        best = probability.argmax(axis=1)
        number = cells.row_numbers(some)
        inside = slice(cells.pattern.indptr[some.start], cells.pattern.indptr[some.stop])
        is_hit = (cells.pattern.indices[inside] == best[number]) & cells.candidate[inside]
        found[some] = np.bincount(number[is_hit], minlength=len(best)) > 0
    return found


def gains(first: BoolArray, second: BoolArray) -> tuple[float, float]:
    """Return the sum of the differences, and of their squares."""
    return float(first.sum() - 1.0 * second.sum()), float((first != second).sum())


def confidence_values(cells: Cells, chance: FloatArray, *, noise: NoiseModel, competition: float) -> FloatArray:
    """Return the confidences at some probabilities of being true."""
    if cells.right.any():
        chance = np.where(cells.right, _SURELY_TRUE, chance)
    return _posterior(cells, chance, cells.candidate, noise, competition)


def plain_values(cells: Cells, chance: FloatArray, *, noise: NoiseModel) -> FloatArray:
    """Return the confidences of the candidates as they were given, without the answers."""
    return _posterior(cells, chance, cells.given, noise, noise.competition)


def _posterior(
    cells: Cells, chance: FloatArray, candidate: BoolArray, noise: NoiseModel, competition: float
) -> FloatArray:
    layout = cells.side_by_side
    return layout.gather(
        candidate_confidence(
            layout.spread(chance),
            layout.spread(candidate),
            noise.floor_at(cells, layout),
            **noise.options(competition),
        )
    )


def rows_without_truth(cells: Cells, chance: FloatArray, *, noise: NoiseModel, competition: float) -> float:
    """Return how many rows are expected to have no true candidate."""
    layout = cells.side_by_side
    values, candidate = layout.spread(chance), layout.spread(cells.candidate)
    floor = noise.floor_at(cells, layout)
    return float(no_true_label(values, candidate, floor, **noise.options(competition)).sum())


def rows_without_truth_by_answers(cells: Cells, confidence: FloatArray, *, is_single: bool) -> float:
    """Return the same by confidences that answers have corrected; `is_single`: at most one label of a row is true."""
    layout = cells.side_by_side
    values = layout.spread(with_answers(cells, confidence))[layout.spread(cells.given).any(axis=1)]
    none = np.maximum(1.0 - values.sum(axis=1), 0.0) if is_single else np.prod(1.0 - values, axis=1)
    return float(none.sum())


def target_values(cells: Cells, confidence: FloatArray) -> FloatArray:
    """Return the predictor's target."""
    return blended_target(cells.candidate, confidence)


def averaged_values(
    cells: Cells,
    chance: FloatArray,
    before: FloatArray,
    *,
    noise: NoiseModel,
    competition: float,
    offset: FloatArray | None,
    is_single: bool,
) -> FloatArray:
    """Return the mean, in log odds, of the confidences at some chances and earlier ones."""
    last = confidence_values(cells, chance, noise=noise, competition=competition)
    log_odds = (as_log_odds(before) + as_log_odds(last)) / 2.0
    if offset is not None:
        log_odds += offset[cells.pattern.indices]
    both = np.where(cells.candidate, expit(log_odds), 0.0)
    if is_single:
        row = cells.row_numbers(slice(0, cells.n_rows))
        total = np.bincount(row, weights=(before + last) / 2.0, minlength=cells.n_rows)
        both *= (total / np.maximum(np.bincount(row, weights=both, minlength=cells.n_rows), 1e-12))[row]
    return both


def with_answers(cells: Cells, confidence: FloatArray) -> FloatArray:
    """Return confidences of one where a reviewer said right."""
    return np.where(cells.right, 1.0, confidence)


def answered_rows(cells: Cells, chance: FloatArray) -> list[Any]:
    """Return chances, candidates and answers of a block's rows that have an answer, for all labels."""
    number = cells.row_numbers(slice(0, cells.n_rows))
    rows = np.unique(number[cells.right | cells.wrong])
    tables = (cells.sparse_values(values.astype(np.float64))[rows].toarray() for values in
              (np.clip(chance, 1e-300, 1.0), cells.given, cells.right, cells.wrong))  # fmt: skip
    chances, *others = tables
    return [(chances, *(table > 0 for table in others))]


def asked_cells(cells: Cells, plain: FloatArray, *, shift: float) -> list[tuple[FloatArray, IntArray, BoolArray]]:
    """Return the log odds, the labels and the answers of given candidates that a reviewer looked at."""
    asked = cells.given & (cells.right | cells.wrong)
    return [(as_log_odds(shifted(plain, shift=shift))[asked], cells.pattern.indices[asked], cells.right[asked])]


def open_total(cells: Cells, plain: FloatArray, *, shift: float, rates: FloatArray) -> float:
    """Return the expected number of true candidates by the answers' rates, right ones included."""
    log_odds = as_log_odds(np.where(cells.given, shifted(plain, shift=shift), 0.0))
    is_open = cells.candidate & ~cells.right
    return float(expit(log_odds + rates[cells.pattern.indices])[is_open].sum() + cells.right.sum())


def shifted_sums(values: FloatArray, *, shift: float) -> tuple[int, float, float]:
    """Return how many confidences there are, and the sum and the slope of the sum at a shift of their log odds."""
    chance = expit(as_log_odds(values[values > 0]) + shift)
    return len(chance), float(chance.sum()), float((chance * (1.0 - chance)).sum())


def shifted(values: FloatArray, *, shift: float) -> FloatArray:
    """Return confidences with their log odds shifted; zeros stay zero."""
    return np.where(values > 0, expit(as_log_odds(values) + shift), 0.0)


def mixture(several: FloatArray, single: FloatArray, *, weight: float) -> FloatArray:
    """Return the weighted mean of the confidences of both modes."""
    return (1.0 - weight) * several + weight * single


def total(values: FloatArray) -> float:
    """Return the sum."""
    return float(values.sum())


def label_totals(cells: Cells, confidence: FloatArray) -> tuple[IntArray, Any]:
    """Return how many candidates each label was given, and how many of them are expected to be true."""
    labels, n_labels = cells.pattern.indices[cells.given], cells.pattern.shape[1]
    return np.bincount(labels, minlength=n_labels), np.bincount(labels, confidence[cells.given], minlength=n_labels)


def given_values(cells: Cells, confidence: FloatArray) -> FloatArray:
    """Return confidences aligned with the candidates as they were given."""
    return confidence if cells.given.all() else confidence[cells.given]


def blended_target(is_candidate: BoolArray, confidence: FloatArray) -> FloatArray:
    """Shrink confidences halfway towards the given candidates, which guards against wrong confidences."""
    return np.asarray(np.where(is_candidate, KEPT + (1.0 - KEPT) * confidence, 0.0))


def as_log_odds(probability: FloatArray) -> FloatArray:
    """Return the log odds of probabilities, away from zero and one."""
    return np.asarray(logit(np.clip(probability, 1e-6, 1.0 - 1e-6)))


def _joined(parts: list[FloatArray]) -> FloatArray:
    """Return the parts of a block one after the other; a block without candidates has none."""
    return np.concatenate(parts) if parts else np.zeros(0)


def _at_cells(scored: tuple[Any, ...]) -> bool:
    """Return whether only the scores at the cells are kept, as with thousands of labels."""
    return scored[4] is not None and scored[4].ndim == 1


def _inside(probability: FloatArray, *, least: float = 1e-4) -> FloatArray:
    return np.asarray(np.clip(probability, least, 1.0 - 1e-6))
