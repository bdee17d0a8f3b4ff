"""Partial multi-label learning with scikit-learn estimators: training rows carry candidate labels, some of them false.

Start with :func:`open_table` for a file, :func:`clean` to find wrong labels, and :func:`make_classifier` to learn from
candidate labels.
"""

TYPE_CHECKING = False  # typing takes longer to import than all else that the command line needs to answer Ctrl-C
if TYPE_CHECKING:
    from typing import Any

    from pmlkit.cleaning import CleaningResult, LabelCleaner, clean
    from pmlkit.data import Table, open_table
    from pmlkit.methods import (
        DRAMA,
        FPML,
        NLR,
        PMLFP,
        PMLLC,
        PMLLENFN,
        PMLLFC,
        PMLLRS,
        PMLNI,
        UPML,
        CandidateClassifier,
        CandidateLogistic,
        CleanlabFilter,
        ClearPML,
        MLkNN,
        ParticleMAP,
        ParticleVLS,
        RankSVM,
        Schirn,
        make_classifier,
    )

__version__ = "0.1.0"

__all__ = [
    "DRAMA",
    "FPML",
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
    "CleaningResult",
    "CleanlabFilter",
    "ClearPML",
    "LabelCleaner",
    "MLkNN",
    "ParticleMAP",
    "ParticleVLS",
    "RankSVM",
    "Schirn",
    "Table",
    "__version__",
    "clean",
    "make_classifier",
    "open_table",
]

_SUBMODULES = (
    "bench", "cleaning", "data", "exceptions", "methods", "metrics", "persistence", "predictions", "testing"
)  # fmt: skip
_OUTSIDE_METHODS = {"CleaningResult": "cleaning", "LabelCleaner": "cleaning", "clean": "cleaning"} | {
    "Table": "data",
    "open_table": "data",
}
"""Where the names of `__all__` are that are not in `pmlkit.methods`."""


def __getattr__(name: str) -> "Any":
    """Import what is asked for, so that ``import pmlkit`` and the command line's help need no scikit-learn."""
    from importlib import import_module  # not before: the command line is to answer Ctrl-C as early as it can

    if name in _SUBMODULES:
        return import_module(f"pmlkit.{name}")
    if name in __all__:
        return getattr(import_module(f"pmlkit.{_OUTSIDE_METHODS.get(name, 'methods')}"), name)
    raise AttributeError(f"module 'pmlkit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES})
