"""The text of ARFF files: their header, their rows, dense or sparse, and the XML in which MULAN names the labels."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal
from xml.parsers import expat

import numpy as np
from scipy import sparse

from pmlkit._typing import CSR, Features, FloatArray
from pmlkit._words import counted, excerpt
from pmlkit.data.files.base import batches
from pmlkit.exceptions import DataError

# Possessive, so that a long text does not fill the memory with ways to go back.
QUOTED = r"'[^'\\]*+(?:\\.[^'\\]*+)*+'|\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\""
_NAME = re.compile(rf"({QUOTED}|[^\s{{}}]+)\s*(.*)")
_VALUE = re.compile(rf"(\s*(?:{QUOTED})\s*|[^,{{}}]*)([,}}])")
_ESCAPE = re.compile(r"\\([\\'\"%nrt])")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_PLAIN = re.compile(r"[^\s,'\"\\{}%?]+")
_BOOLEANS = ({"no": 0.0, "yes": 1.0}, {"false": 0.0, "true": 1.0})

Kind = Literal["numeric", "nominal", "string", "date", "relational"]
_KINDS: dict[str, Kind] = {
    "numeric": "numeric",
    "real": "numeric",
    "integer": "numeric",
    "string": "string",
    "date": "date",
    "relational": "relational",
}


@dataclass(frozen=True)
class Attribute:
    """A declared column: its name, the name as spelled in the file, and the codes of a nominal one."""

    name: str
    raw: str
    kind: Kind
    codes: dict[str, float] | None = None


@dataclass(frozen=True)
class Header:
    """Relation name and attributes."""

    relation: str
    attributes: list[Attribute]


def unquote(text: str) -> str:
    """Remove quotes and the escapes inside them; a backslash outside quotes is a character like any other."""
    if len(text) < 2 or text[0] not in "'\"" or text[-1] != text[0]:
        return text
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text[1:-1])


def quote(text: str) -> str:
    """Quote a name where it needs it."""
    if _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    for letter, sign in _ESCAPED.items():
        escaped = escaped.replace(sign, f"\\{letter}")
    return f"'{escaped}'"


def read_header(lines: Iterator[tuple[int, str]]) -> Header:
    """Consume the lines up to ``@data`` and return what they declare."""
    relation = ""
    attributes: dict[str, Attribute] = {}
    for number, line in lines:
        if not line or line.startswith("%"):
            continue
        keyword, _, rest = line.replace("\t", " ", 1).partition(" ") if line[0] == "@" else ("", "", "")
        keyword = keyword.lower()
        if keyword == "@relation":
            relation = rest.strip()
        elif keyword == "@attribute":
            attribute = _read_attribute(rest.strip(), number)
            if attribute.name in attributes:
                raise DataError(f"line {number} declares the attribute {attribute.name!r} a second time.", line=number)
            attributes[attribute.name] = attribute
        elif keyword == "@data":
            if not attributes:
                raise DataError(f"@data on line {number} comes before any @attribute.", line=number)
            return Header(relation, list(attributes.values()))
        else:
            raise DataError(f"line {number} is neither @relation, @attribute nor @data: {excerpt(line)}.", line=number)
    raise DataError("there is no @data line: this is not an ARFF file, or not all of it.")


def _read_attribute(text: str, number: int) -> Attribute:
    match = _NAME.fullmatch(text)
    if match is None or not match[2]:
        raise DataError(f"line {number} must read '@attribute name type', got {excerpt(text)}.", line=number)
    raw, declared = match[1], match[2]
    name = unquote(raw)
    spelled = raw[1:-1] if raw != name and raw[0] in "'\"" else raw
    if declared.startswith("{"):
        return Attribute(name, spelled, "nominal", _codes(_nominal_values(declared, name, number)))
    kind = _KINDS.get(re.split(r"[\s%]", declared, maxsplit=1)[0].lower())
    if kind is None:
        raise DataError(
            f"line {number} gives attribute {name!r} the type {excerpt(declared)}; known are numeric, real, integer, "
            "string, date and lists {a, b}.",
            line=number,
        )
    return Attribute(name, spelled, kind)


def _nominal_values(declared: str, name: str, number: int) -> list[str]:
    values: list[str] = []
    position = 1
    while match := _VALUE.match(declared, position):
        position = match.end()
        values.append(unquote(match[1].strip()))
        if match[2] == "}":
            break
    else:
        raise DataError(f"line {number}: the values of attribute {name!r} do not end with a brace.", line=number)
    if "" in values:
        raise DataError(f"line {number}: attribute {name!r} has an empty value in {excerpt(declared)}.", line=number)
    if len(set(values)) < len(values):
        raise DataError(f"line {number}: attribute {name!r} lists a value twice in {excerpt(declared)}.", line=number)
    return values


def _codes(values: list[str]) -> dict[str, float]:
    """Number the values: by themselves if all are numbers, NO/YES and FALSE/TRUE as 0/1, else by position."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        numbers = []
    if numbers and all(math.isfinite(x) for x in numbers):
        return dict(zip(values, numbers, strict=True))
    for booleans in _BOOLEANS:
        if all(value.lower() in booleans for value in values):
            return {value: booleans[value.lower()] for value in values}
    return {value: float(k) for k, value in enumerate(values)}


# MULAN publishes one label file for several cuts of a data set: delicious.xml serves delicious-test.arff.
_CUTS = ("-train", "-test", "-sparse")


def find_label_xml(folder: Path, stem: str) -> Path | None:
    """Return the label file that belongs to the ARFF file called `stem`, or None.

    It has the same name; else, for a train, test or sparse cut, the name without that ending.
    """
    names = [stem, *(stem.removesuffix(cut) for cut in _CUTS if stem.lower().endswith(cut))]
    return next((path for name in names if (path := folder / f"{name}.xml").is_file()), None)


def read_label_xml(path: Path) -> list[str]:
    """Return the label names of a MULAN label file, nested ones too, in the order of the file."""
    names: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag.rpartition(":")[2] == "label":
            if "name" not in attributes:
                raise DataError(
                    f"{path.name} has a <label> without a name on line {parser.CurrentLineNumber}.",
                    line=parser.CurrentLineNumber,
                )
            names.append(attributes["name"])

    def refuse(*_: Any) -> None:
        # A document type can declare entities that expand without end; a label file needs none.
        raise DataError(f"{path.name} declares a document type or an entity, which a label file must not.")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(path.read_bytes(), True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path.name} is not a readable XML file: {error}.") from error
    except OSError as error:
        raise DataError(f"the label file {path} cannot be read: {error.strerror}.") from error
    if not names:
        raise DataError(f"{path.name} names no label: it must hold <label name=...> elements.")
    return names


_BATCH = 2048
_PAIR = r"\d+\s+[^\s,'\"{}]+\s*"
_PLAIN_SPARSE_ROW = re.compile(rf"\{{\s*(?:{_PAIR}(?:,\s*{_PAIR})*)?\}}", re.ASCII)
_SPARSE_CELL = re.compile(r"\s*(\d+)\s+(\S.*)", re.ASCII)
_FIELD = re.compile(rf"(\s*(?:{QUOTED})\s*|[^,]*)(,|$)")
_SPARSE_FIELD = re.compile(rf"(\s*\d+\s+(?:{QUOTED})\s*|[^,]*)(,|$)", re.ASCII)


class _Decoder(dict[str, float]):
    """Text of one attribute to number: the codes of its values, NaN for ``?``. Remembers nothing new."""

    def __init__(self, attribute: Attribute, is_ignored: bool) -> None:
        super().__init__({} if is_ignored or attribute.codes is None else attribute.codes)
        self.attribute = attribute
        self.is_ignored = is_ignored
        self.is_plain_number = not is_ignored and attribute.codes is None
        self.has_number_values = all(_is_number(value) for value in self)
        self.default = next(iter(self.values()), 0.0)

    def __missing__(self, text: str) -> float:
        word = text.strip()
        if self.is_ignored:
            return 0.0
        if word == "?":
            return float("nan")
        word = unquote(word)
        if word in self.keys():
            return self[word]
        code = float(word)
        # 1.0 stands for 1 where the listed values are numbers.
        if self and not (self.has_number_values and code in self.values()):
            raise ValueError(text)
        return code

    def explain(self, number: int, text: str) -> DataError:
        allowed = f"one of {{{', '.join(list(self)[:8])}}}" if self else "a number"
        return DataError(
            f"line {number} gives attribute {self.attribute.name!r} the value {excerpt(text)}, which is not {allowed}.",
            column=self.attribute.name,
            line=number,
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_rows(lines: Iterator[tuple[int, str]], attributes: Sequence[Attribute], ignored: Collection[int]) -> Features:
    """Return the rows as one table with a column per attribute: NaN where a value is missing, 0 if ignored."""
    data = ((number, line) for number, line in lines if line and not line.startswith("%"))
    first = next(data, None)
    if first is None:
        raise DataError("the file has no rows after @data.")
    decoders = [_Decoder(attribute, j in ignored) for j, attribute in enumerate(attributes)]
    read = _read_sparse if first[1].startswith("{") else _read_dense
    return read(chain([first], data), decoders)


def _split(line: str, pattern: re.Pattern[str]) -> list[str]:
    """Split at commas, but not inside quotes."""
    fields, position = [], 0
    while match := pattern.match(line, position):
        fields.append(match[1])
        position = match.end()
        if not match[2]:
            break
    return fields


def _read_dense(lines: Iterable[tuple[int, str]], decoders: Sequence[_Decoder]) -> FloatArray:
    blocks = []
    for batch in batches(lines, _BATCH):
        rows = [dense_fields(number, line, len(decoders)) for number, line in batch]
        block = np.empty((len(rows), len(decoders)))
        for j, texts in enumerate(zip(*rows, strict=True)):
            block[:, j] = _decode_column(texts, decoders[j], batch)
        blocks.append(block)
    return np.concatenate(blocks)


def dense_fields(number: int, line: str, width: int) -> list[str]:
    """Return the raw values of a dense row."""
    if "'" in line or '"' in line:
        fields = _split(line, _FIELD)
    else:
        # Weka takes white space for a separator too.
        fields = line.split(",") if "," in line or width == 1 else line.split()
    if len(fields) != width:
        raise DataError(
            f"line {number} has {counted(len(fields), 'value')}, but there are {width} attributes. Is the file "
            "complete?",
            line=number,
        )
    return fields


def _decode_column(texts: Sequence[str], decoder: _Decoder, batch: Sequence[tuple[int, str]]) -> list[float]:
    try:
        if decoder.is_plain_number:
            return [float(text) for text in texts]
    except ValueError:
        pass  # a missing or quoted value, or a fault to be named below
    values = []
    for text, (number, _) in zip(texts, batch, strict=True):
        try:
            values.append(decoder[text])
        except ValueError as error:
            raise decoder.explain(number, text) from error
    return values


def _read_sparse(lines: Iterable[tuple[int, str]], decoders: Sequence[_Decoder]) -> CSR:
    indices, values, counts = [], [], [np.zeros(1, dtype=np.int64)]
    for batch in batches(lines, _BATCH):
        columns, numbers, lengths = _sparse_batch(batch, decoders)
        indices.append(np.array(columns, dtype=np.int32))
        values.append(np.array(numbers, dtype=np.float64))
        counts.append(np.array(lengths, dtype=np.int64))
    indptr = np.cumsum(np.concatenate(counts))
    parts = (np.concatenate(values), np.concatenate(indices), indptr)
    table = sparse.csr_array(parts, shape=(len(indptr) - 1, len(decoders)))
    table.sort_indices()
    repeats = np.diff(table.indices) == 0
    repeats[indptr[(indptr > 0) & (indptr < table.nnz)] - 1] = False  # neighbours in different rows
    if repeats.any():
        name = decoders[table.indices[np.argmax(repeats)]].attribute.name
        raise DataError(f"a row gives attribute {name!r} two values.", column=name)
    return _fill_defaults(table, decoders)


def _sparse_batch(
    batch: Sequence[tuple[int, str]], decoders: Sequence[_Decoder]
) -> tuple[list[int], list[float], list[int]]:
    """Return the columns and values of the cells of some rows, and the number of cells of each row."""
    if all(_PLAIN_SPARSE_ROW.fullmatch(line) for _, line in batch):
        texts = " ".join(line[1:-1] for _, line in batch).replace(",", " ").split()
        try:
            columns = [int(text) for text in texts[::2]]
            pairs = zip(columns, texts[1::2], strict=True)
            values = [float(text) if decoders[j].is_plain_number else decoders[j][text] for j, text in pairs]
        except (ValueError, IndexError):
            pass  # found again, with its line, below
        else:
            return columns, values, [line.count(",") + (line.strip("{} \t") != "") for _, line in batch]
    columns, values, lengths = [], [], []
    for number, line in batch:
        cells = sparse_cells(number, line)
        for column, text in cells:
            if column >= len(decoders):
                raise DataError(
                    f"line {number} has the index {column}, but there are only {len(decoders)} attributes.", line=number
                )
            try:
                values.append(decoders[column][text])
            except ValueError as error:
                raise decoders[column].explain(number, text) from error
            columns.append(column)
        lengths.append(len(cells))
    return columns, values, lengths


def sparse_fields(line: str) -> list[str]:
    """Return the raw entries ``index value`` of a sparse row."""
    body = line[1:-1].strip()
    return _split(body, _SPARSE_FIELD) if body else []


def sparse_cells(number: int, line: str) -> list[tuple[int, str]]:
    """Return the columns and raw values of a sparse row."""
    matches = [_SPARSE_CELL.fullmatch(field) for field in sparse_fields(line)]
    cells = [(int(match[1]), match[2]) for match in matches if match and len(match[1]) < 20]
    if not (len(line) > 1 and line[0] == "{" and line[-1] == "}") or len(cells) < len(matches):
        raise DataError(
            f"line {number} is not a sparse row {{index value, index value}}: {excerpt(line)}. Is the file complete?",
            line=number,
        )
    return cells


def _fill_defaults(table: CSR, decoders: Sequence[_Decoder]) -> CSR:
    """Give the omitted cells of a nominal attribute its first value, as Weka does, where its code is not 0."""
    odd = [j for j, decoder in enumerate(decoders) if decoder.default]
    if not odd:
        return table
    every = np.arange(table.shape[0])
    row_of = np.repeat(every, np.diff(table.indptr))
    omitted = [np.setdiff1d(every, row_of[table.indices == j]) for j in odd]
    values = np.repeat([decoders[j].default for j in odd], [len(rows) for rows in omitted])
    cells = (np.concatenate(omitted), np.repeat(odd, [len(rows) for rows in omitted]))
    return (table + sparse.csr_array((values, cells), shape=table.shape)).tocsr()
