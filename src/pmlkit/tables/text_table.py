"""CSV and TSV files of which every byte is kept, but for the cells that are changed."""

import codecs
import contextlib
import io
import re
from collections.abc import Collection, Generator, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

from pmlkit.exceptions import DataError
from pmlkit.tables.base import Edits, Table

__all__ = ["TextTable"]

_MAX_RECORD = 2**26  # characters: beyond that it is not a table of short cells, or not a table at all
_BOMS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # before UTF-16, with whose mark it begins
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
# Codecs that would put a mark before every block that is written.
_WITHOUT_MARK = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
_GUESSES = ("cp1252", "latin-1")
_WRITE_ROWS = 20_000
_UP_TO_CLOSING = re.compile(r'[^"]*+(?:""[^"]*+)*+"')


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
        self._encoding = _BOMS.get(self._bom, _text_encoding(encoding))
        stream.seek(len(self._bom))
        with contextlib.closing(self._read_lines(stream)) as lines:
            self._records = list(_until_header(lines))
            if not self._records or not self._records[-1].strip("\r\n"):
                raise DataError("the file is empty.")
            header = len(self._records) - 1
            self._learn_delimiter(delimiter or _guess_delimiter(self._records[header]))
            self._records += self._join_lines(lines)
        self.columns = [_unquote(field) for field in self._fields(header)[0]]
        self._rows = [k for k in range(header + 1, len(self._records)) if self._records[k].strip("\r\n")]
        self.n_rows = len(self._rows)
        self._positions = {name: j for j, name in enumerate(self.columns)}
        if len(self._positions) < len(self.columns):
            double = next(name for k, name in enumerate(self.columns) if name in self.columns[:k])
            raise DataError(f"the column {double!r} occurs more than once. Rename one of the two.")

    def _learn_delimiter(self, delimiter: str) -> None:
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise ValueError(f"delimiter must be one character, but not a quotation mark, got {delimiter!r}.")
        self._delimiter = delimiter
        between = re.escape(delimiter)
        quoted = rf'"[^"]*+(?:""[^"]*+)*+"[^{between}]*+'
        bare = f"[^{between}]*+"
        closed = rf'(?:{quoted}|(?!"){bare})'
        self._field = re.compile(f"{quoted}|{bare}")
        self._whole = re.compile(f"{closed}(?:{between}{closed})*+")
        self._tail = re.compile(f"{bare}(?:{between}{closed})*+")

    def _read_lines(self, stream: BinaryIO) -> Generator[tuple[int, str]]:
        """Yield the lines, numbered from 1, line ends included."""
        text = io.TextIOWrapper(stream, encoding=self._encoding, newline="")
        number = 0
        try:
            while line := text.readline(_MAX_RECORD):
                number += 1
                if len(line) >= _MAX_RECORD:
                    raise DataError(
                        f"line {number} is longer than {_MAX_RECORD // 2**20} million characters: this is not a table "
                        "of one row per line."
                    )
                if "\0" in line:
                    raise DataError(f"line {number} holds a zero byte: this is not a text file, or it is damaged.")
                yield number, line
        except UnicodeError as error:
            raise DataError(self._encoding_advice(stream, number + 1)) from error
        finally:
            text.detach()

    def _join_lines(self, lines: Iterator[tuple[int, str]]) -> Iterator[str]:
        """Yield records: a cell that begins with a quotation mark may go over several lines."""
        for number, line in lines:
            if '"' not in line or self._whole.fullmatch(line):
                yield line
                continue
            parts, size, is_open = [line], len(line), True
            while is_open:
                _, more = next(lines, (0, ""))
                size += len(more)
                if not more or size > _MAX_RECORD:
                    raise _never_ends(number)
                parts.append(more)
                closing = _UP_TO_CLOSING.match(more)
                is_open = closing is None or self._tail.fullmatch(more, closing.end()) is None
            yield "".join(parts)

    def _encoding_advice(self, stream: BinaryIO, number: int) -> str:
        other = next(name for name in _GUESSES if name != self._encoding.lower())
        where = f"the text after line {number} is not in {self._encoding}"
        if self._encoding == "utf-8":  # the decoder reads far ahead: look where it is
            stream.seek(0)
            for line_number, line in enumerate(iter(lambda: stream.readline(_MAX_RECORD), b""), start=1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    where = f"line {line_number} is not in utf-8, it has the byte {line[error.start]:#04x}"
                    break
        return f"{where}. Pass encoding= the right one, such as {other}; if the file mixes encodings, convert it first."

    def _fields(self, record: int) -> tuple[list[str], str]:
        """Return the raw fields of a record, quotes included, and its line end."""
        raw = self._records[record]
        body = raw.rstrip("\r\n")
        end = raw[len(body) :]
        if '"' not in body:
            return body.split(self._delimiter), end
        fields, position = [], 0
        while True:
            match = self._field.match(body, position)
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


def _text_encoding(name: str) -> str:
    """Return the codec for an encoding that a user named."""
    try:
        with io.TextIOWrapper(io.BytesIO(), encoding=name):  # refuses codecs that are not of text
            known = codecs.lookup(name).name
    except LookupError as error:
        raise ValueError(f"encoding must be the name of a text encoding, got {name!r}.") from error
    return _WITHOUT_MARK.get(known, known)


def _until_header(lines: Iterator[tuple[int, str]]) -> Iterator[str]:
    """Yield records up to the first that is not blank; the delimiter is not known yet, so quotation marks decide."""
    for number, line in lines:
        record = line
        while record.count('"') % 2:
            _, more = next(lines, (0, ""))
            record += more
            if not more or len(record) > _MAX_RECORD:
                raise _never_ends(number)
        yield record
        if record.strip("\r\n"):
            return


def _never_ends(number: int) -> DataError:
    return DataError(f'the row in line {number} never ends: it has a quotation mark (") too many.')


def _unquote(field: str) -> str:
    if not field.startswith('"'):
        return field
    closing = field.rfind('"')
    return field[1:closing].replace('""', '"') + field[closing + 1 :] if closing > 0 else field[1:]


def _guess_delimiter(header: str) -> str:
    bare = re.sub(r'"(?:[^"]|"")*"', "", header)
    return max(",;\t|", key=bare.count)
