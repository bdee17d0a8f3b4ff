"""The XML file by which MULAN says which attributes of an ARFF file are labels."""

from pathlib import Path
from typing import Any
from xml.parsers import expat

from pmlkit.exceptions import DataError

__all__ = ["find_label_xml", "read_label_xml"]

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
