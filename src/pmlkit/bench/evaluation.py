"""Run one cell: split the rows, add noise, choose parameters, fit, predict and evaluate."""

import functools
import itertools
import json
import logging
import math
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import get_tags
from threadpoolctl import ThreadpoolController

from pmlkit._typing import CSR, Features, IntArray
from pmlkit.bench.cells import KEPT, METRICS, Cell, Source, build_model, derive_seed, load_source
from pmlkit.bench.plan_entries import DIGIT_STRIPS, Tune
from pmlkit.bench.sandbox import Budget, Outcome, Sandbox
from pmlkit.data import StratifiedLabelKFold, add_noise, load_digit_strips, train_test_rows
from pmlkit.exceptions import DataError
from pmlkit.methods.base import BasePML
from pmlkit.metrics import evaluate, evaluate_cleaning, scorers

logger = logging.getLogger(__name__)

_of_thread = threading.local()
_TEST_SHARE = 0.2


@dataclass(frozen=True)
class Problem:
    """Training rows with candidates, test rows, and the truth of both."""

    X: Features
    Y: CSR
    truth: CSR
    X_test: Features
    truth_test: CSR


def make_problem(source: Source, *, noise: str, ratio: float | None, seed: int) -> Problem:
    """Split the rows and add the candidates of the training rows: the data set's own, or noise added to the truth.

    The seeds of split and noise are derived from `seed`, that of the cell.
    """
    if DIGIT_STRIPS not in json.loads(source.recipe) and load_source(source.recipe)[1] != source.fingerprint:
        raise DataError("The file of the data set changed while the run was going: run it again.")
    return _add_candidates(source, noise, ratio, seed)


@functools.lru_cache(maxsize=KEPT)
def _add_candidates(source: Source, noise: str, ratio: float | None, seed: int) -> Problem:
    split = _split(source, seed)
    if noise == "own":
        return split
    X = split.X if noise == "confusable" else None
    random_state = derive_seed(seed, "noise", noise, ratio)
    Y = add_noise(split.truth, ratio, noise, random_state=random_state, X=X)  # type: ignore[arg-type]
    return replace(split, Y=Y)


@functools.lru_cache(maxsize=KEPT)
def _split(source: Source, seed: int) -> Problem:
    """Return the split with the data set's own candidates."""
    train: IntArray
    test: IntArray
    random_state = derive_seed(seed, "split")
    if DIGIT_STRIPS in json.loads(source.recipe):
        # Strips share scans, so that a random split would leak them into the test rows; draw new strips instead.
        data = load_digit_strips(source.n_rows, random_state=random_state)
        train, test = np.split(np.arange(data.n_samples), [int((1 - _TEST_SHARE) * data.n_samples)])
    else:
        data = load_source(source.recipe)[0]
        train, test = train_test_rows(data.n_samples, test_size=_TEST_SHARE, random_state=random_state)
    truth = data.Y if data.truth is None else data.truth
    return Problem(data.X[train], data.Y[train], truth[train], data.X[test], truth[test])


def run_cell(cell: Cell, budget: Budget) -> Outcome:
    """Run a cell in a process of its own.

    Returns: its answer has the `METRICS`, ``fit_seconds`` (tuning included), ``predict_seconds``, and ``chosen``, the
    tuned parameters.
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
    model = build_model(cell.variant, cell.seed)
    _cap_threads(len(sys.modules))
    problem = make_problem(cell.source, noise=cell.noise, ratio=cell.ratio, seed=cell.seed)
    return functools.partial(_evaluate, cell, model, _inputs(model, problem), problem)


def _inputs(model: Any, problem: Problem) -> tuple[Any, Any, Any]:
    """Return X, Y and X_test for one method: copies, which it may change, and dense unless it accepts sparse ones.

    X may be sparse if the scikit-learn tag ``input_tags.sparse`` says so, and Y if the class attribute
    ``accepts_sparse_y`` does, which the methods of pmlkit do not need.
    """
    sparse_x = hasattr(model, "__sklearn_tags__") and get_tags(model).input_tags.sparse
    sparse_y = getattr(model, "accepts_sparse_y", isinstance(model, BasePML))
    X, X_test = (
        rows.toarray() if sparse.issparse(rows) and not sparse_x else rows.copy()
        for rows in (problem.X, problem.X_test)
    )
    return X, problem.Y.copy() if sparse_y else problem.Y.toarray().astype(int), X_test


@functools.lru_cache(maxsize=1)
def _cap_threads(n_modules: int) -> None:
    """Limit the libraries loaded so far to one thread, so that results do not depend on the number of jobs."""
    ThreadpoolController().limit(limits=1)


def _evaluate(cell: Cell, model: Any, inputs: tuple[Any, Any, Any], problem: Problem) -> dict[str, Any]:
    X, Y, X_test = inputs
    # For methods that use the global random state in spite of `random_state`.
    random.seed(cell.seed)
    np.random.seed(cell.seed)  # noqa: NPY002
    chosen = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.perf_counter()
        if cell.tune is not None:
            chosen = choose_params(model, cell.variant.grid, X, Y, tune=cell.tune, random_state=cell.seed)
            model.set_params(**chosen)
        model.fit(X, Y)
        fit_seconds = time.perf_counter() - started
        scores = model.decision_function(X_test)
        started = time.perf_counter()
        predictions = model.predict(X_test)
        predict_seconds = time.perf_counter() - started
        found = evaluate(problem.truth_test, scores, predictions)
        if hasattr(model, "label_confidence_"):
            found |= evaluate_cleaning(problem.truth, problem.Y, model.label_confidence_)
    values = {name: float(found.get(name, float("nan"))) for name in METRICS}
    return values | {"fit_seconds": fit_seconds, "predict_seconds": predict_seconds, "chosen": chosen}


def choose_params(
    model: Any, grid: Mapping[str, Sequence[Any]], X: Features, Y: Any, *, tune: Tune, random_state: int
) -> dict[str, Any]:
    """Choose parameters by cross-validation on the training rows, scored on the candidates of the held-out rows.

    Returns the best combination of the grid, the first one of equals. One that raises is left out; if all do, the last
    error is raised.
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
