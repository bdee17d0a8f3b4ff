"""Rows and their candidates in blocks: of Dask collections, lists of arrays or files, memory maps, or one array."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from pmlkit._arrays import as_csr, frame_names, moderate
from pmlkit._labels import LabelFormat, column_names, label_format, names_per_row, read_labels
from pmlkit._optional import optional_import
from pmlkit._typing import CSR, Features
from pmlkit.blocks.block_sources import Computed, blocks_of, is_dask, n_bytes_of, opened, sent
from pmlkit.blocks.engine import Engine, LocalEngine, State, current_client
from pmlkit.exceptions import DataError

__all__ = ["RowBlocks", "as_row_blocks", "holds_blocks", "take_rows"]

logger = logging.getLogger(__name__)


def holds_blocks(X: Any) -> bool:
    """Tell whether features are given in blocks: `RowBlocks`, a Dask array or DataFrame, or a table of many files.

    A memory map is an array like any other: joblib hands them to its workers.
    """
    return isinstance(X, RowBlocks) or hasattr(type(X), "to_blocks") or is_dask(X)


def as_row_blocks(X: Any, Y: Any = None) -> "RowBlocks":
    """Return features and candidates that are given in blocks as `RowBlocks`."""
    if isinstance(X, RowBlocks):
        if Y is not None:
            raise ValueError("RowBlocks hold their candidates: leave y out, or give both to RowBlocks.")
        return X
    if hasattr(type(X), "to_blocks"):
        if Y is not None:
            raise ValueError("A table holds its labels: leave y out.")
        rows: RowBlocks = X.to_blocks()
        return rows
    return RowBlocks(X, Y)


class RowBlocks:
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
    >>> from pmlkit import ClearPML
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
            from pmlkit.blocks.dask_engine import DaskEngine

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
        self.table: Any = None
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

    @classmethod
    def of_arrays(cls, X: Features, Y: CSR) -> "RowBlocks":
        """Return checked arrays in memory as a single block."""
        self = cls.__new__(cls)
        self.engine = LocalEngine(1)
        self.X, self.Y = self.engine.of([X]), self.engine.of([Y])
        self.sizes, self.n_features, self.n_labels = (X.shape[0],), X.shape[1], Y.shape[1]
        self.names_in, self.label_names = None, tuple(f"label_{k}" for k in range(Y.shape[1]))
        self.label_format = LabelFormat("csr_array", "float64")
        self.table = None
        return self

    @property
    def n_rows(self) -> int:
        """How many rows all blocks have."""
        return sum(self.sizes)

    @property
    def n_candidates(self) -> int:
        """How many candidates all rows have."""
        return 0 if self.Y is None else int(self.engine.reduce(_n_cells, self.Y))

    @property
    def first_rows(self) -> State:
        """The number of each block's first row."""
        return self.engine.of(np.cumsum([0, *self.sizes[:-1]]).tolist())

    def take_rows(self, state: State, rows: Any) -> Any:
        """Return some rows of arrays in blocks, by their numbers among all rows in ascending order."""
        return take_rows(self.engine, state, self.sizes, rows)

    def lazy(self, function: Callable[..., Any], *states: State, width: int | None, dtype: Any, **shared: Any) -> Any:
        """Return an array that is computed block by block when it is asked for.

        Parameters
        ----------
        function : callable
            From the blocks' values to that of the result.
        *states : State
        width : int or None
            Columns of the result; None for one dimension.
        dtype : dtype
        **shared : object

        Returns
        -------
        result : Dask array on a cluster, State otherwise
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


def take_rows(engine: Engine, state: State, sizes: Sequence[int], rows: Any) -> Any:
    """Return some rows of arrays in blocks of these sizes, by their numbers among all rows in ascending order."""
    rows = np.asarray(rows)
    bounds = np.cumsum([0, *sizes])
    only = np.flatnonzero(np.diff(np.searchsorted(rows, bounds))).tolist()
    parts = engine.reduce(_some_rows, state, engine.of(bounds[:-1].tolist()), only=only, rows=rows)
    if len(parts) == 1:
        return parts[0]
    return sparse.csr_array(sparse.vstack(parts)) if sparse.issparse(parts[0]) else np.concatenate(parts)


def _n_cells(block: CSR) -> int:
    return int(block.nnz)


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


def _some_rows(block: Any, first: int, *, rows: Any) -> list[Any]:
    inside = rows[(rows >= first) & (rows < first + block.shape[0])] - first
    return [block[inside]]


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
