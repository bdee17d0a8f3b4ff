"""JSON files of rows, one object per line or an array, written again byte by byte, except for changed values."""

import json
from collections.abc import Sequence
from typing import Any, BinaryIO

from pmlkit.data.files.base import FREE_BYTES, Edits, TableFile, check_size
from pmlkit.exceptions import DataError

_DECODER = json.JSONDecoder()
_MAX_LINE = 2**26
_BLANK = " \t\r\n"


class JsonFile(TableFile):
    """A file with one JSON object per line (JSON Lines), or with an array of objects.

    `max_bytes`: how much memory its cells may take: many objects with a key of their own each make a table that is far
    larger than the file.
    """

    def __init__(self, stream: BinaryIO, max_bytes: int = FREE_BYTES) -> None:
        # The file as texts, one per line or a single one; of each row, which text holds it, where its values are in it,
        # and the values.
        self._texts: list[str] = []
        self._rows: list[tuple[int, dict[str, tuple[int, int]], dict[str, Any]]] = []
        is_array = False
        while raw := stream.readline(_MAX_LINE):
            number = len(self._texts) + 1
            if not is_array and not any(text.strip("\ufeff" + _BLANK) for text in self._texts):
                is_array = raw.lstrip(b"\xef\xbb\xbf").lstrip().startswith(b"[")
                raw += stream.read() if is_array else b""
            if len(raw) >= _MAX_LINE and not is_array:
                raise DataError(
                    f"line {number} is longer than {_MAX_LINE // 2**20} MB: this is not a file of one object per line.",
                    line=number,
                )
            try:
                self._texts.append(raw.decode("utf-8"))
            except UnicodeDecodeError as error:
                number += raw.count(b"\n", 0, error.start)
                raise DataError(f"line {number} is not UTF-8, as JSON has to be.", line=number) from error
        for k, text in enumerate(self._texts):
            if text.strip("\ufeff" + _BLANK):
                (self._parse_array if is_array and k == len(self._texts) - 1 else self._parse_line)(k)
        if not any(text.strip("\ufeff" + _BLANK) for text in self._texts):
            raise DataError("the file is empty.")
        self.columns = list(dict.fromkeys(name for _, spans, _ in self._rows for name in spans))
        self.n_rows = len(self._rows)
        n_columns = len(self.columns)
        check_size(8 * self.n_rows * n_columns, max_bytes, f"a table of {self.n_rows:,} rows and {n_columns:,} columns")

    def _parse_line(self, number: int) -> None:
        line = self._texts[number]
        try:
            spans, values, stop = _parse_object(line, _skip(line, 1 if line.startswith("\ufeff") else 0))
            if line[stop:].strip():
                raise ValueError("something follows the object")
        except (ValueError, IndexError, RecursionError) as error:
            raise DataError(f"line {number + 1} is not a JSON object: {_reason(error)}.", line=number + 1) from error
        self._rows.append((number, spans, values))

    def _parse_array(self, number: int) -> None:
        text = self._texts[number]
        position = text.index("[") + 1
        try:
            position = _skip(text, position)
            while text[position] != "]":
                spans, values, position = _parse_object(text, position)
                self._rows.append((number, spans, values))
                position = _skip(text, position)
                if text[position] == ",":
                    position = _skip(text, position + 1)
                elif text[position] != "]":
                    raise ValueError("a comma is missing")
            if text[position + 1 :].strip():
                raise ValueError("something follows the array")
        except (ValueError, IndexError, RecursionError) as error:
            line = number + text.count("\n", 0, position) + 1
            raise DataError(
                f"line {line}, object {len(self._rows) + 1} of the array, is not a JSON object: {_reason(error)}.",
                line=line,
            ) from error

    def _parse_cells(self, names: list[str]) -> dict[str, Sequence[Any]]:
        return {name: [values.get(name) for _, _, values in self._rows] for name in names}

    def write(self, stream: BinaryIO, edits: Edits) -> None:
        """Write the file with some values changed."""
        changes: dict[int, list[tuple[int, int, str]]] = {}
        for name, cells in edits.items():
            for row, value in cells.items():
                number, spans, _ = self._rows[row]
                start, stop = spans[name]
                raw = self._texts[number][start:stop]
                changes.setdefault(number, []).append((start, stop, dump_like(value, raw)))
        for number, text in enumerate(self._texts):
            parts, position = [], 0
            for start, stop, new in sorted(changes.get(number, ())):
                parts += [text[position:start], new]
                position = stop
            stream.write("".join([*parts, text[position:]]).encode("utf-8"))


def dump_like(value: Any, raw: str) -> str:
    """Return a value as JSON, spaced and escaped as `raw` is."""
    tight = (",", ":") if ", " not in raw else (", ", ": ")
    return json.dumps(value, ensure_ascii=raw.isascii(), separators=tight)


def _parse_object(text: str, position: int) -> tuple[dict[str, tuple[int, int]], dict[str, Any], int]:
    """Return where the value of each key of an object begins and ends, the values, and where the object ends."""
    spans: dict[str, tuple[int, int]] = {}
    values: dict[str, Any] = {}
    if text[position] != "{":
        raise ValueError("it is not an object")
    position = _skip(text, position + 1)
    while text[position] != "}":
        name, position = _DECODER.raw_decode(text, position)
        if not isinstance(name, str):
            raise ValueError("a key is not a string")
        position = _skip(text, position)
        if text[position] != ":":
            raise ValueError("a colon is missing")
        start = _skip(text, position + 1)
        value, stop = _DECODER.raw_decode(text, start)
        if name in spans:
            raise ValueError(f"the key {name!r} occurs twice")
        spans[name], values[name] = (start, stop), value
        position = _skip(text, stop)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return spans, values, position + 1


def _reason(error: Exception) -> str:
    if "integer string conversion" in str(error):
        return "it holds a number of thousands of digits"
    return str(error) if type(error) is ValueError else "it is not complete or not JSON"


def _skip(text: str, position: int) -> int:
    while text[position] in _BLANK:
        position += 1
    return position
