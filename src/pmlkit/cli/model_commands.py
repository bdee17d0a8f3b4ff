"""The commands on models: ``fit``, ``predict`` and ``evaluate``."""

import csv
import io
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from pmlkit._files import replacing
from pmlkit._words import counted, guarded
from pmlkit.cli.output import Misuse, Watch, emit, fact_table, heading, listing, printable, quoted, say
from pmlkit.cli.params import Columns, Common, Force, InputFile, Jobs, MethodName, MethodParams, ModelFile, Reading
from pmlkit.cli.steps import build_model, check_output, follow, limit_jobs, load, load_model, open_table
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit._typing import CSR, FloatArray
    from pmlkit.data import PMLDataset
    from pmlkit.methods.base import BasePML

__all__ = ["evaluate", "fit", "predict"]

_BLOCK_ROWS = 2**14
_MANY_EMPTY = 0.1  # share of rows without any predicted label above which a note is printed


@dataclass(frozen=True)
class _Rows:
    """Features in the form that a model knows, and how the user names the rows."""

    X: Any
    names: Sequence[int | str] | None

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])


def fit(
    file: InputFile,
    reading: Reading,
    columns: Columns,
    common: Common,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PATH", help="The model file, .skops.", show_default=False)
    ],
    method: MethodName = "ClearPML",
    param: MethodParams = None,
    merge_labels: Annotated[
        bool,
        typer.Option(
            "--merge-labels", metavar="", help="Treat label names that differ only in case, spaces or hyphens as one."
        ),
    ] = False,
    jobs: Jobs = None,
    force: Force = False,
) -> None:
    """Learn a model from the candidate labels of a data set, or of a table of texts, categories and numbers."""
    import numpy as np

    from pmlkit.data import Table
    from pmlkit.persistence import save

    model = build_model(method, param)
    limit_jobs(jobs, model)
    check_output(output, file, *reading.files, *columns.files, force=force)
    source = load(file, reading, columns, merge_labels=merge_labels)
    features = None
    if isinstance(source, Table):
        source.check_labels()
        with Watch("turning columns into numbers"):
            features = "; ".join(source.features)
        if source.feature_columns.left_out:
            say("note", f"columns that are not used: {quoted(source.feature_columns.left_out)}.")
    started = time.perf_counter()
    _fit(model, *((source, None) if isinstance(source, Table) else (_named_rows(source), source.Y)))
    seconds = time.perf_counter() - started
    model.label_names_ = np.asarray(source.label_names, dtype=object)
    save(model, output, force=force)
    n_iter = getattr(model, "n_iter_", None)
    facts: dict[str, object] = {
        "written": output,
        "method": type(model).__name__,
        "rows": source.Y.shape[0],
        "features": source.X.shape[1],
        "columns": features,
        "labels": source.Y.shape[1],
        "candidates": int(source.Y.nnz),
        "iterations": None if n_iter is None else int(n_iter),
        "seconds": round(seconds, 3),
    }
    shown = {key.replace("_", " "): value for key, value in facts.items() if value is not None}
    emit(facts | {"parameters": model.get_params()}, fact_table(shown), as_json=common.json)


def _named_rows(data: "PMLDataset") -> Any:
    """Return the features to fit on; dense ones with names as a DataFrame, so that the model remembers the names."""
    from scipy import sparse

    return data.X if not data.has_feature_names or sparse.issparse(data.X) else _frame(data.X, data.feature_names)


def _frame(X: Any, names: Sequence[str]) -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=list(names), copy=False)


def _fit(model: "BasePML", X: Any, y: Any) -> None:
    from sklearn.utils._param_validation import InvalidParameterError

    with Watch(f"fitting {type(model).__name__}") as watch:
        follow(model, watch)
        try:
            model.fit(X, y)
        except InvalidParameterError as error:
            raise Misuse(str(error)) from error
        finally:
            if hasattr(model, "set_callbacks"):
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
    top: Annotated[
        int | None,
        typer.Option(min=1, metavar="K", help="Write the K best labels of each row with their scores, one per line."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Predict the labels whose score is at least this, instead of by the model's own threshold."),
    ] = None,
    jobs: Jobs = None,
    force: Force = False,
) -> None:
    """Predict the labels of every row of a file, or the labels' scores.

    New rows need no labels: of a table, the columns that the model was fitted on are taken.
    """
    if output is None and common.json:
        raise Misuse("--json describes what was written: name the CSV file with -o.")
    if scores and (top is not None or threshold is not None):
        raise Misuse("--scores writes all scores: leave --top and --threshold out.")
    if output is not None:
        check_output(output, model, file, *reading.files, *columns.files, force=force)
    limit_jobs(jobs)
    fitted = load_model(model)
    rows = _read_rows(fitted, file, reading, columns)
    names = [str(name) for name in fitted.label_names_]
    between = reading.sep or ";"
    clash = next((name for name in names if between in name), None)
    first = "row" if rows.names is None else "id"
    if scores:
        header, blocks = [first, *names], _score_lines(fitted, rows)
    elif top is not None:
        header, blocks = [first, "rank", "label", "score"], _top_lines(fitted, rows, top, threshold)
    elif clash is not None:
        raise DataError(f"The label {clash!r} contains the separator {between!r}: choose another with --sep.")
    else:
        header, blocks = [first, "labels"], _label_lines(fitted, rows, between, threshold)
    if output is None:
        _write_csv(sys.stdout, header, blocks, printable if sys.stdout.isatty() else str)
        return
    with replacing(output) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        n_labels, n_empty = _write_csv(text, header, blocks)
        text.detach()
    facts: dict[str, object] = {"written": output, "rows": rows.n_rows}
    if scores:
        facts["scores_per_row"] = len(names)
    else:
        facts |= {"labels_per_row": n_labels / rows.n_rows, "rows_without_labels": n_empty}
        if n_empty > _MANY_EMPTY * rows.n_rows:
            share = f"{100 * n_empty / rows.n_rows:.0f} % of the rows get no label"
            say("note", f"{share}: they may be unlike those that the model was fitted to. --top 3 shows the best.")
    shown = {key.replace("_", " "): value for key, value in facts.items()}
    emit(facts, fact_table(shown), as_json=common.json)


def _read_rows(model: "BasePML", file: Path, reading: Reading, columns: Columns) -> _Rows:
    """Read rows to predict; a table needs no labels if the model knows its columns by name."""
    from pmlkit.data.files.registry import TABLE_FORMATS, find_format

    knows_table = hasattr(model, "table_reader_")
    is_table = (reading.format or find_format(file)) in TABLE_FORMATS
    if knows_table or (is_table and hasattr(model, "feature_names_in_") and not reading.labels):
        if not knows_table:
            _refuse_columns(columns)
        table = open_table(file, reading, columns, like=model)
        with Watch("turning columns into numbers"):
            return _Rows(table.X, table.row_names)
    _refuse_columns(columns)
    return _matching_rows(model, _as_dataset(load(file, reading)), file)


def _refuse_columns(columns: Columns) -> None:
    if columns.options:
        raise Misuse("This model knows its features by themselves: leave --text and the like out.")


def _as_dataset(source: Any) -> "PMLDataset":
    from pmlkit.data import Table

    data: PMLDataset = source.to_dataset() if isinstance(source, Table) else source
    return data


def _matching_rows(model: "BasePML", data: "PMLDataset", path: Path) -> _Rows:
    """Return the features of a data set as the model knows them: named ones are put in its order."""
    from scipy import sparse

    names = list(getattr(model, "feature_names_in_", ()))
    if names and data.has_feature_names:
        position = {name: j for j, name in enumerate(data.feature_names)}
        missing = [name for name in names if name not in position]
        if missing:
            raise DataError(f"{path.name} lacks {len(missing)} of the model's features: {quoted(missing)}.")
        X = data.X[:, [position[name] for name in names]]
        return _Rows(_frame(X.toarray() if sparse.issparse(X) else X, names), data.ids)
    if data.n_features != model.n_features_in_:
        raise DataError(
            f"The model was fitted on {model.n_features_in_} features, but {path.name} has {data.n_features}. "
            "Use a file of the same kind as the one it was fitted on."
        )
    return _Rows(_frame(data.X, names) if names and not sparse.issparse(data.X) else data.X, data.ids)


_Block = tuple[list[list[Any]], int, int]
"""Lines, how many labels are in them, and how many rows got none."""


def _write_csv(
    stream: TextIO, header: Sequence[str], blocks: Iterator[_Block], cell: Callable[[object], str] = str
) -> tuple[int, int]:
    """Write the lines of all blocks, each cell as `cell` has it, and return the sums of what the blocks counted."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(cell(guarded(name)) for name in header)
    n_labels = n_empty = 0
    for lines, labels, empty in blocks:
        writer.writerows([cell(guarded(value)) for value in line] for line in lines)
        n_labels += labels
        n_empty += empty
    return n_labels, n_empty


def _blocks(rows: _Rows) -> Iterator[tuple[Any, Sequence[int | str]]]:
    """Yield some rows at a time and their names, showing how far it is."""
    with Watch("predicting", total=rows.n_rows) as watch:
        for start in range(0, rows.n_rows, _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, rows.n_rows)
            part = rows.X.iloc[start:stop] if hasattr(rows.X, "iloc") else rows.X[start:stop]
            yield part, range(start, stop) if rows.names is None else rows.names[start:stop]
            watch.advance(stop - start)


def _label_lines(model: "BasePML", rows: _Rows, between: str, threshold: float | None) -> Iterator[_Block]:
    from scipy import sparse

    names = [str(name) for name in model.label_names_]
    for X, ids in _blocks(rows):
        sets = sparse.csr_array(model.predict(X) if threshold is None else model.decision_function(X) >= threshold)
        found = [names[k] for k in sets.indices.tolist()]
        ends = sets.indptr.tolist()
        lines = [[name, between.join(found[i:j])] for name, i, j in zip(ids, ends, ends[1:], strict=False)]
        yield lines, int(sets.nnz), sum(not line[1] for line in lines)


def _score_lines(model: "BasePML", rows: _Rows) -> Iterator[_Block]:
    for X, ids in _blocks(rows):
        scores = model.decision_function(X).tolist()
        yield [[name, *map(repr, row)] for name, row in zip(ids, scores, strict=True)], 0, 0


def _top_lines(model: "BasePML", rows: _Rows, k: int, threshold: float | None) -> Iterator[_Block]:
    import numpy as np

    names = [str(name) for name in model.label_names_]
    for X, ids in _blocks(rows):
        scores = model.decision_function(X)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        lines: list[list[Any]] = []
        n_empty = 0
        for name, row, labels in zip(ids, scores, best.tolist(), strict=True):
            kept = [j for j in labels if threshold is None or row[j] >= threshold]
            lines += [[name, rank, names[j], repr(float(row[j]))] for rank, j in enumerate(kept, start=1)]
            n_empty += not kept
        yield lines, len(lines), n_empty


def evaluate(model: ModelFile, file: InputFile, reading: Reading, columns: Columns, common: Common) -> None:
    """Measure a model on rows whose true labels are known.

    --option truth= names the column of true label sets, or those of 0/1. Labels that the model does not know count
    as missed.
    """
    from pmlkit.metrics import evaluate as measure

    fitted = load_model(model)
    names = [str(name) for name in fitted.label_names_]
    if hasattr(fitted, "table_reader_"):
        table = open_table(file, reading, columns, like=fitted)
        labels = reading.options(file).get("labels", fitted.table_reader_.labels)
        truth, unknown = table.truth_for(names, labels)
        data = None
    else:
        _refuse_columns(columns)
        data = _as_dataset(load(file, reading))
        truth, unknown = _aligned_truth(data, names, file)
    if unknown and not truth[:, : len(names)].nnz:
        raise DataError(
            f"the model knows none of the true labels: they are {quoted(unknown, 6)}, it knows {quoted(names, 6)}.",
            path=file.name,
        )
    rows = _Rows(table.X, None) if data is None else _matching_rows(fitted, data, file)
    if unknown:
        many = counted(
            len(unknown),
            "true label is unknown to the model and counts",
            "true labels are unknown to the model and count",
        )
        say("note", f"{many} as missed: {quoted(unknown, 6)}.")
    with Watch("predicting"):
        scores, sets = _with_unknown(fitted.decision_function(rows.X), fitted.predict(rows.X), len(unknown))
        found = measure(truth, scores, sets)
    facts: dict[str, object] = {"model": model, "file": file, "method": type(fitted).__name__, "rows": rows.n_rows}
    facts |= {**found, "unknown_labels": list(unknown)}
    title = f"{type(fitted).__name__} on the {counted(rows.n_rows, 'row')} of {file.name}"
    dropped = int(found["rows_dropped"])
    note = (
        f"{counted(dropped, 'row has', 'rows have')} no true label or all of them: no ranking loss, one-error and "
        "average precision there."
        if dropped
        else "No row was left out."
    )
    emit(facts, heading(title), listing(found), note, as_json=common.json)


def _aligned_truth(data: "PMLDataset", names: Sequence[str], path: Path) -> "tuple[CSR, tuple[str, ...]]":
    """Return the truth with its columns in the order of the model's labels, unknown ones last."""
    import numpy as np
    from scipy import sparse

    if data.truth is None:
        raise DataError(
            f"{path.name} has no truth, so there is nothing to measure against. Most benchmark files (.npz, .mat) have "
            "it inside; in a table, its columns have to be named.",
            option="truth",
            value="'true_*'",
        )
    unknown = tuple(name for name in data.label_names if name not in names)
    number = {name: k for k, name in enumerate([*names, *unknown])}
    order = np.array([number[name] for name in data.label_names])
    cells = data.truth.tocoo()
    return sparse.csr_array((cells.data, (cells.row, order[cells.col])), shape=(data.n_samples, len(number))), unknown


def _with_unknown(scores: "FloatArray", sets: Any, n_unknown: int) -> tuple[Any, Any]:
    """Add columns for labels that the model does not know: scored below all others, and never given."""
    import numpy as np
    from scipy import sparse

    if not n_unknown:
        return scores, sets
    lowest = np.full((len(scores), n_unknown), scores.min() - 1.0)
    absent = sparse.csr_array((len(scores), n_unknown), dtype=np.uint8)
    return np.hstack([scores, lowest]), sparse.hstack([sparse.csr_array(sets), absent], format="csr")
