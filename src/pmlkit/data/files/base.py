"""A file of rows and named columns: cells can be read, and written again with some of them changed.

Also how columns are selected by name or pattern, what the columns of a table that pmlkit wrote are called, and what
readers and writers of data sets share: missing values, checks of labels, blocks of rows.
"""

import fnmatch
import logging
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._arrays import first_repeated, position_of
from pmlkit._typing import CSR, Features, FloatArray
from pmlkit._words import counted, did_you_mean, excerpt, listing
from pmlkit.data.dataset import PMLDataset
from pmlkit.exceptions import DataError

logger = logging.getLogger(__name__)

T = TypeVar("T")
Missing = Literal["error", "mean", "zero"]
Edits = Mapping[str, Mapping[int, Any]]
"""New cells: for a column, the row numbers and what stands there now."""
Names = str | Collection[str]
"""One name or pattern, or several; ``@file`` stands for the lines of a file."""

# A feature that could be mistaken for another kind of column gets a prefix of its own.
LABEL_PREFIX, TRUTH_PREFIX, FEATURE_PREFIX = "label:", "truth:", "feature:"
ID_COLUMN, MEDIA_COLUMN = "id", "media"

_LIKELY_LABELS = re.compile(r"(?i)^(labels?|tags?|categor(y|ies)|topics?|keywords?|genres?|classes)$")
_MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "?"})
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+(?:[eE][+-]?\d+)?\s*", re.ASCII)
_BOOLEANS = {"true": 1.0, "false": 0.0}


class TableFile(ABC):
    """A parsed file that keeps everything, so that it can be written again as it was.

    `columns`: their names, in the order of the file. `decimal_comma`: whether ``1,5`` may be a number. `is_untyped`:
    whether all cells are texts, so that an identifier may be a number, too.
    """

    columns: list[str]
    n_rows: int
    decimal_comma: bool = False
    is_untyped: bool = False

    def cells(self, names: Iterable[str]) -> dict[str, Sequence[Any]]:
        """Return columns as Python values: texts in text files, what the format knows in others, None if absent.

        Columns are parsed once and kept.
        """
        wanted = list(names)
        kept: dict[str, Sequence[Any]] = self.__dict__.setdefault("_kept_cells", {})
        if missing := [name for name in wanted if name not in kept]:
            kept |= self._parse_cells(missing)
        return {name: kept[name] for name in wanted}

    @abstractmethod
    def _parse_cells(self, names: list[str]) -> dict[str, Sequence[Any]]:
        """Parse columns."""

    def numbers(self, names: Sequence[str]) -> FloatArray:
        """Return columns as a matrix, NaN where a cell is empty."""
        matrix: FloatArray = np.empty((self.n_rows, len(names)))
        for k, (name, values) in enumerate(self.cells(names).items()):
            matrix[:, k] = parse_numbers(values, name, decimal_comma=self.decimal_comma)
        return matrix

    @abstractmethod
    def write(self, stream: BinaryIO, edits: Edits) -> None:
        """Write the file with some cells changed and all else as it was."""


def parse_numbers(values: Sequence[Any], name: str, *, decimal_comma: bool = False, start: int = 0) -> FloatArray:
    """Return cells as numbers: NaN where empty, 1 and 0 for a column of true and false.

    `values`: texts or numbers. `name`: the column, for messages. `decimal_comma`: whether ``1,5`` is a number, too.
    `start`: the row of the first value, for messages.
    """
    try:
        numbers = np.fromiter(map(float, values), np.float64, len(values))
        if not any(isinstance(value, str) and "_" in value for value in values):  # Python's own way to write 1_000
            return numbers
    except (TypeError, ValueError):
        pass
    numbers = np.full(len(values), np.nan)
    known = {row: value for row, value in enumerate(values) if not is_missing(value)}
    are_booleans = all(isinstance(value, str) and value.strip().lower() in _BOOLEANS for value in known.values())
    decimal_comma = decimal_comma or _has_decimal_commas(known.values())
    for row, value in known.items():
        number = _BOOLEANS[value.strip().lower()] if are_booleans else as_number(value, decimal_comma=decimal_comma)
        if number is None:
            raise DataError(
                f"column {name!r} must hold numbers, but row {start + row} holds {excerpt(str(value))}.",
                column=name,
                row=start + row,
            )
        numbers[row] = number
    return numbers


def _has_decimal_commas(values: Iterable[Any]) -> bool:
    """Tell whether the commas in quoted cells must be decimal: all numbers so, and not all with three digits after it.

    ``1,234`` alone may be a thousand and more.
    """
    with_comma = [value for value in values if isinstance(value, str) and "," in value]
    digits = {len(re.split(r"[eE]", value.partition(",")[2].strip())[0]) for value in with_comma}
    return bool(digits - {3}) and all(map(_DECIMAL_COMMA.fullmatch, with_comma))


def is_missing(value: Any) -> bool:
    """Return whether a cell of a column of numbers is empty, in one of the usual spellings."""
    return value is None or (isinstance(value, str) and value.strip().lower() in _MISSING)


def as_number(value: Any, *, decimal_comma: bool = False) -> float | None:
    """Return a cell as a number, or None if it is none."""
    if isinstance(value, str):
        if decimal_comma and _DECIMAL_COMMA.fullmatch(value):
            value = value.replace(",", ".")
        if "_" in value:
            return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def read_ids(file: TableFile, column: str) -> list[Any]:
    """Return the identifiers of the rows; those of a text file as int, if all are whole numbers."""
    ids = ["" if value is None else value for value in file.cells([column])[column]]
    joined = "".join(ids) if file.is_untyped else ""
    if joined.isascii() and joined.isdigit() and all(ids):
        numbers = [int(text) for text in ids] if max(map(len, ids)) < 19 else []
        return numbers if [str(number) for number in numbers] == ids else ids
    return ids


def refuse_repeated(columns: Sequence[str]) -> None:
    """Raise if two columns have the same name."""
    if (double := first_repeated(columns)) is not None:
        raise DataError(f"the column {double!r} occurs more than once. Rename one of the two.", column=double)


def as_names(words: Names | None) -> list[str]:
    """Return a list of names or patterns, those of ``@file`` read from the file."""
    items = [] if words is None else [words] if isinstance(words, str | os.PathLike) else list(words)
    names: list[str] = []
    for item in map(str, items):
        names += _lines(Path(item[1:])) if item.startswith("@") and len(item) > 1 else [item]
    return names


def _lines(path: Path) -> list[str]:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except OSError as error:
        raise DataError(f"The list of names {str(path)!r} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"The list of names {str(path)!r} is not text in UTF-8.") from error
    if not any(lines):
        raise DataError(f"The list of names {str(path)!r} is empty.")
    return [line for line in lines if line]


def select(names: Sequence[str], wanted: Names, what: str = "column", *, option: str | None = None) -> list[int]:
    """Return the positions of the columns named, or matched by a glob pattern, in the order of the file."""
    positions = {name: j for j, name in enumerate(names)}
    chosen: set[int] = set()
    for item in as_names(wanted):
        if item in positions:
            chosen.add(positions[item])
            continue
        matches = {j for name, j in positions.items() if fnmatch.fnmatchcase(name, item)}
        if not matches:
            likely = [name for name in likely_labels(names) if option == "labels" and name not in as_names(wanted)]
            raise _absent(item, names, what, likely)
        chosen |= matches
    return sorted(chosen)


def check_column(name: str, columns: Sequence[str]) -> str:
    """Return the name of a column that is there, or say which are."""
    if name not in columns:
        raise _absent(name, columns, "column", ())
    return name


def _absent(name: str, names: Sequence[str], what: str, likely: Sequence[str]) -> DataError:
    hint = did_you_mean(name, names) or (f" Is it {likely[0]!r}?" if likely else "")
    return DataError(f"there is no {what} {name!r}.{hint} The {what}s are {listing(names)}.", column=name)


def likely_labels(names: Sequence[str]) -> list[str]:
    """Return the columns that are called as columns of labels often are."""
    return [name for name in names if _LIKELY_LABELS.match(name)]


def own_columns(dataset: PMLDataset) -> tuple[list[str], list[Sequence[Any]], list[Features]]:
    """Return the names of all columns, the columns of words (ids, texts) and the matrices of numbers, in this order."""
    if lost := losses(dataset, carries=("truth", "feature names", "label names", "ids", "texts")):
        logger.warning("a table leaves out: %s", ", ".join(lost))
    names: list[str] = []
    words: list[Sequence[Any]] = []
    if dataset.ids is not None:
        names.append(ID_COLUMN)
        words.append(dataset.ids)
    if isinstance(dataset.media, tuple):
        names.append(MEDIA_COLUMN)
        words.append(dataset.media)
    names += [_feature_column(name) for name in dataset.feature_names]
    names += [LABEL_PREFIX + name for name in dataset.label_names]
    matrices = [dataset.X, dataset.Y]
    if dataset.truth is not None:
        names += [TRUTH_PREFIX + name for name in dataset.label_names]
        matrices.append(dataset.truth)
    return names, words, matrices


def _feature_column(name: str) -> str:
    is_special = name in (ID_COLUMN, MEDIA_COLUMN) or name.startswith((LABEL_PREFIX, TRUTH_PREFIX, FEATURE_PREFIX))
    return FEATURE_PREFIX + name if is_special else name


def label_key(wanted: object, name: str) -> str:
    """Return what a label is called apart from the prefix, or the rest of the pattern, that marks its column."""
    patterns = [wanted] if isinstance(wanted, str) else list(wanted) if isinstance(wanted, list | tuple) else []
    if len(patterns) == 1 and str(patterns[0]).count("*") == 1:
        before, _, after = str(patterns[0]).partition("*")
        return name.removeprefix(before).removesuffix(after)
    prefix = TRUTH_PREFIX if name.startswith(TRUTH_PREFIX) else LABEL_PREFIX
    return name.removeprefix(prefix)


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most `size` items."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def check_missing(missing: str) -> None:
    """Refuse a word that does not say what becomes of missing numbers."""
    if missing not in ("error", "mean", "zero"):
        raise ValueError(f"missing must be 'error', 'mean' or 'zero', got {missing!r}.")


def fill_missing(table: Features, missing: Missing, names: Sequence[str], *, nominal: Collection[int] = ()) -> Features:
    """Replace NaN as asked: by zero, or by the mean of the column (for a nominal one its most frequent value)."""
    check_missing(missing)
    is_sparse = sparse.issparse(table)
    values: NDArray[Any] = table.data if is_sparse else table
    absent = np.isnan(values)
    if not absent.any():
        return table
    columns = table.indices[absent] if is_sparse else np.nonzero(absent)[1]
    n_absent = int(absent.sum())
    found = f"{counted(n_absent, 'value')} {'is' if n_absent == 1 else 'are'} missing"
    if missing == "error":
        row, column = position_of(table, int(np.flatnonzero(absent)[0]))
        raise DataError(
            f"{found}, the first in row {row}, column {names[column]!r}.",
            option="missing",
            value="'mean'",
            remedy=" (or 'zero') to fill them",
            column=names[column],
            row=row,
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
    row, label = position_of(table, int(strange[0]))
    value = values.flat[strange[0]]
    found = "is missing" if np.isnan(value) else f"has the value {value:g}"
    raise DataError(
        f"label {names[label]!r} {found} in row {row}, but a label must be 0 or 1.", column=names[label], row=row
    )


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
