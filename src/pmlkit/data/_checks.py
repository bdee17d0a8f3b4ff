"""Checks, comparisons, descriptions and counts of the parts of a PMLDataset."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from pmlkit._arrays import MAX_COLUMNS, Media, freeze, freeze_csr, number_table, position_of, row_hash
from pmlkit._typing import CSR, Features
from pmlkit._words import listing
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit.data.dataset import PMLDataset


def as_features(X: Any) -> Features:
    """Return X as a read-only float array (dense or CSR) whose values are all finite."""
    rows = number_table(X, "X")
    if rows.shape[0] == 0:
        raise DataError("X has no rows: a data set needs at least one.")
    if rows.shape[1] > MAX_COLUMNS:
        raise DataError(f"X claims {rows.shape[1]} features, more than the {MAX_COLUMNS} that can be indexed.")
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    _refuse_not_finite(rows)
    return freeze_csr(rows) if sparse.issparse(rows) else freeze(rows)


def _refuse_not_finite(X: Features) -> None:
    values = X.data if sparse.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return
    bad = np.flatnonzero(~np.isfinite(values))
    if not len(bad):
        return
    row, column = position_of(X, int(bad[0]))
    raise DataError(
        f"X holds {len(bad)} value(s) that are NaN or infinite, the first in row {row}, feature {column}. "
        "Impute or remove them first, for example with sklearn.impute.SimpleImputer.",
        row=row,
    )


def same_values(one: Features | None, other: Features | None) -> bool:
    """Return whether two tables hold the same numbers, whatever their type and form."""
    if one is None or other is None:
        return one is other
    if one.shape != other.shape:
        return False
    if sparse.issparse(one) and sparse.issparse(other):
        parts = zip((one.indptr, one.indices, one.data), (other.indptr, other.indices, other.data), strict=True)
        return all(np.array_equal(a, b) for a, b in parts)
    if not sparse.issparse(one) and not sparse.issparse(other):
        return np.array_equal(one, other)
    dense, packed = (other, one) if sparse.issparse(one) else (one, other)
    return same_values(sparse.csr_array(dense), packed)


def same_media(one: Media | None, other: Media | None) -> bool:
    """Return whether two sets of images or texts are the same."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return type(one) is type(other) and one == other


def refuse_not_subset(truth: CSR, candidates: CSR) -> None:
    """Raise unless every true label is a candidate."""
    if truth.shape != candidates.shape:
        raise DataError(f"truth and Y must have the same shape, got {truth.shape} and {candidates.shape}.")
    outside = sparse.csr_array(truth.astype(np.int8) - truth.multiply(candidates).astype(np.int8))
    outside.eliminate_zeros()
    if outside.nnz:
        row, label = (int(i[0]) for i in outside.nonzero())
        raise DataError(
            f"Every true label must be a candidate, but {outside.nnz} cell(s) of truth are not in Y, "
            f"the first in row {row}, label {label}.",
            row=row,
        )


def as_frame(X: Features, names: Sequence[str]) -> Any:
    """Return dense features as a DataFrame, without a copy."""
    import pandas as pd

    return pd.DataFrame(X, columns=list(names), copy=False)


def features_for(X: Features, own_names: Sequence[str] | None, model: Any, path: str) -> Any:
    """Return features as a fitted model knows them, see `PMLDataset.features_for`."""
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if names and own_names is not None:
        position = {name: j for j, name in enumerate(own_names)}
        if absent := [name for name in names if name not in position]:
            raise lacking_features(absent, path or None)
        X = X[:, [position[name] for name in names]]
        return as_frame(X.toarray() if sparse.issparse(X) else X, names)
    if X.shape[1] != model.n_features_in_:
        raise DataError(
            f"the model was fitted on {model.n_features_in_} features, but the data set has {X.shape[1]}. Use data of "
            "the same kind as the model was fitted on.",
            path=path or None,
        )
    return as_frame(X, names) if names and not sparse.issparse(X) else X


def lacking_features(absent: Sequence[str], path: str | None = None) -> DataError:
    """Return the error for features of a model that a table or data set does not have."""
    message = f"the table lacks {len(absent)} of the model's features: {listing(absent)}."
    return DataError(message, column=absent[0], path=path)


def summary_counts(X: Features, Y: CSR, truth: CSR | None) -> dict[str, int | float | None]:
    """Return the counts of `PMLDataset.describe`."""
    (n_samples, n_features), n_labels = X.shape, Y.shape[1]
    n_true = None if truth is None else int(truth.nnz)
    stored = X.nnz if sparse.issparse(X) else np.count_nonzero(X)
    return {
        "rows": n_samples,
        "features": n_features,
        "labels": n_labels,
        "density": float(stored / (n_samples * n_features)) if n_features else 0.0,
        "candidate_cardinality": Y.nnz / n_samples,
        "true_cardinality": None if n_true is None else n_true / n_samples,
        "false_candidates": None if n_true is None else int(Y.nnz - n_true),
        "noise_ratio": (Y.nnz - n_true) / n_true if n_true else None,
        "rows_without_candidates": int((np.diff(Y.indptr) == 0).sum()),
        "labels_without_positives": n_labels - len(np.unique(Y.indices)),
        "duplicate_rows": _count_duplicate_rows(X),
        "constant_features": _count_constant_features(X),
    }


def short_facts(data: "PMLDataset") -> list[tuple[str, str]]:
    """Return short descriptions of a data set whose cost does not grow with the number of columns."""
    X, Y, truth = data.X, data.Y, data.truth
    labels = f"{Y.nnz / Y.shape[0]:.2f} candidates"
    labels += " per row, truth unknown" if truth is None else f" and {truth.nnz / Y.shape[0]:.2f} true labels per row"
    kind = f"{'CSR' if sparse.issparse(X) else 'dense'} {X.dtype}"
    facts = [
        ("rows", _plural(data.n_samples, "row")),
        ("features", f"{_plural(data.n_features, 'feature')} ({kind})"),
        ("labels", _plural(data.n_labels, "label")),
        ("labelling", labels),
    ]
    if data.media is not None:
        facts.append(("media", "images" if isinstance(data.media, np.ndarray) else "texts"))
    return facts


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _count_duplicate_rows(X: Features) -> int:
    """Return how many rows repeat an earlier row (by a 64-bit hash of the row)."""
    if X.shape[1] == 0:
        return 0
    return int(X.shape[0] - len(np.unique(row_hash(X))))


def _count_constant_features(X: Features) -> int:
    """Return how many columns hold one value only; needs no memory for columns without stored values."""
    n_samples, n_features = X.shape
    if not sparse.issparse(X):
        return int((X.min(axis=0) == X.max(axis=0)).sum()) if n_features else 0
    used, counts = np.unique(X.indices, return_counts=True)
    full = used[counts == n_samples]
    # A column with values in some rows only is not constant; one with values in all may be.
    values = X[:, full].data.reshape(n_samples, len(full))
    return int(n_features - len(used) + (values.min(axis=0) == values.max(axis=0)).sum())
