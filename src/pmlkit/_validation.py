"""Validation of what users pass in: tables of numbers, names, row identifiers and media."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._arrays import freeze
from pmlkit._typing import CSR
from pmlkit.exceptions import DataError

Media: TypeAlias = NDArray[np.uint8] | tuple[str, ...]
"""Images of shape (n_samples, h, w) or (n_samples, h, w, 3), or one text (or address) per row."""

MAX_COLUMNS = 2**31 - 1
"""Column indices have 32 bits, as every scipy routine takes them; a file that claims more columns is refused."""


def is_frame(table: Any) -> bool:
    """Return whether a table is a DataFrame (pandas or polars)."""
    return hasattr(table, "columns") and hasattr(table, "to_numpy")


def frame_names(table: Any) -> list[str] | None:
    """Return the column names of a DataFrame, None for anything else."""
    return [str(name) for name in table.columns] if is_frame(table) else None


def number_table(table: Any, what: str, *, allow_sparse: bool = True) -> Any:
    """Return a table of real numbers as a 2-D array or a canonical CSR array without stored zeros.

    The input is never changed, and the dtype is kept. NaN and infinite values are the caller's to judge.
    """
    if sparse.issparse(table):
        if not allow_sparse:
            raise DataError(
                f"{what} must be dense, got a sparse array: every label needs a value. Use {what}.toarray()."
            )
        numbers: Any = _canonical(table, what)
    else:
        numbers = _dense(table, what)
    if numbers.dtype.kind not in "biuf":
        raise DataError(f"{what} must hold real numbers, got dtype {numbers.dtype}.")
    if numbers.ndim != 2:
        hint = " Use reshape(-1, 1) for a single column, reshape(1, -1) for a single row." if numbers.ndim == 1 else ""
        raise DataError(f"{what} must have two dimensions, got shape {numbers.shape}.{hint}")
    return numbers


def _canonical(matrix: Any, what: str) -> CSR:
    if getattr(matrix, "ndim", 2) != 2:
        raise DataError(f"{what} must have two dimensions, got a sparse array of shape {matrix.shape}.")
    try:
        csr = sparse.csr_array(matrix)
        csr.check_format(full_check=True)
    except (ValueError, IndexError, TypeError) as error:
        raise DataError(f"{what} is not a valid sparse matrix: {error}.") from error
    if not csr.has_canonical_format or (csr.nnz and not csr.data.all()):
        csr = csr.copy()
        csr.sum_duplicates()
        csr.eliminate_zeros()
    return csr


def _dense(table: Any, what: str) -> NDArray[Any]:
    try:
        array = np.asarray(table.to_numpy() if is_frame(table) else table)
        if array.dtype == object:
            # pandas' NA, unlike None, does not become NaN by itself.
            is_pandas = type(table).__module__.partition(".")[0] == "pandas"
            array = table.to_numpy(np.float64, na_value=np.nan) if is_pandas else array.astype(np.float64)
    except (ValueError, TypeError) as error:
        names = frame_names(table)
        where = "" if names is None else f" in column {_first_text_column(table, names)!r}"
        raise DataError(
            f"{what} must be a table of numbers, got rows of unequal length or entries that are not numbers{where}."
        ) from error
    return array


def _first_text_column(table: Any, names: Sequence[str]) -> str:
    """Return the name of the first column of a DataFrame that does not turn into numbers."""
    cells = np.asarray(table.to_numpy(), dtype=object)
    for j, name in enumerate(names):
        try:
            cells[:, j].astype(np.float64)
        except (ValueError, TypeError):
            return name
    return names[0]


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


def as_media(media: Any, n_samples: int) -> Media | None:
    """Return images as a read-only uint8 array, texts as a tuple of str."""
    if media is None:
        return None
    if isinstance(media, np.ndarray) and media.dtype.kind not in "UOT":
        if media.dtype != np.uint8 or media.ndim not in (3, 4) or (media.ndim == 4 and media.shape[3] != 3):
            raise DataError(
                "media must be images of type uint8 and shape (n, h, w) or (n, h, w, 3), or a sequence of n strings; "
                f"got an array of type {media.dtype} and shape {media.shape}."
            )
        if len(media) != n_samples:
            raise DataError(f"media must hold one image for each of the {n_samples} rows, got {len(media)}.")
        return freeze(media)
    is_flat = not isinstance(media, str) and getattr(media, "ndim", 1) == 1
    if not is_flat or not all(isinstance(text, str) for text in media):
        raise DataError("media must be an array of images or a sequence of strings, one for each row.")
    texts = tuple(str(text) for text in media)
    if len(texts) != n_samples:
        raise DataError(f"media must hold one string for each of the {n_samples} rows, got {len(texts)}.")
    return texts


def as_ids(ids: Sequence[Any] | None, n_samples: int) -> tuple[int, ...] | tuple[str, ...] | None:
    """Return row identifiers: whole numbers as int, anything else as str."""
    if ids is None:
        return None
    if isinstance(ids, str):
        raise DataError(f"ids must be a sequence of {n_samples} identifiers, got the single string {ids!r}.")
    items = list(ids)
    if len(items) != n_samples:
        raise DataError(f"ids must hold one identifier for each of the {n_samples} rows, got {len(items)}.")
    if all(isinstance(i, int | np.integer) and not isinstance(i, bool) and -(2**63) <= i < 2**63 for i in items):
        return tuple(int(i) for i in items)
    return tuple(str(i) for i in items)
