"""Products of label by label, kept only for the pairs of labels that stand together in a row."""

from collections.abc import Iterator

import numpy as np

from pmlkit._typing import CSR, FloatArray, IntArray

MANY_LABELS = 4096
"""Largest number of labels with dense matrices of labels by labels."""

_PAIRS_AT_ONCE = 2**24


class LabelPairs:
    """The pairs of labels that meet in a row of the candidates Y.

    Memory follows the sum of squared row sizes, 8 bytes a pair, and not the number of labels.
    """

    def __init__(self, Y: CSR) -> None:
        sizes = np.diff(Y.indptr).astype(np.int64)
        self._partners = np.repeat(sizes, sizes)  # of each cell: how many cells its row has
        self._first_of_row = np.repeat(Y.indptr[:-1].astype(np.int64), sizes)
        keys = [
            Y.indices[first].astype(np.int64) * Y.shape[1] + Y.indices[second] for first, second in self._cell_pairs()
        ]
        distinct, number = np.unique(np.concatenate(keys), return_inverse=True)
        self._number, self._size = number.astype(np.int32), len(distinct)

    def _cell_pairs(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the pairs of cells of a row, those of some cells at a time, always in the same order."""
        ends = np.cumsum(self._partners)
        begin = 0
        while begin < len(ends):
            done = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, done + _PAIRS_AT_ONCE, side="right")))
            partners = self._partners[begin:end]
            first = np.repeat(np.arange(begin, end), partners)
            place = np.arange(len(first)) - np.repeat(ends[begin:end] - partners - done, partners)
            yield first, self._first_of_row[first] + place
            begin = end

    def gram(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return ``left' right`` at the pairs; both are cells on the candidates."""
        result = np.zeros(self._size)
        done = 0
        for first, second in self._cell_pairs():
            number = self._number[done : done + len(first)]
            result += np.bincount(number, weights=left[second] * right[first], minlength=self._size)
            done += len(first)
        return result

    def cells(self, left: FloatArray, gram: FloatArray) -> FloatArray:
        """Return ``left @ gram`` at the candidates, for a `gram` of the function above."""
        result = np.zeros(len(left))
        done = 0
        for first, second in self._cell_pairs():
            products = gram[self._number[done : done + len(first)]] * left[second]
            result[first[0] : first[-1] + 1] = np.bincount(first - first[0], weights=products)
            done += len(first)
        return result
