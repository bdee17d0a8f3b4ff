"""What all formats share: how a file is opened (format, compression, memory limits), rows and named columns.

Also how columns are selected by name or pattern, and what the columns of a table that pmlkit wrote are called.
"""

import bz2
import contextlib
import fnmatch
import glob
import gzip
import io
import logging
import os
import re
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar, cast

import numpy as np

from pmlkit._arrays import first_repeated
from pmlkit._typing import FloatArray
from pmlkit._words import check_choice, did_you_mean, excerpt, listing
from pmlkit.exceptions import DataError

logger = logging.getLogger(__name__)

T = TypeVar("T")

STANDARD_INPUT = "-"
"""The path that stands for standard input."""

Missing = Literal["error", "mean", "zero"]
Edits = Mapping[str, Mapping[int, Any]]
"""New cells: for a column, the row numbers and what stands there now."""
Names = str | Collection[str]
"""One name or pattern, or several; ``@file`` stands for the lines of a file."""

# A feature that could be mistaken for another kind of column gets a prefix of its own.
LABEL_PREFIX, TRUTH_PREFIX, FEATURE_PREFIX = "label:", "truth:", "feature:"
ID_COLUMN, MEDIA_COLUMN = "id", "media"

_LIKELY_LABELS = re.compile(r"(?i)^(labels?|tags?|categor(y|ies)|topics?|keywords?|genres?|classes)$")
_MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "?"})
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+(?:[eE][+-]?\d+)?\s*", re.ASCII)
_BOOLEANS = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True)
class Format:
    """How one kind of file is read and written.

    - `suffixes`: endings of file names.
    - `table`: the class that parses it as rows and columns, as ``module.Class`` of this package.
    - `reader`, `writer`: the functions that read and write a data set, as ``module.function``; a format with `table`
      needs no reader.
    - `is_text`: whether ``.gz`` and ``.bz2`` may be added on writing.
    """

    suffixes: tuple[str, ...]
    table: str | None = None
    reader: str | None = None
    writer: str | None = None
    is_text: bool = True

    def load(self, kind: str) -> Any:
        """Return the class or function called `table`, `reader` or `writer`; its module is imported only now."""
        module, _, name = str(getattr(self, kind)).partition(".")
        return getattr(import_module(f"pmlkit.data.files.{module}"), name)


FORMATS: dict[str, Format] = {
    "arff": Format((".arff",), "arff.ArffFile", "arff.read_arff", "arff.write_arff"),
    "csv": Format((".csv",), "delimited.DelimitedFile", "datasets.read_table", "delimited.write_csv"),
    "json": Format((".json",), "json_rows.JsonFile", "datasets.read_table"),
    "jsonl": Format((".jsonl", ".ndjson"), "json_rows.JsonFile", "datasets.read_table"),
    "libsvm": Format((".libsvm", ".svm", ".svmlight"), None, "libsvm.read_libsvm", "libsvm.write_libsvm"),
    "mat": Format((".mat",), None, "mat.read_mat", is_text=False),
    "npz": Format((".npz",), None, "npz.read_npz", "npz.write_npz", is_text=False),
    "parquet": Format(
        (".parquet", ".pq"), "parquet.ParquetFile", "datasets.read_table", "parquet.write_parquet", False
    ),
    "tsv": Format((".tsv", ".tab"), "delimited.DelimitedFile", "datasets.read_table", "delimited.write_tsv"),
}
"""The file formats by name."""

TABLE_FORMATS = tuple(name for name, known in FORMATS.items() if known.table)
"""Those that have rows and columns."""

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_COMPRESSED = {b"\x1f\x8b": ".gz", b"BZh": ".bz2"}
_SIGNATURES = {b"PK\x03\x04": "npz", b"PAR1": "parquet", b"MATLAB": "mat", b"\x89HDF": "mat"}
_OLD_WORKBOOK = bytes.fromhex("d0cf11e0a1b11ae1")  # .xls
WORKBOOKS = (".xlsx", ".xlsm", ".xls", ".ods")
_ARFF_START = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s|%[^\n]*\n)*@(?:relation|attribute)\b", re.IGNORECASE)
_JSON_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{\s*[\"}]")
_HEAD = 2**16
LIBSVM_HEADER = re.compile(rb"\s*(\d{1,18})\s+(\d{1,18})\s+(\d{1,18})\s*")
LIBSVM_ROW = re.compile(rb"\s*(\d{1,18}(?:,\d{1,18})*(?=\s|$))?((?:\s*\b\d{1,18}:[^\s:]+(?=\s|$))*)\s*")

FREE_BYTES = 2**28
"""What any file may unpack to; a larger one up to `RATIO` times its own size."""
RATIO = 200
_LINE_BYTES = 64  # what a line of text takes in memory beside its letters


def allowed_bytes(packed: int, max_bytes: float | None = None, *, free: int = FREE_BYTES) -> int:
    """Return how many bytes the content of a file may take: `max_bytes`, or what its size makes plausible."""
    if max_bytes is None:
        return max(free, RATIO * packed)
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int | float) or not 1 <= max_bytes < 2**63:
        raise ValueError(f"max_bytes must be a number of bytes from 1, got {max_bytes!r}.")
    return int(max_bytes)


def check_size(n_bytes: int, limit: int, what: str) -> None:
    """Raise if something is larger than the limit."""
    if n_bytes > limit:
        raise DataError(
            f"{what} takes {_size(n_bytes)} of memory, more than the {_size(limit)} that a file of this size may take "
            "unasked.",
            option="max_bytes",
            value=str(n_bytes),
            remedy=" or more if you trust the file",
        )


class LimitedReader(io.RawIOBase):
    """A decompressed stream that raises once more bytes than allowed have come out of it."""

    def __init__(self, stream: Any, limit: int) -> None:
        self._stream, self._limit = stream, limit
        self._n_seen = self._n_lines = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a position."""
        return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        """Return the position."""
        return int(self._stream.tell())

    def readinto(self, buffer: Any, /) -> int:
        """Read into a buffer."""
        n_read = int(self._stream.readinto(buffer))
        if self._stream.tell() > self._n_seen:
            self._n_seen = self._stream.tell()
            self._n_lines += bytes(buffer[:n_read]).count(b"\n")
        if self._n_seen + _LINE_BYTES * self._n_lines > self._limit:
            raise DataError(
                f"the compressed file takes more than the {_size(self._limit)} of memory that a file of its size may "
                "take unasked.",
                option="max_bytes",
                value=str(10 * self._limit),
                remedy=" or the like if you trust the file",
            )
        return n_read

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
        super().close()


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:,.1f} GiB" if n_bytes >= 2**30 else f"{n_bytes / 2**20:,.0f} MiB"


@dataclass(frozen=True)
class Source:
    """A file being read: where it is, its name without endings, its decompressed bytes, its format, and the limit.

    `max_bytes` is how much memory its content may take, see `allowed_bytes`.
    """

    path: Path
    stem: str
    stream: BinaryIO
    format: str = ""
    max_bytes: int = FREE_BYTES


def matching_files(path: Any) -> list[Path] | None:
    """Return the files of a list or a pattern such as ``posts-*.parquet``, sorted; None for the path of one file."""
    if isinstance(path, list | tuple):
        if not path:
            raise ValueError("the list of files is empty.")
        return [Path(one) for one in path]
    text = os.fspath(path)
    if not glob.has_magic(text) or os.path.lexists(text):
        return None
    found = sorted(Path(one) for one in glob.glob(text, recursive=True) if not os.path.isdir(one))
    if not found:
        raise FileNotFoundError(f"No file matches {text!r}. Check the pattern and the folder it starts from.")
    return found


@contextlib.contextmanager
def open_file(
    path: str | os.PathLike[str], format: str | None = None, max_bytes: float | None = None, *, notes: bool = True
) -> Iterator[Source]:
    """Open a file, decompressed, and detect its format; errors while it is read carry its name.

    - `path`: the file, or ``-`` for standard input.
    - `format`: by default found from what the file begins with and what it is called.
    - `max_bytes`: how much memory compressed content may take, see `pmlkit.data.files.base.allowed_bytes`.
    - `notes`: log where the two differ.
    """
    if format is not None:
        check_choice(format, FORMATS, "format")
    is_stdin = str(path) == STANDARD_INPUT
    path = Path("standard input" if is_stdin else path)
    if not is_stdin:
        _check_readable(path)
    try:
        raw = io.BytesIO(sys.stdin.buffer.read()) if is_stdin else path.open("rb")
        with raw:
            limit = allowed_bytes(raw.seek(0, io.SEEK_END), max_bytes)
            raw.seek(0)
            with _unpacked(raw, limit, is_stdin) as stream:
                chosen = format or _recognise(stream, path, is_stdin, notes)
                stream.seek(0)
                yield Source(path, stem(path), stream, chosen, limit)
    except DataError as error:
        raise (error if error.path else error.replace(path=path.name)) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"the compressed file is damaged or not complete: {error}.", path=path.name) from error
    except OSError as error:
        raise DataError(f"{path.name} cannot be read: {error.strerror or error}.") from error


def parse_table(source: Source, *, delimiter: str | None = None, encoding: str | None = None) -> "TableFile":
    """Parse a file of rows and columns."""
    table = FORMATS[source.format].load("table")
    if source.format in ("csv", "tsv"):
        between = delimiter or ("\t" if source.format == "tsv" else None)
        file = table(source.stream, delimiter=between, encoding=encoding)
    elif delimiter or encoding:
        raise ValueError(f"reading {source.format} has no option 'delimiter' or 'encoding': they are for csv and tsv.")
    elif source.format == "arff":
        file = table(source.stream)
    else:
        file = table(source.stream, source.max_bytes)
    if file.n_rows == 0:
        raise DataError("the table has no rows.")
    return cast("TableFile", file)


def _check_readable(path: Path) -> None:
    if not path.exists():
        raise FileNotFoundError(f"There is no file {str(path)!r}. Check the path and the folder it starts from.")
    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder: give the path of a file in it.")
    if not path.is_file():
        raise DataError(f"{str(path)!r} is not a regular file: save its content to one first.")


def _unpacked(raw: BinaryIO, limit: int, is_stdin: bool) -> BinaryIO:
    head = raw.read(4)
    raw.seek(0)
    if not head and not is_stdin:
        raise DataError("the file is empty.")
    kind = next((suffix for signature, suffix in _COMPRESSED.items() if head.startswith(signature)), None)
    if kind is None:
        return raw
    return cast(BinaryIO, io.BufferedReader(LimitedReader(_OPENERS[kind](raw, "rb"), limit)))


def stem(path: Path) -> str:
    """Return the file's name without compression and format endings."""
    name = path.name
    for suffixes in (_OPENERS, [*(s for known in FORMATS.values() for s in known.suffixes), ".txt"]):
        suffix = next((s for s in suffixes if name.lower().endswith(s) and len(name) > len(s)), "")
        name = name[: len(name) - len(suffix)]
    return name


def format_by_name(path: str | os.PathLike[str]) -> str | None:
    """Return the format that a file's name tells, or None."""
    endings = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() not in _OPENERS]
    return next((name for name, known in FORMATS.items() if endings and endings[-1] in known.suffixes), None)


def find_format(path: str | os.PathLike[str]) -> str:
    """Return the format of a file, without notes; standard input, which can be read only once, counts as CSV."""
    if str(path) == STANDARD_INPUT:
        return "csv"
    with open_file(path, notes=False) as source:
        return source.format


def _recognise(stream: BinaryIO, path: Path, is_stdin: bool, notes: bool) -> str:
    """Return the format of a file: what it begins with counts for more than what it is called."""
    head = stream.read(_HEAD)
    if not head:
        raise DataError("the file is empty.")
    _refuse_archive(head, path)
    by_name = None if is_stdin else format_by_name(path)
    by_content = next((name for start, name in _SIGNATURES.items() if head.startswith(start)), None)
    if by_content is None and _ARFF_START.match(head):
        by_content = "arff"
    if by_content is None and by_name is None:
        if _looks_like_libsvm(head):
            by_content = "libsvm"
        elif _JSON_START.match(head):
            by_content = "jsonl"
        elif is_stdin:
            by_content = "csv"
    if notes and by_content and by_name and by_content != by_name:
        logger.warning("%s is called %s, but it is %s and read as that", path.name, by_name, by_content)
    if (chosen := by_content or by_name) is None:
        if head.lstrip().startswith(b"<"):
            raise DataError("this is an XML or HTML file. For a MULAN data set, give the .arff file beside it.")
        raise DataError("the format is not recognised.", option="format", remedy=f" one of {', '.join(FORMATS)}")
    return chosen


def _refuse_archive(head: bytes, path: Path) -> None:
    """Refuse workbooks and other archives: an npz file is an archive, too, but of arrays alone."""
    # The name of an archive's first member: the length in bytes 26 and 27, the name itself from byte 30.
    first = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    is_archive = head.startswith(b"PK\x03\x04") and not first.endswith(b".npy")
    if head.startswith(_OLD_WORKBOOK) or (is_archive and path.suffix.lower() in WORKBOOKS):
        raise DataError("this is a workbook of a spreadsheet program: save the sheet as CSV, and give that file.")
    if is_archive and path.suffix.lower() != ".npz":
        raise DataError("this is a zip archive: unpack it, and give the file in it.")


def _looks_like_libsvm(head: bytes) -> bool:
    first, rest, *_ = [*head.split(b"\n", 2), b""]
    row = rest if LIBSVM_HEADER.fullmatch(first) else first
    is_cut = len(head) == _HEAD and head.count(b"\n") < 2
    return bool(LIBSVM_ROW.match(row) if is_cut else LIBSVM_ROW.fullmatch(row)) and b":" in row


@contextlib.contextmanager
def compressed(stream: BinaryIO, path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a stream that compresses what is written to it, if the suffix of the path asks for it."""
    suffix = Path(path).suffix.lower()
    if suffix == ".gz":
        # No name and time inside: the same content gives the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed:
            yield cast(BinaryIO, packed)
    elif suffix == ".bz2":
        with bz2.BZ2File(stream, "wb") as packed_bz2:
            yield cast(BinaryIO, packed_bz2)
    else:
        yield stream


class TableFile(ABC):
    """A parsed file that keeps everything, so that it can be written again as it was.

    `columns`: their names, in the order of the file. `decimal_comma`: whether ``1,5`` may be a number. `is_untyped`:
    whether all cells are texts, so that an identifier may be a number, too.
    """

    columns: list[str]
    n_rows: int
    decimal_comma: bool = False
    is_untyped: bool = False

    def cells(self, names: Iterable[str]) -> dict[str, Sequence[Any]]:
        """Return columns as Python values: texts in text files, what the format knows in others, None if absent.

        Columns are parsed once and kept.
        """
        wanted = list(names)
        kept: dict[str, Sequence[Any]] = self.__dict__.setdefault("_kept_cells", {})
        if missing := [name for name in wanted if name not in kept]:
            kept |= self._parse_cells(missing)
        return {name: kept[name] for name in wanted}

    def has_parsed(self, names: Iterable[str]) -> bool:
        """Return whether these columns were parsed before."""
        return set(names) <= set(self.__dict__.get("_kept_cells", ()))

    @abstractmethod
    def _parse_cells(self, names: list[str]) -> dict[str, Sequence[Any]]:
        """Parse columns."""

    def numbers(self, names: Sequence[str]) -> FloatArray:
        """Return columns as a matrix, NaN where a cell is empty."""
        matrix: FloatArray = np.empty((self.n_rows, len(names)))
        for k, (name, values) in enumerate(self.cells(names).items()):
            matrix[:, k] = parse_numbers(values, name, decimal_comma=self.decimal_comma)
        return matrix

    @abstractmethod
    def write(self, stream: BinaryIO, edits: Edits) -> None:
        """Write the file with some cells changed and all else as it was."""


def parse_numbers(values: Sequence[Any], name: str, *, decimal_comma: bool = False, start: int = 0) -> FloatArray:
    """Return cells as numbers: NaN where empty, 1 and 0 for a column of true and false.

    `values`: texts or numbers. `name`: the column, for messages. `decimal_comma`: whether ``1,5`` is a number, too.
    `start`: the row of the first value, for messages.
    """
    try:
        numbers = np.fromiter(map(float, values), np.float64, len(values))
        if not any(isinstance(value, str) and "_" in value for value in values):  # Python's own way to write 1_000
            return numbers
    except (TypeError, ValueError):
        pass
    numbers = np.full(len(values), np.nan)
    known = {row: value for row, value in enumerate(values) if not is_missing(value)}
    are_booleans = all(isinstance(value, str) and value.strip().lower() in _BOOLEANS for value in known.values())
    decimal_comma = decimal_comma or _has_decimal_commas(known.values())
    for row, value in known.items():
        number = _BOOLEANS[value.strip().lower()] if are_booleans else as_number(value, decimal_comma=decimal_comma)
        if number is None:
            raise DataError(
                f"column {name!r} must hold numbers, but row {start + row} holds {excerpt(str(value))}.",
                column=name,
                row=start + row,
            )
        numbers[row] = number
    return numbers


def _has_decimal_commas(values: Iterable[Any]) -> bool:
    """Return whether the commas in quoted cells must be decimal: in all numbers, not all followed by three digits.

    ``1,234`` alone may be a thousand and more.
    """
    with_comma = [value for value in values if isinstance(value, str) and "," in value]
    digits = {len(re.split(r"[eE]", value.partition(",")[2].strip())[0]) for value in with_comma}
    return bool(digits - {3}) and all(map(_DECIMAL_COMMA.fullmatch, with_comma))


def is_missing(value: Any) -> bool:
    """Return whether a cell of a column of numbers is empty, in one of the usual spellings."""
    return value is None or (isinstance(value, str) and value.strip().lower() in _MISSING)


def as_number(value: Any, *, decimal_comma: bool = False) -> float | None:
    """Return a cell as a number, or None if it is none."""
    if isinstance(value, str):
        if decimal_comma and _DECIMAL_COMMA.fullmatch(value):
            value = value.replace(",", ".")
        if "_" in value:
            return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def read_ids(file: TableFile, column: str) -> list[Any]:
    """Return the identifiers of the rows; those of a text file as int, if all are whole numbers."""
    ids = ["" if value is None else value for value in file.cells([column])[column]]
    joined = "".join(ids) if file.is_untyped else ""
    if joined.isascii() and joined.isdigit() and all(ids):
        numbers = [int(text) for text in ids] if max(map(len, ids)) < 19 else []
        return numbers if [str(number) for number in numbers] == ids else ids
    return ids


def refuse_repeated(columns: Sequence[str]) -> None:
    """Raise if two columns have the same name."""
    if (double := first_repeated(columns)) is not None:
        raise DataError(f"the column {double!r} occurs more than once. Rename one of the two.", column=double)


def as_names(words: Names | None) -> list[str]:
    """Return a list of names or patterns, those of ``@file`` read from the file."""
    items = [] if words is None else [words] if isinstance(words, str | os.PathLike) else list(words)
    names: list[str] = []
    for item in map(str, items):
        names += _lines(Path(item[1:])) if item.startswith("@") and len(item) > 1 else [item]
    return names


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


def select(names: Sequence[str], wanted: Names, what: str = "column", *, option: str | None = None) -> list[int]:
    """Return the positions of the columns named, or matched by a glob pattern, in the order of the file."""
    positions = {name: j for j, name in enumerate(names)}
    chosen: set[int] = set()
    for item in as_names(wanted):
        if item in positions:
            chosen.add(positions[item])
            continue
        matches = {j for name, j in positions.items() if fnmatch.fnmatchcase(name, item)}
        if not matches:
            likely = [name for name in likely_labels(names) if option == "labels" and name not in as_names(wanted)]
            raise _absent(item, names, what, likely)
        chosen |= matches
    return sorted(chosen)


def check_column(name: str, columns: Sequence[str]) -> str:
    """Return the name of a column that is there, or say which are."""
    if name not in columns:
        raise _absent(name, columns, "column", ())
    return name


def _absent(name: str, names: Sequence[str], what: str, likely: Sequence[str]) -> DataError:
    hint = did_you_mean(name, names) or (f" Is it {likely[0]!r}?" if likely else "")
    return DataError(f"there is no {what} {name!r}.{hint} The {what}s are {listing(names)}.", column=name)


def likely_labels(names: Sequence[str]) -> list[str]:
    """Return the columns that are called as columns of labels often are."""
    return [name for name in names if _LIKELY_LABELS.match(name)]


def label_key(wanted: object, name: str) -> str:
    """Return what a label is called apart from the prefix, or the rest of the pattern, that marks its column."""
    patterns = [wanted] if isinstance(wanted, str) else list(wanted) if isinstance(wanted, list | tuple) else []
    if len(patterns) == 1 and str(patterns[0]).count("*") == 1:
        before, _, after = str(patterns[0]).partition("*")
        return name.removeprefix(before).removesuffix(after)
    prefix = TRUTH_PREFIX if name.startswith(TRUTH_PREFIX) else LABEL_PREFIX
    return name.removeprefix(prefix)


def check_missing(missing: str) -> None:
    """Refuse a word that does not say what becomes of missing numbers."""
    if missing not in ("error", "mean", "zero"):
        raise ValueError(f"missing must be 'error', 'mean' or 'zero', got {missing!r}.")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most `size` items."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
