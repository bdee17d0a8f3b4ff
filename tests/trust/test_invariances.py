"""What must not change a result, for every method; the table in docs/reliability.md is checked against this one."""

import inspect
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import ortho_group
from threadpoolctl import threadpool_limits

from pmlkit.methods import all_methods
from pmlkit.testing import pml_checks

_METHODS = [pytest.param(method, id=name) for name, method in all_methods().items()]
_WEIGHTED = [
    pytest.param(method, id=name)
    for name, method in all_methods().items()
    if "sample_weight" in inspect.signature(method.fit).parameters
]
_N_ROWS, _N_FEATURES, _N_LABELS = 60, 8, 5
_RNG = np.random.default_rng(5)
_ROWS, _LABELS, _COLUMNS = (_RNG.permutation(n) for n in (_N_ROWS, _N_LABELS, _N_FEATURES))
_ROTATION = ortho_group.rvs(_N_FEATURES, random_state=0)
_SCALES = 2.0 ** _RNG.integers(-3, 4, _N_FEATURES)  # powers of two: no digit is lost

# What is done to (X, Y), and how far scores (of their largest) and confidences may then differ.
CHANGES = {
    "order of the rows": (lambda X, Y: (X[_ROWS], Y[_ROWS]), 1e-9),
    "order of the labels": (lambda X, Y: (X, Y[:, _LABELS]), 1e-9),
    "order of the features": (lambda X, Y: (X[:, _COLUMNS], Y), 1e-9),
    "CSR instead of dense": (lambda X, Y: (sparse.csr_array(X), sparse.csr_array(Y)), 1e-9),
    "float32": (lambda X, Y: (X.astype(np.float32), Y), 1e-6),
    "two BLAS threads": (lambda X, Y: (X, Y), 1e-9),
    "rotated features": (lambda X, Y: (X @ _ROTATION, Y), 1e-9),
    "all features x 4": (lambda X, Y: (4 * X, Y), 1e-9),
    "each feature scaled": (lambda X, Y: (X * _SCALES, Y), 1e-9),
    "shifted features": (lambda X, Y: (X + 3.0, Y), 1e-9),
}
_LOGISTIC = {"CandidateClassifier", "CandidateLogistic", "CleanlabFilter"}
_RAW = {"RankSVM", "PMLLC", "PMLFP", "ParticleVLS", "ParticleMAP"}  # C weighs the features as they are
_CENTRED_AND_SCALED = {"ClearPML", "PMLNI"}
# Methods that a change does alter, and must be allowed to.
EXCEPTIONS = {
    "order of the features": _LOGISTIC | {"PMLLENFN"},
    "rotated features": _LOGISTIC | {"ClearPML", "PMLNI", "DRAMA", "PMLLENFN"},
    "all features x 4": _LOGISTIC | _RAW,
    "each feature scaled": set(all_methods()) - _CENTRED_AND_SCALED,
    "shifted features": set(all_methods()) - _CENTRED_AND_SCALED - {"MLkNN"},
}
PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


def _problem():
    """Features that float32 holds exactly, with zeros: every change is one of form only."""
    rng = np.random.default_rng(3)
    X = np.round(rng.normal(size=(_N_ROWS, _N_FEATURES)) * 64) / 64
    X[X < -0.8] = 0.0
    truth = X @ rng.normal(size=(_N_FEATURES, _N_LABELS)) > 0.7
    truth[np.arange(_N_ROWS), np.arange(_N_ROWS) % _N_LABELS] = True
    return X, (truth | (rng.random(truth.shape) < 0.15)).astype(int)


def _fitted(method, X, Y):
    options = {"random_state": 0} if "random_state" in inspect.signature(method).parameters else {}
    model = method(**options).fit(X, Y)
    return model.decision_function(X), model.label_confidence_.toarray()


@pytest.fixture(scope="module")
def plain():
    """The answers of every method to the problem as it is, with one thread; each is made once."""
    made = {}

    def answers(method):
        if method not in made:
            with threadpool_limits(1):
                made[method] = _fitted(method, *_problem())
        return made[method]

    return answers


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("method", _METHODS)
def test_only_the_named_methods_are_changed(plain, method, change):
    alter, tolerance = CHANGES[change]
    scores, confidence = plain(method)
    with threadpool_limits(2 if change == "two BLAS threads" else 1):
        other_scores, other_confidence = _fitted(method, *alter(*_problem()))
    if change == "order of the rows":
        other_scores, other_confidence = (part[np.argsort(_ROWS)] for part in (other_scores, other_confidence))
    if change == "order of the labels":
        other_scores, other_confidence = (part[:, np.argsort(_LABELS)] for part in (other_scores, other_confidence))
    difference = max(
        np.abs(other_scores - scores).max() / np.abs(scores).max(), np.abs(other_confidence - confidence).max()
    )
    is_exception = method.__name__ in EXCEPTIONS.get(change, ())
    # An exception that no longer is one must leave the list, and the page.
    assert (difference > tolerance) if is_exception else (difference <= tolerance), difference


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", _WEIGHTED)
def test_a_weight_of_two_is_a_row_twice(method):
    X, Y = _problem()
    weight = 1 + np.arange(len(X)) % 2
    one = method().fit(X, Y, sample_weight=weight).decision_function(X)
    other = method().fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0)).decision_function(X)
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_estimators_of_others_are_held_to_it_too():
    names = {getattr(check, "__name__", "") for check in pml_checks()}
    wanted = ("permuting_rows", "permuting_labels", "sparse_equals_dense", "float32_close_to_float64")
    assert {f"check_{name}" for name in (*wanted, "same_seed_same_result")} <= names


def _table():
    lines = ["| change | tolerance | changes the answers of |", "|---|---|---|"]
    for change, (_, tolerance) in CHANGES.items():
        changed = EXCEPTIONS.get(change, set())
        kept = [name for name in all_methods() if name not in changed]
        if len(changed) > len(kept):
            shown = f"all but {', '.join(kept)}"
        else:
            shown = ", ".join(name for name in all_methods() if name in changed) or "none"
        lines.append(f"| {change} | {tolerance:g} | {shown} |")
    weighted = ", ".join(parameter.id for parameter in _WEIGHTED)
    lines.append(f"| a weight of two instead of a row twice | 1e-09 | none ({weighted} alone takes weights) |")
    return "\n".join(lines)


def test_the_page_says_what_is_tested():
    assert _table() in PAGE.read_text(encoding="utf-8"), f"put this into {PAGE.name}:\n{_table()}"
