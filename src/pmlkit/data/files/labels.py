"""Labels in the cells of a table, in and out: one column of sets, or one column of 0/1 per label."""

import ast
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from pmlkit._arrays import move_columns, row_of_cells
from pmlkit._typing import CSR, BoolArray
from pmlkit._words import counted, excerpt, listing
from pmlkit.data.files.base import Edits, Names, TableFile, as_names, as_number, label_key, likely_labels, select
from pmlkit.data.files.json_rows import dump_like
from pmlkit.exceptions import DataError, PMLWarning

logger = logging.getLogger(__name__)

_DEFAULT_SEPARATOR = ";"
_SAFE_SEPARATORS, _DOUBTFUL_SEPARATORS = (",", "|"), ("/", " ")  # the latter are often part of a name
_NEVER_IN_NAMES = (";", "|")
_OFTEN = 0.3  # share of cells with a sign from which it is taken for the separator
_MOSTLY = 0.8  # share of cells that are lists from which all must be
_SURROGATE = re.compile("[\ud800-\udfff]")
_FLAGS: dict[Any, int] = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1, "no": 0, "yes": 1}
_ABSENT = {"1": "0", "1.0": "0.0", "true": "false", "True": "False", "TRUE": "FALSE", "yes": "no", "Yes": "No"} | {
    "YES": "NO"
}
_PRESENT = {absent: present for present, absent in _ABSENT.items()}


@dataclass(frozen=True)
class LabelColumns:
    """The labels of a table's rows, and where they stand in it.

    - `columns`: the label columns of the table.
    - `cells`: the label columns as they were read.
    - `sep`: between the labels of a set; None for columns of 0/1 and for lists.
    - `is_set`: whether one column holds sets of labels.
    - `merged`: names that were taken for another one.
    """

    Y: CSR
    names: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[str, Sequence[Any]]
    sep: str | None
    is_set: bool
    merged: Mapping[str, str]

    def aligned(
        self, names: Sequence[str], pattern: Names | None, other_pattern: Names | None
    ) -> tuple[CSR, tuple[str, ...], tuple[str, ...]]:
        """Return the labels in the order of `names`, the others last; the names of the others; the names not found.

        `pattern`, `other_pattern`: how the columns of these labels, and those of `names`, were called. Names also match
        where what the ``*`` of the two patterns stands for is the same.
        """
        number = {label_key(other_pattern, str(name)): k for k, name in enumerate(names)}
        number |= {str(name): k for k, name in enumerate(names)}
        found = [number.get(name, number.get(label_key(pattern, name))) for name in self.names]
        unknown = [name for name, k in zip(self.names, found, strict=True) if k is None]
        last = iter(range(len(names), len(names) + len(unknown)))
        target = [next(last) if k is None else k for k in found]
        absent = tuple(str(name) for k, name in enumerate(names) if k not in set(target))
        return move_columns(self.Y, target, len(names) + len(unknown)), tuple(unknown), absent

    def edits_to(self, wanted: CSR) -> Edits:
        """Return the cells that change so that the table has other labels."""
        if wanted.shape != self.Y.shape:
            raise DataError(f"Y must have the shape {self.Y.shape} of the table's labels, got {wanted.shape}.")
        here, there = (row_of_cells(m).astype(np.int64) * m.shape[1] + m.indices for m in (self.Y, wanted))
        added = np.divmod(there[~np.isin(there, here, assume_unique=True)], self.Y.shape[1])
        removed = ~np.isin(here, there, assume_unique=True)
        return self.edits(removed, zip(*(part.tolist() for part in added), strict=True))

    def edits(self, removed: BoolArray, added: Iterable[tuple[int, int]] = ()) -> Edits:
        """Return the cells that change when some labels are removed and some, as rows and numbers, are added."""
        cells = zip(row_of_cells(self.Y)[removed].tolist(), self.Y.indices[removed].tolist(), strict=True)
        if not self.is_set:
            changes: dict[str, dict[int, Any]] = {}
            for pairs, is_on in ((cells, False), (added, True)):
                for row, k in pairs:
                    changes.setdefault(self.columns[k], {})[row] = _switched(self.cells[self.columns[k]][row], is_on)
            return changes
        values = self.cells[self.columns[0]]
        gone: dict[int, set[str]] = {}
        new: dict[int, list[str]] = {}
        for row, k in cells:
            gone.setdefault(row, set()).add(self.names[k])
        for row, k in added:
            new.setdefault(row, []).append(self.names[k])
        touched = gone.keys() | new.keys()
        if self.merged:
            touched |= {row for row, cell in enumerate(values) if not self.merged.keys().isdisjoint(self._names(cell))}
        changed = {row: self._changed(values[row], gone.get(row, set()), new.get(row, ())) for row in sorted(touched)}
        return {self.columns[0]: changed}

    def _names(self, cell: Any) -> list[str]:
        return [_name(part) for part in _split(cell, self.sep)]

    def _changed(self, cell: Any, gone: set[str], new: Sequence[str]) -> Any:
        """Return a set cell without some labels and with others; what stays keeps its spelling and its blanks."""
        kept: list[Any] = []
        seen: set[str] = set()
        parts = _split(cell, self.sep)
        for part in parts:
            name = _name(part)
            canonical = self.merged.get(name, name)
            if canonical in gone or (self.merged and canonical in seen):
                continue
            seen.add(canonical)
            kept.append(part if canonical == name else canonical)
        if not new:
            return _join(kept, cell, self.sep)
        filled = [part for part in kept if _name(part)]
        values = self.cells[self.columns[0]]
        like = cell if any(map(_name, parts)) else next(value for value in values if any(self._names(value)))
        styled = "" if self.sep is None else next((str(value) for value in values if self.sep in str(value)), "")
        blank = " " if f"{self.sep} " in styled else ""
        return _join([*filled, *((blank if filled or i else "") + name for i, name in enumerate(new))], like, self.sep)


def _name(part: Any) -> str:
    return "" if part is None else str(part).strip()


def _split(cell: Any, sep: str | None) -> list[Any]:
    """Return the parts of a set cell: of a list, of a list written as text (`sep` is None), or between separators."""
    if isinstance(cell, list):
        return cell
    if cell is None:
        return []
    if sep is not None:
        return str(cell).split(sep)
    return _parse_list(str(cell)) if str(cell).strip() else []


def _join(parts: list[Any], cell: Any, sep: str | None) -> Any:
    """Return a cell with other parts, written as the old one is."""
    if isinstance(cell, list):
        return parts
    if sep is None:
        bare = cell.strip()
        text = dump_like(parts, bare) if _is_json(bare) else repr(parts)
        return cell.replace(bare, text)
    if parts and isinstance(parts[0], str) and not str(cell)[:1].isspace():
        parts[0] = parts[0].lstrip()
    return sep.join(parts)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _parse_list(text: str) -> list[Any]:
    """Return the labels of ``['a', 'b']`` or ``["a", "b"]``."""
    for parse in (json.loads, ast.literal_eval):
        try:
            found = parse(text.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(found, list) and not any(isinstance(part, dict | list | tuple) for part in found):
            return found
    raise ValueError(text)


def read_labels(file: TableFile, wanted: Names | None, *, sep: str | None = None, merge: bool = False) -> LabelColumns:
    """Read the labels of a table.

    - `wanted`: the one column of sets, or the columns of 0/1: names or glob patterns.
    - `sep`: between the labels of a set. By default ``;`` or, where no cell has one, the comma or bar that many have;
      cells such as ``['a', 'b']`` are recognised, too.
    - `merge`: take names that differ only in case, blanks and hyphens for one, the most frequent spelling.
    """
    columns = _find_columns(file, wanted)
    cells = file.cells(columns)
    if len(columns) == 1 and (sep is not None or not _are_flags(cells[columns[0]])):
        return _read_sets(columns[0], cells, sep, merge)
    indicator = np.column_stack([_flags(name, cells[name]) for name in columns])
    return LabelColumns(sparse.csr_array(indicator), tuple(columns), tuple(columns), cells, None, False, {})


def _find_columns(file: TableFile, wanted: Names | None) -> list[str]:
    names = as_names(wanted)
    if not names:
        likely = likely_labels(file.columns)
        hint = f" Is it {likely[0]!r}?" if likely else ""
        raise DataError(
            f"which column holds the labels?{hint} The columns are {listing(file.columns)}.",
            option="labels",
            remedy=" its name, or a pattern such as 'tag_*' for columns of 0/1",
        )
    return [file.columns[j] for j in select(file.columns, names, option="labels")]


def _are_flags(values: Sequence[Any]) -> bool:
    """Return whether all cells that hold something hold 0 or 1."""
    if any(isinstance(value, list | dict) for value in values):
        return False
    known = set(values) - {None, ""}
    return bool(known) and all(_flag(value) is not None for value in known)


def _flag(value: Any) -> int | None:
    if isinstance(value, str):
        flag = _FLAGS.get(value.strip().lower())
        return _flag(as_number(value)) if flag is None else flag
    return int(value) if isinstance(value, bool | int | float) and value in (0, 1) else None


def _flags(name: str, values: Sequence[Any]) -> Any:
    try:
        flag_of = {value: _flag(value) for value in set(values)}
        return np.fromiter(map(flag_of.__getitem__, values), np.uint8, len(values))
    except TypeError:  # a list is no key, and None is no number
        row = next(row for row, value in enumerate(values) if isinstance(value, list | dict) or _flag(value) is None)
    found = "is empty" if values[row] in (None, "") else f"holds {excerpt(str(values[row]))}"
    raise DataError(f"column {name!r} {found} in row {row}, but a label column must hold 0 or 1.", column=name, row=row)


def _switched(value: Any, is_on: bool) -> Any:
    """Return a cell of 0/1 with the label present or absent, spelled as before."""
    if isinstance(value, str):
        bare = value.strip()
        return value.replace(bare, _PRESENT.get(bare, "1") if is_on else _ABSENT.get(bare, "0"))
    return type(value)(is_on)


def _read_sets(column: str, cells: Mapping[str, Sequence[Any]], sep: str | None, merge: bool) -> LabelColumns:
    values = cells[column]
    if not set(map(type, values)) <= {str, type(None)}:
        _refuse_nested(column, values)
    between = _separator(column, values, sep)
    # Many rows have the same cell: each different one is parsed once.
    number: dict[Any, int] = {}
    keys = (tuple(cell) if isinstance(cell, list) else cell for cell in values)
    cell_of = np.fromiter((number.setdefault(key, len(number)) for key in keys), np.int64, len(values))
    sets = []
    for key, k in number.items():
        try:
            parts = _split(list(key) if isinstance(key, tuple) else key, between)
        except ValueError as error:
            row = int(np.argmax(cell_of == k))
            message = f"column {column!r} holds {excerpt(str(key))} in row {row}, but the other cells hold lists."
            raise DataError(message, column=column, row=row) from error
        sets.append([name for part in parts if (name := _name(part))])
    known = {label for labels in sets for label in labels}
    if not known:
        raise DataError(f"column {column!r} names no label in any row.", column=column)
    broken = next((label for label in sorted(known) if not is_text(label)), None)
    if broken is not None:
        raise DataError(
            f"column {column!r} names the label {broken!r}, which is not text: correct it first.", column=column
        )
    merged = _merged(known, sets, np.bincount(cell_of)) if merge else {}
    names = sorted(known - merged.keys())
    position = {name: k for k, name in enumerate(names)}
    position |= {name: position[kept] for name, kept in merged.items()}
    rows = [sorted({position[label] for label in labels}) for labels in sets]
    indices = np.array([k for row in rows for k in row], dtype=np.int32)
    indptr = np.cumsum([0, *map(len, rows)])
    ones = np.ones(len(indices), dtype=np.uint8)
    Y = sparse.csr_array((ones, indices, indptr), shape=(len(rows), len(names)))[cell_of]
    return LabelColumns(Y, tuple(names), (column,), cells, between, True, merged)


def _merged(known: set[str], sets: Sequence[list[str]], n_rows: Any) -> dict[str, str]:
    """Return the names that another one, more frequent and nearly the same, stands for."""
    count: Counter[str] = Counter()
    for labels, n in zip(sets, n_rows.tolist(), strict=True):
        for label in labels:
            count[label] += n
    merged: dict[str, str] = {}
    for group in near_equal(sorted(known)):
        kept = max(group, key=lambda name: count[name])
        merged |= {name: kept for name in group if name != kept}
    return merged


def _refuse_nested(column: str, values: Sequence[Any]) -> None:
    """Refuse cells that hold neither labels nor a list of labels."""
    for row, cell in enumerate(values):
        if isinstance(cell, dict) or (isinstance(cell, list) and any(isinstance(x, dict | list | tuple) for x in cell)):
            message = f"column {column!r} holds {excerpt(str(cell))} in row {row}: a label must be a text or number."
            raise DataError(message, column=column, row=row)


def _separator(column: str, values: Sequence[Any], sep: str | None) -> str | None:
    """Return the separator of the labels in a cell, None where the cells are lists; log what was detected."""
    texts = [value for value in values if isinstance(value, str) and value and not value.isspace()]
    if sep is None and _are_lists(texts[:100]) and _are_lists(texts):
        logger.warning("column %r holds lists such as %s: read as such.", column, excerpt(texts[0]))
        return None
    between = sep or _DEFAULT_SEPARATOR
    if len(texts) < 2 or any(between in text for text in texts):
        return between
    # With a separator given, labels may contain commas, spaces and slashes.
    others = (*_SAFE_SEPARATORS, *_DOUBTFUL_SEPARATORS) if sep is None else _NEVER_IN_NAMES
    for other in others:
        share = sum(other in text.strip() for text in texts) / len(texts)
        if share > _OFTEN:
            found = f"column {column!r} has {other!r} in {100 * share:.0f} % of its cells"
            if sep is None and other in _SAFE_SEPARATORS:
                logger.warning("%s: labels are split there.", found)
                return other
            raise DataError(
                f"{found}, but {between!r} in none.",
                option="sep",
                value=repr(other),
                remedy="" if sep else f", or {between!r} if it is part of the labels",
                column=column,
            )
    return between


def _are_lists(texts: Sequence[str]) -> bool:
    """Return whether most texts are lists, as ``['a', 'b']``."""
    return sum(text.strip()[0] == "[" and text.strip()[-1] == "]" for text in texts) > _MOSTLY * len(texts)


def near_equal(names: Sequence[str]) -> list[list[str]]:
    """Return groups of names that differ only in case, blanks, hyphens and underscores."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(re.sub(r"[\s_-]+", "", name.casefold()), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def is_text(name: str) -> bool:
    r"""Return whether a name can be written to a file: JSON can spell half of a character, which nothing can hold."""
    return name.isascii() or not _SURROGATE.search(name)


def note_names(labels: LabelColumns) -> None:
    """Note names that are nearly the same, and those that were merged."""
    if groups := near_equal(labels.names):
        shown = "; ".join(" and ".join(repr(name) for name in group) for group in groups[:3])
        more = f" (and {len(groups) - 3} more)" if len(groups) > 3 else ""
        message = f"some labels have nearly the same name: {shown}{more}."
        option = "merge_labels" if labels.is_set else None
        logger.warning(PMLWarning(message, option=option, value="True", remedy=" to take them for one"))
    if labels.merged:
        merged = counted(len(labels.merged), "label name was", "label names were")
        logger.warning("%s merged into another spelling.", merged)


def check_learnable(labels: LabelColumns) -> None:
    """Refuse labels from which nothing can be learned."""
    n_labels = len(labels.names)
    if n_labels == 1:
        unsplit = next((sign for sign in ",;|" if labels.is_set and sign in labels.names[0]), None)
        raise DataError(
            f"there is only one label, {labels.names[0]!r}: labels are compared with each other, so at least two are "
            "needed.",
            column=labels.columns[0],
            option="sep" if unsplit else None,
            value=repr(unsplit),
            remedy=" if it is several",
        )
    count = np.bincount(labels.Y.indices, minlength=n_labels)
    if count.max(initial=0) <= 1:
        raise DataError(
            f"each of the {n_labels} labels in {labels.columns[0]!r} stands in one row only, so nothing can be learned "
            "from them: is this a column of identifiers or free text, or is another separator needed?",
            column=labels.columns[0],
        )
