"""The methods, one file each, and their registry."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sklearn.base import clone

from pmlkit._words import did_you_mean, letters
from pmlkit.exceptions import MethodError
from pmlkit.methods.base import BasePML
from pmlkit.methods.candidate_classifier import CandidateClassifier
from pmlkit.methods.cleanlab_filter import CleanlabFilter
from pmlkit.methods.clear_pml import ClearPML
from pmlkit.methods.drama import DRAMA
from pmlkit.methods.logistic import CandidateLogistic
from pmlkit.methods.low_rank import FPML, PMLLRS, PMLNI
from pmlkit.methods.mlknn import MLkNN
from pmlkit.methods.nlr import NLR
from pmlkit.methods.particle import ParticleMAP, ParticleVLS
from pmlkit.methods.pml_lenfn import PMLLENFN
from pmlkit.methods.pml_lfc import PMLLFC
from pmlkit.methods.ranking import PMLFP, PMLLC, RankSVM
from pmlkit.methods.schirn import Schirn
from pmlkit.methods.upml import UPML

__all__ = [
    "DRAMA",
    "FPML",
    "METHODS",
    "NLR",
    "PMLFP",
    "PMLLC",
    "PMLLENFN",
    "PMLLFC",
    "PMLLRS",
    "PMLNI",
    "UPML",
    "CandidateClassifier",
    "CandidateLogistic",
    "CleanlabFilter",
    "ClearPML",
    "MLkNN",
    "ParticleMAP",
    "ParticleVLS",
    "RankSVM",
    "Schirn",
    "all_methods",
    "check_params",
    "find_method",
    "make_classifier",
    "summary",
]

# The order in which methods are listed: ours, baselines, then by year of publication.
METHODS: tuple[type[BasePML], ...] = (
    ClearPML,
    CandidateClassifier,
    CandidateLogistic,
    RankSVM,
    MLkNN,
    FPML,
    PMLLC,
    PMLFP,
    PMLLRS,
    DRAMA,
    ParticleVLS,
    ParticleMAP,
    PMLNI,
    PMLLFC,
    CleanlabFilter,
    UPML,
    NLR,
    PMLLENFN,
    Schirn,
)
_NEEDS: dict[type[BasePML], str] = {CleanlabFilter: "cleanlab"}


def all_methods() -> dict[str, type[BasePML]]:
    """Return every method by its name; those whose optional dependency is absent are left out.

    Examples
    --------
    >>> from pmlkit.methods import all_methods
    >>> all_methods()["MLkNN"]
    <class 'pmlkit.methods.mlknn.MLkNN'>
    """
    return {
        method.__name__: method for method in METHODS if method not in _NEEDS or find_spec(_NEEDS[method]) is not None
    }


def find_method(name: str) -> Any:
    """Return the class of a method by its name, in any case and with or without hyphens.

    Parameters
    ----------
    name : str
        A name of :func:`all_methods`, or ``module:Class`` for an estimator of your own.

    Returns
    -------
    method : class

    Raises
    ------
    MethodError
        If there is no such method; the message names the nearest one.

    Examples
    --------
    >>> from pmlkit.methods import find_method
    >>> find_method("pml-lfc").__name__, find_method("sklearn.dummy:DummyClassifier").__name__
    ('PMLLFC', 'DummyClassifier')
    """
    module, colon, attribute = name.partition(":")
    if colon:
        try:
            own = getattr(import_module(module), attribute)
        except Exception as error:  # whatever the module does while it is imported
            raise MethodError(f"The method {name!r} cannot be imported: {error}.", name) from error
        # A plan may come from a stranger: nothing but the class of an estimator is called.
        if not isinstance(own, type) or not all(hasattr(own, part) for part in ("fit", "get_params")):
            raise MethodError(f"{name!r} is not the class of an estimator: it needs fit and get_params.", name)
        return own
    known = all_methods()
    found = {letters(method.__name__): method for method in METHODS}.get(letters(name))
    if found is None:
        raise MethodError(
            f"There is no method {name!r}.{did_you_mean(name, known)} There are {', '.join(known)}; or name one of "
            "your own as module:Class.",
            name,
        )
    if found.__name__ not in known:
        package = _NEEDS[found]
        raise MethodError(
            f"{found.__name__} needs {package}, which is not installed: run pip install 'pmlkit[{package}]'.", name
        )
    return found


def check_params(method: Any, params: Mapping[str, Any]) -> None:
    """Raise MethodError for a parameter that a method does not have, or a value that it does not take.

    Parameters
    ----------
    method : class
        A class of :func:`find_method`.
    params : mapping
        Names and values.

    Examples
    --------
    >>> from pmlkit.methods import MLkNN, check_params
    >>> check_params(MLkNN, {"n_neighbors": 5})
    >>> check_params(MLkNN, {"neighbors": 5})
    Traceback (most recent call last):
        ...
    pmlkit.exceptions.MethodError: MLkNN has no parameter 'neighbors'. Did you mean 'n_neighbors'? It has ...
    """
    try:
        allowed = list(method().get_params())
    except TypeError as error:
        raise MethodError(f"{method.__name__} cannot be made without arguments: {error}.", method.__name__) from error
    for key in params:
        if key not in allowed:
            raise MethodError(
                f"{method.__name__} has no parameter {key!r}.{did_you_mean(key, allowed)} It has {', '.join(allowed)}.",
                key,
            )
    model = method(**params)
    if hasattr(model, "_parameter_constraints"):
        try:
            model._validate_params()
        except ValueError as error:
            raise MethodError(
                str(error), next((key for key in params if f"{key!r} parameter" in str(error)), "")
            ) from error


def summary(method: type[BasePML]) -> str:
    """Return a method in one line: the first line of its docstring.

    Examples
    --------
    >>> from pmlkit.methods import MLkNN, summary
    >>> summary(MLkNN)
    'ML-kNN on the candidates: a Bayesian vote of the nearest neighbours.'
    """
    return (method.__doc__ or "").strip().partition("\n")[0]


def make_classifier(method: Any = None, **params: Any) -> Any:
    """Make an unfitted method by its name; without one, the method to start with.

    Parameters
    ----------
    method : str or estimator, optional
        A name of :func:`all_methods` in any case and with or without hyphens, or ``module:Class``, or ``"auto"``.
        By default, and for ``"auto"``, :class:`ClearPML`. An estimator is cloned.
    **params
        Its parameters.

    Returns
    -------
    estimator : unfitted estimator

    Raises
    ------
    MethodError
        If there is no such method or parameter, or a value is not allowed.

    Examples
    --------
    >>> from pmlkit import make_classifier
    >>> make_classifier(), make_classifier("ml-knn", n_neighbors=5)
    (ClearPML(), MLkNN(n_neighbors=5))
    """
    if method is not None and not isinstance(method, str):
        if isinstance(method, type) or not hasattr(method, "fit"):
            raise MethodError(f"method must be the name of a method or an unfitted estimator, got {method!r}.")
        return clone(method).set_params(**params)
    found = ClearPML if method in (None, "auto") else find_method(method)
    check_params(found, params)
    return found(**params)
