"""The answer of `pmlkit.clean`: suspects, rates, reasons, what can be removed, and files, pages and audits of it."""

import csv
import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse
from scipy.special import logit

from pmlkit._arrays import LabelFormat, in_format, read_labels, row_of_cells, without_cells
from pmlkit._files import check_target, replacing
from pmlkit._typing import CSR, BoolArray, Features, FloatArray, IntArray
from pmlkit._words import guarded
from pmlkit.cleaning.audit.answers import UNKNOWN, WRONG
from pmlkit.cleaning.estimates import Estimate, NoiseRates, n_first, rates_per_label, with_mean
from pmlkit.cleaning.injected_null import ENOUGH_ROWS, SafeDepths
from pmlkit.cleaning.reasons import Explainer, Reason, Twins, most_likely_missing, twins_that_differ

if TYPE_CHECKING:
    import pandas as pd

    from pmlkit._arrays import Media
    from pmlkit.cleaning.audit import Audit
    from pmlkit.cleaning.review.server import ReviewServer

_DOUBTFUL = 0.5
_BLOCK = 1000  # lines that are made at a time
# Comparing the rows of all removed labels with a million others would take hours: this many lines name similar rows.
_COMPARED_AT_LEAST, _COMPARED_PAIRS = 1000, 5 * 10**8
_N_EXPLAINED = 100
_LEAST_ROWS = 500
_LEAST_MISTAKES = 0.25  # share of random mistakes, by its lower bound
_MOSTLY_RIGHT = 0.25  # guessed share of false labels up to which they look mostly right
_MAY_BE_MANY = 0.5  # random mistakes, by the upper bound: then nothing looks mostly right


@dataclass(frozen=True, eq=False)
class CleaningResult:
    """Result of `pmlkit.clean`. It is immutable; most attributes are computed on first use.

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
        Names of labels and rows; `row_names` may be None.
    rare_labels : array of int
        Labels on too few rows to be judged; their candidates are left alone.
    method : str
        Where the evidence comes from.
    random_mistakes_ : Estimate
        The share of the candidates that look as if they had been given at random. Mistakes that follow the features,
        as those of people do, are not among them.
    calibrated : bool
        Whether the estimates were calibrated for this kind of evidence, on sets whose truth is known; for any but
        `ClearPML` they were not: they count random mistakes, and the intervals are wider.
    known : array aligned with ``Y.data``, or None
        The answers given as ``verified``, per candidate: 0 nothing, 1 wrong, 2 right, 3 unsure.
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
    safe_depths: SafeDepths = field(repr=False)
    predicted_labels: BoolArray = field(repr=False)
    calibrated: bool = True
    known: IntArray | None = field(default=None, repr=False)
    before_answers: "CleaningResult | None" = field(default=None, repr=False)

    def _repr_html_(self) -> str:
        from pmlkit.cleaning.report import notebook_view

        return notebook_view(self)

    @cached_property
    def confidence(self) -> CSR:
        """How likely each candidate is true: a CSR array on the candidates."""
        return sparse.csr_array((1.0 - self.doubt, self.Y.indices, self.Y.indptr), shape=self.Y.shape)

    @cached_property
    def rows(self) -> IntArray:
        """The row of each candidate, aligned with ``Y.data``."""
        return row_of_cells(self.Y)

    @property
    def row_ids(self) -> Sequence[Any]:
        """The identifiers of the rows; their numbers where they have none."""
        return range(self.Y.shape[0]) if self.row_names is None else self.row_names

    def row_name(self, row: int) -> str:
        """Return the name of a row for use in texts."""
        return f"row {row}" if self.row_names is None else str(self.row_names[row])

    def labels_of(self, row: int) -> list[str]:
        """Return the names of a row's candidates."""
        return [self.label_names[k] for k in self.Y.indices[self.Y.indptr[row] : self.Y.indptr[row + 1]].tolist()]

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

    @property
    def _n_labelled(self) -> int:
        """How many rows have candidates."""
        return int((np.diff(self.Y.indptr) > 0).sum())

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
        return Explainer(self.X, self.Y, self.scores, rates, self.label_names, self.row_ids)

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
        reason[self._n_given < ENOUGH_ROWS] = f"on fewer than {ENOUGH_ROWS} rows"
        reason[self.rare_labels] = "on too few rows, or on all"
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
        if rate > 0.0:
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
            Unless the evidence is that of `ClearPML`, ``high`` takes all that may be false to be among the first.
        """
        first = self.order[: n_first(k, len(self.order))]
        value, low, high = (float(d[first].mean()) for d in (self.doubt, self._doubt_low, self._doubt_high))
        if not self.calibrated and self.known is None:
            high = min(1.0, self.overall_rate.high * len(self.order) / len(first))
        return Estimate(value, low, high)

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
        if not 0 < precision <= 1:
            raise ValueError(f"precision must be a share in (0, 1], got {precision!r}.")
        known = self.known
        removed = np.zeros(self.Y.nnz, dtype=bool) if known is None else known == WRONG
        if self._n_labelled < _LEAST_ROWS or self.safe_depths.random_share < _LEAST_MISTAKES:
            return removed
        # The bound is on the most suspicious cells of these labels as a whole: it does not hold for any part of them.
        common = self.order[~np.isin(self.Y.indices[self.order], self.kept_labels)]
        most = int(self.safe_depths.random_share * len(common))
        cells = common[: min(self.safe_depths.depth(precision), most)]
        if known is not None:
            cells = cells[known[cells] == UNKNOWN]
        if keep_at_least_one:
            cells = cells[~self.is_best_of_row[cells]]
        removed[cells] = True
        return removed

    def advice(self, *, precision: float = 0.9, keep_at_least_one: bool = True, table: str = "") -> str:
        """Say in a sentence what can be removed without asking a person, or why nothing can be and what to do.

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
        # What a person called wrong is gone for certain.
        n_removed = int((removed if self.known is None else removed & (self.known != WRONG)).sum())
        review = f"pmlkit review {table}".strip()
        ask = f"About 300 answers of a person would tell: {review}"
        if n_removed:
            looks = "label looks like a random mistake" if n_removed == 1 else "labels look like random mistakes"
            return (
                f"{n_removed:,} {looks} and can be removed; at least {100 * precision:.0f} % of such should be wrong, "
                f"if mistakes are random as they look. A few dozen answers would make sure: {review}"
            )
        if self._n_labelled < _LEAST_ROWS:
            few = f"{self._n_labelled:,} labelled rows are too few to tell ({_LEAST_ROWS:,} are needed)"
            return f"Nothing is removed unseen: {few}. {ask}"
        if self.safe_depths.random_share < _LEAST_MISTAKES:
            is_right = self.overall_rate < _MOSTLY_RIGHT and self.random_mistakes_.high < _MAY_BE_MANY
            found = "your labels look mostly right" if is_right else "labels may well be wrong"
            most = f"up to {100 * self.overall_rate.high:.0f} % of all labels may be wrong"
            return (
                f"Nothing is removed unseen: {found}, but mistakes that are not random cannot be told from right "
                f"labels without asking ({most}). {ask}"
            )
        return f"Nothing can be removed unseen at a precision of {precision:g}. {ask}"

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
        Y : labels in any format that `clean` takes, optional
            The candidates; by default those that were given to `clean`.
        precision, keep_at_least_one
            See `removable`.

        Returns
        -------
        cleaned : labels of n_samples rows
            In the format of `Y`: an indicator in the same kind of container, or the names per row.
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
        removed = self.removable(precision=precision, keep_at_least_one=keep_at_least_one)
        overall, random = self.noise_rate_.overall, self.random_mistakes_
        return {
            "rows": self.Y.shape[0],
            "labels": self.Y.shape[1],
            "candidates": int(self.Y.nnz),
            "unlabelled_rows": int((self.Y.sum(axis=1) == 0).sum()),
            "noise_rate": float(overall),
            "noise_rate_low": overall.low,
            "noise_rate_high": overall.high,
            "suspects": int((self.doubt > _DOUBTFUL).sum()),
            "removed": int(removed.sum()),
            "rows_changed": len(np.unique(self.rows[removed])),
            "random_mistakes": float(random),
            "random_mistakes_low": random.low,
            "random_mistakes_high": random.high,
            "method": self.method,
            "rare_labels": [self.label_names[k] for k in self.rare_labels],
            "kept_labels": [self.label_names[k] for k in self.kept_labels],
        }

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
        if which == "missing":
            lines = _missing_lines(self, k)
        elif which == "suspects":
            lines = _cell_lines(self, self.order[self.doubt[self.order] > _DOUBTFUL], on_lines)
        elif which == "removed":
            removed = self.removable(precision=precision, keep_at_least_one=keep_at_least_one)
            lines = _cell_lines(self, self.order[removed[self.order]], on_lines)
        else:
            raise ValueError(f"which must be 'suspects', 'removed' or 'missing', got {which!r}.")
        with replacing(check_target(path, force=force)) as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="", write_through=True)
            csv.writer(text, lineterminator="\n").writerows(lines)
            text.detach()

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
            Where the answers are kept; created if absent, continued if present.
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
        table: str = "",
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
        table : str, optional
            The name of the table's file, for the command to go on with, see `advice`.
        force : bool, default=False
            Replace a file that is there already.
        """
        from pmlkit.cleaning.report import write_report

        write_report(
            self, path, title=title, precision=precision, keep_at_least_one=keep_at_least_one, audit=audit, table=table,
            force=force,
        )  # fmt: skip


def _cell_lines(result: CleaningResult, cells: IntArray, on_lines: Callable[[int], Any]) -> Iterator[list[Any]]:
    """Yield a header and one line per label, with its confidence, its rank among all and the reasons against it."""
    yield ["row", "id", "label", "confidence", "rank", "reasons"]
    rank = np.empty(result.Y.nnz, dtype=np.int64)
    rank[result.order] = np.arange(1, len(result.order) + 1)
    n_compared = max(_COMPARED_AT_LEAST, _COMPARED_PAIRS // result.Y.shape[0])
    for start in range(0, len(cells), _BLOCK):
        part = cells[start : start + _BLOCK]
        reasons = result.reasons(part, n_similar=10 if start < n_compared else 0)
        for cell, reason in zip(part.tolist(), reasons, strict=True):
            row = int(result.rows[cell])
            label = result.label_names[int(result.Y.indices[cell])]
            confidence = f"{1 - result.doubt[cell]:.4f}"
            words = result.row_ids[row], label, confidence, int(rank[cell]), reason.sentence()
            yield [row, *map(guarded, words)]
        on_lines(len(part))


def _missing_lines(result: CleaningResult, k: int) -> Iterator[list[Any]]:
    yield ["row", "id", "label", "score", "rank", "reasons"]
    for row, label, score, rank, reasons in result.missing(k).itertuples(index=False):
        yield [row, guarded(result.row_ids[row]), guarded(label), f"{score:.4f}", rank, reasons]
