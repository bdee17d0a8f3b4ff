"""pmlkit: learn from candidate labels, the scikit-learn way."""

from pmlkit.methods import CandidateLogistic, MLkNN, PMLLFC

__version__ = "0.1.0"

__all__ = ["CandidateLogistic", "MLkNN", "PMLLFC", "__version__"]
