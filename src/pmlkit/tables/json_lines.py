"""JSON Lines files of which every byte is kept, but for the values that are changed."""

import json
from collections.abc import Collection, Sequence
from typing import Any, BinaryIO

from pmlkit.exceptions import DataError
from pmlkit.tables.base import Edits, Table

__all__ = ["JsonLinesTable"]

_DECODER = json.JSONDecoder()
_MAX_LINE = 2**26
_BLANK = " \t\r\n"


class JsonLinesTable(Table):
    r"""A file with one JSON object per line.

    Parameters
    ----------
    stream : binary file
        Read to its end; UTF-8.

    Examples
    --------
    >>> import io
    >>> from pmlkit.tables.json_lines import JsonLinesTable
    >>> table = JsonLinesTable(io.BytesIO(b'{"id": 1, "tags": ["a","b"]}\n{"id":2}\n'))
    >>> table.cells(["tags"])
    {'tags': [['a', 'b'], None]}
    >>> out = io.BytesIO()
    >>> table.write(out, {"tags": {0: ["b"]}})
    >>> out.getvalue()
    b'{"id": 1, "tags": ["b"]}\n{"id":2}\n'
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._lines: list[str] = []
        while raw := stream.readline(_MAX_LINE):
            if len(raw) >= _MAX_LINE:
                raise DataError(
                    f"line {len(self._lines) + 1} is longer than {_MAX_LINE // 2**20} MB: this is not a file of one "
                    "object per line."
                )
            try:
                self._lines.append(raw.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise DataError(f"line {len(self._lines) + 1} is not UTF-8, as JSON has to be.") from error
        self._rows = [k for k, line in enumerate(self._lines) if line.lstrip("\ufeff").strip()]
        if not self._rows:
            raise DataError("the file is empty.")
        self._spans = [self._parse(k) for k in self._rows]
        self.columns = list(dict.fromkeys(name for spans in self._spans for name in spans))
        self.n_rows = len(self._rows)

    def _parse(self, number: int) -> dict[str, tuple[int, int]]:
        """Return where the value of each key of the object in a line begins and ends."""
        line = self._lines[number]
        spans: dict[str, tuple[int, int]] = {}
        try:
            position = _skip(line, 1 if line.startswith("\ufeff") else 0)
            if line[position] != "{":
                raise ValueError("it is not an object")
            position = _skip(line, position + 1)
            while line[position] != "}":
                name, position = _DECODER.raw_decode(line, position)
                if not isinstance(name, str):
                    raise ValueError("a key is not a string")
                position = _skip(line, position)
                if line[position] != ":":
                    raise ValueError("a colon is missing")
                start = _skip(line, position + 1)
                _, stop = _DECODER.raw_decode(line, start)
                if name in spans:
                    raise ValueError(f"the key {name!r} occurs twice")
                spans[name] = (start, stop)
                position = _skip(line, stop)
                if line[position] == ",":
                    position = _skip(line, position + 1)
            if line[position + 1 :].strip():
                raise ValueError("something follows the object")
        except (ValueError, IndexError, RecursionError) as error:
            reason = error if type(error) is ValueError else "it is not complete or not JSON"
            raise DataError(f"line {number + 1} is not a JSON object: {reason}.") from error
        return spans

    def cells(self, columns: Collection[str]) -> dict[str, Sequence[Any]]:
        """Return the values of some keys, None where a line lacks the key."""
        return {name: [self._value(row, name) for row in range(self.n_rows)] for name in columns}

    def _value(self, row: int, name: str) -> Any:
        span = self._spans[row].get(name)
        return None if span is None else json.loads(self._lines[self._rows[row]][slice(*span)])

    def write(self, stream: BinaryIO, edits: Edits) -> None:
        """Write the file with some values changed."""
        by_row: dict[int, list[tuple[int, int, str]]] = {}
        for name, cells in edits.items():
            for row, value in cells.items():
                start, stop = self._spans[row][name]
                raw = self._lines[self._rows[row]][start:stop]
                tight = (",", ":") if ", " not in raw else (", ", ": ")
                text = json.dumps(value, ensure_ascii=raw.isascii(), separators=tight)
                by_row.setdefault(self._rows[row], []).append((start, stop, text))
        for number, line in enumerate(self._lines):
            for start, stop, text in sorted(by_row.get(number, ()), reverse=True):
                line = line[:start] + text + line[stop:]
            stream.write(line.encode("utf-8"))


def _skip(line: str, position: int) -> int:
    while line[position] in _BLANK:
        position += 1
    return position
