"""Functions mapped over row blocks: values that stay with their block, and reductions to something small.

An algorithm is written once, as pure functions of a block, and runs on one block in memory, on blocks that are read
from disk one after the other, or on the workers of a Dask cluster (`pmlkit.blocks.executors`).
"""

import json
import sys
import tempfile
import weakref
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._arrays import LabelFormat
from pmlkit._files import replacing
from pmlkit._typing import CSR, Features
from pmlkit.exceptions import DataError


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
    """One value per block, kept where the block is; `parts` is what the engine needs to get at each value.

    Iterating over it loads the values one after the other; `compute` puts them together.

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

    Functions get the block's value of each state as positional arguments and `shared` values, small ones that every
    block needs, as keywords. They must not change their arguments, and must be importable on every machine that runs
    them. `checkpoint`: folder of a `Journal`, in which results of reductions are stored as soon as `begin` was called.
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

        ``keep=False`` computes a value whenever it is asked for, and does not keep it.
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

        `combine`: makes one result of two, the first of them from earlier blocks. `only`: the blocks that take part.
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
        """Return whether a state of this size, in bytes, is better kept than computed again.

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

    `memory_budget`: bytes; state beyond half of it is put into a temporary folder. By default everything stays in
    memory.

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
        """The number of rows in all blocks."""
        return sum(self.sizes)

    @property
    def n_candidates(self) -> int:
        """The number of candidates of all rows."""
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
    """Return whether this is a Dask collection."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


def holds_blocks(X: Any) -> bool:
    """Return whether features are given in blocks: `RowBlocks`, a Dask array or DataFrame, or a table of many files.

    A memory map is an array like any other: joblib hands them to its workers.
    """
    return hasattr(type(X), "to_blocks") or is_dask(X)


def n_bytes(value: Any) -> int:
    """Return how much memory the arrays in a nested value take.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.blocks.engine import n_bytes
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
    """A value whose arrays are in a file, which is deleted with it; `folder` lives as long as a file in it."""

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
    """The small results of a fit's finished passes, in a folder: a fit that was interrupted reads them back."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._n_used = 0
        self._n_stored = 0
        self._open = False

    def open(self, key: dict[str, Any]) -> None:
        """Begin the journal of one fit, or continue that of the same fit; one of another `key` is refused."""
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
