"""Cleaning of rows in blocks: the features stay where they are; candidates and their scores come to one place."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from pmlkit._arrays import as_csr, row_hash
from pmlkit._typing import CSR, Features, IntArray
from pmlkit.blocks import RowBlocks, as_row_blocks
from pmlkit.cleaning.evidence import Evidence, evidence_of

__all__ = ["MOST_CELLS", "fit_to_blocks", "judged_blocks", "row_keys"]

MOST_CELLS = 40_000_000
"""Scores, rows times labels, that are judged in one place: 160 MB."""


def judged_blocks(X: Any, Y: Any, pred_probs: Any) -> tuple[RowBlocks, CSR]:
    """Return rows in blocks that `clean` can judge and all their candidates, or say why it cannot."""
    if pred_probs is not None:
        raise ValueError("pred_probs are for data in memory: leave them out, or compute Y first and leave X out.")
    rows = as_row_blocks(X, Y)
    if rows.Y is None:
        raise ValueError("Y must be given: the candidates to judge.")
    if rows.n_rows * rows.n_labels > MOST_CELLS:
        raise ValueError(
            f"clean judges blocks of up to {MOST_CELLS:,} cells, got {rows.n_rows:,} rows x {rows.n_labels:,} labels: "
            "give some of the rows, or fit ClearPML to all, whose label_confidence_ is lowest where labels are "
            "probably wrong."
        )
    return rows, rows.Y.compute()


def fit_to_blocks(model: Any, rows: RowBlocks, judged: IntArray, Y: CSR, *, on_fit: Callable[[Any], Any]) -> Evidence:
    """Score every cell of the judged labels by a method that learns from blocks and cross-fits inside."""
    if not (getattr(model, "_fits_blocks", False) and getattr(model, "_cross_fits", False)):
        raise ValueError(
            f"{type(model).__name__} cannot judge labels in blocks: use ClearPML, or compute X and Y first."
        )
    assert rows.Y is not None
    part = copy.copy(rows)
    part.Y = rows.engine.map(_columns, rows.Y, labels=judged)
    part.n_labels, part.label_names = len(judged), tuple(rows.label_names[k] for k in judged)
    fitted = clone(model)
    on_fit(fitted)
    fitted.fit(part)
    scores, confidence = (_here(rows, array) for array in (fitted.out_of_fold_scores_, fitted.label_confidence_))
    return evidence_of(fitted, np.array(scores), confidence.data, Y)


def row_keys(rows: RowBlocks) -> IntArray:
    """Return numbers that identify the rows by their content."""
    return np.concatenate(rows.engine.reduce(_keys, rows.X))


def _here(rows: RowBlocks, array: Any) -> Any:
    client = getattr(rows.engine, "client", None)
    return array.compute() if client is None else array.compute(scheduler=client)


def _columns(Y: CSR, *, labels: IntArray) -> CSR:
    return as_csr(Y[:, labels])


def _keys(X: Features) -> list[Any]:
    return [row_hash(X)]
