"""Which question a person gets, what is shown of it, and the rows of one label, as plain data."""

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from pmlkit._typing import IntArray
from pmlkit.cleaning.audit import Question
from pmlkit.cleaning.audit.answers import WORDS
from pmlkit.cleaning.review.cards import Cards
from pmlkit.cleaning.review.replay import Replay
from pmlkit.cleaning.review.requests import Given
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit.cleaning import CleaningResult

__all__ = ["FILTERS", "PAGE", "Questions"]

PAGE = 60
"""How many rows a view shows at once."""

FILTERS = ("label", "confidence", "text")
_N_AHEAD = 3
_MAX_WORDS = 20


class Questions:
    """Choose and show questions.

    Parameters
    ----------
    replay : Replay
    cards : Cards

    Attributes
    ----------
    judged : CleaningResult
        Whose confidences are shown: at first those of the result, later those that learned from the answers.
    """

    def __init__(self, replay: Replay, cards: Cards) -> None:
        self._replay, self._cards = replay, cards
        self._audit, self._result = replay.audit, replay.result
        self.judged: CleaningResult = replay.result
        self._shown: dict[str, tuple[int, dict[str, Any]]] = {}  # which candidate each person has before them
        self._ahead = ThreadPoolExecutor(1, thread_name_prefix="pmlkit review cards")

    def close(self) -> None:
        """End making cards ahead."""
        self._ahead.shutdown(wait=False, cancel_futures=True)

    def next(self, who: str, given: Given) -> dict[str, Any]:
        """Return the audit's next question for a person, or the most suspicious one that passes their filter."""
        wanted = {name: str(given.get(name) or "") for name in FILTERS}
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
        return {**self.show(who, self._replay.question(int(cells[0]), "selection")), "note": note}

    def _with_text(self, cells: IntArray, text: str) -> IntArray:
        """Return the candidates whose rows hold all words of a text, in their text or name, whatever the case."""
        words = text.casefold().split()[:_MAX_WORDS]
        if not words:
            return cells
        rows = self._result.rows[cells]
        found = {
            row: all(word in shown for word in words)
            for row in np.unique(rows).tolist()
            for shown in [self._cards.searched(row)]
        }
        return np.asarray(cells[np.fromiter((found[row] for row in rows.tolist()), bool, len(rows))])

    def _confidence(self, cells: IntArray) -> list[float]:
        if self.judged is self._result:
            found = 1.0 - self._audit.probability[cells]
        else:
            found = self.judged.confidence[self._result.rows[cells], self._result.Y.indices[cells]]
        return [float(value) for value in np.asarray(found).ravel()]
