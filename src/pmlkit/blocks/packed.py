"""Nested values of arrays as files, without pickles: for state that is put on disk, and for checkpoints."""

import json
import weakref
import zipfile
import zlib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._files import replacing
from pmlkit.exceptions import DataError

__all__ = ["Journal", "OnDisk", "n_bytes", "read_packed", "write_packed"]


def n_bytes(value: Any) -> int:
    """Return how much memory the arrays in a nested value take.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.blocks.packed import n_bytes
    >>> n_bytes({"a": np.zeros(10), "b": [np.zeros(2), 1.5]})
    96
    """
    return sum(array.nbytes for array in _pack(value, [])[1])


def write_packed(path: Path, value: Any) -> None:
    """Write a nested value of arrays, CSR arrays, tuples, lists, dicts, numbers and texts; whole or not at all."""
    layout, arrays = _pack(value, [])
    with replacing(path) as stream:
        _write(stream, [np.array(json.dumps(layout)), *arrays])


def read_packed(path: Path) -> Any:
    """Read what `write_packed` wrote."""
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:  # numpy leaves damaged files open
        return _unpack(json.loads(str(file["a0"])), file, 1)


class OnDisk:
    """A value whose arrays are in a file, which is deleted with it. Data classes are kept apart from their arrays.

    Parameters
    ----------
    value : object
    path : path
    folder : object
        Lives as long as a file in it.
    """

    def __init__(self, value: Any, path: Path, folder: Any) -> None:
        self._layout, arrays = _pack(value, [])
        self._path, self._folder = path, folder
        with path.open("wb") as stream:
            _write(stream, arrays)
        weakref.finalize(self, path.unlink, missing_ok=True)

    def load(self) -> Any:
        """Return the value."""
        with np.load(self._path, allow_pickle=False) as file:
            return _unpack(self._layout, file, 0)


def _write(stream: BinaryIO, arrays: list[NDArray[Any]]) -> None:
    named: dict[str, Any] = {f"a{i}": array for i, array in enumerate(arrays)}
    np.savez(stream, **named)


def _pack(value: Any, arrays: list[NDArray[Any]]) -> tuple[Any, list[NDArray[Any]]]:
    if isinstance(value, tuple | list):
        return [type(value).__name__, [_pack(item, arrays)[0] for item in value]], arrays
    if isinstance(value, dict):
        return ["dict", [[key, _pack(item, arrays)[0]] for key, item in value.items()]], arrays
    if sparse.issparse(value):
        csr = sparse.csr_array(value)
        arrays += [csr.data, csr.indices, csr.indptr]
        return ["csr", [len(arrays) - 3, list(csr.shape)]], arrays
    if isinstance(value, np.ndarray | np.generic):
        arrays.append(np.asarray(value))
        return ["array", len(arrays) - 1], arrays
    if is_dataclass(value):
        items = [(field.name, _pack(getattr(value, field.name), arrays)[0]) for field in fields(value)]
        return ["dataclass", (type(value), items)], arrays
    if value is None or isinstance(value, bool | int | float | str):
        return ["plain", value], arrays
    raise TypeError(f"A value of type {type(value).__name__} cannot be put on disk.")


def _unpack(layout: Any, file: Any, offset: int) -> Any:
    kind, content = layout
    if kind in ("tuple", "list"):
        items = [_unpack(item, file, offset) for item in content]
        return tuple(items) if kind == "tuple" else items
    if kind == "dict":
        return {key: _unpack(item, file, offset) for key, item in content}
    if kind == "dataclass":
        return content[0](**{name: _unpack(item, file, offset) for name, item in content[1]})
    if kind == "csr":
        first, shape = content
        return sparse.csr_array(tuple(file[f"a{first + offset + i}"] for i in range(3)), shape=tuple(shape))
    return file[f"a{content + offset}"] if kind == "array" else content


class Journal:
    """The small results of a fit's finished passes, in a folder: a fit that was interrupted reads them back.

    Parameters
    ----------
    folder : str or path
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._n_used = 0
        self._n_stored = 0
        self._open = False

    def open(self, key: dict[str, Any]) -> None:
        """Begin the journal of one fit, or continue that of the same fit.

        Parameters
        ----------
        key : dict of plain values
            What the fit depends on: the journal of another one is refused.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        title = self.folder / "fit.json"
        text = json.dumps(key, sort_keys=True, default=str)
        if not title.exists():
            with replacing(title) as stream:
                stream.write(text.encode())
        elif title.read_bytes() != text.encode():
            raise DataError(
                f"The checkpoint {self.folder} belongs to another fit (other data, parameters or version): "
                "delete it, or give another path."
            )
        self._n_used = 0
        while self._path(self._n_stored).exists():
            self._n_stored += 1
        self._open = True

    @property
    def replaying(self) -> bool:
        """Whether the next result is known already."""
        return self._open and self._n_used < self._n_stored

    def next(self) -> Any:
        """Return the next known result."""
        path = self._path(self._n_used)
        try:
            value = read_packed(path)
        except (OSError, EOFError, ValueError, TypeError, LookupError, zipfile.BadZipFile, zlib.error) as error:
            raise DataError(f"The checkpoint {self.folder} is damaged at {path.name}: delete it.") from error
        self._n_used += 1
        return value

    def append(self, value: Any) -> None:
        """Store the result of a pass."""
        if self._open:
            write_packed(self._path(self._n_stored), value)
            self._n_stored += 1
            self._n_used += 1

    def remove(self) -> None:
        """Delete the journal of a fit that is done."""
        if self._open:
            for place in range(self._n_stored):
                self._path(place).unlink(missing_ok=True)
            (self.folder / "fit.json").unlink(missing_ok=True)
            if not any(self.folder.iterdir()):
                self.folder.rmdir()
            self._open = False

    def _path(self, place: int) -> Path:
        return self.folder / f"pass-{place:04d}.npz"
