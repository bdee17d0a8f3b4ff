"""Arrays and labels: checks of those that users pass in, CSR and read-only ones, row hashes, random generators.

Labels come as an indicator in any container, or as a list of label names per row. `read_labels` turns them into a CSR
indicator and remembers their format; `in_format` turns predicted label sets back into that format.
"""

import contextlib
import mmap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._typing import CSR, BoolArray, Features, IntArray, RandomState
from pmlkit.exceptions import DataError

Media: TypeAlias = NDArray[np.uint8] | tuple[str, ...]
"""Images of shape (n_samples, h, w) or (n_samples, h, w, 3), or one text (or address) per row."""

MAX_COLUMNS = 2**31 - 1
"""Column indices have 32 bits, as every scipy routine takes them; a file that claims more columns is refused."""

_LARGEST, _SMALLEST = 1e30, 1e-100
_HASHED_CELLS = 2**20  # at a time

_PLAIN_TYPES = {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"}
_ROW_TYPES = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_SEPARATORS = (";", "|", ",", " ")


def as_csr(matrix: Any) -> CSR:
    """Return any sparse matrix as a canonical CSR array with 32-bit indices where they fit.

    Sorted indices, no cell twice; half the memory, and liblinear accepts no others. The input is
    never changed, and nothing is copied that need not be.
    """
    csr = sparse.csr_array(matrix)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    if csr.indices.dtype == np.int32 or max(csr.nnz, *csr.shape) > np.iinfo(np.int32).max:
        return csr
    parts = csr.data, csr.indices.astype(np.int32), csr.indptr.astype(np.int32)
    return sparse.csr_array(parts, shape=csr.shape)


def freeze(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array read-only; it is copied only if its memory is still writeable through another array."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and not owner.flags.writeable:
        owner = owner.base
    if not (owner is None or isinstance(owner, bytes | mmap.mmap)):
        array = np.array(array, order="C")
        array.flags.writeable = False
    return array


def freeze_csr(matrix: CSR) -> CSR:
    """Return a csr_array whose three parts are read-only."""
    matrix = as_csr(matrix)
    parts = (freeze(matrix.data), freeze(matrix.indices), freeze(matrix.indptr))
    frozen = sparse.csr_array(parts, shape=matrix.shape)
    # The constructor may have made new views of the parts, and does not know that they are sorted.
    frozen.data, frozen.indices, frozen.indptr = map(freeze, (frozen.data, frozen.indices, frozen.indptr))
    frozen.has_canonical_format = True
    return frozen


def row_of_cells(matrix: CSR) -> IntArray:
    """Return the row of each stored cell of a CSR array, aligned with ``matrix.data``."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def position_of(table: Features, cell: int) -> tuple[int, int]:
    """Return the row and column of a value by its number among ``table.data``, or among all values if it is dense."""
    if sparse.issparse(table):
        return int(np.searchsorted(table.indptr, cell, side="right")) - 1, int(table.indices[cell])
    row, column = np.unravel_index(cell, table.shape)
    return int(row), int(column)


def without_cells(matrix: CSR, removed: BoolArray) -> CSR:
    """Return an indicator without some of its stored cells, as a CSR array of uint8."""
    parts = (~removed).astype(np.uint8), matrix.indices.copy(), matrix.indptr.copy()
    kept = sparse.csr_array(parts, shape=matrix.shape)
    kept.eliminate_zeros()
    return kept


def row_hash(X: Features, *, seed: int = 0, precision: type[np.floating[Any]] = np.float64) -> NDArray[np.uint64]:
    """Hash rows by a sum over their non-zero cells, which neither order nor storage can change.

    `precision`: values are compared at this precision.
    """
    hashes = np.zeros(X.shape[0], dtype=np.uint64)
    n_rows, n_columns = X.shape
    step = max(1, _HASHED_CELLS * n_rows // max(1, X.nnz if sparse.issparse(X) else n_rows * n_columns))
    for first in range(0, n_rows, step):
        block = X[first : first + step]
        if sparse.issparse(block):
            block = sparse.csr_array(block)
            cells = _cell_hash(block.data.astype(precision), block.indices.astype(np.uint64) + np.uint64(seed + 1))
            # A running total minus itself is exact in modular arithmetic, and copes with empty rows.
            total = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(cells, dtype=np.uint64)])
            hashes[first : first + step] = np.diff(total[block.indptr])
        else:
            columns = np.arange(n_columns, dtype=np.uint64) + np.uint64(seed + 1)
            cells = _cell_hash(np.ascontiguousarray(block, dtype=precision), columns)
            hashes[first : first + step] = cells.sum(axis=1, dtype=np.uint64)
    return hashes


def _cell_hash(values: NDArray[Any], columns: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash cells by value and column; zero for a zero cell."""
    # Adding zero turns -0.0 into 0.0.
    bits = (values + values.dtype.type(0)).view(f"u{values.itemsize}").astype(np.uint64)
    return np.where(values == 0, np.uint64(0), _mix(_mix(bits) + columns * np.uint64(0x9E3779B97F4A7C15)))


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every bit over all the others (the finaliser of a multiplicative hash)."""
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return bits ^ (bits >> np.uint64(31))


@contextlib.contextmanager
def numbers_wanted(name: str) -> Iterator[None]:
    """Say what to do where scikit-learn's validation meets text; `name`: what takes only numbers."""
    try:
        yield
    except ValueError as error:
        text = str(error).partition("could not convert string to float: ")[2]
        if not text:
            raise
        shown = text.removeprefix("np.str_(").removesuffix(")")
        shown = shown if len(shown) <= 60 else f"{shown[:60]}...{shown[0]}"
        before = f"make_pipeline(TfidfVectorizer(), {name}())" if name != "clean" else "TfidfVectorizer().fit_transform"
        raise ValueError(
            f"X must hold numbers, but it holds the text {shown}. Turn texts into numbers first, as {before} does, or "
            "read a file of texts with pmlkit.open_table."
        ) from error


def moderate(X: Features) -> Features:
    """Return features whose products stay finite: values above 1e30 are refused, those below 1e-100 become zero."""
    is_sparse = sparse.issparse(X)
    values: NDArray[Any] = X.data if is_sparse else X
    if not values.size:
        return X
    if max(-values.min(), values.max()) > _LARGEST:
        cell = int(np.argmax(np.abs(values)))
        row, column = position_of(X, cell)
        raise DataError(
            f"X holds {values.flat[cell]:g} in row {row}, column {column}: numbers beyond {_LARGEST:g} overflow when "
            "they are multiplied, so correct or scale them.",
            row=row,
        )
    tiny = (np.abs(values) < _SMALLEST) & (values != 0)
    if not tiny.any():
        return X
    X = X.copy()
    (X.data if is_sparse else X)[tiny] = 0.0
    if is_sparse:
        X.eliminate_zeros()
    return X


def move_columns(Y: CSR, target: Sequence[int], n_columns: int) -> CSR:
    """Return a CSR array of `n_columns` columns in which column k of `Y` is column ``target[k]``."""
    cells = Y.tocoo()
    columns = np.asarray(target, dtype=np.int64)[cells.col]
    return sparse.csr_array((cells.data, (cells.row, columns)), shape=(Y.shape[0], n_columns))


def is_table(X: Any) -> bool:
    """Return whether `X` is a `pmlkit.Table` or a `PMLDataset`: features together with labels and their names."""
    # Asked of the class: a DataFrame has an attribute for each of its columns.
    return all(hasattr(type(X), name) for name in ("X", "Y", "label_names"))


def is_frame(table: Any) -> bool:
    """Return whether a table is a DataFrame (pandas or polars)."""
    return hasattr(table, "columns") and hasattr(table, "to_numpy")


def frame_names(table: Any) -> list[str] | None:
    """Return the column names of a DataFrame, None for anything else."""
    return [str(name) for name in table.columns] if is_frame(table) else None


def number_table(table: Any, what: str, *, allow_sparse: bool = True) -> Any:
    """Return a table of real numbers as a 2-D array or a canonical CSR array without stored zeros.

    The input is never changed, and the dtype is kept. NaN and infinite values are the caller's to judge.
    """
    if sparse.issparse(table):
        if not allow_sparse:
            raise DataError(
                f"{what} must be dense, got a sparse array: every label needs a value. Use {what}.toarray()."
            )
        numbers: Any = _canonical(table, what)
    else:
        numbers = _dense(table, what)
    if numbers.dtype.kind not in "biuf":
        raise DataError(f"{what} must hold real numbers, got dtype {numbers.dtype}.")
    if numbers.ndim != 2:
        hint = " Use reshape(-1, 1) for a single column, reshape(1, -1) for a single row." if numbers.ndim == 1 else ""
        raise DataError(f"{what} must have two dimensions, got shape {numbers.shape}.{hint}")
    return numbers


def _canonical(matrix: Any, what: str) -> CSR:
    if getattr(matrix, "ndim", 2) != 2:
        raise DataError(f"{what} must have two dimensions, got a sparse array of shape {matrix.shape}.")
    try:
        csr = sparse.csr_array(matrix)
        csr.check_format(full_check=True)
    except (ValueError, IndexError, TypeError) as error:
        raise DataError(f"{what} is not a valid sparse matrix: {error}.") from error
    if not csr.has_canonical_format or (csr.nnz and not csr.data.all()):
        csr = csr.copy()
        csr.sum_duplicates()
        csr.eliminate_zeros()
    return csr


def _dense(table: Any, what: str) -> NDArray[Any]:
    try:
        array = np.asarray(table.to_numpy() if is_frame(table) else table)
        if array.dtype == object:
            # pandas' NA, unlike None, does not become NaN by itself.
            is_pandas = type(table).__module__.partition(".")[0] == "pandas"
            array = table.to_numpy(np.float64, na_value=np.nan) if is_pandas else array.astype(np.float64)
    except (ValueError, TypeError) as error:
        names = frame_names(table)
        column = None if names is None else _first_text_column(table, names)
        where = "" if column is None else f" in column {column!r}"
        raise DataError(
            f"{what} must be a table of numbers, got rows of unequal length or entries that are not numbers{where}.",
            column=column,
        ) from error
    return array


def _first_text_column(table: Any, names: Sequence[str]) -> str:
    """Return the name of the first column of a DataFrame that does not turn into numbers."""
    cells = np.asarray(table.to_numpy(), dtype=object)
    for j, name in enumerate(names):
        try:
            cells[:, j].astype(np.float64)
        except (ValueError, TypeError):
            return name
    return names[0]


def as_names(names: Iterable[Any] | None, count: int, what: str) -> tuple[str, ...] | None:
    """Return the names as a tuple of distinct str; None when absent or no more than the numbered default."""
    if names is None:
        return None
    if isinstance(names, str):
        raise DataError(f"{what}_names must be a sequence of {count} names, got the single string {names!r}.")
    result = tuple(str(name) for name in names)
    if len(result) != count:
        raise DataError(f"{what}_names must hold one name for each of the {count} {what}s, got {len(result)}.")
    if (double := first_repeated(result)) is not None:
        raise DataError(f"{what}_names must be distinct, but {double!r} occurs more than once. Rename one of them.")
    if all(name == f"{what}_{j}" for j, name in enumerate(result)):
        return None
    return result


def first_repeated(names: Sequence[str]) -> str | None:
    """Return the first name that stood before, None if all are different."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def as_media(media: Any, n_samples: int) -> Media | None:
    """Return images as a read-only uint8 array, texts as a tuple of str."""
    if media is None:
        return None
    if isinstance(media, np.ndarray) and media.dtype.kind not in "UOT":
        if media.dtype != np.uint8 or media.ndim not in (3, 4) or (media.ndim == 4 and media.shape[3] != 3):
            raise DataError(
                "media must be images of type uint8 and shape (n, h, w) or (n, h, w, 3), or a sequence of n strings; "
                f"got an array of type {media.dtype} and shape {media.shape}."
            )
        if len(media) != n_samples:
            raise DataError(f"media must hold one image for each of the {n_samples} rows, got {len(media)}.")
        return freeze(media)
    is_flat = not isinstance(media, str) and getattr(media, "ndim", 1) == 1
    if not is_flat or not all(isinstance(text, str) for text in media):
        raise DataError("media must be an array of images or a sequence of strings, one for each row.")
    texts = tuple(str(text) for text in media)
    if len(texts) != n_samples:
        raise DataError(f"media must hold one string for each of the {n_samples} rows, got {len(texts)}.")
    return texts


def as_ids(ids: Sequence[Any] | None, n_samples: int) -> tuple[int, ...] | tuple[str, ...] | None:
    """Return row identifiers: whole numbers as int, anything else as str."""
    if ids is None:
        return None
    if isinstance(ids, str):
        raise DataError(f"ids must be a sequence of {n_samples} identifiers, got the single string {ids!r}.")
    items = list(ids)
    if len(items) != n_samples:
        raise DataError(f"ids must hold one identifier for each of the {n_samples} rows, got {len(items)}.")
    if all(isinstance(i, int | np.integer) and not isinstance(i, bool) and -(2**63) <= i < 2**63 for i in items):
        return tuple(int(i) for i in items)
    return tuple(str(i) for i in items)


def generator(random_state: RandomState) -> np.random.Generator:
    """Return a numpy Generator for any of scikit-learn's kinds of `random_state`.

    `random_state`: an int gives the same numbers every time; a Generator is used as it is; a RandomState is asked once
    for a seed; None gives fresh numbers.
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    return np.random.default_rng(random_state)


@dataclass(frozen=True)
class LabelFormat:
    """The format of labels, so that predictions can be returned in the same one.

    - `container`: ``"1d"``, ``"ndarray"``, ``"csr_array"``, ``"csr_matrix"``, ``"pandas"``, ``"polars"`` for
      indicators; ``"list"``, ``"object"`` (array), ``"pandas_series"``, ``"polars_series"`` for names per row.
    - `cell`: the dtype of an indicator's cells, or the type of a row of names (list, tuple, set, frozenset).
    """

    container: str
    cell: str

    @property
    def has_names_per_row(self) -> bool:
        """Whether rows are collections of names."""
        return self.cell in _ROW_TYPES


@dataclass(frozen=True)
class Labels:
    """Validated labels.

    `indicator` (n_samples, n_labels): read-only, with sorted indices. `names`: columns of a DataFrame, or the sorted
    names of lists; None if the labels have no names.
    """

    indicator: CSR
    names: list[str | int] | None
    format: LabelFormat


def read_labels(y: Any, what: str = "Y", *, names: Iterable[Any] | None = None) -> Labels:
    """Validate labels in any of the formats that users have.

    - `y` (n_samples, n_labels): an indicator of 0/1; or a list, tuple, pandas or polars Series or 1-D object array that
      holds a list, tuple or set of label names (str) per row. An empty or missing (None, NaN) row has no label.
    - `names`: the label of each column, for names per row; by default their sorted union.
    """
    rows = names_per_row(y, what)
    if rows is not None:
        indicator, known = _from_names(rows, what, names)
        return Labels(_checked(indicator, what), known, label_format(y, rows))
    try:
        numbers = number_table(y, what)
    except DataError:
        refuse_texts(y, what)
        raise
    _refuse_other_than_01(numbers, what)
    indicator = numbers if sparse.issparse(numbers) else sparse.csr_array(numbers != 0)
    return Labels(_checked(indicator, what), column_names(y), label_format(y))


def as_indicator(y: Any, what: str = "Y", *, names: Iterable[Any] | None = None) -> CSR:
    """Return labels in any format as a read-only CSR indicator of uint8 ones."""
    return read_labels(y, what, names=names).indicator


def column_names(y: Any) -> list[str | int] | None:
    """Return the columns of a DataFrame as label names, None for anything else."""
    return [name if isinstance(name, str | int) else str(name) for name in y.columns] if is_frame(y) else None


def label_format(y: Any, rows: Sequence[Any] | None = None) -> LabelFormat:
    """Return the format of labels; `rows` are those of `names_per_row`."""
    if sparse.issparse(y):
        return LabelFormat("csr_array" if isinstance(y, sparse.sparray) else "csr_matrix", str(y.dtype))
    module = type(y).__module__.partition(".")[0]
    if rows is not None:
        inner = next((type(row).__name__ for row in rows if type(row).__name__ in _ROW_TYPES), "list")
        outer = "object" if isinstance(y, np.ndarray) else f"{module}_series" if hasattr(y, "to_list") else "list"
        return LabelFormat(outer, inner)
    if is_frame(y):
        types = {str(cell).lower() for cell in (y.dtypes.tolist() if module == "pandas" else y.dtypes)}
        cell = types.pop() if len(types) == 1 else ""
        return LabelFormat(module, cell if cell in _PLAIN_TYPES else "int64")
    dense = np.asarray(y)
    cell = str(dense.dtype) if dense.dtype.kind in "biuf" else "int64"
    return LabelFormat("1d" if dense.ndim < 2 else "ndarray", cell)


def in_format(label_sets: BoolArray | CSR, form: LabelFormat, names: Any, *, like: Any = None) -> Any:
    """Return label sets in the format of the labels that were given.

    `like`: where a pandas index is taken from.
    """
    index = getattr(like, "index", None) if form.container.startswith("pandas") else None
    if form.has_names_per_row:
        csr = sparse.csr_array(label_sets)
        kind: Any = _ROW_TYPES[form.cell]
        flat = [names[k] for k in csr.indices.tolist()]
        bounds = csr.indptr.tolist()
        rows = [kind(flat[start:end]) for start, end in pairwise(bounds)]
        return _series(rows, form.container, index)
    if form.container in ("csr_array", "csr_matrix"):
        make = sparse.csr_array if form.container == "csr_array" else sparse.csr_matrix
        return make(label_sets, dtype=form.cell)
    cells = (label_sets if isinstance(label_sets, np.ndarray) else label_sets.toarray()).astype(form.cell)
    if form.container == "pandas":
        import pandas as pd

        return pd.DataFrame(cells, columns=names, index=index)
    if form.container == "polars":
        import polars as pl

        return pl.DataFrame({str(name): cells[:, k] for k, name in enumerate(names)})
    return cells


def ranked_names(names: NDArray[Any], container: str, *, like: Any = None) -> Any:
    """Return an object array of label names per row in the container that suits the format of the labels."""
    columns = [str(rank) for rank in range(1, names.shape[1] + 1)]
    if container.startswith("pandas"):
        import pandas as pd

        return pd.DataFrame(names, columns=columns, index=getattr(like, "index", None))
    if container.startswith("polars"):
        import polars as pl

        return pl.DataFrame({name: names[:, rank].tolist() for rank, name in enumerate(columns)})
    return names.tolist() if container == "list" else names


def _series(rows: list[Any], container: str, index: Any) -> Any:
    if container == "pandas_series":
        import pandas as pd

        return pd.Series(rows, index=index, dtype=object)
    if container == "polars_series":
        import polars as pl

        return pl.Series(rows, dtype=pl.List(pl.String))
    if container == "object":
        array = np.empty(len(rows), dtype=object)
        array[:] = rows
        return array
    return rows


def names_per_row(y: Any, what: str = "Y") -> list[Any] | None:
    """Return the rows of labels that are collections of names; None for an indicator, or a 1-D array of classes."""
    if sparse.issparse(y) or is_frame(y) or (isinstance(y, np.ndarray) and (y.dtype != object or y.ndim != 1)):
        return None
    if isinstance(y, np.ndarray):
        rows: list[Any] = y.tolist()
    elif isinstance(y, list | tuple):
        rows = list(y)
    elif hasattr(y, "to_list"):
        rows = y.to_list()
    else:
        return None
    collections = [row for row in rows if _is_collection(row)]
    if not collections:
        return None
    first = next((item for row in collections for item in row), None)
    if first is None or isinstance(first, str):
        return rows
    if any(isinstance(row, set | frozenset) for row in collections) or len({len(row) for row in collections}) > 1:
        raise DataError(
            f"{what} holds collections of {type(first).__name__}, but label names must be strings: use "
            f"[[str(label) for label in row] for row in {what}], or an indicator of 0/1."
        )
    return None  # Rows of numbers: an indicator as nested lists.


def _is_collection(row: Any) -> bool:
    return isinstance(row, list | tuple | set | frozenset) or (isinstance(row, np.ndarray) and row.ndim == 1)


def _from_names(rows: list[Any], what: str, names: Iterable[Any] | None) -> tuple[CSR, list[str | int]]:
    pairs: list[tuple[int, str]] = []
    for i, row in enumerate(rows):
        if _is_collection(row):
            for name in row:
                if not isinstance(name, str):
                    raise DataError(
                        f"{what} must hold label names as strings, got {name!r} in row {i}. Use str(...) for each.",
                        row=i,
                    )
                pairs.append((i, str(name)))
        elif isinstance(row, str):
            raise DataError(
                f"{what} has the text {row!r} instead of a list of names in row {i}.{_splitting(row, what)}",
                row=i,
            )
        elif not (row is None or row != row):
            raise DataError(
                f"{what} mixes lists of names with {row!r} (row {i}): give every row a list of names.", row=i
            )
    known = sorted({name for _, name in pairs}) if names is None else [str(name) for name in names]
    column = {name: k for k, name in enumerate(known)}
    unknown = next((name for _, name in pairs if name not in column), None)
    if unknown is not None:
        raise DataError(f"{what} has the label {unknown!r}, which is not among the {len(known)} known names.")
    if not known:
        raise DataError(f"{what} has no label in any row.")
    cells = ([i for i, _ in pairs], [column[name] for _, name in pairs])
    indicator = sparse.csr_array((np.ones(len(pairs), dtype=np.int64), cells), shape=(len(rows), len(known)))
    indicator.data[:] = 1  # A name may stand twice in a row.
    return indicator, list(known)


def refuse_texts(y: Any, what: str) -> None:
    """Raise for one text per row, a table of texts, or a DataFrame whose only column holds texts or lists."""
    first: Any
    if is_frame(y):
        first = next((cell for cell in np.ravel(y.to_numpy()) if cell is not None), None)
        if len(y.columns) == 1 and (isinstance(first, str) or _is_collection(first)):
            raise DataError(
                f"{what} is a table whose only column, {y.columns[0]!r}, holds {type(first).__name__} values: "
                f"pass the column itself, {what}[{y.columns[0]!r}].",
                column=str(y.columns[0]),
            )
        return
    first = next(iter(y), None) if hasattr(y, "__iter__") and not sparse.issparse(y) else None
    if isinstance(first, str):
        hint = _splitting(first, what)
        raise DataError(f"{what} holds one text per row ({first!r}) instead of a list of names.{hint}")
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.dtype.kind in "OTU":
        raise DataError(
            f"{what} must be an indicator of 0/1 or a list of label names per row, got a table of texts such as "
            f"{str(y.flat[0])!r}. Use {what}.tolist() if each row holds label names."
        )


def _splitting(text: str, what: str) -> str:
    separator = next((mark for mark in _SEPARATORS if mark in text), ";")
    return f" Split it first: [text.split({separator!r}) for text in {what}]."


def _refuse_other_than_01(numbers: Any, what: str) -> None:
    values = numbers.data if sparse.issparse(numbers) else numbers
    if values.dtype == bool:
        return
    is_wrong = (values != 0) & (values != 1)
    if not is_wrong.any():
        return
    wrong = np.unique(values[is_wrong])
    if np.isnan(wrong).any():
        raise DataError(f"{what} must not have missing values, got nan. Fill or drop those entries first.")
    shown = ", ".join(f"{value:g}" for value in wrong[:3]) + (", ..." if len(wrong) > 3 else "")
    raise DataError(
        f"{what} must be an indicator of 0/1 or a list of label names per row, got the value(s) {shown}. "
        f"Use {what} > 0 if positive values mark the labels."
    )


def _checked(indicator: CSR, what: str) -> CSR:
    n_samples, n_labels = indicator.shape
    if n_samples == 0:
        raise DataError(f"{what} has no rows: at least one is needed.")
    if n_labels == 0:
        raise DataError(f"{what} has no label column: at least one label is needed.")
    if n_labels > MAX_COLUMNS:
        raise DataError(f"{what} claims {n_labels} labels, more than the {MAX_COLUMNS} that can be indexed.")
    return freeze_csr(indicator.astype(np.uint8, copy=False))
