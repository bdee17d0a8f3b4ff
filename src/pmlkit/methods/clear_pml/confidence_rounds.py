"""The rounds that turn leave-one-out evidence into confidences, and confidences into the predictor's target.

All that is known of single rows stays in their blocks, at their cells; what is fitted to scores of all labels (curves,
the noise model, label correlations) is fitted to a sample of rows, which is the same however the rows are cut.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse

from pmlkit._typing import CSR, FloatArray
from pmlkit.blocks import Engine, State
from pmlkit.methods.clear_pml import cell_passes as passes
from pmlkit.methods.clear_pml.block_ridge import BlockRidge, candidate_values, sample_scores
from pmlkit.methods.clear_pml.cell_passes import Mode, NoiseModel, as_log_odds
from pmlkit.methods.clear_pml.dual_ridge import DualRidge
from pmlkit.methods.clear_pml.label_correlations import LabelCorrelations, fit_label_correlations
from pmlkit.methods.clear_pml.posterior import (
    fit_label_rates,
    likeliest_noise_model,
    noise_floor,
    presence_weight,
    shrunk_count,
    true_probabilities,
)
from pmlkit.methods.clear_pml.primal_ridge import PrimalRidge
from pmlkit.methods.clear_pml.score_calibration import ScoreCalibration, expit, fit_calibration, log_likelihood, logit

COMPETITION = 0.8  # a likely candidate speaks against the others of its row
_PRESENCE_IF_IN_DOUBT = 10.0  # weight of a true label, at most, where the user says that rows may have none
_FULL_WEIGHT, _WORTH = 4.0, 0.01  # standard errors, and share of rows, by which "single" must win for full weight
_FEW, _FADE = 2.5, 0.5  # true labels per row up to which "single" counts, and over which range it fades
_POWERS = (1.0, 0.7)  # of the scores of wide text with many rows
_SAMPLE_ROWS, _SAMPLE_CELLS = 50_000, 40_000_000


def sample_step(n_rows: int, n_labels: int) -> int:
    """Return how many rows are one row of the sample."""
    return -(-n_rows // max(1, min(_SAMPLE_ROWS, _SAMPLE_CELLS // n_labels)))


@dataclass(frozen=True)
class Evidence:
    """A model of one target, with the calibrated leave-one-out scores of a sample of rows.

    - `model`: of the regression;
    - `weights`: the model for the rows that passes see;
    - `target`: at the cells of each block;
    - `known`: scores of a block's rows where all of them are in the sample, None where not;
    - `scores`, `sample_target` (n_sample_rows, n_labels).
    """

    model: tuple[FloatArray, FloatArray]
    calibration: ScoreCalibration
    weights: Any
    target: State
    known: State
    scores: FloatArray
    sample_target: FloatArray

    @property
    def probability(self) -> FloatArray:
        """The calibrated leave-one-out probabilities of the sample."""
        return self.calibration.probabilities(self.scores)


@dataclass(frozen=True)
class Estimate:
    """Confidences before the correction by label correlations, and the evidence of the predictor fitted to them.

    Attributes
    ----------
    confidence : dict of mode to State
        At the cells of each block.
    single_weight : float
        Weight of the mode "single"; that of "several" is the rest.
    evidence : Evidence
    """

    confidence: dict[Mode, State]
    single_weight: float
    evidence: Evidence


@dataclass(frozen=True)
class Final:
    """What a fit ends with.

    - `confidence`: at the cells of each block;
    - `share_without_truth`: estimated share of rows none of whose candidates is true.
    """

    correlations: LabelCorrelations | None
    confidence: State
    share_without_truth: float


def _likeliest(curves: list[ScoreCalibration], scores: FloatArray, target: FloatArray) -> ScoreCalibration:
    if len(curves) == 1:
        return curves[0]
    return max(curves, key=lambda found: log_likelihood(found.probabilities(scores), target))


class Rounds:
    """The passes over rows with candidates.

    - `cells`: `Cells` of each block;
    - `first`: how many rows with cells come before each block;
    - `ridge`: a BlockRidge or PrimalRidge; for a single block a DualRidge;
    - `n_rows`, `n_labels`, `n_candidates`: of all blocks.
    """

    def __init__(
        self,
        engine: Engine,
        cells: State,
        first: State,
        ridge: BlockRidge | DualRidge | PrimalRidge,
        *,
        n_rows: int,
        n_labels: int,
        n_candidates: int,
    ) -> None:
        self.engine, self.cells, self.first, self.ridge = engine, cells, first, ridge
        self.n_rows, self.n_labels, self.n_candidates = n_rows, n_labels, n_candidates
        self.step = sample_step(n_rows, n_labels)
        self._none = engine.of([None] * engine.n_blocks)

    def predictor(self, target: State) -> Evidence:
        """Fit the regression that is to predict, with the likeliest power of its scores."""
        return self.evidence(target, _POWERS if isinstance(self.ridge, PrimalRidge) else (1.0,))

    def evidence(self, target: State, powers: Sequence[float] = (1.0,)) -> Evidence:
        """Fit the regression to a target and calibrate its leave-one-out scores."""
        engine, ridge = self.engine, self.ridge
        if isinstance(ridge, DualRidge):
            (cells,), (values,) = self.cells, target
            full = cells.dense(values, slice(0, cells.n_rows)).astype(ridge.dtype)
            model: Any = ridge.fit(full)
            scores, weights = engine.of([ridge.loo_scores(full, model)]), None
        else:
            model = ridge.fit(target)
            weights = engine.share(ridge.weights(model))
            scores = engine.map(
                sample_scores, ridge.source, ridge.leverage, self.cells, target, self.first,
                keep=self.step == 1, rows=self._shared_rows, weights=weights, step=self.step,
            )  # fmt: skip
        sampled, wanted = self._sample(scores, target)
        calibration = _likeliest([fit_calibration(sampled, wanted, power) for power in powers], sampled, wanted)
        known = scores if self.step == 1 else self._none
        return Evidence(model, calibration, weights, target, known, sampled, wanted)

    def _sample(self, scores: State, target: State) -> tuple[FloatArray, FloatArray]:
        found = self.engine.reduce(passes.sample, scores, self.cells, target, self.first, step=self.step)
        kind = found[0][0].dtype
        return _stacked([part for part, _ in found]), _stacked([part for _, part in found]).toarray().astype(kind)

    def over_scores(self, function: Any, evidence: Evidence, *states: State, keep: bool = True, **shared: Any) -> State:
        """Map a function of a block's leave-one-out scores."""
        return self.engine.map(function, *self._scored(evidence), *states, keep=keep, **self._how(evidence), **shared)

    def _scored(self, evidence: Evidence) -> tuple[State, ...]:
        if self.step == 1 or isinstance(self.ridge, DualRidge):
            return self._none, self._none, self.cells, evidence.target, evidence.known
        return self.ridge.source, self.ridge.leverage, self.cells, evidence.target, self._none

    def _how(self, evidence: Evidence) -> dict[str, Any]:
        return {"rows": self._shared_rows, "weights": evidence.weights, "calibration": evidence.calibration}

    @property
    def _shared_rows(self) -> Any:
        if isinstance(self.ridge, DualRidge):
            return None
        if not hasattr(self, "_rows_handle"):
            self._rows_handle = self.engine.share(self.ridge.rows)
        return self._rows_handle

    def sample_of_rule(
        self, evidence: Evidence, correlations: LabelCorrelations | None, confidence: State
    ) -> tuple[FloatArray, CSR, FloatArray]:
        """Return scores, candidates and confidences of the sample's rows that have candidates."""
        scores = evidence.probability
        if correlations is not None:
            scores = expit(correlations.adjust(as_log_odds(scores)))
        table = _stacked(self.engine.reduce(passes.given_sample, self.cells, confidence, self.first, step=self.step))
        labelled = np.diff(table.indptr) > 0 if self.n_labels > 1 else np.ones(table.shape[0], dtype=bool)
        if not labelled.all():
            scores, table = scores[labelled], table[labelled]
        candidates = sparse.csr_array((np.ones(table.nnz), table.indices, table.indptr), table.shape)
        return scores, candidates, table.data

    def first_evidence(self) -> tuple[Evidence, float]:
        """Return the evidence of the candidates themselves, and the noise floor."""
        first = self.evidence(self.engine.map(candidate_values, self.cells, keep=False))
        self.floor = noise_floor(first.probability, first.sample_target > 0)
        self.chance = self.over_scores(passes.chance_values, first, floor=self.floor)
        return first, self.floor

    def decide_noise_model(
        self, first: Evidence, every_row_has_a_label: bool | str, *, some_empty: bool, n_answers: int
    ) -> None:
        """Estimate how candidates compete and how likely rows without a true one are."""
        presence, competition = float("inf"), COMPETITION
        # Where rows without candidates are seen, competition between candidates misleads.
        independent = some_empty and every_row_has_a_label is not True
        if every_row_has_a_label is not True and not independent:
            chance = true_probabilities(first.probability, self.floor)
            presence = presence_weight(chance, first.sample_target > 0, self.floor, competition=competition)
            if every_row_has_a_label is False:
                presence = min(presence, _PRESENCE_IF_IN_DOUBT)
            if n_answers:
                parts = self.engine.reduce(passes.answered_rows, self.cells, self.chance)
                chance, given, right, wrong = (np.concatenate([part[k] for part in parts]) for k in range(4))
                competition, presence = likeliest_noise_model(
                    chance, given, right, wrong, self.floor, competition=competition, presence=presence
                )
        self.noise = NoiseModel(self.floor, presence, independent, competition)
        self.has_answers, self.is_known = n_answers > 0, every_row_has_a_label is True

    def confidence(self, chance: State, competition: float, *, keep: bool = True) -> State:
        """Return the confidences at some probabilities of being true."""
        how = {"noise": self.noise, "competition": competition}
        return self.engine.map(passes.confidence_values, self.cells, chance, keep=keep, **how)

    def estimate(self, mode: Literal["auto", "several", "single"]) -> Estimate:
        """Estimate confidences in one mode, or in both with weights by the evidence for them."""
        if mode != "auto":
            return self._in_mode(mode)
        several = self._in_mode("several")
        cardinality = float(self.engine.reduce(passes.total, several.confidence["several"])) / self.n_rows
        possible = float(np.clip((_FEW - cardinality) / _FADE, 0.0, 1.0))
        if self.noise.independent or possible == 0.0:
            return several
        single = self._in_mode("single")
        hits = [self.over_scores(passes.hits, estimate.evidence) for estimate in (single, several)]
        gain, squares = self.engine.reduce(passes.gains, *hits)
        mean = gain / self.n_rows
        doubt = max(float(np.sqrt(max(squares / self.n_rows - mean**2, 0.0))) / np.sqrt(self.n_rows), _WORTH / 3.0)
        weight = possible * float(np.clip(mean / doubt / _FULL_WEIGHT, 0.0, 1.0)) ** 2
        if weight in (0.0, 1.0):
            return single if weight else several
        confidence = several.confidence | single.confidence
        mixed = self._mixed(confidence, weight)
        target = self.engine.map(passes.target_values, self.cells, mixed, keep=False)
        return Estimate(confidence, weight, self.predictor(target))

    def _in_mode(self, mode: Mode) -> Estimate:
        """Estimate confidences from the first evidence, refine them once, and fit the predictor to them."""
        competition = self.noise.in_mode(mode)
        second = self.evidence(self.confidence(self.chance, competition))
        confidence = self.over_scores(passes.refined_values, second, noise=self.noise, competition=competition)
        target = self.engine.map(passes.target_values, self.cells, confidence, keep=False)
        return Estimate({mode: confidence}, float(mode == "single"), self.predictor(target))

    def final(self, estimate: Estimate) -> Final:
        """Correct by label correlations, estimate the confidences once more, and average both estimates."""
        # Competition ranks candidates well but makes all confidences too small.
        alone = float(self.engine.reduce(passes.total, self.confidence(self.chance, 0.0, keep=False)))
        n_true = shrunk_count(alone, self.n_candidates)
        scaled = {mode: self._scaled(mode, values, n_true, keep=False) for mode, values in estimate.confidence.items()}
        correlations = self._correlations(estimate, self._mixed(scaled, estimate.single_weight, keep=False))
        chance = self.over_scores(passes.corrected_values, estimate.evidence, correlations=correlations)
        offset = None
        if self.has_answers:
            n_true, offset = self._by_answers(chance, n_true)
        final: dict[Mode, State] = {}
        without = 0.0
        for mode, values in estimate.confidence.items():
            competition = self.noise.in_mode(mode)
            both = self.engine.map(
                passes.averaged_values, self.cells, chance, values,
                noise=self.noise, competition=competition, offset=offset, is_single=mode == "single",
            )  # fmt: skip
            final[mode] = self._scaled(mode, both, n_true)
            if self.has_answers and not self.is_known:
                share = self.engine.reduce(
                    passes.rows_without_truth_by_answers, self.cells, final[mode], is_single=mode == "single"
                )
            else:
                share = self.engine.reduce(
                    passes.rows_without_truth, self.cells, self.chance, noise=self.noise, competition=competition
                )
            several = 1.0 if len(estimate.confidence) == 1 else 1.0 - estimate.single_weight
            without += (several if mode == "several" else estimate.single_weight) * share / self.n_rows
        confidence = self._mixed(final, estimate.single_weight)
        if self.has_answers:
            confidence = self.engine.map(passes.with_answers, self.cells, confidence)
        return Final(correlations, confidence, float(without))

    def _correlations(self, estimate: Estimate, before: State) -> LabelCorrelations | None:
        """Fit the label correlations to confidences of the sample."""
        target = self.engine.map(passes.target_values, self.cells, before, keep=False)
        found = self.engine.reduce(passes.sample_values, self.cells, target, self.first, step=self.step)
        return correlations_of(estimate.evidence, _stacked(found).toarray())

    def held_out_scores(self, evidence: Evidence, Y: State, correlations: LabelCorrelations | None) -> State:
        """Return the corrected leave-one-out probabilities of a block's rows."""
        return self.over_scores(passes.out_of_fold_scores, evidence, Y, keep=False, correlations=correlations)

    def _by_answers(self, chance: State, n_true: float) -> tuple[float, FloatArray]:
        """Return how many candidates are true by the answers as well, and what they add to each label's log odds."""
        plain = self.engine.map(passes.plain_values, self.cells, chance, noise=self.noise)
        shift = rescaling_shift(self.engine, plain, n_true)
        asked = self.engine.reduce(passes.asked_cells, self.cells, plain, shift=shift)
        log_odds, label, is_true = (np.concatenate([part[k] for part in asked]) for k in range(3))
        of_all, per_label = fit_label_rates(log_odds, label, is_true, self.n_labels)
        n_open = self.engine.reduce(passes.open_total, self.cells, plain, shift=shift, rates=of_all + per_label)
        return float(n_open), per_label

    def _scaled(self, mode: Mode, values: State, n_true: float, *, keep: bool = True) -> State:
        if mode != "several":
            return values
        return self.engine.map(passes.shifted, values, keep=keep, shift=rescaling_shift(self.engine, values, n_true))

    def _mixed(self, of_mode: dict[Mode, State], weight: float, *, keep: bool = True) -> State:
        if len(of_mode) == 1:
            return next(iter(of_mode.values()))
        return self.engine.map(passes.mixture, of_mode["several"], of_mode["single"], keep=keep, weight=weight)


def rescaling_shift(engine: Engine, values: State, wanted: float) -> float:
    """Return what, added to the log odds of all confidences, makes them sum to `wanted`.

    Newton's method on the log odds of their mean, which are nearly a straight line, inside a shrinking interval.
    """
    low, high, shift = -40.0, 40.0, 0.0
    for _ in range(100):
        count, total, slope = engine.reduce(passes.shifted_sums, values, shift=shift)
        if not count:
            return 0.0
        goal = float(np.clip(wanted, 1e-3 * count, (1.0 - 1e-3) * count))
        low, high = (shift, high) if total < goal else (low, shift)
        mean = min(max(total / count, 1e-300), 1.0 - 1e-16)
        change = (logit(goal / count) - logit(mean)) * mean * (1.0 - mean) * count / max(slope, 1e-300)
        # Before the interval is looked at: at the root, rounding may point out of it, and each value costs a pass.
        if abs(change) < 1e-11 * max(1.0, abs(shift)):
            break
        following = shift + change
        if not low < following < high:
            following = (low + high) / 2.0
        if abs(following - shift) < 1e-12 * max(1.0, abs(shift)):
            break
        shift = following
    return float(shift)


def correlations_of(evidence: Evidence, target: FloatArray) -> LabelCorrelations:
    """Fit the label correlations of an evidence to the sample."""
    return fit_label_correlations(as_log_odds(evidence.probability), target)


def _stacked(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    return sparse.csr_array(sparse.vstack(parts)) if sparse.issparse(parts[0]) else np.concatenate(parts)
