"""Decide what rows without candidates are: not labelled, or seen and found to have no label."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from sklearn.metrics import roc_auc_score

from pmlkit._typing import BoolArray, Features
from pmlkit.methods.clear_pml.dual_ridge import dual_of_values, search_in_dual
from pmlkit.methods.clear_pml.feature_weighting import (
    FeatureMoments,
    feature_moments,
    fit_weighting,
    possible_weightings,
)
from pmlkit.methods.clear_pml.landmarks import kernel_between, sample_by_content

__all__ = ["ROWS", "EmptyRows", "decide_by_sample", "decide_empty_rows"]

ROWS = 1000
_LEAST_AUC, _SURE = 0.7, 3.0  # standard errors above one half


@dataclass(frozen=True)
class EmptyRows:
    """What rows without candidates are taken for, and why.

    Attributes
    ----------
    meaning : {"unlabelled", "negative"}
    reason : str
    """

    meaning: Literal["unlabelled", "negative"]
    reason: str


def decide_empty_rows(X: Features, is_empty: BoolArray) -> EmptyRows:
    """Test whether features predict which rows are empty.

    Rows that were skipped at random look like the others. Rows to which no label applies look different: emptiness
    is then predictable by leave-one-out ridge regression on a sample of rows. Rows that were skipped by a rule that
    the features show look the same; only the user knows.

    Parameters
    ----------
    X : dense array or CSR array of shape (n_samples, n_features)
    is_empty : bool array of shape (n_samples,)

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.empty_rows import decide_empty_rows
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> decide_empty_rows(X, X[:, 0] > 0.5).meaning, decide_empty_rows(X, np.arange(300) % 3 == 0).meaning
    ('negative', 'unlabelled')
    """
    chosen = sample_by_content(X, ROWS)
    return decide_by_sample(X[chosen], is_empty[chosen], feature_moments(X))


def decide_by_sample(X: Features, target: BoolArray, moments: FeatureMoments) -> EmptyRows:
    """Decide as `decide_empty_rows` does, from a sample of rows, whether each is empty, and the moments of all rows."""
    n_empty, n_other = int(target.sum()), int((~target).sum())
    if not n_empty or not n_other:
        return EmptyRows("unlabelled", "too few rows to tell")
    weightings = possible_weightings(moments)
    rows = fit_weighting(moments, weightings[-1]).transform(X)
    _, values = kernel_between(rows, linear=weightings[0] != "standard")
    column = target.astype(np.float64)[:, None]
    penalty, _ = search_in_dual(values, column)
    ridge = dual_of_values(values, penalty)
    auc = float(roc_auc_score(target, ridge.loo_scores(column, ridge.fit(column))[:, 0]))
    error = float(np.sqrt((n_empty + n_other + 1) / (12.0 * n_empty * n_other)))
    negative = auc > max(_LEAST_AUC, 0.5 + _SURE * error)
    return EmptyRows(
        "negative" if negative else "unlabelled",
        f"features {'predict' if negative else 'do not predict'} which rows are empty "
        f"(leave-one-out AUC {auc:.2f}, standard error {error:.2f})",
    )
