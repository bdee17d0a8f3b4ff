"""CSV and TSV files of which every byte is kept, but for the cells that are changed."""

import codecs
import io
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

from pmlkit.exceptions import DataError
from pmlkit.tables.base import Edits, Table

__all__ = ["TextTable"]

_MAX_RECORD = 2**26  # characters: beyond that it is not a table of short cells, or not a table at all
_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_GUESSES = ("cp1252", "latin-1")
_WRITE_ROWS = 20_000


class TextTable(Table):
    r"""A text file with a header line and one row per record.

    Parameters
    ----------
    stream : binary file
        Read to its end.
    delimiter : str, optional
        Between columns; by default the comma, semicolon, tab or bar that the header has most of.
    encoding : str, default="utf-8"
        A byte order mark counts for more.

    Examples
    --------
    >>> import io
    >>> from pmlkit.tables.text_table import TextTable
    >>> table = TextTable(io.BytesIO(b'id,"tags"\r\n1,"a;b"\r\n2,c\r\n'))
    >>> table.cells(["tags"])
    {'tags': ['a;b', 'c']}
    >>> out = io.BytesIO()
    >>> table.write(out, {"tags": {0: "b"}})
    >>> out.getvalue()
    b'id,"tags"\r\n1,"b"\r\n2,c\r\n'
    """

    def __init__(self, stream: BinaryIO, *, delimiter: str | None = None, encoding: str = "utf-8") -> None:
        head = stream.read(4)
        self._bom = next((bom for bom in _BOMS if head.startswith(bom)), b"")
        self._encoding = _BOMS.get(self._bom, encoding)
        try:
            codecs.lookup(self._encoding)
        except LookupError as error:
            raise ValueError(f"encoding must be the name of a text encoding, got {encoding!r}.") from error
        stream.seek(len(self._bom))
        self._records = list(self._read_records(stream))
        filled = (k for k, record in enumerate(self._records) if record.strip("\r\n"))
        header = next(filled, None)
        if header is None:
            raise DataError("the file is empty.")
        self._rows = list(filled)
        self._delimiter = delimiter or _guess_delimiter(self._records[header])
        if len(self._delimiter) != 1:
            raise ValueError(f"delimiter must be one character, got {delimiter!r}.")
        self._quoted_field = re.compile(
            rf'"(?:[^"]|"")*"[^{re.escape(self._delimiter)}]*|[^{re.escape(self._delimiter)}]*'
        )
        self.columns = [_unquote(field) for field in self._fields(header)[0]]
        self.n_rows = len(self._rows)
        self._positions = {name: j for j, name in enumerate(self.columns)}
        if len(self._positions) < len(self.columns):
            double = next(name for k, name in enumerate(self.columns) if name in self.columns[:k])
            raise DataError(f"the column {double!r} occurs more than once. Rename one of the two.")

    def _read_records(self, stream: BinaryIO) -> Iterator[str]:
        text = io.TextIOWrapper(stream, encoding=self._encoding, newline="")
        number = 0
        try:
            while line := text.readline(_MAX_RECORD):
                number += 1
                while line.count('"') % 2 and (more := text.readline(_MAX_RECORD)):
                    line += more
                    if len(line) > _MAX_RECORD:
                        raise DataError(f'the row in line {number} never ends: it has a quotation mark (") too many.')
                if len(line) >= _MAX_RECORD:
                    raise DataError(
                        f"line {number} is longer than {_MAX_RECORD // 2**20} million characters: this is not a table "
                        "of one row per line."
                    )
                if "\0" in line:
                    raise DataError(f"line {number} holds a zero byte: this is not a text file, or it is damaged.")
                yield line
        except UnicodeError as error:
            raise DataError(self._encoding_advice(number + 1)) from error
        finally:
            text.detach()

    def _encoding_advice(self, number: int) -> str:
        other = next(name for name in _GUESSES if name != self._encoding.lower())
        return (
            f"the text after line {number} is not in {self._encoding}. Pass encoding= the right one, such as {other}; "
            "if the file mixes encodings, convert it first."
        )

    def _fields(self, record: int) -> tuple[list[str], str]:
        """Return the raw fields of a record, quotes included, and its line end."""
        raw = self._records[record]
        body = raw.rstrip("\r\n")
        end = raw[len(body) :]
        if '"' not in body:
            return body.split(self._delimiter), end
        fields, position = [], 0
        while True:
            match = self._quoted_field.match(body, position)
            fields.append(match[0] if match else "")
            position += len(fields[-1]) + 1
            if position > len(body):
                return fields, end

    def cells(self, columns: Collection[str]) -> dict[str, Sequence[Any]]:
        """Return the unquoted texts of some columns."""
        wanted = [(name, self._positions[name]) for name in columns]
        found: dict[str, list[str]] = {name: [] for name in columns}
        n_columns = len(self.columns)
        for row, record in enumerate(self._rows):
            fields, _ = self._fields(record)
            if len(fields) != n_columns:
                raise DataError(
                    f"row {row} (line {self._line(record)}) has {len(fields)} cells, but the header names {n_columns} "
                    "columns. Quote cells that contain the delimiter."
                )
            for name, j in wanted:
                found[name].append(_unquote(fields[j]))
        return dict(found)

    def _line(self, record: int) -> int:
        return 1 + sum(raw.count("\n") or 1 for raw in islice(self._records, record))

    def write(self, stream: BinaryIO, edits: Edits) -> None:
        """Write the file with some cells changed; a changed cell is quoted if it was, or if it must be."""
        by_record: dict[int, dict[int, str]] = {}
        for name, cells in edits.items():
            for row, text in cells.items():
                by_record.setdefault(self._rows[row], {})[self._positions[name]] = str(text)
        stream.write(self._bom)
        for start in range(0, len(self._records), _WRITE_ROWS):
            block = self._records[start : start + _WRITE_ROWS]
            for offset in range(len(block)):
                if (changes := by_record.get(start + offset)) is not None:
                    fields, end = self._fields(start + offset)
                    for j, text in changes.items():
                        fields[j] = self._quote(text, like=fields[j])
                    block[offset] = self._delimiter.join(fields) + end
            stream.write("".join(block).encode(self._encoding))

    def _quote(self, text: str, *, like: str) -> str:
        needs_quotes = any(sign in text for sign in (self._delimiter, '"', "\n", "\r"))
        if like.startswith('"') or needs_quotes:
            return '"' + text.replace('"', '""') + '"'
        return text


def _unquote(field: str) -> str:
    if not field.startswith('"'):
        return field
    closing = field.rfind('"')
    return field[1:closing].replace('""', '"') + field[closing + 1 :] if closing > 0 else field[1:]


def _guess_delimiter(header: str) -> str:
    bare = re.sub(r'"(?:[^"]|"")*"', "", header)
    return max(",;\t|", key=bare.count)
