"""Weka's ARFF, dense and sparse, with the labels marked the MULAN way (XML) or the MEKA way (``-C``).

The parser is our own: liac-arff refuses the comment after the relation name of published MEKA
files, and in its sparse form does not say which omitted values are not zero.
"""

import io
import logging
import math
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Literal
from xml.parsers import expat

import numpy as np
from scipy import sparse

from pmlkit._typing import CSR, Features, FloatArray
from pmlkit._words import counted, excerpt
from pmlkit.data.dataset import PMLDataset
from pmlkit.data.files.base import Edits, Missing, Source, TableFile, as_names, batches, select
from pmlkit.data.files.datasets import check_labels, fill_missing, losses, number_texts, row_blocks, written_labels
from pmlkit.exceptions import DataError, PMLWarning

logger = logging.getLogger(__name__)

LabelChoice = str | Path | int | Collection[str] | None

_MEKA_COUNT = re.compile(r"(?:^|[\s'\":])-[cC]\s+(-?\d+)\b", re.ASCII)
_MAX_DIGITS = 18  # Python refuses to read numbers of some thousand digits
_MAX_LINE = 2**26  # characters, as in the other formats
_MOVED = re.compile(r"attribute\.(?:Remove|Reorder|Add|Copy|AttributeSelection)")
# MULAN publishes one label file for several cuts of a data set: delicious.xml serves delicious-test.arff.
_CUTS = ("-train", "-test", "-sparse")

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
    "numeric": "numeric", "real": "numeric", "integer": "numeric", "string": "string", "date": "date",
    "relational": "relational",
}  # fmt: skip
_BATCH = 2048
_PAIR = r"\d+\s+[^\s,'\"{}]+\s*"
_PLAIN_SPARSE_ROW = re.compile(rf"\{{\s*(?:{_PAIR}(?:,\s*{_PAIR})*)?\}}", re.ASCII)
_SPARSE_CELL = re.compile(r"\s*(\d+)\s+(\S.*)", re.ASCII)
_FIELD = re.compile(rf"(\s*(?:{QUOTED})\s*|[^,]*)(,|$)")
_SPARSE_FIELD = re.compile(rf"(\s*\d+\s+(?:{QUOTED})\s*|[^,]*)(,|$)", re.ASCII)


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


class ArffFile(TableFile):
    """A dense or sparse ARFF file that is written again byte by byte, except for changed cells."""

    def __init__(self, stream: BinaryIO) -> None:
        raw = stream.read()
        try:
            text, self._encoding = raw.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            text, self._encoding = raw.decode("latin-1"), "latin-1"
        self._lines = list(io.StringIO(text, newline="\n"))
        long = next((k for k, line in enumerate(self._lines, start=1) if len(line) > _MAX_LINE), None)
        if long is not None:
            raise DataError(
                f"line {long} is longer than {_MAX_LINE // 2**20} million characters: this is not a table of one row "
                "per line.",
                line=long,
            )
        counted_lines = ((number, line.lstrip("\ufeff").strip()) for number, line in enumerate(self._lines, start=1))
        self.header: Header = read_header(counted_lines)
        self._rows = [(number, line) for number, line in counted_lines if line and not line.startswith("%")]
        self.columns = [attribute.name for attribute in self.header.attributes]
        self.n_rows = len(self._rows)
        self._positions = {name: j for j, name in enumerate(self.columns)}
        # What a sparse row leaves out: zero, or the first value of a nominal attribute.
        self._default = [next(iter(a.codes)) if a.codes else "0" for a in self.header.attributes]

    def matrix(self, ignored: Collection[int]) -> Features:
        """Return all rows as numbers: NaN where a value is missing, 0 in ignored columns."""
        if not self._rows:
            raise DataError("the file has no rows after @data.")
        decoders = [_Decoder(attribute, j in ignored) for j, attribute in enumerate(self.header.attributes)]
        return (_read_sparse if self._rows[0][1].startswith("{") else _read_dense)(self._rows, decoders)

    def _parse_cells(self, names: list[str]) -> dict[str, Sequence[Any]]:
        wanted = [(name, self._positions[name]) for name in names]
        found: dict[str, list[str | None]] = {name: [] for name in names}
        for number, line in self._rows:
            values = self._values(number, line)
            for name, j in wanted:
                value = values.get(j, self._default[j]).strip()
                found[name].append(None if value == "?" else unquote(value))
        return dict(found)

    def _values(self, number: int, line: str) -> dict[int, str]:
        """Return the raw values that stand in a row, by attribute."""
        if not line.startswith("{"):
            return dict(enumerate(dense_fields(number, line, len(self.columns))))
        values = dict(sparse_cells(number, line))
        beyond = next((j for j in values if j >= len(self.columns)), None)
        if beyond is not None:
            message = f"line {number} has the index {beyond}, but there are only {len(self.columns)} attributes."
            raise DataError(message, line=number)
        return values

    def write(self, stream: BinaryIO, edits: Edits) -> None:
        """Write the file with some cells changed."""
        lines = list(self._lines)
        by_row: dict[int, dict[int, str]] = {}
        for name, cells in edits.items():
            for row, text in cells.items():
                by_row.setdefault(row, {})[self._positions[name]] = str(text)
        for row, changes in by_row.items():
            number, body = self._rows[row]
            lines[number - 1] = lines[number - 1].replace(body, self._edited(number, body, changes), 1)
        for start in range(0, len(lines), 20_000):
            stream.write("".join(lines[start : start + 20_000]).encode(self._encoding))

    def _edited(self, number: int, body: str, changes: dict[int, str]) -> str:
        if not body.startswith("{"):
            has_commas = "," in body or len(self.columns) == 1
            if not has_commas and not set("'\"") & set(body):  # white space separates, too
                parts = re.split(r"(\s+)", body)
                parts[::2] = [changes.get(j, part) for j, part in enumerate(parts[::2])]
                return "".join(parts)
            fields = dense_fields(number, body, len(self.columns))
            for j, text in changes.items():
                blank = fields[j][: len(fields[j]) - len(fields[j].lstrip())]
                fields[j] = blank + text
            return ",".join(fields)
        kept = []
        for entry in sparse_fields(body):
            j = int(entry.split(None, 1)[0])
            if j not in changes:
                kept.append(entry)
            elif changes[j] != self._default[j]:
                kept.append(f"{j} {changes[j]}")
        return "{" + ",".join(kept).strip() + "}"


def read_arff(
    source: Source,
    *,
    labels: LabelChoice = None,
    nominal: Literal["ordinal", "onehot"] = "ordinal",
    missing: Missing = "mean",
    ignore: str | Collection[str] = (),
) -> PMLDataset:
    r"""Read an ARFF file.

    Parameters
    ----------
    source : Source
        The open file.
    labels : path of a MULAN XML, list of names, glob pattern or int, optional
        Which attributes are labels. A whole number is counted as MEKA does: the first `n`, or,
        negative, the last `n`. By default the XML file of the same name beside the ARFF file
        (``delicious.xml`` also serves ``delicious-test.arff``); without one, the ``-C n`` in the
        relation name.
    nominal : {"ordinal", "onehot"}, default="ordinal"
        What becomes of a nominal feature. ``ordinal``: one column; numeric-looking values become
        that number, NO/YES and FALSE/TRUE 0/1, other words their position in the declaration,
        from 0. ``onehot``: a feature of more than two values becomes one 0/1 column per value,
        named ``feature=value``.
    missing : {"mean", "zero", "error"}, default="mean"
        What becomes of ``?``. ``mean`` gives a nominal feature its most frequent value. A missing
        label is always an error.
    ignore : list of names or glob pattern, optional
        Attributes to leave out, such as identifiers.

    Returns
    -------
    dataset : PMLDataset
        The labels are the candidates, in the order of the attributes; the truth is unknown.
    """
    if nominal not in ("ordinal", "onehot"):
        raise ValueError(f"nominal must be 'ordinal' or 'onehot', got {nominal!r}.")
    file = ArffFile(source.stream)
    header, names = file.header, file.columns
    ignored = set(select(names, ignore, "attribute"))
    label_columns = sorted(set(label_positions(header, labels, source.path, source.stem)) - ignored)
    feature_columns = sorted(set(range(len(names))) - ignored - set(label_columns))
    for j in sorted({*label_columns, *feature_columns}):
        _refuse_type(header.attributes[j])
    table = file.matrix(ignored)
    label_names = [names[j] for j in label_columns]
    features = [header.attributes[j] for j in feature_columns]
    X = fill_missing(
        table[:, feature_columns],
        missing,
        [attribute.name for attribute in features],
        nominal=[k for k, attribute in enumerate(features) if attribute.codes is not None],
    )
    feature_names = [attribute.name for attribute in features]
    if nominal == "onehot":
        X, feature_names = _one_hot(X, features)
    return PMLDataset(
        X, check_labels(table[:, label_columns], label_names), feature_names=feature_names, label_names=label_names
    )


def _refuse_type(attribute: Attribute) -> None:
    if attribute.kind not in ("numeric", "nominal"):
        raise DataError(
            f"attribute {attribute.name!r} is of type {attribute.kind}, neither a number nor one of a list of values.",
            option="ignore",
            value=repr(attribute.name),
            remedy=" to leave it out",
            column=attribute.name,
        )


def label_positions(header: Header, labels: LabelChoice, path: Path, stem: str) -> Sequence[int]:
    """Return which attributes are labels, and log who said so.

    `labels`: see `read_arff`. `path`: of the ARFF file, beside which an XML may lie. `stem`: its name without endings.
    """
    n_attributes = len(header.attributes)
    if isinstance(labels, int | np.integer):
        return _counted(int(labels), n_attributes, "labels")
    if isinstance(labels, Path) or (isinstance(labels, str) and labels.lower().endswith(".xml")):
        xml: Path | None = Path(labels)
    elif labels is not None:
        return select([attribute.name for attribute in header.attributes], as_names(labels), "attribute")
    else:
        xml = find_label_xml(path.parent, stem)
    if xml is not None:
        logger.info("%s: labels taken from %s", path.name, xml.name)
        return _named_in(xml, header.attributes)
    match = _MEKA_COUNT.search(header.relation)
    if match is not None and len(match[1]) > _MAX_DIGITS:
        raise DataError(f"-C in the relation name asks for a number of labels that has {len(match[1]):,} digits.")
    if match is None:
        raise DataError(
            f"nothing says which attributes are labels: there is no {stem}.xml beside the file and no -C in its "
            "relation name.",
            option="labels",
            remedy=" the path of the XML, names or a number (negative: the last ones)",
        )
    if _MOVED.search(header.relation, match.end()):
        warnings.warn(
            PMLWarning(
                f"the relation name says -C {match[1]}, but also that attributes were removed or moved since, so these "
                "may not be the labels.",
                option="labels",
                remedy=" to be sure",
                path=path.name,
            ),
            stacklevel=4,
        )
    logger.info("%s: labels taken from -C %s in the relation name", path.name, match[1])
    return _counted(int(match[1]), n_attributes, "-C")


def _counted(count: int, n_attributes: int, what: str) -> range:
    if not 0 < abs(count) <= n_attributes:
        raise DataError(f"{what} asks for {count} labels, but there are {n_attributes} attributes.")
    return range(count) if count > 0 else range(n_attributes + count, n_attributes)


def _named_in(xml: Path, attributes: Sequence[Attribute]) -> list[int]:
    names = read_label_xml(xml)
    # The XML may spell a quoted name with or without its escapes.
    known = {a.raw: j for j, a in enumerate(attributes)} | {a.name: j for j, a in enumerate(attributes)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise DataError(
            f"{xml.name} names {counted(len(unknown), 'label')} for which the ARFF file has no attribute, the first is "
            f"{unknown[0]!r}.",
            option="labels",
            remedy=" the right XML, names or a number",
            column=unknown[0],
        )
    return [known[name] for name in names]


def _one_hot(X: Features, features: Sequence[Attribute]) -> tuple[Features, list[str]]:
    """Give every nominal feature of more than two values a 0/1 column per value."""
    blocks: list[Features] = []
    names: list[str] = []
    for j, attribute in enumerate(features):
        column = X[:, [j]]
        if attribute.codes is None or len(attribute.codes) <= 2:
            blocks.append(column)
            names.append(attribute.name)
            continue
        cells = column.toarray() if sparse.issparse(column) else column
        blocks.append((cells == np.array(list(attribute.codes.values()))).astype(np.float64))
        names += [f"{attribute.name}={value}" for value in attribute.codes]
    if not blocks:
        return X, names
    return (sparse.hstack(blocks, format="csr") if sparse.issparse(X) else np.hstack(blocks)), names


def write_arff(dataset: PMLDataset, stream: BinaryIO, *, labels: Literal["candidates", "truth"] = "candidates") -> None:
    """Write a MEKA file: labels first, their number as ``-C`` in the relation name; sparse rows for CSR features.

    `labels` ({"candidates", "truth"}): which labels.
    """
    Y = written_labels(dataset, labels)
    if lost := losses(dataset, carries=("feature names", "label names")):
        logger.warning("ARFF holds one label block (here: the %s) and leaves out: %s", labels, ", ".join(lost))
    both = set(dataset.feature_names) & set(dataset.label_names)
    if both:
        raise DataError(f"ARFF needs distinct attribute names, but {min(both)!r} names a feature and a label.")
    # A count in the name itself would be read first.
    relation = quote(f"{_MEKA_COUNT.sub(' ', dataset.name)}: -C {dataset.n_labels}")
    header = [f"@relation {relation}\n\n"]
    header += [f"@attribute {quote(name)} {{0,1}}\n" for name in dataset.label_names]
    header += [f"@attribute {quote(name)} numeric\n" for name in dataset.feature_names]
    stream.write(("".join(header) + "\n@data\n").encode())
    for Y_rows, X_rows in row_blocks(Y, dataset.X):
        lines = _sparse_lines(Y_rows, X_rows) if sparse.issparse(X_rows) else _dense_lines(Y_rows, X_rows)
        stream.write("".join(lines).encode())


def _dense_lines(Y: CSR, X: FloatArray) -> Iterator[str]:
    for row in np.hstack([Y.toarray(), X]):
        yield ",".join(number_texts(row)) + "\n"


def _sparse_lines(Y: CSR, X: CSR) -> Iterator[str]:
    table = sparse.hstack([Y, X], format="csr")
    cells = [f"{j} {text}" for j, text in zip(table.indices.tolist(), number_texts(table.data), strict=True)]
    for start, stop in pairwise(table.indptr.tolist()):
        yield "{" + ",".join(cells[start:stop]) + "}\n"


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
