"""Run one cell: split the rows, add noise, choose parameters, fit, predict and evaluate."""

import functools
import itertools
import logging
import math
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from threadpoolctl import ThreadpoolController

from pmlkit._typing import CSR, Features
from pmlkit.bench.cells import METRICS, Cell, build_model
from pmlkit.bench.plan_entries import Tune
from pmlkit.bench.problem import Problem, make_problem
from pmlkit.bench.sandbox import Budget, Outcome, Sandbox
from pmlkit.data import StratifiedLabelKFold
from pmlkit.metrics import evaluate, evaluate_cleaning, scorers

__all__ = ["choose_params", "close_sandbox", "run_cell"]

logger = logging.getLogger(__name__)

_of_thread = threading.local()


def run_cell(cell: Cell, budget: Budget) -> Outcome:
    """Run a cell in a process of its own.

    Parameters
    ----------
    cell : Cell
    budget : Budget

    Returns
    -------
    outcome : Outcome
        Its answer has the `METRICS`, ``fit_seconds`` (with the choice of parameters, if there is one),
        ``predict_seconds``, and ``chosen``, the parameters that were chosen.

    Examples
    --------
    >>> from pmlkit.bench import Plan
    >>> from pmlkit.bench.evaluation import run_cell
    >>> from pmlkit.bench.cells import expand
    >>> from pmlkit.bench.sandbox import Budget
    >>> cells = expand(Plan(["digit-strips:100"], ["MLkNN"], noise=[0.5], repeats=1))
    >>> outcome = run_cell(cells[0], Budget(seconds=60, megabytes=1000))
    >>> 0 < outcome.answer["average_precision"] <= 1
    True
    """
    if not hasattr(_of_thread, "sandbox"):
        _of_thread.sandbox = Sandbox(_prepare)
    outcome: Outcome = _of_thread.sandbox.run(cell, budget)
    return outcome


def close_sandbox() -> None:
    """End the process in which this thread ran its cells."""
    if hasattr(_of_thread, "sandbox"):
        _of_thread.sandbox.close()


def _prepare(cell: Cell) -> Callable[[], dict[str, Any]]:
    model = build_model(cell.method, cell.params, cell.seed)
    _cap_threads(len(sys.modules))
    problem = make_problem(cell.source, noise=cell.noise, ratio=cell.ratio, seed=cell.seed)
    # Copies: the next method gets the same rows, whatever this one does to its own.
    own = replace(problem, X=problem.X.copy(), Y=problem.Y.copy(), X_test=problem.X_test.copy())
    return functools.partial(_measure, cell, model, own)


@functools.lru_cache(maxsize=1)
def _cap_threads(n_modules: int) -> None:
    """Let the libraries loaded so far use one thread, however many processes run.

    The order of a sum, and with it the last digits of a result, must not depend on the number of jobs.
    """
    ThreadpoolController().limit(limits=1)


def _measure(cell: Cell, model: Any, problem: Problem) -> dict[str, Any]:
    # For methods that take their random numbers from where they should not.
    random.seed(cell.seed)
    np.random.seed(cell.seed)  # noqa: NPY002
    chosen = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.perf_counter()
        if cell.tune is not None and cell.grid:
            chosen = choose_params(model, cell.grid, problem.X, problem.Y, tune=cell.tune, random_state=cell.seed)
            model.set_params(**chosen)
        model.fit(problem.X, problem.Y)
        fit_seconds = time.perf_counter() - started
        scores = model.decision_function(problem.X_test)
        started = time.perf_counter()
        predictions = model.predict(problem.X_test)
        predict_seconds = time.perf_counter() - started
        found = evaluate(problem.truth_test, scores, predictions)
        if hasattr(model, "label_confidence_"):
            found |= evaluate_cleaning(problem.truth, problem.Y, model.label_confidence_)
    values = {name: float(found.get(name, float("nan"))) for name in METRICS}
    return values | {"fit_seconds": fit_seconds, "predict_seconds": predict_seconds, "chosen": chosen}


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
        Number of folds, and the metric.
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
    >>> from pmlkit.bench.plan_entries import Tune
    >>> from pmlkit.bench.evaluation import choose_params
    >>> from pmlkit.data import load_digit_strips
    >>> from pmlkit.methods import MLkNN
    >>> data = load_digit_strips(100)
    >>> choose_params(MLkNN(), {"n_neighbors": [1, 10]}, data.X, data.Y, tune=Tune(), random_state=0)
    {'n_neighbors': 10}
    """
    folds = list(StratifiedLabelKFold(tune.folds, random_state=random_state).split(X, Y))
    score = scorers[tune.metric]
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
        logger.debug("%s: %s %.4f", params, tune.metric, mean)
        if mean > best_score:
            best, best_score = params, mean
    if best is None:
        raise failure or ValueError(f"No fold has a row on which {tune.metric} can be measured.")
    return best
