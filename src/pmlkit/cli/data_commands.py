"""The commands on data sets: ``info``, ``convert`` and ``noise``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from pmlkit._words import did_you_mean
from pmlkit.cli.errors import Misuse, spell
from pmlkit.cli.output import emit, fact_table, heading, number, plain_table, printable, say
from pmlkit.cli.params import Common, Force, check_output
from pmlkit.cli.progress import Watch
from pmlkit.cli.reading import FORMAT_NAMES, Columns, InputFile, Reading, load
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit.data import PMLDataset

__all__ = ["convert", "info", "noise"]

_N_LABELS_SHOWN = 12
_KINDS = ("uniform", "correlated", "confusable")
_ROUNDINGS = ("stochastic", "ceil", "round", "floor", "global")

OutputFile = Annotated[
    Path,
    typer.Argument(
        metavar="OUT",
        help="The file to write; its ending selects the format (.npz keeps everything).",
        show_default=False,
    ),
]


def info(file: InputFile, reading: Reading, columns: Columns, common: Common) -> None:
    """Describe a data set or table: its size, its labels, and its noise where the truth is known."""
    import numpy as np

    data, features = _read(file, reading, columns)
    counts = np.bincount(data.Y.indices, minlength=data.n_labels)
    false = None if data.truth is None else counts - np.bincount(data.truth.indices, minlength=data.n_labels)
    described = data.describe()
    facts: dict[str, object] = {
        "file": file,
        "name": data.name,
        "provenance": data.provenance,
        **described,
        "columns": features,
        "label_counts": dict(zip(data.label_names, counts.tolist(), strict=True)),
        "false_candidates_by_label": None
        if false is None
        else dict(zip(data.label_names, false.tolist(), strict=True)),
    }
    names = {key: key.replace("_", " ") for key in described}
    shown = {"name": data.name, "from": data.provenance} | {names[key]: value for key, value in described.items()}
    if features:
        shown["columns"] = "; ".join(features)
    header = ("label", "rows") if false is None else ("label", "rows", "of them false")
    order = np.argsort(-counts, kind="stable")[:_N_LABELS_SHOWN]
    title = "Labels" if len(order) == data.n_labels else f"The {len(order)} most frequent of {data.n_labels:,} labels"
    table = plain_table(*header, right=(1, 2))
    for k in order.tolist():
        cells = [number(int(counts[k]))] + ([] if false is None else [number(int(false[k]))])
        table.add_row(Text(printable(data.label_names[k])), *map(Text, cells))
    emit(facts, fact_table(shown), "", heading(title), table, as_json=common.json)


def convert(
    file: InputFile,
    out: OutputFile,
    reading: Reading,
    columns: Columns,
    common: Common,
    out_format: Annotated[
        str | None, typer.Option(metavar="NAME", help="Instead of the ending: arff, csv, libsvm, npz, parquet, tsv.")
    ] = None,
    out_labels: Annotated[
        str | None,
        typer.Option(metavar="WHICH", help="For arff and libsvm, which hold one label block: candidates or truth."),
    ] = None,
    force: Force = False,
) -> None:
    """Write a data set in another format; the texts and categories of a table become numbers."""
    _check_choice(out_format, FORMAT_NAMES, "--out-format")
    _check_choice(out_labels, ("candidates", "truth"), "--out-labels")
    check_output(out, file, *reading.files, *columns.files, force=force)
    data, _ = _read(file, reading, columns)
    options = {} if out_labels is None else {"labels": out_labels}
    _write(data, out, out_format, options)
    facts = {"written": out, **_size(data, out)}
    emit(facts, fact_table(facts), as_json=common.json)


def noise(
    file: InputFile,
    out: OutputFile,
    reading: Reading,
    columns: Columns,
    common: Common,
    ratio: Annotated[
        float | None,
        typer.Option(min=0.0, help="False candidates per true label; 0.5 is the papers' 50 %.", show_default="1.0"),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="Which labels: uniform (any), correlated (that go with the true ones), confusable (that a model "
            "finds plausible from the features).",
            autocompletion=lambda: list(_KINDS),
        ),
    ] = "uniform",
    rounding: Annotated[
        str,
        typer.Option(
            help=f"What becomes of fractions of a label in a row: {', '.join(_ROUNDINGS)}.",
            autocompletion=lambda: list(_ROUNDINGS),
        ),
    ] = "stochastic",
    avg_candidates: Annotated[
        int | None, typer.Option(min=1, help="Instead of --ratio: fill every row up to this number of candidates.")
    ] = None,
    extra_labels: Annotated[
        int | None, typer.Option(min=1, help="Instead of --ratio: this number of false labels per row.")
    ] = None,
    row_fraction: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="With --extra-labels: on this share of the rows.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same noise.")] = 0,
    force: Force = False,
) -> None:
    """Add false candidates to true labels, for experiments whose right answer is known."""
    from pmlkit.data import noise_report

    _check_choice(kind, _KINDS, "--kind")
    _check_choice(rounding, _ROUNDINGS, "--rounding")
    if sum(amount is not None for amount in (ratio, avg_candidates, extra_labels)) > 1:
        raise Misuse("Only one of --ratio, --avg-candidates and --extra-labels can say how many labels to add.")
    if ratio is None and avg_candidates is None and extra_labels is None:
        ratio = 1.0
    check_output(out, file, *reading.files, *columns.files, force=force)
    data, _ = _read(file, reading, columns)
    if data.truth is None:
        say("note", f"the truth of {file.name} is unknown: its labels are taken for the truth.")
    amounts = {"avg_candidates": avg_candidates, "extra_labels": extra_labels}
    options: dict[str, Any] = {name: amount for name, amount in amounts.items() if amount is not None}
    if extra_labels is not None:
        options["row_fraction"] = row_fraction
    noisy = data.with_noise(ratio, kind=kind, rounding=rounding, random_state=seed, **options)  # type: ignore[arg-type]
    _write(noisy, out, None, {})
    report = noise_report(noisy.truth, noisy.Y)
    facts: dict[str, object] = {
        "written": out,
        **_size(noisy, out),
        "false_candidates": report["false_candidates"],
        "noise_ratio": report["ratio"],
        "rows_touched": report["rows_touched"],
    }
    shown = {key.replace("_", " "): value for key, value in facts.items()}
    by_label = dict(zip(noisy.label_names, report["false_per_label"].tolist(), strict=True))
    emit(facts | {"false_candidates_by_label": by_label}, fact_table(shown), as_json=common.json)


def _read(file: Path, reading: Reading, columns: Columns) -> tuple["PMLDataset", list[str]]:
    """Read a file as a data set, and say what became of the columns of a table of texts."""
    from pmlkit.data import Table

    source = load(file, reading, columns)
    if not isinstance(source, Table):
        return source, []
    with Watch("turning columns into numbers"):
        return source.to_dataset(), source.features


def _write(data: "PMLDataset", out: Path, out_format: str | None, options: dict[str, Any]) -> None:
    from pmlkit.data import write

    try:
        # Whether the file may be replaced was asked before the work began.
        write(data, out, format=out_format, force=True, **options)
    except DataError as error:
        if error.option == "format":
            raise Misuse(error.replace(option="out_format").sentence(spell)) from error
        raise
    except ValueError as error:
        raise Misuse(str(error)) from error


def _size(data: "PMLDataset", out: Path) -> dict[str, int]:
    return {"rows": data.n_samples, "features": data.n_features, "labels": data.n_labels, "bytes": out.stat().st_size}


def _check_choice(word: str | None, allowed: tuple[str, ...], option: str) -> None:
    if word is not None and word not in allowed:
        raise Misuse(f"{option} must be one of {', '.join(allowed)}, got {word!r}.{did_you_mean(word, allowed)}")
