"""Numbers at the ends of what a float can hold, and warnings, for every method."""

import threading
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from pmlkit import CandidateClassifier
from pmlkit.exceptions import DataError
from pmlkit.methods import all_methods
from pmlkit.methods.threads import one_of_each_warning


def _problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6))
    truth = X @ rng.normal(size=(6, 4)) > 0
    truth[np.arange(40), np.arange(40) % 4] = True
    return X, (truth | (rng.random((40, 4)) < 0.2)).astype(int)


_METHODS = [pytest.param(method, id=method.__name__) for method in all_methods().values()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", _METHODS)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_huge_numbers_are_refused_in_one_sentence(method, container):
    X, Y = _problem()
    X[3, 2] = -1e300
    sentence = r"X holds -1e\+300 in row 3, column 2: numbers beyond 1e\+30 overflow"
    with pytest.raises(DataError, match=sentence):
        method().fit(container(X), Y)
    X[3, 2] = 1.0
    fitted = method().fit(container(X), Y)
    X[3, 2] = -1e300
    with pytest.raises(DataError, match=sentence):
        fitted.decision_function(container(X))


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", _METHODS)
def test_denormal_numbers_count_as_zero(method):
    X, Y = _problem()
    X[:, 1] = 0.0
    options = {"random_state": 0} if "random_state" in method().get_params() else {}
    expected = method(**options).fit(X, Y).decision_function(X)
    X[:, 1] = np.where(np.arange(40) % 2, 5e-324, -1e-310)
    before = X.copy()
    assert_allclose(method(**options).fit(X, Y).decision_function(X), expected, rtol=1e-6, atol=1e-8)
    assert np.array_equal(X, before)


_UNFINISHED = CandidateClassifier(LogisticRegression(max_iter=1))  # warns for every label of every fold


@pytest.mark.parametrize("method", [*_METHODS, pytest.param(lambda: clone(_UNFINISHED), id="one step per label")])
def test_at_most_one_warning_of_a_kind_per_fit(method):
    X, Y = _problem()
    X[:, 2] = 1e14 * (np.arange(40) % 3)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        method().fit(X, Y)
    kinds = [(warning.category, str(warning.message)[:20]) for warning in found]
    assert len(set(kinds)) == len(kinds)


def test_the_first_warning_is_shown():
    with pytest.warns(ConvergenceWarning, match="failed to converge") as found:
        clone(_UNFINISHED).fit(*_problem())
    assert len(found) == 1


def test_errors_stay_errors_and_ignored_ones_stay_ignored():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConvergenceWarning, match="no"), one_of_each_warning():
            warnings.warn("no", ConvergenceWarning, stacklevel=1)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("ignore")
        with one_of_each_warning():
            warnings.warn("no", ConvergenceWarning, stacklevel=1)
    assert found == []


def test_filters_are_as_they_were_after_overlapping_work():
    before = (list(warnings.filters), warnings.showwarning)
    inside, leave = threading.Barrier(3), threading.Barrier(3)

    def work():
        with one_of_each_warning():
            inside.wait()
            leave.wait()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    inside.wait()
    leave.wait()
    for thread in threads:
        thread.join()
    assert (list(warnings.filters), warnings.showwarning) == before
