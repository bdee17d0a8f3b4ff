"""All measures of one set of predictions at once."""

import warnings

from pmlkit.exceptions import PMLWarning
from pmlkit.metrics._inputs import Convention, Table, Ties, check_convention, check_ties
from pmlkit.metrics._ranked import row_measures
from pmlkit.metrics._ranking import has_contrast, mean_over, tie_rule, truth_and_scores
from pmlkit.metrics._sets import count_labels

__all__ = ["evaluate"]

_CONTRAST_MEASURES = ("ranking_loss", "one_error", "average_precision")


def evaluate(
    truth: Table,
    scores: Table,
    predictions: Table | None = None,
    *,
    convention: Convention = "zhang",
    ties: Ties | None = None,
) -> dict[str, float]:
    """Compute the five measures of the partial multi-label papers and two F1, sorting each row once.

    Parameters
    ----------
    truth : (n, q) array, sparse array or DataFrame
        Indicator of the true labels.
    scores : (n, q) array or DataFrame
        The higher, the more likely true. Infinite scores are allowed, nan is not.
    predictions : (n, q) array, sparse array or DataFrame, default=None
        Indicator of the predicted labels. Without it Hamming loss and the F1 are nan.
    convention : {"zhang", "sklearn"}, default="zhang"
        How rows with no true label or with all of them, and ties, are counted; see each measure.
    ties : {"zhang", "pessimistic", "average"}, default=None
        One tie rule for all measures instead of the convention's own.

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
    >>> truth = [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    >>> scores = [[0.2, 0.9, 0.1], [0.0, 0.5, 0.7], [0.3, 0.2, 0.1]]
    >>> result = evaluate(truth, scores, [[0, 1, 0], [0, 1, 1], [0, 0, 0]])
    >>> result["average_precision"], result["rows_dropped"]
    (0.75, 1)
    """
    check_convention(convention)
    check_ties(ties)
    flags, numbers = truth_and_scores(truth, scores)
    n_rows, n_labels = numbers.shape
    rules = {name: tie_rule(name, convention, ties) for name in (*_CONTRAST_MEASURES, "coverage")}
    values, n_true = row_measures(flags, numbers, rules)
    kept = has_contrast(n_true, n_labels, convention)
    means = {name: mean_over(values[name], kept) for name in _CONTRAST_MEASURES}
    depth = mean_over(values["coverage"], (n_true > 0) | (convention == "sklearn"))
    if not kept.any():
        warnings.warn(
            f"{', '.join(_CONTRAST_MEASURES)} are nan: each of the {n_rows} rows has no true label or all of them, and "
            "convention='zhang' drops such rows (coverage drops those without a true label).",
            PMLWarning,
            stacklevel=2,
        )
    counts = None if predictions is None else count_labels(truth, predictions)
    nan = float("nan")
    return {
        "hamming_loss": counts.hamming_loss() if counts else nan,
        "ranking_loss": means["ranking_loss"],
        "one_error": means["one_error"],
        "coverage": (depth - 1) / n_labels,
        "average_precision": means["average_precision"],
        "micro_f1": counts.micro_f1() if counts else nan,
        "macro_f1": counts.macro_f1() if counts else nan,
        "rows_dropped": int(n_rows - kept.sum()),
    }
