"""Read a data set from a file, or write one: `pmlkit.data.read` and `pmlkit.data.write`."""

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pmlkit._files import check_target, replacing
from pmlkit.data.dataset import PMLDataset
from pmlkit.data.files.registry import FORMATS, compressed, format_by_name, open_file
from pmlkit.exceptions import DataError

__all__ = ["read", "write"]

_COMPRESSIONS = (".gz", ".bz2")


def read(
    path: str | os.PathLike[str], *, format: str | None = None, max_bytes: float | None = None, **options: Any
) -> PMLDataset:
    r"""Read a data set from a file.

    Parameters
    ----------
    path : str or path
        The file, or ``-`` for standard input; ``.gz`` and ``.bz2`` are decompressed on the way.
    format : {"arff", "csv", "json", "jsonl", "libsvm", "mat", "npz", "parquet", "tsv"}, optional
        By default found from what the file begins with and what it is called.
    max_bytes : int, optional
        How much memory compressed content, or a table that a file only claims, may take. By default 256 MiB, or 200
        times the size of the file where that is more: a file that claims more is refused before it fills the memory.
    **options
        Of the format:

        - arff: `labels`, `nominal`, `missing`, `ignore`
          (see `pmlkit.data.files.arff.read_arff`);
        - csv, tsv, parquet, json, jsonl: `labels`, `truth`, `sep`, `id`, `media`, `ignore`, `missing`; csv
          and tsv also `delimiter`, `encoding` (see `pmlkit.data.files.columns.read_table`);
        - libsvm: `zero_based`, `n_features`, `n_labels`
          (see `pmlkit.data.files.libsvm.read_libsvm`);
        - mat: `data`, `candidates`, `truth`, `orientation`
          (see `pmlkit.data.files.mat.read_mat`).

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
    >>> from pmlkit.data import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "posts.csv")
    ...     _ = path.write_text("length,links,tags\n120,3,spam;ad\n80,0,\n45,1,ad\n")
    ...     data = read(path, labels="tags", sep=";")
    >>> data
    PMLDataset 'posts': 3 rows, 2 features (dense float64), 2 labels, 1.00 candidates per row, truth unknown
    >>> data.label_names
    ('ad', 'spam')
    """
    with open_file(path, format, max_bytes) as source:
        reader = FORMATS[source.format].load("reader")
        _check_options(reader, options, f"reading {source.format}", skip=1)
        dataset: PMLDataset = reader(source, **options)
    return dataset.replace(
        name=dataset.name or source.stem,
        provenance=dataset.provenance or f"read from {source.path.name} ({source.format})",
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
    >>> from pmlkit.data import read, write
    >>> data = PMLDataset([[0.5], [2.0]], [[1, 1], [0, 1]], truth=[[1, 0], [0, 1]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(data, pathlib.Path(folder, "small.npz"))
    ...     read(pathlib.Path(folder, "small.npz")) == data
    True
    """
    path = Path(path)
    chosen = format if format is not None else format_by_name(path)
    writable = ", ".join(name for name, known in FORMATS.items() if known.writer)
    if chosen not in FORMATS:
        raise DataError(f"The ending of {path.name!r} names no format.", option="format", remedy=f" one of {writable}")
    if FORMATS[chosen].writer is None:
        raise ValueError(f"{chosen} files are only read: write one of {writable}.")
    if path.suffix.lower() in _COMPRESSIONS and not FORMATS[chosen].is_text:
        raise ValueError(f"{chosen} files are compressed inside: leave out the ending {path.suffix}.")
    writer = FORMATS[chosen].load("writer")
    _check_options(writer, options, f"writing {chosen}", skip=2)
    with replacing(check_target(path, force=force)) as stream, compressed(stream, path) as packed:
        writer(dataset, packed, **options)


def _check_options(function: Callable[..., Any], options: dict[str, Any], what: str, skip: int) -> None:
    allowed = list(inspect.signature(function).parameters)[skip:]
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        known = f"known are {', '.join(allowed)}" if allowed else "there are none"
        raise ValueError(f"{what} has no option {unknown[0]!r}; {known}.")
