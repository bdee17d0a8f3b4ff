"""Rows and their candidates in blocks: of Dask collections, lists of arrays or files, memory maps, or one array."""

import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from pmlkit._arrays import (
    LabelFormat,
    as_csr,
    column_names,
    frame_names,
    label_format,
    moderate,
    names_per_row,
    read_labels,
)
from pmlkit._optional import optional_import
from pmlkit._typing import CSR, Features
from pmlkit.blocks.engine import Engine, Held, LocalEngine, Rows, State, current_client, is_dask
from pmlkit.exceptions import DataError

logger = logging.getLogger(__name__)

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BLOCK_SHARE = 24  # a block of an array takes this fraction of the memory budget, all that is computed of it included
_COLUMNS = 1000  # numbers per row that are computed beside the features
_BLOCK_BYTES = 64 * 2**20  # of a memory map without a budget
_BLOCKS_PER_WORKER, _LEAST_ROWS = 4, 100  # into which an array is cut for workers


def as_row_blocks(X: Any, Y: Any = None) -> "RowBlocks":
    """Return features and candidates that are given in blocks as `RowBlocks`."""
    if hasattr(type(X), "to_blocks"):
        if Y is not None and isinstance(X, RowBlocks):
            raise ValueError("RowBlocks hold their candidates: leave y out, or give both to RowBlocks.")
        if Y is not None:
            raise ValueError("A table holds its labels: leave y out.")
        rows: RowBlocks = X.to_blocks()
        return rows
    return RowBlocks(X, Y)


class RowBlocks(Rows):
    """Rows in blocks, with their candidate labels, for data that does not fit into memory.

    Parameters
    ----------
    X : Dask array or DataFrame, array or memory map, or list of blocks, of shape (n_samples, n_features)
        A block of a list is an array, a sparse matrix, a DataFrame, the path of an ``.npy`` or ``.npz`` file (of
        `scipy.sparse.save_npz`), or a function without arguments that returns one of these.
    Y : candidates, optional
        Likewise, in the same blocks: indicators of 0/1, or label names per row. Needed to fit.
    label_names : sequence of str, optional
        By default the columns of DataFrames, or all names in sorted order.
    memory_budget : int or str, optional
        About how much memory may be used, such as ``"2GB"``, where the blocks are read by this process: an array is cut
        into blocks accordingly, and what is remembered of the rows is put on disk beyond that. On a Dask
        cluster the workers' own limits hold.
    checkpoint : str or path, optional
        Folder in which a fit stores the results of its passes over the data: the same fit, started again after an
        interruption, goes on after the last finished pass.
    client : distributed.Client, optional
        For Dask collections by default the current one, if there is one; without it they are read block by block. Other
        blocks are sent to the client's workers, or read by them where they are paths or functions.

    Attributes
    ----------
    X, Y : State
        The checked blocks: dense arrays or CSR arrays, and CSR arrays of ones.
    sizes : tuple of int
        Rows of each block; blocks without rows are left out.
    n_features, n_labels : int
    label_names : tuple
    label_format : LabelFormat
        Of the candidates.
    engine : Engine
        Computes on the blocks.
    table : object or None
        The table that the rows are of, if they are: it has names of the rows, and tells how columns became numbers.

    Examples
    --------
    >>> from pmlkit.blocks import RowBlocks
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(300)
    >>> data = RowBlocks([strips.X[:100], strips.X[100:]], [strips.Y[:100], strips.Y[100:]])
    >>> data.sizes, data.n_labels
    ((100, 200), 10)
    """

    def __init__(
        self,
        X: Any,
        Y: Any = None,
        *,
        label_names: Sequence[str] | None = None,
        memory_budget: int | str | None = None,
        checkpoint: str | Path | None = None,
        client: Any = None,
    ) -> None:
        budget = None if memory_budget is None else n_bytes_of(memory_budget)
        engine: Engine
        from_dask = is_dask(X)
        if from_dask and client is None:
            client = current_client()
        if client is not None:
            from pmlkit.blocks.executors import DaskEngine

            engine = DaskEngine(0, client, checkpoint=checkpoint)
            x_parts, y_parts = blocks_of(X, Y, None, n_workers=engine.n_workers)
            if not from_dask:
                x_parts, y_parts = ([sent(part.value, engine) for part in parts] for parts in (x_parts, y_parts))
        else:
            engine = LocalEngine(0, memory_budget=budget, checkpoint=checkpoint)
            x_parts, y_parts = blocks_of(X, Y, budget)
            if from_dask:
                x_parts, y_parts = [Computed(part) for part in x_parts], [Computed(part) for part in y_parts]
        engine.n_blocks = len(x_parts)
        self._set_up(engine, x_parts, y_parts, label_names)

    @classmethod
    def of_states(cls, X: State, Y: State | None, *, label_names: Sequence[str] | None, table: Any) -> "RowBlocks":
        """Return blocks that an engine has already, such as those of files that it read, as rows of a table."""
        self = cls.__new__(cls)
        self._set_up(X.engine, X.parts, [] if Y is None else Y.parts, label_names)
        self.table = table
        return self

    def _set_up(self, engine: Engine, x_parts: list[Any], y_parts: list[Any], label_names: Any) -> None:
        raw_x, raw_y = State(engine, x_parts), State(engine, y_parts)
        facts = engine.reduce(_facts, raw_x, *([raw_y] if y_parts else []))
        self.n_features, self.names_in = _same_width(facts, "X")
        filled = [place for place, fact in enumerate(facts) if fact["rows"]]
        if not filled:
            raise DataError("X has no rows in any block: there is nothing to learn from.")
        if len(filled) < len(facts):
            logger.info("%d blocks without rows are left out.", len(facts) - len(filled))
            raw_x.parts = [x_parts[place] for place in filled]
            raw_y.parts = [y_parts[place] for place in filled] if y_parts else []
            facts = [facts[place] for place in filled]
            engine.n_blocks = len(filled)
        self.engine = engine
        self.sizes = tuple(fact["rows"] for fact in facts)
        self.X = engine.map(checked_features, raw_x, keep=False)
        self.Y: State | None = None
        self.n_labels, self.label_format = 0, LabelFormat("csr_array", "float64")
        self.label_names: tuple[Any, ...] = ()
        if y_parts:
            self._read_labels(raw_y, facts, label_names)

    def _read_labels(self, raw: State, facts: list[dict[str, Any]], label_names: Sequence[str] | None) -> None:
        for place, fact in enumerate(facts):
            if fact["rows"] != fact["label_rows"]:
                raise DataError(
                    f"Block {place} has {fact['rows']} rows in X and {fact['label_rows']} in y: both need the same "
                    "rows in the same blocks."
                )
        per_row = [fact["names_per_row"] for fact in facts]
        self.label_format = LabelFormat(*facts[0]["format"])
        if any(names is not None for names in per_row):
            found = sorted(set().union(*(names or [] for names in per_row)))
            names: Any = list(label_names) if label_names is not None else found
            self.n_labels = len(names)
            self.Y = self.engine.map(checked_candidates, raw, names=names)
        else:
            self.n_labels, names = _same_width([{"width": f["n_labels"], "names": f["labels"]} for f in facts], "y")
            self.Y = self.engine.map(checked_candidates, raw, names=None)
            names = label_names if label_names is not None else names
        if names is not None and len(names) != self.n_labels:
            raise ValueError(f"label_names must name the {self.n_labels} labels, got {len(names)}.")
        self.label_names = tuple(names) if names is not None else tuple(f"label_{k}" for k in range(self.n_labels))

    def lazy(self, function: Callable[..., Any], *states: State, width: int | None, dtype: Any, **shared: Any) -> Any:
        """Return an array that is computed block by block when it is asked for: a Dask array on a cluster, or a State.

        `function`: from the blocks' values to that of the result. `width`: its columns, None for one dimension.
        """
        state = self.engine.map(function, *states, keep=False, **shared)
        return self.as_array(state, width=width, dtype=dtype)

    def as_array(self, state: State, *, width: int | None, dtype: Any, is_sparse: bool = False) -> Any:
        """Return a state as a Dask array in the layout of the blocks, on a cluster; as it is, otherwise."""
        if not hasattr(self.engine, "lazy"):
            return state
        da = optional_import("dask.array")
        tail = () if width is None else (width,)
        meta = sparse.csr_array((0, width), dtype=dtype) if is_sparse else np.empty((0, *tail), dtype=dtype)
        parts = [
            da.from_delayed(part, shape=(size, *tail), dtype=dtype, meta=meta)
            for part, size in zip(self.engine.lazy(state), self.sizes, strict=True)
        ]
        return da.concatenate(parts, axis=0)


def checked_features(block: Any) -> Features:
    """Return a block of features as validation makes it: finite numbers, dense or CSR."""
    X = check_array(opened(block), accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=0)
    return moderate(as_csr(X) if sparse.issparse(X) else X)


def checked_candidates(block: Any, *, names: Sequence[str] | None) -> CSR:
    """Return a block of candidates as a CSR array of ones."""
    block = opened(block)
    if names is not None and not any(len(row) for row in block if hasattr(row, "__len__")):
        return sparse.csr_array((len(block), len(names)), dtype=np.float64)
    return read_labels(block, "y", names=names).indicator.astype(np.float64).copy()


def _facts(x: Any, y: Any = None) -> list[dict[str, Any]]:
    """Return what must fit together between blocks."""
    x = opened(x)
    shape = np.shape(x) if not sparse.issparse(x) else x.shape
    if len(shape) != 2:
        raise DataError(f"A block of X must have two dimensions, got shape {shape}.")
    fact: dict[str, Any] = {"rows": int(shape[0]), "width": int(shape[1]), "names": frame_names(x)}
    if y is None:
        return [fact]
    y = opened(y)
    rows = names_per_row(y, "y")
    if rows is None and not sparse.issparse(y) and np.ndim(y) == 1 and np.asarray(y).dtype.kind != "O" and len(y):
        raise DataError("y must have two dimensions in blocks: an indicator of 0/1, or label names per row.")
    is_list = rows is not None or (not sparse.issparse(y) and np.ndim(y) == 1)
    fact["label_rows"] = len(rows) if rows is not None else int(y.shape[0] if hasattr(y, "shape") else len(y))
    fact["names_per_row"] = None
    if is_list:
        cells = (row for row in rows or [] if row is not None and row == row)
        fact["names_per_row"] = sorted({str(name) for row in cells for name in row})
    fact["n_labels"] = 0 if is_list else int(y.shape[1])
    fact["labels"] = None if is_list else column_names(y)
    form = label_format(y, rows)
    fact["format"] = (form.container, form.cell)
    return [fact]


def _same_width(facts: list[dict[str, Any]], what: str) -> tuple[int, Any]:
    width, names = facts[0]["width"], facts[0]["names"]
    kind = "features" if what == "X" else "labels"
    for place, fact in enumerate(facts):
        if fact["width"] != width:
            raise DataError(
                f"Block {place} of {what} has {fact['width']} columns and the first block {width}: all blocks need the "
                f"same {kind} in the same order."
            )
        if fact["names"] != names:
            raise DataError(
                f"Block {place} of {what} has other column names than the first block: all blocks need the same {kind} "
                "in the same order."
            )
    return width, names


def n_bytes_of(budget: int | str, name: str = "memory_budget") -> int:
    """Return an amount of memory in bytes; `name`: the option that an error names.

    Examples
    --------
    >>> from pmlkit.blocks.row_blocks import n_bytes_of
    >>> n_bytes_of("2GB"), n_bytes_of("1.5MiB"), n_bytes_of(1000)
    (2000000000, 1572864, 1000)
    """
    if not isinstance(budget, str):
        return int(budget)
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([kMGT]?)(i?)B?\s*", budget, re.IGNORECASE)
    if found is None or not float(found[1]):
        raise ValueError(f"{name} must be an amount of memory such as 2GB or 500MB, got {budget!r}.")
    unit = found[2].lower() if found[2] in "kK" else found[2].upper()
    base = _UNITS[unit]
    return int(float(found[1]) * (base if not found[3] else 2 ** (10 * list(_UNITS).index(unit))))


class Computed:
    """A block of a Dask collection without a cluster: computed whenever it is needed."""

    def __init__(self, part: Any) -> None:
        self.part = part

    def load(self) -> Any:
        """Return the block."""
        return self.part.compute(scheduler="synchronous")


def sent(block: Any, engine: Any) -> Any:
    """Return a block as workers get it: what says where it is as it is, an array once, to one worker."""
    is_place = isinstance(block, str | Path) or (callable(block) and not hasattr(block, "shape"))
    return Held(block) if is_place else engine.share(block)


def blocks_of(X: Any, Y: Any, budget: int | None, n_workers: int = 0) -> tuple[list[Any], list[Any]]:
    """Return the blocks of X and Y as an engine loads them."""
    if is_dask(X):
        if Y is not None and not is_dask(Y):
            raise DataError(
                "X is a Dask collection and y is not: give both in blocks, for example dask.array.from_array."
            )
        return _of_dask(X, Y)
    if isinstance(X, list | tuple):
        if Y is not None and (not isinstance(Y, list | tuple) or len(X) != len(Y)):
            raise DataError("X is a list of blocks: y must be a list of as many blocks.")
        if not X:
            raise DataError("X is an empty list of blocks: there is nothing to learn from.")
        return [Held(block) for block in X], [Held(block) for block in Y or []]
    X, Y = (opened(table) if isinstance(table, str | Path) else table for table in (X, Y))
    n_rows, n_columns = X.shape
    if Y is not None and (sparse.issparse(Y) or hasattr(Y, "shape")) and Y.shape[0] != n_rows:
        raise DataError(f"X has {n_rows} rows and y {Y.shape[0]}: both need the same rows.")
    share = _BLOCK_BYTES if budget is None else max(budget // _BLOCK_SHARE, 1)
    step = max(1, share // (8 * (n_columns if not sparse.issparse(X) else X.nnz // max(n_rows, 1)) + 8 * _COLUMNS))
    if n_workers:
        step = min(step, max(_LEAST_ROWS, -(-n_rows // (_BLOCKS_PER_WORKER * n_workers))))
    elif budget is None and not isinstance(X, np.memmap):
        step = max(n_rows, 1)
    cuts = [slice(first, first + step) for first in range(0, max(n_rows, 1), step)]
    X, Y = (table.tocsr() if sparse.issparse(table) else table for table in (X, Y))
    return [Held(_rows(X, cut)) for cut in cuts], [] if Y is None else [Held(_rows(Y, cut)) for cut in cuts]


def _rows(table: Any, cut: slice) -> Any:
    return table.iloc[cut] if hasattr(table, "iloc") else table[cut]


def _of_dask(X: Any, Y: Any) -> tuple[list[Any], list[Any]]:
    for what, table in (("X", X), ("y", Y)):
        if hasattr(table, "chunks") and any(np.isnan(size) for size in table.chunks[0]):
            raise DataError(
                f"{what} has blocks of unknown sizes: call {what}.compute_chunk_sizes() first, so that rows and "
                "labels can be matched."
            )
        if hasattr(table, "chunks") and table.ndim != 2:
            raise DataError(f"{what} must have two dimensions, got a Dask array of shape {table.shape}.")
    if Y is not None and hasattr(X, "chunks") and hasattr(Y, "chunks"):
        if X.shape[0] != Y.shape[0]:
            raise DataError(f"X has {X.shape[0]} rows and y {Y.shape[0]}: both need the same rows.")
        if X.chunks[0] != Y.chunks[0]:
            Y = Y.rechunk({0: X.chunks[0]})
    parts: list[list[Any]] = []
    for table in (X, Y):
        if table is None:
            parts.append([])
            continue
        if hasattr(table, "chunks") and len(table.chunks[1]) > 1:
            table = table.rechunk({1: -1})
        parts.append(list(np.ravel(np.asarray(table.to_delayed(), dtype=object))))
    if Y is not None and len(parts[0]) != len(parts[1]):
        raise DataError(
            f"X has {len(parts[0])} partitions and y {len(parts[1])}: both need the same rows in the same blocks."
        )
    return parts[0], parts[1]


def opened(block: Any) -> Any:
    """Return the array of a block that may be a path or a function."""
    if callable(block) and not hasattr(block, "shape"):
        block = block()
    if not isinstance(block, str | Path):
        return block
    path = Path(block)
    try:
        if path.suffix == ".npz":
            return sparse.load_npz(path)
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"The block cannot be read as .npy or as a sparse .npz: {error}.", path=path.name) from error
