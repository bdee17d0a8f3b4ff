"""Features that are not columns of the table: a user's own embeddings, and the pixels of images."""

import contextlib
import io
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlkit._optional import optional_import
from pmlkit._typing import FloatArray
from pmlkit._words import counted, excerpt, listing
from pmlkit.data.files.base import TableFile, allowed_bytes, check_size
from pmlkit.data.files.npz import NpzArrays, check_npy_header
from pmlkit.data.files.parquet import check_parquet
from pmlkit.exceptions import DataError

_SIDE = 48  # pixels of a picture that is kept to be looked at
_FREE_PICTURE_BYTES = 80 * 2**20  # what a picture may take unasked: ten megapixels, or 200 times its file
_GRAY, _COLOUR = 16, 4  # grid of brightness and of colour in the pixel features


class SideFeatures:
    """What a table has beside its columns: the pictures that a column names, or a matrix of the user's own.

    `images`: a column and a folder, also as ``"column=folder"``. `kind`: "images" or "embeddings".
    """

    def __init__(self, images: Any, embeddings: Any, max_bytes: float | None) -> None:
        if images is not None and embeddings is not None:
            raise ValueError("give images or embeddings, not both.")
        if isinstance(images, str):
            images = images.partition("=")[::2]
        if images is not None and not all(map(str, images)):
            raise ValueError("images takes a column and a folder, such as file=photos.")
        self.column: str | None = images and images[0]
        self._folder = images and images[1]
        self.kind = "embeddings" if images is None else "images"
        self._embeddings, self._max_bytes = embeddings, max_bytes
        self._pictures: NDArray[np.uint8] | None = None

    def _names(self, file: TableFile) -> Sequence[object]:
        if self.column is None:
            raise DataError("the table has no images.")
        return file.cells([self.column])[self.column]

    def pictures(self, file: TableFile) -> NDArray[np.uint8]:
        """Return one small picture per row."""
        if self._pictures is None:
            self._pictures = read_images(self._folder, self._names(file), max_bytes=self._max_bytes)
        return self._pictures

    def picture(self, file: TableFile, row: int, side: int) -> tuple[bytes, str]:
        """Return the picture of a row for a browser, see `read_picture`."""
        return read_picture(self._folder, self._names(file)[row], row, side, max_bytes=self._max_bytes)

    def matrix(self, file: TableFile) -> FloatArray:
        """Return the features, one row per row of the table."""
        if self.kind == "images":
            return pixel_features(self.pictures(file))
        return read_embeddings(self._embeddings, file.n_rows, max_bytes=self._max_bytes)


def read_embeddings(
    source: str | os.PathLike[str] | NDArray[Any], n_rows: int, *, max_bytes: float | None = None
) -> FloatArray:
    """Return a matrix with one row per row of the table, in the same order.

    `n_rows`: rows of the table. `max_bytes`: how much memory its content may take, as in `pmlkit.data.read`.
    """
    name = Path(source).name if isinstance(source, str | os.PathLike) else "embeddings"
    try:
        matrix = np.asarray(_load(Path(source), max_bytes) if isinstance(source, str | os.PathLike) else source)
        if matrix.dtype.kind not in "fiub":
            raise TypeError(matrix.dtype)
        matrix = np.asarray(matrix, dtype=np.float32 if matrix.dtype == np.float32 else np.float64)
    except (DataError, MemoryError):
        raise
    except Exception as error:  # numpy and arrow raise many kinds
        raise DataError(
            f"{name} is not a .npy, .npz or Parquet file of numbers, as many in every row: give one that is."
        ) from error
    if matrix.ndim != 2 or len(matrix) != n_rows or not matrix.shape[1]:
        raise DataError(
            f"{name} must hold one row of numbers for each of the {n_rows} rows of the table, in the same order; "
            f"its shape is {matrix.shape}."
        )
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(bad):
        raise DataError(
            f"{name} holds NaN or infinity in {counted(len(bad), 'row')}, the first is row {bad[0]}.", row=int(bad[0])
        )
    return matrix


def read_probabilities(path: str | os.PathLike[str], n_rows: int) -> Any:
    """Return a matrix of probabilities; named columns of a Parquet file, which may be in any order, as a DataFrame."""
    values = read_embeddings(path, n_rows)
    if Path(path).suffix.lower() != ".parquet":
        return values
    import pandas as pd

    names = optional_import("pyarrow.parquet").read_schema(path).names
    return pd.DataFrame(values, columns=names) if len(names) == values.shape[1] else values


def _load(path: Path, max_bytes: float | None) -> Any:
    if not path.is_file():
        raise DataError(f"There is no file {str(path)!r}.")
    size = path.stat().st_size
    limit = allowed_bytes(size, max_bytes)
    if path.suffix.lower() not in (".npy", ".npz"):
        return _from_parquet(path, limit)
    with path.open("rb") as stream:
        if path.suffix.lower() == ".npy":
            check_npy_header(stream, size, path.name)
            stream.seek(0)
            return np.load(stream, allow_pickle=False)
        arrays = NpzArrays(stream, limit)
        if len(arrays.names) != 1:
            raise DataError(f"{path.name} must hold one array, but it holds {listing(arrays.names)}.")
        return arrays.get(arrays.names[0])


def _from_parquet(path: Path, limit: int) -> NDArray[np.floating]:
    file = optional_import("pyarrow.parquet").ParquetFile(path)
    check_parquet(file.metadata, limit)
    table = file.read()
    if table.num_columns == 1 and hasattr(table.column(0).type, "value_type"):
        return np.array(table.column(0).to_pylist(), dtype=np.float64)
    return np.column_stack([column.to_numpy() for column in table.columns])


def read_images(
    folder: str | os.PathLike[str], names: Sequence[object], *, max_bytes: float | None = None
) -> NDArray[np.uint8]:
    """Read one picture per row, made 48 x 48 pixels.

    - `names`: file names in it, texts or numbers. One that leads out of the folder, also by a link, is refused: whoever
      wrote the table must not choose which files of yours are opened.
    - `max_bytes`: how much memory the pixels of a picture may take, as in `pmlkit.data.read`.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"There is no folder of images {str(folder)!r}.")
    images = np.empty((len(names), _SIDE, _SIDE, 3), dtype=np.uint8)
    for row, name in enumerate(names):
        with _named_picture(folder, name, row, max_bytes) as picture:
            picture.load()
            picture = picture if picture.mode == "RGB" else picture.convert("RGB")  # else it would be copied
            images[row] = np.asarray(picture.resize((_SIDE, _SIDE)))
    return images


def read_picture(
    folder: str | os.PathLike[str], name: object, row: int, side: int, *, max_bytes: float | None = None
) -> tuple[bytes, str]:
    """Return a picture, at most `side` pixels wide and high, as a file for a browser, and its media type.

    It is encoded again from its pixels, so that nothing else in the file reaches the browser. See `read_images`.
    """
    stream = io.BytesIO()
    with _named_picture(Path(folder), name, row, max_bytes) as opened:
        picture = optional_import("PIL.ImageOps").exif_transpose(opened)
        is_photo = picture.mode in ("RGB", "L", "YCbCr", "CMYK") and opened.format in ("JPEG", "MPO", "WEBP")
        picture = picture.convert("RGB" if is_photo else "RGBA")
        picture.thumbnail((side, side))
        picture.save(stream, "JPEG" if is_photo else "PNG", **({"quality": 88} if is_photo else {}))
    return stream.getvalue(), "image/jpeg" if is_photo else "image/png"


@contextlib.contextmanager
def _named_picture(folder: Path, name: object, row: int, max_bytes: float | None) -> Iterator[Any]:
    """Open the picture that a row names, which must be a file in the folder."""
    UnidentifiedImageError = optional_import("PIL").UnidentifiedImageError
    if name is None or not str(name).strip():
        raise DataError(f"row {row} names no image.", row=row)
    try:
        path = (folder / str(name)).resolve(strict=True)
        if not path.is_relative_to(folder.resolve()):
            raise DataError(
                f"row {row} names the image {excerpt(str(name))}, which leads out of {str(folder)!r}: give the "
                "folder that holds all images, or copy it there.",
                row=row,
            )
        if not path.is_file():
            raise DataError(f"row {row} names the image {excerpt(str(name))}, which is not a file.", row=row)
        limit = allowed_bytes(path.stat().st_size, max_bytes, free=_FREE_PICTURE_BYTES)
        with _open_picture(path, str(name), limit) as picture:
            yield picture
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(
            f"row {row} names the image {excerpt(str(name))}, which is not in {str(folder)!r}.", row=row
        ) from error
    # A ValueError is a name that no file can have.
    except (UnidentifiedImageError, OSError, ValueError, RuntimeError, SyntaxError) as error:
        raise DataError(f"the image {excerpt(str(name))} of row {row} cannot be read.", row=row) from error


def _open_picture(path: Path, name: str, limit: int) -> Any:
    """Open a picture whose pixels, decoded and converted, fit into the limit."""
    Image = optional_import("PIL.Image")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our own limit is stricter
        try:
            picture = Image.open(path)
        except Image.DecompressionBombError as error:
            raise DataError(f"the image {excerpt(name)} claims more pixels than any picture has.") from error
    try:
        n_bytes = 5 if picture.mode in ("1", "L", "P") else 8  # of a pixel and of its copy in colour
        check_size(n_bytes * picture.width * picture.height, limit, f"the image {excerpt(name)}")
    except DataError:
        picture.close()
        raise
    return picture


def pixel_features(images: NDArray[np.uint8]) -> FloatArray:
    """Return brightness on a grid of 16 x 16 and colour on one of 4 x 4, between 0 and 1."""
    n_rows = len(images)
    step, wide = _SIDE // _GRAY, _SIDE // _COLOUR
    features = np.empty((n_rows, _GRAY**2 + 3 * _COLOUR**2), dtype=np.float32)
    for start in range(0, n_rows, 1000):
        part = images[start : start + 1000].astype(np.float32) / 255.0
        m = len(part)
        gray = part.mean(axis=3).reshape(m, _GRAY, step, _GRAY, step).mean(axis=(2, 4))
        colour = part.reshape(m, _COLOUR, wide, _COLOUR, wide, 3).mean(axis=(2, 4))
        features[start : start + m] = np.hstack([gray.reshape(m, -1), colour.reshape(m, -1)])
    return features
