"""All metrics of one set of predictions at once, and the metrics as scorers of scikit-learn."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sklearn.metrics import make_scorer

from pmlkit.exceptions import PMLWarning
from pmlkit.metrics._inputs import Convention, Table, Ties, check_convention, check_ties, read_tables
from pmlkit.metrics._ranked import row_metrics
from pmlkit.metrics._ranking import (
    average_precision,
    coverage,
    has_contrast,
    mean_over,
    one_error,
    ranking_loss,
    tie_rule,
)
from pmlkit.metrics._sets import count_labels, hamming_loss, macro_f1, micro_f1

__all__ = ["evaluate", "scorer", "scorers"]

_CONTRAST_METRICS = ("ranking_loss", "one_error", "average_precision")


def evaluate(
    y_true: Table,
    y_score: Table,
    y_pred: Table | None = None,
    *,
    convention: Convention = "zhang",
    ties: Ties | None = None,
    label_names: Iterable[Any] | None = None,
) -> dict[str, float]:
    """Compute the five metrics of the partial multi-label papers and two F1, sorting each row once.

    Parameters
    ----------
    y_true : (n_samples, n_labels) indicator, or names per row
        The true labels: array, sparse array or DataFrame of 0/1, or a list of label names per row.
    y_score : (n_samples, n_labels) array or DataFrame
        The higher, the more likely true. Infinite scores are allowed, nan is not.
    y_pred : (n_samples, n_labels) indicator, or names per row, default=None
        The predicted labels. Without it Hamming loss and the F1 are nan.
    convention : {"zhang", "sklearn"}, default="zhang"
        How rows with no true label or with all of them, and ties, are counted; see each metric.
    ties : {"zhang", "pessimistic", "average"}, default=None
        One tie rule for all metrics instead of the convention's own.
    label_names : sequence of str, default=None
        The label of each column; needed only if `y_true` holds names per row and `y_score` has no column names.

    Returns
    -------
    dict
        ``hamming_loss``, ``ranking_loss``, ``one_error``, ``coverage`` (normalised), ``average_precision``,
        ``micro_f1``, ``macro_f1``, and the integer ``rows_dropped``: how many rows have no true label or all of
        them and were left out of ranking loss, one-error and average precision. Coverage leaves out only those
        without a true label. Under "sklearn" no row is dropped.

    Examples
    --------
    >>> from pmlkit.metrics import evaluate
    >>> y_true = [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    >>> y_score = [[0.2, 0.9, 0.1], [0.0, 0.5, 0.7], [0.3, 0.2, 0.1]]
    >>> result = evaluate(y_true, y_score, [[0, 1, 0], [0, 1, 1], [0, 0, 0]])
    >>> result["average_precision"], result["rows_dropped"]
    (0.75, 1)
    """
    check_convention(convention)
    check_ties(ties)
    flags, numbers, *answers = read_tables(
        label_names, y_true=y_true, y_score=y_score, **({} if y_pred is None else {"y_pred": y_pred})
    )
    n_samples, n_labels = numbers.shape
    rules = {name: tie_rule(name, convention, ties) for name in (*_CONTRAST_METRICS, "coverage")}
    values, n_true = row_metrics(flags, numbers, rules)
    kept = has_contrast(n_true, n_labels, convention)
    means = {name: mean_over(values[name], kept) for name in _CONTRAST_METRICS}
    depth = mean_over(values["coverage"], (n_true > 0) | (convention == "sklearn"))
    if not kept.any():
        warnings.warn(
            f"{', '.join(_CONTRAST_METRICS)} are nan: each of the {n_samples} rows has no true label or all of them, "
            "and convention='zhang' drops such rows (coverage drops those without a true label).",
            PMLWarning,
            stacklevel=2,
        )
    counts = count_labels(flags, *answers) if answers else None
    nan = float("nan")
    return {
        "hamming_loss": counts.hamming_loss() if counts else nan,
        "ranking_loss": means["ranking_loss"],
        "one_error": means["one_error"],
        "coverage": (depth - 1) / n_labels,
        "average_precision": means["average_precision"],
        "micro_f1": counts.micro_f1() if counts else nan,
        "macro_f1": counts.macro_f1() if counts else nan,
        "rows_dropped": int(n_samples - kept.sum()),
    }


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
