"""Artificial noise: false candidates added to true labels, for benchmarks with a known truth.

Two choices are independent. *How many* false labels a row gets: a ratio of its true labels (with a
choice of rounding), a fixed number of candidates, or a fixed number of extra labels. *Which* ones:
any, those that co-occur with the row's true labels, or those that a model confuses.
"""

import logging
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from pmlkit._labels import as_indicator
from pmlkit._random import generator
from pmlkit._typing import CSR, IntArray, RandomState
from pmlkit.data._draws import NoiseKind, draw_distinct, draw_uniform, draw_weighted, label_weights

__all__ = ["NoiseKind", "Rounding", "add_noise", "noise_report"]

logger = logging.getLogger(__name__)

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
    if kind not in get_args(NoiseKind):
        raise ValueError(f"kind must be one of {', '.join(get_args(NoiseKind))}, got {kind!r}.")
    if rounding not in get_args(Rounding):
        raise ValueError(f"rounding must be one of {', '.join(get_args(Rounding))}, got {rounding!r}.")
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
