"""The methods, one file each, and their registry."""

from importlib.util import find_spec
from typing import Any

from pmlkit._words import did_you_mean, letters
from pmlkit.methods.base import BasePML
from pmlkit.methods.candidate_classifier import CandidateClassifier
from pmlkit.methods.cleanlab_filter import CleanlabFilter
from pmlkit.methods.clear_pml import ClearPML
from pmlkit.methods.drama import DRAMA
from pmlkit.methods.logistic import CandidateLogistic
from pmlkit.methods.low_rank import FPML, PMLLRS, PMLNI
from pmlkit.methods.mlknn import MLkNN
from pmlkit.methods.particle import ParticleMAP, ParticleVLS
from pmlkit.methods.pml_lfc import PMLLFC
from pmlkit.methods.ranking import PMLFP, PMLLC, RankSVM

__all__ = [
    "DRAMA",
    "FPML",
    "METHODS",
    "PMLFP",
    "PMLLC",
    "PMLLFC",
    "PMLLRS",
    "PMLNI",
    "CandidateClassifier",
    "CandidateLogistic",
    "CleanlabFilter",
    "ClearPML",
    "MLkNN",
    "ParticleMAP",
    "ParticleVLS",
    "RankSVM",
    "all_methods",
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


def find_method(name: str) -> type[BasePML] | None:
    """Return a method by its name, whatever the case and the hyphens, or None.

    Examples
    --------
    >>> from pmlkit.methods import find_method
    >>> find_method("pml-lfc"), find_method("zebra")
    (<class 'pmlkit.methods.pml_lfc.estimator.PMLLFC'>, None)
    """
    return {letters(known): method for known, method in all_methods().items()}.get(letters(name))


def summary(method: type[BasePML]) -> str:
    """Return a method in one line: the first line of its docstring."""
    return (method.__doc__ or "").strip().partition("\n")[0]


def make_classifier(method: str | None = None, **params: Any) -> BasePML:
    """Make a method by its name; without one, the method to start with.

    Parameters
    ----------
    method : str, optional
        A name of :func:`all_methods`. Default: :class:`ClearPML`.
    **params
        Its parameters.

    Examples
    --------
    >>> from pmlkit import make_classifier
    >>> make_classifier(), make_classifier("MLkNN", n_neighbors=5)
    (ClearPML(), MLkNN(n_neighbors=5))
    """
    if method is None:
        return ClearPML(**params)
    known = all_methods()
    if method not in known:
        raise ValueError(f"There is no method {method!r}; there are {', '.join(known)}.{did_you_mean(method, known)}")
    return known[method](**params)
