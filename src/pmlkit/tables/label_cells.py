"""Labels in the cells of a table, in and out: one column of sets, or one column of 0/1 per label."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from pmlkit._arrays import row_of_cells
from pmlkit._typing import CSR, BoolArray
from pmlkit._words import did_you_mean
from pmlkit.data.formats._common import excerpt, listing, select
from pmlkit.exceptions import DataError
from pmlkit.tables.base import Edits, Table

__all__ = ["TableLabels", "is_text", "near_equal", "read_indicator", "read_labels"]

_OTHER_SEPARATORS = (",", ";", "|", "/", " ")
_LIKELY = re.compile(r"(?i)^(labels?|tags?|categor(y|ies)|topics?|keywords?|genres?|classes)$")
_SURROGATE = re.compile("[\ud800-\udfff]")
_FLAGS: dict[Any, int] = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1, "no": 0, "yes": 1}
_ABSENT = {"1": "0", "1.0": "0.0", "true": "false", "True": "False", "TRUE": "FALSE", "yes": "no", "Yes": "No"} | {
    "YES": "NO"
}


@dataclass(frozen=True)
class TableLabels:
    """The candidates of a table's rows, and where they stand in it.

    Attributes
    ----------
    Y : CSR array of shape (n_rows, n_labels)
    names : tuple of str
    columns : tuple of str
        The label columns of the table.
    sep : str or None
        Between the labels of a set; None for columns of 0/1 and for lists.
    cells : mapping of str to sequence
        The label columns as they were read.
    merged : mapping of str to str
        Names that were taken for another one.
    """

    Y: CSR
    names: tuple[str, ...]
    columns: tuple[str, ...]
    sep: str | None
    cells: Mapping[str, Sequence[Any]]
    is_set: bool
    merged: Mapping[str, str]

    def edits(self, removed: BoolArray) -> Edits:
        """Return the cells that change when some candidates are removed.

        Parameters
        ----------
        removed : array aligned with ``Y.data``
        """
        rows = row_of_cells(self.Y)[removed]
        labels = self.Y.indices[removed]
        if not self.is_set:
            changes: dict[str, dict[int, Any]] = {}
            for row, k in zip(rows.tolist(), labels.tolist(), strict=True):
                changes.setdefault(self.columns[k], {})[row] = _flag_off(self.cells[self.columns[k]][row])
            return changes
        column = self.columns[0]
        gone: dict[int, set[str]] = {}
        for row, k in zip(rows.tolist(), labels.tolist(), strict=True):
            gone.setdefault(row, set()).add(self.names[k])
        touched = set(gone)
        if self.merged:
            touched |= {
                row
                for row, cell in enumerate(self.cells[column])
                if any(part in self.merged for part in _parts(cell, self.sep))
            }
        return {column: {row: self._without(self.cells[column][row], gone.get(row, set())) for row in sorted(touched)}}

    def _without(self, cell: Any, gone: set[str]) -> Any:
        """Return a set cell without some labels; what stays keeps its spelling and its blanks."""
        raw = cell if isinstance(cell, list) else str(cell).split(self.sep)
        kept: list[Any] = []
        seen: set[str] = set()
        for part in raw:
            name = str(part).strip() if part is not None else ""
            canonical = self.merged.get(name, name)
            if canonical in gone or (self.merged and canonical in seen):
                continue
            seen.add(canonical)
            kept.append(part if canonical == name else canonical)
        if isinstance(cell, list):
            return kept
        if kept and isinstance(kept[0], str):
            kept[0] = kept[0].lstrip() if not str(cell)[:1].isspace() else kept[0]
        return (self.sep or "").join(kept)


def read_labels(table: Table, wanted: Sequence[str], *, sep: str | None = None, merge: bool = False) -> TableLabels:
    r"""Read the candidates of a table.

    Parameters
    ----------
    table : Table
    wanted : sequence of str
        The one column of sets, or the columns of 0/1: names or glob patterns.
    sep : str, optional
        Between the labels of a set; ``;`` by default.
    merge : bool, default=False
        Take names that differ only in case, blanks and hyphens for one, the most frequent spelling.

    Examples
    --------
    >>> import io
    >>> from pmlkit.tables.label_cells import read_labels
    >>> from pmlkit.tables.text_table import TextTable
    >>> table = TextTable(io.BytesIO(b"tags\na; b\nb\n"))
    >>> labels = read_labels(table, ["tags"])
    >>> labels.names, labels.Y.toarray().tolist()
    (('a', 'b'), [[1, 1], [0, 1]])
    >>> labels.edits(labels.Y.indices == 0)
    {'tags': {0: 'b'}}
    """
    labels = read_indicator(table, wanted, sep=sep, merge=merge)
    _check_usable(labels)
    return labels


def read_indicator(table: Table, wanted: Sequence[str], *, sep: str | None = None, merge: bool = False) -> TableLabels:
    """Read label cells as `read_labels` does, even those from which nothing can be learned."""
    columns = _find_columns(table, wanted)
    cells = table.cells(columns)
    if len(columns) == 1 and (sep is not None or not _all_flags(cells[columns[0]])):
        return _read_sets(columns[0], cells, sep, merge)
    indicator = np.column_stack([_flags(name, cells[name]) for name in columns])
    return TableLabels(sparse.csr_array(indicator), tuple(columns), tuple(columns), None, cells, False, {})


def near_equal(names: Sequence[str]) -> list[list[str]]:
    """Return groups of names that differ only in case, blanks, hyphens and underscores.

    Examples
    --------
    >>> from pmlkit.tables.label_cells import near_equal
    >>> near_equal(["Sky", "sky ", "sea", "open-source", "Open Source"])
    [['Sky', 'sky '], ['open-source', 'Open Source']]
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(re.sub(r"[\s_-]+", "", name.casefold()), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def is_text(name: str) -> bool:
    r"""Tell whether a name can be written to a file: JSON can spell half of a character, which nothing can hold.

    Examples
    --------
    >>> from pmlkit.tables.label_cells import is_text
    >>> is_text("é"), is_text("\ud800")
    (True, False)
    """
    return name.isascii() or not _SURROGATE.search(name)


def _find_columns(table: Table, wanted: Sequence[str]) -> list[str]:
    if not wanted:
        likely = [name for name in table.columns if _LIKELY.match(name)]
        hint = f" Is it {likely[0]!r}?" if likely else ""
        raise DataError(
            "which column holds the labels? Pass labels= its name, or a pattern such as 'tag_*' for columns of 0/1."
            f"{hint} The columns are {listing(table.columns)}."
        )
    for name in wanted:
        if name not in table.columns and not any(sign in name for sign in "*?["):
            hint = did_you_mean(name, table.columns)
            likely = [column for column in table.columns if _LIKELY.match(column) and column not in wanted]
            if not hint and likely:
                hint = f" Is it {likely[0]!r}?"
            raise DataError(f"there is no column {name!r}.{hint} The columns are {listing(table.columns)}.")
    return [table.columns[j] for j in select(table.columns, list(wanted), "column")]


def _all_flags(values: Sequence[Any]) -> bool:
    return all(_flag(value) is not None for value in values)


def _flag(value: Any) -> int | None:
    if isinstance(value, str):
        return _FLAGS.get(value.strip().lower())
    return int(value) if value is not None and value in (0, 1) else None


def _flags(name: str, values: Sequence[Any]) -> Any:
    flags = [_flag(value) for value in values]
    if None in flags:
        row = flags.index(None)
        found = "is empty" if values[row] in (None, "") else f"holds {excerpt(str(values[row]))}"
        raise DataError(f"column {name!r} {found} in row {row}, but a label column must hold 0 or 1.")
    return np.array(flags, dtype=np.uint8)


def _flag_off(value: Any) -> Any:
    if isinstance(value, str):
        bare = value.strip()
        return value.replace(bare, _ABSENT.get(bare, "0"))
    return type(value)(0)


def _parts(cell: Any, sep: str | None) -> list[str]:
    raw = cell if isinstance(cell, list) else [] if cell is None else str(cell).split(sep or ";")
    return [text for part in raw if part is not None and (text := str(part).strip())]


def _read_sets(column: str, cells: Mapping[str, Sequence[Any]], sep: str | None, merge: bool) -> TableLabels:
    values = cells[column]
    between = sep or ";"
    _check_kinds(column, values)
    _check_separator(column, values, between)
    sets = [_parts(cell, between) for cell in values]
    count = Counter(label for row in sets for label in row)
    if not count:
        raise DataError(f"column {column!r} names no label in any row.")
    broken = next((label for label in count if not is_text(label)), None)
    if broken is not None:
        raise DataError(f"column {column!r} names the label {broken!r}, which is not text: correct it first.")
    merged: dict[str, str] = {}
    if merge:
        for group in near_equal(sorted(count)):
            kept = max(group, key=lambda name: count[name])
            merged |= {name: kept for name in group if name != kept}
        sets = [[merged.get(label, label) for label in row] for row in sets]
    names = sorted({label for row in sets for label in row})
    number = {name: k for k, name in enumerate(names)}
    rows = [sorted({number[label] for label in row}) for row in sets]
    indices = np.array([k for row in rows for k in row], dtype=np.int32)
    indptr = np.cumsum([0, *(len(row) for row in rows)])
    Y = sparse.csr_array((np.ones(len(indices), dtype=np.uint8), indices, indptr), shape=(len(rows), len(names)))
    return TableLabels(Y, tuple(names), (column,), between, cells, True, merged)


def _check_kinds(column: str, values: Sequence[Any]) -> None:
    """Refuse cells that hold neither labels nor a list of labels."""
    for row, cell in enumerate(values):
        if isinstance(cell, dict) or (isinstance(cell, list) and any(isinstance(x, dict | list | tuple) for x in cell)):
            raise DataError(
                f"column {column!r} holds {excerpt(str(cell))} in row {row}: a label must be a text or number."
            )
    texts = [value for value in values if isinstance(value, str) and value.strip()]
    listed = [text for text in texts if text.strip()[0] == "[" and text.strip()[-1] == "]"]
    if len(listed) > 0.8 * len(texts):
        raise DataError(
            f"column {column!r} holds lists written as text, such as {excerpt(listed[0])}: write the labels alone, "
            "with a sign between them that none contains."
        )


def _check_separator(column: str, values: Sequence[Any], between: str) -> None:
    """Refuse a column where no cell has the separator but most have another one."""
    texts = [value for value in values if isinstance(value, str)]
    if not texts or any(between in text for text in texts):
        return
    for other in _OTHER_SEPARATORS:
        share = sum(other in text.strip() for text in texts) / len(texts)
        if share > 0.3 and len(texts) > 1:
            raise DataError(
                f"column {column!r} has no {between!r} in any cell, but {other!r} in {share:.0%} of them. "
                f"Pass sep={other!r}.".replace("%", " %")
            )


def _check_usable(labels: TableLabels) -> None:
    n_labels = len(labels.names)
    if n_labels == 1:
        raise DataError(
            f"there is only one label, {labels.names[0]!r}: a label is judged by comparing it with others, so at "
            "least two are needed."
        )
    count = np.bincount(labels.Y.indices, minlength=n_labels)
    if count.max(initial=0) <= 1 and n_labels > 1:
        raise DataError(
            f"each of the {n_labels} labels in {labels.columns[0]!r} stands in one row only, so nothing can be learned "
            "from them: is this a column of identifiers or free text, or is another separator needed?"
        )
