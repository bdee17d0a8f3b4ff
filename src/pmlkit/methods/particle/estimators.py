"""PARTICLE: credible labels by propagation, then one classifier per pair of labels."""

from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.neighbors import NearestNeighbors
from sklearn.utils._param_validation import Interval, StrOptions

from pmlkit._typing import CSR, BoolArray, Features, FloatArray, IntArray
from pmlkit.methods.base import BasePML, Learned
from pmlkit.methods.particle.elicitation import (
    credible_labels,
    credible_labels_by_folds,
    neighbour_votes,
    propagated_confidence,
)
from pmlkit.methods.particle.pairwise import (
    PairwiseMachines,
    count_wins,
    fit_pairwise_machines,
    trainable_pairs,
    weighted_votes,
)
from pmlkit.methods.progress import Progress
from pmlkit.numerics.content import canonical_problem
from pmlkit.numerics.neighbors import nearest

# Training time of a machine with a few dozen rows, for the estimate in the error message.
_SECONDS_PER_PAIR = 1e-3


def _posterior_of_wins(wins: IntArray, credible: BoolArray, candidate: BoolArray) -> FloatArray:
    """Return P(label | number of pairs won), counted over training rows with one pseudo-count.

    Credible rows stand for the label, rows where it is neither candidate nor credible for its
    absence, and the others are left out; the prior is the share of rows with the candidate.
    """
    n_samples, n_labels = wins.shape
    n_counts = max(n_labels, 2)
    cell = wins + np.arange(n_labels) * n_counts
    present, absent = (
        np.bincount(cell[chosen], minlength=n_labels * n_counts).reshape(n_labels, n_counts)
        for chosen in (credible, ~candidate & ~credible)
    )
    prior = (1.0 + candidate.sum(axis=0))[:, None] / (2.0 + n_samples)
    odds_for = prior * (1.0 + present) / (n_counts + present.sum(axis=1, keepdims=True))
    odds_against = (1.0 - prior) * (1.0 + absent) / (n_counts + absent.sum(axis=1, keepdims=True))
    return np.asarray(odds_for / (odds_for + odds_against))


class _Particle(BasePML):
    """Base of the two PARTICLE methods: credible labels and pairwise machines."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BasePML._parameter_constraints,
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, 1, closed="left")],
        "credible_threshold": [Interval(Real, 0, 1, closed="both")],
        "C": [Interval(Real, 0, None, closed="neither")],
        "variant": [StrOptions({"paper", "released"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_pairs": [Interval(Integral, 0, None, closed="left")],
        "n_jobs": [Integral, None],
    }

    _with_absence: ClassVar[bool]
    """Whether to train machines for each label against its absence."""

    def __init__(
        self,
        *,
        n_neighbors: int = 10,
        alpha: float = 0.95,
        credible_threshold: float = 0.9,
        C: float = 1.0,
        variant: str = "paper",
        max_iter: int = 2_000_000,
        max_pairs: int = 100_000,
        threshold: str | float = "at_least_one",
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.alpha = alpha
        self.credible_threshold = credible_threshold
        self.C = C
        self.variant = variant
        self.max_iter = max_iter
        self.max_pairs = max_pairs
        self.threshold = threshold
        self.n_jobs = n_jobs

    def _n_tasks(self, Y: CSR) -> int:
        return 2

    def _fit(self, X: Features, Y: CSR, progress: Progress) -> Learned:
        if Y.shape[0] < 2:
            raise ValueError(f"{type(self).__name__} needs at least two rows with candidates, got n_samples = 1.")
        # The authors' folds are cut by row number: there the given order is part of the method.
        problem = canonical_problem(X, Y, reorder=self.variant == "paper")
        candidate = problem.Y.toarray() > 0
        votes, credible = self._elicit(problem.X, problem.Y, candidate)
        self._check_budget(credible, candidate)
        progress.step("credible labels")

        with_absence = self._with_absence or Y.shape[1] == 1
        machines = fit_pairwise_machines(
            problem.X,
            credible,
            candidate,
            with_absence=with_absence,
            C=self.C,
            max_iter=self.max_iter,
            n_jobs=self.n_jobs,
        )
        self._support_rows, self._dual, self._bias = machines.support_rows, machines.dual, machines.bias
        self.machine_accuracy_, self._label_order = machines.accuracy, problem.labels
        self.credible_ = problem.table_as_given(credible)
        results = problem.table_as_given(self._results(machines, problem.X))
        scores = self._fit_scores(results, Y.toarray() > 0)
        progress.step("pairwise machines")
        row = np.repeat(np.arange(Y.shape[0]), np.diff(problem.Y.indptr))
        confidence = problem.cells_as_given(votes[row, problem.Y.indices])
        return Learned(confidence=confidence, scores=scores, n_iter=machines.n_iter)

    def _elicit(self, X: Features, Y: CSR, candidate: BoolArray) -> tuple[FloatArray, BoolArray]:
        if self.variant == "released":
            return credible_labels_by_folds(
                X, Y, n_neighbors=self.n_neighbors, alpha=self.alpha, threshold=self.credible_threshold
            )
        index = NearestNeighbors(n_jobs=self.n_jobs).fit(X)
        confidence, _ = propagated_confidence(X, Y, index, n_neighbors=self.n_neighbors, alpha=self.alpha)
        votes = neighbour_votes(*nearest(index, self.n_neighbors), confidence)
        return votes, credible_labels(votes, confidence.toarray(), candidate, self.credible_threshold)

    def _check_budget(self, credible: BoolArray, candidate: BoolArray) -> None:
        n_pairs = len(trainable_pairs(credible, candidate))
        if n_pairs > self.max_pairs:
            raise ValueError(
                f"{type(self).__name__} would train {n_pairs:,} pairwise machines for {credible.shape[1]:,} labels, "
                f"in {n_pairs * _SECONDS_PER_PAIR / 60:.0f} minutes or more on one core; max_pairs allows "
                f"{self.max_pairs:,}. Raise max_pairs, or use a method without pairs."
            )

    def _scores(self, X: Features) -> FloatArray:
        machines = PairwiseMachines(self._support_rows, self._dual, self._bias, self.machine_accuracy_)
        ordered = self._results(machines, X)
        results = np.empty_like(ordered)
        results[:, self._label_order] = ordered
        return self._scores_of(results)

    def _fit_scores(self, results: Any, candidate: BoolArray) -> FloatArray:
        """Fit what the scores need besides the machines, and return the scores of the training rows."""
        return self._scores_of(results)

    @abstractmethod
    def _results(self, machines: PairwiseMachines, X: Features) -> Any:
        """Return the machines' results per row and label, labels in the machines' order."""

    @abstractmethod
    def _scores_of(self, results: Any) -> FloatArray:
        """Return the scores that follow from the results."""


class ParticleVLS(_Particle):
    r"""PARTICLE-VLS: credible labels, pairwise machines and a virtual label.

    First, confidences :math:`P` are propagated between neighbours, by weights that reconstruct each row
    from its `n_neighbors` nearest ones, and restricted to the candidates:

    .. math::

        P \leftarrow \text{rows to sum one of } Y \circ (\alpha T P + (1 - \alpha) Y) .

    A candidate is *credible* when the neighbours' confidences, each row mapped to [0, 1], reach `credible_threshold`.
    Then for every two labels a linear support vector machine separates the rows where the one is credible and the other
    no candidate from the reverse, and for every label one separates credible rows from rows where it is no candidate.
    Each machine votes with the weight of its training accuracy; machines that reject their label vote for a virtual
    label, and the labels with more votes than the virtual one are given.

    Parameters
    ----------
    n_neighbors : int, default=10
        Number of neighbours of the graph and of the vote (published: 10).
    alpha : float, default=0.95
        Weight of the neighbours in the propagation, at least 0 and below 1 (published: 0.95).
    credible_threshold : float, default=0.9
        Votes, in [0, 1], that make a candidate credible (published: 0.9).
    C : float, default=1.0
        Inverse strength of the ridge penalty of the machines (published: 1).
    variant : {"paper", "released"}, default="paper"
        ``"released"`` elicits credible labels as the authors' program does, see Notes.
    max_iter : int, default=2_000_000
        Maximum number of iterations per machine. If one needs more, as with features of large values, all of them are
        trained on features divided by their standard deviation instead, and a warning says so.
    max_pairs : int, default=100_000
        Largest number of pairwise machines; `fit` raises an error before it would train more. With q labels
        there are up to q (q - 1) / 2.
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default="at_least_one"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`. The
        published rule, without at least one label, is 1e-12.
    n_jobs : int, optional
        Number of processes, as in scikit-learn.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_samples, n_labels)
        The votes of each training row's neighbours for its candidates.
    credible_ : array of bool of shape (n_labelled_rows, n_labels)
        The credible labels of the training rows that have candidates.
    machine_accuracy_ : array of shape (n_labels * (n_labels + 1) / 2,)
        Training accuracy of the machines; 0 for those that lacked rows of one side.
    n_iter_ : int
        Iterations of the machine that took the most.
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    Scores are ``(votes - virtual) / n_labels``: same order within a row as the votes, and positive
    where the published rule gives the label. The authors' program rounds votes up to whole numbers
    before it compares them, which only creates ties, and is not followed.

    In the authors' program a row is its own nearest neighbour, so that it reconstructs itself, nothing is propagated,
    and all denoising is left to the vote; it elicits in ten folds cut by row number, and where no candidate is credible
    it takes labels outside the candidates. ``variant="released"`` does all that; its answer depends on the order of the
    rows. By default rows are no neighbours of themselves, every row is judged by its own neighbours, and where no
    candidate reaches the threshold the best one is credible. Rows without candidates are left out.

    References
    ----------
    .. [1] J.-P. Fang and M.-L. Zhang, "Partial multi-label learning via credible label elicitation", AAAI 2019.

    Examples
    --------
    >>> from pmlkit.data import load_digit_strips
    >>> from pmlkit.methods.particle import ParticleVLS
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = ParticleVLS().fit(strips.X, strips.Y)
    >>> model.decision_function(strips.X[:2]).shape
    (2, 10)
    """

    _with_absence = True
    # Votes have to exceed those of the virtual label; none at all do not.
    _natural_cut = 1e-12

    def _results(self, machines: PairwiseMachines, X: Features) -> FloatArray:
        votes, virtual = weighted_votes(machines, X)
        return np.asarray((votes - virtual[:, None]) / votes.shape[1])

    def _scores_of(self, results: FloatArray) -> FloatArray:
        return results


class ParticleMAP(_Particle):
    r"""PARTICLE-MAP: credible labels, pairwise machines and posterior probabilities.

    Credible labels and machines are those of :class:`ParticleVLS`. A label's score is its probability
    given how many of its :math:`q - 1` pairs it wins,

    .. math::

        P(y_j \mid c) = \frac{\pi_j \, P(c \mid y_j)}
            {\pi_j \, P(c \mid y_j) + (1 - \pi_j) \, P(c \mid \bar y_j)} ,

    with the share of rows that have the candidate as prior :math:`\pi_j`, and likelihoods counted over training rows,
    with one pseudo-count: credible rows for :math:`y_j`, rows where the label is no candidate for :math:`\bar y_j`.

    Parameters
    ----------
    n_neighbors : int, default=10
        Number of neighbours of the graph and of the vote (published: 10).
    alpha : float, default=0.95
        Weight of the neighbours in the propagation, at least 0 and below 1 (published: 0.95).
    credible_threshold : float, default=0.9
        Votes, in [0, 1], that make a candidate credible (published: 0.9).
    C : float, default=1.0
        Inverse strength of the ridge penalty of the machines (published: 1).
    variant : {"paper", "released"}, default="paper"
        ``"released"`` elicits credible labels as the authors' program does, and counts a pair that
        cannot be trained as won by the label that comes first.
    max_iter : int, default=2_000_000
        Maximum number of iterations per machine, as in :class:`ParticleVLS`.
    max_pairs : int, default=100_000
        Largest number of pairwise machines, as in :class:`ParticleVLS`; with q labels there are up to q (q - 1) / 2.
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default="at_least_one"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`. 0.5 gives
        the labels that are more probable than not.
    n_jobs : int, optional
        Number of processes, as in scikit-learn.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_samples, n_labels)
        The votes of each training row's neighbours for its candidates.
    credible_ : array of bool of shape (n_labelled_rows, n_labels)
        The credible labels of the training rows that have candidates.
    posterior_ : array of shape (n_labels, max(n_labels, 2))
        P(label | number of pairs won).
    machine_accuracy_ : array of shape (n_labels * (n_labels + 1) / 2,)
        Training accuracy of the machines; 0 for those that were not trained.
    n_iter_ : int
        Iterations of the machine that took the most.
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    The authors' program counts the likelihoods on the rows to be predicted, with their true labels. No variant here
    does. A single label has no pairs: the decision of the machine that tells it from its absence is counted instead.

    References
    ----------
    .. [1] J.-P. Fang and M.-L. Zhang, "Partial multi-label learning via credible label elicitation", AAAI 2019.

    Examples
    --------
    >>> from pmlkit.data import load_digit_strips
    >>> from pmlkit.methods.particle import ParticleMAP
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = ParticleMAP().fit(strips.X, strips.Y)
    >>> model.decision_function(strips.X[:2]).shape
    (2, 10)
    """

    _with_absence = False
    _scores_are_probabilities = True

    def _results(self, machines: PairwiseMachines, X: Features) -> IntArray:
        return count_wins(machines, X, missing_to_first=self.variant == "released")

    def _fit_scores(self, results: IntArray, candidate: BoolArray) -> FloatArray:
        self.posterior_ = _posterior_of_wins(results, self.credible_, candidate)
        return self._scores_of(results)

    def _scores_of(self, results: IntArray) -> FloatArray:
        return np.asarray(self.posterior_[np.arange(results.shape[1]), results])
