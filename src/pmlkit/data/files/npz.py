"""Our own exchange format: a numpy ``.npz`` of plain arrays, never pickles.

Arrays of the file (n rows, d features, q labels):

- ``X`` (n x d), or the CSR parts ``X_data``, ``X_indices``, ``X_indptr``, ``X_shape``; neither for labels only;
- ``Y`` (n x q, 0/1) the truth, and ``Y_candidate`` the candidates where they differ; or ``Y_indices``, ``Y_indptr``
  and ``Y_shape`` (likewise for ``Y_candidate``) where a dense array would be large;
- ``truth_known`` = 0 where ``Y`` holds candidates whose truth is unknown;
- ``feature_names``, ``label_names``, ``ids``; ``media`` (images) or ``media_text`` and ``media_ends`` (texts in
  UTF-8, end to end); ``name``, ``provenance``.
"""

import logging
import math
import zipfile
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._arrays import MAX_COLUMNS
from pmlkit._typing import CSR, Features
from pmlkit._words import listing
from pmlkit.data.dataset import PMLDataset
from pmlkit.data.files.base import Source, check_size
from pmlkit.exceptions import DataError

logger = logging.getLogger(__name__)

_LARGE = 2**28  # cells: labels with more are written as CSR parts
_DEFLATE_LIMIT = 1040  # deflate cannot compress more than about 1032 to 1


def read_npz(source: Source) -> PMLDataset:
    """Read an npz file; without ``Y_candidate`` it is noise-free, so that candidates and truth are the same."""
    arrays = NpzArrays(source.stream, source.max_bytes)
    target, candidates = arrays.matrix("Y"), arrays.matrix("Y_candidate")
    if target is None:
        raise DataError(f"there is no array Y; the file has {listing(arrays.names)}.")
    Y = target if candidates is None else candidates
    X = arrays.matrix("X")
    truth_known = arrays.get("truth_known")
    return PMLDataset(
        np.empty((Y.shape[0], 0)) if X is None else X,
        Y,
        truth=target if truth_known is None or truth_known.any() else None,
        feature_names=arrays.texts("feature_names"),
        label_names=arrays.texts("label_names"),
        media=arrays.media(),
        ids=arrays.ids(),
        name=arrays.text("name") or source.stem,
        provenance=arrays.text("provenance"),
    )


class NpzArrays:
    """The arrays of an npz file, each checked against the bytes that are there before memory is taken for it."""

    def __init__(self, stream: BinaryIO, limit: int) -> None:
        self._limit = limit
        try:
            self._archive = zipfile.ZipFile(stream)
            members = self._archive.infolist()
        except Exception as error:  # zipfile fails in as many ways as a file can be damaged
            raise DataError(f"this is not an npz file, or not all of it: {error}.") from error
        self._members = {member.filename.removesuffix(".npy"): member for member in members}
        self.names = sorted(self._members)

    def get(self, name: str) -> NDArray[Any] | None:
        """Return an array, or None if the file has no such one."""
        member = self._members.get(name)
        if member is None:
            return None
        try:
            return self._load(member, name)
        except DataError:
            raise
        except Exception as error:  # as above; also what numpy makes of a header that is none
            raise DataError(f"the array {name} is damaged: {error}.") from error

    def _load(self, member: zipfile.ZipInfo, name: str) -> NDArray[Any]:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(f"the array {name} is compressed in a way that numpy does not use.")
        if member.file_size > member.compress_size * _DEFLATE_LIMIT + 1024:
            raise DataError(
                f"the array {name} claims {member.file_size} bytes, but only {member.compress_size} are there."
            )
        check_size(member.file_size, self._limit, f"the array {name}")
        with self._archive.open(member) as file:
            check_npy_header(cast(BinaryIO, file), member.file_size, f"the array {name}")
        with self._archive.open(member) as file:
            return np.lib.format.read_array(file, allow_pickle=False)

    def matrix(self, name: str) -> Features | None:
        """Return a matrix stored dense or as CSR parts, or None."""
        dense = self.get(name)
        if dense is not None:
            if dense.ndim != 2 or dense.dtype.kind not in "biuf":
                raise DataError(f"{name} must be a matrix of numbers, got shape {dense.shape} of {dense.dtype}.")
            return dense
        indices, indptr, shape = (self.get(f"{name}_{part}") for part in ("indices", "indptr", "shape"))
        if indices is None and indptr is None and shape is None:
            return None
        if indices is None or indptr is None or shape is None:
            raise DataError(f"{name} lacks a part: {name}_indices, {name}_indptr and {name}_shape belong together.")
        data = self.get(f"{name}_data")
        if shape.dtype.kind in "iu" and shape.shape == (2,) and shape[1] <= MAX_COLUMNS:
            check_size(8 * int(shape[1]), self._limit, f"{name} with {int(shape[1]):,} columns")
        return _assemble(name, np.ones(indices.size, dtype=np.uint8) if data is None else data, indices, indptr, shape)

    def texts(self, name: str) -> list[str] | None:
        """Return a list of texts, or None."""
        array = self.get(name)
        if array is None:
            return None
        if array.ndim != 1 or array.dtype.kind != "U":
            raise DataError(f"{name} must be a list of text, got shape {array.shape} of {array.dtype}.")
        return [str(text) for text in array]

    def text(self, name: str) -> str:
        """Return a single text, empty if there is none."""
        array = self.get(name)
        return "" if array is None else str(array)

    def ids(self) -> list[Any] | None:
        """Return the row identifiers, int or str."""
        array = self.get("ids")
        if array is None or array.dtype.kind not in "iu":
            return self.texts("ids")
        if array.ndim != 1:
            raise DataError(f"ids must be a list of numbers or texts, got shape {array.shape} of {array.dtype}.")
        return list(array.tolist())

    def media(self) -> Any:
        """Return images, texts or None."""
        blob, ends = self.get("media_text"), self.get("media_ends")
        if blob is None or ends is None:
            return self.get("media")
        if blob.dtype != np.uint8 or blob.ndim != 1 or ends.dtype.kind not in "iu" or ends.ndim != 1:
            raise DataError("media_text must be a list of bytes and media_ends one of positions.")
        ends = ends.astype(np.int64)
        starts = np.concatenate([[0], ends])[:-1]
        if (starts > ends).any() or len(blob) != (ends[-1] if len(ends) else 0):
            raise DataError("media_ends does not divide media_text.")
        content = blob.tobytes()
        try:
            return [content[i:j].decode() for i, j in zip(starts.tolist(), ends.tolist(), strict=True)]
        except UnicodeDecodeError as error:
            raise DataError(f"media_text is not UTF-8: {error}.") from error


def check_npy_header(file: BinaryIO, n_bytes: int, what: str) -> None:
    """Refuse an array in numpy's own format that holds objects, or claims another size than the `n_bytes` there."""
    version = np.lib.format.read_magic(file)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(
        version
    )
    if read_header is None:
        raise DataError(f"{what} is of the unknown npy version {version}.")
    shape, _, dtype = read_header(file)
    if dtype.hasobject or dtype.names is not None:
        raise DataError(f"{what} holds Python objects, which are never loaded. Save plain numbers or text.")
    claimed, there = math.prod(shape) * dtype.itemsize, n_bytes - file.tell()
    if min(shape, default=0) < 0 or claimed != there:
        raise DataError(f"{what} claims shape {shape} of {dtype}, {claimed} bytes, but {there} are there.")


def _assemble(name: str, data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: NDArray[Any]) -> CSR:
    """Build a CSR array from parts that are not trusted."""
    whole = all(part.dtype.kind in "iu" for part in (indices, indptr, shape))
    flat = all(part.ndim == 1 for part in (data, indices, indptr, shape))
    if not whole or not flat or len(shape) != 2 or data.dtype.kind not in "biuf":
        raise DataError(f"the CSR parts of {name} must be lists of numbers, whole ones but for {name}_data.")
    n_rows, n_columns = (int(size) for size in shape)
    if n_rows < 0 or n_columns < 0 or len(indptr) != n_rows + 1:
        raise DataError(f"{name}_shape is {n_rows} x {n_columns}, but {name}_indptr has {len(indptr)} entries.")
    if not len(data) == len(indices) == indptr[-1] or indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        raise DataError(f"{name}_indptr does not divide the {len(indices)} indices and {len(data)} values into rows.")
    if len(indices) and (int(indices.min()) < 0 or int(indices.max()) >= n_columns):
        raise DataError(f"{name}_indices must lie between 0 and {n_columns - 1}.")
    return sparse.csr_array((data, indices.astype(np.int64), indptr.astype(np.int64)), shape=(n_rows, n_columns))


def write_npz(dataset: PMLDataset, stream: BinaryIO) -> None:
    """Write an npz file, which carries all that a PMLDataset holds."""
    arrays: dict[str, Any] = {}
    X = dataset.X
    if sparse.issparse(X):
        arrays |= {f"X_{part}": getattr(X, part) for part in ("data", "indices", "indptr")}
        arrays["X_shape"] = np.array(X.shape, dtype=np.int64)
    else:
        arrays["X"] = X
    truth = dataset.truth
    arrays |= _label_arrays("Y", dataset.Y if truth is None else truth)
    if truth is None:
        arrays["truth_known"] = np.zeros((), dtype=np.uint8)
    elif truth.nnz < dataset.Y.nnz:
        arrays |= _label_arrays("Y_candidate", dataset.Y)
    if dataset.has_feature_names:
        arrays["feature_names"] = np.array(dataset.feature_names, dtype=np.str_)
    if dataset.has_label_names:
        arrays["label_names"] = np.array(dataset.label_names, dtype=np.str_)
    if dataset.ids is not None:
        arrays["ids"] = np.array(dataset.ids)
    if isinstance(dataset.media, tuple):
        # Not fixed-width: one long text would give its length to all.
        encoded = [text.encode() for text in dataset.media]
        arrays["media_text"] = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        arrays["media_ends"] = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    elif dataset.media is not None:
        arrays["media"] = dataset.media
    arrays |= {
        key: np.array(text) for key, text in (("name", dataset.name), ("provenance", dataset.provenance)) if text
    }
    np.savez_compressed(stream, **arrays)


def _label_arrays(name: str, labels: CSR) -> dict[str, NDArray[Any]]:
    if labels.shape[0] * labels.shape[1] <= _LARGE:
        return {name: labels.toarray()}
    shape = np.array(labels.shape, dtype=np.int64)
    return {f"{name}_indices": labels.indices, f"{name}_indptr": labels.indptr, f"{name}_shape": shape}
