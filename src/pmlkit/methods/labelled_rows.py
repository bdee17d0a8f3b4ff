"""The rows with candidates among rows in blocks: folds and samples by their content, scaling."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from pmlkit._arrays import row_hash
from pmlkit._typing import CSR, BoolArray, Features, FloatArray, IntArray
from pmlkit.blocks import Engine, RowBlocks, State
from pmlkit.blocks.engine import take_rows
from pmlkit.numerics import content as by_content
from pmlkit.numerics.scaling import Normalize, column_moments, merge_moments, scale_of_moments, scaled


@dataclass(frozen=True)
class LabelledRows:
    """The rows with candidates of all blocks.

    `sizes`: rows of each block. `n_candidates` (n_labels,). `n_bytes`: of the features. `content`: a hash of all rows.
    """

    engine: Engine
    X: State
    Y: State
    sizes: list[int]
    n_candidates: IntArray
    n_bytes: int
    content: list[int]

    @classmethod
    def of(cls, rows: RowBlocks) -> "LabelledRows":
        """Leave out the rows without candidates; a pass over the rows."""
        assert rows.Y is not None
        engine = rows.engine
        X = engine.map(_labelled, rows.X, rows.Y, keep=False)
        Y = engine.map(_labelled, rows.Y, rows.Y, keep=False)
        sizes, n_candidates, n_bytes, content = engine.reduce(_survey, X, Y)
        if not n_candidates.any():
            raise ValueError("y has no candidate label in any row: there is nothing to learn from.")
        return cls(engine, X, Y, sizes, n_candidates, int(n_bytes), content.tolist())

    def fit_key(self, model: Any, rows: RowBlocks) -> dict[str, Any]:
        """Return what a checkpoint of a fit belongs to."""
        return {
            "method": type(model).__name__,
            "parameters": {name: str(value) for name, value in model.get_params(deep=False).items()},
            "shape": (rows.n_rows, rows.n_features, rows.n_labels, list(rows.sizes)),
            "content": (self.content, self.n_candidates.tolist()),
        }

    @property
    def n_rows(self) -> int:
        """How many rows have candidates."""
        return sum(self.sizes)

    @property
    def first_rows(self) -> State:
        """The number of each block's first row among them."""
        return self.engine.of(np.cumsum([0, *self.sizes[:-1]]).tolist())

    def take(self, state: State, rows: IntArray) -> Any:
        """Return some rows of arrays in blocks, by their numbers."""
        return take_rows(self.engine, state, self.sizes, rows)

    def folds(self, n_folds: int, *, seed: int = 0) -> State:
        """Return the folds of the rows by their content: those of `content_folds` for all rows together."""
        if self.n_rows > by_content.RANKED_ROWS:
            return self.engine.map(by_content.folds_by_remainder, self.X, n_folds=n_folds, seed=seed)
        hashes = self.engine.reduce(_hashes, self.X, seed=seed)
        exact, rounded = (np.concatenate(part) for part in zip(*hashes, strict=True))
        fold = by_content.folds_of_hashes(exact, rounded, n_folds)
        parts = [fold[a:b].astype(np.int16) for a, b in pairwise(np.cumsum([0, *self.sizes]).tolist())]
        return self.engine.map(_itself, self.engine.of(parts))

    def sampled(self, n_rows: int, *, seed: int) -> IntArray:
        """Return the numbers of about `n_rows` rows, chosen by their content; all rows if there are no more."""
        n_parts = -(-self.n_rows // n_rows)
        if n_parts == 1:
            return np.arange(self.n_rows)
        chosen = self.engine.reduce(_first_fold, self.folds(n_parts, seed=seed), self.first_rows)
        return np.concatenate(chosen)

    def column_scale(self) -> FloatArray:
        """Return the standard deviations of the features; a pass over the rows."""
        n_rows, mean, variance = self.engine.reduce(_moments, self.X, combine=merge_moments)
        return scale_of_moments(mean, variance, n_rows)

    def scaled(self, normalize: Normalize, scale: FloatArray | None) -> State:
        """Return the features as the regressions see them, kept where they fit."""
        return self.engine.map(_scaled, self.X, normalize=normalize, scale=scale, keep=self.engine.keeps(self.n_bytes))


def stacked_sample(parts: list[Any]) -> tuple[FloatArray, CSR, FloatArray]:
    """Return scores, candidates and confidences of some rows of each block as those of all blocks."""
    scores, candidates, values = zip(*parts, strict=True)
    return np.concatenate(scores), sparse.csr_array(sparse.vstack(candidates)), np.concatenate(values)


def _has_candidates(Y: CSR) -> BoolArray:
    return np.asarray(np.diff(Y.indptr) > 0)


def _labelled(table: Any, Y: CSR) -> Any:
    some = _has_candidates(Y)
    return table if some.all() else table[some]


def _survey(X: Features, Y: CSR) -> tuple[list[int], IntArray, int, IntArray]:
    n_bytes = 12 * X.nnz if sparse.issparse(X) else 8 * X.size
    content = row_hash(X, precision=np.float32).sum(keepdims=True)
    return [X.shape[0]], np.bincount(Y.indices, minlength=Y.shape[1]), n_bytes, content


def _hashes(X: Features, *, seed: int) -> list[Any]:
    return [by_content.row_hashes(X, seed=seed)]


def _first_fold(fold: IntArray, first: int) -> list[IntArray]:
    return [first + np.flatnonzero(fold == 0)]


def _moments(X: Features) -> tuple[int, Any, Any]:
    if not X.shape[0]:
        return 0, np.zeros(X.shape[1]), np.zeros(X.shape[1])
    return X.shape[0], *column_moments(X)


def _scaled(X: Features, *, normalize: Normalize, scale: FloatArray | None) -> Features:
    return (scaled(X, normalize, scale) if X.shape[0] else X).astype(np.float64, copy=False)


def _itself(value: Any) -> Any:
    return value
