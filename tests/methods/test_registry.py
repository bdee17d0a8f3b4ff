"""Methods by their names, and their parameters."""

import pytest

from pmlkit import ClearPML, MLkNN, make_classifier, methods
from pmlkit.exceptions import MethodError
from pmlkit.methods import PMLLFC, find_method


@pytest.mark.parametrize("name", ["PMLLFC", "pml-lfc", "pml_lfc", "PmlLfc"])
def test_names_in_any_spelling(name):
    assert find_method(name) is PMLLFC
    assert isinstance(make_classifier(name), PMLLFC)


def test_the_method_to_start_with():
    assert isinstance(make_classifier(), ClearPML)
    assert isinstance(make_classifier("auto", n_landmarks=7), ClearPML)


def test_an_estimator_is_cloned():
    model = MLkNN(n_neighbors=3)
    copy = make_classifier(model, smoothing=2.0)
    assert copy is not model
    assert (copy.n_neighbors, copy.smoothing, model.smoothing) == (3, 2.0, 1.0)


@pytest.mark.parametrize(
    ("words", "params", "message", "word"),
    [
        ("MLkN", {}, "Did you mean 'MLkNN'", "MLkN"),
        ("mlknn", {"n_neighbours": 3}, "Did you mean 'n_neighbors'", "n_neighbours"),
        ("mlknn", {"n_neighbors": "many"}, "must be an int", "n_neighbors"),
        ("nowhere:Mine", {}, "cannot be imported", "nowhere:Mine"),
        ("os:abort", {}, "'os:abort' is not the class of an estimator", "os:abort"),
        ("subprocess:Popen", {"args": "x"}, "is not the class of an estimator", "subprocess:Popen"),
        ("sklearn.multioutput:MultiOutputClassifier", {}, "cannot be made without arguments", "MultiOutputClassifier"),
        (MLkNN, {}, "unfitted estimator", ""),
        (3, {}, "unfitted estimator", ""),
    ],
)
def test_what_does_not_exist_is_refused(words, params, message, word):
    with pytest.raises(MethodError, match=message) as caught:
        make_classifier(words, **params)
    assert caught.value.word == word


def test_an_absent_package_is_named(monkeypatch):
    monkeypatch.setattr(methods, "find_spec", lambda name: None)
    with pytest.raises(MethodError, match="CleanlabFilter needs .*cleanlab"):
        find_method("CleanlabFilter")
