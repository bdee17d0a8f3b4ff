"""The four ranking metrics: ranking loss, one-error, coverage and average precision."""

import warnings
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from pmlkit._typing import BoolArray, FloatArray, IntArray
from pmlkit.exceptions import PMLWarning
from pmlkit.metrics._inputs import Convention, Table, Ties, check_convention, check_ties, read_tables
from pmlkit.metrics._ranked_rows import TieRule, row_metrics


def ranking_loss(
    y_true: Table,
    y_score: Table,
    *,
    convention: Convention = "zhang",
    ties: Ties | None = None,
    label_names: Iterable[Any] | None = None,
) -> float:
    """Share of the (true label, false label) pairs of a row that are in the wrong order, averaged over rows.

    Lower is better, 0 at best.

    Parameters
    ----------
    y_true, y_score, label_names
        As in :func:`evaluate`.
    convention : {"zhang", "sklearn"}, default="zhang"
        Rows with no true label or with all of them have no such pair. "zhang" leaves them out; "sklearn" counts
        them with loss 0, as :func:`sklearn.metrics.label_ranking_loss` does.
    ties : {"zhang", "pessimistic", "average"}, default=None
        A pair of equal scores is wrong ("zhang", "pessimistic", and both conventions), or half wrong ("average").

    Returns
    -------
    float
        nan, with a warning, if no row is left.

    Examples
    --------
    >>> from pmlkit.metrics import ranking_loss
    >>> y_true = [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    >>> y_score = [[0.2, 0.9, 0.1], [0.0, 0.5, 0.7], [0.3, 0.2, 0.1]]
    >>> ranking_loss(y_true, y_score)
    0.25
    >>> round(ranking_loss(y_true, y_score, convention="sklearn"), 4)
    0.1667
    """
    return _contrast_metric("ranking_loss", y_true, y_score, convention, ties, label_names)


def one_error(
    y_true: Table,
    y_score: Table,
    *,
    convention: Convention = "zhang",
    ties: Ties | None = None,
    label_names: Iterable[Any] | None = None,
) -> float:
    """Share of the rows whose best-scored label is false.

    Lower is better, 0 at best.

    Parameters
    ----------
    y_true, y_score, label_names
        As in :func:`evaluate`.
    convention : {"zhang", "sklearn"}, default="zhang"
        "zhang" leaves out the rows with no true label or with all of them. "sklearn" counts them: an empty row is
        an error. scikit-learn has no one-error; its convention here is ``1 - y_true[argmax(y_score)]``.
    ties : {"zhang", "pessimistic", "average"}, default=None
        When several labels share the best score the row is an error if none of them is true ("zhang"), if any of
        them is false ("pessimistic"), or by the share of false ones ("average"). None is "zhang"; under
        ``convention="sklearn"`` it asks the first of them, which depends on the order of the columns.

    Returns
    -------
    float
        nan, with a warning, if no row is left.

    Examples
    --------
    >>> from pmlkit.metrics import one_error
    >>> y_true = [[1, 0, 0], [0, 1, 1]]
    >>> one_error(y_true, [[0.2, 0.9, 0.1], [0.0, 0.5, 0.7]])
    0.5
    >>> one_error(y_true, [[0.5, 0.5, 0.1], [0.0, 0.5, 0.7]])
    0.0
    >>> one_error(y_true, [[0.5, 0.5, 0.1], [0.0, 0.5, 0.7]], ties="average")
    0.25
    """
    return _contrast_metric("one_error", y_true, y_score, convention, ties, label_names)


def average_precision(
    y_true: Table,
    y_score: Table,
    *,
    convention: Convention = "zhang",
    ties: Ties | None = None,
    label_names: Iterable[Any] | None = None,
) -> float:
    """Label-ranking average precision: how many of the labels ranked at or above a true one are true.

    Averaged over the true labels of a row, then over rows. Higher is better, 1 at best.

    Parameters
    ----------
    y_true, y_score, label_names
        As in :func:`evaluate`.
    convention : {"zhang", "sklearn"}, default="zhang"
        "zhang" leaves out the rows with no true label or with all of them. "sklearn" counts them as 1, as
        :func:`sklearn.metrics.label_ranking_average_precision_score` does.
    ties : {"zhang", "pessimistic", "average"}, default=None
        Among equal scores the lower column is ranked worse ("zhang", which depends on the order of the columns),
        all get the worst rank of their group ("pessimistic", the rule of ``convention="sklearn"``), or the value
        is the mean over all their orders ("average").

    Returns
    -------
    float
        nan, with a warning, if no row is left.

    Examples
    --------
    >>> from pmlkit.metrics import average_precision
    >>> y_true = [[1, 0, 0], [0, 1, 1]]
    >>> y_score = [[0.2, 0.9, 0.1], [0.0, 0.5, 0.7]]
    >>> average_precision(y_true, y_score)
    0.75
    """
    return _contrast_metric("average_precision", y_true, y_score, convention, ties, label_names)


def coverage(
    y_true: Table,
    y_score: Table,
    *,
    convention: Convention = "zhang",
    ties: Ties | None = None,
    normalize: bool = True,
    empty_rows: Literal["drop", "keep"] | None = None,
    label_names: Iterable[Any] | None = None,
) -> float:
    """How far down the ranking one must go to meet every true label, averaged over rows.

    Lower is better.

    Parameters
    ----------
    y_true, y_score, label_names
        As in :func:`evaluate`.
    convention : {"zhang", "sklearn"}, default="zhang"
        Sets the defaults of `ties` and `empty_rows`, and what ``normalize=False`` means.
    ties : {"zhang", "pessimistic", "average"}, default=None
        As in :func:`average_precision`.
    normalize : bool, default=True
        True gives (mean rank of the worst-ranked true label - 1) / q, the metric of the partial multi-label papers:
        at least 0 and below 1, unless empty rows are kept. False gives the mean rank - 1 under "zhang", as in the
        MATLAB program, and the mean rank under "sklearn", as :func:`sklearn.metrics.coverage_error`.
    empty_rows : {"drop", "keep"}, default=None
        A row without a true label is left out ("drop", the default of "zhang"), or counts with rank 0 ("keep", the
        default of "sklearn").

    Returns
    -------
    float
        nan, with a warning, if no row is left.

    Notes
    -----
    The MATLAB program keeps empty rows, so that a data set with many of them seems easier than it is. Dropping them
    is our deviation; ``empty_rows="keep", normalize=False`` is the program to the digit.

    Examples
    --------
    >>> from pmlkit.metrics import coverage
    >>> y_true = [[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]]
    >>> y_score = [[0.2, 0.9, 0.1, 0.0], [0.0, 0.5, 0.7, 0.1], [0.4, 0.3, 0.2, 0.1]]
    >>> coverage(y_true, y_score)
    0.25
    >>> coverage(y_true, y_score, normalize=False)
    1.0
    >>> round(coverage(y_true, y_score, convention="sklearn", normalize=False), 4)
    1.3333
    """
    check_convention(convention)
    check_ties(ties)
    if empty_rows not in (None, "drop", "keep"):
        raise ValueError(
            f"empty_rows must be 'drop', 'keep' or None for the convention's own rule, got {empty_rows!r}."
        )
    flags, numbers = read_tables(label_names, y_true=y_true, y_score=y_score)
    values, n_true = row_metrics(flags, numbers, {"coverage": tie_rule("coverage", convention, ties)})
    n_labels: int = numbers.shape[1]
    drop = empty_rows == "drop" if empty_rows else convention == "zhang"
    depth = mean_over(values["coverage"], (n_true > 0) | (not drop))
    if np.isnan(depth):
        warnings.warn(
            f"coverage is nan: none of the {len(n_true)} rows has a true label, and such rows are dropped.",
            PMLWarning,
            stacklevel=2,
        )
    if normalize:
        return (depth - 1) / n_labels
    return depth - 1 if convention == "zhang" else depth


def tie_rule(metric: str, convention: Convention, ties: Ties | None) -> TieRule:
    """Return the tie rule asked for, or else the convention's own for that metric."""
    if ties is not None:
        return ties
    if convention == "zhang":
        return "zhang"
    return "first" if metric == "one_error" else "pessimistic"


def has_contrast(n_true: IntArray, n_labels: int, convention: Convention) -> BoolArray:
    """Return which rows count in the metrics that compare true with false labels."""
    if convention == "sklearn":
        return np.ones(len(n_true), dtype=bool)
    return (n_true > 0) & (n_true < n_labels)


def mean_over(values: FloatArray, kept: BoolArray) -> float:
    """Return the mean of the kept values, nan if there is none."""
    return float(values[kept].mean()) if kept.any() else float("nan")


def _contrast_metric(
    name: str,
    y_true: Table,
    y_score: Table,
    convention: Convention,
    ties: Ties | None,
    label_names: Iterable[Any] | None,
) -> float:
    check_convention(convention)
    check_ties(ties)
    flags, numbers = read_tables(label_names, y_true=y_true, y_score=y_score)
    values, n_true = row_metrics(flags, numbers, {name: tie_rule(name, convention, ties)})
    kept = has_contrast(n_true, numbers.shape[1], convention)
    if not kept.any():
        warnings.warn(
            f"{name} is nan: each of the {len(n_true)} rows has no true label or all of them, and "
            "convention='zhang' drops such rows.",
            PMLWarning,
            stacklevel=3,
        )
    return mean_over(values[name], kept)
