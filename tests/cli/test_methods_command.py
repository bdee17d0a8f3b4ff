import inspect
import json

import pytest

from pmlkit.cli.model_commands import _parameters, _prose
from pmlkit.methods import all_methods


def test_every_method_is_listed_with_its_line(run):
    told = json.loads(run("methods", "--json").stdout)["methods"]
    assert [entry["name"] for entry in told] == list(all_methods())
    assert all(entry["summary"] for entry in told)
    assert all(name in run("methods").stdout for name in all_methods())


@pytest.mark.parametrize("name", list(all_methods()))
def test_every_parameter_is_explained(run, name):
    told = json.loads(run("methods", name, "--json").stdout)
    expected = list(inspect.signature(all_methods()[name]).parameters)
    assert [entry["name"] for entry in told["parameters"]] == expected
    assert not [entry["name"] for entry in told["parameters"] if not entry["meaning"]]
    assert all(parameter in run("methods", name).stdout for parameter in expected)


def test_a_near_name_is_offered(run):
    result = run("methods", "MLkN")
    assert result.exit_code == 2
    assert "Did you mean 'MLkNN'?" in result.stderr


DOC = """One line.

More about it, with a formula:

.. math::

    a + b

And after it.

Parameters
----------
alpha, beta : float, default=1
    Two in one, see :func:`pmlkit.here`.

    A second paragraph.
gamma : str
    The third.

Attributes
----------
coef_ : array
    Not a parameter.
"""


def test_docstrings_are_taken_apart():
    assert _prose(DOC) == "One line.\nMore about it, with a formula.\nAnd after it."
    both = "Two in one, see pmlkit.here. A second paragraph."
    assert _parameters(DOC) == {"alpha": both, "beta": both, "gamma": "The third."}
