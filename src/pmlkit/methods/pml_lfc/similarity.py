r"""Products with the similarity between rows, computed at the candidates only.

PML-LFC compares rows by features and labels, :math:`A = S \circ C`. Its updates need
:math:`(AP)_{ik}` only where label k is a candidate of row i, and P is zero off the candidates, so

.. math:: (AP)_{ik} = \sum_{j \in J_k} A_{ij} P_{jk}, \qquad J_k = \{j : k \text{ is a candidate of } j\}.

No n x n matrix is formed: rare labels use one exact kernel block per label, frequent ones a kernel feature
map in linear time, and the similarity by labels alone is a product of thin matrices.
With many labels, products of label by label are kept only for the pairs that stand together in a row (`LabelPairs`).
Confidences are the ``data`` of a CSR array with the candidates' pattern throughout.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse

from pmlkit._arrays import row_of_cells
from pmlkit._typing import CSR, BoolArray, Features, FloatArray, IntArray
from pmlkit.numerics.kernels import gaussian_block, nystrom_features
from pmlkit.numerics.products import cells_of_product, inner_products, transposed_product

logger = logging.getLogger(__name__)

Compare = Literal["both", "features", "labels"]
KernelApprox = Literal["auto", "exact", "features"]

EXACT_CELLS = 2**24
"""Number of kernel cells that are computed exactly and kept (128 MB); see `row_similarity`."""
KEPT_CELLS = 2**26
"""Number of kernel cells that are kept with many labels, in single precision (256 MB)."""
N_FEATURES = 96
"""Size of the kernel feature map."""
_BLOCK_CELLS = 2**23
_KEPT_FEATURES = 2**28
MANY_LABELS = 4096
"""Largest number of labels with dense matrices of labels by labels."""

_PAIRS_AT_ONCE = 2**24


@dataclass(frozen=True)
class RowSimilarity:
    """A similarity A between different rows, restricted to the candidates.

    `times`: confidences to ``sum over j != i of w_j A_ij P_jk``, both at the candidates (for rows in blocks: in
    blocks). `sum_of_squares`: of ``w_i w_j A_ij ** 2`` over pairs of different rows, a constant of the objective
    (estimated from a sample of rows where the feature map is used). `chosen`: "exact" or "features", or "mixed" where
    rare labels are exact and frequent ones mapped.
    """

    times: Callable[[Any], Any]
    sum_of_squares: float
    chosen: str


def row_similarity(
    X: Features,
    Y: CSR,
    weight: FloatArray,
    *,
    compare: Compare,
    width: float,
    approx: KernelApprox = "auto",
    rng: np.random.Generator,
) -> RowSimilarity:
    """Prepare products with the similarity between rows.

    - `Y`: candidates; every row has one.
    - `compare`: A is the Gaussian kernel S of the features, the cosine C of the candidates, or their product.
    - `approx`: ``"auto"`` is exact where all labels together need at most `EXACT_CELLS` kernel cells. Otherwise labels
      with at most four times `N_FEATURES` rows are exact and the others use the feature map, whose landmarks `rng`
      draws.
    """
    if compare == "labels":
        return _by_labels(Y, weight)
    sizes = np.bincount(Y.indices, minlength=Y.shape[1])
    mapped = mapped_labels(sizes, approx)
    chosen = chosen_way(sizes, mapped, approx)
    exact_times, squares = _exact(X, Y, weight, compare, width, ~mapped & (sizes > 0))
    if not mapped.any():
        if compare == "features":
            squares = _all_squares(X, weight, width)
        return RowSimilarity(exact_times, squares, chosen)
    mapped_times = _mapped(X, Y, weight, compare, width, mapped, rng)
    squares = _sampled_squares(X, Y, weight, compare, width, rng)
    return RowSimilarity(lambda p: exact_times(p) + mapped_times(p), squares, chosen)


def mapped_labels(sizes: IntArray, approx: KernelApprox) -> BoolArray:
    """Return the labels, by their numbers of rows, whose products use the feature map."""
    cells = int((sizes.astype(np.int64) ** 2).sum())
    if approx == "features" or (approx == "auto" and cells > EXACT_CELLS):
        return np.asarray(sizes > (4 * N_FEATURES if approx == "auto" else 0))
    return np.zeros(len(sizes), dtype=bool)


def chosen_way(sizes: IntArray, mapped: BoolArray, approx: KernelApprox) -> str:
    """Return how products are computed, and log it with the reason."""
    cells = int((sizes.astype(np.int64) ** 2).sum())
    reason = f"exact products need {cells:,} kernel cells; up to {EXACT_CELLS:,} are computed exactly."
    if approx != "auto":
        reason = f'kernel_approx="{approx}" was asked for.'
    n_mapped = int(mapped.sum())
    chosen = "exact" if not n_mapped else "features" if n_mapped == (sizes > 0).sum() else "mixed"
    logger.info("Row similarity: %s (%d of %d labels mapped): %s", chosen, n_mapped, len(sizes), reason)
    return chosen


def rows_by_label(Y: CSR) -> tuple[IntArray, IntArray, IntArray]:
    """Return, label after label, the cells and their rows, and where each label begins."""
    order = np.argsort(Y.indices, kind="stable")
    rows = row_of_cells(Y)[order]
    begin = np.concatenate([[0], np.cumsum(np.bincount(Y.indices, minlength=Y.shape[1]))])
    return order, rows, begin


def unit_labels(Y: CSR) -> CSR:
    """Return the candidates with rows of unit length: their products are cosines."""
    root = 1.0 / np.sqrt(np.diff(Y.indptr))
    return sparse.csr_array((np.repeat(root, np.diff(Y.indptr)), Y.indices, Y.indptr), shape=Y.shape)


def _by_labels(Y: CSR, weight: FloatArray) -> RowSimilarity:
    """C = ŶŶ' exactly, through the q x q matrix Ŷ'P."""
    unit = unit_labels(Y)
    cell_weight = np.repeat(weight, np.diff(Y.indptr))

    pairs = LabelPairs(Y) if Y.shape[1] > MANY_LABELS else None

    def times(p: FloatArray) -> FloatArray:
        if pairs is not None:
            return pairs.cells(unit.data, pairs.gram(unit.data, cell_weight * p)) - cell_weight * p
        weighted = sparse.csr_array((cell_weight * p, Y.indices, Y.indptr), shape=Y.shape)
        return cells_of_product(unit, transposed_product(unit, weighted), Y) - cell_weight * p

    gram = unit.T @ sparse.csr_array((cell_weight * unit.data, Y.indices, Y.indptr), shape=Y.shape)
    squares = float((gram.data**2).sum()) - float((weight**2).sum())
    return RowSimilarity(times, squares, "exact")


def _exact(
    X: Features, Y: CSR, weight: FloatArray, compare: Compare, width: float, labels: BoolArray
) -> tuple[Callable[[FloatArray], FloatArray], float]:
    """Use one kernel block per label, kept up to `EXACT_CELLS` cells in total and recomputed each time beyond."""
    order, rows, begin = rows_by_label(Y)
    root = 1.0 / np.sqrt(np.diff(Y.indptr))
    squares = 0.0
    kept: dict[int, FloatArray] = {}
    n_kept = 0
    many = Y.shape[1] > MANY_LABELS

    def blocks(k: int) -> Iterator[tuple[slice, FloatArray, float]]:
        """Yield the label's kernel, some rows at a time, and the sum of its squares."""
        J = rows[begin[k] : begin[k + 1]]
        features, candidates = X[J], Y[J] if compare == "both" else None
        step = max(1, EXACT_CELLS // len(J))
        whole = step >= len(J)
        for first in range(0, len(J), step):
            some = slice(first, min(first + step, len(J)))
            block = gaussian_block(features if whole else features[some], features, width)
            block[np.arange(len(block)), np.arange(some.start, some.stop)] = 0.0
            square = 0.0
            if candidates is not None:
                shared = inner_products(candidates if whole else candidates[some], candidates)
                block *= shared
                block *= root[J[some], None]
                block *= root[J]
                # A pair is in the block of every label that it shares: count it once.
                square = float(weight[J[some]] @ (block**2 / shared) @ weight[J])
            yield some, block, square

    for k in np.flatnonzero(labels).tolist():
        size = int(begin[k + 1] - begin[k])
        fits = n_kept + size**2 <= (KEPT_CELLS if many else EXACT_CELLS) and size**2 <= EXACT_CELLS
        for _, block, square in blocks(k):
            squares += square
            if fits:  # Then the label has a single block.
                kept[k] = block.astype(np.float32) if many else block
                n_kept += size**2

    def times(p: FloatArray) -> FloatArray:
        result = np.zeros_like(p)
        by_label = p[order] * weight[rows]
        for k in np.flatnonzero(labels).tolist():
            cells = slice(begin[k], begin[k + 1])
            if k in kept:
                result[order[cells]] = kept[k] @ by_label[cells]
            else:
                for some, block, _ in blocks(k):
                    result[order[cells][some]] = block @ by_label[cells]
        return result

    return times, squares


def _mapped(
    X: Features, Y: CSR, weight: FloatArray, compare: Compare, width: float, labels: BoolArray, rng: np.random.Generator
) -> Callable[[FloatArray], FloatArray]:
    r"""S ≈ ΦΦ': linear in the number of rows.

    With C, the sum over shared labels c splits: :math:`(AP)_{ik} = \sum_{c \in L_i} \varphi_i^T T_{c,k}`,
    :math:`T_{c,k} = \sum_{j : c \in L_j} \varphi_j P_{jk}`, where :math:`\varphi_i` is the row's feature
    divided by :math:`\sqrt{|L_i|}`.
    """
    features = nystrom_features(X, width, N_FEATURES, weight, rng)
    sizes = np.diff(Y.indptr)
    cell_weight = np.repeat(weight, sizes)
    own = np.repeat(np.einsum("ij,ij->i", features, features).astype(np.float64), sizes)
    asked = labels[Y.indices]
    if compare == "features":
        product = _plain_product(features, Y)
    else:
        features /= np.sqrt(sizes)[:, None].astype(np.float32)
        if Y.shape[1] > MANY_LABELS:
            one_by_one = _label_after_label(features, Y, np.flatnonzero(labels))
            return lambda p: one_by_one(cell_weight * p) - np.where(asked, cell_weight * own * p, 0.0)
        product = _shared_label_product(features, Y)
    # The sums have a slice per shared label: columns are taken in groups to keep them small.
    slices = Y.shape[1] if compare == "both" else 1
    group = max(1, 2**26 // (features.shape[1] * slices))
    columns = np.flatnonzero(labels)

    def times(p: FloatArray) -> FloatArray:
        weighted = sparse.csr_array((cell_weight * p, Y.indices, Y.indptr), shape=Y.shape)
        result = np.zeros_like(p)
        for first in range(0, len(columns), group):
            result += product(weighted, columns[first : first + group])
        result[asked] -= (cell_weight * own * p)[asked]
        return result

    return times


def _plain_product(features: FloatArray, Y: CSR) -> Callable[[CSR, IntArray], FloatArray]:
    """Return the product with the features' own similarity."""
    blocks = _row_blocks(Y)

    def product(weighted: CSR, columns: IntArray) -> FloatArray:
        sums = np.asarray(weighted[:, columns].T @ features).T
        return _mapped_cells(Y, columns, blocks, lambda rows: features[rows] @ sums)

    return product


def _shared_label_product(features: FloatArray, Y: CSR) -> Callable[[CSR, IntArray], FloatArray]:
    """Return the product whose terms are split by the label that two rows share."""
    n_labels = Y.shape[1]
    blocks = _row_blocks(Y)
    members: list[list[IntArray]] = []
    for rows in blocks:
        by_label = Y[rows].tocsc()
        members.append([by_label.indices[by_label.indptr[c] : by_label.indptr[c + 1]] for c in range(n_labels)])
    # Keep a contiguous copy of the features of each label's rows where that fits.
    kept: dict[tuple[int, int], FloatArray] = {}
    keep = Y.nnz * features.shape[1] <= _KEPT_FEATURES

    def of_label(b: int, c: int) -> FloatArray:
        if not keep:
            return features[blocks[b]][members[b][c]]
        if (b, c) not in kept:
            kept[b, c] = features[blocks[b]][members[b][c]]
        return kept[b, c]

    def product(weighted: CSR, columns: IntArray) -> FloatArray:
        wide = -(-len(columns) // 8) * 8  # Products are faster with a multiple of eight columns.
        sums = np.zeros((n_labels, features.shape[1], wide), dtype=np.float32)
        for b, rows in enumerate(blocks):
            dense = np.zeros((rows.stop - rows.start, wide), dtype=np.float32)
            dense[:, : len(columns)] = weighted[rows][:, columns].toarray()
            for c, J in enumerate(members[b]):
                sums[c] += (dense.take(J, axis=0).T @ of_label(b, c)).T

        def answer(rows: slice) -> FloatArray:
            b = blocks.index(rows)
            total = np.zeros((rows.stop - rows.start, wide), dtype=np.float32)
            for c, J in enumerate(members[b]):
                total[J] += of_label(b, c) @ sums[c]
            return total

        return _mapped_cells(Y, columns, blocks, answer)

    return product


def _label_after_label(features: FloatArray, Y: CSR, columns: IntArray) -> Callable[[FloatArray], FloatArray]:
    """Return the same product for many labels: sums are kept for one label and the labels that it meets at a time."""
    order, rows, begin = rows_by_label(Y)
    met: list[tuple[CSR, IntArray, IntArray]] = []
    for k in columns.tolist():
        cells = order[begin[k] : begin[k + 1]]
        J = rows[begin[k] : begin[k + 1]]
        together = Y[J]
        labels, place = np.unique(together.indices, return_inverse=True)
        ones = np.ones(together.nnz, dtype=np.float32)
        met.append((sparse.csr_array((ones, place, together.indptr), shape=(len(J), len(labels))), J, cells))

    def times(weighted: FloatArray) -> FloatArray:
        result = np.zeros(Y.nnz)
        for together, J, cells in met:
            own = features[J]
            sums = together.T @ (own * weighted[cells, None].astype(np.float32))
            result[cells] = np.einsum("ij,ij->i", own, together @ sums)
        return result

    return times


def _row_blocks(Y: CSR) -> list[slice]:
    """Return blocks of rows such that a dense result for a block is small."""
    step = max(256, _BLOCK_CELLS // Y.shape[1])
    return [slice(first, min(first + step, Y.shape[0])) for first in range(0, Y.shape[0], step)]


def _mapped_cells(Y: CSR, columns: IntArray, blocks: list[slice], answer: Callable[[slice], FloatArray]) -> FloatArray:
    """Select the candidates' cells from dense results for some columns, block by block."""
    cells = np.zeros(Y.nnz)
    place = np.full(Y.shape[1], -1)
    place[columns] = np.arange(len(columns))
    for rows in blocks:
        begin, end = Y.indptr[rows.start], Y.indptr[rows.stop]
        local = np.repeat(np.arange(rows.stop - rows.start), np.diff(Y.indptr[rows.start : rows.stop + 1]))
        column = place[Y.indices[begin:end]]
        wanted = np.flatnonzero(column >= 0)
        cells[begin + wanted] = answer(rows)[local[wanted], column[wanted]]
    return cells


def _all_squares(X: Features, weight: FloatArray, width: float) -> float:
    """Sum the squared kernel over all pairs of different rows."""
    total = 0.0
    for first in range(0, X.shape[0], 512):
        rows = slice(first, first + 512)
        block = gaussian_block(X[rows], X, width / np.sqrt(2.0))
        block[np.arange(len(block)), first + np.arange(len(block))] = 0.0
        total += float(weight[rows] @ (block @ weight))
    return total


def _sampled_squares(
    X: Features, Y: CSR, weight: FloatArray, compare: Compare, width: float, rng: np.random.Generator
) -> float:
    """Estimate the sum of squares from the pairs among a thousand rows."""
    n_samples = X.shape[0]
    chosen = np.sort(rng.choice(n_samples, min(1000, n_samples), replace=False))
    return squares_of_sample(X[chosen], Y[chosen], weight[chosen], compare, width, n_samples)


def squares_of_sample(X: Features, Y: CSR, weight: FloatArray, compare: Compare, width: float, n_samples: int) -> float:
    """Return the sum of squares over all pairs of rows, by the pairs of some rows."""
    block = gaussian_block(X, X, width)
    if compare == "both":
        unit = unit_labels(Y)
        block *= (unit @ unit.T).toarray()
    np.fill_diagonal(block, 0.0)
    sampled = float(weight @ block**2 @ weight)
    pairs = X.shape[0] * (X.shape[0] - 1)
    return sampled * n_samples * (n_samples - 1) / pairs if pairs else 0.0


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
