"""The metrics as scikit-learn scorers, for GridSearchCV and cross_validate."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.metrics import make_scorer

from pmlkit.metrics._ranking import average_precision, coverage, one_error, ranking_loss
from pmlkit.metrics._sets import hamming_loss, macro_f1, micro_f1

__all__ = ["scorer", "scorers"]


@dataclass(frozen=True)
class _Metric:
    function: Callable[..., float]
    greater_is_better: bool
    needs_scores: bool


_METRICS = {
    "hamming_loss": _Metric(hamming_loss, greater_is_better=False, needs_scores=False),
    "ranking_loss": _Metric(ranking_loss, greater_is_better=False, needs_scores=True),
    "one_error": _Metric(one_error, greater_is_better=False, needs_scores=True),
    "coverage": _Metric(coverage, greater_is_better=False, needs_scores=True),
    "average_precision": _Metric(average_precision, greater_is_better=True, needs_scores=True),
    "micro_f1": _Metric(micro_f1, greater_is_better=True, needs_scores=False),
    "macro_f1": _Metric(macro_f1, greater_is_better=True, needs_scores=False),
}


def scorer(name: str, **options: Any) -> Any:
    """Return a metric as a scikit-learn scorer, where greater is always better: losses come out negative.

    Parameters
    ----------
    name : str
        One of the keys of :data:`scorers`.
    **options
        Passed to the metric, for instance ``convention="sklearn"``, or ``label_names=`` for ranking metrics where the
        true labels are names per row.

    Returns
    -------
    scorer
        A callable ``(estimator, X, y_true) -> float``. Ranking metrics use the estimator's ``decision_function``,
        or ``predict_proba`` where it has none; the others use ``predict``.

    Examples
    --------
    >>> from pmlkit.metrics import scorer
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.multiclass import OneVsRestClassifier
    >>> X, Y = make_multilabel_classification(random_state=0)
    >>> search = GridSearchCV(
    ...     OneVsRestClassifier(LogisticRegression()), {"estimator__C": [0.1, 1.0]}, scoring=scorer("ranking_loss")
    ... )
    >>> bool(search.fit(X, Y).best_score_ < 0)
    True
    """
    if name not in _METRICS:
        raise ValueError(f"name must be one of {', '.join(map(repr, _METRICS))}, got {name!r}.")
    metric = _METRICS[name]
    return make_scorer(
        metric.function,
        response_method=("decision_function", "predict_proba") if metric.needs_scores else "predict",
        greater_is_better=metric.greater_is_better,
        **options,
    )


scorers: dict[str, Any] = {name: scorer(name) for name in _METRICS}
"""Every metric as a scorer with its default options; the whole dict can be given as ``scoring=``."""
