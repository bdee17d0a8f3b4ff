"""What the stored entries of a review come to: the audit, flags, labels to add, names to merge, the certificate."""

import json
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from pmlkit.cleaning.audit import Audit, Question
from pmlkit.cleaning.audit.answers import find_cells
from pmlkit.cleaning.review.outputs import NO_CANDIDATES, keep_certificate, merges, reviewed_labels
from pmlkit.cleaning.review.store import AnswerStore, StoredEvent
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit._typing import CSR
    from pmlkit.cleaning import CleaningResult

__all__ = ["QUESTIONS", "Replay"]

logger = logging.getLogger(__name__)

QUESTIONS = ("audit", "suspicious", "certificate", "repeat")
"""The kinds of questions that the audit asks; all other answers are volunteered."""


class Replay:
    """The state of a review, which follows from its store alone; not safe to use from several threads at once.

    Parameters
    ----------
    result : CleaningResult
    store : AnswerStore
    **settings
        Of the audit; those that the review was begun with, or it is refused.

    Attributes
    ----------
    audit : Audit
    standing : dict of int to StoredEvent
        Answers that were not taken back, by their number in the store.
    flags : dict of (row, label) to None
        Flagged questions, in the order in which they were flagged.
    seq : int
        The number of the last entry that is known.
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

    def question(self, cell: int, kind: Any) -> Question:
        """Return a question about a candidate."""
        row = int(self.result.rows[cell])
        label = self.result.label_names[int(self.result.Y.indices[cell])]
        return Question(row, label, kind, cell, self.row_name(row))

    def row_name(self, row: int) -> str:
        """Return how a row is called."""
        return f"row {row}" if self.result.row_names is None else str(self.result.row_names[row])

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
        asked = self.question(place, event.kind) if event.kind in QUESTIONS else cell
        self._number[event.seq] = self.audit.answer(asked, str(event.answer), who=event.who, when=event.at)


def _not_there(event: StoredEvent, cell: tuple[int, str]) -> DataError:
    return DataError(f"Answer {event.seq} of the store is about {cell[1]!r} in row {cell[0]}, which is not there.")
