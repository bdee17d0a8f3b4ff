"""Read a data set from a file, or write one: chooses the format, opens, decompresses, replaces whole files."""

import bz2
import gzip
import inspect
import logging
import os
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from pmlkit._files import check_target, replacing
from pmlkit.data.dataset import PMLDataset
from pmlkit.data.formats import libsvm
from pmlkit.data.formats._common import Source
from pmlkit.data.formats.arff import read_arff, write_arff
from pmlkit.data.formats.libsvm import read_libsvm, write_libsvm
from pmlkit.data.formats.mat import read_mat
from pmlkit.data.formats.npz import read_npz, write_npz
from pmlkit.data.formats.table import read_csv, read_parquet, write_csv, write_parquet, write_tsv
from pmlkit.exceptions import DataError

__all__ = ["FORMATS", "read", "write"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Format:
    """How one kind of file is read and written."""

    suffixes: tuple[str, ...]
    read: Callable[..., PMLDataset]
    write: Callable[..., None] | None
    is_text: bool


FORMATS: dict[str, Format] = {
    "arff": Format((".arff",), read_arff, write_arff, is_text=True),
    "csv": Format((".csv",), read_csv, write_csv, is_text=True),
    "libsvm": Format((".libsvm", ".svm", ".svmlight"), read_libsvm, write_libsvm, is_text=True),
    "mat": Format((".mat",), read_mat, None, is_text=False),
    "npz": Format((".npz",), read_npz, write_npz, is_text=False),
    "parquet": Format((".parquet", ".pq"), read_parquet, write_parquet, is_text=False),
    "tsv": Format((".tsv", ".tab"), read_csv, write_tsv, is_text=True),
}
"""The file formats by name."""

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_COMPRESSED = {b"\x1f\x8b": ".gz", b"BZh": ".bz2"}
_SIGNATURES = {b"PK\x03\x04": "npz", b"PAR1": "parquet", b"MATLAB": "mat", b"\x89HDF": "mat"}
_ARFF_START = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s|%[^\n]*\n)*@(?:relation|attribute)\b", re.IGNORECASE)
_HEAD = 2**16


def read(path: str | os.PathLike[str], *, format: str | None = None, **options: Any) -> PMLDataset:
    r"""Read a data set from a file.

    Parameters
    ----------
    path : str or path
        The file; ``.gz`` and ``.bz2`` are decompressed on the way.
    format : {"arff", "csv", "libsvm", "mat", "npz", "parquet", "tsv"}, optional
        By default found from what the file begins with and what it is called.
    **options
        Of the format:

        - arff: `labels`, `nominal`, `missing`, `ignore`
          (see `pmlkit.data.formats.arff.read_arff`);
        - csv, tsv, parquet: `labels`, `truth`, `sep`, `id`, `media`, `ignore`, `missing`; csv
          and tsv also `delimiter`, `encoding` (see `pmlkit.data.formats.table.read_csv`);
        - libsvm: `zero_based`, `n_features`, `n_labels`
          (see `pmlkit.data.formats.libsvm.read_libsvm`);
        - mat: `data`, `candidates`, `truth`, `orientation`
          (see `pmlkit.data.formats.mat.read_mat`).

    Returns
    -------
    dataset : PMLDataset
        Its name is that of the file. Files with one label block (ARFF, libsvm, a table without
        `truth`) give candidates whose truth is unknown; npz and MATLAB benchmark files, whose
        label block is the ground truth, give it as both.

    Raises
    ------
    DataError
        If the file cannot be used; the message says why.
    FileNotFoundError
        If there is no file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit.data.reading import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "posts.csv")
    ...     _ = path.write_text("length,links,tags\n120,3,spam;ad\n80,0,\n45,1,ad\n")
    ...     data = read(path, labels="tags", sep=";")
    >>> data
    PMLDataset 'posts': 3 rows, 2 features (dense float64), 2 labels, 1.00 candidates per row, truth unknown
    >>> data.label_names
    ('ad', 'spam')
    """
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {format!r}.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {str(path)!r}. Check the path and the folder it starts from.")
    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder: give the path of a file in it.")
    if not path.is_file():
        raise DataError(f"{str(path)!r} is not a regular file: save its content to one first.")
    try:
        with _open(path) as stream:
            chosen = format or _recognise(stream, path)
            _check_options(FORMATS[chosen].read, options, f"reading {chosen}", skip=1)
            stream.seek(0)
            source = Source(path, _stem(path), stream)
            dataset = FORMATS[chosen].read(source, **options)
    except DataError as error:
        raise DataError(f"{path.name}: {error}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path.name}: the compressed file is damaged or not complete: {error}.") from error
    except OSError as error:
        raise DataError(f"{path.name} cannot be read: {error.strerror or error}.") from error
    return dataset.replace(
        name=dataset.name or source.stem,
        provenance=dataset.provenance or f"read from {path.name} ({chosen})",
    )


def write(
    dataset: PMLDataset,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    force: bool = False,
    **options: Any,
) -> None:
    """Write a data set to a file, whole or not at all.

    Parameters
    ----------
    dataset : PMLDataset
        What to write. Only npz carries all of it; tables leave out images, ARFF and libsvm hold
        one label block. What is left out is logged.
    path : str or path
        The file. Its ending chooses the format; ``.gz`` and ``.bz2`` after it compress text formats.
    format : {"arff", "csv", "libsvm", "npz", "parquet", "tsv"}, optional
        Instead of the ending.
    force : bool, default=False
        Whether an existing file is replaced.
    **options
        For arff and libsvm: ``labels="candidates"`` (default) or ``labels="truth"``.

    Raises
    ------
    DataError
        If the file exists, without `force`, if the folder is absent or cannot be written to, or if the
        format does not fit.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit.data.dataset import PMLDataset
    >>> from pmlkit.data.reading import read, write
    >>> data = PMLDataset([[0.5], [2.0]], [[1, 1], [0, 1]], truth=[[1, 0], [0, 1]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(data, pathlib.Path(folder, "small.npz"))
    ...     read(pathlib.Path(folder, "small.npz")) == data
    True
    """
    path = Path(path)
    compression = path.suffix.lower() if path.suffix.lower() in _OPENERS else None
    chosen = format if format is not None else _format_by_name(path)
    writable = ", ".join(name for name, known in FORMATS.items() if known.write)
    if chosen not in FORMATS:
        raise ValueError(f"The ending of {path.name!r} names no format: pass format= one of {writable}.")
    writer = FORMATS[chosen].write
    if writer is None:
        raise ValueError(f"{chosen} files are only read: write one of {writable}.")
    if compression and not FORMATS[chosen].is_text:
        raise ValueError(f"{chosen} files are compressed inside: leave out the ending {compression}.")
    _check_options(writer, options, f"writing {chosen}", skip=2)
    with replacing(check_target(path, force=force)) as stream:
        if compression is None:
            writer(dataset, stream, **options)
        else:
            with _compressor(stream, compression) as packed:
                writer(dataset, packed, **options)


def _open(path: Path) -> BinaryIO:
    with path.open("rb") as stream:
        head = stream.read(4)
    if not head:
        raise DataError("the file is empty.")
    kind = next((suffix for signature, suffix in _COMPRESSED.items() if head.startswith(signature)), None)
    return cast(BinaryIO, path.open("rb") if kind is None else _OPENERS[kind](path, "rb"))


def _stem(path: Path) -> str:
    """Return the file's name without compression and format endings."""
    name = path.name
    for suffixes in (_OPENERS, [*(s for known in FORMATS.values() for s in known.suffixes), ".txt"]):
        suffix = next((s for s in suffixes if name.lower().endswith(s) and len(name) > len(s)), "")
        name = name[: len(name) - len(suffix)]
    return name


def _format_by_name(path: Path) -> str | None:
    endings = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in _OPENERS]
    return next((name for name, known in FORMATS.items() if endings and endings[-1] in known.suffixes), None)


def _recognise(stream: BinaryIO, path: Path) -> str:
    """Return the format of a file: what it begins with counts for more than what it is called."""
    head = stream.read(_HEAD)
    if not head:
        raise DataError("the file is empty.")
    by_content = next((name for start, name in _SIGNATURES.items() if head.startswith(start)), None)
    by_name = _format_by_name(path)
    if by_content is None and _ARFF_START.match(head):
        by_content = "arff"
    if by_content is None and by_name is None and _looks_like_libsvm(head):
        by_content = "libsvm"
    if by_content and by_name and by_content != by_name:
        logger.warning("%s is called %s, but it is %s and read as that", path.name, by_name, by_content)
    if (chosen := by_content or by_name) is None:
        if head.lstrip().startswith(b"<"):
            raise DataError("this is an XML or HTML file. For a MULAN data set, give the .arff file beside it.")
        raise DataError(f"the format is not recognised: pass format= one of {', '.join(FORMATS)}.")
    return chosen


def _looks_like_libsvm(head: bytes) -> bool:
    first, rest, *_ = [*head.split(b"\n", 2), b""]
    row = rest if libsvm.HEADER.fullmatch(first) else first
    is_cut = len(head) == _HEAD and head.count(b"\n") < 2
    return bool(libsvm.ROW.match(row) if is_cut else libsvm.ROW.fullmatch(row)) and b":" in row


def _check_options(function: Callable[..., Any], options: dict[str, Any], what: str, skip: int) -> None:
    allowed = list(inspect.signature(function).parameters)[skip:]
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        known = f"known are {', '.join(allowed)}" if allowed else "there are none"
        raise ValueError(f"{what} has no option {unknown[0]!r}; {known}.")


def _compressor(stream: BinaryIO, compression: str) -> BinaryIO:
    if compression == ".gz":
        # No name and time inside: the same data set gives the same bytes.
        return cast(BinaryIO, gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0))
    return cast(BinaryIO, bz2.BZ2File(stream, "wb"))
