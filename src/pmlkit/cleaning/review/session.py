"""A review under way: questions from the audit, answers into the store, and what they buy; no web server in here.

The audit decides what is asked and what may be promised. Every answer is first stored, then told to the audit, so that
an answer that was acknowledged is never lost; when the review is opened again, the audit is replayed from the store.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from pmlkit.cleaning.audit import Audit, Question
from pmlkit.cleaning.audit.answers import WORDS, find_cells
from pmlkit.cleaning.review.applied import keep_certificate
from pmlkit.cleaning.review.cards import Cards
from pmlkit.cleaning.review.outputs import Outputs, similar_names
from pmlkit.cleaning.review.requests import Given, read_answer, read_client, read_seconds, read_whole
from pmlkit.cleaning.review.state import answers_per_minute, estimates, recent_answers
from pmlkit.cleaning.review.store import AnswerStore, Event, StoredEvent
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit.cleaning import CleaningResult
    from pmlkit.cleaning.audit import Answers

__all__ = ["Review"]

_PAGE = 60
_MAX_BULK = 5_000
_N_MISSING = 500
_N_AHEAD = 3
_ESTIMATE_SECONDS = 0.15  # estimates that the page shows are not made more often
_QUESTIONS = ("audit", "suspicious", "certificate", "repeat")


class Review:
    """One review of a cleaning result; safe to use from several threads.

    Parameters
    ----------
    result : CleaningResult
        What is reviewed.
    store : AnswerStore
        Where the answers are, and stay.
    title : str
        The heading of the page.
    precision, confidence : float
        Of the certificate, see `CleaningResult.audit`.
    random_state : int
        Of the audit's draws.
    table : Table, optional
        From `pmlkit.open_table`: lets the cleaned table be downloaded in its own format.
    refit : callable, optional
        Takes `Answers` and returns a new result, for the button "learn".
    pictures : callable, optional
        Returns the bytes and the media type of a row's picture, where these are files.
    feature_names : sequence of str, optional
    """

    def __init__(
        self,
        result: "CleaningResult",
        store: AnswerStore,
        *,
        title: str = "Review",
        precision: float = 0.9,
        confidence: float = 0.95,
        random_state: int = 0,
        table: Any = None,
        refit: Callable[[Any], "CleaningResult"] | None = None,
        pictures: Callable[[int], tuple[bytes, str]] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        self.result, self.store, self.title = result, store, title
        self.cards = Cards(result, pictures=pictures, feature_names=feature_names)
        self.audit = Audit(result, precision=precision, confidence=confidence, random_state=random_state)
        self.outputs = Outputs(self.audit, store, title=title, table=table)
        self._judged: CleaningResult = result  # whose confidences are shown; refitted by `learn`
        self._refit = refit
        self._lock = threading.RLock()
        self._ahead = ThreadPoolExecutor(1, thread_name_prefix="pmlkit review cards")
        self._looking: dict[str, int] = {}  # which candidate each person has before them
        self._number: dict[int, int] = {}  # the audit's number of each stored answer that is about a candidate
        self._seq = 0
        self._flags: set[tuple[int, str]] = set()
        self._added: dict[tuple[int, str], str] = {}
        self._standing: dict[int, StoredEvent] = {}  # answers that were not taken back, by their number in the store
        self._learning: tuple[float, int] | None = None
        self._learned = ""
        self._facts: tuple[int, float, dict[str, Any]] | None = None  # of which answers, from when, estimates
        self._label_number = {name: k for k, name in enumerate(result.label_names)}
        self._check_settings()
        self._sync()
        self._keep_certificate()

    # Requests of the page: each takes who asks and what was sent, and returns plain data.

    def start(self, who: str, given: Given) -> dict[str, Any]:
        """Return what the page needs once."""
        count = np.bincount(self.result.Y.indices, minlength=self.result.Y.shape[1])
        labels = [
            {"label": name, "candidates": int(n)}
            for name, n in zip(self.result.label_names, count.tolist(), strict=True)
            if n
        ]
        return {"labels": labels, **self.state(who, given)}

    def state(self, who: str, given: Given) -> dict[str, Any]:
        """Return what is known and promised so far."""
        with self._lock:
            self._sync()
            return {"state": self._state()}

    def card(self, who: str, given: Given) -> dict[str, Any]:
        """Return the question for a person: the audit's next, or the most suspicious that passes the filter."""
        with self._lock:
            self._sync()
            return self._next(who, given)

    def answer(self, who: str, given: Given) -> dict[str, Any]:
        """Store an answer to a card and return the next one."""
        row, label = self._cell_of(given)
        kind = given.get("kind")
        event = Event(
            who, "answer", kind if kind in _QUESTIONS else "selection", row, label, read_answer(given),
            seconds=read_seconds(given), shown=self._shown(row, label), client=read_client(given),
        )  # fmt: skip
        with self._lock:
            self._append([event])
            self._looking.pop(who, None)
            return {**self._next(who, given.get("filter") or {}), "state": self._state()}

    def undo(self, who: str, given: Given) -> dict[str, Any]:
        """Take the person's last answer back, or their whole last selection; return its card."""
        with self._lock:
            self._sync()
            mine = [event for event in self._standing.values() if event.who == who]
            if given.get("bulk"):
                mine = [event for event in mine if event.kind == "bulk"]
            if not mine:
                raise DataError("There is no answer of yours to take back.")
            last = mine[-1]
            together = [event for event in mine if last.kind == "bulk" and event.at == last.at] or [last]
            client = read_client(given)
            self._append(
                [
                    Event(who, "undo", event.kind, undoes=event.seq, client=None if i else client)
                    for i, event in enumerate(together)
                ]
            )
            state = {"state": self._state(), "n_undone": len(together)}
            cell = self._position(last.row, last.label)
            if given.get("bulk") or cell is None:
                return {**self._next(who, {}), **state}
            self._looking[who] = cell
            return {**self._show(Question(*self._asked(cell, last.kind))), **state}

    def change(self, who: str, given: Given) -> dict[str, Any]:
        """Replace one of the last answers by another."""
        answer = read_answer(given)
        with self._lock:
            self._sync()
            event = self._standing.get(read_whole(given, "seq"))
            if event is None:
                raise DataError("That answer was taken back already.")
            client = read_client(given)
            self._append(
                [
                    Event(who, "undo", event.kind, undoes=event.seq, client=client and f"{client}/undo"),
                    Event(who, "answer", event.kind, event.row, event.label, answer, client=client),
                ]
            )
            return {"state": self._state()}

    def toggle(self, who: str, given: Given) -> dict[str, Any]:
        """Answer about another label of the row on the card; no answer takes the last one back."""
        row, label = self._cell_of(given)
        with self._lock:
            self._sync()
            before = [e for e in self._standing.values() if (e.row, e.label, e.kind) == (row, label, "toggle")]
            client = read_client(given)
            events = [Event(who, "undo", "toggle", undoes=e.seq, client=client and f"{client}/{e.seq}") for e in before]
            if given.get("answer") is not None:
                events.append(Event(who, "answer", "toggle", row, label, read_answer(given), client=client))
            self._append(events)
            return {"state": self._state()}

    def flag(self, who: str, given: Given) -> dict[str, Any]:
        """Flag a question for later, or remove its flag."""
        row, label = self._cell_of(given)
        with self._lock:
            self._sync()
            flagged = (row, label) not in self._flags
            self._append([Event(who, "flag" if flagged else "unflag", "flag", row, label, client=read_client(given))])
            return {"flagged": flagged, "state": self._state()}

    def label_rows(self, who: str, given: Given) -> dict[str, Any]:
        """Return rows of one label, the least likely first."""
        label = str(given.get("label", ""))
        if label not in self._label_number:
            raise DataError(f"There is no label {label!r}.")
        offset = read_whole(given, "offset", 0)
        with self._lock:
            self._sync()
            cells = np.flatnonzero(self.result.Y.indices == self._label_number[label])
            verdict = self.audit.verdict
            cells = cells[np.lexsort((-self.audit.probability[cells], verdict[cells] > 0))]
            cells = cells[self._with_text(cells, str(given.get("text", "")))]
            shown = cells[offset : offset + _PAGE].tolist()
            confidence = self._confidence(shown)
            rows = [
                {
                    **self.cards.brief(int(self.result.rows[cell])),
                    "confidence": sure,
                    "answer": WORDS[verdict[cell]] or None,
                }
                for cell, sure in zip(shown, confidence, strict=True)
            ]
            n_answered = int((verdict[cells] > 0).sum())
        note = f"{len(cells):,} rows with {label!r}, least likely first; {n_answered:,} answered, at the end."
        return {"rows": rows, "total": len(cells), "note": note}

    def bulk(self, who: str, given: Given) -> dict[str, Any]:
        """Store one answer for many rows of a label."""
        rows, label, answer = given.get("rows"), str(given.get("label", "")), read_answer(given)
        if not isinstance(rows, list) or not 0 < len(rows) <= _MAX_BULK:
            raise DataError(f"Select between 1 and {_MAX_BULK:,} rows.")
        client = read_client(given)
        events = []
        for i, row in enumerate(rows):
            place, name = self._cell_of({"row": row, "label": label})
            events.append(Event(who, "answer", "bulk", place, name, answer, client=client and f"{client}/{i}"))
        with self._lock:
            self._append(events)
            return {"state": self._state()}

    def missing_rows(self, who: str, given: Given) -> dict[str, Any]:
        """Return suggestions of labels to add, the most likely first."""
        offset = read_whole(given, "offset", 0)
        with self._lock:
            self._sync()
            found, labels = self._judged.missing_cells(_N_MISSING)
            rows = []
            for row, k in zip(*(part[offset : offset + _PAGE].tolist() for part in (found, labels)), strict=True):
                label = self.result.label_names[k]
                rows.append(
                    {
                        **self.cards.brief(row),
                        "label": label,
                        "confidence": float(self._judged.scores[row, k]),
                        "answer": self._added.get((row, label)),
                    }
                )
            return {"rows": rows, "total": len(found)}

    def answer_missing(self, who: str, given: Given) -> dict[str, Any]:
        """Store whether a suggested label belongs to a row."""
        row, label = read_whole(given, "row"), str(given.get("label", ""))
        if label not in self._label_number or not 0 <= row < self.result.Y.shape[0]:
            raise DataError(f"There is no row {row} or no label {label!r}.")
        if self._position(row, label) is not None:
            raise DataError(f"Row {row} has the label {label!r} already.")
        with self._lock:
            self._append([Event(who, "answer", "missing", row, label, read_answer(given), client=read_client(given))])
            return {"state": self._state()}

    def settle(self, who: str, given: Given) -> dict[str, Any]:
        """Settle a disagreement by one more answer, the latest."""
        row, label = self._cell_of(given)
        with self._lock:
            self._append([Event(who, "answer", "settled", row, label, read_answer(given), client=read_client(given))])
            return {"state": self._state()}

    def results(self, who: str, given: Given) -> dict[str, Any]:
        """Return what can be taken along, and what a person should look at."""
        with self._lock:
            self._sync()
            settled = {(e.row, e.label) for e in self._standing.values() if e.kind == "settled"}
            open_ones = [
                {"row": int(line.row), "label": line.label, "name": self.cards.name(int(line.row)),
                 "answers": str(line.answers).split(", ")}
                for line in self.audit.contradictions.itertuples()
                if (int(line.row), line.label) not in settled
            ]  # fmt: skip
        rare = [self.result.label_names[k] for k in self.result.rare_labels.tolist()]
        shown = ", ".join(rare[:40]) + (" …" if len(rare) > 40 else "")
        return {
            "who": who,
            "downloads": self.outputs.offered(),
            "disagreements": open_ones[:200],
            "similar_names": similar_names(self.result)[:50],
            "rare": f"{len(rare):,}: {shown}" if rare else "None.",
        }

    def learn(self, who: str, given: Given) -> dict[str, Any]:
        """Refit the model with all answers in the background; the page stays usable."""
        if self._refit is None:
            raise DataError("These suspects were loaded from a file: there is nothing to refit.")
        with self._lock:
            self._sync()
            if self._learning is None:
                if not self.audit.n_answers:
                    raise DataError("There is no answer to learn from yet.")
                self._learning = time.monotonic(), self.audit.n_answers
                threading.Thread(target=self._learn, args=(self.audit.answers,), daemon=True).start()
            return {"state": self._state()}

    def picture(self, row: Any) -> tuple[bytes, str]:
        """Return a row's picture."""
        number = read_whole({"row": row}, "row")
        if not 0 <= number < self.result.Y.shape[0]:
            raise DataError(f"There is no row {number}.")
        return self.cards.picture(number)

    def download(self, what: str) -> tuple[bytes, str, str]:
        """Return a file: its bytes, name and media type."""
        with self._lock:
            self._sync()
            return self.outputs.make(what, {key for key, said in self._added.items() if said == "right"})

    @property
    def answers(self) -> "Answers":
        """The answers that stand."""
        with self._lock:
            self._sync()
            return self.audit.answers

    def close(self) -> None:
        """Close the store."""
        self._ahead.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self.store.close()

    # The log and the audit

    def _check_settings(self) -> None:
        now = {"precision": self.audit.precision, "confidence": self.audit.confidence, "seed": self.audit.random_state}
        stored = self.store.get("settings")
        if stored is None:
            self.store.set("settings", json.dumps(now))
            return
        before = json.loads(stored)
        for name, value in now.items():
            if before.get(name) != value:
                raise DataError(
                    f"The review in {str(self.store.path)!r} was begun with {name} {before.get(name)}, now it is "
                    f"{value}: the promise would not hold. Go on with the old value, or begin a new store."
                )

    def _append(self, events: Iterable[Event]) -> None:
        chosen = list(events)
        if chosen:
            self.store.append(chosen)
        self._sync()
        self._keep_certificate()

    def _keep_certificate(self) -> None:
        """Store what is certified now: an answer that was taken back may have taken the certificate back, too."""
        certificate = self.audit.certificate
        cells = () if certificate is None else certificate.cells.tolist()
        keep_certificate(self.store, cells, "" if certificate is None else str(certificate))

    def _sync(self) -> None:
        """Tell the audit what is new in the store, by this process or another."""
        for event in self.store.events(self._seq):
            self._seq = event.seq
            self._take(event)

    def _take(self, event: StoredEvent) -> None:
        if event.action == "undo":
            undone = self._standing.pop(event.undoes or 0, None)
            number = self._number.pop(event.undoes or 0, None)
            if number is not None:
                self.audit.undo(number)
            elif undone is not None:
                self._added.pop((undone.row or 0, undone.label or ""), None)
            return
        cell = (int(event.row or 0), str(event.label))
        if event.action in ("flag", "unflag"):
            (self._flags.add if event.action == "flag" else self._flags.discard)(cell)
            return
        self._standing[event.seq] = event
        if event.kind == "missing":
            self._added[cell] = str(event.answer)
            return
        place = self._position(*cell)
        if place is None:
            raise DataError(
                f"Answer {event.seq} of the store is about {cell[1]!r} in row {cell[0]}, which is not there."
            )
        asked = Question(*self._asked(place, event.kind)) if event.kind in _QUESTIONS else cell
        self._number[event.seq] = self.audit.answer(asked, str(event.answer), who=event.who, when=event.at)

    def _learn(self, answers: Any) -> None:
        assert self._refit is not None
        try:
            judged = self._refit(answers)
            text = f"Confidences and suggestions follow {len(answers):,} answers."
        except (ValueError, ArithmeticError, MemoryError) as error:
            judged, text = self._judged, f"It could not be refitted: {error}"
        with self._lock:
            self._judged, self._learning, self._learned = judged, None, text

    # What is shown

    def _next(self, who: str, given: Given) -> dict[str, Any]:
        wanted = {name: str(given.get(name) or "") for name in ("label", "confidence", "text")}
        if any(wanted.values()):
            return self._next_filtered(wanted)
        others = {cell for person, cell in self._looking.items() if person != who}
        ahead = self.audit.upcoming(1 + _N_AHEAD, skip=others)
        if not ahead:
            self._looking.pop(who, None)
            return {"card": None, "done": "Every candidate that can be judged has been answered."}
        self._looking[who] = ahead[0].cell
        for question in ahead[1:]:
            self._ahead.submit(self.cards.card, question.cell)
        return self._show(ahead[0])

    def _next_filtered(self, wanted: dict[str, str]) -> dict[str, Any]:
        cells = self.audit.order
        if wanted["label"]:
            cells = cells[self.result.Y.indices[cells] == self._label_number.get(wanted["label"], -1)]
        if wanted["confidence"]:
            try:
                limit = float(wanted["confidence"])
            except ValueError:
                raise DataError("The confidence of a filter must be a number.") from None
            cells = cells[1.0 - self.audit.probability[cells] <= limit]
        cells = cells[self._with_text(cells, wanted["text"])]
        note = (
            f"{len(cells):,} unanswered labels pass the filter, most suspicious first. What you choose yourself is no "
        )
        note += "random sample: it is known from then on, but the promise rests on the questions without a filter."
        if not len(cells):
            return {"card": None, "done": "No unanswered label passes the filter.", "note": note}
        return {**self._show(Question(*self._asked(int(cells[0]), "selection"))), "note": note}

    def _with_text(self, cells: Any, text: str) -> Any:
        """Return which candidates' rows hold a text, in their text, name or labels, whatever the case."""
        words = text.casefold().split()[:20]
        if not words:
            return slice(None)
        rows = self.result.rows[cells]
        found = {}
        for row in np.unique(rows).tolist():
            shown = self.cards.name(row) + " " + (self.cards.texts[row] if self.cards.texts is not None else "")
            shown = shown.casefold()
            found[row] = all(word in shown for word in words)
        return np.array([found[row] for row in rows.tolist()], dtype=bool)

    def _show(self, question: Question) -> dict[str, Any]:
        row = question.row
        start, stop = int(self.result.Y.indptr[row]), int(self.result.Y.indptr[row + 1])
        verdict = self.audit.verdict[start:stop]
        labels: list[dict[str, Any]] = [
            {
                "label": self.result.label_names[int(self.result.Y.indices[cell])],
                "confidence": sure,
                "suspect": cell == question.cell,
                "answer": None if cell == question.cell else (WORDS[verdict[cell - start]] or None),
            }
            for cell, sure in zip(range(start, stop), self._confidence(range(start, stop)), strict=True)
        ]
        labels.sort(key=lambda entry: (-entry["confidence"], entry["label"]))
        card = {
            **self.cards.card(question.cell), "id": f"{question.cell}", "kind": question.kind, "labels": labels,
            "flagged": (row, question.label) in self._flags,
        }  # fmt: skip
        return {"card": card}

    def _state(self) -> dict[str, Any]:
        now = time.monotonic()
        is_old = self._facts is None or (self._facts[0] != self._seq and now - self._facts[1] >= _ESTIMATE_SECONDS)
        if self._facts is None or is_old:
            found = estimates(self.audit)
            # Estimates may take a while with a million candidates: then they are made less often.
            self._facts = self._seq, now + 5 * (time.monotonic() - now), found
        learning = None
        if self._learning is not None:
            seconds = time.monotonic() - self._learning[0]
            text = f"Refitting with {self._learning[1]:,} answers, {seconds:.0f} s …"
            learning = {"share": 1 - 0.5 ** (seconds / 10), "text": text}
        standing = list(self._standing.values())
        return {
            **self._facts[2],
            "is_behind": self._facts[0] != self._seq,
            "answers": self.audit.n_answers,
            "per_minute": answers_per_minute(standing),
            "found_wrong": int((self.audit.verdict == WORDS.index("wrong")).sum()),
            "recent": recent_answers(standing, self.cards.name),
            "learning": learning,
            "learned": self._learned or None,
        }

    def _confidence(self, cells: Sequence[int]) -> list[float]:
        chosen = np.asarray(cells, dtype=np.int64)
        if self._judged is self.result:
            found = 1.0 - self.audit.probability[chosen]
        else:
            found = self._judged.confidence[self.result.rows[chosen], self.result.Y.indices[chosen]]
        return [float(value) for value in np.asarray(found).ravel()]

    # Cells

    def _cell_of(self, given: Given) -> tuple[int, str]:
        row, label = read_whole(given, "row"), str(given.get("label", ""))
        if self._position(row, label) is None:
            raise DataError(f"Row {row} has no label {label[:100]!r}.")
        return row, label

    def _position(self, row: int | None, label: str | None) -> int | None:
        Y = self.result.Y
        number = self._label_number.get(label or "")
        if row is None or number is None or not 0 <= row < Y.shape[0]:
            return None
        cell = int(find_cells(Y, np.array([row]), np.array([number]))[0])
        return cell if cell >= 0 else None

    def _asked(self, cell: int, kind: str) -> tuple[int, str, Any, int, str]:
        row = int(self.result.rows[cell])
        return row, self.result.label_names[int(self.result.Y.indices[cell])], kind, cell, self.cards.name(row)

    def _shown(self, row: int, label: str) -> dict[str, Any]:
        cell = self._position(row, label)
        return {} if cell is None else {"confidence": round(float(1.0 - self.result.doubt[cell]), 4)}
