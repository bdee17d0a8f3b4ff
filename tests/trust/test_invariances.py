"""What must not change a result, for every method; permutations, containers and precision are in `pmlkit.testing`."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose
from threadpoolctl import threadpool_limits

from pmlkit.methods import all_methods
from pmlkit.testing.checks import pml_checks

_METHODS = [pytest.param(method, id=method.__name__) for method in all_methods().values()]
_WEIGHTED = [
    pytest.param(method, id=method.__name__)
    for method in all_methods().values()
    if "sample_weight" in inspect.signature(method.fit).parameters
]


def _problem(n_rows=60, n_features=8, n_labels=4):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n_rows, n_features))
    truth = X @ rng.normal(size=(n_features, n_labels)) > 0.5
    truth[np.arange(n_rows), np.arange(n_rows) % n_labels] = True
    return X, (truth | (rng.random(truth.shape) < 0.2)).astype(int)


def test_the_contract_has_the_other_invariances():
    names = {getattr(check, "__name__", "") for check in pml_checks()}
    wanted = ("permuting_rows", "permuting_labels", "sparse_equals_dense", "float32_close_to_float64")
    assert {f"check_{name}" for name in (*wanted, "same_seed_same_result")} <= names


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", _METHODS)
def test_one_thread_and_two_agree(method):
    X, Y = _problem()
    options = {"random_state": 0} if "random_state" in inspect.signature(method).parameters else {}
    scores = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            scores.append(method(**options).fit(X, Y).decision_function(X))
    assert_allclose(scores[1], scores[0], rtol=1e-7, atol=1e-9)


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", _WEIGHTED)
def test_a_weight_of_two_is_a_row_twice(method):
    X, Y = _problem()
    weight = 1 + np.arange(len(X)) % 2
    one = method().fit(X, Y, sample_weight=weight).decision_function(X)
    other = method().fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0)).decision_function(X)
    assert_allclose(one, other, rtol=1e-3, atol=1e-3)
