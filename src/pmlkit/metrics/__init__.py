"""Metrics of multi-label predictions, and of how well false candidate labels are found.

Every metric takes the true labels first, as scikit-learn does. Two conventions exist in the literature and differ where
scores are tied and where a row has no true label or all of them; ``convention=`` chooses, see ``docs/metrics.md``.
"""

from typing import Any

from pmlkit.metrics import _evaluate
from pmlkit.metrics._cleaning import cleaning_auc, cleaning_average_precision, evaluate_cleaning, precision_at
from pmlkit.metrics._evaluate import evaluate, hamming_loss, macro_f1, micro_f1, scorer
from pmlkit.metrics._ranking import average_precision, coverage, one_error, ranking_loss

__all__ = [
    "average_precision",
    "cleaning_auc",
    "cleaning_average_precision",
    "coverage",
    "evaluate",
    "evaluate_cleaning",
    "hamming_loss",
    "macro_f1",
    "micro_f1",
    "one_error",
    "precision_at",
    "ranking_loss",
    "scorer",
    "scorers",
]

scorers: dict[str, Any] = _evaluate.scorers
"""Every metric as a scikit-learn scorer with its default options; the whole dict can be given as ``scoring=``."""
