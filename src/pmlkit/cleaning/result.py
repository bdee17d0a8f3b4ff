"""The answer of `pmlkit.clean`, and what it can be turned into: facts, CSV tables, a page, an audit, a review."""

import csv
import io
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pmlkit._files import check_target, replacing
from pmlkit._typing import IntArray
from pmlkit._words import guarded
from pmlkit.cleaning.estimates import NoiseRates
from pmlkit.cleaning.injected_null import ENOUGH_ROWS
from pmlkit.cleaning.judged_labels import JudgedLabels

if TYPE_CHECKING:
    from pmlkit.cleaning.audit import Audit
    from pmlkit.cleaning.review.server import ReviewServer

__all__ = ["ENOUGH_ROWS", "CleaningResult", "NoiseRates"]

_DOUBTFUL = 0.5
_BLOCK = 1000  # lines that are made at a time
# Comparing the rows of all removed labels with a million others would take hours: so many lines name similar rows.
_COMPARED_AT_LEAST, _COMPARED_PAIRS = 1000, 5 * 10**8


class CleaningResult(JudgedLabels):
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

    def _repr_html_(self) -> str:
        from pmlkit.cleaning.report import notebook_view

        return notebook_view(self)

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


def _name(result: CleaningResult, row: int) -> Any:
    return row if result.row_names is None else result.row_names[row]


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
            words = _name(result, row), label, confidence, int(rank[cell]), reason.sentence()
            yield [row, *map(guarded, words)]
        on_lines(len(part))


def _missing_lines(result: CleaningResult, k: int) -> Iterator[list[Any]]:
    yield ["row", "id", "label", "score", "rank", "reasons"]
    for row, label, score, rank, reasons in result.missing(k).itertuples(index=False):
        yield [row, guarded(_name(result, row)), guarded(label), f"{score:.4f}", rank, reasons]
