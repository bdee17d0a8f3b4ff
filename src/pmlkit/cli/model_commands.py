"""The commands on models: ``fit``, ``predict`` and ``evaluate``."""

import csv
import io
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from pmlkit._files import replacing
from pmlkit.cli.columns import Columns
from pmlkit.cli.errors import Misuse
from pmlkit.cli.metric_tables import listing
from pmlkit.cli.models import (
    ModelFile,
    Rows,
    build_model,
    matching_rows,
    matching_truth,
    read_rows,
    rows_of,
)
from pmlkit.cli.output import clean, emit, fact_table, heading
from pmlkit.cli.params import Common, Force
from pmlkit.cli.progress import FitProgress, Watch
from pmlkit.cli.reading import InputFile, Reading
from pmlkit.cli.table_models import TrainingTable, load_fitted, rows_to_evaluate, rows_to_predict, wants_table
from pmlkit.cli.targets import check_output
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit.data import PMLDataset
    from pmlkit.methods.base import BasePML

__all__ = ["evaluate", "fit", "predict"]

_BLOCK_ROWS = 2**14


def _complete_method(incomplete: str) -> list[tuple[str, str]]:
    from pmlkit.methods import all_methods, summary

    lower = incomplete.lower()
    return [(name, summary(method)) for name, method in all_methods().items() if name.lower().startswith(lower)]


def fit(
    file: InputFile,
    reading: Reading,
    columns: Columns,
    common: Common,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PATH", help="The model file, .skops.", show_default=False)
    ],
    method: Annotated[
        str,
        typer.Option("--method", "-m", metavar="NAME", help="See `pmlkit methods`.", autocompletion=_complete_method),
    ] = "ClearPML",
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            metavar="KEY=VALUE",
            help="A parameter of the method, as often as needed; `pmlkit methods NAME` lists them.",
        ),
    ] = None,
    merge_labels: Annotated[
        bool,
        typer.Option("--merge-labels", metavar="", help="Take names that differ in case, blanks or hyphens for one."),
    ] = False,
    force: Force = False,
) -> None:
    """Learn a model from the candidate labels of a data set, or of a table of texts, categories and numbers."""
    import numpy as np

    from pmlkit.persistence import save

    model = build_model(method, param or ())
    check_output(output, file, *reading.files, *columns.files, force=force)
    table = TrainingTable(file, reading, columns, merge=merge_labels) if wants_table(file, reading, columns) else None
    if table is not None:
        X, Y, names = table.X, table.Y, table.names
    else:
        if merge_labels:
            raise Misuse("--merge-labels is for tables whose feature columns are named, such as --text body.")
        data = _read_numbers(file, reading)
        X, Y, names = rows_of(data), data.Y, data.label_names
    started = time.perf_counter()
    _fit(model, X, Y)
    seconds = time.perf_counter() - started
    model.label_names_ = np.asarray(names, dtype=object)
    save(model if table is None else table.with_columns(model), output, force=force)
    n_iter = getattr(model, "n_iter_", None)
    facts: dict[str, object] = {
        "written": output,
        "method": type(model).__name__,
        "rows": Y.shape[0],
        "features": X.shape[1],
        "columns": None if table is None else table.described,
        "labels": Y.shape[1],
        "candidates": int(Y.nnz),
        "iterations": None if n_iter is None else int(n_iter),
        "seconds": round(seconds, 3),
    }
    shown = {key.replace("_", " "): value for key, value in facts.items() if value is not None}
    emit(facts | {"parameters": model.get_params()}, fact_table(shown), as_json=common.json)


def _read_numbers(file: Path, reading: Reading) -> "PMLDataset":
    """Read a data set; who gave a table of texts instead is told how."""
    try:
        return reading.read(file)
    except DataError as error:
        if any(words in str(error) for words in ("must hold numbers", "is of type string")):
            raise DataError(f"{error} If it is a feature, name its kind: --text, --categories or --numbers.") from error
        raise


def _fit(model: "BasePML", X: Any, Y: Any) -> None:
    from sklearn.utils._param_validation import InvalidParameterError

    with Watch(f"fitting {type(model).__name__}") as watch:
        has_callbacks = hasattr(model, "set_callbacks")  # scikit-learn 1.9 and newer
        if has_callbacks:
            model.set_callbacks(FitProgress(watch))
        try:
            model.fit(X, Y)
        except InvalidParameterError as error:
            raise Misuse(str(error)) from error
        finally:
            if has_callbacks:
                model.set_callbacks()


def predict(
    model: ModelFile,
    file: InputFile,
    reading: Reading,
    columns: Columns,
    common: Common,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="PATH", help="The CSV file; without it, standard output.", show_default=False
        ),
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", metavar="", help="Write every label's score instead of the label sets.")
    ] = False,
    force: Force = False,
) -> None:
    """Give every row of a file its labels, or the labels' scores.

    New rows need no labels: of a table, the columns that the model was fitted on are taken.
    """
    if output is None and common.json:
        raise Misuse("--json describes what was written: name the CSV file with -o.")
    if output is not None:
        check_output(output, model, file, *reading.files, *columns.files, force=force)
    loaded = load_fitted(model)
    if hasattr(loaded, "vectorizer"):
        fitted, rows = loaded.model, rows_to_predict(loaded, file, reading, columns)
    else:
        _check_no_columns(columns)
        fitted, rows = loaded, read_rows(loaded, file, reading)
    between = reading.sep or ";"
    names = [str(name) for name in fitted.label_names_]
    clash = next((name for name in names if between in name), None)
    if clash is not None and not scores:
        raise DataError(f"The label {clash!r} contains the separator {between!r}: choose another with --sep.")
    lines = _score_lines(fitted, rows) if scores else _label_lines(fitted, rows, between)
    header = ["row" if rows.ids is None else "id", *(names if scores else ["labels"])]
    if output is None:
        _write_csv(sys.stdout, header, lines, clean if sys.stdout.isatty() else str)
        return
    with replacing(output) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        n_labels = _write_csv(text, header, lines)
        text.detach()
    facts: dict[str, object] = {"written": output, "rows": rows.n_rows}
    facts |= {"scores_per_row": len(names)} if scores else {"labels_per_row": n_labels / rows.n_rows}
    shown = {key.replace("_", " "): value for key, value in facts.items()}
    emit(facts, fact_table(shown), as_json=common.json)


def _check_no_columns(columns: Columns) -> None:
    if columns.given:
        raise Misuse("This model knows its features by themselves: leave --text and the like out.")


def _write_csv(
    stream: TextIO,
    header: Sequence[str],
    blocks: Iterator[tuple[list[list[Any]], int]],
    cell: Callable[[object], str] = str,
) -> int:
    """Write the rows of all blocks, each cell as `cell` has it, and return the sum of what the blocks counted."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(cell, header))
    total = 0
    for lines, count in blocks:
        writer.writerows(map(cell, line) for line in lines)
        total += count
    return total


def _blocks(rows: Rows) -> Iterator[tuple[Any, Sequence[int | str]]]:
    """Yield some rows at a time and their names, showing how far it is."""
    with Watch("predicting", total=rows.n_rows) as watch:
        for start in range(0, rows.n_rows, _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, rows.n_rows)
            part = rows.X.iloc[start:stop] if hasattr(rows.X, "iloc") else rows.X[start:stop]
            yield part, range(start, stop) if rows.ids is None else rows.ids[start:stop]
            watch.advance(stop - start)


def _label_lines(model: "BasePML", rows: Rows, between: str) -> Iterator[tuple[list[list[Any]], int]]:
    from scipy import sparse

    names = [str(name) for name in model.label_names_]
    for X, ids in _blocks(rows):
        sets = sparse.csr_array(model.predict(X))
        found = [names[k] for k in sets.indices.tolist()]
        ends = sets.indptr.tolist()
        lines = [[name, between.join(found[i:j])] for name, i, j in zip(ids, ends, ends[1:], strict=False)]
        yield lines, int(sets.nnz)


def _score_lines(model: "BasePML", rows: Rows) -> Iterator[tuple[list[list[Any]], int]]:
    for X, ids in _blocks(rows):
        scores = model.decision_function(X).tolist()
        yield [[name, *map(repr, row)] for name, row in zip(ids, scores, strict=True)], 0


def evaluate(model: ModelFile, file: InputFile, reading: Reading, columns: Columns, common: Common) -> None:
    """Measure a model on rows whose true labels are known.

    For a model of a table's own columns, --option truth= names the column of true label sets, or those of 0/1.
    """
    from pmlkit.metrics import evaluate as measure

    loaded = load_fitted(model)
    if hasattr(loaded, "vectorizer"):
        rows, truth = rows_to_evaluate(loaded, file, reading, columns)
        fitted: BasePML = loaded.model
    else:
        _check_no_columns(columns)
        fitted = loaded
        data = reading.read(file)
        truth = matching_truth(fitted, data, file)
        rows = matching_rows(fitted, data, file)
    with Watch("predicting"):
        found = measure(truth, fitted.decision_function(rows.X), fitted.predict(rows.X))
    facts: dict[str, object] = {"model": model, "file": file, "method": type(fitted).__name__, "rows": rows.n_rows}
    facts |= found
    title = f"{type(fitted).__name__} on the {rows.n_rows:,} rows of {file.name}"
    dropped = int(found["rows_dropped"])
    note = (
        f"{dropped:,} rows have no true label or all of them: no ranking loss, one-error and average precision there."
        if dropped
        else "No row was left out."
    )
    emit(facts, heading(title), listing(found), note, as_json=common.json)
