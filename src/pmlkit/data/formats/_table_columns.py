"""From the columns of a table to a PMLDataset: which are labels, truth, identifiers and features."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._typing import CSR, Features, FloatArray
from pmlkit.data.dataset import PMLDataset
from pmlkit.data.formats._common import Missing, check_labels, excerpt, fill_missing, listing, select
from pmlkit.exceptions import DataError

__all__ = [
    "FEATURE_PREFIX",
    "ID_COLUMN",
    "LABEL_PREFIX",
    "MEDIA_COLUMN",
    "TRUTH_PREFIX",
    "Columns",
    "TableOptions",
    "label_key",
    "to_dataset",
]

Columns = str | Collection[str]

# How our own tables call their columns; a feature that could be mistaken for one gets a prefix of its own.
LABEL_PREFIX, TRUTH_PREFIX, FEATURE_PREFIX = "label:", "truth:", "feature:"
ID_COLUMN, MEDIA_COLUMN = "id", "media"


@dataclass(frozen=True)
class TableOptions:
    """What the user said about the columns."""

    labels: Columns | None
    truth: Columns | None
    sep: str | None
    id: str | None
    media: str | None
    ignore: Columns
    missing: Missing

    def resolved(self, names: Sequence[str]) -> tuple[Columns, "TableOptions"]:
        """Return the label columns, and the options with what our own column names say where the user said nothing."""
        if len(set(names)) < len(names):
            double = next(name for k, name in enumerate(names) if name in names[:k])
            raise DataError(f"the column {double!r} occurs more than once. Rename one of the two.")
        for column in (self.id, self.media):
            if column is not None and column not in names:
                raise DataError(f"there is no column {column!r}; the columns are {listing(names)}.")
        if self.labels is not None:
            return self.labels, self
        # Lists of names, not patterns: a label may be called "*".
        labels = [name for name in names if name.startswith(LABEL_PREFIX)]
        if not labels:
            raise DataError(
                f"which columns are labels? Pass labels= their names, a pattern such as 'tag_*', or the one column of "
                f"label sets. The columns are {listing(names)}."
            )
        truth = [name for name in names if name.startswith(TRUTH_PREFIX)]
        return labels, replace(
            self,
            labels=labels,
            truth=self.truth if self.truth is not None else truth or None,
            id=self.id or (ID_COLUMN if ID_COLUMN in names else None),
            media=self.media or (MEDIA_COLUMN if MEDIA_COLUMN in names else None),
        )

    def text_columns(self, names: Sequence[str]) -> list[str]:
        """Return the columns to be read as text, whatever they look like."""
        labels, options = self.resolved(names)
        sets = [labels, options.truth] if self.sep is not None else []
        return [name for name in (options.id, options.media, *sets) if isinstance(name, str) and name in names]


def to_dataset(table: Any, options: TableOptions, *, whole_ids: bool) -> PMLDataset:
    """Build the data set from an arrow table; with `whole_ids`, identifiers that look like int become int."""
    names: list[str] = table.column_names
    is_ours = options.labels is None
    labels, options = options.resolved(names)
    if table.num_rows == 0:
        raise DataError("the table has no rows.")
    columns = _Columns(table, names)
    ignored = set(select(names, options.ignore, "column"))
    Y, label_names, used = columns.labels(labels, options.sep, ignored)
    truth = None
    if options.truth is not None:
        truth, found, positions = columns.labels(options.truth, options.sep, ignored, vocabulary=label_names)
        truth = truth[:, _alignment(options.truth, found, labels, label_names)]
        used = used + positions
    special = {names.index(name) for name in (options.id, options.media) if name is not None}
    features = sorted(set(range(len(names))) - ignored - special - set(used))
    feature_names = [names[j] for j in features]
    X = fill_missing(columns.numbers(features), options.missing, feature_names)
    if is_ours:
        feature_names = [name.removeprefix(FEATURE_PREFIX) for name in feature_names]
        label_names = [name.removeprefix(LABEL_PREFIX) for name in label_names]
    return PMLDataset(
        X,
        Y,
        truth=truth,
        feature_names=feature_names,
        label_names=label_names,
        ids=None if options.id is None else columns.ids(options.id, whole_ids),
        media=None if options.media is None else ["" if t is None else str(t) for t in columns.values(options.media)],
    )


class _Columns:
    """The columns of an arrow table, as arrays."""

    def __init__(self, table: Any, names: Sequence[str]) -> None:
        self._table = table
        self._names = list(names)

    def _column(self, position: int) -> Any:
        column = self._table.column(position)
        return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column

    def values(self, name: str) -> list[Any]:
        """Return a column as Python values."""
        return list(self._column(self._names.index(name)).to_pylist())

    def ids(self, name: str, whole: bool) -> list[Any]:
        """Return the identifiers of the rows."""
        ids = ["" if value is None else value for value in self.values(name)]
        if whole and all(isinstance(text, str) and text.isascii() and text.isdigit() for text in ids):
            numbers = [int(text) for text in ids] if max(map(len, ids)) < 19 else []
            return numbers if [str(number) for number in numbers] == ids else ids
        return ids

    def numbers(self, positions: Sequence[int]) -> FloatArray:
        """Return columns as a matrix, NaN where a cell is empty."""
        types = [self._column(j).type for j in positions]
        dtype = np.float32 if types and all(kind == pa.float32() for kind in types) else np.float64
        matrix: FloatArray = np.empty((self._table.num_rows, len(positions)), dtype=dtype)
        for k, j in enumerate(positions):
            matrix[:, k] = self._number_column(j)
        return matrix

    def _number_column(self, position: int) -> NDArray[Any]:
        column = self._column(position)
        kind = column.type
        if pa.types.is_null(kind):
            return np.full(self._table.num_rows, np.nan)
        if pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
            column = column.cast(pa.float64())
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            name = self._names[position]
            values = column.to_pylist()
            row = next((i for i, value in enumerate(values) if value is not None and not _is_number(value)), 0)
            raise DataError(
                f"column {name!r} must hold numbers, but row {row} holds {excerpt(str(values[row]))}. Turn it into "
                f"numbers, pass ignore=[{name!r}], or say by labels=, id= or media= what it is."
            )
        return np.asarray(column.to_numpy())

    def labels(
        self, wanted: Columns, sep: str | None, ignored: set[int], vocabulary: Sequence[str] | None = None
    ) -> tuple[Features, list[str], list[int]]:
        """Return the indicator, the label names and the positions of the columns that hold them."""
        if isinstance(wanted, str) and wanted in self._names:
            position = self._names.index(wanted)
            if sep is not None or _holds_sets(self._column(position).type):
                indicator, found = _indicator_of_sets(self._sets(wanted, sep or ";"), wanted, vocabulary)
                return indicator, found, [position]
        positions = [j for j in select(self._names, wanted, "column") if j not in ignored]
        found = [self._names[j] for j in positions]
        return check_labels(self.numbers(positions), found), found, positions

    def _sets(self, name: str, sep: str) -> Iterable[list[str]]:
        for value in self.values(name):
            parts = value if isinstance(value, list) else [] if value is None else str(value).split(sep)
            yield [text for part in parts if part is not None and (text := str(part).strip())]


def _holds_sets(kind: Any) -> bool:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return bool(is_text or pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _indicator_of_sets(
    sets: Iterable[list[str]], column: str, vocabulary: Sequence[str] | None
) -> tuple[CSR, list[str]]:
    rows = list(sets)
    names = sorted({label for row in rows for label in row}) if vocabulary is None else list(vocabulary)
    if not names:
        raise DataError(f"column {column!r} names no label in any row.")
    numbers = {name: k for k, name in enumerate(names)}
    for number, row in enumerate(rows):
        for label in row:
            if label not in numbers:
                raise DataError(f"column {column!r} names {label!r} in row {number}, which is not among the labels.")
    cells = [sorted({numbers[label] for label in row}) for row in rows]
    indices = np.array([k for row in cells for k in row], dtype=np.int64)
    indptr = np.cumsum([0, *(len(row) for row in cells)])
    parts = (np.ones(len(indices), dtype=np.uint8), indices, indptr)
    return sparse.csr_array(parts, shape=(len(rows), len(names))), names


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _alignment(truth: Columns, truth_names: Sequence[str], labels: Columns, label_names: Sequence[str]) -> list[int]:
    """Return the position among the truth columns of each label."""
    if len(truth_names) != len(label_names):
        raise DataError(f"truth= names {len(truth_names)} column(s), but there are {len(label_names)} labels.")
    keys = [label_key(truth, name) for name in truth_names]
    wanted = [label_key(labels, name) for name in label_names]
    if sorted(keys) != sorted(wanted):
        return list(range(len(keys)))
    position = {key: k for k, key in enumerate(keys)}
    return [position[key] for key in wanted]


def label_key(wanted: Columns | None, name: str) -> str:
    """Return what a label is called apart from the prefix, or the rest of the pattern, that marks its column."""
    if isinstance(wanted, str) and wanted.count("*") == 1:
        before, _, after = wanted.partition("*")
        return name.removeprefix(before).removesuffix(after)
    prefix = TRUTH_PREFIX if name.startswith(TRUTH_PREFIX) else LABEL_PREFIX
    return name.removeprefix(prefix)
