"""The four ranking metrics: ranking loss, one-error, coverage and average precision.

A row is sorted once, whatever the number of metrics. Everything works on blocks of rows, so that the memory needed
does not grow with their number.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmlkit._typing import CSR, BoolArray, FloatArray, IntArray
from pmlkit.exceptions import PMLWarning
from pmlkit.metrics._inputs import Convention, Table, Ties, check_convention, check_ties, read_tables

TieRule: TypeAlias = Literal["zhang", "pessimistic", "average", "first"]
"""The public tie rules, and `first`: the lowest column wins, as argmax has it (one-error only)."""

# Measured with q = 200: the time is flat from 2^17 to 2^20 cells and grows on either side.
BLOCK_CELLS = 1 << 18


def ranking_loss(
    y_true: Table,
    y_score: Table,
    *,
    convention: Convention = "zhang",
    ties: Ties | None = None,
    label_names: Iterable[Any] | None = None,
) -> float:
    """Share of the (true label, false label) pairs of a row that are in the wrong order, averaged over rows.

    Lower is better, 0 at best.

    Parameters
    ----------
    y_true, y_score, label_names
        As in :func:`evaluate`.
    convention : {"zhang", "sklearn"}, default="zhang"
        Rows with no true label or with all of them have no such pair. "zhang" leaves them out; "sklearn" counts
        them with loss 0, as :func:`sklearn.metrics.label_ranking_loss` does.
    ties : {"zhang", "pessimistic", "average"}, default=None
        A pair of equal scores is wrong ("zhang", "pessimistic", and both conventions), or half wrong ("average").

    Returns
    -------
    float
        nan, with a warning, if no row is left.

    Examples
    --------
    >>> from pmlkit.metrics import ranking_loss
    >>> y_true = [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    >>> y_score = [[0.2, 0.9, 0.1], [0.0, 0.5, 0.7], [0.3, 0.2, 0.1]]
    >>> ranking_loss(y_true, y_score)
    0.25
    >>> round(ranking_loss(y_true, y_score, convention="sklearn"), 4)
    0.1667
    """
    return _contrast_metric("ranking_loss", y_true, y_score, convention, ties, label_names)


def one_error(
    y_true: Table,
    y_score: Table,
    *,
    convention: Convention = "zhang",
    ties: Ties | None = None,
    label_names: Iterable[Any] | None = None,
) -> float:
    """Share of the rows whose best-scored label is false.

    Lower is better, 0 at best.

    Parameters
    ----------
    y_true, y_score, label_names
        As in :func:`evaluate`.
    convention : {"zhang", "sklearn"}, default="zhang"
        "zhang" leaves out the rows with no true label or with all of them. "sklearn" counts them: an empty row is
        an error. scikit-learn has no one-error; its convention here is ``1 - y_true[argmax(y_score)]``.
    ties : {"zhang", "pessimistic", "average"}, default=None
        When several labels share the best score the row is an error if none of them is true ("zhang"), if any of
        them is false ("pessimistic"), or by the share of false ones ("average"). None is "zhang"; under
        ``convention="sklearn"`` it asks the first of them, which depends on the order of the columns.

    Returns
    -------
    float
        nan, with a warning, if no row is left.

    Examples
    --------
    >>> from pmlkit.metrics import one_error
    >>> y_true = [[1, 0, 0], [0, 1, 1]]
    >>> one_error(y_true, [[0.2, 0.9, 0.1], [0.0, 0.5, 0.7]])
    0.5
    >>> one_error(y_true, [[0.5, 0.5, 0.1], [0.0, 0.5, 0.7]])
    0.0
    >>> one_error(y_true, [[0.5, 0.5, 0.1], [0.0, 0.5, 0.7]], ties="average")
    0.25
    """
    return _contrast_metric("one_error", y_true, y_score, convention, ties, label_names)


def average_precision(
    y_true: Table,
    y_score: Table,
    *,
    convention: Convention = "zhang",
    ties: Ties | None = None,
    label_names: Iterable[Any] | None = None,
) -> float:
    """Label-ranking average precision: how many of the labels ranked at or above a true one are true.

    Averaged over the true labels of a row, then over rows. Higher is better, 1 at best.

    Parameters
    ----------
    y_true, y_score, label_names
        As in :func:`evaluate`.
    convention : {"zhang", "sklearn"}, default="zhang"
        "zhang" leaves out the rows with no true label or with all of them. "sklearn" counts them as 1, as
        :func:`sklearn.metrics.label_ranking_average_precision_score` does.
    ties : {"zhang", "pessimistic", "average"}, default=None
        Among equal scores the lower column is ranked worse ("zhang", which depends on the order of the columns),
        all get the worst rank of their group ("pessimistic", the rule of ``convention="sklearn"``), or the value
        is the mean over all their orders ("average").

    Returns
    -------
    float
        nan, with a warning, if no row is left.

    Examples
    --------
    >>> from pmlkit.metrics import average_precision
    >>> y_true = [[1, 0, 0], [0, 1, 1]]
    >>> y_score = [[0.2, 0.9, 0.1], [0.0, 0.5, 0.7]]
    >>> average_precision(y_true, y_score)
    0.75
    """
    return _contrast_metric("average_precision", y_true, y_score, convention, ties, label_names)


def coverage(
    y_true: Table,
    y_score: Table,
    *,
    convention: Convention = "zhang",
    ties: Ties | None = None,
    normalize: bool = True,
    empty_rows: Literal["drop", "keep"] | None = None,
    label_names: Iterable[Any] | None = None,
) -> float:
    """How far down the ranking one must go to meet every true label, averaged over rows.

    Lower is better.

    Parameters
    ----------
    y_true, y_score, label_names
        As in :func:`evaluate`.
    convention : {"zhang", "sklearn"}, default="zhang"
        Sets the defaults of `ties` and `empty_rows`, and what ``normalize=False`` means.
    ties : {"zhang", "pessimistic", "average"}, default=None
        As in :func:`average_precision`.
    normalize : bool, default=True
        True gives (mean rank of the worst-ranked true label - 1) / q, the metric of the partial multi-label papers:
        at least 0 and below 1, unless empty rows are kept. False gives the mean rank - 1 under "zhang", as in the
        MATLAB program, and the mean rank under "sklearn", as :func:`sklearn.metrics.coverage_error`.
    empty_rows : {"drop", "keep"}, default=None
        A row without a true label is left out ("drop", the default of "zhang"), or counts with rank 0 ("keep", the
        default of "sklearn").

    Returns
    -------
    float
        nan, with a warning, if no row is left.

    Notes
    -----
    The MATLAB program keeps empty rows, so that a data set with many of them seems easier than it is. Dropping them
    is our deviation; ``empty_rows="keep", normalize=False`` is the program to the digit.

    Examples
    --------
    >>> from pmlkit.metrics import coverage
    >>> y_true = [[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]]
    >>> y_score = [[0.2, 0.9, 0.1, 0.0], [0.0, 0.5, 0.7, 0.1], [0.4, 0.3, 0.2, 0.1]]
    >>> coverage(y_true, y_score)
    0.25
    >>> coverage(y_true, y_score, normalize=False)
    1.0
    >>> round(coverage(y_true, y_score, convention="sklearn", normalize=False), 4)
    1.3333
    """
    check_convention(convention)
    check_ties(ties)
    if empty_rows not in (None, "drop", "keep"):
        raise ValueError(
            f"empty_rows must be 'drop', 'keep' or None for the convention's own rule, got {empty_rows!r}."
        )
    flags, numbers = read_tables(label_names, y_true=y_true, y_score=y_score)
    values, n_true = row_metrics(flags, numbers, {"coverage": tie_rule("coverage", convention, ties)})
    n_labels: int = numbers.shape[1]
    drop = empty_rows == "drop" if empty_rows else convention == "zhang"
    depth = mean_over(values["coverage"], (n_true > 0) | (not drop))
    if np.isnan(depth):
        warnings.warn(
            f"coverage is nan: none of the {len(n_true)} rows has a true label, and such rows are dropped.",
            PMLWarning,
            stacklevel=2,
        )
    if normalize:
        return (depth - 1) / n_labels
    return depth - 1 if convention == "zhang" else depth


def tie_rule(metric: str, convention: Convention, ties: Ties | None) -> TieRule:
    """Return the tie rule asked for, or else the convention's own for that metric."""
    if ties is not None:
        return ties
    if convention == "zhang":
        return "zhang"
    return "first" if metric == "one_error" else "pessimistic"


def has_contrast(n_true: IntArray, n_labels: int, convention: Convention) -> BoolArray:
    """Return which rows count in the metrics that compare true with false labels."""
    if convention == "sklearn":
        return np.ones(len(n_true), dtype=bool)
    return (n_true > 0) & (n_true < n_labels)


def mean_over(values: FloatArray, kept: BoolArray) -> float:
    """Return the mean of the kept values, nan if there is none."""
    return float(values[kept].mean()) if kept.any() else float("nan")


def _contrast_metric(
    name: str,
    y_true: Table,
    y_score: Table,
    convention: Convention,
    ties: Ties | None,
    label_names: Iterable[Any] | None,
) -> float:
    check_convention(convention)
    check_ties(ties)
    flags, numbers = read_tables(label_names, y_true=y_true, y_score=y_score)
    values, n_true = row_metrics(flags, numbers, {name: tie_rule(name, convention, ties)})
    kept = has_contrast(n_true, numbers.shape[1], convention)
    if not kept.any():
        warnings.warn(
            f"{name} is nan: each of the {len(n_true)} rows has no true label or all of them, and "
            "convention='zhang' drops such rows.",
            PMLWarning,
            stacklevel=3,
        )
    return mean_over(values[name], kept)


@dataclass(frozen=True)
class RankedRows:
    """Rows with their labels from best to worst score; equal scores have the higher column first.

    `relevant`: whether the label at each position is true. `group_starts`: whether the score at each position is lower
    than the one before it: a new group of ties begins.
    """

    relevant: BoolArray
    group_starts: BoolArray

    @cached_property
    def n_true(self) -> IntArray:
        """Number of true labels of each row."""
        return self.hits[:, -1]

    @cached_property
    def ranks(self) -> IntArray:
        """1, 2, ..., q."""
        return np.arange(1, self.relevant.shape[1] + 1, dtype=np.int32)

    @cached_property
    def hits(self) -> IntArray:
        """Number of true labels at or above each position."""
        return np.cumsum(self.relevant, axis=1, dtype=np.int32)

    @cached_property
    def has_ties(self) -> bool:
        """Whether any row has equal scores."""
        return not self.group_starts.all()

    @cached_property
    def above(self) -> IntArray:
        """Number of labels with a strictly better score than that at each position."""
        if not self.has_ties:
            return np.broadcast_to(self.ranks - 1, self.relevant.shape)
        return np.maximum.accumulate(np.where(self.group_starts, self.ranks - 1, 0), axis=1)

    @cached_property
    def reached(self) -> IntArray:
        """Number of labels with a score at least as good as that at each position."""
        if not self.has_ties:
            return np.broadcast_to(self.ranks, self.relevant.shape)
        ends = np.full(self.relevant.shape, self.ranks[-1])
        np.copyto(ends[:, :-1], self.ranks[:-1], where=self.group_starts[:, 1:])
        reached: IntArray = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
        return reached

    @cached_property
    def hits_above(self) -> IntArray:
        """Number of true labels with a strictly better score."""
        before: IntArray = self.hits - self.relevant
        return before if not self.has_ties else np.take_along_axis(before, self.above, axis=1)

    @cached_property
    def hits_reached(self) -> IntArray:
        """Number of true labels with a score at least as good."""
        return self.hits if not self.has_ties else np.take_along_axis(self.hits, self.reached - 1, axis=1)


def rank_rows(y_true: BoolArray, y_score: NDArray[Any]) -> RankedRows:
    """Sort every row from best to worst score.

    An ascending stable sort read backwards puts, among equal scores, the lower column behind: the order of Zhang
    and Zhou's programs.
    """
    order = np.argsort(y_score, axis=1, kind="stable")[:, ::-1]
    ordered = np.take_along_axis(y_score, order, axis=1)
    group_starts = np.ones(y_true.shape, dtype=bool)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=group_starts[:, 1:])
    return RankedRows(np.take_along_axis(y_true, order, axis=1), group_starts)


def row_metrics(
    y_true: CSR, y_score: NDArray[Any], rules: Mapping[str, TieRule]
) -> tuple[dict[str, FloatArray], IntArray]:
    """Measure every row, sorting it once whatever the number of metrics.

    - `rules`: name of a metric -> tie rule.
    - Returns `values`: name of a metric -> its value on each row. Where a row leaves a metric undefined the value is
      scikit-learn's: ranking loss 0, average precision 1, coverage 0.
    - Returns `n_true`: number of true labels of each row.
    """
    n_samples, n_labels = y_score.shape
    values: dict[str, FloatArray] = {name: np.empty(n_samples) for name in rules}
    n_true = np.empty(n_samples, dtype=np.int64)
    for rows in _blocks(n_samples, n_labels):
        ranked = rank_rows(y_true[rows].toarray().astype(bool), y_score[rows])
        n_true[rows] = ranked.n_true
        for name, rule in rules.items():
            values[name][rows] = _METRICS[name](ranked, rule)
    return values, n_true


def _blocks(n_samples: int, n_labels: int) -> Iterator[slice]:
    step = max(1, BLOCK_CELLS // n_labels)
    for start in range(0, n_samples, step):
        yield slice(start, start + step)


def _ranking_loss(ranked: RankedRows, ties: TieRule) -> FloatArray:
    """Share of the (true, false) pairs in the wrong order; a tied pair is wrong, or half wrong on average."""
    wrong: NDArray[Any] = ranked.reached - ranked.hits_reached
    if ties == "average":
        wrong = (wrong + ranked.above - ranked.hits_above) / 2
    n_wrong = np.einsum("ij,ij->i", ranked.relevant, wrong, dtype=np.float64)
    n_pairs = ranked.n_true.astype(np.float64) * (ranked.relevant.shape[1] - ranked.n_true)
    loss: FloatArray = np.divide(n_wrong, n_pairs, out=np.zeros(len(n_wrong)), where=n_pairs > 0)
    return loss


def _one_error(ranked: RankedRows, ties: TieRule) -> FloatArray:
    """Whether the best label is false; with several best ones, the tie rule says which of them is asked."""
    error: NDArray[Any]
    n_best, n_best_true = ranked.reached[:, 0], ranked.hits_reached[:, 0]
    if ties == "zhang":
        error = n_best_true == 0
    elif ties == "pessimistic":
        error = n_best_true < n_best
    elif ties == "average":
        error = 1 - n_best_true / n_best
    else:
        # The lowest column stands last among its equals.
        error = ~ranked.relevant[np.arange(len(n_best)), n_best - 1]
    return error.astype(np.float64)


def _coverage(ranked: RankedRows, ties: TieRule) -> FloatArray:
    """Rank of the worst-ranked true label, 0 where there is none."""
    rows = np.arange(len(ranked.relevant))
    worst = ranked.relevant.shape[1] - 1 - np.argmax(ranked.relevant[:, ::-1], axis=1)
    depth: NDArray[Any]
    if ties == "pessimistic":
        depth = ranked.reached[rows, worst]
    elif ties == "average":
        above = ranked.above[rows, worst]
        size = ranked.reached[rows, worst] - above
        n_true = ranked.hits_reached[rows, worst] - ranked.hits_above[rows, worst]
        # The expected maximum of n_true numbers drawn from 1..size without replacement.
        depth = above + n_true * (size + 1) / (n_true + 1)
    else:
        depth = worst + 1
    return np.where(ranked.n_true > 0, depth, 0).astype(np.float64)


def _average_precision(ranked: RankedRows, ties: TieRule) -> FloatArray:
    """Mean over the true labels of the share of true ones among the labels ranked at least as high."""
    total: FloatArray
    if ties == "average" and ranked.has_ties:
        total = _expected_precisions(ranked).sum(axis=1)
    else:
        pessimistic = ties == "pessimistic"
        precision = ranked.hits_reached / ranked.reached if pessimistic else ranked.hits / ranked.ranks
        total = np.einsum("ij,ij->i", ranked.relevant, precision)
    return np.divide(total, ranked.n_true, out=np.ones(len(total)), where=ranked.n_true > 0)


def _expected_precisions(ranked: RankedRows) -> FloatArray:
    """For each position, precision there times "a true label stands there", expected over the orders of tied labels.

    In a group of `size` tied labels, `n_true` of them true, position k = 1..size holds a true label with probability
    n_true / size, and given that, (k - 1)(n_true - 1)/(size - 1) true labels of the group are expected before it.
    """
    size = ranked.reached - ranked.above
    n_true = ranked.hits_reached - ranked.hits_above
    before = (ranked.ranks - 1 - ranked.above) * (n_true - 1) / np.maximum(size - 1, 1)
    expected: FloatArray = n_true / size * (ranked.hits_above + 1 + before) / ranked.ranks
    return expected


_METRICS: dict[str, Callable[[RankedRows, TieRule], FloatArray]] = {
    "ranking_loss": _ranking_loss,
    "one_error": _one_error,
    "coverage": _coverage,
    "average_precision": _average_precision,
}
