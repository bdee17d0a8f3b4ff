import itertools
import logging

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse, stats

from pmlkit.data import noise
from pmlkit.data.noise import add_noise, noise_report

KINDS = ["uniform", "correlated", "confusable"]
ROUNDINGS = ["stochastic", "ceil", "round", "floor", "global"]

truths = hnp.arrays(np.uint8, st.tuples(st.integers(1, 12), st.integers(1, 7)), elements=st.integers(0, 1))


def set_probabilities(weights, n_drawn):
    """Probability of every set when labels are drawn one after the other by weight, without replacement."""
    result = {}
    for sequence in itertools.permutations(weights, n_drawn):
        probability, left = 1.0, sum(weights.values())
        for label in sequence:
            probability *= weights[label] / left
            left -= weights[label]
        key = tuple(sorted(sequence))
        result[key] = result.get(key, 0.0) + probability
    return result


def assert_drawn_by(false, probabilities):
    """Chi-square test of the false labels of many alike rows against the probability of every set."""
    observed = dict.fromkeys(probabilities, 0)
    for row in false:
        observed[tuple(np.flatnonzero(row).tolist())] += 1
    expected = len(false) * np.array([probabilities[key] for key in observed])
    assert stats.chisquare(list(observed.values()), expected).pvalue > 1e-3


def features_for(truth, seed=0):
    rng = np.random.default_rng(seed)
    return truth @ rng.standard_normal((truth.shape[1], 4)) + 0.3 * rng.standard_normal((len(truth), 4))


@settings(max_examples=60, deadline=None)
@given(truths, st.floats(0, 6), st.sampled_from(KINDS), st.sampled_from(ROUNDINGS), st.integers(0, 99))
def test_candidates_hold_the_truth_and_the_number_asked_for(truth, ratio, kind, rounding, seed):
    original = truth.copy()
    Y = add_noise(truth, ratio, kind, rounding, seed, X=features_for(truth))
    assert isinstance(Y, sparse.csr_array)
    assert Y.dtype == np.uint8
    assert Y.has_canonical_format
    assert set(Y.data.tolist()) <= {1}
    np.testing.assert_array_equal(truth, original)
    false = Y.toarray().astype(int) - truth
    assert false.min() >= 0
    n_true, n_false = truth.sum(axis=1), false.sum(axis=1)
    room = np.where(n_true > 0, truth.shape[1] - n_true, 0)
    assert (n_false <= room).all()
    wanted = np.round(ratio * n_true, 9)
    if rounding == "global":
        assert n_false.sum() == min(np.floor(ratio * truth.sum() + 0.5), room.sum())
    elif rounding == "stochastic":
        assert (n_false >= np.minimum(np.floor(wanted), room)).all()
        assert (n_false <= np.minimum(np.ceil(wanted), room)).all()
    else:
        exact = {"ceil": np.ceil, "floor": np.floor, "round": lambda x: np.floor(x + 0.5)}[rounding](wanted)
        np.testing.assert_array_equal(n_false, np.minimum(exact, room))


@settings(max_examples=30, deadline=None)
@given(truths, st.integers(0, 8), st.sampled_from(KINDS))
def test_avg_candidates_fills_rows_up(truth, n_candidates, kind):
    Y = add_noise(truth, None, kind, random_state=0, X=features_for(truth), avg_candidates=n_candidates).toarray()
    n_true = truth.sum(axis=1)
    assert (truth <= Y).all()
    np.testing.assert_array_equal(Y.sum(axis=1), np.maximum(n_true, min(n_candidates, truth.shape[1])))


@settings(max_examples=30, deadline=None)
@given(truths, st.integers(0, 8), st.floats(0, 1))
def test_extra_labels_touch_a_share_of_the_rows(truth, extra, fraction):
    Y = add_noise(truth, None, random_state=0, extra_labels=extra, row_fraction=fraction).toarray()
    n_added = (Y - truth).sum(axis=1)
    room = truth.shape[1] - truth.sum(axis=1)
    assert ((n_added == 0) | (n_added == np.minimum(extra, room))).all()
    n_chosen = np.ceil(np.round(fraction * len(truth), 9))
    assert np.count_nonzero(n_added) <= n_chosen
    if extra and room.all():
        assert np.count_nonzero(n_added) == n_chosen


@pytest.mark.parametrize("n_drawn", [1, 2, 3])
def test_uniform_draws_every_set_alike(n_drawn):
    truth = np.tile([1, 0, 0, 1, 0, 0], (4000, 1))
    false = add_noise(truth, None, random_state=1, extra_labels=n_drawn).toarray() - truth
    assert_drawn_by(false, set_probabilities(dict.fromkeys([1, 2, 4, 5], 1.0), n_drawn))


@pytest.mark.parametrize("total", [2, 5])
def test_global_draws_every_set_of_cells_alike(total):
    truth = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0], [0, 0, 1]])
    ratio = total / truth.sum()
    absent = np.flatnonzero((truth == 0) & (truth.sum(axis=1, keepdims=True) > 0)).tolist()
    rng = np.random.default_rng(3)
    drawn = [add_noise(truth, ratio, "uniform", "global", rng).toarray() - truth for _ in range(700)]
    assert_drawn_by([cells.ravel() for cells in drawn], set_probabilities(dict.fromkeys(absent, 1.0), total))


@pytest.mark.parametrize("n_drawn", [1, 2, 3])
def test_confusion_table_draws_by_weight_without_replacement(n_drawn):
    confusion = np.ones((6, 6))
    confusion[:2] = [[9, 1, 2, 4, 0, 1], [4, 7, 1, 0, 2, 1]]
    truth = np.tile([1, 1, 0, 0, 0, 0], (4000, 1))
    Y = add_noise(truth, None, "confusable", random_state=0, confusion=confusion, extra_labels=n_drawn)
    # Rows without their diagonal, each summing to one, averaged over the true labels 0 and 1, and smoothed.
    weights = {label: (confusion[0, label] / 8 + confusion[1, label] / 8) / 2 + 0.05 / 6 for label in (2, 3, 4, 5)}
    assert_drawn_by(Y.toarray() - truth, set_probabilities(weights, n_drawn))


def test_correlated_draws_by_co_occurrence():
    patterns = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]])
    truth = np.tile(patterns, (2500, 1))
    Y = add_noise(truth, None, "correlated", random_state=0, extra_labels=1).toarray()
    # Of the rows with label 0, half also have label 1 and a quarter label 2; none has label 3.
    alone = np.arange(4, len(truth), 5)
    weights = {1: 0.5 + 0.05 / 4, 2: 0.25 + 0.05 / 4, 3: 0.05 / 4}
    assert_drawn_by(Y[alone] - truth[alone], set_probabilities(weights, 1))
    # Label 3 occurs with nothing: all others alike.
    loner = np.arange(3, len(truth), 5)
    assert_drawn_by(Y[loner] - truth[loner], set_probabilities(dict.fromkeys([0, 1, 2], 1.0), 1))


@pytest.mark.parametrize("kind_of_X", ["dense", "sparse", "wide"])
def test_confusable_prefers_labels_that_look_alike(kind_of_X, monkeypatch):
    if kind_of_X == "wide":
        monkeypatch.setattr(noise, "_MAX_FEATURES", 6)
        monkeypatch.setattr(noise, "_N_COMPONENTS", 5)
    rng = np.random.default_rng(0)
    n_rows, n_labels = 1500, 6
    label = rng.integers(n_labels, size=n_rows)
    truth = np.eye(n_labels, dtype=int)[label]
    # Labels 0 and 1 have the same features, and so have 2 and 3, and 4 and 5.
    X = np.eye(3)[label // 2] @ rng.standard_normal((3, 8)) * 3 + rng.standard_normal((n_rows, 8))
    X = sparse.csr_array(X) if kind_of_X == "sparse" else X
    Y = add_noise(truth, 1.0, "confusable", random_state=0, X=X).toarray()
    false = (Y - truth).argmax(axis=1)
    is_twin = false == (label ^ 1)
    assert is_twin.mean() > 0.6  # 0.2 would be chance


def test_confusable_does_not_ask_the_row_itself():
    truth = (np.random.default_rng(0).random((60, 5)) < 0.4).astype(np.uint8)
    X = features_for(truth)

    def weights_of(row):
        weights = noise.label_weights(sparse.csr_array(truth), "confusable", X, None, np.random.default_rng(1))
        return weights(np.array([row]))

    before = weights_of(7)
    truth[7] = 1 - truth[7]
    np.testing.assert_array_equal(weights_of(7), before)
    truth[8:] = 1 - truth[8:]
    assert np.abs(weights_of(7) - before).max() > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_do_not_change_the_result(kind, monkeypatch):
    truth = (np.random.default_rng(0).random((300, 8)) < 0.3).astype(int)
    X = features_for(truth)
    whole = add_noise(truth, 1.3, kind, random_state=5, X=X)
    monkeypatch.setattr(noise, "_BLOCK_CELLS", 56)
    in_blocks = add_noise(truth, 1.3, kind, random_state=5, X=X)
    np.testing.assert_array_equal(whole.toarray(), in_blocks.toarray())


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_result_in_any_container(kind):
    truth = (np.random.default_rng(0).random((80, 6)) < 0.3).astype(int)
    X = features_for(truth)
    Y = add_noise(truth, 1.0, kind, random_state=5, X=X).toarray()
    shuffled = sparse.coo_array(truth).tocsc()  # indices not sorted by row
    for same, same_X in [(truth.astype(bool), X), (shuffled, pd.DataFrame(X)), (pd.DataFrame(truth), X.tolist())]:
        np.testing.assert_array_equal(add_noise(same, 1.0, kind, random_state=5, X=same_X).toarray(), Y)
    assert (add_noise(truth, 1.0, kind, random_state=6, X=X).toarray() != Y).any()


def test_stochastic_and_global_reach_the_ratio_where_the_others_do_not():
    truth = np.eye(10, dtype=int)[np.random.default_rng(0).integers(10, size=5000)]
    reached = {
        rounding: noise_report(truth, add_noise(truth, 0.1, "uniform", rounding, 0))["ratio"] for rounding in ROUNDINGS
    }
    assert reached["stochastic"] == pytest.approx(0.1, abs=0.015)
    assert reached["global"] == 0.1
    assert (reached["ceil"], reached["round"], reached["floor"]) == (1.0, 0.0, 0.0)


def test_rounding_is_not_fooled_by_floating_point():
    truth = np.repeat([[1, 0]], [25, 30], axis=1)
    assert 0.28 * 25 > 7
    assert add_noise(truth, 0.28, "uniform", "ceil", 0).nnz == 25 + 7
    assert 1.16 * 25 < 29
    assert add_noise(truth, 1.16, "uniform", "floor", 0).nnz == 25 + 29


def test_half_a_label_is_rounded_up():
    assert add_noise([[1, 0, 0]], 0.5, "uniform", "round", 0).nnz == 2


def test_what_was_added_is_logged(caplog):
    with caplog.at_level(logging.INFO, logger="pmlkit.data.noise"):
        add_noise([[1, 0], [1, 1], [0, 0]], 1.0, random_state=0)
    assert "uniform noise: 1 false candidates on 1 of 3 rows, 0.333 per true label" in caplog.text


@settings(max_examples=40, deadline=None)
@given(truths, st.floats(0, 3))
def test_report_counts_like_a_loop(truth, ratio):
    Y = add_noise(truth, ratio, random_state=0)
    report = noise_report(truth, Y)
    per_label, touched = [0] * truth.shape[1], set()
    for row, label in itertools.product(*map(range, truth.shape)):
        if Y[row, label] and not truth[row, label]:
            per_label[label] += 1
            touched.add(row)
    assert report["false_candidates"] == sum(per_label)
    assert report["false_per_label"].tolist() == per_label
    assert report["rows_touched"] == len(touched)
    assert report["ratio"] == pytest.approx(sum(per_label) / max(truth.sum(), 1))


def test_report_without_any_true_label():
    assert noise_report([[0, 0]], [[0, 1]])["ratio"] == np.inf
    assert noise_report([[0, 0]], [[0, 0]])["ratio"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ratio": -0.5}, "ratio must be a finite number"),
        ({"ratio": np.nan}, "ratio must be a finite number"),
        ({"ratio": np.inf}, "ratio must be a finite number"),
        ({"kind": "random"}, "kind must be one of uniform, correlated, confusable, got 'random'"),
        ({"rounding": "up"}, "rounding must be one of stochastic, ceil, round, floor, global, got 'up'"),
        ({"kind": "confusable"}, "X is missing"),
        ({"kind": "confusable", "X": [[1.0]]}, "X and truth must have the same number of rows, got 1 and 2"),
        ({"kind": "confusable", "X": [[1.0], [np.nan]]}, "NaN"),
        ({"kind": "confusable", "confusion": np.ones((2, 2))}, r"a table of 3 x 3 labels, got shape \(2, 2\)"),
        ({"kind": "confusable", "confusion": -np.ones((3, 3))}, "none negative"),
        ({"truth": [[0, 2], [1, 0]]}, "truth must be an indicator of 0/1"),
        ({"truth": [[0.5, 0], [1, 0]]}, "truth must be an indicator of 0/1"),
        ({"truth": sparse.csr_array([[0, 3]])}, "truth must be an indicator of 0/1"),
        ({"ratio": None}, "Exactly one of ratio, avg_candidates and extra_labels"),
        ({"avg_candidates": 2}, "Exactly one of ratio, avg_candidates and extra_labels"),
        ({"ratio": None, "avg_candidates": 1.5}, "avg_candidates must be a whole number"),
        ({"ratio": None, "avg_candidates": -1}, "avg_candidates must be a whole number"),
        ({"ratio": None, "extra_labels": "2"}, "extra_labels must be a whole number"),
        ({"ratio": None, "extra_labels": 1, "row_fraction": 1.5}, "row_fraction must be a share"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(arguments, message):
    call = {"truth": [[1, 0, 0], [0, 1, 1]], "ratio": 0.5} | arguments
    with pytest.raises(ValueError, match=message):
        add_noise(**call)


def test_report_refuses_what_is_no_superset():
    with pytest.raises(ValueError, match="1 of 2 are not in Y"):
        noise_report([[1, 1]], [[1, 0]])
    with pytest.raises(ValueError, match="same shape"):
        noise_report([[1, 1]], [[1, 0, 0]])
