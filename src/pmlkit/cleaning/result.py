"""What cleaning found: suspects, noise rates, and labels without what can be removed safely."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse
from scipy.special import expit, logit

from pmlkit._arrays import row_of_cells, without_cells
from pmlkit._labels import LabelFormat, in_format, read_labels
from pmlkit._typing import CSR, BoolArray, Features, FloatArray, IntArray
from pmlkit._words import fact_table, grid
from pmlkit.cleaning import outputs, removal
from pmlkit.cleaning.calibration import LABEL_SPREAD
from pmlkit.cleaning.estimates import Estimate, n_first, with_mean
from pmlkit.cleaning.missing import most_likely_missing
from pmlkit.cleaning.neighbors import Twins, twins_that_differ
from pmlkit.cleaning.reasons import Explainer, Reason

if TYPE_CHECKING:
    import pandas as pd

    from pmlkit._validation import Media
    from pmlkit.cleaning.audit import Audit
    from pmlkit.cleaning.review.server import ReviewServer

__all__ = ["ENOUGH_ROWS", "CleaningResult", "NoiseRates"]

ENOUGH_ROWS = 30
"""Of labels on fewer rows nothing is said, and nothing removed unseen."""

_N_EXPLAINED = 100
_N_SHOWN = 5
_DOUBTFUL = 0.5
_Z90 = 1.645


@dataclass(frozen=True)
class NoiseRates:
    """How many candidates are false.

    Attributes
    ----------
    overall : Estimate
        Among all candidates that were judged; ``overall.low`` and ``overall.high`` bound it.
    per_label : DataFrame
        ``label``, ``candidates``, ``noise_rate``, ``low``, ``high`` and ``cannot_tell``, one line per label in their
        order. Where it cannot be told how many are false, the rates are NaN and ``cannot_tell`` says why.

    Examples
    --------
    >>> import pandas as pd
    >>> from pmlkit.cleaning import Estimate, NoiseRates
    >>> rates = NoiseRates(Estimate(0.2, 0.1, 0.4), pd.DataFrame({"label": ["sky"], "noise_rate": [0.2]}))
    >>> f"{rates.overall:.0%} of the labels are wrong, between {rates.overall.low:.0%} and {rates.overall.high:.0%}"
    '20% of the labels are wrong, between 10% and 40%'
    """

    overall: Estimate
    per_label: "pd.DataFrame"


@dataclass(frozen=True, eq=False)
class CleaningResult:
    """The answer of `pmlkit.clean`; it computes lazily and is never changed.

    Attributes
    ----------
    X : array or CSR array of shape (n_samples, n_features), or None
        The features, for reasons and near-duplicates.
    Y : CSR array of shape (n_samples, n_labels)
        The candidates that were judged.
    doubt : array aligned with ``Y.data``
        How likely each candidate is false; 0 where it was not judged.
    scores : array of shape (n_samples, n_labels)
        The out-of-fold evidence.
    label_names, row_names : sequences
        How labels and rows are called; `row_names` may be None.
    rare_labels : array of int
        Labels on too few rows to be judged; their candidates are left alone.
    method : str
        Where the evidence comes from.
    random_mistakes_ : Estimate
        The share of the candidates that look as if they had been given at random. Mistakes that follow the features,
        as those of people do, are not among them.
    calibrated : bool
        Whether the estimates were calibrated for this kind of evidence; for any but `ClearPML` they were not, and
        the intervals are wider.
    known : array aligned with ``Y.data``, or None
        What the answers given as ``verified`` say of each candidate: 0 nothing, 1 wrong, 2 right, 3 unsure.
    before_answers : CleaningResult or None
        The result without those answers.

    Examples
    --------
    >>> from pmlkit.cleaning import clean
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(300)
    >>> result = clean(strips.X, strips.Y)
    >>> result.suspects.columns.tolist()
    ['row', 'label', 'confidence', 'rank', 'expected_benefit', 'reasons']
    >>> bool(result.expected_precision(20) > result.noise_rate_.overall)
    True
    """

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
    sure_mistakes: float = field(repr=False)
    predicted_labels: BoolArray = field(repr=False)
    calibrated: bool = True
    known: IntArray | None = field(default=None, repr=False)
    before_answers: "CleaningResult | None" = field(default=None, repr=False)

    def _repr_html_(self) -> str:
        rate = self.noise_rate_.overall
        facts = [
            ("rows", f"{self.Y.shape[0]:,}"),
            ("labels", f"{self.Y.shape[1]:,}"),
            ("candidates", f"{self.Y.nnz:,}"),
            ("probably wrong", f"{rate:.0%} (between {rate.low:.0%} and {rate.high:.0%})"),
            ("judged by", self.method),
            ("advice", self.advice()),
        ]
        cells = self.order[:_N_SHOWN]
        named = self.row_names if self.row_names is not None else range(self.Y.shape[0])
        lines = [
            (str(named[row]), self.label_names[k], f"{1.0 - doubt:.0%}")
            for row, k, doubt in zip(self.rows[cells], self.Y.indices[cells], self.doubt[cells], strict=True)
        ]
        header = ("row", "label", "confidence")
        return fact_table("CleaningResult", facts) + grid("most suspicious candidates", header, lines)

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
        import pandas as pd

        count = self._n_given
        rates = {}
        for name, doubt in (("noise_rate", self.doubt), ("low", self._doubt_low), ("high", self._doubt_high)):
            total = np.bincount(self.Y.indices, weights=np.where(self.judged, doubt, 0.0), minlength=len(count))
            rates[name] = total / np.maximum(count, 1)
        low, _ = _widened(rates["low"], count)
        _, high = _widened(rates["high"], count)
        reason = np.full(len(count), "", dtype=object)
        reason[~self.predicted_labels] = "the features do not predict it"
        reason[count < ENOUGH_ROWS] = f"it is on fewer than {ENOUGH_ROWS} rows"
        reason[self.rare_labels] = "it is on too few rows, or on all"
        known = reason == ""
        per_label = pd.DataFrame(
            {
                "label": self.label_names,
                "candidates": count,
                "noise_rate": np.where(known, rates["noise_rate"], np.nan),
                "low": np.where(known, np.minimum(low, rates["noise_rate"]), np.nan),
                "high": np.where(known, np.maximum(high, rates["noise_rate"]), np.nan),
                "cannot_tell": reason,
            }
        )
        return NoiseRates(self.overall_rate, per_label)

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
        is removed only from tables of at least 1,000 labelled rows where random mistakes certainly abound (the lower
        bound of their share is 25 % or more), and no more than that. Labels on fewer than `ENOUGH_ROWS` rows keep
        all theirs. What a person called wrong (``verified``) always goes, even a row's only label; what was called
        right, or unsure, stays.

        Parameters
        ----------
        precision : float, default=0.9
            The share of the removed candidates that should be false, if no more candidates are than that bound.
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
        'Nothing is removed unseen: 300 labelled rows are too few to tell (1,000 are needed). ...'
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

    def facts(self, *, precision: float = 0.9, keep_at_least_one: bool = True) -> dict[str, Any]:
        """Return sizes, estimates and what would be removed as a dict of plain numbers, names and lists.

        Parameters
        ----------
        precision, keep_at_least_one
            What is removed, see `removable`.

        Examples
        --------
        >>> from pmlkit.cleaning import clean
        >>> from pmlkit.data import load_digit_strips
        >>> strips = load_digit_strips(300)
        >>> facts = clean(strips.X, strips.Y).facts()
        >>> facts["rows"], facts["labels"], facts["removed"]
        (300, 10, 0)
        """
        return outputs.facts(self, precision=precision, keep_at_least_one=keep_at_least_one)

    def to_csv(
        self,
        path: str | os.PathLike[str],
        which: Literal["suspects", "removed", "missing"] = "suspects",
        *,
        precision: float = 0.9,
        keep_at_least_one: bool = True,
        k: int = 200,
        force: bool = False,
        on_lines: Callable[[int], Any] = lambda n_lines: None,
    ) -> None:
        """Write labels with their confidence, rank and reasons as a CSV file, whole or not at all.

        Parameters
        ----------
        path : path
        which : {"suspects", "removed", "missing"}, default="suspects"
            All doubtful labels, those that `removable` names, or the first `k` that `missing` names.
        precision, keep_at_least_one
            See `removable`.
        k : int, default=200
        force : bool, default=False
            Replace a file that is there already.
        on_lines : callable, optional
            Called with the number of lines after each block of them, to show progress.
        """
        outputs.write_csv(
            self, path, which, precision=precision, keep_at_least_one=keep_at_least_one, k=k, force=force,
            on_lines=on_lines,
        )  # fmt: skip

    @cached_property
    def twins(self) -> list[Twins]:
        """Rows with the same or nearly the same features but different labels."""
        return [] if self.X is None else twins_that_differ(self.X, self.Y)

    def audit(self, *, resume: "str | os.PathLike[str] | None" = None, **settings: Any) -> "Audit":
        """Ask a person about candidates: see `pmlkit.cleaning.audit`.

        Parameters
        ----------
        resume : path, optional
            Go on with an audit that was saved there.
        **settings
            ``precision=0.9``, ``confidence=0.95``, ``random_state=0``, ``answer_error=0.0``, ``repeats=0.1``,
            ``settle="latest"``, ``answers``, ``events``: see `pmlkit.cleaning.audit.Audit`.
        """
        from pmlkit.cleaning.audit import Audit

        return Audit(self, **settings) if resume is None else Audit.resume(self, resume, **settings)

    def review(self, answers: "str | os.PathLike[str]" = "review.sqlite", **options: Any) -> "ReviewServer":
        """Start the review page of this result in the background and return its server, which has the answers.

        Parameters
        ----------
        answers : path, default="review.sqlite"
            Where the answers are kept; made when absent, gone on with when there.
        **options
            See `pmlkit.cleaning.review.review`.

        Returns
        -------
        server : ReviewServer
            Its ``address`` is that of the page, ``answers`` are those given so far, ``close()`` ends it; ``wait()``
            waits until it is interrupted, ends it and returns the answers.
        """
        from pmlkit.cleaning.review import review

        return review(self, answers, **options)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "How clean are these labels?",
        precision: float = 0.9,
        keep_at_least_one: bool = True,
        audit: "Audit | None" = None,
        force: bool = False,
    ) -> None:
        """Write what was found as one HTML page that needs no other file and no network.

        Parameters
        ----------
        path : path
            Where to write; whole or not at all.
        title : str
            The heading.
        precision, keep_at_least_one
            What the page says would be removed, see `removable`.
        audit : Audit, optional
            Answers about these labels: the page then says what they tell and promise.
        force : bool, default=False
            Replace a file that is there already.
        """
        from pmlkit.cleaning.report import write_report

        write_report(
            self, path, title=title, precision=precision, keep_at_least_one=keep_at_least_one, audit=audit, force=force
        )


def _widened(rate: FloatArray, count: IntArray) -> tuple[FloatArray, FloatArray]:
    """Widen rates of labels, on the scale of log odds, by what is wrong about one and by what few rows leave open."""
    inside = np.clip(rate, 1e-4, 1 - 1e-4)
    width = _Z90 * np.sqrt(LABEL_SPREAD**2 + 1.0 / np.maximum(count * inside * (1 - inside), 1.0))
    return expit(logit(inside) - width), expit(logit(inside) + width)
