"""Labels as users have them: indicators in any container, or a list of label names per row.

`read_labels` turns them into a CSR indicator and remembers their format; `in_format` turns predicted label sets
back into that format.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._arrays import MAX_COLUMNS, freeze_csr, is_frame, number_table
from pmlkit._typing import CSR, BoolArray
from pmlkit.exceptions import DataError

_PLAIN_TYPES = {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"}
_ROW_TYPES = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_SEPARATORS = (";", "|", ",", " ")


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
        _refuse_texts(y, what)
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
                        f"{what} must hold label names as strings, got {name!r} in row {i}. Use str(...) for each."
                    )
                pairs.append((i, str(name)))
        elif isinstance(row, str):
            raise DataError(
                f"{what} has the text {row!r} instead of a list of names in row {i}.{_splitting(row, what)}"
            )
        elif not (row is None or row != row):
            raise DataError(f"{what} mixes lists of names with {row!r} (row {i}): give every row a list of names.")
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


def _refuse_texts(y: Any, what: str) -> None:
    """Raise for one text per row, a table of texts, or a DataFrame whose only column holds texts or lists."""
    first: Any
    if is_frame(y):
        first = next((cell for cell in np.ravel(y.to_numpy()) if cell is not None), None)
        if len(y.columns) == 1 and (isinstance(first, str) or _is_collection(first)):
            raise DataError(
                f"{what} is a table whose only column, {y.columns[0]!r}, holds {type(first).__name__} values: "
                f"pass the column itself, {what}[{y.columns[0]!r}]."
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
