"""pmlkit: learn from candidate labels, the scikit-learn way."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pmlkit.cleaning import CleaningResult, LabelCleaner, clean
    from pmlkit.data import Table, open_table
    from pmlkit.methods import (
        DRAMA,
        FPML,
        PMLFP,
        PMLLC,
        PMLLFC,
        PMLLRS,
        PMLNI,
        CandidateClassifier,
        CandidateLogistic,
        CleanlabFilter,
        ClearPML,
        MLkNN,
        ParticleMAP,
        ParticleVLS,
        RankSVM,
        make_classifier,
    )

__version__ = "0.1.0"

__all__ = [
    "DRAMA",
    "FPML",
    "PMLFP",
    "PMLLC",
    "PMLLFC",
    "PMLLRS",
    "PMLNI",
    "CandidateClassifier",
    "CandidateLogistic",
    "CleaningResult",
    "CleanlabFilter",
    "ClearPML",
    "LabelCleaner",
    "MLkNN",
    "ParticleMAP",
    "ParticleVLS",
    "RankSVM",
    "Table",
    "__version__",
    "clean",
    "make_classifier",
    "open_table",
]

_DATA = frozenset({"Table", "open_table"})
_CLEANING = frozenset({"CleaningResult", "LabelCleaner", "clean"})


def __getattr__(name: str) -> Any:
    """Import the methods when they are asked for: the command line's help must not wait for scikit-learn."""
    if name in _CLEANING:
        from pmlkit import cleaning

        return getattr(cleaning, name)
    if name in _DATA:
        from pmlkit import data

        return getattr(data, name)
    if name in __all__:
        from pmlkit import methods

        return getattr(methods, name)
    raise AttributeError(f"module 'pmlkit' has no attribute {name!r}")
