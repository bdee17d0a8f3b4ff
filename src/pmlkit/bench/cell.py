"""One cell: a method on a split of a data set with its noise, from the rows to the measures."""

import functools
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from pmlkit import _measures
from pmlkit.bench.isolate import Budget, Outcome, Sandbox
from pmlkit.bench.plan import Tune
from pmlkit.bench.plan_words import load_method
from pmlkit.bench.problem import Problem, Source, make_problem
from pmlkit.bench.tune import choose_params
from pmlkit.metrics import evaluate, evaluate_cleaning

__all__ = ["MEASURES", "PROTOCOL", "Cell", "run_cell"]

PROTOCOL = 1
"""Goes up when a cell, or the way in which it is tuned, becomes something else: older cells are then not current."""

MEASURES = tuple(measure.key for measure in _measures.MEASURES)
"""What is measured in a cell, and does not depend on the machine's speed."""

_of_thread = threading.local()


@dataclass(frozen=True)
class Cell:
    """All that must be known to run a cell anywhere.

    Attributes
    ----------
    key : str
        Stands for everything that could change the result.
    group : str
        The same, but for the repeat.
    data, label : str
        What it is filed under.
    source : Source
        The data set.
    noise : {"own", "uniform", "correlated", "confusable"}
    ratio : float or None
        None for ``own``.
    repeat, seed : int
        The seed follows from the repeat; split, noise and method follow from the seed.
    method : str
    params : dict
        Of the method.
    shown_params : str
        What differs from the defaults, as canonical JSON.
    grid, tune
        What is chosen inside the training rows, and how.
    """

    key: str
    group: str
    data: str
    label: str
    source: Source
    noise: str
    ratio: float | None
    repeat: int
    seed: int
    method: str
    params: Mapping[str, Any]
    shown_params: str
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    tune: Tune | None = None

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        noise = "own" if self.ratio is None else f"{self.noise} {self.ratio:g}"
        return f"{self.data}, {noise}, {self.label}, repeat {self.repeat}"


def run_cell(cell: Cell, budget: Budget) -> Outcome:
    """Run a cell in a process of its own.

    Parameters
    ----------
    cell : Cell
    budget : Budget

    Returns
    -------
    outcome : Outcome
        Its answer has the `MEASURES`, ``fit_seconds`` (with the choice of parameters, if there is one),
        ``predict_seconds``, and ``chosen``, the parameters that were chosen.

    Examples
    --------
    >>> from pmlkit.bench import Plan
    >>> from pmlkit.bench.cell import run_cell
    >>> from pmlkit.bench.grid import expand
    >>> from pmlkit.bench.isolate import Budget
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


def build_model(method: str, params: Mapping[str, Any], seed: int) -> Any:
    """Return an unfitted model; its seed is that of the cell unless the plan gives one."""
    model = load_method(method)(**params)
    if "random_state" in model.get_params() and "random_state" not in params:
        model.set_params(random_state=seed)
    return model


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
    values = {name: float(found.get(name, float("nan"))) for name in MEASURES}
    return values | {"fit_seconds": fit_seconds, "predict_seconds": predict_seconds, "chosen": chosen}
