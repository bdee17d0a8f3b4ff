"""Demo on embedded data: learn from candidate labels, find the false ones, ask a person, and evaluate all of it."""

import base64
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmlkit._typing import RandomState
from pmlkit.bench.reporting import render
from pmlkit.cleaning import CleaningResult, clean
from pmlkit.cleaning.report import png
from pmlkit.data import PMLDataset, load_digit_strips
from pmlkit.methods import PMLLFC, CandidateLogistic, ClearPML, MLkNN
from pmlkit.methods.base import BasePML
from pmlkit.metrics import evaluate, evaluate_cleaning

N_STAGES = 7  # the data, four methods, cleaning and the audit
N_ANSWERS = 200


@dataclass(frozen=True)
class Suspect:
    """A candidate that is probably false.

    `row`, `label`: which cell. `confidence`: estimated probability that it is true. `is_wrong`: whether it is false, by
    the truth.
    """

    row: int
    label: int
    confidence: float
    is_wrong: bool


@dataclass(frozen=True)
class DemoMethod:
    """A fitted method and its metrics.

    `seconds`: duration of the fit. `metrics`: metrics of the held-out rows against the truth, see
    `pmlkit.metrics.evaluate`. `cleaning`: metrics of the training rows, see `pmlkit.metrics.evaluate_cleaning`.
    """

    model: BasePML
    seconds: float
    metrics: dict[str, float]
    cleaning: dict[str, float]


@dataclass(frozen=True)
class DemoAudit:
    """The answers of a simulated reviewer, who knows the truth, and what they allow.

    - `noise_rate_before`, `noise_rate_after`: the share of false labels, estimated without and with answers: estimate,
      lower and upper bound.
    - `advice`: what cleaning recommends without answers.
    - `n_answers`, `n_found`: answers, and labels that these called wrong.
    - `promise`: the certificate in words; empty if there is none.
    - `n_removed`, `n_removed_wrong`: labels that may be removed by the certificate, and how many of these are really
      false.
    - `n_false`: false labels in all.
    """

    noise_rate_before: tuple[float, float, float]
    noise_rate_after: tuple[float, float, float]
    advice: str
    n_answers: int
    n_found: int
    promise: str
    n_removed: int
    n_removed_wrong: int
    n_false: int


@dataclass(frozen=True)
class Demo:
    """Results of the demo.

    - `data`: all rows; the first `n_train` are for training.
    - `suspects`: the most suspicious labels of the training rows by `pmlkit.clean`, which never sees the truth.
    - `audit`: what a simulated reviewer's answers about the training rows bring.
    """

    data: PMLDataset
    n_train: int
    methods: dict[str, DemoMethod]
    suspects: tuple[Suspect, ...]
    audit: DemoAudit


def run_demo(
    n_rows: int = 2000,
    *,
    n_suspects: int = 10,
    random_state: RandomState = 0,
    on_stage: Callable[[str], Any] = lambda stage: None,
) -> Demo:
    """Learn the digit strips from confusable candidates with four methods, evaluate them, and audit the labels.

    Four fifths of the rows are for training, and share no scan with the others. `on_stage` is called with the name of
    each of the `N_STAGES` stages when it starts.
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
    on_stage("looking for false labels")
    result = clean(train.X, train.Y, label_names=data.label_names)
    on_stage("asking a simulated reviewer")
    audit = ask_the_truth(result, train)
    return Demo(data, n_train, methods, _most_suspicious(result, train, n_suspects), audit)


def ask_the_truth(result: CleaningResult, train: PMLDataset, n_answers: int = N_ANSWERS) -> DemoAudit:
    """Answer the questions of an audit from the truth, and compare its promise with it.

    `result`: of the training rows; it never sees the truth. `train`: the rows, with their truth.
    """
    truth = (train.Y if train.truth is None else train.truth).toarray().astype(bool)
    is_false = ~truth[result.rows, result.Y.indices]
    audit = result.audit()
    while audit.n_answers < n_answers and (question := audit.next()) is not None:
        audit.answer(question, "wrong" if is_false[question.cell] else "right")
    certificate = audit.certificate
    removed = np.zeros(0, dtype=int) if certificate is None else certificate.cells
    before, after = result.noise_rate_.overall, audit.noise_rate_
    return DemoAudit(
        noise_rate_before=(float(before), float(before.low), float(before.high)),
        noise_rate_after=(float(after), float(after.low), float(after.high)),
        advice=result.advice(),
        n_answers=audit.n_answers,
        n_found=int((audit.verdict == 1).sum()),
        promise="" if certificate is None else str(certificate),
        n_removed=len(removed),
        n_removed_wrong=int(is_false[removed].sum()),
        n_false=int(is_false.sum()),
    )


def _most_suspicious(result: CleaningResult, train: PMLDataset, n_suspects: int) -> tuple[Suspect, ...]:
    truth = train.Y if train.truth is None else train.truth
    cells = result.order[:n_suspects]
    return tuple(
        Suspect(int(row), int(label), float(1.0 - doubt), not truth[row, label])
        for row, label, doubt in zip(result.rows[cells], result.Y.indices[cells], result.doubt[cells], strict=True)
    )


_MARGIN = 1  # blank pixels around an image


def contact_sheet(data: PMLDataset, suspects: Sequence[Suspect], *, title: str) -> str:
    """Return a self-contained HTML page with the image of every suspect.

    `data`: with images as media, and the truth. `suspects`: labels to show, in this order.
    """
    margins = ((0, 0), (_MARGIN, _MARGIN), (_MARGIN, _MARGIN))
    images = np.pad(np.asarray(data.media), margins, constant_values=255)
    cards = [
        {
            "row": suspect.row,
            "label": data.label_names[suspect.label],
            "labels": [data.label_names[k] for k in data.Y[[suspect.row]].indices],
            "confidence": suspect.confidence,
            "is_wrong": suspect.is_wrong,
            "image": "data:image/png;base64," + base64.b64encode(png(images[suspect.row])).decode("ascii"),
        }
        for suspect in suspects
    ]
    return render("contact_sheet.html", title=title, cards=cards)
