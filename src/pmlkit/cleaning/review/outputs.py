"""What comes of a review: cleaned labels from the stored answers, and the files that are handed out."""

import csv
import io
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from pmlkit._arrays import as_csr, row_of_cells
from pmlkit._typing import CSR, BoolArray, Features
from pmlkit._words import guarded
from pmlkit.cleaning.audit.answers import RIGHT, WRONG, code, find_cells, fingerprint, settled
from pmlkit.cleaning.review.store import AnswerStore, StoredEvent
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit.cleaning.review.replay import Replay


NO_CANDIDATES = ("missing", "merge")
"""Kinds of answers that are not about a label that a row has."""

_CSV = "text/csv; charset=utf-8"


@dataclass(frozen=True, eq=False)
class Applied:
    """Labels after a review.

    Attributes
    ----------
    Y : CSR array of shape (n_samples, n_labels)
        The labels that stay or were added; a merged name's label has no rows left.
    n_answers : int
        Answers about labels that stand.
    n_called_wrong, n_certified : int
        How many labels went because a person called them wrong, and how many more by the certificate.
    added : list of (row, label)
        Labels that a person added.
    merged : dict of str to str
        Label names that a person replaced by others.
    promise : str
        What the certificate says; empty without one.

    Examples
    --------
    >>> from pmlkit.cleaning.review import Applied
    >>> from pmlkit.data import load_digit_strips
    >>> Applied(load_digit_strips(10).Y, 20, n_called_wrong=12, n_certified=0, added=[(3, "7")], merged={}, promise="")
    Applied(n_answers=20, n_called_wrong=12, n_certified=0, added=[(3, '7')], merged={}, promise='')
    """

    Y: CSR = field(repr=False)
    n_answers: int
    n_called_wrong: int
    n_certified: int
    added: list[tuple[int, str]]
    merged: dict[str, str]
    promise: str


def apply_review(
    path: str | os.PathLike[str], X: Features, Y: CSR, label_names: Sequence[str], *, check: bool = True
) -> Applied:
    """Apply the decisions of a review to labels: removals, additions, merged names.

    Parameters
    ----------
    path : path
        The SQLite file of the answers.
    X, Y, label_names
        The rows, candidates and label names that were reviewed.
    check : bool, default=True
        Refuse a store whose answers are about other data.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit.cleaning.review import AnswerStore, apply_review
    >>> from pmlkit.cleaning.review.store import Event
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(100)
    >>> row, label = 0, strips.label_names[strips.Y.indices[0]]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.sqlite")
    ...     with AnswerStore(path) as store:
    ...         _ = store.append([Event("ann", "answer", "audit", row=row, label=label, answer="wrong")])
    ...     applied = apply_review(path, strips.X, strips.Y, strips.label_names, check=False)
    >>> applied.n_called_wrong, strips.Y.nnz - applied.Y.nnz
    (1, 1)
    """
    if not Path(path).is_file():
        raise DataError(f"There is no file {str(path)!r}: give the store of a review.")
    with AnswerStore(path, fingerprint=fingerprint(X, Y, label_names) if check else None) as store:
        events = store.standing()
        certificate = stored_certificate(store, Y.nnz)
    standing = [event for event in events if event.kind not in NO_CANDIDATES]
    number = {name: k for k, name in enumerate(label_names)}
    said: dict[int, list[int]] = {}
    rows = np.array([event.row for event in standing], dtype=np.int64)
    labels = np.array([number.get(str(event.label), -1) for event in standing], dtype=np.int64)
    for event, cell in zip(standing, find_cells(Y, rows, labels).tolist(), strict=True):
        if cell < 0:
            raise DataError(
                f"Answer {event.seq} is about the label {event.label!r} of row {event.row}: not there.", row=event.row
            )
        said.setdefault(cell, []).append(code(str(event.answer)))
    verdict = {cell: settled(codes, "latest") for cell, codes in said.items()}
    called_wrong = {cell for cell, answer in verdict.items() if answer == WRONG}
    certified = {cell for cell in certificate.get("cells", ()) if verdict.get(cell) != RIGHT} - called_wrong
    removed = np.zeros(Y.nnz, dtype=bool)
    removed[sorted(called_wrong | certified)] = True
    latest = {(int(e.row or 0), str(e.label)): e.answer for e in events if e.kind == "missing"}
    added = sorted(cell for cell, answer in latest.items() if answer == "right")
    merged = {name: last for name, last in final_names(merges(events)).items() if {name, last} <= set(number)}
    return Applied(
        reviewed_labels(Y, label_names, removed, added, merged), len(standing), len(called_wrong), len(certified),
        added, merged, str(certificate.get("promise", "")),
    )  # fmt: skip


def merges(standing: Iterable[StoredEvent]) -> dict[str, str]:
    """Return which label names shall be replaced by which, as decided last."""
    decided = {str(e.label): e for e in standing if e.kind == "merge"}
    return {name: str((e.shown or {}).get("into", name)) for name, e in decided.items() if e.answer == "right"}


def stored_certificate(store: AnswerStore, n_candidates: int) -> dict[str, Any]:
    """Return the certificate that a store holds: ``cells`` (positions in ``Y.data``) and ``promise``; or nothing.

    A server that is killed between an answer and the certificate that follows from it leaves the one before; this is
    refused, because the answer may have taken it back.
    """
    try:
        known = store.get("certified_up_to")
        is_old = known is not None and int(known) < store.last
        found = dict(json.loads(store.get("certificate") or "{}"))
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"The certificate in {str(store.path)!r} is damaged: {error}.") from error
    if is_old:
        raise DataError(
            f"The server was stopped before the last answer in {str(store.path)!r} was counted, so what is certified "
            "may have changed: open the review once more (`pmlkit review`), then apply it."
        )
    cells = found.get("cells", [])
    if not isinstance(cells, list) or not all(type(cell) is int and 0 <= cell < n_candidates for cell in cells):
        raise DataError(f"The certificate in {str(store.path)!r} is damaged: it is about labels that are not there.")
    return found


def keep_certificate(store: AnswerStore, cells: Sequence[int], promise: str, seq: int) -> None:
    """Store a certificate, or that there is none, and up to which entry it takes all answers into account."""
    text = json.dumps({"cells": list(cells), "promise": promise}) if promise else ""
    changed = {} if text == (store.get("certificate") or "") else {"certificate": text}
    store.set(is_derived=True, certified_up_to=str(seq), **changed)


def final_names(merged: Mapping[str, str]) -> dict[str, str]:
    """Return what each merged name ends up as, however many steps that takes.

    Examples
    --------
    >>> from pmlkit.cleaning.review.outputs import final_names
    >>> final_names({"Mails": "mails", "mails": "mail"})
    {'Mails': 'mail', 'mails': 'mail'}
    """
    found = {}
    for name in merged:
        seen, last = {name}, merged[name]
        while last in merged and last not in seen:
            seen.add(last)
            last = merged[last]
        found[name] = last
    return {name: last for name, last in found.items() if name != last}


def reviewed_labels(
    Y: CSR,
    label_names: Sequence[str],
    removed: BoolArray,
    added: Iterable[tuple[int, str]] = (),
    merged: Mapping[str, str] | None = None,
) -> CSR:
    """Return labels after a review: some removed, some added, some called by another label's name.

    Where a row has a label under several names that are merged, it stays if one of them stays.

    `removed` (aligned with ``Y.data``).

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.review.outputs import reviewed_labels
    >>> Y = sparse.csr_array(np.array([[1, 1, 0], [0, 1, 1]], dtype=np.uint8))
    >>> gone = np.array([False, True, False, False])
    >>> reviewed_labels(Y, ["a", "b", "B"], gone, [(0, "B")], {"B": "b"}).toarray().tolist()
    [[1, 1, 0], [0, 1, 0]]
    """
    number = {name: k for k, name in enumerate(label_names)}
    new = []
    for row, label in added:
        if label not in number or not 0 <= row < Y.shape[0]:
            raise DataError(f"The label {label!r} cannot be added to row {row}: one of them is not there.", row=row)
        new.append((row, number[label]))
    rows = np.concatenate([row_of_cells(Y)[~removed], np.array([row for row, _ in new], dtype=np.int64)])
    labels = np.concatenate([Y.indices[~removed], np.array([k for _, k in new], dtype=np.int64)])
    target = np.arange(len(label_names))
    for name, last in final_names(merged or {}).items():
        if name in number and last in number:
            target[number[name]] = number[last]
    found = as_csr(sparse.coo_array((np.ones(len(rows), dtype=np.uint8), (rows, target[labels])), shape=Y.shape))
    found.data[:] = 1
    return found


class Outputs:
    """The files of a review.

    `table`: where the rows came from.
    """

    def __init__(self, replay: "Replay", *, title: str, table: Any = None) -> None:
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
        return str(self.audit.result.row_ids[row])


def _csv(header: tuple[str, ...], lines: list[tuple[Any, ...]]) -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    for line in lines:
        writer.writerow([guarded(value) for value in line])
    return stream.getvalue().encode("utf-8", "replace")
