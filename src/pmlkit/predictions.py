"""Predictions of a fitted model for the rows of a file as a CSV table, and metrics where the truth is known."""

import contextlib
import csv
import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TextIO

import numpy as np
from scipy import sparse

from pmlkit._arrays import as_indicator
from pmlkit._files import check_target, replacing
from pmlkit._typing import CSR, FloatArray
from pmlkit._words import guarded, listing
from pmlkit.blocks import Executor
from pmlkit.data import PMLDataset, Table, TableFiles
from pmlkit.data.files.base import Names
from pmlkit.exceptions import DataError
from pmlkit.methods.base import BasePML
from pmlkit.metrics import evaluate

__all__ = ["Evaluation", "Written", "evaluate_model", "write_predictions"]

_BLOCK_ROWS = 2**14


@dataclass(frozen=True)
class Written:
    """How many rows were written, how many labels they got, and how many rows got none.

    It is made by `write_predictions`, whose example shows it.
    """

    n_rows: int
    n_labels: int
    n_empty: int


def write_predictions(
    model: BasePML,
    rows: Table | TableFiles | PMLDataset,
    target: str | os.PathLike[str] | TextIO,
    *,
    scores: bool = False,
    probabilities: bool = False,
    top: int | None = None,
    threshold: float | None = None,
    sep: str = ";",
    force: bool = False,
    place: Executor | None = None,
    on_rows: Callable[[int], Any] = lambda n_rows: None,
    cell: Callable[[object], str] = str,
) -> Written:
    """Write the predicted labels of every row as CSV, some rows at a time.

    Parameters
    ----------
    model : BasePML
        A fitted method.
    rows : Table, TableFiles or PMLDataset
        Opened with ``pmlkit.open_table(path, like=model)``, or read with `pmlkit.data.read`.
    target : path or text stream
        A file is written completely or not at all.
    scores : bool, default=False
        Write every label's score instead of the label sets.
    probabilities : bool, default=False
        Take the probabilities of ``predict_proba`` for scores; with neither `top` nor `threshold` all are written.
    top : int, optional
        Write the best labels of each row with their scores instead, one per line.
    threshold : float, optional
        Predict the labels whose score is at least this, instead of by the model's own rule.
    sep : str, default=";"
        Separator of the labels in a cell.
    force : bool, default=False
        Replace an existing file.
    place : Executor, optional
        Where the predictions are computed, see `pmlkit.blocks.executor`; by default here.
    on_rows : callable, optional
        Called with the number of rows after each block of them, to show progress.
    cell : callable, default=str
        How a value becomes text.

    Returns
    -------
    written : Written
        Numbers of rows, of labels and of rows without labels; the last two are 0 with `scores`.

    Examples
    --------
    >>> import sys
    >>> from pmlkit import MLkNN
    >>> from pmlkit.data import PMLDataset
    >>> from pmlkit.predictions import write_predictions
    >>> data = PMLDataset([[0.0], [0.0], [1.0], [1.0]], [["sea"], ["sea"], ["sky"], ["sky"]], ids=["a", "b", "c", "d"])
    >>> written = write_predictions(MLkNN(n_neighbors=1).fit(data), data, sys.stdout)
    id,labels
    a,sea
    b,sea
    c,sky
    d,sky
    """
    if scores and (top is not None or threshold is not None):
        raise ValueError("scores=True writes all scores: leave top and threshold out.")
    if probabilities and not hasattr(model, "predict_proba"):
        raise ValueError(f"{type(model).__name__} has no probabilities: use its scores.")
    scores = scores or (probabilities and top is None and threshold is None)
    if isinstance(rows, TableFiles):
        place = Executor() if place is None else place
        X, ids = place.rows(rows), rows.row_names
    else:
        X, ids = (rows.X, rows.row_names) if isinstance(rows, Table) else (rows.features_for(model), rows.ids)
    names = [str(name) for name in model.label_names_]
    first = "row" if ids is None else "id"
    header = [first, *names] if scores else [first, "labels"] if top is None else [first, "rank", "label", "score"]
    if not scores and top is None and (clash := next((name for name in names if sep in name), None)) is not None:
        raise DataError(f"the label {clash!r} contains the separator {sep!r}.", option="sep", remedy=" another one")
    n_rows = n_labels = n_empty = 0
    score = model.predict_proba if probabilities else model.decision_function
    by_scores = scores or top is not None or threshold is not None
    with _csv_stream(target, force) as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(cell(guarded(name)) for name in header)
        for answer in _answers(model, X, place, score if by_scores else None):
            start, n_rows = n_rows, n_rows + answer.shape[0]
            called = range(start, n_rows) if ids is None else ids[start:n_rows]
            if scores:
                rows_of_scores = zip(called, answer.tolist(), strict=True)
                lines, counts = [[name, *map(repr, row)] for name, row in rows_of_scores], list[int]()
            elif top is not None:
                lines, counts = _top_lines(names, answer, called, top, threshold)
            else:
                sets = answer if threshold is None else sparse.csr_array(answer >= threshold)
                lines, counts = _label_lines(names, sets, called, sep)
            writer.writerows([cell(guarded(value)) for value in line] for line in lines)
            n_labels, n_empty = n_labels + sum(counts), n_empty + counts.count(0)
            on_rows(n_rows - start)
    return Written(n_rows, n_labels, n_empty)


def _answers(model: BasePML, X: Any, place: Executor | None, score: Callable[[Any], Any] | None) -> Iterator[Any]:
    """Yield the scores, or without a function for them the label sets as indicators, of some rows at a time."""
    if place is not None:
        blocks = place.rows(X)
        for answer in place.results(model.predict(blocks) if score is None else score(blocks)):
            yield sparse.csr_array(answer) if score is None else answer
        return
    for start in range(0, X.shape[0], _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        block = X.iloc[part] if hasattr(X, "iloc") else X[part]
        yield _label_sets(model, block) if score is None else score(block)


@contextlib.contextmanager
def _csv_stream(target: str | os.PathLike[str] | TextIO, force: bool) -> Iterator[TextIO]:
    """Yield a stream of text; a file appears when it is complete."""
    if not isinstance(target, str | os.PathLike):
        yield target
        return
    with replacing(check_target(target, force=force)) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        yield text
        text.detach()


def _label_sets(model: BasePML, X: Any) -> CSR:
    """Return the predicted labels as an indicator, in whatever format the model answers."""
    sets = model.predict(X)
    if isinstance(sets, np.ndarray) and sets.ndim == 1 and not isinstance(sets[0], list | tuple | set | frozenset):
        raise ValueError("the model was fitted on a 1-D y, which has one label without a name: use predict.")
    return as_indicator(sets, names=model.label_names_)


def _label_lines(names: Sequence[str], sets: CSR, called: Sequence[Any], sep: str) -> tuple[list[list[Any]], list[int]]:
    """Return one line per row with its labels, and how many each row has."""
    given = [names[k] for k in sets.indices.tolist()]
    lines = [[name, sep.join(given[i:j])] for name, (i, j) in zip(called, pairwise(sets.indptr.tolist()), strict=True)]
    return lines, np.diff(sets.indptr).tolist()


def _top_lines(
    names: Sequence[str], scores: FloatArray, called: Sequence[Any], k: int, threshold: float | None
) -> tuple[list[list[Any]], list[int]]:
    """Return one line per row and label, the best first, and how many each row has."""
    lines: list[list[Any]] = []
    counts = []
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    for name, row, labels in zip(called, scores, best.tolist(), strict=True):
        kept = [j for j in labels if threshold is None or row[j] >= threshold]
        lines += [[name, rank, names[j], repr(float(row[j]))] for rank, j in enumerate(kept, start=1)]
        counts.append(len(kept))
    return lines, counts


@dataclass(frozen=True)
class Evaluation:
    """Metrics of a model; made by `evaluate_model`, whose example shows them.

    `metrics`: those of `pmlkit.metrics.evaluate`. `unknown_labels`: true labels that the model does not know; they
    count as missed.
    """

    metrics: dict[str, float]
    n_rows: int
    unknown_labels: tuple[str, ...]


def evaluate_model(model: BasePML, data: Table | PMLDataset, *, labels: Names | None = None) -> Evaluation:
    """Measure a model on rows whose true labels are known.

    Parameters
    ----------
    model : BasePML
        A fitted method.
    data : Table or PMLDataset
        Opened with ``pmlkit.open_table(path, like=model, truth="right_tags")``, or a data set with its truth.
    labels : str or list of str, optional
        How the label columns were called that the model was fitted on, where they were columns of 0/1, so that
        ``true_red`` is recognised as the truth of ``tag_red``; by default the model's own.

    Returns
    -------
    evaluation : Evaluation

    Examples
    --------
    >>> from pmlkit import MLkNN
    >>> from pmlkit.data import PMLDataset
    >>> from pmlkit.predictions import evaluate_model
    >>> model = MLkNN(n_neighbors=1).fit([[0.0], [0.0], [1.0], [1.0]], [["sea"], ["sea"], ["sky"], ["sky"]])
    >>> checked = PMLDataset([[0.0], [1.0]], [["sea"], ["sky", "sun"]], truth=[["sea"], ["sky", "sun"]])
    >>> found = evaluate_model(model, checked)
    >>> found.metrics["one_error"], found.metrics["hamming_loss"], found.unknown_labels
    (0.0, 0.16666666666666666, ('sun',))
    """
    names = [str(name) for name in model.label_names_]
    if isinstance(data, Table):
        reader = getattr(model, "table_reader_", None)
        truth, unknown = data.truth_for(names, labels if labels is not None or reader is None else reader.labels)
    else:
        truth, unknown = data.truth_for(names)
    if unknown and not truth[:, : len(names)].nnz:
        raise DataError(
            f"the model knows none of the true labels: they are {listing(unknown, 6)}, it knows {listing(names, 6)}.",
            path=data.name or None,
        )
    X = data.X if isinstance(data, Table) else data.features_for(model)
    sets = _label_sets(model, X)
    scores = model.decision_function(X)
    if unknown:  # scored below all others, and never predicted
        shape = len(scores), len(unknown)
        scores = np.hstack([scores, np.full(shape, scores.min() - 1.0)])
        sets = sparse.csr_array(sparse.hstack([sets, sparse.csr_array(shape, dtype=np.uint8)]))
    return Evaluation(evaluate(truth, scores, sets), truth.shape[0], unknown)
