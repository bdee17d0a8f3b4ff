"""Rows sorted from best to worst score, and what the ranking metrics are on each of them.

A row is sorted once, whatever the number of metrics. Everything works on blocks of rows, so that the memory needed
does not grow with their number.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmlkit._typing import CSR, BoolArray, FloatArray, IntArray

TieRule: TypeAlias = Literal["zhang", "pessimistic", "average", "first"]
"""The public tie rules, and `first`: the lowest column wins, as argmax has it (one-error only)."""

# Measured with q = 200: the time is flat from 2^17 to 2^20 cells and grows on either side.
BLOCK_CELLS = 1 << 18


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
