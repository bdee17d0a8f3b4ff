"""The part of an ARFF file before ``@data``, and the XML files in which MULAN names the labels."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from xml.parsers import expat

from pmlkit.data.files.base import excerpt
from pmlkit.exceptions import DataError

__all__ = ["QUOTED", "Attribute", "Header", "find_label_xml", "quote", "read_header", "read_label_xml", "unquote"]

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
            "string, date and lists {a, b}."
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
                raise DataError(f"{path.name} has a <label> without a name on line {parser.CurrentLineNumber}.")
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
