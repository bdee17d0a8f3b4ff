"""Products with the similarity between rows (`pmlkit.methods.pml_lfc.similarity`), for rows in blocks.

Labels by their feature map take two passes: sums over the rows of each label, and their products with the rows. Rows
with a label that is exact are brought together, with their confidences in each step, and sent to all blocks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from pmlkit._arrays import row_of_cells
from pmlkit._typing import CSR, BoolArray, Features, FloatArray, IntArray
from pmlkit.blocks import State
from pmlkit.methods.labelled_rows import LabelledRows
from pmlkit.methods.pml_lfc.similarity import (
    EXACT_CELLS,
    N_FEATURES,
    Compare,
    KernelApprox,
    RowSimilarity,
    chosen_way,
    mapped_labels,
    rows_by_label,
    squares_of_sample,
    unit_labels,
)
from pmlkit.numerics.kernels import gaussian_block, landmark_features, landmark_weights
from pmlkit.numerics.products import cells_of_product, inner_products, transposed_product

_GATHERED_BYTES = 256 * 2**20  # of rows with exact labels; where they take more, all labels use the feature map
_SUMS = 2**24  # cells of the sums over labels that are computed at a time


@dataclass(frozen=True)
class _Others:
    """The rows with exact labels: their numbers, features and candidates, and how they are compared."""

    numbers: IntArray
    X: Features
    Y: CSR
    labels: BoolArray
    compare: Compare
    width: float

    def kernels(self, X: Features, Y: CSR, first: int) -> Iterator[tuple[IntArray, IntArray, FloatArray, float]]:
        """Yield, label by label, its cells in a block and here, the kernel between them, and the sum of its squares."""
        order, rows, begin = rows_by_label(Y)
        own_order, own_rows, own_begin = rows_by_label(self.Y)
        root, own_root = 1.0 / np.sqrt(np.diff(Y.indptr)), 1.0 / np.sqrt(np.diff(self.Y.indptr))
        for k in np.flatnonzero(self.labels).tolist():
            J, own = rows[begin[k] : begin[k + 1]], own_rows[own_begin[k] : own_begin[k + 1]]
            step = max(1, EXACT_CELLS // max(1, len(own)))
            for start in range(0, len(J), step):
                some = J[start : start + step]
                block = gaussian_block(X[some], self.X[own], self.width)
                block[(some + first)[:, None] == self.numbers[own]] = 0.0
                square = 0.0
                if self.compare == "both":
                    shared = inner_products(Y[some], self.Y[own])
                    block *= shared * root[some, None] * own_root[own]
                    # A pair is in the block of every label that it shares: count it once.
                    square = float((block**2 / shared).sum())
                cells = order[begin[k] + start : begin[k] + start + len(some)]
                yield cells, own_order[own_begin[k] : own_begin[k + 1]], block, square


def block_similarity(
    rows: LabelledRows, X: State, *, compare: Compare, width: float, approx: KernelApprox, rng: np.random.Generator
) -> RowSimilarity:
    """Prepare products with the similarity between rows; see `row_similarity`."""
    if compare == "labels":
        return _by_labels(rows)
    sizes = rows.n_candidates
    mapped = mapped_labels(sizes, approx)
    exact = ~mapped & (sizes > 0)
    others = None
    if exact.any():
        n_gathered = int(rows.engine.reduce(_n_with, rows.Y, labels=exact))
        if approx == "auto" and n_gathered * (rows.n_bytes / rows.n_rows) > _GATHERED_BYTES:
            mapped, exact = sizes > 0, np.zeros_like(mapped)
        else:
            parts = rows.engine.reduce(_rows_with, X, rows.Y, rows.first_rows, labels=exact)
            numbers, features, candidates = (list(part) for part in zip(*parts, strict=True))
            others = _Others(np.concatenate(numbers), _stacked(features), _stacked(candidates), exact, compare, width)
    chosen = chosen_way(sizes, mapped, approx)
    products: list[Callable[[State], State]] = []
    squares = 0.0
    if others is not None:
        product, squares = _exact(rows, X, others, n_cells=int((sizes[exact].astype(np.int64) ** 2).sum()))
        products.append(product)
    if mapped.any():
        products.append(_mapped(rows, X, compare, width, mapped, rng))
        chosen_rows = np.sort(rng.choice(rows.n_rows, min(1000, rows.n_rows), replace=False))
        sample = rows.take(X, chosen_rows), rows.take(rows.Y, chosen_rows), np.ones(len(chosen_rows))
        squares = squares_of_sample(*sample, compare, width, rows.n_rows)

    def times(confidence: State) -> State:
        return rows.engine.map(_total, *(product(confidence) for product in products))

    return RowSimilarity(times, squares, chosen)


def _by_labels(rows: LabelledRows) -> RowSimilarity:
    gram = rows.engine.reduce(_unit_gram, rows.Y)

    def times(confidence: State) -> State:
        product = rows.engine.reduce(_unit_product, rows.Y, confidence)
        return rows.engine.map(_unit_cells, rows.Y, confidence, product=product)

    squares = float((gram.data**2).sum()) - float(rows.n_rows)
    return RowSimilarity(times, squares, "exact")


def _exact(rows: LabelledRows, X: State, others: _Others, *, n_cells: int) -> tuple[Callable[[State], State], float]:
    """Return exact products at some labels, and the sum of squares."""
    engine, first = rows.engine, rows.first_rows
    shared = engine.share(others)
    kernels = engine.map(_kernels, X, rows.Y, first, others=shared, keep=True) if n_cells <= EXACT_CELLS else None
    if others.compare == "features":
        squares = engine.reduce(_feature_squares, X, first, others=shared)
    else:
        squares = engine.reduce(_pair_squares, X, rows.Y, first, others=shared)

    def times(confidence: State) -> State:
        own = np.concatenate(engine.reduce(_confidence_with, rows.Y, confidence, labels=others.labels))
        if kernels is not None:
            return engine.map(_kept_cells, rows.Y, kernels, own=own)
        return engine.map(_exact_cells, X, rows.Y, first, others=shared, own=own)

    return times, float(squares)


def _mapped(
    rows: LabelledRows, X: State, compare: Compare, width: float, labels: BoolArray, rng: np.random.Generator
) -> Callable[[State], State]:
    """Return products by the kernel's feature map at some labels."""
    engine, n_labels = rows.engine, len(labels)
    landmarks = rows.take(X, np.sort(rng.choice(rows.n_rows, min(N_FEATURES, rows.n_rows), replace=False)))
    options = {"landmarks": landmarks, "whiten": landmark_weights(landmarks, width), "width": width}
    size = rows.n_rows * 4 * options["whiten"].shape[1]
    features = engine.map(_features, X, **options, keep=engine.keeps(size))
    columns = np.flatnonzero(labels)
    slices = n_labels if compare == "both" else 1
    group = max(1, _SUMS // (options["whiten"].shape[1] * slices))

    def times(confidence: State) -> State:
        parts = []
        for start in range(0, len(columns), group):
            how: dict[str, Any] = {"columns": columns[start : start + group], "shares": compare == "both"}
            sums = engine.reduce(_label_sums, features, rows.Y, confidence, **how)
            parts.append(engine.map(_mapped_cells, features, rows.Y, confidence, sums=sums, **how))
        return parts[0] if len(parts) == 1 else engine.map(_total, *parts)

    return times


def _stacked(parts: list[Any]) -> Any:
    if sparse.issparse(parts[0]):
        return sparse.csr_array(sparse.vstack(parts))
    return np.concatenate(parts)


def _total(*cells: FloatArray) -> FloatArray:
    return np.asarray(sum(cells[1:], cells[0]))


def _with_label(Y: CSR, labels: BoolArray) -> BoolArray:
    return np.asarray(np.bincount(row_of_cells(Y)[labels[Y.indices]], minlength=Y.shape[0]) > 0)


def _n_with(Y: CSR, *, labels: BoolArray) -> int:
    return int(_with_label(Y, labels).sum())


def _rows_with(X: Features, Y: CSR, first: int, *, labels: BoolArray) -> list[Any]:
    some = np.flatnonzero(_with_label(Y, labels))
    return [(first + some, X[some], Y[some])]


def _confidence_with(Y: CSR, confidence: FloatArray, *, labels: BoolArray) -> list[FloatArray]:
    return [confidence[_with_label(Y, labels)[row_of_cells(Y)]]]


def _kernels(X: Features, Y: CSR, first: int, *, others: _Others) -> list[tuple[IntArray, IntArray, FloatArray]]:
    return [found[:3] for found in others.kernels(X, Y, first)]


def _kept_cells(Y: CSR, kernels: list[tuple[IntArray, IntArray, FloatArray]], *, own: FloatArray) -> FloatArray:
    result = np.zeros(Y.nnz)
    for cells, partners, block in kernels:
        result[cells] = block @ own[partners]
    return result


def _exact_cells(X: Features, Y: CSR, first: int, *, others: _Others, own: FloatArray) -> FloatArray:
    result = np.zeros(Y.nnz)
    for cells, partners, block, _ in others.kernels(X, Y, first):
        result[cells] = block @ own[partners]
    return result


def _pair_squares(X: Features, Y: CSR, first: int, *, others: _Others) -> float:
    return sum(found[3] for found in others.kernels(X, Y, first))


def _feature_squares(X: Features, first: int, *, others: _Others) -> float:
    total = 0.0
    for start in range(0, X.shape[0], 512):
        block = gaussian_block(X[start : start + 512], others.X, others.width / np.sqrt(2.0))
        block[(first + start + np.arange(len(block)))[:, None] == others.numbers] = 0.0
        total += float(block.sum())
    return total


def _features(X: Features, *, landmarks: Features, whiten: FloatArray, width: float) -> FloatArray:
    return landmark_features(X, landmarks, whiten, width)


def _of_rows(features: FloatArray, Y: CSR, shares: bool) -> tuple[FloatArray, Any]:
    """Return features, divided where rows are compared by labels too, and the rows of each label."""
    if not shares:
        return features, [np.arange(Y.shape[0])]
    by_label = Y.tocsc()
    members = [by_label.indices[by_label.indptr[c] : by_label.indptr[c + 1]] for c in range(Y.shape[1])]
    return features / np.sqrt(np.diff(Y.indptr))[:, None].astype(np.float32), members


def _label_sums(features: FloatArray, Y: CSR, confidence: FloatArray, *, columns: IntArray, shares: bool) -> FloatArray:
    """Return, for each label that rows may share, the sums over its rows of features times confidences."""
    own, members = _of_rows(features, Y, shares)
    P = sparse.csr_array((confidence, Y.indices, Y.indptr), shape=Y.shape)
    dense = P[:, columns].toarray().astype(np.float32)
    return np.array([(dense[J].T @ own[J]).T for J in members], dtype=np.float32)


def _mapped_cells(
    features: FloatArray, Y: CSR, confidence: FloatArray, *, sums: FloatArray, columns: IntArray, shares: bool
) -> FloatArray:
    """Return the products at a block's candidates of some labels, without each row's own part."""
    own, members = _of_rows(features, Y, shares)
    total = np.zeros((Y.shape[0], len(columns)), dtype=np.float32)
    for J, of_label in zip(members, sums, strict=True):
        total[J] += own[J] @ of_label
    place = np.full(Y.shape[1], -1)
    place[columns] = np.arange(len(columns))
    asked = place[Y.indices] >= 0
    row = row_of_cells(Y)[asked]
    itself = np.einsum("ij,ij->i", features, features).astype(np.float64)
    result = np.zeros(Y.nnz)
    result[asked] = total[row, place[Y.indices[asked]]] - itself[row] * confidence[asked]
    return result


def _unit_gram(Y: CSR) -> CSR:
    unit = unit_labels(Y)
    return unit.T @ unit


def _unit_product(Y: CSR, confidence: FloatArray) -> FloatArray:
    return transposed_product(unit_labels(Y), sparse.csr_array((confidence, Y.indices, Y.indptr), shape=Y.shape))


def _unit_cells(Y: CSR, confidence: FloatArray, *, product: FloatArray) -> FloatArray:
    return cells_of_product(unit_labels(Y), product, Y) - confidence
