"""Metrics of predicted label sets, all metrics of one set of predictions at once, and scorers of scikit-learn.

Hamming loss and F1 follow from three counts per label, so that sparse tables are never made dense.
"""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import make_scorer

from pmlkit._typing import CSR, IntArray
from pmlkit.exceptions import PMLWarning
from pmlkit.metrics._inputs import Convention, Table, Ties, check_convention, check_ties, read_tables
from pmlkit.metrics._ranking import (
    average_precision,
    coverage,
    has_contrast,
    mean_over,
    one_error,
    ranking_loss,
    row_metrics,
    tie_rule,
)


@dataclass(frozen=True)
class LabelCounts:
    """Number of rows per label where it is true, where it is predicted, and where it is both."""

    true: IntArray
    predicted: IntArray
    both: IntArray
    n_samples: int

    def hamming_loss(self) -> float:
        """Share of the cells that are wrong."""
        n_wrong = self.true.sum() + self.predicted.sum() - 2 * self.both.sum()
        return float(n_wrong / (self.n_samples * len(self.true)))

    def micro_f1(self, zero_division: float = 0.0) -> float:
        """F1 of all cells taken together."""
        n_either = self.true.sum() + self.predicted.sum()
        return float(2 * self.both.sum() / n_either) if n_either else zero_division

    def macro_f1(self, zero_division: float = 0.0) -> float:
        """Mean of the F1 of each label, leaving out those that are nan."""
        n_either = self.true + self.predicted
        f1 = np.divide(2 * self.both, n_either, out=np.full(len(n_either), zero_division), where=n_either > 0)
        defined = ~np.isnan(f1)
        return float(f1[defined].mean()) if defined.any() else float("nan")


def hamming_loss(
    y_true: Table, y_pred: Table, *, convention: Convention = "zhang", label_names: Iterable[Any] | None = None
) -> float:
    """Share of the cells (rows x labels) where the prediction differs from the truth.

    Lower is better. Rows with no true label or with all of them count like any other.

    Parameters
    ----------
    y_true : (n_samples, n_labels) indicator, or names per row
        The true labels: array, sparse array or DataFrame of 0/1, or a list of label names per row.
    y_pred : (n_samples, n_labels) indicator, or names per row
        The predicted labels.
    convention : {"zhang", "sklearn"}, default="zhang"
        The same value under both; it exists so that all metrics have the same signature.
    label_names : sequence of str, default=None
        All labels, for names per row; by default those that occur in `y_true` or `y_pred`.

    Returns
    -------
    float

    Examples
    --------
    >>> from pmlkit.metrics import hamming_loss
    >>> hamming_loss([[1, 0], [0, 1]], [[1, 1], [0, 1]])
    0.25
    >>> hamming_loss([["sea"], ["sun"]], [["sea", "sun"], ["sun"]])
    0.25
    """
    check_convention(convention)
    return _counts(y_true, y_pred, label_names).hamming_loss()


def micro_f1(
    y_true: Table,
    y_pred: Table,
    *,
    convention: Convention = "zhang",
    zero_division: float = 0.0,
    label_names: Iterable[Any] | None = None,
) -> float:
    """F1 of all cells (rows x labels) taken together: 2 x hits / (true cells + predicted cells).

    Parameters
    ----------
    y_true, y_pred, convention, label_names
        As in :func:`hamming_loss`.
    zero_division : float, default=0.0
        The value if no cell is true and none is predicted.

    Returns
    -------
    float
        From 0 to 1; higher is better.

    Examples
    --------
    >>> from pmlkit.metrics import micro_f1
    >>> micro_f1([[1, 0], [0, 1]], [[1, 1], [0, 1]])
    0.8
    """
    check_convention(convention)
    return _counts(y_true, y_pred, label_names).micro_f1(zero_division)


def macro_f1(
    y_true: Table,
    y_pred: Table,
    *,
    convention: Convention = "zhang",
    zero_division: float = 0.0,
    label_names: Iterable[Any] | None = None,
) -> float:
    """F1 of each label, averaged over labels, so that rare labels weigh as much as frequent ones.

    Parameters
    ----------
    y_true, y_pred, convention, label_names
        As in :func:`hamming_loss`.
    zero_division : float, default=0.0
        The F1 of a label that is true nowhere and predicted nowhere; nan leaves such labels out of the mean.

    Returns
    -------
    float
        From 0 to 1; higher is better. nan if no label is left.

    Examples
    --------
    >>> from pmlkit.metrics import macro_f1
    >>> y_true, y_pred = [[1, 0, 0], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]
    >>> round(macro_f1(y_true, y_pred), 4)
    0.5556
    >>> round(macro_f1(y_true, y_pred, zero_division=float("nan")), 4)
    0.8333
    """
    check_convention(convention)
    return _counts(y_true, y_pred, label_names).macro_f1(zero_division)


def count_labels(y_true: CSR, y_pred: CSR) -> LabelCounts:
    """Count per label where two validated indicators agree."""
    true, predicted, both = (
        np.bincount(cells.indices, minlength=y_true.shape[1]) for cells in (y_true, y_pred, y_true.multiply(y_pred))
    )
    return LabelCounts(true, predicted, both, y_true.shape[0])


def _counts(y_true: Table, y_pred: Table, label_names: Iterable[Any] | None) -> LabelCounts:
    return count_labels(*read_tables(label_names, y_true=y_true, y_pred=y_pred))


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


_METRICS: dict[str, Callable[..., float]] = {
    "hamming_loss": hamming_loss,
    "ranking_loss": ranking_loss,
    "one_error": one_error,
    "coverage": coverage,
    "average_precision": average_precision,
    "micro_f1": micro_f1,
    "macro_f1": macro_f1,
}
_OF_SETS = ("hamming_loss", "micro_f1", "macro_f1")
_GREATER_IS_BETTER = ("average_precision", "micro_f1", "macro_f1")


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
    return make_scorer(
        _METRICS[name],
        response_method="predict" if name in _OF_SETS else ("decision_function", "predict_proba"),
        greater_is_better=name in _GREATER_IS_BETTER,
        **options,
    )


scorers: dict[str, Any] = {name: scorer(name) for name in _METRICS}
