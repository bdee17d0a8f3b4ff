"""What cleaning found: suspects, noise rates, and labels without what can be removed safely."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.special import expit, logit

from pmlkit._arrays import row_of_cells
from pmlkit._labels import LabelFormat, in_format, read_labels
from pmlkit._typing import CSR, BoolArray, Features, FloatArray, IntArray
from pmlkit.cleaning.calibration import LABEL_SPREAD, SPREAD
from pmlkit.cleaning.neighbors import Twins, twins_that_differ
from pmlkit.cleaning.reasons import Reason, explain

if TYPE_CHECKING:
    import pandas as pd

    from pmlkit._validation import Media
    from pmlkit.cleaning.audit import Audit

__all__ = ["ENOUGH_ROWS", "CleaningResult", "NoiseRate", "NoiseRates"]

ENOUGH_ROWS = 30
"""Of labels on fewer rows nothing is removed unseen."""

_N_EXPLAINED = 100
_DOUBTFUL = 0.5
_Z90 = 1.645


@dataclass(frozen=True)
class NoiseRate:
    """An estimated share of false candidates, with an interval that should hold it nine times in ten."""

    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class NoiseRates:
    """How many candidates are false.

    Attributes
    ----------
    overall : NoiseRate
        Among all candidates that were judged.
    per_label : DataFrame
        ``label``, ``candidates``, ``noise_rate``, ``low``, ``high``, one line per label in their order; NaN for
        labels too rare to be judged.
    """

    overall: NoiseRate
    per_label: "pd.DataFrame"


@dataclass(frozen=True, eq=False)
class CleaningResult:
    """The answer of `pmlkit.clean`; it computes lazily and is never changed.

    Attributes
    ----------
    Y : CSR array of shape (n_rows, n_labels)
        The candidates that were judged.
    doubt : array aligned with ``Y.data``
        How likely each candidate is false; 0 where it was not judged.
    scores : array of shape (n_rows, n_labels)
        The out-of-fold evidence.
    label_names, row_names : sequences
        How labels and rows are called; `row_names` may be None.
    rare_labels : array of int
        Labels on too few rows to be judged; their candidates are left alone.
    method : str
        Where the evidence comes from.

    Examples
    --------
    >>> from pmlkit.cleaning import clean
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(300)
    >>> result = clean(strips.X, strips.Y)
    >>> result.suspects.columns.tolist()
    ['row', 'label', 'confidence', 'rank', 'expected_benefit', 'reasons']
    >>> result.cleaned(precision=0.8).nnz < strips.Y.nnz
    True
    """

    X: Features = field(repr=False)
    Y: CSR = field(repr=False)
    doubt: FloatArray = field(repr=False)
    scores: FloatArray = field(repr=False)
    label_names: tuple[str, ...]
    row_names: Sequence[Any] | None = field(repr=False)
    media: "Media | None" = field(repr=False)
    rare_labels: IntArray = field(repr=False)
    method: str
    given: LabelFormat = field(repr=False)

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
        reasons = self.sentences(cells[:_N_EXPLAINED])
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

    def explain(self, row: int, label: str) -> str:
        """Say why a candidate is doubted.

        Parameters
        ----------
        row : int
        label : str
            The name of one of the row's candidates.
        """
        if label not in self.label_names:
            raise ValueError(f"There is no label {label!r}.")
        k = self.label_names.index(label)
        cell = np.flatnonzero((self.rows == row) & (self.Y.indices == k))
        if not len(cell):
            raise ValueError(f"{label!r} is not a candidate of row {row}.")
        return self.sentences(cell)[0]

    def reasons(self, cells: IntArray, *, n_similar: int = 10) -> list[Reason]:
        """Return what speaks against candidates, given by their positions in ``Y.data``."""
        rate = self.noise_rate_.per_label["noise_rate"].to_numpy()
        rows, labels = self.rows[cells], self.Y.indices[cells]
        return explain(self.X, self.Y, self.scores, rate, rows, labels, n_similar=n_similar)

    def sentences(self, cells: IntArray, *, n_similar: int = 10) -> list[str]:
        """Return the reasons of candidates as text; ``n_similar=0``, much faster, leaves out similar rows."""
        reasons = self.reasons(cells, n_similar=n_similar)
        return [
            reason.sentence(self.label_names[k], self.label_names, self.row_names)
            for reason, k in zip(reasons, self.Y.indices[cells].tolist(), strict=True)
        ]

    @cached_property
    def noise_rate_(self) -> NoiseRates:
        """The estimated share of false candidates, overall and per label, with 90 % intervals."""
        import pandas as pd

        n_labels = self.Y.shape[1]
        count = self._n_given
        total = np.bincount(self.Y.indices, weights=self.doubt, minlength=n_labels)
        judged = (count > 0) & ~np.isin(np.arange(n_labels), self.rare_labels)
        rate = np.where(judged, total / np.maximum(count, 1), np.nan)
        low, high = _interval(rate, count, np.hypot(SPREAD, LABEL_SPREAD))
        per_label = pd.DataFrame(
            {"label": self.label_names, "candidates": count, "noise_rate": rate, "low": low, "high": high}
        )
        n_judged = int(count[judged].sum())
        overall = float(total[judged].sum() / n_judged) if n_judged else float("nan")
        bounds = _interval(np.array([overall]), np.array([n_judged]), SPREAD)
        return NoiseRates(NoiseRate(overall, float(bounds[0][0]), float(bounds[1][0])), per_label)

    def expected_precision(self, k: Any) -> float:
        """Estimate how many of the `k` most suspicious candidates are false, as a share, without the truth.

        Parameters
        ----------
        k : int or float
            A number of candidates, or a share of them in (0, 1].
        """
        n_judged = len(self.order)
        is_count = isinstance(k, int | np.integer) and not isinstance(k, bool)
        if is_count and k >= 1:
            n_taken = min(int(k), n_judged)
        elif isinstance(k, float | np.floating) and 0 < k <= 1:
            n_taken = max(1, round(float(k) * n_judged))
        else:
            raise ValueError(f"k must be a number of candidates (int >= 1) or a share (float in (0, 1]), got {k!r}.")
        return float(self.doubt[self.order[:n_taken]].mean()) if n_judged else float("nan")

    def removable(self, *, precision: float = 0.9, keep_at_least_one: bool = True) -> BoolArray:
        """Return which candidates can be removed at a precision, aligned with ``Y.data``.

        Only candidates that are more likely false than true are removed, however precise the others are, and no more
        of them than the lower end of the interval of `noise_rate_`: the estimate of the noise may be too high. Labels
        on fewer than `ENOUGH_ROWS` rows keep all theirs: with so few, a model misses every true one that is gone.

        Parameters
        ----------
        precision : float, default=0.9
            The share of the removed candidates that should be false indeed, by `expected_precision`.
        keep_at_least_one : bool, default=True
            Never remove the most trusted candidate of a row.
        """
        if not 0 < precision <= 1:
            raise ValueError(f"precision must be a share in (0, 1], got {precision!r}.")
        cells = self.order[self.doubt[self.order] > _DOUBTFUL]
        cells = cells[~np.isin(self.Y.indices[cells], self.kept_labels)]
        if keep_at_least_one:
            cells = cells[~self._is_best_of_row[cells]]
        cells = cells[: int(self.noise_rate_.overall.low * len(self.order))]
        reached = np.cumsum(self.doubt[cells]) >= precision * np.arange(1, len(cells) + 1)
        n_removed = int(np.flatnonzero(reached)[-1]) + 1 if reached.any() else 0
        removed = np.zeros(self.Y.nnz, dtype=bool)
        removed[cells[:n_removed]] = True
        return removed

    @cached_property
    def _is_best_of_row(self) -> BoolArray:
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
        cleaned : indicator of shape (n_rows, n_labels)
            In the same kind of container as `Y`.
        """
        removed = self.removable(precision=precision, keep_at_least_one=keep_at_least_one)
        kept = sparse.csr_array(
            ((~removed).astype(np.uint8), self.Y.indices.copy(), self.Y.indptr.copy()), shape=self.Y.shape
        )
        kept.eliminate_zeros()
        if Y is None:
            return in_format(kept, self.given, self.label_names)
        labels = read_labels(Y, names=self.label_names)
        if labels.indicator.shape != self.Y.shape:
            raise ValueError(f"Y must have the shape {self.Y.shape} that was judged, got {labels.indicator.shape}.")
        return in_format(kept, labels.format, labels.names or self.label_names, like=Y)

    @cached_property
    def twins(self) -> list[Twins]:
        """Rows with the same or nearly the same features but different labels."""
        return twins_that_differ(self.X, self.Y)

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

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "How clean are these labels?",
        precision: float = 0.9,
        keep_at_least_one: bool = True,
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
        force : bool, default=False
            Replace a file that is there already.
        """
        from pmlkit.cleaning.report import write_report

        write_report(self, path, title=title, precision=precision, keep_at_least_one=keep_at_least_one, force=force)


def _interval(rate: FloatArray, count: IntArray, spread: float) -> tuple[FloatArray, FloatArray]:
    """Return bounds on the scale of log odds: what the map gets wrong, and what so few candidates leave open."""
    inside = np.clip(rate, 1e-4, 1 - 1e-4)
    width = _Z90 * np.sqrt(spread**2 + 1.0 / np.maximum(count * inside * (1 - inside), 1e-9))
    return expit(logit(inside) - width), expit(logit(inside) + width)
