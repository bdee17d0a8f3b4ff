"""pmlkit: learn from candidate labels, the scikit-learn way."""

from pmlkit.methods import CandidateLogistic, MLkNN

__version__ = "0.1.0"

__all__ = ["CandidateLogistic", "MLkNN", "__version__"]
