"""The methods, one file each, and their registry."""

from pmlkit.methods.base import BasePML
from pmlkit.methods.logistic import CandidateLogistic
from pmlkit.methods.mlknn import MLkNN
from pmlkit.methods.pml_lfc import PMLLFC

__all__ = ["CandidateLogistic", "MLkNN", "PMLLFC", "all_methods", "summary"]

# The order in which methods are listed: baselines first, then by year of publication.
_METHODS: tuple[type[BasePML], ...] = (
    CandidateLogistic,
    MLkNN,
    PMLLFC,
)


def all_methods() -> dict[str, type[BasePML]]:
    """Return every method by its name.

    Examples
    --------
    >>> from pmlkit.methods import all_methods
    >>> all_methods()["MLkNN"]
    <class 'pmlkit.methods.mlknn.MLkNN'>
    """
    return {method.__name__: method for method in _METHODS}


def summary(method: type[BasePML]) -> str:
    """Return a method in one line: the first line of its docstring."""
    return (method.__doc__ or "").strip().partition("\n")[0]
