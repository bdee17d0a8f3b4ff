"""A review under way: the requests of the page, answered as plain data; no web server in here.

The audit decides what is asked and what may be promised. Every answer is first stored, then told to the audit, so that
an answer that was acknowledged is never lost; when the review is opened again, the audit is replayed from the store.
"""

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pmlkit._words import counted
from pmlkit.cleaning.audit.answers import WORDS
from pmlkit.cleaning.review.cards import PAGE, Cards
from pmlkit.cleaning.review.outputs import Outputs, final_names
from pmlkit.cleaning.review.panel import answers_per_minute, estimates, findings, recent_answers, similar_names
from pmlkit.cleaning.review.replay import QUESTIONS, Questions, Replay
from pmlkit.cleaning.review.store import ANSWERS, AnswerStore, Event
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit.cleaning import CleaningResult
    from pmlkit.cleaning.audit import Answers

Given = dict[str, Any]
"""What a request holds; nothing of it is trusted."""

_MAX_BULK = 5_000
_N_MISSING = 500
_ESTIMATE_SECONDS = 0.4  # estimates that the page shows are not made more often
_LONG_ESTIMATE = 0.01  # seconds from which the next card does not wait for them


class Review:
    """One review of a cleaning result; safe to use from several threads.

    `result`: what is reviewed. `store`: where the answers are, and stay. `title`: the heading of the page. `precision`,
    `confidence`: of the certificate, see `CleaningResult.audit`. `random_state`: of the audit's draws. `table`: from
    `pmlkit.open_table`: its pictures and columns are shown, and it can be downloaded with the labels cleaned. `refit`:
    takes `Answers` and the argument ``on_progress`` of `pmlkit.clean`, and returns a new result; for the button
    "learn".
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
        refit: "Callable[..., CleaningResult] | None" = None,
    ) -> None:
        self.result, self.store, self.title = result, store, title
        self.replay = Replay(result, store, precision=precision, confidence=confidence, random_state=random_state)
        self.audit = self.replay.audit
        self.cards = Cards(result, table=table)
        self.questions = Questions(self.replay, self.cards)
        self.outputs = Outputs(self.replay, title=title, table=table)
        self._learning = None if refit is None else Learning(refit, self._take_result)
        self._lock = threading.RLock()
        self._facts: tuple[int, float, dict[str, Any]] | None = None  # of which answers, from when, estimates
        self._estimate_seconds = 0.0  # how long they took
        self._label_number = {name: k for k, name in enumerate(result.label_names)}
        self._session, self._n_states = secrets.token_hex(4), 0  # by which the page knows a state that was overtaken

    # Requests of the page: each takes who asks and what was sent, and returns plain data.

    def start(self, who: str, given: Given) -> dict[str, Any]:
        """Return what the page needs once."""
        count = np.bincount(self.result.Y.indices, minlength=self.result.Y.shape[1])
        labels = [
            {"label": name, "candidates": int(n)}
            for name, n in zip(self.result.label_names, count.tolist(), strict=True)
            if n
        ]
        room = {"room": self.cards.room, "n_lines": self.cards.n_label_lines}
        return {"labels": labels, **room, **self.state(who, given)}

    def state(self, who: str, given: Given) -> dict[str, Any]:
        """Return what is known and promised so far."""
        with self._synced():
            return {"state": self._state()}

    def card(self, who: str, given: Given) -> dict[str, Any]:
        """Return the question for a person: the one they want, the audit's next, or the first of a filter."""
        with self._synced():
            if "row" in given:
                cell = self.replay.position(*self._cell_of(given))
                return self.questions.show(who, self.audit.question(int(cell or 0), "selection"))
            return self.questions.next(who, given)

    def answer(self, who: str, given: Given) -> dict[str, Any]:
        """Store an answer to a card and return the next one."""
        row, label = self._cell_of(given)
        kind = given.get("kind")
        with self._lock:
            shown = self.questions.shown(who, self.replay.position(row, label))
        event = Event(
            who, "answer", str(kind) if kind in QUESTIONS else "selection", row, label, _read_answer(given),
            seconds=_read_seconds(given), shown=shown, client=_read_client(given),
        )  # fmt: skip
        stored = self._append([event])
        with self._lock:
            return {**self.questions.next(who, given.get("filter") or {}), **stored}

    def undo(self, who: str, given: Given) -> dict[str, Any]:
        """Take the person's last answer back, or their whole last selection; return its card."""
        with self._synced():
            last = self.replay.latest(who, kinds=("bulk",) if given.get("bulk") else None)
        if not last:
            raise DataError("There is no answer of yours to take back.")
        client = _read_client(given)
        self._append(
            [
                Event(who, "undo", event.kind, undoes=event.seq, client=None if i else client)
                for i, event in enumerate(last)
            ]
        )
        with self._lock:
            state = {"state": self._state(is_urgent=True), "n_undone": len(last)}
            cell = self.replay.position(last[-1].row, last[-1].label)
            if given.get("bulk") or cell is None:
                return {**self.questions.next(who, {}), **state}
            return {**self.questions.show(who, self.audit.question(cell, last[-1].kind)), **state}

    def change(self, who: str, given: Given) -> dict[str, Any]:
        """Replace one of the last answers by another."""
        answer, client = _read_answer(given), _read_client(given)
        with self._synced():
            event = self.replay.standing.get(_read_whole(given, "seq"))
        if event is None:
            raise DataError("That answer was taken back already.")
        return self._append(
            [
                Event(who, "undo", event.kind, undoes=event.seq, client=client and f"{client}/undo"),
                Event(who, "answer", event.kind, event.row, event.label, answer, client=client),
            ]
        )

    def toggle(self, who: str, given: Given) -> dict[str, Any]:
        """Answer about another label of the row on the card; no answer takes the last one back."""
        row, label = self._cell_of(given)
        return self._replace(who, given, Event(who, "answer", "toggle", row, label))

    def flag(self, who: str, given: Given) -> dict[str, Any]:
        """Flag a question for later, or remove its flag."""
        row, label = self._cell_of(given)
        with self._synced():
            flagged = (row, label) not in self.replay.flags
        event = Event(who, "flag" if flagged else "unflag", "flag", row, label, client=_read_client(given))
        return {"flagged": flagged, **self._append([event])}

    def label_rows(self, who: str, given: Given) -> dict[str, Any]:
        """Return rows of one label, the least likely first."""
        offset, label = _read_whole(given, "offset", 0), self._label_of(given)
        with self._synced():
            cells = self.questions.label_cells(self._label_number[label], str(given.get("text", "")))
            n_answered = int((self.audit.verdict[cells] > 0).sum())
            rows = self.questions.label_rows(cells[offset : offset + PAGE])
        order = ", least likely first" if len(cells) > 1 else ""
        note = f"{counted(len(cells), 'row')}{order}{f'; {n_answered:,} answered' if n_answered else ''}."
        return {"rows": rows, "total": len(cells), "open": len(cells) - n_answered, "most": _MAX_BULK, "note": note}

    def bulk(self, who: str, given: Given) -> dict[str, Any]:
        """Store one answer for many rows of a label: those that are named, or all unanswered ones of a search.

        Of more than can be taken back in a few seconds it is the least likely ones.
        """
        rows, label, answer = given.get("rows"), self._label_of(given), _read_answer(given)
        if given.get("all"):
            with self._synced():
                cells = self.questions.label_cells(self._label_number[label], str(given.get("text", "")))
                rows = self.result.rows[cells[self.audit.verdict[cells] == 0]][:_MAX_BULK].tolist()
        if not isinstance(rows, list) or not 0 < len(rows) <= _MAX_BULK:
            raise DataError(f"Select between 1 and {_MAX_BULK:,} rows.")
        client = _read_client(given)
        events = []
        for i, row in enumerate(rows):
            place, name = self._cell_of({"row": row, "label": label})
            events.append(Event(who, "answer", "bulk", place, name, answer, client=client and f"{client}/{i}"))
        return {"n_rows": len(events), **self._append(events)}

    def missing_rows(self, who: str, given: Given) -> dict[str, Any]:
        """Return suggestions of labels to add, the most likely first."""
        offset = _read_whole(given, "offset", 0)
        with self._synced():
            judged, said = self.questions.judged, self.replay.added
            found, labels = judged.missing_cells(_N_MISSING)
            rows = []
            for row, k in zip(*(part[offset : offset + PAGE].tolist() for part in (found, labels)), strict=True):
                label = self.result.label_names[k]
                answer = said[row, label].answer if (row, label) in said else None
                rows.append(
                    {**self.cards.brief(row, k), "label": label, "confidence": float(judged.scores[row, k]),
                     "answer": answer}
                )  # fmt: skip
            return {"rows": rows, "total": len(found)}

    def answer_missing(self, who: str, given: Given) -> dict[str, Any]:
        """Store whether a suggested label belongs to a row; no answer takes the last one back."""
        row, label = _read_whole(given, "row"), self._label_of(given)
        if not 0 <= row < self.result.Y.shape[0]:
            raise DataError(f"There is no row {row}.", row=row)
        if self.replay.position(row, label) is not None:
            raise DataError(f"Row {row} has the label {label!r} already.", row=row)
        return self._replace(who, given, Event(who, "answer", "missing", row, label))

    def merge(self, who: str, given: Given) -> dict[str, Any]:
        """Store whether a label name shall be replaced by another; no answer takes the last one back."""
        label, into = self._label_of(given), self._label_of(given, "into")
        with self._synced():
            merged = final_names(self.replay.merged | {label: into})
        if given.get("answer") == "right" and label not in merged:
            raise DataError(f"{into!r} is called {label!r} already: take that back first.")
        return self._replace(who, given, Event(who, "answer", "merge", None, label, shown={"into": into}))

    def settle(self, who: str, given: Given) -> dict[str, Any]:
        """Settle a disagreement by one more answer, the latest."""
        row, label = self._cell_of(given)
        return self._append(
            [Event(who, "answer", "settled", row, label, _read_answer(given), client=_read_client(given))]
        )

    def results(self, who: str, given: Given) -> dict[str, Any]:
        """Return what can be taken along, and what a person should look at."""
        with self._synced():
            found = findings(self.replay, self._similar_names)
        return {"who": who, "downloads": self.outputs.offered(), **found}

    def learn(self, who: str, given: Given) -> dict[str, Any]:
        """Refit the model with all answers in the background; the page stays usable."""
        if self._learning is None:
            raise DataError("These suspects were not computed here: there is nothing to refit.")
        with self._synced():
            if not self.audit.n_answers:
                raise DataError("There is no answer to learn from yet.")
            self._learning.start(self.audit.answers)
            return {"state": self._state()}

    def picture(self, given: Given) -> tuple[bytes, str]:
        """Return a row's picture."""
        number = _read_whole(given, "row")
        if not 0 <= number < self.result.Y.shape[0]:
            raise DataError(f"There is no row {number}.", row=number)
        return self.cards.picture(number, is_small=bool(given.get("small")))

    def download(self, what: str) -> tuple[bytes, str, str]:
        """Return a file: its bytes, name and media type."""
        with self._synced():
            return self.outputs.make(what)

    @property
    def answers(self) -> "Answers":
        """The answers that stand."""
        with self._lock:
            if not self.store.is_closed:
                self.replay.sync()
            return self.audit.answers

    def close(self) -> None:
        """Close the store."""
        self.questions.close()
        with self._lock:
            self.store.close()

    # What requests have in common

    @contextlib.contextmanager
    def _synced(self) -> Iterator[None]:
        """Keep other threads out, and take in what is new in the store."""
        with self._lock:
            self.replay.sync()
            yield

    def _append(self, events: Sequence[Event]) -> dict[str, Any]:
        """Store entries, take them in and return the state. Other threads do not wait for the disk."""
        if events:
            self.store.append(events)
        with self._synced():
            self.replay.keep_certificate()
            return {"state": self._state(is_urgent=True)}

    def _replace(self, who: str, given: Given, event: Event) -> dict[str, Any]:
        """Store an answer in place of the earlier ones of its kind about the same; without an answer, none."""
        client, what = _read_client(given), (event.kind, event.row, event.label)
        with self._synced():
            before = [e.seq for e in self.replay.standing.values() if (e.kind, e.row, e.label) == what]
        events = [Event(who, "undo", event.kind, undoes=seq, client=client and f"{client}/{seq}") for seq in before]
        if given.get("answer") is not None:
            shown = event.shown
            events.append(Event(who, "answer", *what, answer=_read_answer(given), shown=shown, client=client))
        return self._append(events)

    def _take_result(self, judged: "CleaningResult") -> None:
        with self._lock:
            self.questions.judged = judged

    def _state(self, *, is_urgent: bool = False) -> dict[str, Any]:
        """Return the state; with many candidates, an urgent one has the last estimates and the page asks again."""
        now, seq = time.monotonic(), self.replay.seq
        is_old = self._facts is None or (self._facts[0] != seq and now - self._facts[1] >= _ESTIMATE_SECONDS)
        if self._facts is None or (is_old and not (is_urgent and self._estimate_seconds > _LONG_ESTIMATE)):
            begun = time.thread_time()
            found = estimates(self.audit)
            self._estimate_seconds = time.thread_time() - begun
            # Estimates may take a while with many answers or candidates: then they are made less often.
            self._facts = seq, now + 10 * self._estimate_seconds, found
        standing = list(self.replay.standing.values())
        self._n_states += 1
        return {
            **self._facts[2],
            "session": self._session,
            "number": self._n_states,
            "is_behind": self._facts[0] != seq,
            "answers": self.audit.n_answers,
            "per_minute": answers_per_minute(standing),
            "found_wrong": int((self.audit.verdict == WORDS.index("wrong")).sum()),
            "recent": recent_answers(standing, self.result.row_name),
            "can_learn": self._learning is not None,
            "learning": None if self._learning is None else self._learning.state,
            "learned": None if self._learning is None else self._learning.text,
        }

    @cached_property
    def _similar_names(self) -> list[tuple[str, str, str]]:
        return similar_names(self.result.label_names)

    def _cell_of(self, given: Given) -> tuple[int, str]:
        row, label = _read_whole(given, "row"), str(given.get("label", ""))
        if self.replay.position(row, label) is None:
            raise DataError(f"Row {row} has no label {label[:100]!r}.", row=row)
        return row, label

    def _label_of(self, given: Given, name: str = "label") -> str:
        label = str(given.get(name, ""))
        if label not in self._label_number:
            raise DataError(f"There is no label {label[:100]!r}.")
        return label


def _read_answer(given: Given) -> str:
    """Return the answer of a request."""
    answer = given.get("answer")
    if answer not in ANSWERS:
        raise DataError(f"An answer must be one of {', '.join(ANSWERS)}, got {str(answer)[:40]!r}.")
    return str(answer)


def _read_client(given: Given) -> str | None:
    """Return the key by which a request that is sent twice is known."""
    client = given.get("client")
    return None if client is None else str(client)[:100]


def _read_seconds(given: Given) -> float | None:
    """Return how long an answer took, where that makes sense."""
    seconds = given.get("seconds")
    return round(float(seconds), 3) if isinstance(seconds, int | float) and 0 <= seconds < 1e6 else None


def _read_whole(given: Given, name: str, default: int | None = None) -> int:
    """Return a whole number of a request."""
    value = given.get(name, default)
    try:
        if isinstance(value, bool | float) or value is None or len(str(value)) > 18:
            raise ValueError
        return int(value)
    except (TypeError, ValueError):
        raise DataError(f"{name} must be a whole number, got {str(value)[:40]!r}.") from None


class Learning:
    """A refit in a thread of its own.

    `refit`: takes `Answers` and the argument ``on_progress`` of `pmlkit.clean`, and returns a result. `on_done`: called
    with the new result, in the thread of the refit. `text`: what came of the last refit.
    """

    def __init__(self, refit: "Callable[..., CleaningResult]", on_done: "Callable[[CleaningResult], None]") -> None:
        self._refit, self._on_done = refit, on_done
        self._begun: float | None = None
        self._took: float | None = None
        self._n_answers = self._n_steps = self._step = 0
        self.text = ""

    @property
    def state(self) -> dict[str, Any] | None:
        """How far the refit is: ``share`` (None if that cannot be told) and ``text``; None if there is none."""
        begun, n_steps, step_done = self._begun, self._n_steps, self._step  # another thread may change them meanwhile
        if begun is None:
            return None
        seconds = time.monotonic() - begun
        share = min(step_done / n_steps, 1.0) if n_steps else None
        if self._took is not None:
            share = min(seconds / max(self._took, 1e-9), 0.99)
        left = "" if self._took is None else f", about {max(self._took - seconds, 1.0):.0f} s left"
        step = f", step {min(step_done + 1, n_steps)} of {n_steps}" if n_steps else ""
        return {
            "share": share,
            "text": f"Refitting with {counted(self._n_answers, 'answer')}: {seconds:.0f} s{step}{left}",
        }

    def start(self, answers: "Answers") -> None:
        """Refit, unless it is being done."""
        if self._begun is None:
            self._begun, self._n_answers, self._n_steps, self._step = time.monotonic(), len(answers), 0, 0
            threading.Thread(target=self._run, args=(answers,), name="pmlkit review learning", daemon=True).start()

    def _count(self, done: int, total: int | None) -> None:
        # What is learned from the answers afterwards is one more step.
        self._step, self._n_steps = done, total + 1 if total else 0

    def _run(self, answers: "Answers") -> None:
        begun = self._begun or time.monotonic()
        try:
            self._on_done(self._refit(answers, self._count))
            self.text = f"Confidences and suggestions follow {counted(len(answers), 'answer')}."
            self._took = time.monotonic() - begun
        except Exception as error:  # no one joins this thread: errors must be shown on the page
            self.text = f"It could not be refitted: {str(error) or type(error).__name__}"
        finally:
            self._begun = None
