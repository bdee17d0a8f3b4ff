"""Random train-test splits as in the papers, and folds stratified by label."""

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import BaseCrossValidator

from pmlkit._arrays import as_indicator, generator
from pmlkit._typing import CSR, IntArray, RandomState

logger = logging.getLogger(__name__)


def train_test_rows(n: int, *, test_size: float = 0.2, random_state: RandomState = None) -> tuple[IntArray, IntArray]:
    """Split `n` rows at random in two, as the papers do (80 % to train, 20 % to test).

    Parameters
    ----------
    n : int
        Number of rows, at least 2.
    test_size : float, default=0.2
        Share of the rows that go to the test, between 0 and 1. The number is rounded,
        and both sides get at least one row.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the shuffle.

    Returns
    -------
    train, test : tuple of two int arrays
        Row numbers, each in increasing order; together every row exactly once.

    Examples
    --------
    >>> from pmlkit.data import train_test_rows
    >>> train, test = train_test_rows(10, random_state=0)
    >>> len(train), len(test)
    (8, 2)
    """
    if n < 2:
        raise ValueError(f"n must be at least 2 rows, one to train and one to test, got {n}.")
    if not 0 < test_size < 1:
        raise ValueError(f"test_size must be a share between 0 and 1 (both excluded), got {test_size}.")
    n_test = min(max(round(test_size * n), 1), n - 1)
    order = generator(random_state).permutation(n)
    return np.sort(order[n_test:]), np.sort(order[:n_test])


class StratifiedLabelKFold(BaseCrossValidator):
    """K folds that each hold about the same share of every label.

    Iterative stratification [1]_: the label with the fewest rows left is shared out first,
    each of its rows going to the fold that holds the fewest of that label (then to the
    smallest fold, then at random). Rare labels reach as many folds as they can, which a
    random split does not promise. Rows without labels even out the sizes at the end.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=True
        Take the rows in random order and break ties at random. Without it the folds depend on
        the order of the rows only.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the shuffle; an int gives the same folds at every call of `split`.

    Notes
    -----
    With `groups`, a group (a patient, a document cut in pieces) is assigned as a whole, those
    with the most rows of the label at hand first. Every label counts by its rows, so that the
    folds stay balanced in rows, as far as the sizes of the groups allow.

    The work is proportional to the number of ones in `Y` plus rows times folds.

    References
    ----------
    .. [1] Sechidis, Tsoumakas, Vlahavas (2011), "On the stratification of multi-label data",
       ECML PKDD.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.data import StratifiedLabelKFold
    >>> Y = np.array([[1, 0], [1, 0], [1, 0], [1, 0], [0, 1], [0, 1]])
    >>> folds = StratifiedLabelKFold(n_splits=2, random_state=0)
    >>> [Y[test].sum(axis=0).tolist() for _, test in folds.split(Y, Y)]
    [[2, 1], [2, 1]]
    """

    # Under metadata routing, `groups` is always asked for, as GroupKFold does.
    __metadata_request__split = {"groups": True}

    def __init__(self, n_splits: int = 5, *, shuffle: bool = True, random_state: RandomState = None) -> None:
        if not isinstance(n_splits, int | np.integer) or n_splits < 2:
            raise ValueError(f"n_splits must be an integer of at least 2, got {n_splits!r}.")
        if not shuffle and random_state is not None:
            raise ValueError("random_state has no effect when shuffle=False: leave it at None, or set shuffle=True.")
        self.n_splits = int(n_splits)
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        """Return the number of folds; the arguments are ignored."""
        return self.n_splits

    def split(self, X: object, y: Any = None, groups: Any = None) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the train rows and the test rows of each fold.

        Parameters
        ----------
        X : object
            Only its length is used.
        y : array, sparse array or DataFrame of shape (n_samples, n_labels)
            Indicator of 0/1 whose columns are to be balanced; one column may come as a vector.
        groups : sequence of length n_samples, optional
            Rows of the same group all go to the same fold.

        Yields
        ------
        train, test : tuple of two int arrays
            Row numbers in increasing order.
        """
        fold = self._folds(X, y, groups)
        for number in range(self.n_splits):
            yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)

    def _folds(self, X: object, y: Any, groups: Any) -> IntArray:
        """Return the fold of each row."""
        if y is None:
            raise ValueError("y is missing: StratifiedLabelKFold balances labels and needs the indicator of 0/1.")
        y = np.asarray(y)[:, None] if np.ndim(y) == 1 and not sparse.issparse(y) else y
        Y = as_indicator(y, "y")
        n_samples = Y.shape[0]
        length = n_samples if X is None else X.shape[0] if hasattr(X, "shape") else len(X)  # type: ignore[arg-type]
        if length != n_samples:
            raise ValueError(f"X and y must have the same number of rows, got {length} and {n_samples}.")
        if groups is None:
            unit = np.arange(n_samples)
            n_units, word = n_samples, "rows"
            counts = Y
        else:
            groups = np.asarray(groups)
            if groups.shape != (n_samples,):
                raise ValueError(
                    f"groups must hold one value for each of the {n_samples} rows, got shape {groups.shape}."
                )
            names, unit = np.unique(groups, return_inverse=True)
            n_units, word = len(names), "groups"
            member = sparse.csr_array(
                (np.ones(n_samples, np.int64), (unit, np.arange(n_samples))), shape=(n_units, n_samples)
            )
            counts = (member @ Y.astype(np.int64)).tocsr()
        if self.n_splits > n_units:
            raise ValueError(f"n_splits={self.n_splits} is more than the {n_units} {word}: use fewer folds.")
        rng = generator(self.random_state) if self.shuffle else None
        fold: IntArray = _deal(counts, np.bincount(unit, minlength=n_units), self.n_splits, rng)[unit]
        return fold


def _deal(counts: CSR, sizes: IntArray, n_folds: int, rng: np.random.Generator | None) -> IntArray:
    """Assign units (rows, or groups of rows) to folds by iterative stratification.

    `counts` (n_units, n_labels): rows of each unit that have each label. `sizes` (n_units,): rows of each unit. `rng`:
    shuffles and breaks ties; without it both follow the order of units and folds.

    Notes
    -----
    All folds want the same share, so the fold that most wants a label is the one that holds
    the fewest: integers decide, and ties are exact.
    """
    n_units, n_labels = counts.shape
    order = np.arange(n_units) if rng is None else rng.permutation(n_units)
    ranks = np.empty(n_units, dtype=np.int64)
    ranks[order] = np.arange(n_units)
    lot = [0.0] * n_units if rng is None else rng.random(n_units).tolist()
    columns = counts.tocsc()
    remaining = np.asarray(counts.sum(axis=0)).astype(np.int64)
    fold = np.full(n_units, -1, dtype=np.int64)
    # Plain lists: the loop below is sequential by nature, and indexing an array cell by cell is ten times slower.
    start, labels, amounts = counts.indptr.tolist(), counts.indices.tolist(), counts.data.tolist()
    size = sizes.tolist()
    held = [[0] * n_folds for _ in range(n_labels)]
    rows_held = [0] * n_folds

    def place(unit: int, wanted: list[int]) -> int:
        fewest = min(wanted)
        if wanted.count(fewest) == 1:
            chosen = wanted.index(fewest)
        else:
            best = [number for number, has in enumerate(wanted) if has == fewest]
            smallest = min([rows_held[number] for number in best])
            best = [number for number in best if rows_held[number] == smallest]
            chosen = best[int(lot[unit] * len(best))]
        rows_held[chosen] += size[unit]
        for cell in range(start[unit], start[unit + 1]):
            held[labels[cell]][chosen] += amounts[cell]
        return chosen

    while remaining.any():
        label = int(np.argmin(np.where(remaining > 0, remaining, np.iinfo(np.int64).max)))
        column = slice(columns.indptr[label], columns.indptr[label + 1])
        units, amount = columns.indices[column], columns.data[column].astype(np.int64)
        is_free = fold[units] < 0
        units, amount = units[is_free], amount[is_free]
        units = units[np.lexsort((ranks[units], -amount))]
        fold[units] = [place(unit, held[label]) for unit in units.tolist()]
        remaining -= _sum_rows(counts, units)
    rest = np.flatnonzero(fold < 0)
    rest = rest[np.lexsort((ranks[rest], -sizes[rest]))]
    fold[rest] = [place(unit, rows_held) for unit in rest.tolist()]
    logger.debug("assigned %d units to folds of %s rows", n_units, rows_held)
    return fold


def _sum_rows(counts: CSR, rows: IntArray) -> IntArray:
    """Return the column sums of some rows; several times faster than slicing them out where the rows are few."""
    lengths = counts.indptr[rows + 1] - counts.indptr[rows]
    cells = np.repeat(counts.indptr[rows] - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
    sums: IntArray = np.bincount(counts.indices[cells], weights=counts.data[cells], minlength=counts.shape[1])
    return sums.astype(np.int64)
