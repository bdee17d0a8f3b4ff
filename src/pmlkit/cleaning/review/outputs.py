"""What a review hands out: the cleaned table, the answers, the list of removals, and the report."""

import csv
import difflib
import io
import re
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pmlkit._arrays import without_cells
from pmlkit._spreadsheets import guarded
from pmlkit._typing import CSR
from pmlkit.cleaning.review.store import AnswerStore
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit.cleaning import CleaningResult
    from pmlkit.cleaning.audit import Audit

__all__ = ["Outputs", "similar_names"]

_CSV = "text/csv; charset=utf-8"
_ALIKE = 0.88
_MAX_NAMES = 3_000


class Outputs:
    """The files of a review.

    Parameters
    ----------
    audit : Audit
    store : AnswerStore
    title : str
    table : Table, optional
        Where the rows came from.
    """

    def __init__(self, audit: "Audit", store: AnswerStore, *, title: str, table: Any = None) -> None:
        self.audit, self.store, self.title, self.table = audit, store, title, table

    def offered(self) -> list[dict[str, str]]:
        """Return the files that can be downloaded."""
        found = [] if self.table is None else [("table", "Cleaned table")]
        found += [
            ("answers", "Answers (CSV)"), ("removed", "Removed labels (CSV)"), ("added", "Labels to add (CSV)"),
            ("report", "Report (HTML)"),
        ]  # fmt: skip
        return [{"href": f"/api/download?what={what}", "text": text} for what, text in found]

    def make(self, what: str, added: Collection[tuple[int, str]]) -> tuple[bytes, str, str]:
        """Return a file: its bytes, its name and its media type."""
        if what == "table" and self.table is not None:
            source = Path(str(self.table.path))
            return self._table(source), f"{source.stem}-cleaned{source.suffix}", "application/octet-stream"
        if what == "answers":
            return self.answers(), "answers.csv", _CSV
        if what == "removed":
            return self._removed(), "removed.csv", _CSV
        if what == "added":
            lines = [(row, self._name(row), label) for row, label in sorted(added)]
            return _csv(("row", "id", "label"), lines), "labels-to-add.csv", _CSV
        if what == "report":
            return self._report(), "report.html", "text/html; charset=utf-8"
        raise DataError(f"There is no file {what[:40]!r}.")

    def cleaned(self) -> CSR:
        """Return the candidates without what was certified or called wrong."""
        return without_cells(self.audit.result.Y, self.audit.removed)

    def answers(self) -> bytes:
        """Return the answers about candidates that stand, as CSV."""
        table = self.audit.fingerprint
        lines = [
            (e.row, self._name(int(e.row or 0)), e.label, e.answer, e.who, e.at, e.kind, e.seconds, table)
            for e in self.store.standing()
            if e.kind != "missing"
        ]
        return _csv(("row", "id", "label", "answer", "who", "when", "kind", "seconds", "table"), lines)

    def _removed(self) -> bytes:
        audit = self.audit
        cells = np.flatnonzero(audit.removed)
        seen = audit.verdict[cells] == 1
        result = audit.result
        lines = [
            (int(result.rows[c]), self._name(int(result.rows[c])), result.label_names[int(result.Y.indices[c])],
             "called wrong" if by_hand else "certified")
            for c, by_hand in zip(cells.tolist(), seen.tolist(), strict=True)
        ]  # fmt: skip
        return _csv(("row", "id", "label", "why"), lines)

    def _table(self, source: Path) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder, source.name)
            self.table.write(target, self.cleaned())
            return target.read_bytes()

    def _report(self) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder, "report.html")
            self.audit.result.report(target, title=self.title, audit=self.audit)
            return target.read_bytes()

    def _name(self, row: int) -> str:
        names = self.audit.result.row_names
        return str(row) if names is None else str(names[row])


def _csv(header: tuple[str, ...], lines: list[tuple[Any, ...]]) -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    for line in lines:
        writer.writerow([guarded(value) for value in line])
    return stream.getvalue().encode("utf-8", "replace")


def similar_names(result: "CleaningResult") -> list[tuple[str, str, str]]:
    """Return pairs of label names that differ little, with why they are listed.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from pmlkit.cleaning.review.outputs import similar_names
    >>> similar_names(SimpleNamespace(label_names=("e-mail", "Email", "music")))
    [('e-mail', 'Email', 'the same but for case and punctuation')]
    """
    names = list(result.label_names)[:_MAX_NAMES]
    plain = [re.sub(r"[\W_]+", "", name.casefold()) for name in names]
    found, groups = [], dict[str, int]()
    for i, key in enumerate(plain):
        if key and key in groups:
            found.append((names[groups[key]], names[i], "the same but for case and punctuation"))
        elif key:
            groups[key] = i
    by_first: dict[str, list[str]] = {}
    for key in groups:
        by_first.setdefault(key[:2], []).append(key)
    for same in by_first.values():
        for i, one in enumerate(same):
            for other in same[i + 1 :]:
                if one.rstrip("s") == other.rstrip("s"):
                    found.append((names[groups[one]], names[groups[other]], "singular and plural"))
                elif min(len(one), len(other)) >= 5:
                    matcher = difflib.SequenceMatcher(None, one, other)
                    if matcher.quick_ratio() >= _ALIKE and matcher.ratio() >= _ALIKE:
                        found.append((names[groups[one]], names[groups[other]], "spelled alike"))
    return found
