"""Which formats there are, which one a file is in, and how it is opened: compression, memory limits, standard input."""

import bz2
import contextlib
import glob
import gzip
import io
import logging
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from pmlkit._words import check_choice
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit.data.files.base import TableFile

logger = logging.getLogger(__name__)

STANDARD_INPUT = "-"
"""The path that stands for standard input."""


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
    - `max_bytes`: how much memory compressed content may take, see `pmlkit.data.files.registry.allowed_bytes`.
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
        limit = allowed_bytes(raw.seek(0, io.SEEK_END), max_bytes)
        raw.seek(0)
        with raw, _unpacked(raw, limit, is_stdin) as stream:
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
