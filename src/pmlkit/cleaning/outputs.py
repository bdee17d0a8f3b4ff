"""What was found as plain facts and as CSV tables: doubtful labels, removed labels, labels that may be missing."""

import csv
import io
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pmlkit._files import check_target, replacing
from pmlkit._typing import IntArray
from pmlkit._words import guarded

if TYPE_CHECKING:
    from pmlkit.cleaning.result import CleaningResult

__all__ = ["facts", "write_csv"]

_DOUBTFUL = 0.5
_BLOCK = 1000  # lines that are made at a time
# Comparing the rows of all removed labels with a million others would take hours: so many lines name similar rows.
_COMPARED_AT_LEAST, _COMPARED_PAIRS = 1000, 5 * 10**8


def facts(result: "CleaningResult", *, precision: float, keep_at_least_one: bool) -> dict[str, Any]:
    """Return the numbers of a result, see `CleaningResult.facts`."""
    removed = result.removable(precision=precision, keep_at_least_one=keep_at_least_one)
    overall, random = result.noise_rate_.overall, result.random_mistakes_
    return {
        "rows": result.Y.shape[0],
        "labels": result.Y.shape[1],
        "candidates": int(result.Y.nnz),
        "unlabelled_rows": int((result.Y.sum(axis=1) == 0).sum()),
        "noise_rate": overall.rate,
        "noise_rate_low": overall.low,
        "noise_rate_high": overall.high,
        "suspects": int((result.doubt > _DOUBTFUL).sum()),
        "removed": int(removed.sum()),
        "rows_changed": len(np.unique(result.rows[removed])),
        "random_mistakes": random.rate,
        "random_mistakes_low": random.low,
        "random_mistakes_high": random.high,
        "method": result.method,
        "rare_labels": [result.label_names[k] for k in result.rare_labels],
        "kept_labels": [result.label_names[k] for k in result.kept_labels],
    }


def write_csv(
    result: "CleaningResult",
    path: str | os.PathLike[str],
    which: str,
    *,
    precision: float,
    keep_at_least_one: bool,
    k: int,
    force: bool,
    on_lines: Callable[[int], Any],
) -> None:
    """Write a table of labels, see `CleaningResult.to_csv`."""
    if which == "missing":
        lines = _missing_lines(result, k)
    elif which == "suspects":
        lines = _cell_lines(result, result.order[result.doubt[result.order] > _DOUBTFUL], on_lines)
    elif which == "removed":
        removed = result.removable(precision=precision, keep_at_least_one=keep_at_least_one)
        lines = _cell_lines(result, result.order[removed[result.order]], on_lines)
    else:
        raise ValueError(f"which must be 'suspects', 'removed' or 'missing', got {which!r}.")
    with replacing(check_target(path, force=force)) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="", write_through=True)
        csv.writer(text, lineterminator="\n").writerows(lines)
        text.detach()


def _name(result: "CleaningResult", row: int) -> Any:
    return row if result.row_names is None else result.row_names[row]


def _cell_lines(result: "CleaningResult", cells: IntArray, on_lines: Callable[[int], Any]) -> Iterator[list[Any]]:
    """Yield a header and one line per label, with its confidence, its rank among all and the reasons against it."""
    yield ["row", "id", "label", "confidence", "rank", "reasons"]
    rank = np.empty(result.Y.nnz, dtype=np.int64)
    rank[result.order] = np.arange(1, len(result.order) + 1)
    n_compared = max(_COMPARED_AT_LEAST, _COMPARED_PAIRS // result.Y.shape[0])
    for start in range(0, len(cells), _BLOCK):
        part = cells[start : start + _BLOCK]
        reasons = result.reasons(part, n_similar=10 if start < n_compared else 0)
        for cell, reason in zip(part.tolist(), reasons, strict=True):
            row = int(result.rows[cell])
            label = result.label_names[int(result.Y.indices[cell])]
            confidence = f"{1 - result.doubt[cell]:.4f}"
            words = _name(result, row), label, confidence, int(rank[cell]), reason.sentence()
            yield [row, *map(guarded, words)]
        on_lines(len(part))


def _missing_lines(result: "CleaningResult", k: int) -> Iterator[list[Any]]:
    yield ["row", "id", "label", "score", "rank", "reasons"]
    for row, label, score, rank, reasons in result.missing(k).itertuples(index=False):
        yield [row, guarded(_name(result, row)), guarded(label), f"{score:.4f}", rank, reasons]
