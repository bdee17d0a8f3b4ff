"""CSV and TSV files that are written again byte by byte, except for changed cells; and data sets as such files."""

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from pmlkit._typing import FloatArray
from pmlkit._words import counted
from pmlkit.data.dataset import PMLDataset
from pmlkit.data.files.base import Edits, TableFile, parse_numbers, refuse_repeated
from pmlkit.data.files.datasets import number_texts, own_columns, row_blocks
from pmlkit.exceptions import DataError

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
_DELIMITER_HINT = re.compile(r'"?sep=([,;\t|])"?[\r\n]*', re.IGNORECASE)  # a first line for spreadsheet programs
_BLOCK_ROWS, _BLOCK_CELLS = 20_000, 2**20
_UP_TO_CLOSING = re.compile(r'[^"]*+(?:""[^"]*+)*+"')


class DelimitedFile(TableFile):
    """A text file with a header line and one row per record.

    `delimiter`: between columns; by default the comma, semicolon, tab or bar that the header has most of. `encoding`: a
    byte order mark counts for more.
    """

    is_untyped = True

    def __init__(self, stream: BinaryIO, *, delimiter: str | None = None, encoding: str | None = None) -> None:
        encoding = _text_encoding(encoding or "utf-8")
        raw = _read_all(stream)
        self._bom = next((bom for bom in _BOMS if raw.startswith(bom)), b"")
        self._encoding = _BOMS.get(self._bom, encoding)
        text = self._decode(raw[len(self._bom) :])
        del raw
        if (zero := text.find("\0")) >= 0:
            line = _n_lines(text[: zero + 1])
            raise DataError(f"line {line} holds a zero byte: this is not a text file, or it is damaged.", line=line)
        lines = list(io.StringIO(text, newline=""))  # at \n, \r and \r\n, which stay
        self._has_quotes = '"' in text
        del text
        long = next((number for number, line in enumerate(lines, start=1) if len(line) >= _MAX_RECORD), None)
        if long is not None:
            raise _too_long(long)
        header = _header_lines(lines)
        if hint := _DELIMITER_HINT.fullmatch(lines[header[0]]):
            delimiter = delimiter or hint[1]
            header = _header_lines(lines, header[1])
        self._set_delimiter(delimiter or _guess_delimiter("".join(lines[slice(*header)])))
        self._records = [*lines[: header[0]], "".join(lines[slice(*header)])]
        rest = lines[header[1] :]
        self._records += self._join_lines(rest, header[1]) if self._has_quotes else rest
        self.columns = self._tokens([self._records[header[0]]])[0]
        self._rows = [k for k in range(header[0] + 1, len(self._records)) if self._records[k].strip("\r\n")]
        self.n_rows = len(self._rows)
        self._positions = {name: j for j, name in enumerate(self.columns)}
        refuse_repeated(self.columns)

    def _decode(self, raw: bytes) -> str:
        try:
            return raw.decode(self._encoding)
        except UnicodeError as error:
            start = getattr(error, "start", 0)
            line = raw.count(b"\n", 0, start) + 1
            seen = f", it has the byte {raw[start]:#04x}" if self._encoding == "utf-8" else ""
            other = next(name for name in _GUESSES if name != self._encoding.lower())
            raise DataError(
                f"line {line} is not in {self._encoding}{seen}. If the file mixes encodings, convert it first.",
                option="encoding",
                remedy=f" the right one, such as {other}",
                line=line,
            ) from error

    def _set_delimiter(self, delimiter: str) -> None:
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise ValueError(f"delimiter must be one character, but not a quotation mark, got {delimiter!r}.")
        self.delimiter = delimiter
        self.decimal_comma = delimiter != ","
        between = re.escape(delimiter)
        quoted = rf'"[^"]*+(?:""[^"]*+)*+"[^{between}]*+'
        bare = f"[^{between}]*+"
        closed = rf'(?:{quoted}|(?!"){bare})'
        self._field = re.compile(f"{quoted}|{bare}")
        self._whole = re.compile(f"{closed}(?:{between}{closed})*+")
        self._tail = re.compile(f"{bare}(?:{between}{closed})*+")

    def _join_lines(self, lines: Sequence[str], n_before: int) -> Iterator[str]:
        """Yield records: a cell that begins with a quotation mark may go over several lines."""
        numbered = enumerate(lines, start=n_before + 1)
        for number, line in numbered:
            if '"' not in line or self._whole.fullmatch(line):
                yield line
                continue
            parts, size, is_open = [line], len(line), True
            while is_open:
                _, more = next(numbered, (0, ""))
                size += len(more)
                if not more or size > _MAX_RECORD:
                    raise _never_ends(number)
                parts.append(more)
                closing = _UP_TO_CLOSING.match(more)
                is_open = closing is None or self._tail.fullmatch(more, closing.end()) is None
            yield "".join(parts)

    def _tokens(self, records: Sequence[str]) -> list[list[str]]:
        """Return the unquoted cells of some records."""
        if not self._has_quotes:
            return [record.rstrip("\r\n").split(self.delimiter) for record in records]
        limit = csv.field_size_limit(_MAX_RECORD)
        try:
            return list(csv.reader(records, delimiter=self.delimiter))
        except csv.Error as error:
            raise DataError(
                f"the header or one of {len(records):,} rows has a line end after a closed quote, or within a field "
                f"without quotes: {error}."
            ) from error
        finally:
            csv.field_size_limit(limit)

    def _blocks(self) -> Iterator[tuple[int, list[tuple[str, ...]]]]:
        """Yield the first row and the columns of some rows at a time."""
        n_columns = len(self.columns)
        step = max(1, min(_BLOCK_ROWS, _BLOCK_CELLS // n_columns))
        for start in range(0, self.n_rows, step):
            chosen = self._rows[start : start + step]
            rows = self._tokens([self._records[k] for k in chosen])
            if set(map(len, rows)) != {n_columns}:
                k = next(k for k, cells in enumerate(rows) if len(cells) != n_columns)
                line = 1 + _n_lines("".join(self._records[: chosen[k]]))
                raise DataError(
                    f"row {start + k} (line {line}) has {counted(len(rows[k]), 'cell')}, but the header names "
                    f"{n_columns} columns. Quote cells that contain the delimiter.",
                    line=line,
                    row=start + k,
                )
            yield start, list(zip(*rows, strict=True))

    def _parse_cells(self, names: list[str]) -> dict[str, Sequence[Any]]:
        found: dict[str, Sequence[Any]] = {name: [] for name in names}
        for _, columns in self._blocks():
            for name, cells in found.items():
                cells.extend(columns[self._positions[name]])  # type: ignore[attr-defined]
        return found

    def numbers(self, names: Sequence[str]) -> FloatArray:
        """Return columns as a matrix, NaN where a cell is empty, without keeping their texts."""
        if self.has_parsed(names):
            return super().numbers(names)
        matrix: FloatArray = np.empty((self.n_rows, len(names)))
        for start, columns in self._blocks():
            for k, name in enumerate(names):
                texts = columns[self._positions[name]]
                part = parse_numbers(texts, name, decimal_comma=self.decimal_comma, start=start)
                matrix[start : start + len(texts), k] = part
        return matrix

    def _fields(self, record: int) -> tuple[list[str], str]:
        """Return the raw fields of a record, quotes included, and its line end."""
        raw = self._records[record]
        body = raw.rstrip("\r\n")
        end = raw[len(body) :]
        fields, position = [], 0
        while True:
            match = self._field.match(body, position)
            fields.append(match[0] if match else "")
            position += len(fields[-1]) + 1
            if position > len(body):
                return fields, end

    def write(self, stream: BinaryIO, edits: Edits) -> None:
        """Write the file with some cells changed; a changed cell is quoted if it was, or if it must be."""
        by_record: dict[int, dict[int, str]] = {}
        for name, cells in edits.items():
            for row, text in cells.items():
                by_record.setdefault(self._rows[row], {})[self._positions[name]] = str(text)
        stream.write(self._bom)
        for start in range(0, len(self._records), _BLOCK_ROWS):
            block = self._records[start : start + _BLOCK_ROWS]
            for offset in range(len(block)):
                if (changes := by_record.get(start + offset)) is not None:
                    fields, end = self._fields(start + offset)
                    for j, text in changes.items():
                        must = fields[j].startswith('"') or any(sign in text for sign in (self.delimiter, *'"\r\n'))
                        fields[j] = _quote(text) if must else text
                    block[offset] = self.delimiter.join(fields) + end
            stream.write("".join(block).encode(self._encoding))


def _quote(text: object) -> str:
    return '"' + str(text).replace('"', '""') + '"'


def _read_all(stream: BinaryIO) -> bytes:
    """Return all bytes; a line without end, as of a compressed file of zeros, is refused before it fills the memory."""
    parts, without_end = [], 0
    while part := stream.read(_MAX_RECORD):
        without_end = 0 if b"\n" in part or b"\r" in part else without_end + 1
        parts.append(part)
        if without_end > 4:  # as many bytes as a character has at most
            raise _too_long(1 + sum(part.count(b"\n") for part in parts))
    return b"".join(parts)


def _n_lines(text: str) -> int:
    return sum(1 for _ in io.StringIO(text, newline=""))


def _text_encoding(name: str) -> str:
    """Return the codec for an encoding that a user named."""
    try:
        with io.TextIOWrapper(io.BytesIO(), encoding=name):  # refuses codecs that are not of text
            known = codecs.lookup(name).name
    except LookupError as error:
        raise ValueError(f"encoding must be the name of a text encoding, got {name!r}.") from error
    return _WITHOUT_MARK.get(known, known)


def _header_lines(lines: Sequence[str], start: int = 0) -> tuple[int, int]:
    """Return where the first record from `start` that is not blank begins and ends; its delimiter is not known yet."""
    first = next((k for k in range(start, len(lines)) if lines[k].strip("\r\n")), None)
    if first is None:
        raise DataError("the file is empty.")
    size = n_quotes = 0
    for k in range(first, len(lines)):
        n_quotes += lines[k].count('"')
        size += len(lines[k])
        if n_quotes % 2 == 0:
            return first, k + 1
        if size > _MAX_RECORD:
            break
    raise _never_ends(first + 1)


def _never_ends(line: int) -> DataError:
    return DataError(f'the row in line {line} never ends: it has a quotation mark (") too many.', line=line)


def _too_long(line: int) -> DataError:
    return DataError(
        f"line {line} is longer than {_MAX_RECORD // 2**20} million characters: this is not a table of one row per "
        "line.",
        line=line,
    )


def _guess_delimiter(header: str) -> str:
    bare = re.sub(r'"(?:[^"]|"")*"', "", header)
    return max(",;\t|", key=bare.count)


def write_csv(dataset: PMLDataset, stream: BinaryIO) -> None:
    """Write a CSV file with the columns ``id``, ``media``, the features, ``label:<name>`` and ``truth:<name>``.

    A feature whose name could be taken for another kind of column is called ``feature:<name>``. Reading
    such a file needs no option. Images are not written.
    """
    _write_text(dataset, stream, ",")


def write_tsv(dataset: PMLDataset, stream: BinaryIO) -> None:
    r"""Write a TSV file; as `write_csv`, with tabs."""
    _write_text(dataset, stream, "\t")


def _write_text(dataset: PMLDataset, stream: BinaryIO, delimiter: str) -> None:
    names, words, matrices = own_columns(dataset)
    # Names and texts are always quoted: none can be taken for a number, a blank line or a byte order mark.
    stream.write(_line(map(_quote, names), delimiter))
    start = 0
    for blocks in row_blocks(*matrices):
        dense = np.hstack([block.toarray() if sparse.issparse(block) else block for block in blocks])
        quoted = [[_quote(text) for text in column[start : start + len(dense)]] for column in words]
        before = zip(*quoted, strict=True) if quoted else repeat(())
        rows = zip(before, dense, strict=False)
        stream.writelines(_line((*texts, *number_texts(row)), delimiter) for texts, row in rows)
        start += len(dense)


def _line(cells: Iterable[str], delimiter: str) -> bytes:
    return (delimiter.join(cells) + "\n").encode()
