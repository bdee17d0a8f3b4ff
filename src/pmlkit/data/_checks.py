"""The one place that turns what a user has into what a PMLDataset holds, or says why it cannot."""

import mmap
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._arrays import as_csr
from pmlkit._typing import CSR, Features
from pmlkit.exceptions import DataError

__all__ = [
    "Media",
    "as_features",
    "as_ids",
    "as_indicator",
    "as_media",
    "as_names",
    "frame_names",
    "freeze",
    "refuse_not_subset",
    "same_media",
    "same_values",
]

Media: TypeAlias = NDArray[np.uint8] | tuple[str, ...]
"""Images of shape (n, h, w) or (n, h, w, 3), or one text (or address) per row."""

# Index arrays of 32 bits, as every scipy routine takes them. Also the bound that stops a file
# from claiming a size that nothing later could hold.
_MAX_COLUMNS = 2**31 - 1


def freeze(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array read-only; it is copied only if somebody could still write to its memory."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and not owner.flags.writeable:
        owner = owner.base
    if not (owner is None or isinstance(owner, bytes | mmap.mmap)):
        array = np.array(array, order="C")
        array.flags.writeable = False
    return array


def freeze_csr(matrix: CSR) -> CSR:
    """Return a csr_array whose three parts are read-only."""
    matrix = as_csr(matrix)
    parts = (freeze(matrix.data), freeze(matrix.indices), freeze(matrix.indptr))
    frozen = sparse.csr_array(parts, shape=matrix.shape)
    # The conversion may have taken other views of the parts, and forgets what is known of their order.
    frozen.data, frozen.indices, frozen.indptr = map(freeze, (frozen.data, frozen.indices, frozen.indptr))
    frozen.has_canonical_format = True
    return frozen


def frame_names(table: Any) -> list[str] | None:
    """Return the column names of a DataFrame (pandas or polars), None of anything else."""
    if hasattr(table, "columns") and hasattr(table, "to_numpy"):
        return [str(name) for name in table.columns]
    return None


def _canonical(matrix: Any, what: str) -> CSR:
    """Return any sparse container as CSR: valid, sorted, without duplicates or stored zeros; never changes it."""
    if getattr(matrix, "ndim", 2) != 2:
        raise DataError(f"{what} must have two dimensions, got a sparse array of shape {matrix.shape}.")
    try:
        csr = sparse.csr_array(matrix)
        csr.check_format(full_check=True)
    except (ValueError, IndexError, TypeError) as error:
        raise DataError(f"{what} is not a valid sparse matrix: {error}.") from error
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    if csr.nnz and not csr.data.all():
        csr = csr.copy()
        csr.eliminate_zeros()
    return csr


def _dense(table: Any, what: str) -> NDArray[Any]:
    names = frame_names(table)
    try:
        array = np.asarray(table.to_numpy() if names is not None else table)
        if array.dtype == object:
            array = array.astype(np.float64)
    except (ValueError, TypeError) as error:
        where = "" if names is None else f" in column {_first_text_column(table, names)!r}"
        raise DataError(f"{what} must be a rectangle of numbers, got something else{where}: {error}.") from error
    if array.dtype.kind not in "biuf":
        raise DataError(f"{what} must hold real numbers, got an array of type {array.dtype}.")
    if array.ndim != 2:
        hint = " Use reshape(-1, 1) for a single column." if array.ndim == 1 else ""
        raise DataError(f"{what} must have two dimensions, got shape {array.shape}.{hint}")
    return array


def _first_text_column(table: Any, names: Sequence[str]) -> str:
    """Return the name of the first column of a frame that does not turn into numbers."""
    cells = np.asarray(table.to_numpy(), dtype=object)
    for j, name in enumerate(names):
        try:
            cells[:, j].astype(np.float64)
        except (ValueError, TypeError):
            return name
    return names[0]


def as_features(X: Any) -> Features:
    """Return X as a read-only float array (dense or CSR) whose values are all finite."""
    rows: Features
    if sparse.issparse(X):
        rows = _canonical(X, "X")
        if rows.dtype.kind not in "biuf":
            raise DataError(f"X must hold real numbers, got a sparse matrix of type {rows.dtype}.")
    else:
        rows = _dense(X, "X")
    if rows.shape[0] == 0:
        raise DataError("X has no rows: a data set needs at least one.")
    if rows.shape[1] > _MAX_COLUMNS:
        raise DataError(f"X claims {rows.shape[1]} features, more than the {_MAX_COLUMNS} that can be indexed.")
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
    if sparse.issparse(X):
        row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
        column = int(X.indices[bad[0]])
    else:
        row, column = (int(i) for i in np.unravel_index(bad[0], X.shape))
    raise DataError(
        f"X holds {len(bad)} value(s) that are NaN or infinite, the first in row {row}, feature {column}. "
        "Impute or remove them first, for example with sklearn.impute.SimpleImputer."
    )


def as_indicator(Y: Any, what: str = "Y") -> CSR:
    """Return an n x q indicator as a read-only CSR of uint8 ones with sorted indices."""
    if sparse.issparse(Y):
        csr = _canonical(Y, what)
        values = csr.data
    else:
        values = _dense(Y, what)
        csr = sparse.csr_array(values != 0)
    is_strange = (values != 0) & (values != 1)
    if is_strange.any():
        strange = np.unique(values[is_strange]).tolist()
        shown = ", ".join(f"{v:g}" for v in strange[:3]) + (", ..." if len(strange) > 3 else "")
        raise DataError(
            f"{what} must be an n x q indicator of 0/1, got the value(s) {shown}. "
            "Use sklearn.preprocessing.MultiLabelBinarizer for lists of labels."
        )
    n_rows, n_labels = csr.shape
    if n_rows == 0:
        raise DataError(f"{what} has no rows: a data set needs at least one.")
    if n_labels == 0:
        raise DataError(f"{what} has no label column: a data set needs at least one label.")
    if n_labels > _MAX_COLUMNS:
        raise DataError(f"{what} claims {n_labels} labels, more than the {_MAX_COLUMNS} that can be indexed.")
    return freeze_csr(csr.astype(np.uint8, copy=False))


def as_names(names: Iterable[Any] | None, count: int, what: str) -> tuple[str, ...] | None:
    """Return the names as a tuple of distinct str; None when absent or no more than the numbered default."""
    if names is None:
        return None
    if isinstance(names, str):
        raise DataError(f"{what}_names must be a sequence of {count} names, got the single string {names!r}.")
    result = tuple(str(name) for name in names)
    if len(result) != count:
        raise DataError(f"{what}_names must hold one name for each of the {count} {what}s, got {len(result)}.")
    if len(set(result)) < count:
        seen: set[str] = set()
        double = next(name for name in result if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise DataError(f"{what}_names must be distinct, but {double!r} occurs more than once. Rename one of them.")
    if all(name == f"{what}_{j}" for j, name in enumerate(result)):
        return None
    return result


def as_media(media: Any, n_rows: int) -> Media | None:
    """Return images as a read-only uint8 array, texts as a tuple of str."""
    if media is None:
        return None
    if isinstance(media, np.ndarray) and media.dtype.kind not in "UOT":
        if media.dtype != np.uint8 or media.ndim not in (3, 4) or (media.ndim == 4 and media.shape[3] != 3):
            raise DataError(
                "media must be images of type uint8 and shape (n, h, w) or (n, h, w, 3), or a sequence of n strings; "
                f"got an array of type {media.dtype} and shape {media.shape}."
            )
        if len(media) != n_rows:
            raise DataError(f"media must hold one image for each of the {n_rows} rows, got {len(media)}.")
        return freeze(media)
    if isinstance(media, str) or not all(isinstance(text, str) for text in media):
        raise DataError("media must be an array of images or a sequence of strings, one for each row.")
    texts = tuple(str(text) for text in media)
    if len(texts) != n_rows:
        raise DataError(f"media must hold one string for each of the {n_rows} rows, got {len(texts)}.")
    return texts


def as_ids(ids: Sequence[Any] | None, n_rows: int) -> tuple[int, ...] | tuple[str, ...] | None:
    """Return row identifiers: whole numbers as int, anything else as str."""
    if ids is None:
        return None
    if isinstance(ids, str):
        raise DataError(f"ids must be a sequence of {n_rows} identifiers, got the single string {ids!r}.")
    items = list(ids)
    if len(items) != n_rows:
        raise DataError(f"ids must hold one identifier for each of the {n_rows} rows, got {len(items)}.")
    if all(isinstance(i, int | np.integer) and not isinstance(i, bool) and -(2**63) <= i < 2**63 for i in items):
        return tuple(int(i) for i in items)
    return tuple(str(i) for i in items)


def same_values(one: Features | None, other: Features | None) -> bool:
    """Tell whether two tables hold the same numbers, whatever their type and form."""
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
    """Tell whether two sets of images or texts are the same."""
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
            f"the first in row {row}, label {label}."
        )
