"""The commands on data sets: ``info``, ``convert`` and ``noise``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

from pmlkit._words import printable
from pmlkit.cli.options import Common, Force, Source, argument, check_output, choice, load, load_model, misuse, option
from pmlkit.cli.output import Misuse, Watch, emit, emit_facts, fact_table, heading, number, plain_table, say, spell
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pmlkit.data import PMLDataset
    from pmlkit.data.files.features import FeatureColumns

_N_LABELS_SHOWN = 12
_WRITTEN = ("arff", "csv", "libsvm", "npz", "parquet", "tsv")

OutputFile = Annotated[Path, argument("The file to write; its ending is the format (.npz keeps everything).", "OUT")]


def info(source: Source, common: Common) -> None:
    """Describe a data set, a table or a model file.

    Of data: its size, its labels, and its noise where the truth is known. Of a model that `pmlkit fit` wrote: what it
    was trained on, how, when, and its limits.
    """
    import numpy as np

    from pmlkit.persistence import is_model_file

    if str(source.file) != "-" and is_model_file(source.file):
        _describe_model(source.file, as_json=common.json)
        return
    data, features, chosen = _read(source)
    counts = np.bincount(data.Y.indices, minlength=data.n_labels)
    false = None if data.truth is None else counts - np.bincount(data.truth.indices, minlength=data.n_labels)
    described = data.describe()
    facts: dict[str, object] = {
        "file": source.file,
        "name": data.name,
        "provenance": data.provenance,
        **described,
        "columns": features,
        "columns_left_out": dict(chosen.left_out or {}),
        "label_counts": dict(zip(data.label_names, counts.tolist(), strict=True)),
        "false_candidates_by_label": None
        if false is None
        else dict(zip(data.label_names, false.tolist(), strict=True)),
    }
    names = {key: key.replace("_", " ") for key in described}
    shown = {"name": data.name, "from": data.provenance} | {names[key]: value for key, value in described.items()}
    if features:
        shown["columns"] = "; ".join(features)
    if unused := chosen.unused():
        shown["not used"] = unused
    header = ("label", "rows") if false is None else ("label", "rows", "of them false")
    columns_shown = [counts.tolist()] + ([] if false is None else [false.tolist()])
    labels = _label_table(data.label_names, header, columns_shown)
    emit(facts, fact_table(shown), "", *labels, as_json=common.json)


def _label_table(names: "Sequence[str]", header: tuple[str, ...], numbers: "Sequence[Sequence[int]]") -> list[Any]:
    """Return a heading and a table of the most frequent labels; `numbers` starts with their rows."""
    order = sorted(range(len(names)), key=lambda k: -numbers[0][k])[:_N_LABELS_SHOWN]
    title = "Labels" if len(order) == len(names) else f"The {len(order)} most frequent of {len(names):,} labels"
    table = plain_table(*header, right=(1, 2))
    for k in order:
        table.add_row(Text(printable(names[k])), *(Text(number(column[k])) for column in numbers))
    return [heading(title), table]


def _describe_model(file: Path, *, as_json: bool) -> None:
    """Show the facts of a model card."""
    from pmlkit.methods.model_card import card_facts, limits

    model = load_model(file)
    try:
        facts = card_facts(model)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{str(file)!r} is damaged: it lacks what every model file holds.") from error
    changed = {key: facts["parameters"][key] for key in facts["changed_parameters"]}
    shown = {
        "method": f"{facts['method']}: {facts['summary'].removeprefix(facts['method'] + ': ')}",
        "trained": facts["date"],
        "rows": facts["rows"],
        "rows without candidates": facts["rows_without_candidates"],
        "features": facts["features"],
        "columns": "; ".join(facts["columns"] or ()) or None,
        "labels": facts["labels"],
        "candidates": facts["candidates"],
        "candidates per row": facts["candidates_per_row"],
        "mean confidence": facts["mean_confidence"],
        "parameters": ", ".join(f"{key}={value}" for key, value in changed.items()) or "all at their defaults",
        "found": ", ".join(
            f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
            for key, value in facts["decisions"].items()
        )
        or None,
        "predict_proba": "yes" if facts["probabilities"] else "no",
        "versions": ", ".join(f"{name} {number}" for name, number in (facts["versions"] or {}).items()),
    }
    counts = facts["label_counts"]
    labels = _label_table(list(counts), ("label", "rows"), [list(counts.values())])
    sentences = [Text(f"- {sentence}") for sentence in limits(facts)]
    known = fact_table({key: value for key, value in shown.items() if value is not None})
    emit({"file": file, **facts}, known, "", *labels, "", heading("Limits"), *sentences, as_json=as_json)


def convert(
    source: Source,
    out: OutputFile,
    common: Common,
    out_format: Annotated[
        str | None,
        choice("The format, instead of that of the ending.", _WRITTEN),
    ] = None,
    out_labels: Annotated[
        str | None, choice("For arff and libsvm, which hold one label block: which one.", ("candidates", "truth"))
    ] = None,
    force: Force = False,
) -> None:
    """Write a data set in another format; the texts and categories of a table become numbers."""
    check_output(out, *source.files, force=force)
    data, _, _ = _read(source)
    options = {} if out_labels is None else {"labels": out_labels}
    _write(data, out, out_format, options)
    emit_facts({"written": out, **_size(data, out)}, as_json=common.json)


def noise(
    source: Source,
    out: OutputFile,
    common: Common,
    ratio: Annotated[
        float | None,
        option("False candidates per true label; 0.5 is the papers' 50 %. \\[default: 1]", "RATIO", min=0.0),
    ] = None,
    kind: Annotated[
        str,
        choice(
            "Which labels: any (uniform), those that go with the true ones (correlated), or those that a model finds "
            "plausible from the features (confusable).",
            ("uniform", "correlated", "confusable"),
        ),
    ] = "uniform",
    rounding: Annotated[
        str,
        choice("How fractions of a label in a row are rounded.", ("stochastic", "ceil", "round", "floor", "global")),
    ] = "stochastic",
    avg_candidates: Annotated[
        int | None, option("Instead of --ratio: fill every row up to N candidates.", "N", min=1)
    ] = None,
    extra_labels: Annotated[int | None, option("Instead of --ratio: N false labels per row.", "N", min=1)] = None,
    row_fraction: Annotated[
        float, option("With --extra-labels: on this share of the rows.", "SHARE", min=0.0, max=1.0)
    ] = 1.0,
    seed: Annotated[int, option("The same seed gives the same noise.", "SEED", min=0)] = 0,
    force: Force = False,
) -> None:
    """Add false candidates to true labels, for experiments whose right answer is known."""
    from pmlkit.data import noise_report

    if sum(amount is not None for amount in (ratio, avg_candidates, extra_labels)) > 1:
        raise Misuse("Only one of --ratio, --avg-candidates and --extra-labels can say how many labels to add.")
    if ratio is None and avg_candidates is None and extra_labels is None:
        ratio = 1.0
    check_output(out, *source.files, force=force)
    data, _, _ = _read(source)
    if data.truth is None:
        say("note", f"the truth of {source.file.name} is unknown: its labels are taken for the truth.")
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


def _read(source: Source) -> tuple["PMLDataset", list[str], "FeatureColumns"]:
    """Read a file as a data set; return what the columns of a table became, and how they were chosen, too."""
    from pmlkit.data import Table
    from pmlkit.data.files.features import FeatureColumns

    found = load(source)
    if not isinstance(found, Table):
        return found, [], FeatureColumns()
    with Watch("turning columns into numbers"):
        return found.to_dataset(), found.features, found.feature_columns


def _write(data: "PMLDataset", out: Path, out_format: str | None, options: dict[str, Any]) -> None:
    from pmlkit.data import write

    try:
        with misuse():  # whether the file may be replaced was asked before the work began
            write(data, out, format=out_format, force=True, **options)
    except DataError as error:
        if error.option == "format":
            raise Misuse(error.replace(option="out_format").sentence(spell)) from error
        raise


def _size(data: "PMLDataset", out: Path) -> dict[str, int]:
    return {"rows": data.n_samples, "features": data.n_features, "labels": data.n_labels, "bytes": out.stat().st_size}
