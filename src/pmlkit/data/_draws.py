"""Drawing false labels: uniformly without a dense table, or by weight in blocks of rows."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.utils import check_array
from sklearn.utils.extmath import randomized_svd

from pmlkit._typing import CSR, Features, FloatArray, IntArray

__all__ = ["NoiseKind", "draw_distinct", "draw_uniform", "draw_weighted", "label_weights"]

NoiseKind: TypeAlias = Literal["uniform", "correlated", "confusable"]
"""Which labels become false candidates."""

_BLOCK_CELLS = 2**20  # cells (rows x labels) worked on at a time by the weighted kinds: 8 MB of float64
_SMOOTHING = 0.05  # weight shared evenly by all labels, so that every absent one can be drawn
# The model behind "confusable" only has to say what is plausible: these bounds keep its cost constant.
_MAX_FIT = 20_000
_MAX_FEATURES = 1000
_N_COMPONENTS = 256
_PENALTY = 0.2  # ridge penalty per row, for features of unit variance


def draw_uniform(T: CSR, counts: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Draw ``counts[i]`` distinct absent labels of each row `i` uniformly; return their rows and labels."""
    n_samples, n_labels = T.shape
    n_true = np.diff(T.indptr)
    rows, ranks = draw_distinct(n_labels - n_true, counts, rng)
    # The r-th absent label is r plus the number of true labels before it. Of a row's sorted true labels t_0 < t_1 < ...
    # exactly those with t_j - j <= r come before; adding a multiple of q per row makes one sorted list of them all.
    before = T.indices.astype(np.int64) - (np.arange(T.nnz) - np.repeat(T.indptr[:-1], n_true))
    before += np.repeat(np.arange(n_samples, dtype=np.int64), n_true) * n_labels
    n_before = np.searchsorted(before, rows * n_labels + ranks, side="right") - T.indptr[rows]
    return rows, ranks + n_before


def draw_distinct(sizes: IntArray, counts: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Draw ``counts[g]`` distinct numbers below ``sizes[g]`` for each group `g`; return groups and numbers.

    Repeats are discarded and drawn again, so every set of the right size is equally likely. Memory is
    proportional to the answer.
    """
    # Where more than half is wanted, the rest is drawn: repeats stay rare.
    is_most = 2 * counts > sizes
    fewer = np.where(is_most, sizes - counts, counts)
    ends = np.cumsum(sizes, dtype=np.int64)
    starts = ends - sizes
    drawn = np.empty(0, dtype=np.int64)
    missing = fewer
    while missing.any():
        group = np.repeat(np.arange(len(sizes)), missing)
        # Sorting by hand: np.unique hashes large arrays of integers, which took fifty times longer.
        drawn = np.sort(np.concatenate([drawn, starts[group] + rng.integers(0, sizes[group])]))
        drawn = drawn[np.diff(drawn, prepend=-1) > 0]
        missing = fewer - np.bincount(np.searchsorted(ends, drawn, side="right"), minlength=len(sizes))
    owner = np.searchsorted(ends, drawn, side="right")
    if is_most.any():
        most = np.flatnonzero(is_most)
        everything = np.repeat(ends[most] - np.cumsum(sizes[most]), sizes[most])
        everything += np.arange(len(everything))
        is_left_out = is_most[owner]
        is_kept = np.ones(len(everything), dtype=np.bool_)
        is_kept[np.searchsorted(everything, drawn[is_left_out])] = False
        drawn = np.concatenate([drawn[~is_left_out], everything[is_kept]])
        owner = np.searchsorted(ends, drawn, side="right")
    return owner, drawn - starts[owner]


def draw_weighted(
    T: CSR, counts: IntArray, weights: Callable[[IntArray], FloatArray], rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Draw distinct absent labels of each row one after the other by weight; return their rows and labels.

    Each label gets an exponential waiting time of rate w, and those with the shortest times are
    drawn. The stream of random numbers continues from block to block, so the result does not
    depend on the size of the blocks.
    """
    touched = np.flatnonzero(counts)
    n_labels = T.shape[1]
    step = max(1, _BLOCK_CELLS // max(n_labels, 1))
    all_rows, all_labels = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for start in range(0, len(touched), step):
        rows = touched[start : start + step]
        waits = rng.standard_exponential((len(rows), n_labels))
        waits /= weights(rows) + _SMOOTHING / n_labels
        waits[T[rows].nonzero()] = np.inf
        most = int(counts[rows].max())
        if most < n_labels:
            first = np.argpartition(waits, most - 1, axis=1)[:, :most]
        else:
            first = np.broadcast_to(np.arange(n_labels), waits.shape)
        order = np.argsort(np.take_along_axis(waits, first, axis=1), axis=1)
        chosen = np.arange(most) < counts[rows][:, None]
        all_rows.append(np.repeat(rows, counts[rows]))
        all_labels.append(np.take_along_axis(first, order, axis=1)[chosen])
    return np.concatenate(all_rows), np.concatenate(all_labels)


def label_weights(
    T: CSR, kind: NoiseKind, X: Any, confusion: ArrayLike | None, rng: np.random.Generator
) -> Callable[[IntArray], FloatArray]:
    """Return a function of row numbers that gives the weights, 0 or more, of all labels for those rows."""
    n_labels = T.shape[1]
    if kind == "correlated":
        together = (T.T.astype(np.float64) @ T.astype(np.float64)).toarray()
        return _by_true_labels(T, together / np.maximum(np.diag(together), 1)[:, None])
    if confusion is not None:
        table = np.array(confusion, dtype=np.float64)
        if table.shape != (n_labels, n_labels):
            raise ValueError(f"confusion must be a table of {n_labels} x {n_labels} labels, got shape {table.shape}.")
        if not (np.isfinite(table).all() and (table >= 0).all()):
            raise ValueError("confusion must hold finite numbers, none negative: weights of one label for another.")
        np.fill_diagonal(table, 0)
        total = table.sum(axis=1, keepdims=True)
        return _by_true_labels(T, table / np.where(total > 0, total, 1))
    if X is None:
        raise ValueError('X is missing: kind="confusable" needs the features X, or the table confusion of the labels.')
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="X")
    if X.shape[0] != T.shape[0]:
        raise ValueError(f"X and truth must have the same number of rows, got {X.shape[0]} and {T.shape[0]}.")
    return _by_model(T, X, rng)


def _by_true_labels(T: CSR, table: FloatArray) -> Callable[[IntArray], FloatArray]:
    """Weigh a label by the mean of its column of `table` over the row's true labels."""
    share = 1 / np.maximum(np.diff(T.indptr), 1)
    return lambda rows: np.asarray(T[rows] @ table) * share[rows][:, None]


def _by_model(T: CSR, X: Features, rng: np.random.Generator) -> Callable[[IntArray], FloatArray]:
    """Weigh a label by its probability under a linear model fitted on rows of the other half."""
    n_samples = T.shape[0]
    order = rng.permutation(n_samples)
    half = np.empty(n_samples, dtype=np.int64)
    half[order] = np.arange(n_samples) % 2
    seed = int(rng.integers(2**31))
    models = []
    for number in range(2):
        others = order[half[order] != number][:_MAX_FIT]
        models.append(_fit_linear(X[others], T[others], seed))

    def weights(rows: IntArray) -> FloatArray:
        scores = np.empty((len(rows), T.shape[1]))
        for number, (coef, intercept) in enumerate(models):
            mine = half[rows] == number
            scores[mine] = X[rows[mine]] @ coef + intercept
        return np.maximum(scores, 0)

    return weights


def _fit_linear(X: Features, T: CSR, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return the coefficients and intercept of a ridge regression of the labels on standardised features."""
    n_samples, n_features = X.shape
    if n_samples == 0:
        return np.zeros((n_features, T.shape[1])), np.zeros(T.shape[1])
    back = None
    if n_features > _MAX_FEATURES:
        directions = randomized_svd(X, min(_N_COMPONENTS, n_samples), random_state=seed)[2]
        X, back = X @ directions.T, directions.T
    dense = sparse.csr_array(X).toarray() if sparse.issparse(X) else np.asarray(X)
    scale = dense.std(axis=0)
    scale[scale == 0] = 1
    ridge = Ridge(alpha=_PENALTY * n_samples).fit(dense / scale, T.toarray().astype(np.float64))
    coef = ridge.coef_.reshape(T.shape[1], -1).T / scale[:, None]
    return coef if back is None else back @ coef, ridge.intercept_
