"""Cleaned labels from the stored answers of a review, without the page."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pmlkit._arrays import without_cells
from pmlkit._typing import CSR, Features
from pmlkit.cleaning.audit.answers import RIGHT, WRONG, code, find_cells, fingerprint, settled
from pmlkit.cleaning.review.store import AnswerStore
from pmlkit.exceptions import DataError

__all__ = ["Applied", "apply_review", "keep_certificate", "stored_certificate"]

_CERTIFICATE = "certificate"


@dataclass(frozen=True, eq=False)
class Applied:
    """Labels after a review.

    Attributes
    ----------
    Y : CSR array of shape (n_samples, n_labels)
        The labels that stay.
    n_answers : int
        Answers that stand.
    n_called_wrong, n_certified : int
        How many labels went because a person called them wrong, and how many more by the certificate.
    promise : str
        What the certificate says; empty without one.

    Examples
    --------
    >>> from pmlkit.cleaning.review import Applied
    >>> from pmlkit.data import load_digit_strips
    >>> Applied(load_digit_strips(10).Y, n_answers=20, n_called_wrong=12, n_certified=0, promise="")
    Applied(n_answers=20, n_called_wrong=12, n_certified=0, promise='')
    """

    Y: CSR = field(repr=False)
    n_answers: int
    n_called_wrong: int
    n_certified: int
    promise: str


def apply_review(
    path: str | os.PathLike[str], X: Features, Y: CSR, label_names: Sequence[str], *, check: bool = True
) -> Applied:
    """Remove the labels that a review called wrong or certified.

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
        standing = [event for event in store.standing() if event.kind != "missing"]
        certificate = stored_certificate(store)
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
    return Applied(
        without_cells(Y, removed), len(standing), len(called_wrong), len(certified), str(certificate.get("promise", ""))
    )


def stored_certificate(store: AnswerStore) -> dict[str, Any]:
    """Return the certificate that a store holds: ``cells`` (positions in ``Y.data``) and ``promise``; or nothing."""
    text = store.get(_CERTIFICATE)
    return {} if not text else dict(json.loads(text))


def keep_certificate(store: AnswerStore, cells: Sequence[int], promise: str) -> None:
    """Store a certificate, or that there is none, if it is not what the store holds."""
    text = json.dumps({"cells": list(cells), "promise": promise}) if promise else ""
    if text != (store.get(_CERTIFICATE) or ""):
        store.set(_CERTIFICATE, text)
