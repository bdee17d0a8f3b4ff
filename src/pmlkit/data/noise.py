"""Artificial noise: false candidates added to true labels, for benchmarks with a known truth.

Two choices are independent. *How many* false labels a row gets: a ratio of its true labels (with a
choice of rounding), a fixed number of candidates, or a fixed number of extra labels. *Which* ones:
any, those that co-occur with the row's true labels, or those that a model confuses.
"""

import logging
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.utils import check_array
from sklearn.utils.extmath import randomized_svd

from pmlkit._arrays import as_indicator, generator
from pmlkit._typing import CSR, Features, FloatArray, IntArray, RandomState
from pmlkit._words import check_choice

logger = logging.getLogger(__name__)

NoiseKind: TypeAlias = Literal["uniform", "correlated", "confusable"]
"""Which labels become false candidates."""
Rounding: TypeAlias = Literal["stochastic", "ceil", "round", "floor", "global"]


def add_noise(
    truth: Any,
    ratio: float | None,
    kind: NoiseKind = "uniform",
    rounding: Rounding = "stochastic",
    random_state: RandomState = None,
    *,
    X: Any = None,
    confusion: ArrayLike | None = None,
    avg_candidates: int | None = None,
    extra_labels: int | None = None,
    row_fraction: float = 1.0,
) -> CSR:
    """Add false candidates to true labels.

    Parameters
    ----------
    truth : array, sparse array or DataFrame of shape (n_samples, n_labels)
        Indicator of 0/1 of the true labels.
    ratio : float or None
        False candidates per true label: 0.5 is the papers' 50 %. A row with two true labels gets
        one false one on average; a row with no true label gets none. Give None with
        `avg_candidates` or `extra_labels`.
    kind : {"uniform", "correlated", "confusable"}, default="uniform"
        Which labels. ``uniform``: any absent label with equal probability. ``correlated``: in proportion to
        how often a label occurs together with the row's true labels. ``confusable``: in
        proportion to what a model of the truth finds plausible for the row's features `X`, or
        to the table `confusion`.
    rounding : {"stochastic", "ceil", "round", "floor", "global"}, default="stochastic"
        What becomes of the fraction in ``ratio * (number of true labels)`` of a row.
        ``stochastic`` takes the floor and rounds up with the probability of the fraction; ``global`` fixes the
        total, ``round(ratio * truth.sum())`` cells drawn over the whole matrix. These two
        reach the ratio asked for. ``ceil``, ``round`` (halves up) and ``floor`` do not where
        rows have few labels: with one true label, 10 % is always 1, 0 and 0 false ones.
    random_state : int, Generator, RandomState or None, default=None
        Seed; the same seed gives the same candidates.
    X : array, sparse array or DataFrame of shape (n_samples, n_features), optional
        Features, for ``kind="confusable"``.
    confusion : array of shape (n_labels, n_labels), optional
        For ``kind="confusable"`` instead of `X`: how easily label `j` (row) is mistaken for
        label `k` (column). Not negative; the diagonal is not used.
    avg_candidates : int, optional
        Instead of `ratio`: every row with fewer true labels is filled up to this number of
        candidates; rows with more stay clean.
    extra_labels : int, optional
        Instead of `ratio`: this number of false labels on a random `row_fraction` of the rows.
    row_fraction : float, default=1.0
        Share of the rows, rounded up, that `extra_labels` touches.

    Returns
    -------
    candidates : csr_array of uint8, shape (n_samples, n_labels)
        The true labels and the false ones.

    See Also
    --------
    noise_report : Counts what was added.

    Notes
    -----
    A row cannot have more candidates than there are labels: what does not fit is left out, and
    the ratio reached, which is logged, falls short of the one asked for.

    ``correlated`` weighs label `k` by the mean, over the row's true labels `j`, of the smoothed
    share of the rows with `j` that also have `k`. ``confusable`` with `X` weighs it by a ridge
    regression of the truth, fitted on the rows of other folds. Both leave every absent label a
    small chance. Labels are then drawn one after the other without replacement.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.data import add_noise
    >>> truth = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
    >>> candidates = add_noise(truth, 1.0, random_state=0)
    >>> candidates.sum(axis=1).tolist()
    [2, 4, 0]
    >>> bool((candidates.toarray() >= truth).all())
    True
    >>> add_noise(truth, None, avg_candidates=3, random_state=0).sum(axis=1).tolist()
    [3, 3, 3]
    """
    T = as_indicator(truth, "truth")
    check_choice(kind, get_args(NoiseKind), "kind")
    check_choice(rounding, get_args(Rounding), "rounding")
    if sum(amount is not None for amount in (ratio, avg_candidates, extra_labels)) != 1:
        raise ValueError(
            "Exactly one of ratio, avg_candidates and extra_labels says how many labels to add, "
            f"got ratio={ratio}, avg_candidates={avg_candidates}, extra_labels={extra_labels}."
        )
    rng = generator(random_state)
    n_true = np.diff(T.indptr)
    if ratio is not None:
        counts = _counts_by_ratio(n_true, T.shape[1], ratio, rounding, rng)
    elif avg_candidates is not None:
        counts = _check_whole(avg_candidates, "avg_candidates") - n_true
    else:
        counts = _counts_on_some_rows(len(n_true), _check_whole(extra_labels, "extra_labels"), row_fraction, rng)
    counts = np.clip(counts, 0, T.shape[1] - n_true)

    if kind == "uniform":
        rows, labels = draw_uniform(T, counts, rng)
    else:
        rows, labels = draw_weighted(T, counts, label_weights(T, kind, X, confusion, rng), rng)
    false = sparse.csr_array((np.ones(len(rows), np.uint8), (rows, labels)), shape=T.shape)
    candidates = (T + false).tocsr()
    candidates.sort_indices()
    logger.info(
        "%s noise: %d false candidates on %d of %d rows, %.3f per true label",
        *(kind, false.nnz, np.count_nonzero(counts), T.shape[0], false.nnz / max(T.nnz, 1)),
    )
    return candidates


def noise_report(truth: Any, Y: Any) -> dict[str, Any]:
    """Count the false candidates of `Y`.

    Parameters
    ----------
    truth, Y : array, sparse array or DataFrame of shape (n_samples, n_labels)
        Indicators of the true and of the candidate labels, the first a subset of the second.

    Returns
    -------
    report : dict
        ``false_candidates`` (their number), ``ratio`` (false candidates per true label, 0 where
        there is neither), ``rows_touched`` (rows with at least one) and ``false_per_label``
        (int array of shape (n_labels,)).

    Examples
    --------
    >>> from pmlkit.data import noise_report
    >>> noise_report([[1, 0, 0], [0, 1, 0]], [[1, 1, 1], [0, 1, 0]])
    {'false_candidates': 2, 'ratio': 1.0, 'rows_touched': 1, 'false_per_label': array([0, 1, 1])}
    """
    T, candidates = as_indicator(truth, "truth"), as_indicator(Y, "Y")
    if T.shape != candidates.shape:
        raise ValueError(f"truth and Y must have the same shape, got {T.shape} and {candidates.shape}.")
    n_missing = T.nnz - T.multiply(candidates).nnz
    if n_missing:
        raise ValueError(f"Every true label must be a candidate, but {n_missing} of {T.nnz} are not in Y.")
    false = (candidates.astype(np.int8) - T.astype(np.int8)).tocsr()
    false.eliminate_zeros()
    if T.nnz:
        ratio = false.nnz / T.nnz
    else:
        ratio = float("inf") if false.nnz else 0.0
    return {
        "false_candidates": int(false.nnz),
        "ratio": ratio,
        "rows_touched": int(np.count_nonzero(np.diff(false.indptr))),
        "false_per_label": np.bincount(false.indices, minlength=T.shape[1]),
    }


def _check_whole(value: Any, name: str) -> int:
    if not isinstance(value, int | np.integer) or value < 0:
        raise ValueError(f"{name} must be a whole number of labels, 0 or more, got {value!r}.")
    return int(value)


def _counts_by_ratio(
    n_true: IntArray, n_labels: int, ratio: float, rounding: Rounding, rng: np.random.Generator
) -> IntArray:
    """Return how many false labels each row is to get (it may be more than it has room for)."""
    if not np.isfinite(ratio) or ratio < 0:
        raise ValueError(f"ratio must be a finite number of false candidates per true label, 0 or more, got {ratio}.")
    if rounding == "global":
        room = np.where(n_true > 0, n_labels - n_true, 0).astype(np.int64)
        total = min(int(np.floor(ratio * n_true.sum() + 0.5)), int(room.sum()))
        _, cells = draw_distinct(np.array([room.sum()]), np.array([total]), rng)
        return np.bincount(np.searchsorted(np.cumsum(room), cells, side="right"), minlength=len(n_true))
    # 0.28 * 25 is 7.000000000000001 in floating point, which ceil would make 8.
    wanted = np.round(np.minimum(ratio * n_true, n_labels), 9)
    whole = np.floor(wanted)
    fraction = wanted - whole
    if rounding == "ceil":
        up = fraction > 0
    elif rounding == "round":
        up = fraction >= 0.5
    elif rounding == "stochastic":
        up = rng.random(len(wanted)) < fraction
    else:
        up = np.zeros(len(wanted), dtype=np.bool_)
    counts: IntArray = whole.astype(np.int64) + up
    return counts


def _counts_on_some_rows(n_samples: int, extra: int, fraction: float, rng: np.random.Generator) -> IntArray:
    if not 0 <= fraction <= 1:
        raise ValueError(f"row_fraction must be a share between 0 and 1, got {fraction}.")
    counts = np.zeros(n_samples, dtype=np.int64)
    counts[rng.permutation(n_samples)[: int(np.ceil(np.round(fraction * n_samples, 9)))]] = extra
    return counts


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
