"""Model cards: data, parameters, decisions, versions and limits of a fitted model."""

import platform
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from pmlkit._typing import CSR, FloatArray
from pmlkit._words import printable

if TYPE_CHECKING:
    from pmlkit.methods.base import BasePML

_LIBRARIES = ("scikit-learn", "numpy", "scipy")
_FEW_ROWS = 30
_N_NAMED = 12
_NOT_DECISIONS = ("n_features_in_", "threshold_offset_")


def training_record(Y: CSR, held_out: FloatArray | None) -> dict[str, Any]:
    """Return what a fit knows and the fitted attributes do not tell: date, versions, and a check on held-out scores.

    `Y`: candidates of the rows that have some. `held_out`: scores of these rows, made without the row's own labels.
    """
    record: dict[str, Any] = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "versions": _versions()}
    if held_out is not None and Y.shape[1] > 1:
        best = np.asarray(held_out).argmax(axis=1)
        record["best_is_candidate"] = float(np.mean(Y[np.arange(Y.shape[0]), best]))
        record["commonest_is_candidate"] = float(np.bincount(Y.indices, minlength=Y.shape[1]).max() / Y.shape[0])
    return record


def card_facts(model: "BasePML") -> dict[str, Any]:
    """Return the facts of a model card as plain values, for JSON."""
    confidence = model.label_confidence_
    n_samples, n_labels = confidence.shape
    per_row, per_label = np.diff(confidence.indptr), np.bincount(confidence.indices, minlength=n_labels)
    names = [str(name) for name in model.label_names_]
    record = getattr(model, "training_record_", {})
    reader = getattr(model, "table_reader_", None)
    return {
        "method": type(model).__name__,
        "class": f"{type(model).__module__}.{type(model).__qualname__}",
        "summary": (type(model).__doc__ or "").strip().partition("\n")[0],
        "date": record.get("date"),
        "rows": n_samples,
        "rows_without_candidates": int((per_row == 0).sum()),
        "features": int(model.n_features_in_),
        "columns": None if reader is None else list(reader.describe()),
        "labels": n_labels,
        "candidates": int(confidence.nnz),
        "candidates_per_row": float(confidence.nnz / n_samples),
        "share_of_cells": float(confidence.nnz / (n_samples * n_labels)),
        "mean_confidence": float(confidence.data.mean()) if confidence.nnz else None,
        "label_counts": dict(zip(names, per_label.tolist(), strict=True)),
        "labels_on_few_rows": [name for name, count in zip(names, per_label, strict=True) if count < _FEW_ROWS],
        "parameters": {key: _plain(value) for key, value in sorted(model.get_params(deep=False).items())},
        "changed_parameters": _changed(model),
        "decisions": _decisions(model),
        "probabilities": hasattr(model, "predict_proba"),
        "best_is_candidate": record.get("best_is_candidate"),
        "commonest_is_candidate": record.get("commonest_is_candidate"),
        "versions": record.get("versions"),
    }


def limits(facts: dict[str, Any], show: Callable[[object], str] = printable) -> list[str]:
    """Return the limits of a model, a sentence or two each; `show` makes the names of labels harmless."""
    found = []
    if facts["best_is_candidate"] is not None:
        found.append(
            f"Measured while training, on scores made without the row's own labels: the best label is a candidate of "
            f"its row in {100 * facts['best_is_candidate']:.0f} % of the rows; the commonest label is in "
            f"{100 * facts['commonest_is_candidate']:.0f} %. Candidates may be false, so this is no accuracy."
        )
    few = facts["labels_on_few_rows"]
    if few:
        more = f" and {len(few) - _N_NAMED} more" if len(few) > _N_NAMED else ""
        found.append(
            f"Labels on fewer than {_FEW_ROWS} rows, hardly learned: {', '.join(map(show, few[:_N_NAMED]))}{more}."
        )
    if facts["rows"] < 200:
        found.append("Fewer than 200 rows: plain logistic regression may well be better.")
    found.append("Mistakes that follow the features, as people confuse two labels, were learned as if they were true.")
    found.append("Not measured on checked labels: `pmlkit evaluate MODEL FILE` does that.")
    return found


def card_text(model: "BasePML") -> str:
    """Return the model card in Markdown; names from files are escaped."""
    facts = card_facts(model)
    rows = f"{facts['rows']:,}"
    if facts["rows_without_candidates"]:
        rows += f", {facts['rows_without_candidates']:,} of them without candidates"
    share = f"{100 * facts['share_of_cells']:.1f} % of the cells"
    candidates = f"{facts['candidates']:,}: {facts['candidates_per_row']:.2f} per row, {share}"
    data: list[tuple[str, object]] = [("rows", rows), ("features", f"{facts['features']:,}")]
    data += [("column", text) for text in facts["columns"] or ()]
    data += [("labels", f"{facts['labels']:,}"), ("candidates", candidates)]
    if facts["mean_confidence"] is not None:
        data.append(("mean confidence of a candidate", f"{facts['mean_confidence']:.2f}"))
    data.append(("trained", facts["date"] or "unknown"))
    how = [
        (key, f"{value} (default)" if key not in facts["changed_parameters"] else value)
        for key, value in facts["parameters"].items()
    ]
    counts = sorted(facts["label_counts"].items(), key=lambda item: -item[1])[:_N_NAMED]
    parts = [
        f"# Model card: {facts['method']}",
        _escaped(facts["summary"]),
        "The labels that it was trained on are candidates: only some of them are true.",
        "## Training data\n",
        _table(("", ""), data),
        f"## Labels\n\n{'All' if len(counts) == facts['labels'] else f'The {len(counts)} most frequent'}:\n",
        _table(("label", "rows"), counts),
        "## Parameters\n",
        _table(("parameter", "value"), how),
        "## What it found\n" if facts["decisions"] else "",
        _table(("attribute", "value"), facts["decisions"].items()) if facts["decisions"] else "",
        "## Limits\n",
        "\n".join(f"- {text}" for text in limits(facts, _escaped)),
        "## Versions\n",
        ", ".join(f"{name} {number}" for name, number in (facts["versions"] or {}).items()) or "unknown",
    ]
    text = "\n\n".join(part for part in parts if part)
    return re.sub(r"\n{3,}", "\n\n", text) + "\n"


def _versions() -> dict[str, str]:
    # Not an import statement: the benchmarks' fingerprint of a method covers all that it imports.
    return {"pmlkit": import_module("pmlkit").__version__, "python": platform.python_version()} | {
        name: _installed(name) for name in _LIBRARIES
    }


@cache  # reading a package's metadata takes longer than a small fit
def _installed(name: str) -> str:
    return version(name)


def _changed(model: "BasePML") -> list[str]:
    """Return the parameters that are not at their defaults."""
    try:
        default = type(model)().get_params(deep=False)
    except TypeError:  # a class of a user's whose parameters have no defaults
        default = {}
    given = model.get_params(deep=False)
    return sorted(key for key, value in given.items() if key not in default or repr(default[key]) != repr(value))


def _decisions(model: "BasePML") -> dict[str, Any]:
    """Return the fitted attributes that are single values."""
    found = {}
    for name, value in sorted(vars(model).items()):
        if name.endswith("_") and not name.startswith("_") and name not in _NOT_DECISIONS:
            plain = value.item() if isinstance(value, np.generic) else value
            if isinstance(plain, bool | int | float | str):
                found[name] = plain
    return found


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def _table(header: tuple[str, str], rows: Any) -> str:
    lines = [f"| {header[0]} | {header[1]} |", "|---|---|"]
    return "\n".join([*lines, *(f"| {_escaped(name)} | {_escaped(_short(value))} |" for name, value in rows)])


def _short(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _escaped(text: object) -> str:
    """Return a text that neither Markdown nor HTML nor a terminal takes for more than its letters."""
    return re.sub(r"[\\`*_\[\]<>|~&#]", r"\\\g<0>", printable(text))
