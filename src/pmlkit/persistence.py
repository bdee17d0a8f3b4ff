"""Save fitted models to files and load them, without ever unpickling a file."""

import io
import os
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import skops.io
from scipy import sparse
from skops.io.exceptions import UntrustedTypesFoundException

from pmlkit._files import check_target, replacing
from pmlkit.data.files.base import allowed_bytes
from pmlkit.exceptions import DataError
from pmlkit.methods.base import writing_model_file

__all__ = ["dumps", "is_model_file", "load", "loads", "save"]


def save(model: Any, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Write a fitted model to a file, completely or not at all.

    Left out is what only training needs: callbacks, ``out_of_fold_scores_``, and the ``result_`` of a
    :class:`~pmlkit.cleaning.LabelCleaner`. Matrices of more than 250,000 coefficients are written in single precision,
    which changes scores by about one part in ten million.

    Parameters
    ----------
    model : estimator
        A method of pmlkit, a `LabelCleaner`, or a scikit-learn pipeline that ends in one. `load` takes the estimator of
        a `CandidateClassifier` only with `trusted` if it runs compiled code on its state, as support vector machines
        and forests do; the error then names the types.
    path : path
        Usually ends in ``.skops``.
    force : bool, default=False
        Replace an existing file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from pmlkit import MLkNN
    >>> from pmlkit.persistence import load, save
    >>> model = MLkNN(n_neighbors=1).fit([[0.0], [1.0], [2.0]], [["a"], ["b"], ["b"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, Path(folder) / "model.skops")
    ...     load(Path(folder) / "model.skops").predict([[2.0]])
    [['b']]
    """
    target = check_target(path, force=force)
    data = dumps(model)
    with replacing(target) as stream:
        stream.write(data)


def load(path: str | os.PathLike[str], *, trusted: Iterable[type | str] = (), max_bytes: float | None = None) -> Any:
    """Read a model that `save` wrote; a file with any other type in it is refused.

    Parameters
    ----------
    path : path
    trusted : iterable of types or of their full names, optional
        Further types that the file may hold, such as an estimator of your own. Trust only files whose origin you know:
        code of these types runs.
    max_bytes : float, optional
        How much memory the content may take; by default 256 MiB, or 200 times the size of the file.

    Raises
    ------
    DataError
        If the file is damaged, is not a model, takes too much memory, or holds a type that is not trusted.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit.persistence import load, save
    >>> from pmlkit import MLkNN
    >>> model = MLkNN(n_neighbors=1).fit([[0.0], [1.0], [2.0]], [["a"], ["b"], ["b"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, pathlib.Path(folder, "model.skops"))
    ...     load(pathlib.Path(folder, "model.skops"))
    MLkNN(n_neighbors=1)
    """
    source = Path(path)
    if not source.is_file():
        raise DataError(f"{source} is not a file.")
    with source.open("rb") as stream:
        return _load(stream, str(source), trusted, max_bytes)


def is_model_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file looks like a model that `save` wrote; nothing in it is loaded.

    Parameters
    ----------
    path : str or path
        A file that need not exist.

    Returns
    -------
    bool

    Examples
    --------
    >>> from pmlkit.persistence import is_model_file
    >>> is_model_file("posts.csv")
    False
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return "schema.json" in archive.namelist()
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return False


def dumps(model: Any) -> bytes:
    """Return a fitted model as the bytes that `save` writes.

    Examples
    --------
    >>> from pmlkit.persistence import dumps
    >>> from pmlkit import MLkNN
    >>> model = MLkNN(n_neighbors=1).fit([[0.0], [1.0], [2.0]], [["a"], ["b"], ["b"]])
    >>> isinstance(dumps(model), bytes)
    True
    """
    token = writing_model_file.set(True)
    try:
        # Level 1: numbers hardly compress, and names compress well at any level.
        data: bytes = skops.io.dumps(model, compression=zipfile.ZIP_DEFLATED, compresslevel=1)
    finally:
        writing_model_file.reset(token)
    return data


def loads(data: bytes, *, trusted: Iterable[type | str] = (), max_bytes: float | None = None) -> Any:
    """Return the model in the bytes of `dumps`; see `load`.

    Examples
    --------
    >>> from pmlkit.persistence import dumps, loads
    >>> from pmlkit import MLkNN
    >>> model = MLkNN(n_neighbors=1).fit([[0.0], [1.0], [2.0]], [["a"], ["b"], ["b"]])
    >>> loads(dumps(model)).predict([[2.0]])
    [['b']]
    """
    return _load(io.BytesIO(data), "the data", trusted, max_bytes)


def _load(stream: Any, source: str, trusted: Iterable[type | str], max_bytes: float | None) -> Any:
    own = list(trusted)
    limit = allowed_bytes(stream.seek(0, io.SEEK_END), max_bytes)
    try:
        if _unpacked_size(stream, limit) > limit:
            raise DataError(
                f"{source} is refused: its content takes more than {limit / 2**20:,.0f} MiB of memory. If you know "
                "where it comes from, read it by pmlkit.persistence.load with a larger max_bytes=."
            )
        model = skops.io.load(stream, trusted=[*_known_types(), *own])
    except UntrustedTypesFoundException as error:
        names = str(error).partition("[")[2].partition("]")[0].replace("'", "")
        raise DataError(
            f"{source} is refused: it holds types that no pmlkit model needs ({names}). If you know where it comes "
            "from, name them in trusted=."
        ) from error
    except (MemoryError, DataError):
        raise
    except Exception as error:  # skops fails in as many ways as a file can be damaged.
        raise DataError(f"{source} is not a model file of pmlkit, or it is damaged.") from error
    try:
        for part in _parts(model):
            _refuse_unsafe(part, source, own)
    except AttributeError as error:  # an object without a class or the state of its class
        raise DataError(f"{source} is not a model file of pmlkit, or it is damaged.") from error
    return model


def _unpacked_size(stream: Any, limit: int) -> int:
    """Return how many bytes come out of an archive and the archives in it, or a number above the limit."""
    with zipfile.ZipFile(stream) as archive:
        size = sum(member.file_size for member in archive.infolist())
        for member in archive.infolist():
            if size > limit:
                break
            with archive.open(member) as content:
                if content.read(2) == b"PK":  # a sparse matrix
                    size += _unpacked_size(io.BytesIO(b"PK" + content.read()), limit - size)
    return size


def _known_types() -> list[type | str]:
    """Return the types in the fitted state of pmlkit's models that skops does not trust by itself.

    Full names, never prefixes: a prefix would let a file call any function of a module.
    """
    from pmlkit.cleaning import LabelCleaner
    from pmlkit.data.files.features import TableReader
    from pmlkit.methods import METHODS
    from pmlkit.methods.clear_pml.feature_weighting import FeatureWeighting
    from pmlkit.methods.clear_pml.label_correlations import LabelCorrelations
    from pmlkit.methods.clear_pml.landmarks import LandmarkKernel
    from pmlkit.methods.clear_pml.many_labels import SharedCurve
    from pmlkit.methods.clear_pml.primal_ridge import LinearKernel
    from pmlkit.methods.clear_pml.score_calibration import ScoreCalibration
    from pmlkit.methods.clear_pml.word_ridge import WordKernel

    kernels = (LandmarkKernel, LinearKernel, WordKernel)
    records = (FeatureWeighting, LabelCorrelations, ScoreCalibration, SharedCurve)
    return [*METHODS, LabelCleaner, TableReader, *kernels, *records, sparse.csr_array, "numpy.dtype"]


def _parts(model: Any) -> Iterator[Any]:
    """Yield a loaded object and everything in it, each once."""
    seen: set[int] = set()
    waiting = [model]
    while waiting:
        part = waiting.pop()
        if id(part) in seen or part is None or isinstance(part, str | bytes | int | float):
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, dict):
            waiting += [*part, *part.values()]
        elif isinstance(part, list | tuple | set | frozenset):
            waiting += part
        elif isinstance(part, np.ndarray):
            waiting += part.ravel().tolist() if part.dtype == object else []
        elif not isinstance(part, type):
            waiting += getattr(part, "__dict__", {}).values()


def _refuse_unsafe(part: Any, source: str, trusted: list[type | str]) -> None:
    """Raise for state that compiled code would use unchecked, and for parameters that open files."""
    from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
    from sklearn.svm._base import BaseLibSVM

    if sparse.issparse(part):
        try:
            part.check_format(full_check=True) if hasattr(part, "check_format") else part.tocsr().check_format(True)
        except Exception as error:
            raise DataError(f"{source} is damaged: a sparse matrix in it is not valid.") from error
    if isinstance(part, CountVectorizer | HashingVectorizer) and part.input != "content":
        raise DataError(
            f"{source} is refused: its {type(part).__name__} reads files (input={part.input!r}); only "
            "input='content' is allowed."
        )
    if isinstance(part, BaseLibSVM) and type(part) not in trusted:
        raise DataError(
            f"{source} is refused: {type(part).__name__} passes its state to compiled code unchecked. If you know "
            "where the file comes from, name the class in trusted=."
        )
