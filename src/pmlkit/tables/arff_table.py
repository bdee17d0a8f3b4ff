"""ARFF files of which every byte is kept, but for the cells that are changed."""

import re
from collections.abc import Collection, Sequence
from typing import Any, BinaryIO

from pmlkit.data.formats._arff_header import QUOTED, Header, read_header, unquote
from pmlkit.exceptions import DataError
from pmlkit.tables.base import Edits, Table

__all__ = ["ArffTable"]

_MAX_LINE = 2**26  # characters, as in the other formats
_FIELD = re.compile(rf"\s*(?:{QUOTED})\s*|[^,]*")


class ArffTable(Table):
    r"""A dense or sparse ARFF file.

    Parameters
    ----------
    stream : binary file
        Read to its end. Text that is not UTF-8 is taken for Latin-1, as old Weka files are.

    Examples
    --------
    >>> import io
    >>> from pmlkit.tables.arff_table import ArffTable
    >>> text = b"@relation r\n@attribute size real\n@attribute red {0,1}\n@data\n0.5,1\n{1 1}\n"
    >>> table = ArffTable(io.BytesIO(text))
    >>> table.cells(["size", "red"])
    {'size': ['0.5', '0'], 'red': ['1', '1']}
    >>> out = io.BytesIO()
    >>> table.write(out, {"red": {0: "0", 1: "0"}})
    >>> out.getvalue().splitlines()[-2:]
    [b'0.5,0', b'{}']
    """

    def __init__(self, stream: BinaryIO) -> None:
        data = stream.read()
        try:
            text, self._encoding = data.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            text, self._encoding = data.decode("latin-1"), "latin-1"
        self._lines = re.split(r"(?<=\n)", text)
        long = next((k for k, line in enumerate(self._lines, start=1) if len(line) > _MAX_LINE), None)
        if long is not None:
            raise DataError(
                f"line {long} is longer than {_MAX_LINE // 2**20} million characters: this is not a table of one row "
                "per line."
            )
        counted = ((number, line.lstrip("\ufeff").strip()) for number, line in enumerate(self._lines, start=1))
        self.header: Header = read_header(counted)
        self._rows = [number - 1 for number, line in counted if line and not line.startswith("%")]
        self.columns = [attribute.name for attribute in self.header.attributes]
        self.n_rows = len(self._rows)
        self._positions = {name: j for j, name in enumerate(self.columns)}
        # What a sparse row leaves out: zero, or the first value of a nominal attribute.
        self._default = [next(iter(a.codes)) if a.codes else "0" for a in self.header.attributes]

    def cells(self, columns: Collection[str]) -> dict[str, Sequence[Any]]:
        """Return the texts of some columns, None for a missing value."""
        found: dict[str, list[str | None]] = {name: [] for name in columns}
        for row in range(self.n_rows):
            values = self._values(row)
            for name in columns:
                value = unquote(values.get(self._positions[name], self._default[self._positions[name]]).strip())
                found[name].append(None if value == "?" else value)
        return dict(found)

    def _body(self, row: int) -> tuple[str, bool]:
        body = self._lines[self._rows[row]].strip()
        return body, body.startswith("{")

    def _values(self, row: int) -> dict[int, str]:
        """Return the raw values that stand in a row, by attribute."""
        body, is_sparse = self._body(row)
        if not is_sparse:
            fields = _split(body)
            if len(fields) < len(self.columns):
                raise DataError(f"row {row} has {len(fields)} values, but there are {len(self.columns)} attributes.")
            return dict(enumerate(fields[: len(self.columns)]))
        values = {}
        for entry in _split(body.strip("{} \t")):
            index, _, value = entry.strip().partition(" ")
            if index:
                if not index.isdigit() or int(index) >= len(self.columns):
                    raise DataError(f"row {row} has an entry for attribute {index!r}, which does not exist.")
                values[int(index)] = value
        return values

    def write(self, stream: BinaryIO, edits: Edits) -> None:
        """Write the file with some cells changed."""
        lines = list(self._lines)
        by_row: dict[int, dict[int, str]] = {}
        for name, cells in edits.items():
            for row, text in cells.items():
                by_row.setdefault(row, {})[self._positions[name]] = str(text)
        for row, changes in by_row.items():
            number = self._rows[row]
            body, is_sparse = self._body(row)
            lines[number] = self._lines[number].replace(body, self._edited(row, body, is_sparse, changes), 1)
        for start in range(0, len(lines), 20_000):
            stream.write("".join(lines[start : start + 20_000]).encode(self._encoding))

    def _edited(self, row: int, body: str, is_sparse: bool, changes: dict[int, str]) -> str:
        if not is_sparse:
            fields = _split(body)
            for j, text in changes.items():
                blank = re.match(r"\s*", fields[j])
                fields[j] = (blank[0] if blank else "") + text
            return ",".join(fields)
        entries = [entry for entry in _split(body.strip("{} \t")) if entry.strip()]
        kept = []
        for entry in entries:
            j = int(entry.strip().partition(" ")[0])
            if j not in changes:
                kept.append(entry)
            elif changes[j] != self._default[j]:
                kept.append(f"{j} {changes[j]}")
        return "{" + ",".join(kept).strip() + "}"


def _split(body: str) -> list[str]:
    """Split at commas outside quotes."""
    if "'" not in body and '"' not in body:
        return body.split(",")
    fields, position = [], 0
    while position <= len(body):
        match = _FIELD.match(body, position)
        fields.append(match[0] if match else "")
        position += len(fields[-1]) + 1
    return fields
