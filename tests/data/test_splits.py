from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.multiclass import OneVsRestClassifier

from pmlkit.data.splits import StratifiedLabelKFold, train_test_rows
from pmlkit.data.synthetic import make_pml

indicators = hnp.arrays(np.int64, st.tuples(st.integers(6, 40), st.integers(1, 6)), elements=st.integers(0, 1))


def fold_of_rows(folds, Y, groups=None):
    fold = np.full(Y.shape[0], -1)
    for number, (train, test) in enumerate(folds.split(None, Y, groups)):
        assert (fold[test] == -1).all()
        fold[test] = number
        np.testing.assert_array_equal(np.sort(np.r_[train, test]), np.arange(Y.shape[0]))
    assert (fold >= 0).all()
    return fold


def iterative_stratification(Y, n_folds):
    """The algorithm as Sechidis et al. print it, with exact desires; ties go to the first label, row and fold."""
    n_rows, n_labels = Y.shape
    desired_rows = [Fraction(n_rows, n_folds)] * n_folds
    desired = [[Fraction(int(Y[:, label].sum()), n_folds) for _ in range(n_folds)] for label in range(n_labels)]
    fold = [None] * n_rows

    def give(row, number):
        fold[row] = number
        desired_rows[number] -= 1
        for label in np.flatnonzero(Y[row]):
            desired[label][number] -= 1

    while True:
        left = [sum(1 for row in range(n_rows) if Y[row, label] and fold[row] is None) for label in range(n_labels)]
        if not any(left):
            break
        label = min((label for label in range(n_labels) if left[label]), key=lambda label: (left[label], label))
        for row in range(n_rows):
            if Y[row, label] and fold[row] is None:
                give(row, max(range(n_folds), key=lambda f: (desired[label][f], desired_rows[f], -f)))
    for row in range(n_rows):
        if fold[row] is None:
            give(row, max(range(n_folds), key=lambda f: (desired_rows[f], -f)))
    return fold


def deviation(fold, Y, n_folds):
    """Mean absolute deviation of the labels' shares in a fold from the even share."""
    shares = np.array([Y[fold == number].sum(axis=0) for number in range(n_folds)]) / Y.sum(axis=0)
    return np.abs(shares - 1 / n_folds).mean()


@settings(max_examples=60, deadline=None)
@given(indicators, st.integers(2, 5))
def test_same_folds_as_the_printed_algorithm(Y, n_folds):
    fold = fold_of_rows(StratifiedLabelKFold(n_folds, shuffle=False), Y)
    assert fold.tolist() == iterative_stratification(Y, n_folds)


@settings(max_examples=40, deadline=None)
@given(indicators, st.integers(2, 5), st.integers(0, 99))
def test_no_fold_is_empty_and_the_rarest_label_is_even(Y, n_folds, seed):
    fold = fold_of_rows(StratifiedLabelKFold(n_folds, random_state=seed), Y)
    assert set(fold.tolist()) == set(range(n_folds))
    present = Y[:, Y.any(axis=0)]
    if present.size:
        rarest = present[:, present.sum(axis=0).argmin()]
        assert np.ptp(np.bincount(fold[rarest == 1], minlength=n_folds)) <= 1


@settings(max_examples=40, deadline=None)
@given(indicators, st.data())
def test_groups_stay_together(Y, data):
    groups = data.draw(hnp.arrays(np.int64, len(Y), elements=st.integers(0, 5)))
    groups[:3] = [0, 1, 2]
    fold = fold_of_rows(StratifiedLabelKFold(3, random_state=0), Y, groups)
    for group in np.unique(groups):
        assert len(set(fold[groups == group].tolist())) == 1
    assert set(fold.tolist()) == {0, 1, 2}


def test_groups_of_one_row_change_nothing():
    Y = np.random.default_rng(0).integers(0, 2, (30, 4))
    folds = StratifiedLabelKFold(3, random_state=1)
    np.testing.assert_array_equal(fold_of_rows(folds, Y), fold_of_rows(folds, Y, np.arange(30)))


def test_groups_are_balanced_by_rows_not_by_groups():
    # One group with 12 rows of the label and twelve with one: two folds of twelve.
    groups = np.r_[np.zeros(12, dtype=int), np.arange(1, 13)]
    Y = np.ones((24, 1), dtype=int)
    for seed in range(5):
        fold = fold_of_rows(StratifiedLabelKFold(2, random_state=seed), Y, groups)
        assert np.bincount(fold).tolist() == [12, 12]


def test_groups_are_better_balanced_than_at_random():
    rng = np.random.default_rng(0)
    groups = np.sort(rng.integers(0, 150, 3000))
    Y = (rng.random((3000, 8)) < rng.beta(0.3, 2, (150, 8))[groups]).astype(int)
    fold = fold_of_rows(StratifiedLabelKFold(5, random_state=0), Y, groups.astype(str))
    at_random = rng.integers(0, 5, 150)[groups]
    assert deviation(fold, Y, 5) < deviation(at_random, Y, 5) / 2


def test_labels_are_as_even_as_those_of_iterative_stratification():
    stratifiers = pytest.importorskip("iterstrat.ml_stratifiers")
    Y = make_pml(1500, 2, 40, cardinality=3.0, random_state=0).truth.toarray()
    ours, theirs = [], []
    for seed in range(4):
        ours.append(deviation(fold_of_rows(StratifiedLabelKFold(5, random_state=seed), Y), Y, 5))
        reference = stratifiers.MultilabelStratifiedKFold(5, shuffle=True, random_state=seed)
        fold = np.empty(len(Y), dtype=int)
        for number, (_, test) in enumerate(reference.split(Y, Y)):
            fold[test] = number
        theirs.append(deviation(fold, Y, 5))
    assert np.mean(ours) < 1.05 * np.mean(theirs)


def test_same_folds_in_any_container():
    Y = np.random.default_rng(0).integers(0, 2, (40, 5))
    folds = StratifiedLabelKFold(4, random_state=3)
    fold = fold_of_rows(folds, Y)
    for same in (Y.astype(bool), sparse.csr_array(Y), sparse.csc_matrix(Y), pd.DataFrame(Y)):
        np.testing.assert_array_equal(fold_of_rows(folds, same), fold)
    np.testing.assert_array_equal(fold_of_rows(folds, Y[:, 0]), fold_of_rows(folds, Y[:, :1]))
    assert (fold_of_rows(StratifiedLabelKFold(4, random_state=4), Y) != fold).any()


def test_works_as_cv_of_scikit_learn():
    data = make_pml(120, 6, 3, cardinality=1.2, random_state=0)
    Y = data.Y.toarray()
    model = OneVsRestClassifier(LogisticRegression())
    folds = StratifiedLabelKFold(3, random_state=0)
    assert folds.get_n_splits() == 3
    assert repr(folds) == "StratifiedLabelKFold(n_splits=3, random_state=0, shuffle=True)"
    assert cross_val_predict(model, data.X, Y, cv=folds).shape == Y.shape
    search = GridSearchCV(model, {"estimator__C": [0.1, 1.0]}, cv=folds, scoring="f1_micro").fit(data.X, Y)
    assert search.n_splits_ == 3
    groups = np.arange(120) // 4
    scores = cross_validate(model, data.X, Y, cv=folds, groups=groups, return_indices=True, scoring="f1_micro")
    for test in scores["indices"]["test"]:
        assert len(test) == 4 * len(set(groups[test].tolist()))
    with config_context(enable_metadata_routing=True):
        routed = cross_validate(
            model, data.X, Y, cv=folds, params={"groups": groups}, return_indices=True, scoring="f1_micro"
        )
    for with_routing, without in zip(routed["indices"]["test"], scores["indices"]["test"], strict=True):
        np.testing.assert_array_equal(with_routing, without)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: StratifiedLabelKFold(1), "n_splits must be an integer of at least 2, got 1"),
        (lambda: StratifiedLabelKFold(2.5), "n_splits must be an integer of at least 2, got 2.5"),
        (lambda: StratifiedLabelKFold(2, shuffle=False, random_state=0), "random_state has no effect"),
        (lambda: fold_of_rows(StratifiedLabelKFold(5), np.eye(4)), "n_splits=5 is more than the 4 rows"),
        (lambda: fold_of_rows(StratifiedLabelKFold(3), np.eye(4), [0, 0, 1, 1]), "more than the 2 groups"),
        (lambda: fold_of_rows(StratifiedLabelKFold(2), np.eye(4), [0, 0, 1]), "one value for each of the 4 rows"),
        (lambda: fold_of_rows(StratifiedLabelKFold(2), 2 * np.eye(4)), "y must be an indicator of 0/1"),
        (lambda: next(StratifiedLabelKFold(2).split(np.eye(4))), "y is missing"),
        (lambda: next(StratifiedLabelKFold(2).split(np.eye(3), np.eye(4))), "same number of rows, got 3 and 4"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@given(st.integers(2, 300), st.floats(0.01, 0.99), st.integers(0, 9))
def test_random_split_uses_every_row_once(n, test_size, seed):
    train, test = train_test_rows(n, test_size=test_size, random_state=seed)
    np.testing.assert_array_equal(np.sort(np.r_[train, test]), np.arange(n))
    assert (np.diff(train) > 0).all()
    assert (np.diff(test) > 0).all()
    assert len(test) == min(max(round(test_size * n), 1), n - 1)
    np.testing.assert_array_equal(train_test_rows(n, test_size=test_size, random_state=seed)[1], test)


def test_random_split_depends_on_the_seed():
    assert len({tuple(train_test_rows(30, random_state=seed)[1]) for seed in range(5)}) == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 1}, "n must be at least 2 rows"),
        ({"n": 10, "test_size": 0.0}, "test_size must be a share between 0 and 1"),
        ({"n": 10, "test_size": 1.0}, "test_size must be a share between 0 and 1"),
        ({"n": 10, "test_size": float("nan")}, "test_size must be a share between 0 and 1"),
    ],
)
def test_random_split_refuses_bad_sizes(arguments, message):
    with pytest.raises(ValueError, match=message):
        train_test_rows(**arguments)
