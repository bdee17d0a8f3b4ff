"""Cleaned labels from the stored answers of a review, without the page."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pmlkit._typing import CSR, Features
from pmlkit.cleaning.audit.answers import RIGHT, WRONG, code, find_cells, fingerprint, settled
from pmlkit.cleaning.review.naming import final_names, reviewed_labels
from pmlkit.cleaning.review.store import AnswerStore, StoredEvent
from pmlkit.exceptions import DataError

__all__ = ["NO_CANDIDATES", "Applied", "apply_review", "keep_certificate", "merges", "stored_certificate"]

NO_CANDIDATES = ("missing", "merge")
"""Kinds of answers that are not about a label that a row has."""


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
    """Make of labels what a review decided: removals, additions, merged names.

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
        certificate = stored_certificate(store)
    standing = [event for event in events if event.kind not in NO_CANDIDATES]
    number = {name: k for k, name in enumerate(label_names)}
    said: dict[int, list[int]] = {}
    rows = np.array([event.row for event in standing], dtype=np.int64)
    labels = np.array([number.get(str(event.label), -1) for event in standing], dtype=np.int64)
    for event, cell in zip(standing, find_cells(Y, rows, labels).tolist(), strict=True):
        if cell < 0:
            raise DataError(f"Answer {event.seq} is about the label {event.label!r} of row {event.row}: not there.")
        said.setdefault(cell, []).append(code(str(event.answer)))
    verdict = {cell: settled(codes, "latest") for cell, codes in said.items()}
    called_wrong = {cell for cell, answer in verdict.items() if answer == WRONG}
    certified = {cell for cell in certificate.get("cells", ()) if verdict.get(cell) != RIGHT} - called_wrong
    removed = np.zeros(Y.nnz, dtype=bool)
    removed[sorted(called_wrong | certified)] = True
    latest = {(int(e.row or 0), str(e.label)): e.answer for e in events if e.kind == "missing"}
    added = sorted(cell for cell, answer in latest.items() if answer == "right")
    merged = final_names(merges(events))
    return Applied(
        reviewed_labels(Y, label_names, removed, added, merged), len(standing), len(called_wrong), len(certified),
        added, merged, str(certificate.get("promise", "")),
    )  # fmt: skip


def merges(standing: Iterable[StoredEvent]) -> dict[str, str]:
    """Return which label names shall be replaced by which, as decided last."""
    decided = {str(e.label): e for e in standing if e.kind == "merge"}
    return {name: str((e.shown or {}).get("into", name)) for name, e in decided.items() if e.answer == "right"}


def stored_certificate(store: AnswerStore) -> dict[str, Any]:
    """Return the certificate that a store holds: ``cells`` (positions in ``Y.data``) and ``promise``; or nothing.

    A server that is killed between an answer and the certificate that follows from it leaves the one before; this is
    refused, because the answer may have taken it back.
    """
    known = store.get("certified_up_to")
    if known is not None and int(known) < store.last:
        raise DataError(
            f"The server was stopped before the last answer in {str(store.path)!r} was counted, so what is certified "
            "may have changed: open the review once more (`pmlkit review`), then apply it."
        )
    text = store.get("certificate")
    return {} if not text else dict(json.loads(text))


def keep_certificate(store: AnswerStore, cells: Sequence[int], promise: str, seq: int) -> None:
    """Store a certificate, or that there is none, and up to which entry it takes all answers into account."""
    text = json.dumps({"cells": list(cells), "promise": promise}) if promise else ""
    changed = {} if text == (store.get("certificate") or "") else {"certificate": text}
    store.set(is_derived=True, certified_up_to=str(seq), **changed)
