"""The state of a review, computed from the stored entries, and the choice of the next question."""

import json
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from pmlkit._typing import BoolArray, IntArray
from pmlkit.cleaning.audit import Audit, Question
from pmlkit.cleaning.audit.answers import WORDS, find_cells
from pmlkit.cleaning.review.cards import Cards
from pmlkit.cleaning.review.outputs import NO_CANDIDATES, keep_certificate, merges, reviewed_labels
from pmlkit.cleaning.review.store import AnswerStore, StoredEvent
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit._typing import CSR
    from pmlkit.cleaning import CleaningResult


logger = logging.getLogger(__name__)

QUESTIONS = ("audit", "suspicious", "certificate", "repeat")
"""The kinds of questions that the audit asks; all other answers are volunteered."""

_FILTERS = ("label", "confidence", "text")
_N_AHEAD = 3
_MAX_WORDS = 20
_N_SEARCHES = 8  # whose rows are remembered


class Replay:
    """The state of a review, which follows from its store alone; not safe to use from several threads at once.

    `**settings`: of the audit; those that the review was begun with, or it is refused. `standing`: answers that were
    not taken back, by their number in the store. `flags`: flagged questions, in the order in which they were flagged.
    `seq`: the number of the last entry that is known.
    """

    def __init__(self, result: "CleaningResult", store: AnswerStore, **settings: Any) -> None:
        self.result, self.store = result, store
        self.audit = Audit(result, **settings)
        self.standing: dict[int, StoredEvent] = {}
        self.flags: dict[tuple[int, str], None] = {}
        self.seq = 0
        self._kept = -1  # the last entry that the stored certificate takes into account
        self._number: dict[int, int] = {}  # the audit's number of each stored answer that is about a candidate
        self._label_number = {name: k for k, name in enumerate(result.label_names)}
        self._check_settings()
        self.sync()
        self.keep_certificate()

    def sync(self) -> None:
        """Take in what is new in the store, by this process or another."""
        for event in self.store.events(self.seq):
            self.seq = event.seq
            self._take(event)

    def keep_certificate(self) -> None:
        """Store what is certified now, for `apply_review`; an answer that is stored counts even if this fails."""
        if self._kept == self.seq:  # another person's answer, stored together with this one, has done it
            return
        certificate = self.audit.certificate
        cells = () if certificate is None else certificate.cells.tolist()
        try:
            keep_certificate(self.store, cells, "" if certificate is None else str(certificate), self.seq)
            self._kept = self.seq
        except DataError as error:
            logger.warning("The certificate is not stored: %s", error)

    @property
    def added(self) -> dict[tuple[int, str], StoredEvent]:
        """The latest answer about each label that a row lacks."""
        return {(e.row or 0, str(e.label)): e for e in self.standing.values() if e.kind == "missing"}

    @property
    def to_add(self) -> list[tuple[int, str]]:
        """The labels that shall be added, as rows and names."""
        return sorted(cell for cell, event in self.added.items() if event.answer == "right")

    @property
    def merged(self) -> dict[str, str]:
        """Label names that shall be replaced by others."""
        return merges(self.standing.values())

    @property
    def cleaned(self) -> "CSR":
        """The labels as they are handed out."""
        return reviewed_labels(self.result.Y, self.result.label_names, self.audit.removed, self.to_add, self.merged)

    def position(self, row: int | None, label: str | None) -> int | None:
        """Return the position in ``Y.data`` of a label of a row, or None if the row does not have it."""
        Y, number = self.result.Y, self._label_number.get(label or "")
        if row is None or number is None or not 0 <= row < Y.shape[0]:
            return None
        cell = int(find_cells(Y, np.array([row]), np.array([number]))[0])
        return cell if cell >= 0 else None

    def latest(self, who: str, *, kinds: Iterable[str] | None = None) -> list[StoredEvent]:
        """Return a person's last answer about candidates, or all of their last decision about many rows."""
        wanted = None if kinds is None else set(kinds)
        mine = [
            event for event in self.standing.values()
            if event.who == who and event.kind not in NO_CANDIDATES and (wanted is None or event.kind in wanted)
        ]  # fmt: skip
        if not mine or mine[-1].kind != "bulk":
            return mine[-1:]
        return [event for event in mine if event.kind == "bulk" and event.at == mine[-1].at]

    def _check_settings(self) -> None:
        audit = self.audit
        now = {"precision": audit.precision, "confidence": audit.confidence, "seed": audit.random_state}
        stored = self.store.get("settings")
        if stored is None:
            self.store.set(settings=json.dumps(now))
            return
        try:
            before = dict(json.loads(stored))
        except (TypeError, ValueError, RecursionError) as error:
            raise DataError(f"The settings in {str(self.store.path)!r} are damaged: {error}.") from error
        for name, value in now.items():
            if before.get(name) != value:
                raise DataError(
                    f"The review in {str(self.store.path)!r} was begun with {name} {before.get(name)}, now it is "
                    f"{value}: the promise would not hold. Go on with the old value, or begin a new store."
                )

    def _take(self, event: StoredEvent) -> None:
        if event.action == "undo":
            self.standing.pop(event.undoes or 0, None)
            number = self._number.pop(event.undoes or 0, None)
            if number is not None:
                self.audit.undo(number)
            return
        cell = (int(event.row or 0), str(event.label))
        if event.kind != "merge" and not (0 <= cell[0] < self.result.Y.shape[0] and cell[1] in self._label_number):
            raise _not_there(event, cell)
        if event.action == "flag":
            self.flags[cell] = None
        elif event.action == "unflag":
            self.flags.pop(cell, None)
        else:
            self.standing[event.seq] = event
            if event.kind not in NO_CANDIDATES:
                self._answer(event, cell)

    def _answer(self, event: StoredEvent, cell: tuple[int, str]) -> None:
        place = self.position(*cell)
        if place is None:
            raise _not_there(event, cell)
        asked = self.audit.question(place, event.kind) if event.kind in QUESTIONS else cell
        self._number[event.seq] = self.audit.answer(asked, str(event.answer), who=event.who, when=event.at)


def _not_there(event: StoredEvent, cell: tuple[int, str]) -> DataError:
    return DataError(
        f"Answer {event.seq} of the store is about {cell[1]!r} in row {cell[0]}, which is not there.", row=cell[0]
    )


class Questions:
    """Choose and show questions.

    `judged`: whose confidences are shown: at first those of the result, later those that learned from the answers.
    """

    def __init__(self, replay: Replay, cards: Cards) -> None:
        self._replay, self._cards = replay, cards
        self._audit, self._result = replay.audit, replay.result
        self.judged: CleaningResult = replay.result
        self._shown: dict[str, tuple[int, dict[str, Any]]] = {}  # which candidate each person has before them
        self._rows_with = lru_cache(maxsize=_N_SEARCHES)(self._find_rows)
        self._ahead = ThreadPoolExecutor(1, thread_name_prefix="pmlkit review cards")

    def close(self) -> None:
        """End making cards ahead."""
        self._ahead.shutdown(wait=False, cancel_futures=True)

    def next(self, who: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return the audit's next question for a person, or the most suspicious one that passes their filter."""
        wanted = {name: str(given.get(name) or "") for name in _FILTERS}
        if any(wanted.values()):
            return self._next_filtered(who, wanted)
        others = {cell for person, (cell, _) in self._shown.items() if person != who}
        ahead = self._audit.upcoming(1 + _N_AHEAD, skip=others)
        if not ahead:
            self._shown.pop(who, None)
            return {"card": None, "done": "Every candidate that can be judged has been answered."}
        for question in ahead[1:]:
            self._ahead.submit(self._cards.card, question.cell)
        return self.show(who, ahead[0])

    def show(self, who: str, question: Question) -> dict[str, Any]:
        """Return the card of a question and remember that the person has it."""
        row, Y = question.row, self._result.Y
        cells = np.arange(int(Y.indptr[row]), int(Y.indptr[row + 1]))
        labels: list[dict[str, Any]] = [
            {
                "label": self._result.label_names[int(Y.indices[cell])],
                "confidence": sure,
                "suspect": cell == question.cell,
                "answer": None if cell == question.cell else (WORDS[self._audit.verdict[cell]] or None),
            }
            for cell, sure in zip(cells.tolist(), self._confidence(cells), strict=True)
        ]
        for entry in labels:
            if entry["suspect"] and self._audit.verdict[question.cell]:
                # Asked again: what is known of it by now would give the earlier answer away.
                entry["confidence"] = 1.0 - float(self._result.doubt[question.cell])
        labels.sort(key=lambda entry: (-entry["confidence"], entry["label"]))
        card = self._cards.card(question.cell)
        self._shown[who] = question.cell, {
            "confidence": round(next(entry["confidence"] for entry in labels if entry["suspect"]), 4),
            "similar_with": [row["row"] for row in card["similar_with"]],
            "similar_without": [row["row"] for row in card["similar_without"]],
        }  # fmt: skip
        return {
            "card": {
                **card, "id": f"{question.cell}", "kind": question.kind, "labels": labels,
                "flagged": (row, question.label) in self._replay.flags,
            }
        }  # fmt: skip

    def shown(self, who: str, cell: int | None) -> dict[str, Any]:
        """Return what a person saw of a candidate, and forget it."""
        last, facts = self._shown.pop(who, (None, {}))
        return facts if last == cell else {}

    def label_cells(self, label: int, text: str) -> IntArray:
        """Return the candidates of a label whose rows hold a text: the least likely first, answered ones at the end."""
        cells = np.flatnonzero(self._result.Y.indices == label)
        cells = cells[np.lexsort((-self._audit.probability[cells], self._audit.verdict[cells] > 0))]
        return self._with_text(cells, text)

    def label_rows(self, cells: IntArray) -> list[dict[str, Any]]:
        """Return rows of one label in a few lines each."""
        return [
            {
                **self._cards.brief(int(self._result.rows[cell]), int(self._result.Y.indices[cell])),
                "confidence": sure,
                "answer": WORDS[self._audit.verdict[cell]] or None,
            }
            for cell, sure in zip(cells.tolist(), self._confidence(cells), strict=True)
        ]

    def _next_filtered(self, who: str, wanted: dict[str, str]) -> dict[str, Any]:
        cells = self._audit.order
        if wanted["label"]:
            names = list(self._result.label_names)
            number = names.index(wanted["label"]) if wanted["label"] in names else -1
            cells = cells[self._result.Y.indices[cells] == number]
        if wanted["confidence"]:
            try:
                limit = float(wanted["confidence"])
            except ValueError:
                raise DataError("The confidence of a filter must be a number.") from None
            cells = cells[np.asarray(self._confidence(cells)) <= limit]
        cells = self._with_text(cells, wanted["text"])
        many = f"{len(cells):,} unanswered labels pass the filter, the most suspicious first."
        note = f"{many} Your own choice is no random sample: the promise comes from questions without a filter."
        if not len(cells):
            return {"card": None, "done": "No unanswered label passes the filter.", "note": ""}
        return {**self.show(who, self._audit.question(int(cells[0]), "selection")), "note": note}

    def _with_text(self, cells: IntArray, text: str) -> IntArray:
        """Return the candidates whose rows hold all words of a text, in their text or name, whatever the case."""
        words = text.casefold().split()[:_MAX_WORDS]
        if not words:
            return cells
        return np.asarray(cells[self._rows_with(tuple(words))[self._result.rows[cells]]])

    def _find_rows(self, words: tuple[str, ...]) -> BoolArray:
        """Return which rows hold all words."""
        shown = map(self._cards.searched, range(self._result.Y.shape[0]))
        return np.fromiter((all(word in text for word in words) for text in shown), bool)

    def _confidence(self, cells: IntArray) -> list[float]:
        if self.judged is self._result:
            found = 1.0 - self._audit.probability[cells]
        else:
            found = self.judged.confidence[self._result.rows[cells], self._result.Y.indices[cells]]
        return [float(value) for value in np.asarray(found).ravel()]
