"""pmlkit: learn from candidate labels, the scikit-learn way."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pmlkit.methods import (
        DRAMA,
        FPML,
        PMLLFC,
        PMLLRS,
        PMLNI,
        CandidateLogistic,
        CleanlabFilter,
        MLkNN,
        ParticleMAP,
        ParticleVLS,
    )

__version__ = "0.1.0"

__all__ = [
    "DRAMA",
    "FPML",
    "PMLLFC",
    "PMLLRS",
    "PMLNI",
    "CandidateLogistic",
    "CleanlabFilter",
    "MLkNN",
    "ParticleMAP",
    "ParticleVLS",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Import the methods when they are asked for: the command line's help must not wait for scikit-learn."""
    if name in __all__:
        from pmlkit import methods

        return getattr(methods, name)
    raise AttributeError(f"module 'pmlkit' has no attribute {name!r}")
