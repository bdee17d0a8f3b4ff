"""MATLAB files (up to v7) as the papers publish them: features, candidates and truth as matrices. Read only."""

import logging
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._typing import Features
from pmlkit._words import listing
from pmlkit.data.dataset import PMLDataset
from pmlkit.data.files.base import FREE_BYTES, Source, check_size
from pmlkit.data.files.datasets import pack
from pmlkit.exceptions import DataError

logger = logging.getLogger(__name__)

_HEADER_BYTES = 128
_PEEK_BYTES = 4096  # more than enough for the flags, the dimensions and a name of 63 letters
_MATRIX, _COMPRESSED = 14, 15
_INT8, _INT32, _UINT32 = 1, 5, 6
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CLASSES = {1: "cell", 2: "struct", 3: "object", 4: "char", 5: "sparse", 16: "function", 17: "object"}
_OPAQUE = 17
_COMPLEX = 0x0800


@dataclass(frozen=True)
class Variable:
    """A variable of the file, not yet loaded."""

    name: str
    kind: str
    shape: tuple[int, ...]
    is_complex: bool
    order: str
    content: memoryview
    is_compressed: bool
    max_bytes: int

    def load(self) -> Features:
        """Return the matrix: an ndarray, or a csr_array if it is stored sparse."""
        if self.kind not in ("numeric", "sparse") or self.is_complex or len(self.shape) != 2:
            what = "complex numbers" if self.is_complex else f"{self.kind} of shape {self.shape}"
            raise DataError(f"{self.name!r} must be a matrix of real numbers, got {what}.")
        content = self.content
        if self.is_compressed:
            # The stated shape may be wrong: what comes out of the unpacker is bounded by it.
            n_bytes = math.prod(self.shape) if self.kind == "numeric" else self.shape[1]
            check_size(n_bytes, self.max_bytes, f"the matrix {self.name!r}")
            most = 8 * n_bytes if self.kind == "numeric" else self.max_bytes
            content = _inflate(content, self.order, min(most, self.max_bytes) + _PEEK_BYTES)
        elements = _Elements(content, self.order)
        for _ in range(3):
            elements.next()
        return self._load_sparse(elements) if self.kind == "sparse" else self._load_full(elements)

    def _load_full(self, elements: "_Elements") -> NDArray[Any]:
        values = elements.array()
        if len(values) != math.prod(self.shape):
            raise DataError(
                f"{self.name!r} claims {self.shape[0]} x {self.shape[1]} values, but {len(values)} are there."
            )
        return values.reshape(self.shape, order="F")

    def _load_sparse(self, elements: "_Elements") -> Any:
        rows, starts, values = elements.array(), elements.array(), elements.array()
        n_rows, n_columns = self.shape
        whole = rows.dtype.kind in "iu" and starts.dtype.kind in "iu"
        if not whole or len(starts) != n_columns + 1 or starts[0] != 0 or (starts[1:] < starts[:-1]).any():
            raise DataError(f"the columns of the sparse matrix {self.name!r} are damaged.")
        stored = int(starts[-1])
        if stored > min(len(rows), len(values)):
            raise DataError(f"{self.name!r} claims {stored} values, but {min(len(rows), len(values))} are there.")
        rows, values = rows[:stored], values[:stored]
        if stored and (int(rows.min()) < 0 or int(rows.max()) >= n_rows):
            raise DataError(f"the rows of the sparse matrix {self.name!r} are damaged.")
        if n_rows > max(10**7, 100 * stored):
            raise DataError(f"{self.name!r} claims {n_rows} rows for {stored} values, which cannot be right.")
        parts = (values, rows.astype(np.int64), starts.astype(np.int64))
        return sparse.csr_array(sparse.csc_array(parts, shape=self.shape))


class _Elements:
    """The data elements of a stretch of bytes, one after the other."""

    def __init__(self, content: memoryview, order: str) -> None:
        self._content = content
        self._order = order
        self._position = 0

    def __bool__(self) -> bool:
        return self._position + 8 <= len(self._content)

    def next(self, *, is_peek: bool = False) -> tuple[int, memoryview]:
        """Return the type and the bytes of the next element; with `is_peek`, what there is of them."""
        start = self._position
        if not self:
            raise DataError("the MATLAB file is not complete.")
        word, size = np.frombuffer(self._content[start : start + 8], f"{self._order}u4").tolist()
        if word >> 16:  # a small element: type, size and up to four bytes in eight
            kind, size, first = word & 0xFFFF, word >> 16, start + 4
            self._position = start + 8
        else:
            kind, first = word, start + 8
            self._position = first + size + (0 if kind == _COMPRESSED else -size % 8)
        if (first + size > len(self._content) and not is_peek) or (word >> 16 and size > 4):
            raise DataError("the MATLAB file is damaged or not complete: an element is longer than what is left.")
        return kind, self._content[first : first + size]

    def array(self, kind: int | None = None) -> NDArray[Any]:
        """Return the next element as a flat array, if need be of the one type given."""
        found, content = self.next()
        if found not in _TYPES or (kind is not None and found != kind):
            raise DataError(f"the MATLAB file is damaged: an element of type {found} where numbers should be.")
        dtype = np.dtype(self._order + _TYPES[found])
        if len(content) % dtype.itemsize:
            raise DataError("the MATLAB file is damaged: an element ends within a number.")
        return np.frombuffer(content, dtype)


def list_variables(content: bytes, max_bytes: int = FREE_BYTES) -> list[Variable]:
    """Return the variables of a MATLAB file of version 5 to 7, not yet loaded; each may unpack to `max_bytes`."""
    if content[:4] == b"\x89HDF" or content[512:516] == b"\x89HDF" or content.startswith(b"MATLAB 7.3"):
        raise DataError(
            "this is a MATLAB v7.3 (HDF5) file, which is not read. In MATLAB, save(file, '-v7') writes one that is."
        )
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    if order is None:
        raise DataError("this is not a MATLAB file of version 5 to 7, or not all of it.")
    elements = _Elements(memoryview(content)[_HEADER_BYTES:], order)
    variables = []
    while elements:
        kind, body = elements.next()
        if kind not in (_MATRIX, _COMPRESSED):
            raise DataError(f"the MATLAB file is damaged: an element of type {kind} where a matrix should be.")
        variables.append(_describe(body, order, kind == _COMPRESSED, max_bytes))
    return variables


def _inflate(body: memoryview, order: str, limit: int, *, is_peek: bool = False) -> memoryview:
    """Decompress a matrix and return what is inside its tag; `limit` bytes at most, of which a peek is content."""
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(body, limit)
    except zlib.error as error:
        raise DataError(f"the MATLAB file is damaged: {error}.") from error
    if not is_peek:
        if unpacker.unconsumed_tail:
            raise DataError(
                f"a compressed matrix takes more memory than its shape says, or than the {limit:,} bytes allowed.",
                option="max_bytes",
                value=str(10 * limit),
                remedy=" or the like if you trust the file",
            )
        if not unpacker.eof:
            raise DataError("the MATLAB file is damaged or not complete: a compressed matrix ends too early.")
    kind, inside = _Elements(memoryview(content), order).next(is_peek=is_peek)
    if kind != _MATRIX:
        raise DataError(f"the MATLAB file is damaged: an element of type {kind} where a matrix should be.")
    return inside


def _describe(body: memoryview, order: str, is_compressed: bool, max_bytes: int) -> Variable:
    elements = _Elements(_inflate(body, order, _PEEK_BYTES, is_peek=True) if is_compressed else body, order)
    flags = elements.array(_UINT32)
    if not len(flags):
        raise DataError("the MATLAB file is damaged: a matrix without flags.")
    number = int(flags[0]) & 0xFF
    kind = _CLASSES.get(number, "numeric" if 6 <= number <= 15 else "unknown")
    # Objects of classes defined in MATLAB have no dimensions.
    shape = () if number == _OPAQUE else tuple(elements.array(_INT32).tolist())
    if any(size < 0 for size in shape):
        raise DataError(f"the MATLAB file is damaged: a matrix of shape {shape}.")
    name = elements.array(_INT8).tobytes().decode("latin-1")
    return Variable(name, kind, shape, bool(int(flags[0]) & _COMPLEX), order, body, is_compressed, max_bytes)


# In order of preference; compared without regard to case.
_FEATURES = ("data", "train_data", "X", "features", "feature", "fea", "instances", "bags")
_CANDIDATES = (
    *("partial_labels", "partial_target", "partial_targets", "partial_label", "candidate_labels", "candidate_label"),
    *("candidates", "Y_candidate", "train_partial_target", "train_p_target", "noisy_labels", "noisy_target"),
)
_TRUTH = ("target", "targets", "train_target", "ground_truth", "labels", "label", "truth", "Y", "gnd")

Orientation = Literal["rows", "columns"]


def read_mat(
    source: Source,
    *,
    data: str | None = None,
    candidates: str | None = None,
    truth: str | None = None,
    orientation: Orientation | None = None,
) -> PMLDataset:
    """Read a MATLAB file.

    Parameters
    ----------
    source : Source
        The open file.
    data, candidates, truth : str, optional
        Names of the matrices, where they are not the usual ones (``data``; ``partial_labels`` or
        ``partial_target`` and the like; ``target`` and the like).
    orientation : {"rows", "columns"}, optional
        Whether a label matrix has one row or one column per instance. By default the shapes
        decide; needed where there are as many labels as instances.

    Returns
    -------
    dataset : PMLDataset
        With candidates and truth, if the file has both. If it has only one label matrix, that is
        both. Features are CSR where fewer than 3 cells in 10 are filled.
    """
    if orientation not in (None, "rows", "columns"):
        raise ValueError(f"orientation must be 'rows' or 'columns', got {orientation!r}.")
    variables = {variable.name: variable for variable in list_variables(source.stream.read(), source.max_bytes)}
    features = _find(variables, data, _FEATURES)
    given = _find(variables, candidates, _CANDIDATES)
    target = _find(variables, truth, _TRUTH)
    labels = given or target
    if features is None or labels is None:
        raise DataError(
            f"no matrix of {'features' if features is None else 'labels'} is recognised by its name among "
            f"{listing(sorted(variables))}.",
            option="data" if features is None else "truth",
            remedy=" the name that it has",
        )
    Y = _indicator(labels)
    Y_true = None if target is None else Y if labels is target else _indicator(target)
    if Y_true is not None and Y.shape != Y_true.shape:
        raise DataError(f"the label matrices must have the same shape, got {Y.shape} and {Y_true.shape}.")
    X, is_column = _orient(features.load(), Y.shape, orientation, source)
    if is_column:
        Y, Y_true = Y.T, Y_true if Y_true is None else Y_true.T
    return PMLDataset(pack(X), Y, truth=Y_true)


def _find(variables: Mapping[str, Variable], asked: str | None, usual: Sequence[str]) -> Variable | None:
    if asked is not None:
        if asked not in variables:
            raise DataError(f"there is no matrix {asked!r}; the file has {listing(sorted(variables))}.")
        return variables[asked]
    by_lower = {name.lower(): variable for name, variable in variables.items()}
    return next((by_lower[name.lower()] for name in usual if name.lower() in by_lower), None)


def _indicator(variable: Variable) -> Any:
    """Return a label matrix of 0/1; MATLAB code often writes -1 for absent."""
    labels = variable.load()
    if sparse.issparse(labels) and labels.nnz == math.prod(labels.shape):
        labels = labels.toarray()
    if not sparse.issparse(labels) and ((labels == 1) | (labels == -1)).all():
        return labels > 0
    return labels


def _orient(
    X: Features, labels: tuple[int, int], orientation: Orientation | None, source: Source
) -> tuple[Features, bool]:
    """Return X with one row per instance, and whether the labels have one column per instance."""
    if orientation is None and labels[0] == labels[1] and labels[0] in X.shape:
        raise DataError(
            f"the label matrix is square ({labels[0]} x {labels[1]}), so its shape does not tell rows from columns.",
            option="orientation",
            value="'rows'",
            remedy=" if it has one row per instance, 'columns' if one column",
        )
    sides = {"rows": labels[0], "columns": labels[1]}
    for table, layout in ((X, "one row"), (X.T, "one column")):
        for side, n_rows in sides.items():
            if table.shape[0] == n_rows and orientation in (None, side):
                message = "%s: features read with %s per instance, labels by %s"
                logger.info(message, source.path.name, layout, side)
                return table, side == "columns"
    asked = f" by {orientation}" if orientation else ""
    raise DataError(
        f"the features ({X.shape[0]} x {X.shape[1]}) and labels{asked} ({labels[0]} x {labels[1]}) do not fit."
    )
