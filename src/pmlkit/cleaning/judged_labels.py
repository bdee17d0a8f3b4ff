"""Labels that were judged: suspects, noise rates, reasons, and what can be removed safely."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.special import logit

from pmlkit._arrays import LabelFormat, in_format, read_labels, row_of_cells, without_cells
from pmlkit._typing import CSR, BoolArray, Features, FloatArray, IntArray
from pmlkit.cleaning import removal
from pmlkit.cleaning.estimates import Estimate, NoiseRates, n_first, rates_per_label, with_mean
from pmlkit.cleaning.injected_null import ENOUGH_ROWS
from pmlkit.cleaning.neighbors import Twins, twins_that_differ
from pmlkit.cleaning.rank_mixture import SafeDepths
from pmlkit.cleaning.reasons import Explainer, Reason, most_likely_missing

if TYPE_CHECKING:
    import pandas as pd

    from pmlkit._arrays import Media
    from pmlkit.cleaning.result import CleaningResult

__all__ = ["JudgedLabels"]

_N_EXPLAINED = 100
_DOUBTFUL = 0.5


@dataclass(frozen=True, eq=False)
class JudgedLabels:
    """Candidates with their doubts, and what follows from these; `CleaningResult` documents the attributes."""

    X: Features | None = field(repr=False)
    Y: CSR = field(repr=False)
    doubt: FloatArray = field(repr=False)
    scores: FloatArray = field(repr=False)
    label_names: tuple[str, ...]
    row_names: Sequence[Any] | None = field(repr=False)
    media: "Media | None" = field(repr=False)
    rare_labels: IntArray = field(repr=False)
    method: str
    given: LabelFormat = field(repr=False)
    overall_rate: Estimate = field(repr=False)
    random_mistakes_: Estimate = field(repr=False)
    safe_depths: SafeDepths = field(repr=False)
    predicted_labels: BoolArray = field(repr=False)
    calibrated: bool = True
    known: IntArray | None = field(default=None, repr=False)
    before_answers: "CleaningResult | None" = field(default=None, repr=False)

    @cached_property
    def confidence(self) -> CSR:
        """How likely each candidate is true: a CSR array on the candidates."""
        return sparse.csr_array((1.0 - self.doubt, self.Y.indices, self.Y.indptr), shape=self.Y.shape)

    @cached_property
    def rows(self) -> IntArray:
        """The row of each candidate, aligned with ``Y.data``."""
        return row_of_cells(self.Y)

    @cached_property
    def order(self) -> IntArray:
        """Positions of the judged candidates in ``Y.data``, the most suspicious first."""
        # Where doubts are equal, as at the ends of the scale, the evidence itself decides.
        ranked = np.lexsort((self.scores[self.rows, self.Y.indices], -self.doubt))
        return ranked[self.judged[ranked]]

    @cached_property
    def judged(self) -> BoolArray:
        """Whether each candidate was judged: those of very rare labels were not."""
        return ~np.isin(self.Y.indices, self.rare_labels)

    @cached_property
    def _n_given(self) -> IntArray:
        """On how many rows each label is."""
        return np.bincount(self.Y.indices, minlength=self.Y.shape[1])

    @cached_property
    def kept_labels(self) -> IntArray:
        """Labels that are judged, but on fewer than `ENOUGH_ROWS` rows: too few to lose any unseen."""
        few = (self._n_given > 0) & (self._n_given < ENOUGH_ROWS)
        return np.setdiff1d(np.flatnonzero(few), self.rare_labels)

    @cached_property
    def suspects(self) -> "pd.DataFrame":
        """All doubtful candidates, more likely false than true, the most suspicious first.

        A DataFrame of ``row``, ``label``, ``confidence``, ``rank`` (from 1), ``expected_benefit`` (by how many
        the number of wrong cells falls, on average, if the label is removed unseen) and ``reasons``. Reasons
        are given for the first hundred; `explain` gives them for any.
        """
        return self.top_suspects(int((self.doubt[self.order] > _DOUBTFUL).sum()))

    def top_suspects(self, k: int) -> "pd.DataFrame":
        """Return the `k` most suspicious candidates as `suspects` has them, doubtful or not."""
        import pandas as pd

        cells = self.order[:k]
        reasons = [reason.sentence() for reason in self.reasons(cells[:_N_EXPLAINED])]
        return pd.DataFrame(
            {
                "row": self.rows[cells],
                "label": np.asarray(self.label_names, dtype=object)[self.Y.indices[cells]],
                "confidence": 1.0 - self.doubt[cells],
                "rank": np.arange(1, len(cells) + 1),
                "expected_benefit": 2.0 * self.doubt[cells] - 1.0,
                "reasons": pd.array(reasons + [""] * (len(cells) - len(reasons)), dtype="str"),
            }
        )

    def explain(self, row: int, label: str) -> Reason:
        """Say what speaks for and against a label of a row.

        Parameters
        ----------
        row : int
        label : str
            The name of one of the row's candidates.

        Returns
        -------
        reason : Reason
            ``reason.against`` and ``reason.in_favour`` are its parts, ``reason.sentence()`` is text.
        """
        if label not in self.label_names:
            raise ValueError(f"There is no label {label!r}.")
        k = self.label_names.index(label)
        cell = np.flatnonzero((self.rows == row) & (self.Y.indices == k))
        if not len(cell):
            raise ValueError(f"{label!r} is not a candidate of row {row}.")
        return self.reasons(cell)[0]

    def reasons(self, cells: IntArray, *, n_similar: int = 10) -> list[Reason]:
        """Return what speaks for and against candidates, given by their positions in ``Y.data``.

        ``n_similar=0``, much faster, leaves out similar rows.
        """
        return self.reasons_for(self.rows[cells], self.Y.indices[cells], n_similar=n_similar)

    def reasons_for(self, rows: IntArray, labels: IntArray, *, n_similar: int = 10) -> list[Reason]:
        """Return what speaks for and against labels of rows, whether they were given or not."""
        return self._explainer.explain(rows, labels, n_similar=n_similar)

    @cached_property
    def _explainer(self) -> Explainer:
        rates = self.noise_rate_.per_label["noise_rate"].to_numpy()
        return Explainer(self.X, self.Y, self.scores, rates, self.label_names, self.row_names)

    def missing(self, k: int = 100) -> "pd.DataFrame":
        """Return the `k` labels that were not given but are most likely true: a list to look through.

        They are never added unseen: where nothing is missing, the list looks the same. In tests, with a fifth of the
        true labels deleted, about half of the first fifty were right.

        Parameters
        ----------
        k : int, default=100

        Returns
        -------
        missing : DataFrame
            ``row``, ``label``, ``score`` (out of fold), ``rank`` (from 1) and ``reasons``, the highest score first.
            Rows without any candidate are not among them.
        """
        import pandas as pd

        rows, labels = self.missing_cells(k)
        reasons = [reason.sentence() for reason in self.reasons_for(rows, labels)]
        return pd.DataFrame(
            {
                "row": rows,
                "label": np.asarray(self.label_names, dtype=object)[labels],
                "score": self.scores[rows, labels],
                "rank": np.arange(1, len(rows) + 1),
                "reasons": pd.array(reasons, dtype="str"),
            }
        )

    def missing_cells(self, k: int) -> tuple[IntArray, IntArray]:
        """Return rows and labels of `missing`, as numbers."""
        judged = np.setdiff1d(np.flatnonzero(self._n_given), self.rare_labels)
        return most_likely_missing(self.scores, self.Y, judged, k)

    @cached_property
    def noise_rate_(self) -> NoiseRates:
        """The estimated share of false candidates, overall and per label, with 90 % intervals."""
        reason = np.full(len(self._n_given), "", dtype=object)
        reason[~self.predicted_labels] = "the features do not predict it"
        reason[self._n_given < ENOUGH_ROWS] = f"it is on fewer than {ENOUGH_ROWS} rows"
        reason[self.rare_labels] = "it is on too few rows, or on all"
        doubt, low, high = (np.where(self.judged, d, 0.0) for d in (self.doubt, self._doubt_low, self._doubt_high))
        return NoiseRates(self.overall_rate, rates_per_label(self.Y, doubt, low, high, reason, self.label_names))

    @cached_property
    def _doubt_low(self) -> FloatArray:
        return self.doubt_at(self.overall_rate.low)

    @cached_property
    def _doubt_high(self) -> FloatArray:
        return self.doubt_at(self.overall_rate.high)

    def doubt_at(self, rate: float) -> FloatArray:
        """Return the doubts if `rate` of the candidates were false, in the same order."""
        doubt = np.zeros_like(self.doubt)
        doubt[self.judged] = with_mean(logit(np.clip(self.doubt[self.judged], 1e-12, 1 - 1e-12)), rate)
        return doubt

    def expected_precision(self, k: Any) -> Estimate:
        """Estimate how many of the `k` most suspicious candidates are false, as a share, without the truth.

        Parameters
        ----------
        k : int or float
            A number of candidates, or a share of them in (0, 1].

        Returns
        -------
        precision : Estimate
            A float with ``low`` and ``high``: the share if as few, and as many, candidates are false as may be.
        """
        first = self.order[: n_first(k, len(self.order))]
        return Estimate(*(float(d[first].mean()) for d in (self.doubt, self._doubt_low, self._doubt_high)))

    def removable(self, *, precision: float = 0.9, keep_at_least_one: bool = True) -> BoolArray:
        """Return which candidates can be removed unseen at a precision, aligned with ``Y.data``.

        Mostly none, and `advice` says why: where labels are mostly right, what looks wrong is often right. Something
        is removed only from tables of at least 500 labelled rows where random mistakes certainly abound (the lower
        bound of their share is 25 % or more), and only as deep as a lower bound of the precision of what is removed
        allows. Labels on fewer than 30 rows keep all theirs. What a person called wrong (``verified``) always goes,
        even a row's only label; what was called right, or unsure, stays.

        Parameters
        ----------
        precision : float, default=0.9
            The share of the removed candidates that should be false: of random mistakes the bound is on this side.
        keep_at_least_one : bool, default=True
            Never remove the most trusted candidate of a row.
        """
        return removal.removable(self, precision=precision, keep_at_least_one=keep_at_least_one)

    def advice(self, *, precision: float = 0.9, keep_at_least_one: bool = True, table: str = "") -> str:
        """Say in a sentence what can be removed without asking anybody, or why nothing can be and what to do.

        Parameters
        ----------
        precision, keep_at_least_one
            See `removable`.
        table : str, optional
            The name of the table's file, for the command to go on with.

        Examples
        --------
        >>> from pmlkit.cleaning import clean
        >>> from pmlkit.data import load_digit_strips
        >>> strips = load_digit_strips(300)
        >>> clean(strips.X, strips.Y).advice()
        'Nothing is removed unseen: 300 labelled rows are too few to tell (500 are needed). ...'
        """
        removed = self.removable(precision=precision, keep_at_least_one=keep_at_least_one)
        return removal.advice(self, removed, precision, table)

    @cached_property
    def is_best_of_row(self) -> BoolArray:
        """Whether each candidate is the most trusted one of its row."""
        best = np.zeros(self.Y.nnz, dtype=bool)
        first = np.lexsort((self.doubt, self.rows))[self.Y.indptr[:-1][np.diff(self.Y.indptr) > 0]]
        best[first] = True
        return best

    def cleaned(self, Y: Any = None, *, precision: float = 0.9, keep_at_least_one: bool = True) -> Any:
        """Return the candidates without those that can be removed at a precision.

        Parameters
        ----------
        Y : array, sparse matrix or DataFrame, optional
            The candidates; by default those that were given to `clean`.
        precision, keep_at_least_one
            See `removable`.

        Returns
        -------
        cleaned : indicator of shape (n_samples, n_labels)
            In the same kind of container as `Y`.
        """
        removed = self.removable(precision=precision, keep_at_least_one=keep_at_least_one)
        kept = without_cells(self.Y, removed)
        if Y is None:
            return in_format(kept, self.given, self.label_names)
        labels = read_labels(Y, names=self.label_names)
        if labels.indicator.shape != self.Y.shape:
            raise ValueError(f"Y must have the shape {self.Y.shape} that was judged, got {labels.indicator.shape}.")
        return in_format(kept, labels.format, labels.names or self.label_names, like=Y)

    @cached_property
    def twins(self) -> list[Twins]:
        """Rows with the same or nearly the same features but different labels."""
        return [] if self.X is None else twins_that_differ(self.X, self.Y)
