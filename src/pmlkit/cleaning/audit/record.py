"""Questions of an audit, and the record of all answers and withdrawals in the order in which they came."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pmlkit._files import replacing
from pmlkit.cleaning.audit.answers import WORDS, Settle, settled
from pmlkit.exceptions import DataError

Kind = Literal["audit", "suspicious", "certificate", "repeat", "volunteered", "given"]
ASKED: tuple[Kind, ...] = ("audit", "suspicious", "certificate")
"""Kinds of questions about candidates that had not been answered."""

_FORMAT, _VERSION = "pmlkit audit", 2


@dataclass(frozen=True)
class Event:
    """One answer, or the withdrawal of one.

    Attributes
    ----------
    number : int
        From 0, in the order in which they came.
    cell : int
        Position in ``result.Y.data``.
    answer : {"wrong", "right", "unsure", "undo"}
    kind : {"audit", "suspicious", "certificate", "repeat", "volunteered", "given"}
        Why it was asked; "volunteered" where it was not asked, "given" for answers from before the audit.
    who, when : str or None
    undoes : int or None
        The number of the answer that is withdrawn.

    Examples
    --------
    >>> from pmlkit.cleaning.audit import Event
    >>> Event(number=0, cell=17, answer="wrong", kind="audit", who="ann").answer
    'wrong'
    """

    number: int
    cell: int
    answer: str
    kind: Kind
    who: str | None = None
    when: str | None = None
    undoes: int | None = None


class Record:
    """Events, and the resulting answer for each candidate.

    `n_cells`: number of candidates. `how` ("latest", "majority"): how several answers about one candidate are settled.
    `standing`: per candidate, the answers that were not withdrawn. `verdict`: the settled answer of each candidate.
    `n_asked`: standing answers to questions of the audit, repeated ones included.

    Examples
    --------
    >>> from pmlkit.cleaning.audit.record import Event, Record
    >>> record = Record(3, "latest")
    >>> record.add(Event(0, 2, "wrong", "audit"))
    >>> record.verdict.tolist()
    [0, 0, 1]
    """

    def __init__(self, n_cells: int, how: Settle) -> None:
        self.how = how
        self.events: list[Event] = []
        self.standing: dict[int, list[Event]] = {}
        self.verdict = np.zeros(n_cells, dtype=np.int8)
        self.n_asked = 0
        self._n_of: dict[str, int] = {}

    def add(self, event: Event) -> None:
        """Add an event; an undo must name an answer that stands."""
        if event.number != len(self.events) or not 0 <= event.cell < len(self.verdict):
            raise DataError(f"Event {event.number} does not belong here: the events of an audit must be complete.")
        answers = self.standing.get(event.cell, [])
        if event.undoes is None:
            answers = [*answers, event]
        else:
            if all(e.number != event.undoes for e in answers):
                raise DataError(f"Event {event.number} withdraws answer {event.undoes}, which does not stand.")
            answers = [e for e in answers if e.number != event.undoes]
        step = 1 if event.undoes is None else -1
        self._n_of[event.kind] = self.n_of(event.kind) + step
        if event.kind in (*ASKED, "repeat"):
            self.n_asked += step
        self.standing[event.cell] = answers
        if not answers:
            del self.standing[event.cell]
        self.verdict[event.cell] = settled([WORDS.index(e.answer) for e in answers], self.how)
        self.events.append(event)

    @property
    def n_answers(self) -> int:
        """How many answers stand."""
        return sum(self._n_of.values())

    def n_of(self, kind: str) -> int:
        """Return how many standing answers are of one kind."""
        return self._n_of.get(kind, 0)

    def answers(self) -> list[Event]:
        """Return the answers that stand, in the order in which they came."""
        return sorted((e for answers in self.standing.values() for e in answers), key=lambda e: e.number)

    def contradicting(self) -> dict[int, list[Event]]:
        """Return the candidates with different answers."""
        return {cell: given for cell, given in self.standing.items() if len({e.answer for e in given}) > 1}

    def repeats(self) -> list[tuple[str, str]]:
        """Return first and second answers to questions that were asked again, where both were sure."""
        pairs = []
        for given in self.standing.values():
            for place, event in enumerate(given):
                if event.kind == "repeat" and place and "unsure" not in (given[0].answer, event.answer):
                    pairs.append((given[0].answer, event.answer))
        return pairs

    def open_to_repeat(self, n_recent: int) -> list[int]:
        """Return candidates that were asked about once, and not just now, in the order of their answers."""
        once = [
            (given[0].number, cell)
            for cell, given in self.standing.items()
            if len(given) == 1 and given[0].kind in ASKED and given[0].answer != "unsure"
        ]
        return [cell for _, cell in sorted(once)[: max(len(once) - n_recent, 0)]]


def save_state(
    path: str | os.PathLike[str], *, fingerprint: str, settings: dict[str, Any], events: Sequence[Event]
) -> None:
    """Write an audit as JSON, whole or not at all."""
    state = {
        "format": _FORMAT,
        "version": _VERSION,
        "fingerprint": fingerprint,
        "settings": settings,
        "events": [asdict(event) for event in events],
    }
    with replacing(path) as stream:
        stream.write(json.dumps(state, indent=0).encode())


def load_state(path: str | os.PathLike[str], settings: dict[str, Any]) -> dict[str, Any]:
    """Read a saved audit, and refuse it if it was made with other settings or by another version."""
    name = Path(path).name
    try:
        state: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        if state["format"] != _FORMAT:
            raise KeyError("format")
        version, saved = state["version"], state["settings"]
        state["events"] = [Event(**event) for event in state["events"]]
    except FileNotFoundError:
        raise DataError(f"There is no file {str(path)!r}.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{name} is not a saved audit: move it away to begin a new one, which may be given the answers."
        ) from error
    if version != _VERSION:
        raise DataError(
            f"{name} was saved by version {version} of the audit, this is version {_VERSION}: its questions cannot be "
            "replayed. Begin a new audit with its answers: pass them as answers=, or on the command line move this "
            "file away."
        )
    for key, value in settings.items():
        if value != saved[key]:
            called = "the seed" if key == "random_state" else key
            raise DataError(
                f"{name} was started with {called} = {saved[key]!r}, got {value!r}: go on with the former, or "
                "start a new audit."
            )
    return state


@dataclass(frozen=True)
class Question:
    """Is this label of this row wrong?

    Attributes
    ----------
    row : int
    label : str
    kind : {"audit", "suspicious", "certificate", "repeat"}
        Why it is asked: a random sample, the most suspicious, a random draw from the set to be certified, or to see
        whether it is answered alike.
    cell : int
        The candidate's position in ``result.Y.data``.
    name : str
        How the row is called.

    Examples
    --------
    >>> from pmlkit.cleaning.audit import Question
    >>> question = Question(row=3, label="sky", kind="suspicious", cell=7, name="p0003")
    >>> f"Is {question.label!r} right for {question.name}?"
    "Is 'sky' right for p0003?"
    """

    row: int
    label: str
    kind: Kind
    cell: int
    name: str


@dataclass(frozen=True)
class Gain:
    """What some more answers are expected to bring.

    Attributes
    ----------
    found : float
        Wrong labels among those asked.
    certified : float
        Labels that may be removed in addition, unseen.

    Examples
    --------
    >>> from pmlkit.cleaning.audit import Gain
    >>> gain = Gain(found=31.5, certified=120.0)
    >>> f"50 more answers: about {gain.found + gain.certified:.0f} more labels can go"
    '50 more answers: about 152 more labels can go'
    """

    found: float
    certified: float
