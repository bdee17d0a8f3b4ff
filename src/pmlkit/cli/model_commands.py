"""The commands on methods and models: ``methods``, ``fit``, ``predict`` and ``evaluate``."""

import inspect
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

from pmlkit._words import counted, listing, printable
from pmlkit.cli.options import (
    Common,
    Force,
    Jobs,
    MethodName,
    MethodParams,
    ModelFile,
    Running,
    Source,
    argument,
    build_model,
    check_output,
    find_method,
    flag,
    follow,
    limit_jobs,
    load,
    load_model,
    misuse,
    open_table,
    option,
    running,
)
from pmlkit.cli.output import (
    Misuse,
    Watch,
    emit,
    emit_facts,
    fact_table,
    heading,
    metric_table,
    percent_hint,
    plain_table,
    say,
)

if TYPE_CHECKING:
    from pmlkit.blocks import RowBlocks
    from pmlkit.data import PMLDataset, Table
    from pmlkit.methods.base import BasePML

_MANY_EMPTY = 0.1  # share of rows without any predicted label above which a note is printed


def fit(
    source: Source,
    common: Common,
    where: Running,
    output: Annotated[Path, option("The model file (.skops).", "PATH", "--output", "-o", show_default=False)],
    method: MethodName = "ClearPML",
    param: MethodParams = None,
    jobs: Jobs = None,
    force: Force = False,
) -> None:
    """Learn a model from the candidate labels of a data set, or of a table of texts, categories and numbers."""
    from pmlkit.blocks import Executor, RowBlocks, holds_blocks
    from pmlkit.data import PMLDataset, Table
    from pmlkit.persistence import save

    model = build_model(method, param)
    limit_jobs(jobs, model)
    check_output(output, *source.files, force=force)
    table = load(source)
    if isinstance(table, Table):
        table.check_labels()
        with Watch("turning columns into numbers"):
            table.X  # noqa: B018  a step of its own in the progress display
    if not isinstance(table, PMLDataset) and (unused := table.feature_columns.unused()):
        say("note", f"columns that are not used: {unused}.")
    started = time.perf_counter()
    rows: RowBlocks | Table | PMLDataset = table
    with running(where) as place:
        if holds_blocks(table) or place is not None:
            with Watch("reading blocks of rows"):
                rows = (place or Executor()).rows(table)
        _fit(model, rows)
        n_candidates = rows.n_candidates if isinstance(rows, RowBlocks) else rows.Y.nnz
    seconds = time.perf_counter() - started
    save(model, output, force=force)
    n_iter = getattr(model, "n_iter_", None)
    facts: dict[str, object] = {
        "written": output,
        "method": type(model).__name__,
        "rows": rows.n_rows if isinstance(rows, RowBlocks) else rows.Y.shape[0],
        "features": model.n_features_in_,
        "columns": None if isinstance(table, PMLDataset) else "; ".join(table.features),
        "labels": len(model.label_names_),
        "candidates": int(n_candidates),
        "iterations": None if n_iter is None else int(n_iter),
        "seconds": round(seconds, 3),
    }
    shown = {key.replace("_", " "): value for key, value in facts.items() if value is not None}
    emit(facts | {"parameters": model.get_params()}, fact_table(shown), as_json=common.json)


def _fit(model: "BasePML", rows: "Table | PMLDataset | RowBlocks") -> None:
    from sklearn.utils._param_validation import InvalidParameterError

    with misuse(InvalidParameterError), Watch(f"fitting {type(model).__name__}") as watch:
        follow(model, watch)
        try:
            model.fit(rows)
        finally:
            if hasattr(model, "set_callbacks"):
                model.set_callbacks()


def predict(
    model: ModelFile,
    source: Source,
    common: Common,
    where: Running,
    output: Annotated[
        Path | None, option("The CSV file; else standard output.", "PATH", "--output", "-o", show_default=False)
    ] = None,
    scores: Annotated[bool, flag("Write every label's score instead of the label sets.", "--scores")] = False,
    probabilities: Annotated[
        bool,
        flag(
            "Use probabilities as scores (if the model has them, see `pmlkit info`).",
            "--probabilities",
        ),
    ] = False,
    top: Annotated[int | None, option("Write the K best labels of each row and their scores.", "K", min=1)] = None,
    threshold: Annotated[
        float | None,
        option("Predict the labels with at least this score, not those by the model's own rule.", "SCORE"),
    ] = None,
    jobs: Jobs = None,
    force: Force = False,
) -> None:
    """Predict the labels of every row of a file, or the labels' scores.

    New rows need no labels: of a table, the columns that the model was fitted on are taken.
    """
    from pmlkit.blocks import Executor, holds_blocks
    from pmlkit.data import PMLDataset
    from pmlkit.predictions import write_predictions

    if output is None and common.json:
        raise Misuse("--json describes what was written: name the CSV file with -o.")
    if scores and (top is not None or threshold is not None):
        raise Misuse("--scores writes all scores: leave --top and --threshold out.")
    if output is not None:
        check_output(output, model, *source.files, force=force)
    limit_jobs(jobs)
    fitted = load_model(model)
    if probabilities and not hasattr(fitted, "predict_proba"):
        raise Misuse(f"{type(fitted).__name__} has no probabilities: use --scores.")
    if threshold is not None and hasattr(fitted, "predict_proba") and not 0 <= threshold <= 1:
        hint = percent_hint("threshold", threshold) if 1 < threshold <= 100 else ""
        raise Misuse(f"The scores of this model are between 0 and 1, got --threshold {threshold:g}.{hint}")
    rows = _read_rows(fitted, source)
    with running(where) as place, Watch("predicting") as watch:
        if holds_blocks(rows):
            (place or Executor()).rows(rows)
        n_rows = rows.n_samples if isinstance(rows, PMLDataset) else rows.n_rows
        watch.expect(n_rows)
        found = write_predictions(
            fitted,
            rows,
            sys.stdout if output is None else output,
            scores=scores,
            probabilities=probabilities,
            top=top,
            threshold=threshold,
            sep=source.sep or ";",
            force=True,  # whether it may be replaced was asked before the work began
            place=place,
            on_rows=watch.advance,
            cell=printable if output is None and sys.stdout.isatty() else str,
        )
    if found.n_empty > _MANY_EMPTY * n_rows:
        share = f"{100 * found.n_empty / n_rows:.0f} % of the rows get no label"
        say("note", f"{share}: they may be unlike those that the model was fitted to. --top 3 shows the best.")
    if output is None:
        return
    facts: dict[str, object] = {"written": output, "rows": n_rows}
    if scores or (probabilities and top is None and threshold is None):
        facts["scores_per_row"] = len(fitted.label_names_)
    else:
        facts |= {"labels_per_row": found.n_labels / n_rows, "rows_without_labels": found.n_empty}
    emit_facts(facts, as_json=common.json)


def _read_rows(model: "BasePML", source: Source, *, needs_labels: bool = False) -> "Table | PMLDataset":
    """Read rows as the model knows them: a table of its columns, or a data set."""
    from pmlkit.data import Table
    from pmlkit.data.files.base import TABLE_FORMATS, find_format, matching_files

    is_many = matching_files(source.file) is not None
    if needs_labels and is_many:
        raise Misuse("evaluate reads one file: give the path of one.")
    if hasattr(model, "table_reader_"):
        table = open_table(source, like=model)
        if not needs_labels and isinstance(table, Table):
            with Watch("turning columns into numbers"):
                table.X  # noqa: B018  a step of its own in the progress display
        return table
    if source.features:
        raise Misuse("This model knows its features by themselves: leave --text and the like out.")
    is_table = is_many or (source.format or find_format(source.file)) in TABLE_FORMATS
    if is_table and hasattr(model, "feature_names_in_") and not source.labels and not needs_labels:
        return open_table(source, like=model)
    found = load(source)
    return found.to_dataset() if isinstance(found, Table) else found


def evaluate(model: ModelFile, source: Source, common: Common) -> None:
    """Measure a model on rows whose true labels are known.

    Name the true labels by --option truth=COLUMN, a column of label sets or a pattern of columns of 0/1. Those that the
    model does not know count as missed.
    """
    from pmlkit.predictions import evaluate_model

    fitted = load_model(model)
    data = _read_rows(fitted, source, needs_labels=True)
    with Watch("predicting"):
        evaluation = evaluate_model(fitted, data, labels=source.reading.get("labels"))
    found, unknown, n_rows = evaluation.metrics, evaluation.unknown_labels, evaluation.n_rows
    if unknown:
        many = counted(
            len(unknown),
            "true label is unknown to the model and counts",
            "true labels are unknown to the model and count",
        )
        say("note", f"{many} as missed: {listing(unknown, 6)}.")
    facts: dict[str, object] = {"model": model, "file": source.file, "method": type(fitted).__name__, "rows": n_rows}
    facts |= {**found, "unknown_labels": list(unknown)}
    title = f"{type(fitted).__name__} on the {counted(n_rows, 'row')} of {source.file.name}"
    dropped = int(found["rows_dropped"])
    note = (
        f"{counted(dropped, 'row has', 'rows have')} no true label or all of them: no ranking loss, one-error and "
        "average precision there."
        if dropped
        else "No row was left out."
    )
    emit(facts, heading(title), metric_table(found), note, as_json=common.json)


_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\S.*?) : .*\n((?:[ ]{4}.*\n|\n)*)", re.MULTILINE)
_FORMULA = re.compile(r"[:.]?\s*^\.\. math::\n(?:\n|[ ]+.*\n?)*", re.MULTILINE)
_ROLE = re.compile(r":\w+:`~?([^`]*)`")


def methods(
    common: Common, name: Annotated[str | None, argument("Show this method and its parameters.", "NAME")] = None
) -> None:
    """List the methods, or show one with its parameters."""
    if name is None:
        _list_all(common)
    else:
        _show_one(find_method(name), common)


def _list_all(common: Common) -> None:
    from pmlkit.methods import all_methods, summary

    lines = {name: _plain(summary(method)) for name, method in all_methods().items()}
    table = plain_table("method", "what it does")
    for name, line in lines.items():
        table.add_row(Text(name, style="bold"), Text(line))
    hint = Text("pmlkit methods NAME shows the parameters of one.", style="dim")
    emit(
        {"methods": [{"name": name, "summary": line} for name, line in lines.items()]}, table, hint, as_json=common.json
    )


def _show_one(method: "type[BasePML]", common: Common) -> None:
    doc = inspect.cleandoc(method.__doc__ or "")
    explained = _parameters(doc)
    defaults = {name: p.default for name, p in inspect.signature(method).parameters.items()}
    about = _plain(_prose(doc))
    facts = {
        "name": method.__name__,
        "summary": about.partition("\n")[0],
        "parameters": [
            {"name": name, "default": default, "meaning": explained.get(name, "")} for name, default in defaults.items()
        ],
    }
    table = plain_table("parameter", "default", "meaning")
    for name, default in defaults.items():
        table.add_row(Text(name, style="bold"), Text(_as_typed(default)), Text(explained.get(name, "")))
    heading = Text(method.__name__, style="bold")
    example = Text(f"pmlkit fit FILE -m {method.__name__} -p {next(iter(defaults))}=... -o model.skops", style="dim")
    emit(facts, heading, Text(about), table, example, as_json=common.json)


def _prose(doc: str) -> str:
    """Return the text before the first section, without formulas."""
    first = _SECTION.search(doc)
    prose = doc[: first.start()] if first else doc
    prose = _FORMULA.sub(".\n\n", prose)
    paragraphs = [" ".join(part.split()) for part in prose.strip().split("\n\n") if part.strip()]
    return "\n".join(paragraphs)


def _parameters(doc: str) -> dict[str, str]:
    """Return the meaning of each parameter from a numpydoc docstring."""
    sections = list(_SECTION.finditer(doc))
    for position, section in enumerate(sections):
        if section[1] == "Parameters":
            end = sections[position + 1].start() if position + 1 < len(sections) else len(doc)
            body = doc[section.end() : end] + "\n"
            return {
                name.strip(): _plain(" ".join(entry[2].split()))
                for entry in _ENTRY.finditer(body)
                for name in entry[1].split(",")
            }
    return {}


def _plain(text: str) -> str:
    """Return docstring text without its markup."""
    return _ROLE.sub(r"\1", text).replace("``", "").replace("`", "")


def _as_typed(value: Any) -> str:
    """Return a default as one would type it after ``-p name=``."""
    return printable(str(value).lower() if isinstance(value, bool) or value is None else value)
