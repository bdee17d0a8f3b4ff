"""All metrics of one set of predictions at once."""

import warnings
from collections.abc import Iterable
from typing import Any

from pmlkit.exceptions import PMLWarning
from pmlkit.metrics._inputs import Convention, Table, Ties, check_convention, check_ties, read_tables
from pmlkit.metrics._ranked import row_metrics
from pmlkit.metrics._ranking import has_contrast, mean_over, tie_rule
from pmlkit.metrics._sets import count_labels

__all__ = ["evaluate"]

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
