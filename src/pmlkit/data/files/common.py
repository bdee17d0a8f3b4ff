"""What readers and writers share: limits of memory, missing values, checks of labels, blocks of rows."""

import io
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._typing import CSR, Features
from pmlkit._words import counted
from pmlkit.data.dataset import PMLDataset
from pmlkit.exceptions import DataError

__all__ = [
    "FREE_BYTES",
    "LimitedReader",
    "Missing",
    "Source",
    "allowed_bytes",
    "batches",
    "check_labels",
    "check_size",
    "fill_missing",
    "losses",
    "number_texts",
    "pack",
    "row_blocks",
    "written_labels",
]

logger = logging.getLogger(__name__)

FREE_BYTES = 2**28
"""What any file may unpack to; a larger one up to `RATIO` times its own size."""
RATIO = 200
_LINE_BYTES = 64  # what a line of text takes in memory beside its letters


def allowed_bytes(packed: int, max_bytes: float | None = None) -> int:
    """Return how many bytes the content of a file may take: `max_bytes`, or by default what its size makes plausible.

    Examples
    --------
    >>> from pmlkit.data.files.common import allowed_bytes
    >>> allowed_bytes(5_000), allowed_bytes(10_000_000), allowed_bytes(5_000, 1e6)
    (268435456, 2000000000, 1000000)
    """
    if max_bytes is None:
        return max(FREE_BYTES, RATIO * packed)
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int | float) or not 1 <= max_bytes < 2**63:
        raise ValueError(f"max_bytes must be a number of bytes from 1, got {max_bytes!r}.")
    return int(max_bytes)


def check_size(n_bytes: int, limit: int, what: str) -> None:
    """Raise if something is larger than the limit."""
    if n_bytes > limit:
        raise DataError(
            f"{what} takes {_size(n_bytes)} of memory, more than the {_size(limit)} that a file of this size may take "
            "unasked.",
            option="max_bytes",
            value=str(n_bytes),
            remedy=" or more if you trust the file",
        )


class LimitedReader(io.RawIOBase):
    """A decompressed stream that raises once more bytes than allowed have come out of it."""

    def __init__(self, stream: Any, limit: int) -> None:
        self._stream, self._limit = stream, limit
        self._n_seen = self._n_lines = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a position."""
        return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        """Return the position."""
        return int(self._stream.tell())

    def readinto(self, buffer: Any, /) -> int:
        """Read into a buffer."""
        n_read = int(self._stream.readinto(buffer))
        if self._stream.tell() > self._n_seen:
            self._n_seen = self._stream.tell()
            self._n_lines += bytes(buffer[:n_read]).count(b"\n")
        if self._n_seen + _LINE_BYTES * self._n_lines > self._limit:
            raise DataError(
                f"the compressed file takes more than the {_size(self._limit)} of memory that a file of its size may "
                "take unasked.",
                option="max_bytes",
                value=str(10 * self._limit),
                remedy=" or the like if you trust the file",
            )
        return n_read

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
        super().close()


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:,.1f} GiB" if n_bytes >= 2**30 else f"{n_bytes / 2**20:,.0f} MiB"


T = TypeVar("T")
Missing = Literal["error", "mean", "zero"]


@dataclass(frozen=True)
class Source:
    """A file being read: where it is, its name without endings, its decompressed bytes, its format, and the limit.

    `max_bytes` is how much memory its content may take, see `pmlkit.data.files.common`.
    """

    path: Path
    stem: str
    stream: BinaryIO
    format: str = ""
    max_bytes: int = FREE_BYTES


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most `size` items."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def fill_missing(table: Features, missing: Missing, names: Sequence[str], *, nominal: Collection[int] = ()) -> Features:
    """Replace NaN as asked: by zero, or by the mean of the column (for a nominal one its most frequent value)."""
    if missing not in ("error", "mean", "zero"):
        raise ValueError(f"missing must be 'error', 'mean' or 'zero', got {missing!r}.")
    is_sparse = sparse.issparse(table)
    values: NDArray[Any] = table.data if is_sparse else table
    absent = np.isnan(values)
    if not absent.any():
        return table
    columns = table.indices[absent] if is_sparse else np.nonzero(absent)[1]
    n_absent = int(absent.sum())
    found = f"{counted(n_absent, 'value')} {'is' if n_absent == 1 else 'are'} missing"
    if missing == "error":
        first = int(np.searchsorted(table.indptr, np.flatnonzero(absent)[0], "right")) - 1 if is_sparse else None
        row = first if first is not None else int(np.nonzero(absent)[0][0])
        raise DataError(
            f"{found}, the first in row {row}, column {names[columns[0]]!r}.",
            option="missing",
            value="'mean'",
            remedy=" (or 'zero') to fill them",
            column=names[columns[0]],
        )
    logger.warning("%s and filled with %s.", found, "zero" if missing == "zero" else "the mean of the column")
    values = values.copy()
    values[absent] = 0.0 if missing == "zero" else _typical(table, columns, set(nominal))
    return sparse.csr_array((values, table.indices, table.indptr), shape=table.shape) if is_sparse else values


def _typical(table: Features, columns: NDArray[Any], nominal: set[int]) -> NDArray[np.float64]:
    """Return, for each of `columns`, the mean (or the mode) of what is known; 0 where nothing is."""
    distinct, where = np.unique(columns, return_inverse=True)
    fillings = np.zeros(len(distinct))
    for k, j in enumerate(distinct.tolist()):
        column = table[:, [j]].toarray().ravel() if sparse.issparse(table) else table[:, j]
        known = column[~np.isnan(column)]
        if len(known) and j in nominal:
            found, counts = np.unique(known, return_counts=True)
            fillings[k] = found[counts.argmax()]
        elif len(known):
            fillings[k] = known.mean()
    return fillings[where]


def check_labels(table: Features, names: Sequence[str]) -> Features:
    """Return the label columns of a table; refuse, with row and label, a value other than 0 or 1."""
    values: NDArray[Any] = table.data if sparse.issparse(table) else table
    strange = np.flatnonzero((values != 0) & (values != 1))
    if not len(strange):
        return table
    if sparse.issparse(table):
        row, label = int(np.searchsorted(table.indptr, strange[0], "right")) - 1, int(table.indices[strange[0]])
    else:
        row, label = (int(i) for i in np.unravel_index(strange[0], table.shape))
    value = values.flat[strange[0]]
    found = "is missing" if np.isnan(value) else f"has the value {value:g}"
    raise DataError(f"label {names[label]!r} {found} in row {row}, but a label must be 0 or 1.", column=names[label])


def number_texts(values: NDArray[Any]) -> list[str]:
    """Return the shortest texts that read back as exactly these numbers."""
    return [repr(value).removesuffix(".0") for value in values.astype(np.float64).tolist()]


def pack(X: Any) -> Features:
    """Return a table as CSR where fewer than 3 cells in 10 are filled, else dense, whatever it came as."""
    filled = X.count_nonzero() if sparse.issparse(X) else np.count_nonzero(X)
    if filled < 0.3 * X.shape[0] * X.shape[1]:
        return sparse.csr_array(X)
    return X.toarray() if sparse.issparse(X) else X


def row_blocks(*tables: Features, cells: int = 2**20) -> Iterator[tuple[Features, ...]]:
    """Yield the same rows of each table, so few that they have about `cells` cells as text or dense."""
    n_rows = tables[0].shape[0]
    step = max(1, cells // (1 + sum(table.shape[1] for table in tables)))
    for start in range(0, n_rows, step):
        yield tuple(table[start : start + step] for table in tables)


def written_labels(dataset: PMLDataset, labels: str) -> CSR:
    """Return the label block that a format with room for one writes."""
    if labels not in ("candidates", "truth"):
        raise ValueError(f"labels must be 'candidates' or 'truth', got {labels!r}.")
    if labels == "candidates":
        return dataset.Y
    if dataset.truth is None:
        raise ValueError("labels='truth' was asked for, but the truth of this data set is unknown.")
    return dataset.truth


def losses(dataset: PMLDataset, *, carries: Collection[str] = ()) -> list[str]:
    """Name the parts of the data set that a format which carries only `carries` leaves out."""
    parts = {
        "truth": dataset.truth is not None,
        "feature names": dataset.has_feature_names,
        "label names": dataset.has_label_names,
        "ids": dataset.ids is not None,
        "texts": isinstance(dataset.media, tuple),
        "images": isinstance(dataset.media, np.ndarray),
    }
    return [part for part, present in parts.items() if present and part not in carries]
