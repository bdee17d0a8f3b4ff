"""The command ``clean``: from a table with messy labels to the same table with better ones, and a report."""

import csv
import io
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer
from rich.text import Text

from pmlkit._files import replacing, together
from pmlkit.cli.columns import Columns, is_table, open_for, read_table_rows, table_labels
from pmlkit.cli.errors import Misuse
from pmlkit.cli.models import build_model
from pmlkit.cli.output import clean as clean_text
from pmlkit.cli.output import emit, fact_table, heading, plain_table, quoted, say
from pmlkit.cli.params import Common, Force
from pmlkit.cli.progress import FitProgress, Watch
from pmlkit.cli.reading import InputFile, Reading
from pmlkit.cli.targets import check_output
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit._typing import BoolArray
    from pmlkit.cleaning import CleaningResult

__all__ = ["clean"]

_N_SHOWN = 10
_LOG_BLOCK = 1000  # lines that are made at a time
# Comparing the rows of all removed labels with a million others would take hours: so many lines name similar rows.
_COMPARED_AT_LEAST, _COMPARED_PAIRS = 1000, 5 * 10**8


@dataclass(frozen=True)
class _Outputs:
    """Where the results go."""

    table: Path | None
    report: Path | None
    log: Path | None

    @property
    def given(self) -> list[Path]:
        """Those that were asked for."""
        return [target for target in (self.table, self.report, self.log) if target is not None]

    def check(self, *inputs: Path, force: bool) -> None:
        """Refuse targets that cannot be written, or that are an input, before the work begins."""
        for target in self.given:
            check_output(target, *inputs, force=force)
        if len({target.resolve() for target in self.given}) < len(self.given):
            raise Misuse("--output, --report and --log must be different files.")


def clean(
    file: InputFile,
    reading: Reading,
    columns: Columns,
    common: Common,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH", help="The cleaned table, in the format of FILE."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A page (.html) that says what was found.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A table (.csv) of what was removed, and why.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only say what would be done; write no cleaned table.")
    ] = False,
    precision: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Remove only as much as is wrong with this estimated precision."),
    ] = 0.9,
    may_empty_rows: Annotated[
        bool, typer.Option("--may-empty-rows", metavar="", help="Allow a row to lose all of its labels.")
    ] = False,
    merge_labels: Annotated[
        bool,
        typer.Option("--merge-labels", metavar="", help="Take names that differ in case, blanks or hyphens for one."),
    ] = False,
    min_rows: Annotated[int, typer.Option(min=1, help="Leave labels alone that are on fewer rows.")] = 5,
    method: Annotated[str, typer.Option("--method", "-m", metavar="NAME", help="Who judges: auto, or a method.")] = (
        "auto"
    ),
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="KEY=VALUE", help="A parameter of the method, as often as needed."),
    ] = None,
    force: Force = False,
) -> None:
    """Find the labels of a table that are probably wrong, and remove those that can be removed safely.

    Every other byte of the table stays as it is, and the input is never touched.
    """
    if output is None and report is None and log is None and not dry_run:
        raise Misuse("Nothing would be written: name the cleaned table with -o, or use --dry-run.")
    if not 0 < precision <= 1:
        raise Misuse(f"--precision must be above 0 and at most 1, got {precision:g}.")
    if param and method == "auto":
        raise Misuse("--param needs --method: parameters belong to a method.")
    outputs = _Outputs(None if dry_run else output, report, log)
    outputs.check(file, *reading.files, *columns.files, force=force)
    judge: Any = "auto" if method == "auto" else build_model(method, param or ())
    started = time.perf_counter()
    if is_table(file, reading, columns):
        if outputs.table is not None:
            _check_same_format(file, reading, outputs.table)
        source: _Source = _TableSource(file, reading, columns, merge_labels)
    else:
        source = _DatasetSource(file, reading)
    result = source.judge(judge, min_rows)
    removed = result.removable(precision=precision, keep_at_least_one=not may_empty_rows)
    with together():
        if outputs.table is not None:
            source.write(outputs.table, removed)
        if outputs.log is not None:
            _write_log(outputs.log, result, removed)
        if outputs.report is not None:
            with Watch(f"writing {outputs.report.name}"):
                result.report(
                    outputs.report, title=f"How clean are the labels of {file.name}?", precision=precision,
                    keep_at_least_one=not may_empty_rows, force=force,
                )  # fmt: skip
    _print(result, removed, source, outputs, common, precision, dry_run, time.perf_counter() - started)


class _Source(Protocol):
    """What is cleaned: features and labels that come from a file, and go into another."""

    described: list[str]
    left_out: dict[str, str]

    def judge(self, method: Any, min_rows: int) -> "CleaningResult":
        """Judge every label."""

    def write(self, path: Path, removed: "BoolArray") -> None:
        """Write what was read, without the removed labels."""


def _check_same_format(source: Path, reading: Reading, output: Path) -> None:
    from pmlkit.data.reading import FORMATS
    from pmlkit.tables.opening import table_format

    mine = reading.format or table_format(source)
    others = {ending for name, kind in FORMATS.items() if name != mine for ending in kind.suffixes}
    if table_format(output) not in (None, mine) or output.suffix.lower() in others:
        raise Misuse(f"The cleaned table is written as it was read: {str(output)!r} must end in .{mine}, too.")


class _TableSource:
    def __init__(self, path: Path, reading: Reading, columns: Columns, merge: bool) -> None:
        self._path, self._columns, self._reading = path, columns, reading
        with Watch(f"reading {path.name}"):
            self._table = open_for(path, reading)
            self._labels = table_labels(self._table, path, reading, merge=merge)
            self._rows = read_table_rows(self._table, path, reading, columns, labels=self._labels.columns)
        self.left_out = dict(self._rows.columns.left_out or {})
        for name in self._rows.columns.text:
            empty = int((self._rows.frame[name].str.strip() == "").sum())
            if empty:
                say("note", f"column {name!r} is empty in {empty:,} row(s): there is nothing to judge their labels by.")
        for name in self._rows.columns.numbers:
            absent = int(self._rows.frame[name].isna().sum())
            if absent:
                say("note", f"column {name!r} lacks {absent:,} number(s): they count as the mean.")

    def judge(self, method: Any, min_rows: int) -> "CleaningResult":
        from pmlkit.tables.model import vectorized
        from pmlkit.tables.vectorize import describe, make_vectorizer

        rows = self._rows
        vectorizer = None
        if rows.columns.names:
            vectorizer = make_vectorizer(rows.columns, self._columns.settings(), self._table.n_rows)
        with Watch("turning columns into numbers"):
            try:
                X = vectorized(vectorizer, rows.frame, rows.side, fit=True)
            except DataError as error:
                raise DataError(f"{self._path.name}: {error}") from error
        self.described = [] if vectorizer is None else describe(vectorizer)
        if rows.side is not None:
            self.described.append(f"{self._columns.side}: {rows.side.shape[1]:,} numbers")
        return _judge(X, self._labels.Y, self._labels.names, rows.ids, rows.media, method, min_rows)

    def write(self, path: Path, removed: "BoolArray") -> None:
        from pmlkit.tables.opening import write_table

        with Watch(f"writing {path.name}"):
            write_table(self._table, path, self._labels.edits(removed))


class _DatasetSource:
    def __init__(self, path: Path, reading: Reading) -> None:
        self._data = reading.read(path)
        self.described = [f"{self._data.n_features:,} features of {path.name}"]
        self.left_out: dict[str, str] = {}

    def judge(self, method: Any, min_rows: int) -> "CleaningResult":
        data = self._data
        return _judge(data.X, data.Y, data.label_names, data.ids, data.media, method, min_rows)

    def write(self, path: Path, removed: "BoolArray") -> None:
        from scipy import sparse

        from pmlkit.data import write

        Y = self._data.Y
        kept = sparse.csr_array(((~removed).astype("uint8"), Y.indices.copy(), Y.indptr.copy()), shape=Y.shape)
        kept.eliminate_zeros()
        try:
            # The truth need not be among the candidates that are left.
            write(self._data.replace(Y=kept, truth=None), path, force=True)
        except DataError:
            raise
        except ValueError as error:
            raise Misuse(str(error)) from error


def _judge(X: Any, Y: Any, names: Any, ids: Any, media: Any, method: Any, min_rows: int) -> "CleaningResult":
    from sklearn.utils._param_validation import InvalidParameterError

    from pmlkit.cleaning import clean as find_suspects
    from pmlkit.cleaning.result import ENOUGH_ROWS

    with Watch("judging labels") as watch:

        def follow(model: Any) -> None:
            if hasattr(model, "set_callbacks"):  # scikit-learn 1.9 and newer
                model.set_callbacks(FitProgress(watch))

        try:
            result = find_suspects(
                X, Y, method=method, min_rows=min_rows, label_names=names, row_names=ids, media=media, on_fit=follow
            )
        except InvalidParameterError as error:
            raise Misuse(str(error)) from error
    if len(result.rare_labels):
        rare = [names[k] for k in result.rare_labels]
        say("note", f"{len(rare)} label(s) are on too few rows to be judged, and left alone: {quoted(rare, 6)}.")
    if len(result.kept_labels):
        few = f"{len(result.kept_labels)} label(s) are on fewer than {ENOUGH_ROWS} rows"
        say("note", f"{few}: judged, but nothing of them is removed unseen.")
    return result


def _write_log(path: Path, result: "CleaningResult", removed: "BoolArray") -> None:
    with replacing(path) as stream, Watch(f"writing {path.name}", total=int(removed.sum())) as watch:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        csv.writer(text, lineterminator="\n").writerows(_log_lines(result, removed, watch))
        text.detach()


def _log_lines(result: "CleaningResult", removed: "BoolArray", watch: Watch) -> Iterator[list[Any]]:
    import numpy as np

    cells = result.order[removed[result.order]]
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
            yield [row, name, label, f"{1 - result.doubt[cell]:.4f}", int(rank[cell]), reason.sentence()]
        watch.advance(len(part))


def _print(
    result: "CleaningResult",
    removed: "BoolArray",
    source: _Source,
    outputs: _Outputs,
    common: Common,
    precision: float,
    dry_run: bool,
    seconds: float,
) -> None:
    n_removed = int(removed.sum())
    overall = result.noise_rate_.overall
    touched = len(set(result.rows[removed].tolist()))
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
        "advice": result.advice(precision=precision),
        "dry_run": dry_run,
        "method": result.method,
        "features": source.described,
        "columns_left_out": source.left_out,
        "rare_labels": [result.label_names[k] for k in result.rare_labels],
        "kept_labels": [result.label_names[k] for k in result.kept_labels],
        "written": [path for path in (outputs.table, outputs.report, outputs.log) if path is not None],
        "seconds": round(seconds, 1),
    }
    if common.json:
        emit(facts, as_json=True)
        return
    shown = {
        "rows": facts["rows"],
        "labels": f"{result.Y.nnz:,} given, of {result.Y.shape[1]:,} kinds",
        "features": "; ".join(source.described),
        "judged by": result.method,
        "random mistakes": f"about {_percent(result.random_mistakes_)} of the labels "
        f"(between {_percent(result.random_mistakes_.low)} and {_percent(result.random_mistakes_.high)})",
        "all mistakes": f"between {_percent(overall.low)} and {_percent(overall.high)}, "
        f"at a guess {_percent(overall)}",
        "would remove" if dry_run else "removed": f"{n_removed:,} label{'' if n_removed == 1 else 's'} in {touched:,} "
        f"row{'' if touched == 1 else 's'}",
        "advice": result.advice(precision=precision),
    }  # fmt: skip
    if source.left_out:
        shown["not used"] = quoted(source.left_out, 6)
    for kind, path in (("cleaned table", outputs.table), ("report", outputs.report), ("log", outputs.log)):
        if path is not None:
            shown[kind] = path
    table = plain_table("row", "label", "confidence", "why", right=(2,))
    top = result.top_suspects(_N_SHOWN)
    reasons = result.reasons(result.order[:_N_SHOWN])
    for row, label, confidence, reason in zip(top["row"], top["label"], top["confidence"], reasons, strict=True):
        name = row if result.row_names is None else result.row_names[row]
        table.add_row(
            Text(clean_text(name)), Text(clean_text(label), style="bold"), Text(f"{confidence:.2f}"),
            Text(clean_text(reason.short)),
        )  # fmt: skip
    emit(facts, fact_table(shown), "", heading("The most suspicious labels"), table, as_json=False)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
