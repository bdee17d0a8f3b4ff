"""The estimator ClearPML: leave-one-out evidence, confidences, predictor."""

import logging
from dataclasses import replace
from itertools import pairwise
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.utils._param_validation import Interval, StrOptions

from pmlkit._typing import CSR, BoolArray, Features, FloatArray
from pmlkit.blocks import RowBlocks, State
from pmlkit.methods.base import BasePML, Learned, LearnedBlocks
from pmlkit.methods.clear_pml import cell_passes as passes
from pmlkit.methods.clear_pml.block_ridge import BlockRidge, block_ridge
from pmlkit.methods.clear_pml.cell_passes import as_log_odds
from pmlkit.methods.clear_pml.cells import Cells, cells_of_block
from pmlkit.methods.clear_pml.confidence_rounds import Evidence, Rounds, correlations_of
from pmlkit.methods.clear_pml.dual_ridge import DualRidge, dual_ridge
from pmlkit.methods.clear_pml.empty_rows import ROWS as EMPTY_ROWS_SAMPLE
from pmlkit.methods.clear_pml.empty_rows import EmptyRows, decide_by_sample, fit_with_pseudo_labels
from pmlkit.methods.clear_pml.label_correlations import LabelCorrelations
from pmlkit.methods.clear_pml.many_labels import MANY_LABELS, ManyLabelRounds
from pmlkit.methods.clear_pml.primal_ridge import LinearKernel, PrimalRidge, primal_ridge
from pmlkit.methods.clear_pml.ridge_choice import (
    LANDMARKS,
    Survey,
    choose_ridge,
    chosen_rows,
    merge_surveys,
    solves_all_rows,
    survey_block,
    twin_labels,
    warn_of_twin_labels,
)
from pmlkit.methods.clear_pml.word_ridge import WordRidge
from pmlkit.methods.progress import Progress

logger = logging.getLogger(__name__)

_PSEUDO_LABEL_WEIGHT, _PSEUDO_LABEL_SLOPE = 0.3, 1.5  # of an unlabelled row, and how much surer its guess is made


class ClearPML(BasePML):
    r"""ClearPML: estimate each candidate's probability of being true out of sample, then learn from the estimates.

    The method to start with. Kernel ridge regression on landmarks scores every row by the model of all *other* rows
    (exact leave-one-out, at the cost of one fit); one logistic curve per label turns scores into probabilities. Bayes'
    rule with the estimated rate at which false labels become candidates gives each candidate its confidence; a second
    round learns from the confidences, and the predictor from both. Finally the log odds of a row's labels correct
    each other.

    Parameters
    ----------
    n_landmarks : int or "auto", default="auto"
        Rows that span the kernel's functions. "auto" takes all of up to 2,500 rows where each has candidates (up to
        8,000 of wide text, with 1,000 words or more), and otherwise 1,000; with millions of rows there are fewer, so
        that the kernel fits into memory. More than 8,000 rows of wide text need none: "auto" solves linear regression
        on their 5,000 to 10,000 most frequent words.
    mode : {"auto", "several", "single"}, default="auto"
        Whether a row may have several true labels or has at most one. "auto" weights both by the evidence: "single"
        counts where it makes the best label, out of sample, a candidate clearly more often.
    every_row_has_a_label : {"auto", True, False}, default="auto"
        Whether every row has a true label among its candidates. "auto" estimates how many have (see
        `share_without_truth_`); where rows without candidates are negative, candidates are judged one by one.
    empty_rows : {"auto", "unlabelled", "negative"}, default="auto"
        What rows without candidates are: not labelled yet, or without any label. "auto" takes them for negative where
        features predict well which rows are empty (logged with the reason). The predictor learns negative rows
        as such; unlabelled rows join it with its own predictions, except on wide text.
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default="hamming"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`. "hamming" makes the fewest
        errors and leaves doubtful rows without a label, "f1" gives each row at least one.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_rows, n_labels)
        Probability that each candidate is true, by models that did not see the row's candidates.
    noise_rate_ : array of shape (n_labels,)
        Estimated share of each label's candidates that are false.
    noise_floor_ : float
        The estimated chance that a label which is not true is a candidate all the same.
    mode_ : {"several", "single"}
        The mode with the larger weight.
    single_weight_ : float
        Weight of the mode "single" in the confidences.
    share_without_truth_ : float
        Share of rows with candidates none of which is true, as far as noise is random. Not a measurement: people's
        mistakes follow the features and pass for truth (0.00 and 0.02 where 0.31 and 0.21 are true). With `verified`
        answers it follows from the confidences that they corrected (0.37 and 0.18 by 150 reviewed rows, but 0.11 on
        a set where every row has a true label).
    empty_rows_ : {"unlabelled", "negative"} or None
        What rows without candidates were taken for; None where there are none.
    empty_rows_reason_ : str or None
        Why.
    weighting_ : {"standard", "unit", "log", "idf"}
        The weighting of the features with the smaller leave-one-out error, see
        :func:`pmlkit.methods.clear_pml.feature_weighting.fit_weighting`.
    regularization_ : float
        The ridge penalty with the smallest leave-one-out error.
    out_of_fold_scores_ : float32 array of shape (n_samples, n_labels)
        The predictor's scores of the training rows, each made without the row itself; NaN for unlabelled rows.
    dual_coef_ : array of shape (n_landmarks, n_labels) or (n_words, n_labels)
        Of the kernel with the landmarks; of the weighted words themselves where wide text has more than 8,000 rows. A
        CSR array for wide text with more than 2,000 labels.
    intercept_ : array of shape (n_labels,)
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    Rows without candidates take part as landmarks and in the weighting of the features, show that a row need not have
    a true label, and join the predictor by self-training: it is refitted with its own predictions for them.

    Beyond 2,000 labels cost and memory follow the candidates: one curve serves all labels, there is no map between
    labels, and wide text is solved by words and 100 directions of them (see docs/many-labels.md). `noise_floor_` is
    then the mean of the labels' floors, `mode="auto"` means "several", and beyond 100 million cells
    `out_of_fold_scores_` is a CSR array of the candidates and each row's ten best labels.

    Noise that depends on the features in the same way as the truth cannot be told from it, by this or any
    method; see docs/methods/clear-pml.md.

    Examples
    --------
    >>> from pmlkit import ClearPML
    >>> from pmlkit.data import load_digit_strips
    >>> from pmlkit.metrics import cleaning_auc
    >>> strips = load_digit_strips(300, random_state=0)
    >>> model = ClearPML().fit(strips.X, strips.Y)
    >>> bool(cleaning_auc(strips.truth, strips.Y, model.label_confidence_) > 0.85)
    True
    """

    _uses_unlabelled: ClassVar[bool] = True
    _cross_fits: ClassVar[bool] = True
    _cleaning_is_calibrated: ClassVar[bool] = True

    _scores_are_probabilities: ClassVar[bool] = True

    _calibrates: ClassVar[bool] = True

    _fits_blocks: ClassVar[bool] = True

    _kernel: Any
    intercept_: FloatArray
    dual_coef_: Any

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BasePML._parameter_constraints,
        "n_landmarks": [Interval(Integral, 2, None, closed="left"), StrOptions({"auto"})],
        "mode": [StrOptions({"auto", "several", "single"})],
        "every_row_has_a_label": ["boolean", StrOptions({"auto"})],
        "empty_rows": [StrOptions({"auto", "unlabelled", "negative"})],
    }

    def __init__(
        self,
        *,
        n_landmarks: int | Literal["auto"] = "auto",
        mode: Literal["auto", "several", "single"] = "auto",
        every_row_has_a_label: bool | Literal["auto"] = "auto",
        empty_rows: Literal["auto", "unlabelled", "negative"] = "auto",
        threshold: str | float = "hamming",
    ) -> None:
        self.n_landmarks = n_landmarks
        self.mode = mode
        self.every_row_has_a_label = every_row_has_a_label
        self.empty_rows = empty_rows
        self.threshold = threshold

    def _n_tasks(self, Y: CSR) -> int:
        return 4

    def fit(self, X: Any, y: Any = None, verified: Any = None) -> Self:
        """Learn from rows and their candidate labels.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
        y : array, sparse matrix or DataFrame of shape (n_samples, n_labels)
            Candidate labels, as for every method.
        verified : sparse matrix or array of shape (n_samples, n_labels), optional
            Cells that a reviewer has looked at: +1 where the label is right, -1 where it is wrong, 0 elsewhere. Wrong
            candidates are taken out and right ones kept whatever the features say; the answers also correct the rates
            of the labels and, where they clearly say so, competition and presence. A row that loses all
            candidates stays labelled: no label applies to it.

        Returns
        -------
        self
        """
        self._fit_checked(X, y, verified=verified)
        warn_of_twin_labels(self.__dict__.pop("_twins"), self.label_names_.tolist())
        return self

    def _fit(self, X: Features, Y: CSR, progress: Progress, verified: Any = None) -> Learned:
        learned = self._fit_blocks(RowBlocks.of_arrays(X, Y), progress, verified=verified)
        (confidence,), (scores,) = learned.confidence, learned.scores
        return Learned(confidence=confidence, scores=scores, sample=learned.sample)

    def _fit_blocks(self, rows: RowBlocks, progress: Progress, verified: Any = None) -> LearnedBlocks:
        engine, n_labels = rows.engine, rows.n_labels
        assert rows.Y is not None
        many = n_labels > MANY_LABELS
        if many:
            self._check_for_many_labels(n_labels, verified)
        cells = engine.map(cells_of_block, rows.Y, *_answers_in_blocks(verified, rows))
        size = max(LANDMARKS, EMPTY_ROWS_SAMPLE, 0 if self.n_landmarks == "auto" else self.n_landmarks)
        survey = Survey.of(
            engine.reduce(survey_block, rows.X, rows.Y, cells, rows.first_rows, combine=merge_surveys, size=size)
        )
        if not survey.n_candidates + survey.n_answers and n_labels > 1:
            raise ValueError("y has no candidate label in any row: there is nothing to learn from.")
        self._twins = twin_labels(survey.pairs, rows.n_rows)
        empty_rows = self._decide_empty_rows(rows, cells, survey)
        self.empty_rows_ = empty_rows and empty_rows.meaning
        self.empty_rows_reason_ = empty_rows and empty_rows.reason
        exact = solves_all_rows(survey, rows, self.n_landmarks)
        if exact and len(rows.sizes) > 1:
            return self._fit_whole(rows, progress, verified)
        engine.begin(self._fit_key(rows, survey))
        used = engine.map(_used_rows, rows.X, cells, keep=False)
        first = engine.of(np.cumsum([0, *survey.n_used[:-1]]).tolist())
        chosen = choose_ridge(rows, used, cells, survey, n_landmarks=self.n_landmarks, exact=exact)
        ridge, self._kernel, self._weighting = chosen.ridge, chosen.kernel, chosen.weighting
        self.weighting_, self.regularization_ = chosen.weighting.weighting, chosen.penalty
        counts: dict[str, Any] = {"n_rows": sum(survey.n_used), "n_labels": n_labels}
        counts["n_candidates"] = survey.n_candidates
        rounds: Rounds
        if many:
            rounds = ManyLabelRounds(engine, cells, first, ridge, per_label=survey.pairs.diagonal(), **counts)
        else:
            assert not isinstance(ridge, WordRidge)
            rounds = Rounds(engine, cells, first, ridge, **counts)
        progress.step("features")
        start, self.noise_floor_ = rounds.first_evidence()
        progress.step("evidence")
        # Unlabelled rows say nothing about the others; negative ones show that a row need not have a true label.
        some_empty = n_labels > 1 and survey.n_given_rows < rows.n_rows and self.empty_rows_ != "unlabelled"
        rounds.decide_noise_model(start, self.every_row_has_a_label, some_empty=some_empty, n_answers=survey.n_answers)
        del start
        estimate = rounds.estimate(self.mode)
        self.single_weight_ = estimate.single_weight
        self.mode_ = "single" if estimate.single_weight > 0.5 else "several"
        progress.step("confidences")
        final = rounds.final(estimate)
        self.share_without_truth_ = final.share_without_truth
        logger.info(
            "Rows none of whose candidates is true, %s: %.1f %% (%s).",
            "by the answers" if survey.n_answers else "if noise is random",
            100.0 * self.share_without_truth_,
            "estimated"
            if self.every_row_has_a_label == "auto"
            else f"every_row_has_a_label={self.every_row_has_a_label}",
        )
        evidence, self._correlations = estimate.evidence, final.correlations
        if self.empty_rows_ == "negative":
            rounds, evidence, self._correlations = self._with_negative_rows(
                rows, rounds, final.confidence, survey.moments.n_nonzero
            )
        self._calibration = evidence.calibration
        if isinstance(ridge, WordRidge):
            model: Any = evidence.model
            self.intercept_, (self._kernel, self.dual_coef_) = np.zeros(n_labels), ridge.kernel_of(model)
        else:
            ridge = rounds.ridge
            self.intercept_, self.dual_coef_ = ridge.on_kernel(evidence.model)
        if isinstance(ridge, BlockRidge) and self.empty_rows_ == "unlabelled" and not many:
            empty = engine.map(_empty_rows, rows.X, cells, keep=False)
            self.intercept_, self.dual_coef_ = fit_with_pseudo_labels(
                ridge,
                evidence.model,
                empty,
                n_others=rows.n_rows - sum(survey.n_used),
                curves=(self._calibration, self._correlations, _PSEUDO_LABEL_SLOPE),
                weight=_PSEUDO_LABEL_WEIGHT,
            )
        n_given, n_true = engine.reduce(passes.label_totals, cells, final.confidence)
        self.noise_rate_ = 1.0 - n_true / np.maximum(n_given, 1)
        progress.step("predictor")
        return LearnedBlocks(
            confidence=engine.map(passes.given_values, cells, final.confidence),
            scores=rounds.held_out_scores(evidence, rows.Y, self._correlations),
            sample=rounds.sample_of_rule(evidence, self._correlations, final.confidence),
        )

    def _with_negative_rows(
        self, rows: RowBlocks, rounds: Rounds, confidence: State, n_cells: int
    ) -> tuple[Rounds, Evidence, LabelCorrelations]:
        """Fit the predictor to all rows, those without candidates as rows without any label."""
        engine = rows.engine
        cells = engine.map(Cells.of_all_rows, rounds.cells)
        target = engine.map(passes.target_values, cells, confidence)
        counts: dict[str, Any] = {"n_rows": rows.n_rows, "n_labels": rows.n_labels}
        ridge: BlockRidge | DualRidge | PrimalRidge
        if isinstance(self._kernel, LinearKernel):
            ridge, _ = primal_ridge(
                engine, rows.X, cells, self._weighting, self._kernel,
                n_rows=rows.n_rows, n_cells=n_cells, penalty=self.regularization_,
            )  # fmt: skip
        elif isinstance(rounds.ridge, DualRidge):
            landmarks = self._weighting.transform(rows.X.compute())
            self._kernel = replace(self._kernel, landmarks=landmarks)
            ridge = dual_ridge(self._kernel, self.regularization_, dtype=rounds.ridge.dtype)
        else:
            ridge, _ = block_ridge(
                engine, rows.X, cells, self._weighting, self._kernel,
                dtype=rounds.ridge.dtype, penalty=self.regularization_, **counts,
            )  # fmt: skip
        among_all = Rounds(engine, cells, rows.first_rows, ridge, n_candidates=rounds.n_candidates, **counts)
        evidence = among_all.predictor(target)
        return among_all, evidence, correlations_of(evidence, evidence.sample_target)

    def _check_for_many_labels(self, n_labels: int, verified: Any) -> None:
        """Say in one sentence what thousands of labels do not have."""
        for name, given in (
            ("verified=", verified is not None),
            ("empty_rows='negative'", self.empty_rows == "negative"),
        ):
            if given:
                raise ValueError(
                    f"{name} is not supported for more than {MANY_LABELS:,} labels, got {n_labels:,}: leave it out, "
                    "or fit groups of labels."
                )

    def _fit_whole(self, rows: RowBlocks, progress: Progress, verified: Any) -> LearnedBlocks:
        """Fit few rows of wide text, all of which are landmarks, in one place, and hand back the blocks."""
        assert rows.Y is not None
        whole = RowBlocks.of_arrays(rows.X.compute(), rows.Y.compute())
        learned = self._fit_blocks(whole, progress, verified=verified)
        (confidence,), (scores,) = learned.confidence, learned.scores
        bounds = np.cumsum([0, *rows.sizes])
        cell_bounds = whole.Y.compute().indptr[bounds] if whole.Y is not None else bounds
        return LearnedBlocks(
            confidence=rows.engine.of([confidence[a:b] for a, b in pairwise(cell_bounds)]),
            scores=rows.engine.of([scores[a:b] for a, b in pairwise(bounds)]),
            sample=learned.sample,
        )

    def _fit_key(self, rows: RowBlocks, survey: Survey) -> dict[str, Any]:
        """Return what a checkpoint belongs to."""
        return {
            "method": type(self).__name__,
            "parameters": {name: str(value) for name, value in self.get_params(deep=False).items()},
            "shape": (rows.n_rows, rows.n_features, rows.n_labels, list(rows.sizes)),
            "content": (survey.moments.n_nonzero, survey.n_candidates, survey.everywhere[0].tolist()[:100]),
            "labels": np.asarray(survey.pairs.diagonal()).tolist(),
        }

    def _decide_empty_rows(self, rows: RowBlocks, cells: State, survey: Survey) -> EmptyRows | None:
        if sum(survey.n_used) == rows.n_rows:
            return None
        if self.empty_rows != "auto":
            decision = EmptyRows(self.empty_rows, "as given")
        elif rows.n_labels > MANY_LABELS:
            decision = EmptyRows("unlabelled", f"there are more than {MANY_LABELS:,} labels")
        else:
            sample = chosen_rows(survey.everywhere, EMPTY_ROWS_SAMPLE)
            is_used = rows.take_rows(rows.engine.map(_is_used, cells, keep=False), sample)
            decision = decide_by_sample(rows.take_rows(rows.X, sample), ~is_used, survey.moments)
        logger.info("Rows without candidates are taken for %s: %s.", decision.meaning, decision.reason)
        return decision

    def _log_odds(self, raw: FloatArray) -> FloatArray:
        assert self._correlations is not None
        return self._correlations.adjust(as_log_odds(self._calibration.probabilities(raw)))

    def _scores(self, X: Features) -> FloatArray:
        raw = self._kernel.times(self._weighting.transform(X), self.dual_coef_) + self.intercept_
        if self._correlations is None:
            return np.asarray(self._calibration.probabilities(raw), dtype=np.float64)
        return np.asarray(expit(self._log_odds(raw)))


def _answers_in_blocks(verified: Any, rows: RowBlocks) -> list[State]:
    if verified is None:
        return []
    shape = rows.n_rows, rows.n_labels
    if np.shape(verified) != shape:
        raise ValueError(f"verified must have the shape of y, {shape}, got {np.shape(verified)}.")
    table = sparse.csr_array(verified) if sparse.issparse(verified) else np.asarray(verified)
    return [rows.engine.of([table[a:b] for a, b in pairwise(np.cumsum([0, *rows.sizes]).tolist())])]


def _used_rows(X: Features, cells: Cells) -> Features:
    return X if cells.used.all() else X[cells.used]


def _empty_rows(X: Features, cells: Cells) -> Features:
    return X[~cells.used]


def _is_used(cells: Cells) -> BoolArray:
    return cells.used
