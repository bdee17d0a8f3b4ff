"""The command ``clean``: from a table with messy labels to the same table with better ones, and a report."""

import csv
import io
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from pmlkit._files import replacing, together
from pmlkit._words import counted, guarded
from pmlkit.cli.output import Misuse, Watch, emit, fact_table, heading, plain_table, printable, quoted
from pmlkit.cli.params import Columns, Common, Force, InputFile, Jobs, MethodParams, Reading
from pmlkit.cli.steps import build_model, check_output, find_suspects, limit_jobs, load, write_labels
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit._typing import BoolArray, IntArray
    from pmlkit.cleaning import CleaningResult
    from pmlkit.data import PMLDataset, Table

__all__ = ["clean"]

_N_SHOWN = 10
_N_MISSING = 200
_ANSWERS: dict[str, Any] = {"auto": "auto", "yes": True, "no": False}
_LOG_BLOCK = 1000  # lines that are made at a time
# Comparing the rows of all removed labels with a million others would take hours: so many lines name similar rows.
_COMPARED_AT_LEAST, _COMPARED_PAIRS = 1000, 5 * 10**8


@dataclass(frozen=True)
class Outputs:
    """Where the results of ``clean`` go."""

    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH", help="The cleaned table, in the format of FILE."),
    ] = None
    report: Annotated[Path | None, typer.Option(metavar="PATH", help="A page (.html) that says what was found.")] = None
    log: Annotated[Path | None, typer.Option(metavar="PATH", help="A table (.csv) of what was removed, and why.")] = (
        None
    )
    suspects: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A table (.csv) of all doubtful labels, and why.")
    ] = None

    missing: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="A table (.csv) of labels that may be missing: a list to look through."),
    ] = None

    @property
    def given(self) -> dict[str, Path]:
        """Those that were asked for, by what they are."""
        kinds = {
            "cleaned table": self.output, "report": self.report, "log": self.log, "suspects": self.suspects,
            "may be missing": self.missing,
        }  # fmt: skip
        return {kind: path for kind, path in kinds.items() if path is not None}


def clean(
    file: InputFile,
    reading: Reading,
    columns: Columns,
    common: Common,
    outputs: Outputs,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only say what would be done; write no cleaned table.")
    ] = False,
    precision: Annotated[
        float,
        typer.Option(
            help="Remove labels only while at least this share of them is estimated to be wrong (above 0, at most 1)."
        ),
    ] = 0.9,
    may_empty_rows: Annotated[
        bool, typer.Option("--may-empty-rows", metavar="", help="Allow a row to lose all of its labels.")
    ] = False,
    merge_labels: Annotated[
        bool,
        typer.Option(
            "--merge-labels", metavar="", help="Treat label names that differ only in case, spaces or hyphens as one."
        ),
    ] = False,
    min_rows: Annotated[int, typer.Option(min=1, help="Do not judge labels that are on fewer rows.")] = 5,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            "-m",
            metavar="NAME",
            help="The method that judges the labels, see `pmlkit methods`; auto: ClearPML.",
        ),
    ] = "auto",
    param: MethodParams = None,
    pred_probs: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Out-of-sample probabilities of your own model (.npy, .npz, Parquet), used instead of a method. One "
            "column per label: in the order of the label columns, of the sorted names of label sets, or named.",
        ),
    ] = None,
    every_row_has_a_label: Annotated[
        str, typer.Option(metavar="auto|yes|no", help="Whether each row has a true label among its labels.")
    ] = "auto",
    answers: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Answers of a person (.csv: row or id, label, answer): labels called wrong are removed, labels called "
            "right are kept, and the estimates use both.",
        ),
    ] = None,
    jobs: Jobs = None,
    force: Force = False,
) -> None:
    """Find the labels of a table that are probably wrong, and remove those that can be removed safely.

    Every other byte of the table stays as it is, and the input is never touched.
    """
    if not outputs.given and not dry_run:
        raise Misuse("Nothing would be written: name the cleaned table with -o, or use --dry-run.")
    _check_precision(precision)
    if param and method == "auto":
        raise Misuse("--param needs --method: parameters belong to a method.")
    if every_row_has_a_label not in _ANSWERS:
        raise Misuse(f"--every-row-has-a-label must be auto, yes or no, got {every_row_has_a_label!r}.")
    if pred_probs is not None and method != "auto":
        raise Misuse("--pred-probs and --method exclude each other: either your probabilities judge, or a method.")
    beside = [] if pred_probs is None else [pred_probs]
    for path in outputs.given.values():
        check_output(path, file, *reading.files, *columns.files, *beside, force=force)
    if len({path.resolve() for path in outputs.given.values()}) < len(outputs.given):
        raise Misuse("--output, --report, --log, --suspects and --missing must be different files.")
    judge: Any = "auto" if method == "auto" else build_model(method, param)
    limit_jobs(jobs, None if method == "auto" else judge)
    started = time.perf_counter()
    table = load(file, reading, columns, merge_labels=merge_labels, keep_table=True)
    target = None if dry_run else outputs.output
    _check_table(table, target)
    options = {"every_row_has_a_label": _ANSWERS[every_row_has_a_label]}
    if pred_probs is not None:
        options["pred_probs"] = _read_probabilities(pred_probs, table)
    result = find_suspects(table, judge, min_rows, answers, **options)
    keep_one = not may_empty_rows
    removed = result.removable(precision=precision, keep_at_least_one=keep_one)
    with together():
        if target is not None:
            with Watch(f"writing {target.name}"):
                write_labels(table, target, result.cleaned(precision=precision, keep_at_least_one=keep_one))
        if outputs.log is not None:
            _write_cells(outputs.log, result, result.order[removed[result.order]])
        if outputs.suspects is not None:
            _write_cells(outputs.suspects, result, result.order[result.doubt[result.order] > 0.5])
        if outputs.missing is not None:
            with Watch(f"writing {outputs.missing.name}"):
                _write_missing(outputs.missing, result)
        if outputs.report is not None:
            with Watch(f"writing {outputs.report.name}"):
                title = f"How clean are the labels of {file.name}?"
                result.report(outputs.report, title=title, precision=precision, keep_at_least_one=keep_one, force=force)
    advice = result.advice(precision=precision, keep_at_least_one=keep_one, table=file.name)
    _print(result, removed, table, outputs, common, advice, dry_run, time.perf_counter() - started)


def _check_precision(precision: float) -> None:
    if not 0 < precision <= 1:
        hint = f" For {precision:g} % write --precision {precision / 100:g}." if 1 < precision <= 100 else ""
        raise Misuse(f"--precision must be above 0 and at most 1, got {precision:g}.{hint}")


def _read_probabilities(path: Path, table: "Table | PMLDataset") -> Any:
    """Return the probabilities; columns of Parquet files keep their names, which may be in another order."""
    from pmlkit.data.files.side_features import read_embeddings

    values = read_embeddings(path, table.Y.shape[0])
    if path.suffix.lower() != ".parquet":
        return values
    import pandas as pd
    from pyarrow import parquet

    names = parquet.read_schema(path).names
    return pd.DataFrame(values, columns=names) if len(names) == values.shape[1] else values


def _check_table(table: "Table | PMLDataset", target: Path | None) -> None:
    """Refuse labels that cannot be judged, and a cleaned table in another format, before the work begins."""
    from pmlkit.data import Table

    if isinstance(table, Table):
        table.check_labels()
    if isinstance(table, Table) and target is not None:
        try:
            table.check_same_format(target)
        except DataError as error:
            raise Misuse(str(error)) from error


def _write_cells(path: Path, result: "CleaningResult", cells: "IntArray") -> None:
    with replacing(path) as stream, Watch(f"writing {path.name}", total=len(cells)) as watch:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        csv.writer(text, lineterminator="\n").writerows(_cell_lines(result, cells, watch))
        text.detach()


def _write_missing(path: Path, result: "CleaningResult") -> None:
    found = result.missing(_N_MISSING)
    names = result.row_names
    found.insert(1, "id", found["row"] if names is None else [names[row] for row in found["row"]])
    found[["id", "label"]] = found[["id", "label"]].map(guarded)
    found["score"] = found["score"].map("{:.4f}".format)
    with replacing(path) as stream:
        stream.write(found.to_csv(index=False, lineterminator="\n").encode("utf-8", errors="replace"))


def _cell_lines(result: "CleaningResult", cells: "IntArray", watch: Watch) -> Iterator[list[Any]]:
    """Yield a header and one line per label, with its confidence, its rank among all and the reasons against it."""
    import numpy as np

    yield ["row", "id", "label", "confidence", "rank", "reasons"]
    rank = np.empty(result.Y.nnz, dtype=np.int64)
    rank[result.order] = np.arange(1, len(result.order) + 1)
    n_compared = max(_COMPARED_AT_LEAST, _COMPARED_PAIRS // result.Y.shape[0])
    for start in range(0, len(cells), _LOG_BLOCK):
        part = cells[start : start + _LOG_BLOCK]
        reasons = result.reasons(part, n_similar=10 if start < n_compared else 0)
        for cell, reason in zip(part.tolist(), reasons, strict=True):
            row = int(result.rows[cell])
            name = row if result.row_names is None else result.row_names[row]
            label = result.label_names[int(result.Y.indices[cell])]
            words = name, label, f"{1 - result.doubt[cell]:.4f}", int(rank[cell]), reason.sentence()
            yield [row, *map(guarded, words)]
        watch.advance(len(part))


def _print(
    result: "CleaningResult",
    removed: "BoolArray",
    table: "Table | PMLDataset",
    outputs: Outputs,
    common: Common,
    advice: str,
    dry_run: bool,
    seconds: float,
) -> None:
    n_removed = int(removed.sum())
    overall = result.noise_rate_.overall
    touched = len(set(result.rows[removed].tolist()))
    features = getattr(table, "features", [counted(table.X.shape[1], "feature")])
    chosen = getattr(table, "feature_columns", None)
    left_out = dict(chosen.left_out or {}) if chosen is not None else {}
    written = {kind: path for kind, path in outputs.given.items() if not (dry_run and path == outputs.output)}
    facts: dict[str, object] = {
        "rows": result.Y.shape[0],
        "labels": result.Y.shape[1],
        "candidates": int(result.Y.nnz),
        "unlabelled_rows": int((result.Y.sum(axis=1) == 0).sum()),
        "noise_rate": overall.rate,
        "noise_rate_low": overall.low,
        "noise_rate_high": overall.high,
        "suspects": int((result.doubt > 0.5).sum()),
        "removed": n_removed,
        "rows_changed": touched,
        "random_mistakes": result.random_mistakes_.rate,
        "random_mistakes_low": result.random_mistakes_.low,
        "random_mistakes_high": result.random_mistakes_.high,
        "advice": advice,
        "dry_run": dry_run,
        "method": result.method,
        "features": features,
        "id_column": getattr(table, "id_column", None),
        "columns_left_out": left_out,
        "rare_labels": [result.label_names[k] for k in result.rare_labels],
        "kept_labels": [result.label_names[k] for k in result.kept_labels],
        "written": list(written.values()),
        "seconds": round(seconds, 1),
    }
    if common.json:
        emit(facts, as_json=True)
        return
    shown = {
        "rows": facts["rows"],
        "labels": f"{result.Y.nnz:,} given, of {counted(result.Y.shape[1], 'kind')}",
        "features": "; ".join(features),
        "judged by": result.method,
        "random mistakes": f"about {_percent(result.random_mistakes_)} of the labels "
        f"(between {_percent(result.random_mistakes_.low)} and {_percent(result.random_mistakes_.high)})",
        "all mistakes": f"between {_percent(overall.low)} and {_percent(overall.high)}, "
        f"at a guess {_percent(overall)}",
        "would remove" if dry_run else "removed": f"{counted(n_removed, 'label')} in {counted(touched, 'row')}",
        "advice": advice,
    }  # fmt: skip
    if left_out:
        shown["not used"] = quoted(left_out, 6)
    suspects = plain_table("row", "label", "confidence", "why", right=(2,))
    top = result.top_suspects(_N_SHOWN)
    reasons = result.reasons(result.order[:_N_SHOWN])
    for row, label, confidence, reason in zip(top["row"], top["label"], top["confidence"], reasons, strict=True):
        name = row if result.row_names is None else result.row_names[row]
        suspects.add_row(
            Text(printable(name)), Text(printable(label), style="bold"), Text(f"{confidence:.2f}"),
            Text(printable(reason.short)),
        )  # fmt: skip
    emit(facts, fact_table(shown | written), "", heading("The most suspicious labels"), suspects, as_json=False)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
