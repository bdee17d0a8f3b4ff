"""Choose parameters inside the training rows, by the candidates alone."""

import itertools
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from pmlkit._typing import CSR, Features
from pmlkit.bench.plan import Tune
from pmlkit.data import StratifiedLabelKFold
from pmlkit.metrics import scorers

__all__ = ["choose_params"]

logger = logging.getLogger(__name__)


def choose_params(
    model: Any, grid: Mapping[str, Sequence[Any]], X: Features, Y: CSR, *, tune: Tune, random_state: int
) -> dict[str, Any]:
    """Return the combination of a grid that does best in a cross-validation scored on the candidates.

    Parameters
    ----------
    model : estimator
        Is not changed.
    grid : dict of sequences
        The values of each parameter.
    X, Y : rows and their candidates
        Of training rows only. The truth is not looked at: the held-out rows' candidates stand in for it.
    tune : Tune
        Number of folds, and the measure.
    random_state : int
        Seed of the folds.

    Returns
    -------
    chosen : dict
        Of equally good combinations the first.

    Notes
    -----
    A combination that raises is out; if all do, the last error is raised.

    Examples
    --------
    >>> from pmlkit.bench.plan import Tune
    >>> from pmlkit.bench.tune import choose_params
    >>> from pmlkit.data import load_digit_strips
    >>> from pmlkit.methods import MLkNN
    >>> data = load_digit_strips(100)
    >>> choose_params(MLkNN(), {"n_neighbors": [1, 10]}, data.X, data.Y, tune=Tune(), random_state=0)
    {'n_neighbors': 10}
    """
    folds = list(StratifiedLabelKFold(tune.folds, random_state=random_state).split(X, Y))
    score = scorers[tune.measure]
    best: dict[str, Any] | None = None
    best_score, failure = -math.inf, None
    for values in itertools.product(*grid.values()):
        params = dict(zip(grid, values, strict=True))
        try:
            scores = [
                score(clone(model).set_params(**params).fit(X[train], Y[train]), X[test], Y[test])
                for train, test in folds
            ]
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            logger.info("%s is left out: %s", params, error)
            failure = error
            continue
        # A fold without a measurable row has no score.
        mean = float(np.mean([value for value in scores if not math.isnan(value)] or [math.nan]))
        logger.debug("%s: %s %.4f", params, tune.measure, mean)
        if mean > best_score:
            best, best_score = params, mean
    if best is None:
        raise failure or ValueError(f"No fold has a row on which {tune.measure} can be measured.")
    return best
