"""The pairwise ranking hinge loss of all rows and its proximal operator, by sorting and never pair by pair.

A row with positives S (its candidates, or those of them that are trusted) and scores f has the loss

    loss(f) = sum over k in S of  weight_k * sum over l not in S of  max(0, 1 - f_k + f_l) .

The proximal operator finds, for each row with scores v,

    argmin_f  1/2 |f - v|^2 + loss(f) .

Shift the positives down by the margin (the *height* of a positive is its score minus one). Every other label
higher than a positive k pushes it up by weight_k and is pushed down by as much. At the solution, labels are
either apart, and then all forces on them are known, or *tied* at one height, which is the mean of the heights
that the group would have without its inner forces. It remains to find the ties.

A group of labels is split by a cut into those that end above and below the group's mean height. The best cut is a
minimum over the number m of others above, because these are the m highest others, and positive k is above exactly when
lifting it to the mean costs no more than the m pushes it would receive otherwise. A group that no cut improves is tied.
(This is the decomposition of Groenevelt (1991) for the sum of a separable and a submodular function.)
"""

from dataclasses import dataclass

import numpy as np

from pmlkit._typing import BoolArray, FloatArray, IntArray

_BLOCK_CELLS = 2**16  # cells worked on at a time: temporaries stay in the cache, running sums precise
_ROUNDING = 1e-11  # relative gain below which a cut is rounding noise


def candidate_cost(scores: FloatArray, is_candidate: BoolArray) -> FloatArray:
    """Return what each candidate costs: the sum of its hinges against the row's other labels.

    Returns `cost` (n_samples, n_labels): zero off the candidates. The loss is ``(weight * cost).sum()``.

    With the margin moved to the candidates (f_k - 1), the labels that cost candidate k are those above it, so that one
    sort and two running sums per row give all the costs: O(q log q) instead of O(q^2) per row.
    """
    cost = np.zeros(scores.shape)
    n_samples, n_labels = scores.shape
    step = max(1, _BLOCK_CELLS // n_labels)
    for first in range(0, n_samples, step):
        block = slice(first, first + step)
        cost[block] = _candidate_cost(scores[block], is_candidate[block])
    return cost


def _candidate_cost(scores: FloatArray, is_candidate: BoolArray) -> FloatArray:
    height = scores - is_candidate
    order = np.argsort(-height, axis=1)
    descending = np.take_along_axis(height, order, axis=1)
    charged = np.take_along_axis(is_candidate, order, axis=1)
    n_above = np.cumsum(~charged, axis=1)
    sum_above = np.cumsum(np.where(charged, 0.0, descending), axis=1)
    cost = np.empty_like(height)
    # Rounding can leave a cost of nothing slightly below zero.
    sorted_cost = np.where(charged, np.maximum(sum_above - n_above * descending, 0.0), 0.0)
    np.put_along_axis(cost, order, sorted_cost, axis=1)
    return cost


def pair_weight(is_candidate: BoolArray) -> FloatArray:
    """Return one over the number of a row's pairs, on its candidates: every row then weighs the same.

    Rows whose labels are all candidates, or none, have no pairs and get no weight.
    """
    n_candidates = is_candidate.sum(axis=1, keepdims=True)
    n_pairs = n_candidates * (is_candidate.shape[1] - n_candidates)
    return np.asarray(np.where(is_candidate & (n_pairs > 0), 1.0 / np.maximum(n_pairs, 1), 0.0))


@dataclass(frozen=True)
class RankingProx:
    """The proximal point and its ties.

    - `tied_cell`: flat numbers (row * n_labels + label) of the cells that are tied to others.
    - `tie`: which group each belongs to. The derivative of the proximal operator replaces the cells of a group by their
      mean, and leaves all other cells as they are.
    """

    point: FloatArray
    tied_cell: IntArray
    tie: IntArray


@dataclass
class _Cells:
    """Candidates, or others, that still have to be placed; others in descending height within a segment."""

    cell: IntArray
    height: FloatArray
    weight: FloatArray
    segment: IntArray

    def __getitem__(self, chosen: BoolArray) -> "_Cells":
        return _Cells(self.cell[chosen], self.height[chosen], self.weight[chosen], self.segment[chosen])


@dataclass(frozen=True)
class _Cut:
    """The best cut of every segment: its mean height, what the cut gains, and who ends above it."""

    level: FloatArray
    is_tied: BoolArray
    n_above: IntArray
    candidate_above: BoolArray
    other_above: BoolArray


def prox_ranking_hinge(scores: FloatArray, is_candidate: BoolArray, weight: FloatArray) -> RankingProx:
    """Apply the proximal operator of the ranking hinge loss to every row.

    `weight` (n_samples, n_labels): of each candidate's pairs, at least 0, and 0 off the candidates.

    Cost: one sort per row, and running sums for each of the few rounds of cuts (about log q).
    """
    n_samples, n_labels = scores.shape
    point = np.empty(scores.shape)
    tied_cells: list[IntArray] = [np.zeros(0, dtype=np.int64)]
    ties: list[IntArray] = [np.zeros(0, dtype=np.int64)]
    n_ties = 0
    step = max(1, _BLOCK_CELLS // n_labels)
    for first in range(0, n_samples, step):
        block = slice(first, first + step)
        height, candidates, others, n_segments = _stand_apart(scores[block], is_candidate[block], weight[block])
        for cells, tie in _place(height, candidates, others, n_segments):
            tied_cells.append(cells + first * n_labels)
            ties.append(tie + n_ties)
            n_ties += int(tie.max()) + 1
        point[block] = height.reshape(-1, n_labels) + is_candidate[block]
    return RankingProx(point, np.concatenate(tied_cells), np.concatenate(ties))


def _stand_apart(
    scores: FloatArray, is_candidate: BoolArray, weight: FloatArray
) -> tuple[FloatArray, _Cells, _Cells, int]:
    """Separate labels that stand so far apart that no force can make them meet.

    Each label can move within known bounds. Where a row, sorted by height, has a gap that no
    bounds bridge, the forces across it are settled. What remains are segments.

    Returns `height` (n_samples * n_labels,): with all settled forces applied. Returns `candidates, others`: those that
    share a segment with a label of the other kind.
    """
    shape = scores.shape
    height = scores - is_candidate
    highest = height + weight * (~is_candidate).sum(axis=1, keepdims=True)
    lowest = height - np.where(is_candidate, 0.0, weight.sum(axis=1, keepdims=True))
    order = np.argsort(-highest, axis=1, kind="stable")
    cell = (order + np.arange(0, scores.size, shape[1])[:, None]).ravel()
    floor = np.minimum.accumulate(lowest.ravel()[cell].reshape(shape), axis=1)
    opens = np.ones(shape, dtype=bool)
    np.less(highest.ravel()[cell].reshape(shape)[:, 1:], floor[:, :-1], out=opens[:, 1:])
    closes = np.ones(shape, dtype=bool)
    closes[:, :-1] = opens[:, 1:]

    charged, pushes = is_candidate.ravel()[cell], weight.ravel()[cell]
    n_so_far = np.cumsum(~charged.reshape(shape), axis=1)
    n_above = np.maximum.accumulate(np.where(opens, n_so_far - ~charged.reshape(shape), 0), axis=1)
    weight_so_far = np.cumsum(pushes.reshape(shape), axis=1)
    weight_to_end = np.minimum.accumulate(np.where(closes, weight_so_far, np.inf)[:, ::-1], axis=1)[:, ::-1]
    weight_below = weight_so_far[:, -1:] - weight_to_end
    sorted_height = height.ravel()[cell]
    sorted_height += np.where(charged, pushes * n_above.ravel(), -weight_below.ravel())
    settled = np.empty(scores.size)
    settled[cell] = sorted_height

    segment = np.cumsum(opens.ravel()) - 1
    shared = ~(opens & closes).ravel()
    is_pushed = np.flatnonzero(shared & charged & (pushes > 0))
    is_other = np.flatnonzero(shared & ~charged)
    candidates, others = (
        _Cells(cell[chosen], sorted_height[chosen], pushes[chosen], segment[chosen]) for chosen in (is_pushed, is_other)
    )
    return settled, candidates, others, int(segment[-1]) + 1


def _place(height: FloatArray, candidates: _Cells, others: _Cells, n_segments: int) -> list[tuple[IntArray, IntArray]]:
    """Cut segments until all are tied or settled; write heights in place and return the ties."""
    found: list[tuple[IntArray, IntArray]] = []
    while True:
        candidates, others, n_segments = _contested(height, candidates, others, n_segments)
        if not n_segments:
            return found
        cut = _best_cut(candidates, others, n_segments)
        tied_candidate, tied_other = cut.is_tied[candidates.segment], cut.is_tied[others.segment]
        if cut.is_tied.any():
            cells = np.concatenate([candidates.cell[tied_candidate], others.cell[tied_other]])
            segment = np.concatenate([candidates.segment[tied_candidate], others.segment[tied_other]])
            height[cells] = cut.level[segment]
            found.append((cells, (np.cumsum(cut.is_tied) - 1)[segment]))

        weight_below = np.bincount(
            candidates.segment, weights=candidates.weight * ~cut.candidate_above, minlength=n_segments
        )
        pushes = candidates.weight * cut.n_above[candidates.segment]
        candidates.height = candidates.height + np.where(cut.candidate_above, 0.0, pushes)
        others.height = others.height - np.where(cut.other_above, weight_below[others.segment], 0.0)
        # The upper part gets the smaller number, so that others stay in order.
        candidates.segment = 2 * candidates.segment + ~cut.candidate_above
        others.segment = 2 * others.segment + ~cut.other_above
        candidates, others = candidates[~tied_candidate], others[~tied_other]
        n_segments *= 2


def _contested(height: FloatArray, candidates: _Cells, others: _Cells, n_segments: int) -> tuple[_Cells, _Cells, int]:
    """Settle the labels that nothing pushes any more, in place, and renumber the remaining segments."""
    lowest_candidate = np.full(n_segments, np.inf)
    np.minimum.at(lowest_candidate, candidates.segment, candidates.height)
    highest_other = np.full(n_segments, -np.inf)
    opens = np.flatnonzero(np.diff(others.segment, prepend=-1))
    highest_other[others.segment[opens]] = others.height[opens]
    pushed = candidates.height < highest_other[candidates.segment]
    pushing = others.height > lowest_candidate[others.segment]
    height[candidates.cell[~pushed]] = candidates.height[~pushed]
    height[others.cell[~pushing]] = others.height[~pushing]
    candidates, others = candidates[pushed], others[pushing]
    number = np.cumsum(lowest_candidate < highest_other) - 1
    candidates.segment, others.segment = number[candidates.segment], number[others.segment]
    return candidates, others, int(number[-1]) + 1 if len(number) else 0


def _best_cut(candidates: _Cells, others: _Cells, n_segments: int) -> _Cut:
    """Find every segment's best cut at its mean height.

    With m others above, a cut costs the lifts (mean height minus height) of the m highest
    others, and for each candidate the smaller of its lift and of m pushes. All m are tried: slot
    ``start[s] + m`` of a flat array stands for m others above in segment s.
    """
    in_candidates, in_others = candidates.segment, others.segment
    n_others = np.bincount(in_others, minlength=n_segments)
    size = n_others + np.bincount(in_candidates, minlength=n_segments)
    total = np.bincount(in_candidates, weights=candidates.height, minlength=n_segments)
    total += np.bincount(in_others, weights=others.height, minlength=n_segments)
    level = total / size
    lift = level[in_candidates] - candidates.height
    other_lift = level[in_others] - others.height

    start = np.zeros(n_segments + 1, dtype=np.int64)
    np.cumsum(n_others + 1, out=start[1:])
    n_slots, start = start[-1], start[:-1]
    m = np.arange(n_slots) - np.repeat(start, n_others + 1)
    # The number of pushes from which on a candidate is better above; one too many where it never is.
    enough = np.minimum(np.ceil(np.maximum(lift, 0.0) / candidates.weight), n_others[in_candidates] + 1).astype(
        np.int64
    )
    turns = enough <= n_others[in_candidates]
    turn = start[in_candidates[turns]] + enough[turns]

    lifts = np.zeros(n_slots)
    lifts[np.arange(len(in_others)) + in_others + 1] = other_lift
    lifts += np.bincount(turn, weights=lift[turns], minlength=n_slots)
    pushing = np.asarray(
        np.bincount(start[in_candidates], weights=candidates.weight, minlength=n_slots), dtype=np.float64
    )
    pushing -= np.bincount(turn, weights=candidates.weight[turns], minlength=n_slots)
    cost = _sums_within(lifts, start, n_others + 1) + m * _sums_within(pushing, start, n_others + 1)

    best = np.minimum.reduceat(cost, start)
    hits = np.flatnonzero(cost <= np.repeat(best, n_others + 1))[::-1]
    n_above = np.empty(n_segments, dtype=np.int64)
    n_above[np.repeat(np.arange(n_segments), n_others + 1)[hits]] = m[hits]
    candidate_above = enough <= n_above[in_candidates]
    rank = np.arange(len(in_others)) - (start - np.arange(n_segments))[in_others]
    size_above = n_above + np.bincount(in_candidates, weights=candidate_above, minlength=n_segments)
    spread = np.bincount(in_candidates, weights=np.abs(lift), minlength=n_segments)
    noise = _ROUNDING * (spread + np.abs(level) * size)
    is_tied = (best >= -noise) | (size_above == 0) | (size_above == size)
    return _Cut(level, is_tied, n_above, candidate_above, rank < n_above[in_others])


def _sums_within(values: FloatArray, start: IntArray, size: IntArray) -> FloatArray:
    """Return the cumulative sums within each segment."""
    sums = np.cumsum(values)
    return np.asarray(sums - np.repeat(sums[start] - values[start], size))
