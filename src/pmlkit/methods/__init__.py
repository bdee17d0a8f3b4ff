"""The methods, one file each, and their registry."""

from importlib.util import find_spec

from pmlkit.methods.base import BasePML
from pmlkit.methods.cleanlab_filter import CleanlabFilter
from pmlkit.methods.drama import DRAMA
from pmlkit.methods.fpml import FPML
from pmlkit.methods.logistic import CandidateLogistic
from pmlkit.methods.mlknn import MLkNN
from pmlkit.methods.particle import ParticleMAP, ParticleVLS
from pmlkit.methods.pml_lfc import PMLLFC
from pmlkit.methods.pml_lrs import PMLLRS
from pmlkit.methods.pml_ni import PMLNI

__all__ = [
    "DRAMA",
    "FPML",
    "METHODS",
    "PMLLFC",
    "PMLLRS",
    "PMLNI",
    "CandidateLogistic",
    "CleanlabFilter",
    "MLkNN",
    "ParticleMAP",
    "ParticleVLS",
    "all_methods",
    "summary",
]

# The order in which methods are listed: baselines first, then by year of publication.
METHODS: tuple[type[BasePML], ...] = (
    CandidateLogistic,
    MLkNN,
    FPML,
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


def summary(method: type[BasePML]) -> str:
    """Return a method in one line: the first line of its docstring."""
    return (method.__doc__ or "").strip().partition("\n")[0]
