"""The audit: which question to ask next, what becomes of an answer, and what `clean` makes of answers from before."""

import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pmlkit._typing import IntArray, RandomState
from pmlkit._words import counted, did_you_mean
from pmlkit.cleaning.audit import answers as codes
from pmlkit.cleaning.audit.answers import RIGHT, UNKNOWN, WORDS, WRONG, Answers, Settle
from pmlkit.cleaning.audit.record import ASKED, Event, Gain, Kind, Question, load_state, save_state
from pmlkit.cleaning.audit.state import AuditState
from pmlkit.exceptions import DataError, PMLWarning

if TYPE_CHECKING:
    from pmlkit.cleaning.result import CleaningResult

_N_FIRST = 30  # audit questions before anything else
_BLOCK = 20  # answers between two fits
_AUDIT_EVERY = 5
_REPEAT_AFTER = 8  # answers before a question may be repeated
_OFTEN_REPEATED = 100  # questions, after which half as many are repeated
_LEAST_WORTH = 0.2  # wrong labels found or certified per answer, below which it does not pay

_N_LISTED = 3


class Audit(AuditState):
    """Questions about candidates, and what follows from the answers; made by `CleaningResult.audit`.

    Parameters
    ----------
    result : CleaningResult
    precision : float, default=0.9
        The certificate's promise: at least this share of what may be removed is wrong.
    confidence : float, default=0.95
        The probability that no false certificate is ever given.
    random_state : int, default=0
        Decides on all draws.
    answer_error : float, default=0.0
        The assumed share of mistaken answers, in both directions alike. With 0 the promise holds "if the answers were
        right".
    repeats : float, default=0.1
        The share of questions that are asked again, to measure how often answers differ; half of it from the 101st on.
    settle : {"latest", "majority"}, default="latest"
        Which of several answers about one candidate counts. A tie of the majority counts as unsure.
    answers : Answers, DataFrame or path of a CSV file, optional
        Answers from before; known, but not random draws.
    events : iterable of Event or dict, optional
        The events of an audit of the same data and settings, to be replayed.

    Attributes
    ----------
    events : list of Event
        All answers and withdrawals.
    verdict : array aligned with ``result.Y.data``
        What is known of each candidate: 0 nothing, 1 wrong, 2 right, 3 unsure.

    Notes
    -----
    All state follows from the events, so an audit that is replayed is the same audit. It must not be used from several
    threads at once.

    Examples
    --------
    >>> from pmlkit.cleaning import clean
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(300)
    >>> audit = clean(strips.X, strips.Y).audit()
    >>> truth = strips.truth.toarray()
    >>> for _ in range(60):
    ...     question = audit.next()
    ...     is_right = truth[question.row, audit.result.label_names.index(question.label)]
    ...     _ = audit.answer(question, "right" if is_right else "wrong")
    >>> audit.n_answers
    60
    >>> bool(audit.noise_rate_.low < audit.noise_rate_ < audit.noise_rate_.high)
    True
    """

    def __init__(
        self,
        result: "CleaningResult",
        *,
        precision: float = 0.9,
        confidence: float = 0.95,
        random_state: RandomState = 0,
        answer_error: float = 0.0,
        repeats: float = 0.1,
        settle: Settle = "latest",
        answers: Any = None,
        events: Iterable[Event | dict[str, Any]] = (),
    ) -> None:
        super().__init__(result, precision, confidence, random_state, answer_error, repeats, settle)
        if answers is not None:
            self._take_given(codes.as_answers(answers))
        for event in events:
            self._replay(event if isinstance(event, Event) else Event(**event))

    def next(self) -> Question | None:
        """Return the next question, the same until an answer comes in; None when nothing is left to ask."""
        return next(iter(self.upcoming(1)), None)

    def upcoming(self, k: int, *, skip: Iterable[int] = ()) -> list[Question]:
        """Return the next `k` questions, as far as they can be told before the answers.

        Parameters
        ----------
        k : int
        skip : iterable of int
            Candidates, as ``Question.cell``, that are being shown to other people.
        """
        taken = set(skip)
        found = [question for question in self._withdrawn() if question.cell not in taken][:k]
        taken.update(question.cell for question in found)
        n_audit = self._record.n_of("audit")
        first = self._record.n_asked + len(found)
        for slot in range(first, first + k - len(found)):
            kind = self._kind_of_slot(slot, n_audit)
            cell = self._to_repeat(slot, taken) if kind == "repeat" else -1
            if kind == "repeat" and cell < 0:
                kind = self._kind_of_slot(slot, n_audit, repeat=False)
            if kind == "certificate":
                cell = self._first_open(self._tests.current.draws, taken)
                kind = kind if cell >= 0 else "suspicious"
            if kind == "audit":
                cell = self._first_open(self._sample, taken, ranked=True)
                n_audit += 1
            elif kind == "suspicious":
                cell = self._first_open(self._learner.queue, taken, ranked=True)
            if cell < 0:
                break
            taken.add(cell)
            found.append(self.question(cell, kind))
        return found

    def answer(
        self, question: "Question | tuple[int, str]", answer: str, who: str | None = None, when: str | None = None
    ) -> int:
        """Take an answer in, and return its number.

        Every twenty answers, and when a test for a certificate ends, the noise model is fitted again.

        Parameters
        ----------
        question : Question or (row, label)
            A pair for what was not asked: known from then on, but never taken for a random draw.
        answer : {"wrong", "right", "unsure"}
        who, when : str, optional
            Kept with the answer.
        """
        word = WORDS[codes.code(answer)]
        if isinstance(question, Question):
            cell, kind = question.cell, question.kind
            if not (0 <= cell < self.result.Y.nnz and self.question(cell, kind) == question):
                raise ValueError(f"The question about {question.label!r} in row {question.row} is of another audit.")
        else:
            cell, kind = self.cell(*question), "volunteered"
        return self._take(Event(len(self.events), cell, word, kind, who, when))

    def undo(self, number: int | None = None) -> Question:
        """Withdraw an answer, by default the latest that stands, and return its question.

        Parameters
        ----------
        number : int, optional
            What `answer` returned.
        """
        chosen = [e for e in self._record.answers() if number is None or e.number == number]
        if not chosen:
            which = "is no answer to undo" if number is None else f"is no answer {number} that stands"
            raise ValueError(f"There {which}.")
        event = chosen[-1]
        self._take(Event(len(self.events), event.cell, "undo", event.kind, event.who, undoes=event.number))
        return self.question(event.cell, event.kind)

    def cell(self, row: int, label: str) -> int:
        """Return the position in ``result.Y.data`` of a candidate."""
        Y, names = self.result.Y, self.result.label_names
        if label not in names:
            raise ValueError(f"There is no label {label!r}.{did_you_mean(str(label), names)}")
        if not 0 <= row < Y.shape[0]:
            raise ValueError(f"There is no row {row}: rows are 0 to {Y.shape[0] - 1}.")
        cell = int(codes.find_cells(Y, np.array([row]), np.array([names.index(label)]))[0])
        if cell < 0:
            raise ValueError(f"{label!r} is not a candidate of row {row}.")
        return cell

    def question(self, cell: int, kind: Any) -> Question:
        """Return a question about a candidate, given by its position in ``result.Y.data``."""
        row = int(self.result.rows[cell])
        label = self.result.label_names[int(self.result.Y.indices[cell])]
        return Question(row, label, kind, cell, self.result.row_name(row))

    def expected_gain(self, n: int = 50) -> Gain:
        """Return what the next `n` answers are expected to bring.

        Parameters
        ----------
        n : int, default=50
        """
        useful = n * (1.0 - self.repeats)
        if not self._tests.is_active:
            n_audit = useful / _AUDIT_EVERY
            first = self._first_queued(max(int(useful - n_audit), 1))
            return Gain(float(self._learner.probability[first].sum()) + n_audit * self.noise_rate_, 0.0)
        attempt = self._tests.current
        n_held = len(self._tests.certified(self.verdict)) + int((self.verdict[attempt.known] == WRONG).sum())
        share = min(useful / max(self._tests.draws_to_go, 1.0), 1.0)
        return Gain(useful * attempt.predicted, max(len(attempt.cells) - n_held, 0) * share)

    @property
    def worth_going_on_(self) -> bool:
        """Whether the next fifty answers are expected to find or certify at least ten wrong labels."""
        if self.next() is None:
            return False
        gain = self.expected_gain(50)
        return self._record.n_asked < _N_FIRST or gain.found + gain.certified >= 50 * _LEAST_WORTH

    @property
    def under_test(self) -> dict[str, float] | None:
        """The set that is being tested for a certificate: its size, the draws so far and those still expected."""
        if not self._tests.is_active:
            return None
        progress = self._tests.progress
        return {
            "size": len(self._tests.current.cells),
            "drawn": progress.n_wrong + progress.n_other,
            "more_expected": self._tests.draws_to_go,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the audit as JSON: settings, fingerprint and events; ``result.audit(resume=path)`` goes on with it."""
        save_state(path, fingerprint=self.fingerprint, settings=self.settings, events=self.events)

    @classmethod
    def resume(cls, result: "CleaningResult", path: str | os.PathLike[str], **settings: Any) -> "Audit":
        """Go on with a saved audit.

        Parameters
        ----------
        result : CleaningResult
            Of the same data.
        path : path
            What `save` has written.
        **settings
            Must be those of the saved audit where they are given.
        """
        state = load_state(path, settings)
        audit = cls(result, **state["settings"])
        if audit.fingerprint != state["fingerprint"]:
            raise DataError(
                f"{os.path.basename(path)} is an audit of other data (fingerprint {state['fingerprint']}, these have "
                f"{audit.fingerprint}): resume it with the table that it was started with."
            )
        for event in state["events"]:
            audit._replay(event)
        return audit

    def _kind_of_slot(self, slot: int, n_audit: int, *, repeat: bool = True) -> Kind:
        every = round(1.0 / self.repeats) if self.repeats else 0
        every *= 1 if slot < _OFTEN_REPEATED else 2
        if repeat and every and (slot + 1) % every == 0:
            return "repeat"
        # The first certificate comes as soon as it can; what is wrong in all can wait for it.
        is_first_test = self._tests.is_active and self._tests.ledger.certified is None
        if n_audit < _N_FIRST or (slot % _AUDIT_EVERY == 0 and not is_first_test):
            return "audit"
        return "certificate" if self._tests.is_active else "suspicious"

    def _withdrawn(self) -> Iterator[Question]:
        """Yield the questions whose answers have just been withdrawn, the last one first."""
        for event in reversed(self.events):
            if event.undoes is None:
                return
            if event.kind in (*ASKED, "repeat"):
                yield self.question(event.cell, event.kind)

    def _first_open(self, order: IntArray, taken: set[int], *, ranked: bool = False) -> int:
        """Return the first unanswered candidate of an order that is not being shown; -1 if there is none."""
        for start in range(0, len(order), 4096):
            part = order[start : start + 4096]
            cells = self._cells[part] if ranked else part
            for cell in cells[self.verdict[cells] == UNKNOWN].tolist():
                if cell not in taken:
                    return int(cell)
        return -1

    def _first_queued(self, n: int) -> IntArray:
        """Return the ranks of the first `n` unanswered candidates of the learned order."""
        part = self._learner.queue[: n + self.n_answers]
        return np.asarray(part[self.verdict[self._cells[part]] == UNKNOWN][:n])

    def _to_repeat(self, slot: int, taken: set[int]) -> int:
        cells = [cell for cell in self._record.open_to_repeat(_REPEAT_AFTER) if cell not in taken]
        return cells[int(self._rng(1, slot).integers(len(cells)))] if cells else -1

    def _take_given(self, given: Answers) -> None:
        result = self.result
        cells, said = given.cells(result.Y, result.label_names, result.row_names, table=self.fingerprint)
        who = given.column("who")
        when = given.column("when")
        for cell, answer, by, at in zip(cells.tolist(), said.tolist(), who, when, strict=True):
            self._record.add(Event(len(self.events), cell, WORDS[answer], "given", by, at))
        self._estimates = None

    def _replay(self, event: Event) -> None:
        if event.kind == "given" and event.undoes is None:
            self._record.add(event)
            self._estimates = None
        else:
            self._take(event)

    def _take(self, event: Event) -> int:
        self._record.add(event)
        self._estimates = None
        ended = self._tests.settle(self.verdict)
        if event.undoes is not None:
            return event.number
        if self._tests.is_active:
            if ended:
                self._tests.is_active = False
                self._learn()
        elif self._record.n_of("audit") >= _N_FIRST and self._record.n_asked >= self._fitted_at + _BLOCK:
            self._learn()
        return event.number

    def learn(self) -> None:
        """Fit the noise model to all answers now, without beginning a test; `answer` does it every twenty answers."""
        self._learner.fit(self.verdict[self._cells], self._rng(2, len(self.events)), self.answer_error)

    def _learn(self) -> None:
        """Fit the noise model to all answers, and put a set to the test if it is worth it."""
        self._fitted_at = self._record.n_asked
        self.learn()
        ranked = self._cells[self._learner.queue]
        probability = np.zeros(len(self.verdict))
        probability[self._cells] = self._learner.probability
        while not self._tests.is_active:
            rng = self._rng(3, len(self._tests.begun), len(self.events))
            if not self._tests.begin(ranked, probability, self.verdict, rng):
                break


def with_answers(result: "CleaningResult", verified: Any, settle: Settle = "latest") -> "CleaningResult":
    """Return a result whose doubts are learned from answers.

    `result`: made without answers. `verified`, `settle`: see `pmlkit.clean`.

    Examples
    --------
    >>> import pandas as pd
    >>> from pmlkit.cleaning import clean
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(300)
    >>> first = clean(strips.X, strips.Y).top_suspects(1)
    >>> result = clean(strips.X, strips.Y, verified=first[["row", "label"]].assign(answer="wrong"))
    >>> int(result.removable().sum())
    1
    """
    audit = Audit(result, answers=verified, settle=settle)
    if not audit.n_answers:
        warnings.warn(PMLWarning("The answers are empty: nothing is learned from them."), stacklevel=3)
        return result
    if len(audit.contradictions):
        warnings.warn(_contradictions(audit), stacklevel=3)
    if not np.isin(audit.verdict, [WRONG, RIGHT]).any():
        warnings.warn(PMLWarning("All answers are 'unsure': nothing is learned from them."), stacklevel=3)
        return replace(result, known=audit.verdict, before_answers=audit.result)
    audit.learn()
    return replace(
        result,
        doubt=audit.probability,
        overall_rate=audit.noise_rate_,
        known=audit.verdict,
        before_answers=audit.result,
    )


def _contradictions(audit: Audit) -> PMLWarning:
    """Say which labels were answered in different ways, and what counts."""
    found = audit.contradictions
    rows = found["id"] if "id" in found else [f"row {row}" for row in found["row"]]
    listed = [
        f"{label!r} of {row} ({answers})"
        for row, label, answers in zip(rows[:_N_LISTED], found["label"], found["answers"], strict=False)
    ]
    more = [f"and {len(found) - _N_LISTED} more"] if len(found) > _N_LISTED else []
    counts = "the latest answer counts" if audit.settle == "latest" else "the majority counts"
    many = counted(len(found), "label was", "labels were")
    message = f"{many} answered in different ways, and {counts}: {'; '.join([*listed, *more])}."
    if audit.settle != "latest":
        return PMLWarning(message)
    return PMLWarning(message, option="settle", value="'majority'", remedy=" to let the majority decide")
