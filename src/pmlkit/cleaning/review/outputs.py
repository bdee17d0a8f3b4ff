"""What a review hands out: the cleaned table, the answers, the list of removals, and the report."""

import csv
import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from pmlkit._words import guarded
from pmlkit.cleaning.review.applied import NO_CANDIDATES
from pmlkit.cleaning.review.replay import Replay
from pmlkit.exceptions import DataError

__all__ = ["Outputs"]

_CSV = "text/csv; charset=utf-8"


class Outputs:
    """The files of a review.

    Parameters
    ----------
    replay : Replay
    title : str
    table : Table, optional
        Where the rows came from.
    """

    def __init__(self, replay: Replay, *, title: str, table: Any = None) -> None:
        self.replay, self.audit, self.title, self.table = replay, replay.audit, title, table

    def offered(self) -> list[dict[str, str]]:
        """Return the files that can be downloaded."""
        found = [] if self.table is None else [("table", "Cleaned table")]
        found += [
            ("answers", "Answers (CSV)"), ("removed", "Removed labels (CSV)"), ("added", "Added labels (CSV)"),
            ("report", "Report (HTML)"),
        ]  # fmt: skip
        return [{"href": f"/api/download?what={what}", "text": text} for what, text in found]

    def make(self, what: str) -> tuple[bytes, str, str]:
        """Return a file: its bytes, its name and its media type."""
        if what == "table" and self.table is not None:
            source = Path(str(self.table.path))
            return self._table(source), f"{source.stem}-cleaned{source.suffix}", "application/octet-stream"
        if what == "answers":
            return self.answers(), "answers.csv", _CSV
        if what == "removed":
            return self._removed(), "removed.csv", _CSV
        if what == "added":
            lines = [(row, self._name(row), label) for row, label in self.replay.to_add]
            return _csv(("row", "id", "label"), lines), "added.csv", _CSV
        if what == "report":
            return self._report(), "report.html", "text/html; charset=utf-8"
        raise DataError(f"There is no file {what[:40]!r}.")

    def answers(self) -> bytes:
        """Return the answers about candidates that stand, as CSV."""
        table = self.audit.fingerprint
        lines = [
            (e.row, self._name(int(e.row or 0)), e.label, e.answer, e.who, e.at, e.kind, e.seconds, table)
            for e in self.replay.standing.values()
            if e.kind not in NO_CANDIDATES
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
            self.table.write(target, self.replay.cleaned)
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
