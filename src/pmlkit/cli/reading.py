"""The reading options, the same for every command that takes a data set."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmlkit.cli.errors import Misuse
from pmlkit.cli.params import key_values, literal
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit.data import PMLDataset

__all__ = ["InputFile", "Reading", "as_typed"]

_PANEL = "Reading the file"
FORMAT_NAMES = ("arff", "csv", "libsvm", "mat", "npz", "parquet", "tsv")
# How the text of a reading option becomes a value: columns may be a list, literals are numbers or yes/no.
COLUMN_OPTIONS = frozenset({"labels", "truth", "ignore"})
LITERAL_OPTIONS = frozenset({"zero_based", "n_features", "n_labels"})
TEXT_OPTIONS = frozenset({"id", "media", "missing", "delimiter", "encoding", "nominal", "sep"}) | frozenset(
    {"data", "candidates", "orientation"}
)
_OWN_OPTIONS = re.compile(r"\b(labels|sep|format|text)=(,?)")
_OTHER_OPTIONS = re.compile(rf"\b({'|'.join((COLUMN_OPTIONS | LITERAL_OPTIONS | TEXT_OPTIONS) - {'labels', 'sep'})})=")
_LIST_OF_ONE = re.compile(r"=\[('[^']*')\]")

InputFile = Annotated[Path, typer.Argument(metavar="FILE", help="The data set.", show_default=False)]


def _complete_format(incomplete: str) -> list[str]:
    return [name for name in FORMAT_NAMES if name.startswith(incomplete)]


@dataclass(frozen=True)
class Reading:
    """How a data set is read from its file."""

    format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"{', '.join(FORMAT_NAMES)}; jsonl for tables; by default told from the file. .gz and .bz2 are "
            "unpacked.",
            rich_help_panel=_PANEL,
            autocompletion=_complete_format,
        ),
    ] = None
    labels: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="The label columns: names with commas between, a pattern ('tag_*'), @names.txt (one a line), or the "
            "one column of label sets; for ARFF also the MULAN .xml, or a number (negative: the last ones).",
            rich_help_panel=_PANEL,
        ),
    ] = None
    sep: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Between the labels of a set. \\[default: ;]", rich_help_panel=_PANEL),
    ] = None
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="More, as often as needed. csv, tsv, parquet: truth, id, media, ignore (columns), missing "
            "(error, mean, zero); csv, tsv: delimiter, encoding; arff: nominal (ordinal, onehot), missing, ignore; "
            "libsvm: zero_based, n_features, n_labels; mat: data, candidates, truth, orientation.",
            rich_help_panel=_PANEL,
        ),
    ] = None

    @property
    def files(self) -> list[Path]:
        """The files that are read beside the data: lists of names, and the labels' .xml."""
        values = [text.partition("=")[2] for text in self.option or ()]
        names = [word.removeprefix("@") for word in (*(self.labels or ()), *values)]
        # Unlike a path's own method, this one takes a word that is too long for a name as well.
        return [Path(name) for name in names if os.path.isfile(name)]

    def read(self, path: Path) -> "PMLDataset":
        """Read the data set; what is wrong is said in the words of the command line."""
        from pmlkit.data import read

        try:
            return read(path, format=self.format, **self.options(path))
        except DataError as error:
            raise DataError(as_typed(str(error))) from error
        except ValueError as error:
            raise Misuse(as_typed(str(error))) from error

    def options(self, path: Path) -> dict[str, Any]:
        """Return the options of `pmlkit.data.read`."""
        given = key_values(self.option or (), "--option")
        options: dict[str, Any] = {}
        for key, text in given.items():
            if key in COLUMN_OPTIONS:
                options[key] = _columns([text])
            else:
                options[key] = literal(text) if key in LITERAL_OPTIONS else text
        if self.labels:
            is_arff = self.format == "arff" or (self.format is None and ".arff" in path.suffixes)
            is_count = is_arff and len(self.labels) == 1 and re.fullmatch(r"-?\d+", self.labels[0])
            options["labels"] = int(self.labels[0]) if is_count else _columns(self.labels)
        if self.sep is not None:
            if not self.sep:
                raise Misuse("--sep must be a sign that stands between labels, got nothing.")
            options["sep"] = self.sep
        return options


def _columns(words: Iterable[str]) -> str | list[str]:
    """Return one name or pattern, or a list of them; ``@file`` stands for the lines of a file."""
    names: list[str] = []
    for word in words:
        if word.startswith("@"):
            names += _lines(Path(word[1:]))
        else:
            names += [name.strip() for name in word.split(",") if name.strip()]
    if not names:
        raise Misuse("--labels and the like need at least one column name.")
    return names[0] if len(names) == 1 else names


def _lines(path: Path) -> list[str]:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except OSError as error:
        raise DataError(f"The list of names {str(path)!r} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"The list of names {str(path)!r} is not text in UTF-8.") from error
    if not any(lines):
        raise DataError(f"The list of names {str(path)!r} is empty.")
    return [line for line in lines if line]


def as_typed(text: str) -> str:
    """Turn the keyword arguments of an error message into what is typed on the command line."""
    text = _OTHER_OPTIONS.sub(r"--option \1=", _OWN_OPTIONS.sub(_own_option, text))
    return _LIST_OF_ONE.sub(r"=\1", text).replace("--labels  ", "--labels ")


def _own_option(match: re.Match[str]) -> str:
    return f"--{match[1]}," if match[2] else f"--{match[1]} "
