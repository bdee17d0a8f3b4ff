"""The estimator ClearPML: leave-one-out evidence, confidences, predictor."""

import logging
import warnings
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.utils._param_validation import Interval, StrOptions

from pmlkit._typing import CSR, BoolArray, Features, FloatArray
from pmlkit.exceptions import PMLWarning
from pmlkit.methods.base import BasePML, Learned, labelled_rows
from pmlkit.methods.clear_pml.confidence_rounds import (
    COMPETITION,
    CandidateModel,
    Evidence,
    as_log_odds,
    blended_target,
    correct_by_correlations,
)
from pmlkit.methods.clear_pml.dual_ridge import DualRidge, dual_ridge
from pmlkit.methods.clear_pml.empty_rows import decide_empty_rows
from pmlkit.methods.clear_pml.feature_weighting import FeatureWeighting, fit_weighting, possible_weightings
from pmlkit.methods.clear_pml.landmarks import LandmarkKernel, mean_distance_between, sample_by_content
from pmlkit.methods.clear_pml.loo_ridge import LooRidge, ridge_system, search_regularization
from pmlkit.methods.clear_pml.posterior import noise_floor, presence_weight, true_probabilities
from pmlkit.methods.clear_pml.self_training import fit_with_pseudo_labels
from pmlkit.methods.clear_pml.verified import Answers, likeliest_noise_model, read_verified
from pmlkit.methods.progress import Progress

__all__ = ["ClearPML"]

logger = logging.getLogger(__name__)

_ROWS_TO_COMPARE, _ROWS_TO_TRY = 250, 500  # whose errors decide on the weights of features, and on the penalty
_PSEUDO_LABEL_WEIGHT, _PSEUDO_LABEL_SLOPE = 0.3, 1.5  # of an unlabelled row, and how much surer its guess is made
_PRESENCE_IF_IN_DOUBT = 10.0  # weight of a true label, at most, where the user says that rows may have none
_TWINS, _ROWS_OF_TWINS = 0.95, 20  # Jaccard index of two labels, and candidates of each, above which they are told
_LANDMARKS = 1000  # which cannot hold what rows with more features than that say
_ALWAYS_ALL, _NEVER_ALL = 4_000, 15_000  # sparse rows up to which all are landmarks, and beyond which they are not
_CUBE_PER_CELL = 10_000.0  # between them, as long as n^3 is below this many times the products of a linear model
_ROWS_IN_DOUBLE = 2_000
_CELLS_IN_DOUBLE = 50_000_000  # of the kernel, beyond which it is kept in single precision
_CELLS = 400_000_000  # of the kernel; with more rows there are fewer landmarks


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
        Rows that span the kernel's functions. "auto" takes all rows of wide text (1,000 words or more) up to 4,000
        rows, up to 15,000 where there are many labels, and otherwise 1,000; with millions of rows there are fewer, so
        that the kernel fits into memory.
    mode : {"auto", "several", "single"}, default="auto"
        Whether a row may have several true labels or has at most one. "auto" weights both by the evidence: "single"
        counts where it makes the best label, out of sample, a candidate clearly more often.
    every_row_has_a_label : {"auto", True, False}, default="auto"
        Whether every row has a true label among its candidates. "auto" estimates how many have (see
        `share_without_truth_`); where some rows have no candidates at all, candidates are then judged one by one.
    empty_rows : {"auto", "unlabelled", "negative"}, default="auto"
        What rows without candidates are: not labelled yet, or without any label. "auto" takes them for negative where
        features predict well which rows are empty (logged with the reason). The predictor learns negative rows
        as such; unlabelled rows join it with its own predictions.
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
        Estimated share of rows with candidates none of which is true. Noise that follows the features makes it too
        small.
    empty_rows_ : {"unlabelled", "negative"} or None
        What rows without candidates were taken for; None where there are none.
    weighting_ : {"standard", "unit", "log", "idf"}
        The weighting of the features with the smaller leave-one-out error, see
        :func:`pmlkit.methods.clear_pml.feature_weighting.fit_weighting`.
    regularization_ : float
        The ridge penalty with the smallest leave-one-out error.
    out_of_fold_scores_ : float32 array of shape (n_samples, n_labels)
        The predictor's scores of the training rows, each made without the row itself; NaN for unlabelled rows.
    dual_coef_ : array of shape (n_landmarks, n_labels)
    intercept_ : array of shape (n_labels,)
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    Rows without candidates take part as landmarks and in the weighting of the features, show that a row need not have
    a true label, and join the predictor by self-training: it is refitted with its own predictions for them.

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

    _scores_are_probabilities: ClassVar[bool] = True

    _calibrates: ClassVar[bool] = True

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
        return self

    def _fit(self, X: Features, Y: CSR, progress: Progress, verified: Any = None) -> Learned:
        _warn_of_twin_labels(Y)
        answers = None if verified is None else read_verified(verified, Y.shape)
        has_candidates = labelled_rows(Y) if answers is None else labelled_rows(Y) | answers.rows
        self.empty_rows_ = self._decide_empty_rows(X, has_candidates)
        labelled = X if has_candidates.all() else X[has_candidates]
        given = np.asarray((Y if has_candidates.all() else Y[has_candidates]).toarray() > 0)
        is_candidate = given
        if answers is not None:
            answers = answers.of_rows(has_candidates)
            is_candidate = (given | answers.right) & ~answers.wrong
        # Unlabelled rows join by way of the landmarks' moments.
        exact = self.empty_rows_ != "unlabelled" and self._all_rows_affordable(X, Y.shape[1])
        self._weighting, self._kernel, ridge = self._choose_features(X, labelled, is_candidate, exact=exact)
        progress.step("features")
        first = Evidence.of(ridge, is_candidate.astype(ridge.dtype))
        self.noise_floor_ = noise_floor(first.probability, is_candidate)
        chance = true_probabilities(first.probability, self.noise_floor_)
        progress.step("evidence")
        some_empty = not (has_candidates.all() and given.any(axis=1).all())
        model = self._noise_model(ridge, is_candidate, chance, some_empty, answers, given)
        estimate = model.estimate(self.mode)
        self.single_weight_ = estimate.single_weight
        self.mode_ = "single" if estimate.single_weight > 0.5 else "several"
        progress.step("confidences")
        final = model.final(estimate)
        self.share_without_truth_ = final.share_without_truth
        scores = np.zeros(Y.shape)
        if self.empty_rows_ == "negative":
            target = np.zeros(Y.shape)
            target[has_candidates] = blended_target(is_candidate, final.confidence)
            weighted = self._weighting.transform(X)
            if isinstance(ridge, DualRidge):
                self._kernel = LandmarkKernel(weighted, self._kernel.width, self._kernel.linear)
                ridge = dual_ridge(self._kernel, self.regularization_, dtype=ridge.dtype)
            else:
                ridge = ridge_system(self._kernel, weighted, dtype=ridge.dtype).solved(self.regularization_)
            evidence = Evidence.of(ridge, target)
            self._correlations, scores = correct_by_correlations(evidence, target)
        else:
            evidence, self._correlations = estimate.evidence, final.correlations
            scores[has_candidates] = final.probability
        self._calibration = evidence.calibration
        self.intercept_, self.dual_coef_ = ridge.on_kernel(evidence.model)
        if isinstance(ridge, LooRidge) and self.empty_rows_ == "unlabelled":
            self.intercept_, self.dual_coef_ = fit_with_pseudo_labels(
                ridge,
                evidence.model,
                self._kernel,
                self._weighting.transform(X[~has_candidates]),
                lambda raw: expit(_PSEUDO_LABEL_SLOPE * self._log_odds(raw)),
                _PSEUDO_LABEL_WEIGHT,
            )
        row = np.repeat(np.cumsum(has_candidates) - 1, np.diff(Y.indptr))
        confidence = final.confidence[row, Y.indices]
        n_candidates = np.bincount(Y.indices, minlength=Y.shape[1])
        n_true = np.bincount(Y.indices, weights=confidence, minlength=Y.shape[1])
        self.noise_rate_ = 1.0 - n_true / np.maximum(n_candidates, 1)
        progress.step("predictor")
        return Learned(confidence=confidence, scores=scores)

    def _noise_model(
        self,
        ridge: LooRidge | DualRidge,
        is_candidate: BoolArray,
        chance: FloatArray,
        some_empty: bool,
        answers: Answers | None,
        given: BoolArray,
    ) -> CandidateModel:
        floor, presence, competition = self.noise_floor_, float("inf"), COMPETITION
        # Where rows without candidates are seen, competition between candidates misleads.
        independent = some_empty and self.every_row_has_a_label is not True
        if self.every_row_has_a_label is not True and not independent:
            presence = presence_weight(chance, is_candidate, floor, competition=competition)
            if self.every_row_has_a_label is False:
                presence = min(presence, _PRESENCE_IF_IN_DOUBT)
            if answers is not None and (answers.right.any() or answers.wrong.any()):
                competition, presence = likeliest_noise_model(
                    chance, given, answers, floor, competition=competition, presence=presence
                )
        return CandidateModel(ridge, is_candidate, chance, floor, presence, independent, competition, answers, given)

    def _decide_empty_rows(self, X: Features, has_candidates: BoolArray) -> str | None:
        if has_candidates.all():
            return None
        return decide_empty_rows(X, ~has_candidates).meaning if self.empty_rows == "auto" else self.empty_rows

    def _choose_features(
        self, X: Features, rows: Features, is_candidate: BoolArray, *, exact: bool
    ) -> tuple[FeatureWeighting, LandmarkKernel, LooRidge | DualRidge]:
        weightings = possible_weightings(X)
        linear = weightings[0] != "standard"
        trial = sample_by_content(rows, _ROWS_TO_TRY)
        few = trial[:: -(-len(trial) // _ROWS_TO_COMPARE)]
        trials = []
        for kind in weightings:
            weighting = fit_weighting(X, kind)
            some = weighting.transform(rows[few])
            system = ridge_system(LandmarkKernel(some, mean_distance_between(some), linear), some)
            found = search_regularization(system, is_candidate[few].astype(np.float64), np.arange(len(few)))
            trials.append((weighting, *found))
        logger.info("Leave-one-out errors of the weightings: %s", {found[0].weighting: found[-1] for found in trials})
        weighting, regularization, _ = min(trials, key=lambda found: found[-1])
        self.weighting_ = weighting.weighting
        weighted = weighting.transform(rows)
        n_landmarks = _LANDMARKS if self.n_landmarks == "auto" else self.n_landmarks
        n_landmarks = min(n_landmarks, max(100, _CELLS // len(is_candidate)))
        landmarks = weighting.transform(X[sample_by_content(X, n_landmarks)])
        kernel = LandmarkKernel(landmarks, mean_distance_between(landmarks), linear)
        dtype = np.float32 if len(is_candidate) * landmarks.shape[0] > _CELLS_IN_DOUBLE else np.float64
        system = ridge_system(kernel, weighted, dtype=dtype)
        self.regularization_, _ = search_regularization(system, is_candidate.astype(dtype), trial, start=regularization)
        if not exact or landmarks.shape[0] == weighted.shape[0]:
            return weighting, kernel, system.solved(self.regularization_)
        kernel = LandmarkKernel(weighted, kernel.width, linear)
        precision = np.float32 if len(is_candidate) > _ROWS_IN_DOUBLE else np.float64
        return weighting, kernel, dual_ridge(kernel, self.regularization_, dtype=precision)

    def _all_rows_affordable(self, X: Features, n_labels: int) -> bool:
        """Whether every row becomes a landmark: rows of wide text, where a linear model would take as long."""
        if self.n_landmarks != "auto" or X.shape[1] < _LANDMARKS or possible_weightings(X)[0] == "standard":
            return False
        n_nonzero = X.nnz if sparse.issparse(X) else np.count_nonzero(X)
        affordable = float(_CUBE_PER_CELL * n_nonzero * n_labels) ** (1.0 / 3.0)
        return bool(X.shape[0] <= max(_ALWAYS_ALL, min(affordable, _NEVER_ALL)))

    def _log_odds(self, raw: FloatArray) -> FloatArray:
        return self._correlations.adjust(as_log_odds(self._calibration.probabilities(raw)))

    def _scores(self, X: Features) -> FloatArray:
        raw = self._kernel.times(self._weighting.transform(X), self.dual_coef_) + self.intercept_
        return np.asarray(expit(self._log_odds(raw)))


def _warn_of_twin_labels(Y: CSR) -> None:
    """Warn when two labels have nearly the same candidates: nothing in the data tells them apart."""
    count = np.bincount(Y.indices, minlength=Y.shape[1])
    usual = np.flatnonzero((count > _ROWS_OF_TWINS) & (count < _TWINS * Y.shape[0]))
    some, count = Y[:, usual], count[usual]
    meet = sparse.coo_array(some.T @ some)
    first, second = meet.coords
    twins = (first < second) & (meet.data > _TWINS * (count[first] + count[second] - meet.data))
    if twins.any():
        i, j = usual[first[twins][0]], usual[second[twins][0]]
        warnings.warn(
            f"{int(twins.sum())} pairs of labels have nearly the same candidates (columns {i} and {j} of y, for one), "
            "so that the data cannot tell which of the two a row has: merge them, or do not trust their difference.",
            PMLWarning,
            stacklevel=6,
        )
