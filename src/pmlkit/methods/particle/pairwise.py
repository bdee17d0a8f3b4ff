"""Linear support vector machines for every pair of labels, trained on one Gram matrix."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy import sparse
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from pmlkit._typing import CSR, BoolArray, Features, FloatArray, IntArray
from pmlkit.numerics.content import plain_rows
from pmlkit.numerics.products import as_dense
from pmlkit.numerics.scaling import column_scale, scaled

# The largest Gram matrix that is kept: 8,192 rows, half a gigabyte.
_GRAM_CELLS = 1 << 26
_DECISIONS_AT_ONCE = 1 << 24


@dataclass(frozen=True)
class PairwiseMachines:
    """Machines that decide between two labels, and between each label and none.

    The first ``q (q - 1) / 2`` machines are those of :func:`label_pairs`, in that order; the last q
    tell each label from its absence. Kept in dual form, which stays small where labels are many.

    - `accuracy` (n_machines,): share of its training rows that a machine gets right; 0 where a machine had rows of one
      side only, or none, and decides nothing.
    - `n_iter`: iterations of the machine that took the most; 0 where none was trained.
    """

    support_rows: Features
    dual: CSR
    bias: FloatArray
    accuracy: FloatArray
    n_iter: int = 0

    @property
    def n_labels(self) -> int:
        """Number of labels."""
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
    """Return the first and the second label of every pair."""
    return np.triu_indices(n_labels, k=1)


def trainable_pairs(positive: BoolArray, candidate: BoolArray) -> IntArray:
    """Return the numbers of the pairs that have rows on both sides."""
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
    max_iter: int = 2_000_000,
    n_jobs: int | None = None,
) -> PairwiseMachines:
    """Train a machine for every pair of labels, and for each label one against its absence.

    The machine of labels j < k separates the rows where j is positive and k no candidate from those
    where k is positive and j no candidate (a row that is both counts for j); the machine of one
    label separates the rows where it is positive from those where it is no candidate.

    `positive`, `candidate` (n_samples, n_labels): the labels that are trusted, and those that are possible.
    `with_absence`: whether to train the machines against absence. `C`, `tol`: as in scikit-learn's SVC. `max_iter`: per
    machine. Features of large values make C = 1 a very weak penalty, and libsvm may take forever: if any machine needs
    more iterations, all of them are trained on columns divided by their standard deviation instead, with a warning.
    """
    numbers = trainable_pairs(positive, candidate)
    n_labels = positive.shape[1]
    n_pairs = n_labels * (n_labels - 1) // 2
    if with_absence:
        numbers = np.concatenate([numbers, n_pairs + np.arange(n_labels)])
    options = {"C": C, "tol": tol, "max_iter": max_iter}
    rows_of_support = X
    trained = _train_all(X, positive, candidate, numbers, options, n_jobs, only_converged=True)
    if trained is None:
        scale = column_scale(X)
        trained = _train_all(scaled(X, "standard", scale), positive, candidate, numbers, options, n_jobs) or []
        # Rows of the support divided by the scale twice: new rows need not be divided.
        rows_of_support = scaled(X, "standard", scale**2)
        n_stopped = sum(not machine.converged for machine in trained)
        advice = "Scale the features yourself to choose how, for instance with sklearn.preprocessing.StandardScaler."
        if n_stopped:
            advice = f"{n_stopped} of {len(trained)} still did not converge: raise max_iter or lower C."
        warnings.warn(
            f"A pairwise machine did not converge in max_iter={max_iter} iterations, as happens with features of large "
            f"values; all were trained on features divided by their standard deviation instead. {advice}",
            ConvergenceWarning,
            stacklevel=2,
        )
    bias, accuracy = np.zeros((2, n_pairs + n_labels))
    rows: list[IntArray] = [np.zeros(0, dtype=np.int64)]
    columns: list[IntArray] = [np.zeros(0, dtype=np.int64)]
    values: list[FloatArray] = [np.zeros(0)]
    for machine in trained:
        bias[machine.number], accuracy[machine.number] = machine.bias, machine.accuracy
        rows.append(machine.support)
        columns.append(np.full(len(machine.support), machine.number))
        values.append(machine.coefficients)
    used, place = np.unique(np.concatenate(rows), return_inverse=True)
    cells = np.concatenate(values), (place, np.concatenate(columns))
    dual = sparse.csr_array(cells, (len(used), n_pairs + n_labels))
    n_iter = max((machine.n_iter for machine in trained), default=0)
    return PairwiseMachines(rows_of_support[used], dual, bias, accuracy, n_iter)


class _Machine(NamedTuple):
    """A trained machine: its number, its support rows with their coefficients, and how the training went."""

    number: int
    support: IntArray
    coefficients: FloatArray
    bias: float
    accuracy: float
    n_iter: int
    converged: bool


def _train_all(
    X: Features,
    positive: BoolArray,
    candidate: BoolArray,
    numbers: IntArray,
    options: dict[str, Any],
    n_jobs: int | None,
    *,
    only_converged: bool = False,
) -> list[_Machine] | None:
    """Train the machines of these numbers; with `only_converged`, return None when one of them did not converge."""
    shared = X.shape[0] ** 2 <= _GRAM_CELLS
    features = _dense_product(X, X) if shared else X
    options = {**options, "kernel": "precomputed" if shared else "linear"}
    # Several batches per worker: few enough to send, many enough to balance the load.
    n_workers = effective_n_jobs(n_jobs)
    n_batches = min(8 * n_workers if n_workers > 1 else 1, len(numbers))
    batches = Parallel(n_jobs=n_jobs)(
        delayed(_train)(options, features, positive, candidate, numbers[start::n_batches], only_converged)
        for start in range(n_batches)
    )
    machines = [machine for batch in batches for machine in batch]
    return None if only_converged and not all(machine.converged for machine in machines) else machines


def _train(
    options: dict[str, Any],
    features: Features,
    positive: BoolArray,
    candidate: BoolArray,
    numbers: IntArray,
    only_converged: bool,
) -> list[_Machine]:
    """Train some machines, up to the first that does not converge where `only_converged`."""
    first, second = label_pairs(positive.shape[1])
    positive, candidate = np.asfortranarray(positive), np.asfortranarray(candidate)
    machine = SVC(**options)
    trained: list[_Machine] = []
    with config_context(assume_finite=True, skip_parameter_validation=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # one warning for all of them, by the caller
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
            trained.append(
                _Machine(
                    number,
                    rows[machine.support_],
                    coefficients[0],
                    float(machine.intercept_[0]),
                    accuracy,
                    int(machine.n_iter_[0]),
                    machine.fit_status_ == 0,
                )
            )
            if only_converged and not trained[-1].converged:
                break
    return trained


def weighted_votes(machines: PairwiseMachines, X: Features) -> tuple[FloatArray, FloatArray]:
    """Return the votes of all machines, weighted by their accuracy.

    - Returns `votes` (n_samples, n_labels): for every label the weights of the pairs that it wins, and of its own
      machine where that decides for it.
    - Returns `virtual` (n_samples,): the weights of the labels' own machines that decide against them: the votes of a
      virtual label that stands between the relevant labels and the others.
    """
    n_labels, (won, lost) = machines.n_labels, _ballots(machines.accuracy, machines.n_labels)
    votes, virtual = np.empty((X.shape[0], n_labels)), np.empty(X.shape[0])
    for block, wins in machines.wins(X):
        votes[block] = _tally(won, lost, wins)
        virtual[block] = ~wins[:, -n_labels:] @ machines.accuracy[-n_labels:]
    return votes, virtual


def count_wins(machines: PairwiseMachines, X: Features, *, missing_to_first: bool = False) -> IntArray:
    """Count, for every label, the pairs that it wins; a single label's own machine counts instead.

    `missing_to_first`: whether a pair that could not be trained counts for its first label; otherwise for neither.
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
