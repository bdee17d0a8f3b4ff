"""Linear support vector machines for every pair of labels, trained on one Gram matrix."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy import sparse
from sklearn import config_context
from sklearn.svm import SVC

from pmlkit._typing import CSR, BoolArray, Features, FloatArray, IntArray
from pmlkit.numerics.canonical import plain_rows
from pmlkit.numerics.products import as_dense

__all__ = [
    "PairwiseMachines",
    "count_wins",
    "fit_pairwise_machines",
    "label_pairs",
    "trainable_pairs",
    "weighted_votes",
]

# The largest Gram matrix that is kept: 8,192 rows, half a gigabyte.
_GRAM_CELLS = 1 << 26
_DECISIONS_AT_ONCE = 1 << 24


@dataclass(frozen=True)
class PairwiseMachines:
    """Machines that decide between two labels, and between each label and none.

    The first ``q (q - 1) / 2`` machines are those of :func:`label_pairs`, in that order; the last q
    tell each label from its absence. Kept in dual form, which stays small where labels are many.

    Attributes
    ----------
    support_rows : dense array or CSR array of shape (n_support, n_features)
    dual : CSR array of shape (n_support, n_machines)
    bias : array of shape (n_machines,)
    accuracy : array of shape (n_machines,)
        Share of its training rows that a machine gets right; 0 where a machine had rows of one side
        only, or none, and decides nothing.
    """

    support_rows: Features
    dual: CSR
    bias: FloatArray
    accuracy: FloatArray

    @property
    def n_labels(self) -> int:
        """How many labels there are."""
        return int(np.sqrt(2 * len(self.bias) + 0.25))

    def wins(self, X: Features) -> Iterator[tuple[slice, BoolArray]]:
        """Yield blocks of rows, and whether each machine decides there for its (first) label."""
        by_machine = sparse.csr_array(self.dual.T)
        size = max(1, _DECISIONS_AT_ONCE // max(len(self.bias), X.shape[1]))
        for start in range(0, X.shape[0], size):
            block = slice(start, min(start + size, X.shape[0]))
            rows = plain_rows(X[block], dense=not sparse.issparse(self.support_rows))
            yield block, (by_machine @ _dense_product(self.support_rows, rows)).T + self.bias > 0


def label_pairs(n_labels: int) -> tuple[IntArray, IntArray]:
    """Return the first and the second label of every pair.

    Examples
    --------
    >>> from pmlkit.methods.particle.pairwise import label_pairs
    >>> [side.tolist() for side in label_pairs(3)]
    [[0, 0, 1], [1, 2, 2]]
    """
    return np.triu_indices(n_labels, k=1)


def trainable_pairs(positive: BoolArray, candidate: BoolArray) -> IntArray:
    """Return the numbers of the pairs that have rows on both sides.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.particle.pairwise import trainable_pairs
    >>> trainable_pairs(np.eye(3, 2, dtype=bool), np.eye(3, 2, dtype=bool))
    array([0])
    """
    first, second = label_pairs(positive.shape[1])
    # Rows where the one label is positive and the other is no candidate, counted for all pairs.
    alone = positive.T.astype(np.float64) @ (~candidate).astype(np.float64)
    return np.flatnonzero((alone[first, second] > 0) & (alone[second, first] > 0))


def fit_pairwise_machines(
    X: Features,
    positive: BoolArray,
    candidate: BoolArray,
    *,
    with_absence: bool = True,
    C: float = 1.0,
    tol: float = 1e-3,
    n_jobs: int | None = None,
) -> PairwiseMachines:
    """Train a machine for every pair of labels, and for each label one against its absence.

    The machine of labels j < k separates the rows where j is positive and k no candidate from those
    where k is positive and j no candidate (a row that is both counts for j); the machine of one
    label the rows where it is positive from those where it is no candidate.

    Parameters
    ----------
    X : dense array or CSR array of shape (n_rows, n_features)
    positive, candidate : arrays of bool of shape (n_rows, n_labels)
        The labels that are trusted, and those that are possible.
    with_absence : bool, default=True
        Whether the machines against absence are wanted.
    C : float, default=1.0
        Inverse strength of the ridge penalty, as in scikit-learn's SVC.
    tol : float, default=1e-3
        When the solver (libsvm) stops.
    n_jobs : int, optional
        Processes, as in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.particle.pairwise import fit_pairwise_machines
    >>> trusted = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=bool)
    >>> machines = fit_pairwise_machines(np.array([[1.0], [2.0], [-1.0], [-2.0]]), trusted, trusted)
    >>> machines.accuracy
    array([1., 1., 1.])
    """
    n_rows, n_labels = positive.shape
    n_pairs = n_labels * (n_labels - 1) // 2
    shared = n_rows * n_rows <= _GRAM_CELLS
    features = _dense_product(X, X) if shared else X
    options = {"C": C, "kernel": "precomputed" if shared else "linear", "tol": tol}
    numbers = trainable_pairs(positive, candidate)
    if with_absence:
        numbers = np.concatenate([numbers, n_pairs + np.arange(n_labels)])
    # Several parcels a worker: few enough to send, many enough to even out.
    n_parcels = min(8 * effective_n_jobs(n_jobs), len(numbers))
    parcels = Parallel(n_jobs=n_jobs)(
        delayed(_train)(options, features, positive, candidate, numbers[start::n_parcels]) for start in range(n_parcels)
    )
    bias, accuracy = np.zeros((2, n_pairs + n_labels))
    rows, columns, values = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    for trained in parcels:
        for number, support, coefficients, bias[number], accuracy[number] in trained:
            rows.append(support)
            columns.append(np.full(len(support), number))
            values.append(coefficients)
    used, place = np.unique(np.concatenate(rows), return_inverse=True)
    cells = np.concatenate(values), (place, np.concatenate(columns))
    return PairwiseMachines(X[used], sparse.csr_array(cells, (len(used), n_pairs + n_labels)), bias, accuracy)


def _train(
    options: dict[str, Any], features: Features, positive: BoolArray, candidate: BoolArray, numbers: IntArray
) -> list[tuple[int, IntArray, FloatArray, float, float]]:
    """Train some machines; for each: number, support rows, their coefficients, bias, accuracy."""
    first, second = label_pairs(positive.shape[1])
    positive, candidate = np.asfortranarray(positive), np.asfortranarray(candidate)
    machine = SVC(**options)
    trained = []
    with config_context(assume_finite=True, skip_parameter_validation=True):
        for number in numbers.tolist():
            if number < len(first):
                j, k = first[number], second[number]
                for_j, against_j = positive[:, j] & ~candidate[:, k], positive[:, k] & ~candidate[:, j]
            else:
                j = number - len(first)
                for_j, against_j = positive[:, j], ~candidate[:, j]
            rows = np.flatnonzero(for_j | against_j)
            side = for_j[rows]
            if not side.any() or side.all():
                continue
            own = features[np.ix_(rows, rows)] if machine.kernel == "precomputed" else features[rows]
            machine.fit(own, side)
            accuracy = float(np.mean((machine.decision_function(own) > 0) == side))
            coefficients = machine.dual_coef_
            coefficients = coefficients.toarray() if sparse.issparse(coefficients) else coefficients
            trained.append((number, rows[machine.support_], coefficients[0], float(machine.intercept_[0]), accuracy))
    return trained


def weighted_votes(machines: PairwiseMachines, X: Features) -> tuple[FloatArray, FloatArray]:
    """Let the machines vote with the weight of their accuracy.

    Returns
    -------
    votes : array of shape (n_rows, n_labels)
        For every label the weights of the pairs that it wins, and of its own machine where that
        decides for it.
    virtual : array of shape (n_rows,)
        The weights of the labels' own machines that decide against them: the votes of a virtual
        label that stands between the relevant labels and the others.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.particle.pairwise import fit_pairwise_machines, weighted_votes
    >>> trusted = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=bool)
    >>> machines = fit_pairwise_machines(np.array([[1.0], [2.0], [-1.0], [-2.0]]), trusted, trusted)
    >>> weighted_votes(machines, np.array([[3.0]]))
    (array([[2., 0.]]), array([1.]))
    """
    n_labels, (won, lost) = machines.n_labels, _ballots(machines.accuracy, machines.n_labels)
    votes, virtual = np.empty((X.shape[0], n_labels)), np.empty(X.shape[0])
    for block, wins in machines.wins(X):
        votes[block] = _tally(won, lost, wins)
        virtual[block] = ~wins[:, -n_labels:] @ machines.accuracy[-n_labels:]
    return votes, virtual


def count_wins(machines: PairwiseMachines, X: Features, *, missing_to_first: bool = False) -> IntArray:
    """Count, for every label, the pairs that it wins; a single label's own machine counts instead.

    Parameters
    ----------
    machines : PairwiseMachines
    X : dense array or CSR array of shape (n_rows, n_features)
    missing_to_first : bool, default=False
        Whether a pair that could not be trained counts for its first label; otherwise for neither.

    Returns
    -------
    wins : array of int of shape (n_rows, n_labels)

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.particle.pairwise import count_wins, fit_pairwise_machines
    >>> trusted = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=bool)
    >>> machines = fit_pairwise_machines(np.array([[1.0], [2.0], [-1.0], [-2.0]]), trusted, trusted)
    >>> count_wins(machines, np.array([[3.0], [-3.0]]))
    array([[1, 0],
           [0, 1]])
    """
    n_labels = machines.n_labels
    weight = (machines.accuracy > 0).astype(np.float64)
    if n_labels > 1:
        weight[-n_labels:] = 0.0
    won, lost = _ballots(weight, n_labels)
    counts = np.empty((X.shape[0], n_labels), dtype=np.int64)
    for block, wins in machines.wins(X):
        counts[block] = np.rint(_tally(won, lost, wins))
    if missing_to_first:
        first, _ = label_pairs(n_labels)
        counts += np.bincount(first[machines.accuracy[: len(first)] == 0], minlength=n_labels)
    return counts


def _ballots(weight: FloatArray, n_labels: int) -> tuple[CSR, CSR]:
    """Return two (n_labels, n_machines) tables: what each label gets where a machine says yes, and no."""
    first, second = label_pairs(n_labels)
    machine, shape = np.arange(len(weight)), (n_labels, len(weight))
    won = sparse.csr_array((weight, (np.concatenate([first, np.arange(n_labels)]), machine)), shape)
    return won, sparse.csr_array((weight[: len(first)], (second, machine[: len(first)])), shape)


def _tally(won: CSR, lost: CSR, wins: BoolArray) -> FloatArray:
    return np.asarray((won @ wins.T + lost @ ~wins.T).T)


def _dense_product(A: Features, B: Features) -> FloatArray:
    return np.asarray(as_dense(A @ B.T), dtype=np.float64)
