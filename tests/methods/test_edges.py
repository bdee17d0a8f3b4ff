"""Awkward problems for the methods of 2018 and after: one label, nothing to tell apart, no noise, nothing but noise."""

import warnings

import numpy as np
import pytest

from pmlkit import DRAMA, NLR, PMLFP, PMLLC, PMLLENFN, UPML, CandidateLogistic, RankSVM, Schirn
from pmlkit.data import load_digit_strips
from pmlkit.exceptions import PMLWarning
from pmlkit.metrics import average_precision
from pmlkit.testing import check_pml_estimator

METHODS = [
    RankSVM(),
    PMLLC(),
    PMLLC(variant="convex"),
    PMLFP(),
    PMLFP(variant="convex"),
    UPML(),
    UPML(loss="logistic"),
    UPML(loss="ranking"),
    NLR(),
    PMLLENFN(random_state=0),
    Schirn(),
    CandidateLogistic(),
]
methods = pytest.mark.parametrize("method", METHODS, ids=str)


@pytest.fixture(scope="module")
def strips():
    return load_digit_strips(240, random_state=0)


CASES = ["one label", "one label, on no row", "some rows have all labels", "all rows have all labels", "one row"]


@methods
@pytest.mark.parametrize("case", CASES)
def test_awkward_candidates(method, case, strips):
    X, Y = strips.X[:60], strips.Y[:60].toarray().astype(int)
    if case == "one label":
        Y = Y[:, :1]
    elif case == "one label, on no row":
        Y = np.zeros((60, 1), dtype=int)
    elif case == "some rows have all labels":
        Y[:20] = 1
    elif case == "all rows have all labels":
        Y[:] = 1
    else:
        X, Y = X[:1], Y[:1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PMLWarning)  # "there is nothing to rank" is said elsewhere
        warnings.filterwarnings("ignore", message="A column-vector y was passed")
        model = method.fit(X, Y)
    scores = model.decision_function(X)
    assert scores.shape == Y.shape
    assert np.isfinite(scores).all()
    confidence = model.label_confidence_.data
    assert ((confidence >= 0) & (confidence <= 1)).all()
    assert model.predict(X).shape == Y.shape


@methods
def test_no_noise_and_nothing_but_noise(method, strips):
    truth = strips.truth.toarray().astype(int)
    chance = average_precision(truth[160:], np.tile(truth[:160].mean(axis=0), (80, 1)))
    learned = method.fit(strips.X[:160], truth[:160]).decision_function(strips.X[160:])
    assert average_precision(truth[160:], learned) > chance + 0.1
    noise = (np.random.default_rng(0).random(truth[:160].shape) < 0.3).astype(int)
    guessed = method.fit(strips.X[:160], noise).decision_function(strips.X[160:])
    assert abs(average_precision(truth[160:], guessed) - chance) < 0.15


@pytest.mark.parametrize(
    "method", [PMLLC(variant="convex"), PMLFP(variant="convex"), UPML(loss="logistic"), UPML(loss="ranking")], ids=str
)
def test_variants_keep_the_contract(method):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="A column-vector y was passed")
        check_pml_estimator(method)


def test_drama_with_a_label_that_no_row_has(strips):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="A column-vector y was passed")
        model = DRAMA().fit(strips.X[:60], np.zeros((60, 1), dtype=int))
    assert not model.predict(strips.X[60:80]).any()
