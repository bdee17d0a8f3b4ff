"""The pairwise ranking hinge loss, by sorting and never pair by pair.

A row with candidates S is charged, for each candidate k in S and each other label l, by how far
its scores f fall short of ranking k above l with a margin of one:

    loss(f) = sum over k in S of  weight_k * sum over l not in S of  max(0, 1 - f_k + f_l) .
"""

import numpy as np

from pmlkit._typing import BoolArray, FloatArray

__all__ = ["candidate_cost", "pair_weight"]

_BLOCK_CELLS = 2**16  # cells worked on at a time: temporaries that stay in the cache


def candidate_cost(scores: FloatArray, is_candidate: BoolArray) -> FloatArray:
    """Return what each candidate costs: the sum of its hinges against the row's other labels.

    Parameters
    ----------
    scores : array of shape (n_rows, n_labels)
    is_candidate : bool array of shape (n_rows, n_labels)

    Returns
    -------
    cost : array of shape (n_rows, n_labels)
        Zero off the candidates. The loss is ``(weight * cost).sum()``.

    Notes
    -----
    With the margin moved to the candidates (f_k - 1), the labels that cost candidate k are those
    above it, so that one sort and two running sums a row give all the costs: O(q log q) instead of
    O(q^2) a row.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.numerics.ranking_loss import candidate_cost
    >>> candidate_cost(np.array([[0.5, 0.0, -2.0]]), np.array([[True, False, False]]))
    array([[0.5, 0. , 0. ]])
    """
    cost = np.zeros(scores.shape)
    n_rows, n_labels = scores.shape
    step = max(1, _BLOCK_CELLS // n_labels)
    for first in range(0, n_rows, step):
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

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.numerics.ranking_loss import pair_weight
    >>> pair_weight(np.array([[True, True, False], [True, True, True]]))
    array([[0.5, 0.5, 0. ],
           [0. , 0. , 0. ]])
    """
    n_candidates = is_candidate.sum(axis=1, keepdims=True)
    n_pairs = n_candidates * (is_candidate.shape[1] - n_candidates)
    return np.asarray(np.where(is_candidate & (n_pairs > 0), 1.0 / np.maximum(n_pairs, 1), 0.0))
