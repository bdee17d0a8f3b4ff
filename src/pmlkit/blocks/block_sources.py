"""Where blocks of rows come from: Dask collections, lists of arrays or files, memory maps, or one array that is cut."""

import re
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from pmlkit.blocks.engine import Held
from pmlkit.exceptions import DataError

__all__ = ["Computed", "blocks_of", "is_dask", "n_bytes_of", "opened", "sent"]

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BLOCK_SHARE = 24  # a block of an array takes this fraction of the memory budget, all that is computed of it included
_COLUMNS = 1000  # numbers per row that are computed beside the features
_BLOCK_BYTES = 64 * 2**20  # of a memory map without a budget
_BLOCKS_PER_WORKER, _LEAST_ROWS = 4, 100  # into which an array is cut for workers


def n_bytes_of(budget: int | str, name: str = "memory_budget") -> int:
    """Return an amount of memory in bytes; `name`: the option that an error names.

    Examples
    --------
    >>> from pmlkit.blocks.block_sources import n_bytes_of
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


def is_dask(X: Any) -> bool:
    """Tell whether this is a Dask collection."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


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
