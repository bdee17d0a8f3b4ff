import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from pmlkit.methods.particle import pairwise
from pmlkit.methods.particle.pairwise import (
    count_wins,
    fit_pairwise_machines,
    label_pairs,
    trainable_pairs,
    weighted_votes,
)


@pytest.fixture
def credible(oracle):
    return oracle.load("particle_credible_train") > 0


def votes_one_by_one(X, credible, candidate, X_test):
    """The voting of the paper, one machine after the other; returns weighted votes, virtual votes, wins."""
    n_labels = credible.shape[1]
    votes, virtual, wins = np.zeros((len(X_test), n_labels)), np.zeros(len(X_test)), np.zeros((len(X_test), n_labels))

    def decide(positive, negative):
        rows = positive | negative
        if not positive.any() or positive[rows].all():
            return None, 0.0
        machine = SVC(kernel="linear", C=1.0).fit(X[rows], positive[rows])
        return machine.predict(X_test), np.mean(machine.predict(X[rows]) == positive[rows])

    for j in range(n_labels):
        for k in range(j + 1, n_labels):
            won, weight = decide(credible[:, j] & ~candidate[:, k], credible[:, k] & ~candidate[:, j])
            if won is not None:
                votes[:, j] += weight * won
                votes[:, k] += weight * ~won
                wins[:, j] += won
                wins[:, k] += ~won
        present, weight = decide(credible[:, j], ~candidate[:, j])
        if present is not None:
            votes[:, j] += weight * present
            virtual += weight * ~present
    return votes, virtual, wins


def test_stored_votes(oracle, credible):
    machines = fit_pairwise_machines(oracle.X, credible, oracle.Y > 0)
    votes, virtual = weighted_votes(machines, oracle.X_test)
    assert_allclose(votes, oracle.load("particle_vls_votes_unceiled_test"), rtol=0, atol=1e-12)
    assert_array_equal(np.ceil(votes), oracle.load("particle_vls_rawvotes_test"))
    assert_array_equal(np.ceil(virtual), oracle.load("particle_vls_virtual_test"))
    labels = np.ceil(votes) > np.ceil(virtual)[:, None]
    assert_array_equal(labels, oracle.load("particle_vls_labels_test") > 0)
    wins = count_wins(machines, oracle.X_test, missing_to_first=True)
    assert_array_equal(wins, oracle.load("particle_map_votes_test"))


@pytest.mark.parametrize("gram_cells", [1 << 26, 0], ids=["shared Gram matrix", "rows"])
@pytest.mark.parametrize(("container", "n_jobs"), [(np.asarray, None), (sparse.csr_array, None), (np.asarray, 2)])
def test_every_path_equals_one_machine_after_the_other(oracle, credible, monkeypatch, gram_cells, container, n_jobs):
    monkeypatch.setattr(pairwise, "_GRAM_CELLS", gram_cells)
    monkeypatch.setattr(pairwise, "_DECISIONS_AT_ONCE", 100)  # several blocks
    candidate = oracle.Y > 0
    credible, candidate = credible.copy(), candidate.copy()
    credible[:, 2] = False  # a label that no machine can be trained for
    votes, virtual, wins = votes_one_by_one(oracle.X, credible, candidate, oracle.X_test)
    with parallel_config("threading"):  # processes take long to start
        machines = fit_pairwise_machines(container(oracle.X), credible, candidate, n_jobs=n_jobs)
    ours = weighted_votes(machines, container(oracle.X_test))
    assert_allclose(ours[0], votes, rtol=0, atol=1e-12)
    assert_allclose(ours[1], virtual, rtol=0, atol=1e-12)
    assert_array_equal(count_wins(machines, oracle.X_test), wins)


def test_pairs_that_lack_a_side_vote_for_nobody_or_for_the_first():
    X, trusted = np.array([[1.0], [2.0]]), np.array([[True, False], [True, False]])
    machines = fit_pairwise_machines(X, trusted, trusted)
    assert len(trainable_pairs(trusted, trusted)) == 0
    assert_array_equal(machines.accuracy, 0.0)
    assert_array_equal(weighted_votes(machines, X)[0], 0.0)
    assert_array_equal(count_wins(machines, X), 0)
    assert_array_equal(count_wins(machines, X, missing_to_first=True), [[1, 0], [1, 0]])


def test_a_row_on_both_sides_counts_for_the_first():
    # Both labels credible, neither a candidate: can only come from the authors' elicitation.
    X = np.array([[1.0], [2.0], [-1.0]])
    credible = np.array([[True, True], [True, False], [False, True]])
    candidate = np.array([[False, False], [True, False], [False, True]])
    machines = fit_pairwise_machines(X, credible, candidate, with_absence=False)
    assert_array_equal(machines.accuracy, [1.0, 0.0, 0.0])
    assert_array_equal(count_wins(machines, X), [[1, 0], [1, 0], [0, 1]])


@pytest.mark.parametrize("n_labels", [1, 2, 3, 374])
def test_number_of_labels_is_recovered(n_labels):
    n_machines = len(label_pairs(n_labels)[0]) + n_labels
    blank = np.zeros(n_machines)
    machines = pairwise.PairwiseMachines(np.zeros((0, 1)), sparse.csr_array((0, n_machines)), blank, blank)
    assert machines.n_labels == n_labels


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_machines_that_do_not_converge_are_trained_on_scaled_features(oracle, credible, container):
    """At this scale libsvm would run for minutes; scaled columns make the units of the features irrelevant."""
    candidate, units = oracle.Y > 0, np.logspace(4, 6, oracle.X.shape[1])
    with pytest.warns(ConvergenceWarning) as caught:
        machines = fit_pairwise_machines(container(oracle.X * units), credible, candidate, max_iter=20_000)
    assert len(caught) == 1
    assert "divided by their standard deviation" in str(caught[0].message)
    scale = oracle.X.std(axis=0)
    expected = votes_one_by_one(oracle.X / scale, credible, candidate, oracle.X_test / scale)
    votes, virtual = weighted_votes(machines, oracle.X_test * units)
    assert_allclose(votes, expected[0], atol=1e-12)
    assert_allclose(virtual, expected[1], atol=1e-12)


def test_machines_that_never_converge_are_counted_in_one_warning(oracle, credible):
    with pytest.warns(ConvergenceWarning, match=r"\d+ of \d+ still did not converge: raise max_iter") as caught:
        machines = fit_pairwise_machines(oracle.X, credible, oracle.Y > 0, max_iter=2)
    assert len(caught) == 1
    assert np.isfinite(machines.bias).all()
