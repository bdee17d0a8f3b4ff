"""The command ``clean``: from a table with messy labels to the same table with better ones, and a report."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

from pmlkit._files import together
from pmlkit._words import between, counted, listing, printable
from pmlkit.cli.options import (
    Common,
    Force,
    Jobs,
    MethodParams,
    MinRows,
    Running,
    Settling,
    Source,
    build_model,
    check_output,
    choice,
    flag,
    limit_jobs,
    load,
    misuse,
    option,
    running,
)
from pmlkit.cli.output import Misuse, Watch, emit, fact_table, heading, percent_hint, plain_table, say
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit.blocks import Executor
    from pmlkit.cleaning import CleaningResult
    from pmlkit.data import PMLDataset, Table

_N_SHOWN = 10
_ANSWERS: dict[str, Any] = {"auto": "auto", "yes": True, "no": False}


@dataclass(frozen=True)
class Outputs:
    """Where the results of ``clean`` go."""

    output: Annotated[
        Path | None,
        option("The cleaned table, in the format of FILE; for many files, a folder.", "PATH", "--output", "-o"),
    ] = None
    report: Annotated[Path | None, option("A page (.html) that says what was found.", "PATH")] = None
    log: Annotated[Path | None, option("A table (.csv) of what was removed, and why.", "PATH")] = None
    suspects: Annotated[Path | None, option("A table (.csv) of all doubtful labels, and why.", "PATH")] = None

    missing: Annotated[Path | None, option("A table (.csv) of labels that may be missing.", "PATH")] = None

    @property
    def given(self) -> dict[str, Path]:
        """Those that were asked for, by what they are."""
        kinds = {
            "cleaned table": self.output, "report": self.report, "log": self.log, "suspects": self.suspects,
            "may be missing": self.missing,
        }  # fmt: skip
        return {kind: path for kind, path in kinds.items() if path is not None}


def clean(
    source: Source,
    common: Common,
    outputs: Outputs,
    where: Running,
    dry_run: Annotated[bool, flag("Only say what would be done: write no cleaned table.", "--dry-run")] = False,
    precision: Annotated[
        float,
        option(
            "Remove labels only while at least this share is estimated to be wrong.",
            "SHARE",
        ),
    ] = 0.9,
    may_empty_rows: Annotated[bool, flag("Allow a row to lose all of its labels.", "--may-empty-rows")] = False,
    min_rows: MinRows = 5,
    method: Annotated[
        str,
        option("The method that judges, see `pmlkit methods`; auto: ClearPML.", "NAME", "--method", "-m"),
    ] = "auto",
    param: MethodParams = None,
    pred_probs: Annotated[
        Path | None,
        option(
            "Out-of-sample probabilities of your own model (.npy, .npz, Parquet), used instead of a method. One "
            "column per label: in the order of the label columns, of the sorted names of label sets, or named.",
            "PATH",
        ),
    ] = None,
    every_row_has_a_label: Annotated[str, choice("Whether every row has a true label.", tuple(_ANSWERS))] = "auto",
    empty_rows: Annotated[
        str,
        choice(
            "What rows without labels are: not labelled yet, or without a label that applies.",
            ("auto", "unlabelled", "negative"),
        ),
    ] = "auto",
    answers: Annotated[
        Path | None,
        option(
            "Answers of a person (.csv: row or id, label, answer): labels called wrong are removed, labels called "
            "right are kept, and the estimates use both.",
            "PATH",
        ),
    ] = None,
    settle: Settling = "latest",
    jobs: Jobs = None,
    force: Force = False,
) -> None:
    """Find the labels of a table that are probably wrong, and remove those that can be removed safely.

    Every other byte of the table stays as it is, and the input is never touched.
    """
    if not outputs.given and not dry_run:
        raise Misuse("Nothing would be written: name the cleaned table with -o, or use --dry-run.")
    _check_precision(precision)
    _check_judge(method, param, pred_probs, where)
    _check_outputs(outputs, [*source.files, *(path for path in (pred_probs, answers) if path is not None)], force)
    judge: Any = "auto" if method == "auto" else build_model(method, param)
    limit_jobs(jobs, None if method == "auto" else judge)
    started = time.perf_counter()
    table = load(source, keep_table=True)
    target = None if dry_run else outputs.output
    _check_table(table, target)
    with running(where) as place:
        result = find_suspects(
            table, judge, min_rows, answers, place, pred_probs=pred_probs,
            every_row_has_a_label=_ANSWERS[every_row_has_a_label], empty_rows=empty_rows, settle=settle,
        )  # fmt: skip
    chosen: dict[str, Any] = {"precision": precision, "keep_at_least_one": not may_empty_rows}
    _write(result, table, source, outputs, target, chosen, force)
    advice = result.advice(**chosen, table=source.retyped())
    _print(result, result.facts(**chosen), table, outputs, common, advice, dry_run, time.perf_counter() - started)


def _write(
    result: "CleaningResult",
    table: "Table | PMLDataset",
    source: Source,
    outputs: Outputs,
    target: Path | None,
    chosen: dict[str, Any],
    force: bool,
) -> None:
    """Write all outputs or none; `target`: of the cleaned table."""
    with together():
        if target is not None:
            with Watch(f"writing {target.name}"):
                write_labels(table, target, result.cleaned(**chosen))
        tables: dict[Any, Path | None] = {
            "removed": outputs.log, "suspects": outputs.suspects, "missing": outputs.missing
        }  # fmt: skip
        for which, csv_file in tables.items():
            if csv_file is not None:
                with Watch(f"writing {csv_file.name}") as watch:
                    result.to_csv(csv_file, which, **chosen, force=force, on_lines=watch.advance)
        if outputs.report is not None:
            with Watch(f"writing {outputs.report.name}"):
                title = f"How clean are the labels of {source.file.name}?"
                result.report(outputs.report, title=title, **chosen, table=source.retyped(), force=force)


def _check_judge(method: str, param: list[str] | None, pred_probs: Path | None, where: Running) -> None:
    if param and method == "auto":
        raise Misuse("--param needs --method: parameters belong to a method.")
    if pred_probs is not None and method != "auto":
        raise Misuse("--pred-probs and --method exclude each other: either your probabilities judge, or a method.")
    if pred_probs is not None and where.in_blocks:
        raise Misuse("--pred-probs need no fit: leave --workers, --memory and --dask out.")


def _check_outputs(outputs: Outputs, inputs: Sequence[Path], force: bool) -> None:
    for path in outputs.given.values():
        check_output(path, *inputs, force=force)
    if len({path.resolve() for path in outputs.given.values()}) < len(outputs.given):
        raise Misuse("--output, --report, --log, --suspects and --missing must be different files.")


def _check_precision(precision: float) -> None:
    if not 0 < precision <= 1:
        hint = percent_hint("precision", precision) if 1 < precision <= 100 else ""
        raise Misuse(f"--precision must be above 0 and at most 1, got {precision:g}.{hint}")


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


def _print(
    result: "CleaningResult",
    found: dict[str, Any],
    table: "Table | PMLDataset",
    outputs: Outputs,
    common: Common,
    advice: str,
    dry_run: bool,
    seconds: float,
) -> None:
    features = table.features if hasattr(table, "features") else [counted(table.X.shape[1], "feature")]
    columns = getattr(table, "feature_columns", None)
    left_out = dict(columns.left_out or {}) if columns is not None else {}
    written = {kind: path for kind, path in outputs.given.items() if not (dry_run and path == outputs.output)}
    facts: dict[str, object] = found | {
        "advice": advice,
        "dry_run": dry_run,
        "features": features,
        "id_column": getattr(table, "id_column", None),
        "columns_left_out": left_out,
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
        "random mistakes": f"about {_percent(found['random_mistakes'])} of the labels "
        f"({between(found['random_mistakes_low'], found['random_mistakes_high'])})",
        "all mistakes": f"{between(found['noise_rate_low'], found['noise_rate_high'])}, "
        f"at a guess {_percent(found['noise_rate'])}",
        "would remove" if dry_run else "removed": f"{counted(found['removed'], 'label')} in "
        f"{counted(found['rows_changed'], 'row')}",
        "advice": advice,
    }  # fmt: skip
    if columns is not None and left_out:
        shown["not used"] = columns.unused()
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


def find_suspects(
    table: "Table | PMLDataset",
    method: Any,
    min_rows: int,
    answers: Path | None = None,
    place: "Executor | None" = None,
    **options: Any,
) -> "CleaningResult":
    """Judge the labels of a table, showing how far it is, and say which labels are left alone."""
    from sklearn.utils._param_validation import InvalidParameterError

    from pmlkit.blocks import Executor, holds_blocks
    from pmlkit.cleaning import clean as judge
    from pmlkit.cleaning.injected_null import ENOUGH_ROWS

    with Watch("turning columns into numbers"):
        if holds_blocks(table):
            place = place or Executor()
        rows = table.X if place is None else place.rows(table)  # a step of its own in the progress display
    with misuse(InvalidParameterError), Watch("looking for wrong labels") as watch:
        result = judge(
            table if place is None else rows,
            method=method,
            min_rows=min_rows,
            verified=answers,
            on_progress=watch.follow,
            **options,
        )
    if len(result.rare_labels):
        rare = [result.label_names[k] for k in result.rare_labels]
        many = counted(len(rare), "label is", "labels are")
        say("note", f"{many} on too few rows to be judged, and left alone: {listing(rare, 6)}.")
    if len(result.kept_labels):
        many = counted(len(result.kept_labels), "label is", "labels are")
        say("note", f"{many} on fewer than {ENOUGH_ROWS} rows: judged, but nothing of them is removed unseen.")
    return result


def write_labels(table: "Table | PMLDataset", target: Path, kept: Any) -> None:
    """Write a table with the labels that stay, in the format that it was read in."""
    from pmlkit.data import Table, TableFiles, write

    if isinstance(table, Table | TableFiles):
        table.write(target, kept, force=True)  # whether it may be replaced was asked before the work began
    else:
        with misuse():  # the truth need not be among the candidates that are left
            write(table.replace(Y=kept, truth=None), target, force=True)
