"""Functions mapped over row blocks: values that stay with their block, and reductions to something small.

An algorithm is written once, as pure functions of a block, and runs on one block in memory, on blocks that are read
from disk one after the other, or on the workers of a Dask cluster (`pmlkit.blocks.executors`).
"""

import sys
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import sparse

from pmlkit._arrays import LabelFormat
from pmlkit._typing import CSR, Features
from pmlkit.blocks.packed import Journal, OnDisk, n_bytes


def add(first: Any, second: Any) -> Any:
    """Add numbers and arrays, tuples and dicts of them item by item, and join lists.

    Examples
    --------
    >>> from pmlkit.blocks import add
    >>> add((1, {"a": 2.0}, [3]), (10, {"a": 20.0}, [30]))
    (11, {'a': 22.0}, [3, 30])
    """
    if isinstance(first, tuple):
        return tuple(add(a, b) for a, b in zip(first, second, strict=True))
    if isinstance(first, dict):
        return {key: add(value, second[key]) for key, value in first.items()}
    return first if second is None else second if first is None else first + second


def current_client() -> Any:
    """Return the Dask client that this process uses, or None."""
    if "distributed" not in sys.modules:
        return None
    try:
        return sys.modules["distributed"].get_client()
    except ValueError:
        return None


class State:
    """One value per block, kept where the block is.

    Iterating over it loads the values one after the other; `compute` puts them together.

    Parameters
    ----------
    engine : Engine
    parts : list
        What the engine needs to get at each value.

    Examples
    --------
    >>> from pmlkit.blocks import LocalEngine
    >>> state = LocalEngine(2).of([[1, 2], [3]])
    >>> len(state), list(state)
    (2, [[1, 2], [3]])
    """

    def __init__(self, engine: "Engine", parts: list[Any]) -> None:
        self.engine, self.parts = engine, parts

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[Any]:
        for place in range(len(self.parts)):
            yield self.engine.load(self, place)

    def compute(self) -> Any:
        """Return the values of all blocks as one array or CSR array: everything comes into memory."""
        blocks = list(self)
        if len(blocks) == 1:
            return blocks[0]
        return sparse.csr_array(sparse.vstack(blocks)) if sparse.issparse(blocks[0]) else np.concatenate(blocks)


class Engine(ABC):
    """Runs pure functions on all blocks.

    Functions get the block's value of each state as positional arguments and `shared` values as keywords. They must
    not change their arguments, and must be importable on every machine that runs them.

    Parameters
    ----------
    n_blocks : int
    checkpoint : str or path, optional
        Folder of a `Journal`, in which the results of reductions are stored as soon as `begin` was called.
    """

    def __init__(self, n_blocks: int, checkpoint: str | Path | None = None) -> None:
        self.n_blocks = n_blocks
        self._journal = None if checkpoint is None else Journal(checkpoint)

    def begin(self, key: dict[str, Any]) -> None:
        """Begin a fit that may be resumed: `key` says what it depends on. What was computed before is not stored."""
        if self._journal is not None:
            self._journal.open(key)

    def finish(self) -> None:
        """End a fit: its checkpoint is not needed any more."""
        if self._journal is not None:
            self._journal.remove()

    def map(self, function: Callable[..., Any], *states: State, keep: bool = True, **shared: Any) -> State:
        """Apply a function to every block; the values stay with the blocks.

        Parameters
        ----------
        function : callable
        *states : State
        keep : bool, default=True
            False computes a value whenever it is asked for, and does not keep it.
        **shared : object
            Small values that every block needs.
        """
        return self._map(Call(function, states, shared, kept_later=self._replaying), keep and not self._replaying)

    def reduce(
        self,
        function: Callable[..., Any],
        *states: State,
        combine: Callable[[Any, Any], Any] = add,
        only: Sequence[int] | None = None,
        **shared: Any,
    ) -> Any:
        """Apply a function to every block and combine the results, in the order of the blocks, into one.

        Parameters
        ----------
        function : callable
        *states : State
        combine : callable, default=add
            Makes one result of two, the first of them from earlier blocks.
        only : sequence of int, optional
            The blocks that take part.
        **shared : object
            Small values that every block needs.
        """
        if self._replaying:
            return self._journal.next()  # type: ignore[union-attr]
        places = range(self.n_blocks) if only is None else only
        return self._stored(self._reduce(Call(function, states, shared), combine, places))

    def map_reduce(
        self, function: Callable[..., Any], *states: State, combine: Callable[[Any, Any], Any] = add, **shared: Any
    ) -> tuple[State, Any]:
        """Apply a function that returns two values: the first stays with the block, the second ones are combined."""
        if self._replaying:
            call = Call(_first_of, states, {"_function": function, **shared}, kept_later=True)
            return self._map(call, False), self._journal.next()  # type: ignore[union-attr]
        state, total = self._map_reduce(Call(function, states, shared), combine)
        return state, self._stored(total)

    def of(self, values: Sequence[Any]) -> State:
        """Return small values that the caller has, one per block, as a state."""
        return State(self, [Held(value) for value in values])

    def share(self, value: Any) -> Any:
        """Return a handle of a value that many calls share: it is sent to the workers once."""
        return value

    def keeps(self, size: int) -> bool:
        """Tell whether a state of so many bytes is better kept than computed again.

        A fit that is resumed keeps what it kept before, whatever memory there is now: later passes depend on it.
        """
        return bool(self._journal.next()) if self._replaying else bool(self._stored(self._keeps(size)))  # type: ignore[union-attr]

    @property
    def _replaying(self) -> bool:
        return self._journal is not None and self._journal.replaying

    def _stored(self, value: Any) -> Any:
        if self._journal is not None:
            self._journal.append(value)
        return value

    @abstractmethod
    def _keeps(self, size: int) -> bool: ...

    @abstractmethod
    def load(self, state: State, place: int) -> Any:
        """Return the value of one block."""

    @abstractmethod
    def _map(self, call: "Call", keep: bool) -> State: ...

    @abstractmethod
    def _reduce(self, call: "Call", combine: Callable[[Any, Any], Any], places: Sequence[int]) -> Any: ...

    @abstractmethod
    def _map_reduce(self, call: "Call", combine: Callable[[Any, Any], Any]) -> tuple[State, Any]: ...


class LocalEngine(Engine):
    """Blocks in this process, one after the other.

    Parameters
    ----------
    n_blocks : int
    memory_budget : int, optional
        Bytes; state beyond half of it is put into a temporary folder. By default everything stays in memory.
    checkpoint : str or path, optional
        See `Engine`.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.blocks import LocalEngine
    >>> engine = LocalEngine(2)
    >>> X = engine.of([np.arange(3.0), np.arange(4.0)])
    >>> engine.reduce(np.sum, engine.map(np.square, X))
    np.float64(19.0)
    """

    def __init__(
        self, n_blocks: int, *, memory_budget: int | None = None, checkpoint: str | Path | None = None
    ) -> None:
        super().__init__(n_blocks, checkpoint)
        self.memory_budget = memory_budget
        self._held = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._n_files = 0

    def _keeps(self, size: int) -> bool:
        return self.memory_budget is None or size <= self.memory_budget // 3

    def load(self, state: State, place: int) -> Any:
        """Return the value of one block."""
        part = state.parts[place]
        if not isinstance(part, Call):
            return part.load()
        value = self._value(part, place)
        if part.kept_later:
            state.parts[place] = self._kept(value)
        return value

    def _value(self, call: "Call", place: int) -> Any:
        return call.function(*(self.load(state, place) for state in call.states), **call.shared)

    def _map(self, call: "Call", keep: bool) -> State:
        parts = [self._kept(self._value(call, place)) if keep else call for place in range(self.n_blocks)]
        return State(self, parts)

    def _reduce(self, call: "Call", combine: Callable[[Any, Any], Any], places: Sequence[int]) -> Any:
        total = None
        for place in places:
            value = self._value(call, place)
            total = value if total is None else combine(total, value)
        return total

    def _map_reduce(self, call: "Call", combine: Callable[[Any, Any], Any]) -> tuple[State, Any]:
        total, parts = None, []
        for place in range(self.n_blocks):
            value, summand = self._value(call, place)
            parts.append(self._kept(value))
            total = summand if total is None else combine(total, summand)
        return State(self, parts), total

    def _kept(self, value: Any) -> Any:
        if self.memory_budget is None:
            return Held(value)
        size = n_bytes(value)
        if self._held + size <= self.memory_budget // 2:
            self._held += size
            held = Held(value)
            weakref.finalize(held, self._forget, size)
            return held
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="pmlkit-", ignore_cleanup_errors=True)
        self._n_files += 1
        return OnDisk(value, Path(self._folder.name) / f"{self._n_files}.npz", self._folder)

    def _forget(self, size: int) -> None:
        self._held -= size


class Held:
    """A value in memory."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def load(self) -> Any:
        """Return the value."""
        return self.value


@dataclass(frozen=True)
class Call:
    """A function of the blocks' values, as one is asked for; `kept_later`: the value is kept once it was computed."""

    function: Callable[..., Any]
    states: Sequence[State]
    shared: dict[str, Any]
    kept_later: bool = False


def _first_of(*values: Any, _function: Callable[..., Any], **shared: Any) -> Any:
    return _function(*values, **shared)[0]


class Rows:
    """Checked rows in blocks, which methods learn from; the attributes are those of `RowBlocks`."""

    engine: Engine
    X: State
    Y: State | None
    sizes: tuple[int, ...]
    n_features: int
    n_labels: int
    names_in: Any
    label_names: tuple[Any, ...]
    label_format: LabelFormat
    table: Any = None

    @classmethod
    def of_arrays(cls, X: Features, Y: CSR) -> Self:
        """Return checked arrays in memory as a single block."""
        self = cls.__new__(cls)
        self.engine = LocalEngine(1)
        self.X, self.Y = self.engine.of([X]), self.engine.of([Y])
        self.sizes, self.n_features, self.n_labels = (X.shape[0],), X.shape[1], Y.shape[1]
        self.names_in, self.label_names = None, tuple(f"label_{k}" for k in range(Y.shape[1]))
        self.label_format = LabelFormat("csr_array", "float64")
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

    def to_blocks(self, place: Any = None, *, checkpoint: str | Path | None = None) -> Self:
        """Return the rows, which are in blocks."""
        return self


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


def _some_rows(block: Any, first: int, *, rows: Any) -> list[Any]:
    inside = rows[(rows >= first) & (rows < first + block.shape[0])] - first
    return [block[inside]]


def is_dask(X: Any) -> bool:
    """Tell whether this is a Dask collection."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


def holds_blocks(X: Any) -> bool:
    """Tell whether features are given in blocks: `RowBlocks`, a Dask array or DataFrame, or a table of many files.

    A memory map is an array like any other: joblib hands them to its workers.
    """
    return hasattr(type(X), "to_blocks") or is_dask(X)
