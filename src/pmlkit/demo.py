"""Demo on embedded data: learn from candidate labels, find the false ones, and evaluate both."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmlkit._arrays import row_of_cells
from pmlkit._typing import RandomState
from pmlkit.data import PMLDataset, load_digit_strips
from pmlkit.methods import PMLLFC, CandidateLogistic, ClearPML, MLkNN
from pmlkit.methods.base import BasePML
from pmlkit.metrics import evaluate, evaluate_cleaning

__all__ = ["N_STAGES", "Demo", "DemoMethod", "Suspect", "least_confident", "run_demo"]

N_STAGES = 5  # the data and four methods


@dataclass(frozen=True)
class Suspect:
    """A candidate that is probably false.

    Attributes
    ----------
    row, label : int
        Which cell.
    confidence : float
        Probability that it is true, by the method.
    is_wrong : bool
        Whether it is false, by the truth.
    """

    row: int
    label: int
    confidence: float
    is_wrong: bool


@dataclass(frozen=True)
class DemoMethod:
    """A fitted method and its metrics.

    Attributes
    ----------
    model : estimator
    seconds : float
        Duration of the fit.
    metrics : dict
        Metrics of the held-out rows against the truth, see `pmlkit.metrics.evaluate`.
    cleaning : dict
        Metrics of the training rows, see `pmlkit.metrics.evaluate_cleaning`.
    """

    model: BasePML
    seconds: float
    metrics: dict[str, float]
    cleaning: dict[str, float]


@dataclass(frozen=True)
class Demo:
    """Results of the demo.

    Attributes
    ----------
    data : PMLDataset
        All rows; the first `n_train` are for training.
    n_train : int
    methods : dict of str to DemoMethod
    best_cleaner : str
        Method with the largest cleaning AUC.
    suspects : tuple of Suspect
        Its least confident candidates, the least confident first.
    """

    data: PMLDataset
    n_train: int
    methods: dict[str, DemoMethod]
    best_cleaner: str
    suspects: tuple[Suspect, ...]


def run_demo(
    n_rows: int = 2000,
    *,
    n_suspects: int = 10,
    random_state: RandomState = 0,
    on_stage: Callable[[str], Any] = lambda stage: None,
) -> Demo:
    """Learn the digit strips from confusable candidates with four methods, and evaluate them.

    Parameters
    ----------
    n_rows : int, default=2000
        Number of strips; four fifths are for training, and share no scan with the others.
    n_suspects : int, default=10
        Number of suspicious labels to list.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the data and of the methods.
    on_stage : callable, optional
        Called with the name of each of the `N_STAGES` stages when it starts.

    Returns
    -------
    demo : Demo

    Examples
    --------
    >>> from pmlkit.demo import run_demo
    >>> demo = run_demo(300)
    >>> list(demo.methods), demo.n_train, len(demo.suspects)
    (['ClearPML', 'CandidateLogistic', 'MLkNN', 'PMLLFC'], 240, 10)
    """
    on_stage("pasting digits into strips")
    data = load_digit_strips(n_rows, random_state=random_state)
    n_train = int(0.8 * n_rows)
    train, test = data.subset(slice(n_train)), data.subset(slice(n_train, None))
    methods = {}
    for model in (ClearPML(), CandidateLogistic(), MLkNN(), PMLLFC(random_state=random_state)):
        name = type(model).__name__
        on_stage(f"fitting {name}")
        started = time.perf_counter()
        model.fit(train.X, train.Y)
        seconds = time.perf_counter() - started
        model.label_names_ = np.asarray(data.label_names, dtype=object)
        metrics = evaluate(test.truth, model.decision_function(test.X), model.predict(test.X))
        cleaning = evaluate_cleaning(train.truth, train.Y, model.label_confidence_)
        methods[name] = DemoMethod(model, seconds, metrics, cleaning)
    best = max(methods, key=lambda name: methods[name].cleaning["cleaning_auc"])
    return Demo(data, n_train, methods, best, least_confident(train, methods[best].model, n_suspects))


def least_confident(train: PMLDataset, model: BasePML, n_suspects: int) -> tuple[Suspect, ...]:
    """Return the least confident candidates of a model; ties are ordered by row and label.

    Parameters
    ----------
    train : PMLDataset
        Data that the model was fitted on, with the truth.
    model : estimator
        Fitted.
    n_suspects : int
        Maximum number.

    Examples
    --------
    >>> from pmlkit.data import load_digit_strips
    >>> from pmlkit.demo import least_confident
    >>> from pmlkit.methods import MLkNN
    >>> strips = load_digit_strips(100)
    >>> model = MLkNN().fit(strips.X, strips.Y)
    >>> found = least_confident(strips, model, 3)
    >>> [suspect.confidence for suspect in found] == sorted(model.label_confidence_.data)[:3]
    True
    """
    confidence = model.label_confidence_
    rows = row_of_cells(confidence)
    truth = train.Y if train.truth is None else train.truth
    chosen = np.argsort(confidence.data, kind="stable")[:n_suspects]
    return tuple(
        Suspect(int(row), int(label), float(value), not truth[row, label])
        for row, label, value in zip(rows[chosen], confidence.indices[chosen], confidence.data[chosen], strict=True)
    )
