"""Many files as one table in blocks, one per file: nothing but a sample of the rows is ever in one place."""

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse

from pmlkit._arrays import move_columns
from pmlkit.blocks import Executor, RowBlocks, State
from pmlkit.blocks.engine import current_client
from pmlkit.data.files.base import FREE_BYTES, allowed_bytes
from pmlkit.data.files.features import FeatureColumns, TableReader
from pmlkit.exceptions import DataError

_SAMPLE_ROWS = 50_000
"""Rows, evenly spread, to which words, categories and scales are fitted."""


class TableFiles:
    r"""Rows of many files with the same columns, one block per file; made by `open_table`.

    The first file decides which columns are features and of what kind. Labels of any file are labels of all. Words,
    categories and scales are fitted to 50,000 rows that are evenly spread over all files, or to all if there are fewer.

    Attributes
    ----------
    paths : list of path
        The files, in the order of the rows.
    columns : list of str
        Of the first file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pmlkit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for k, row in enumerate(["1,a red sky,sky;red", "2,a blue sea,sea"]):
    ...         _ = pathlib.Path(folder, f"posts-{k}.csv").write_text(f"id,body,tags\n{row}\n")
    ...     posts = pmlkit.open_table(f"{folder}/posts-*.csv", labels="tags", text="body", sep=";")
    ...     rows = posts.to_blocks()
    >>> rows.sizes, posts.label_names, posts.row_names
    ((1, 1), ('red', 'sea', 'sky'), (1, 2))
    """

    media = None

    def __init__(self, paths: Sequence[Path], like: Any, options: Mapping[str, Any]) -> None:
        for name in ("embeddings", "merge_labels"):
            if options.get(name):
                raise ValueError(f"{name} is for a table of one file: leave it out, or join the files first.")
        self.paths = list(paths)
        if options.get("max_bytes") is None and not options.get("images"):
            # What any file may unpack to is shared by all of them: a thousand small bombs are no less than one.
            largest = max((path.stat().st_size for path in self.paths if path.is_file()), default=0)
            options = {**options, "max_bytes": allowed_bytes(largest, free=FREE_BYTES // len(self.paths))}
        self.name = f"{self.paths[0].name} and {len(self.paths) - 1} more"
        reader = getattr(like, "table_reader_", None)
        names = getattr(like, "feature_names_in_", None)
        # Workers need nothing of a model but its columns.
        self._like = None if like is None else SimpleNamespace(table_reader_=reader) if reader is not None else like
        if like is not None and reader is None and names is not None:
            self._like = SimpleNamespace(feature_names_in_=names)
        first = _opened(self.paths[0], options, self._like)
        self.columns, self.id_column = first.columns, first.id_column
        self.feature_columns: FeatureColumns = first.feature_columns
        self._reader = None if like is not None else first.unfitted_reader()
        self._options = dict(options)
        if like is None:
            kinds = {kind: list(getattr(self.feature_columns, kind)) for kind in ("text", "categories", "numbers")}
            self._options |= {kind: columns for kind, columns in kinds.items() if columns}
            self._options["sep"] = first.sep if options.get("sep") is None else options["sep"]
        if not first.is_own:
            self._options["id"] = self.id_column
        self._rows: RowBlocks | None = None
        self._where: tuple[Any, Any] = None, None
        self._ids: State | None = None

    def __repr__(self) -> str:
        return f"TableFiles of {len(self.paths)} files: {self.name!r}"

    def to_blocks(self, place: Executor | None = None, *, checkpoint: str | Path | None = None) -> RowBlocks:
        """Read the files, each where its block is worked on.

        Parameters
        ----------
        place : Executor, optional
            Where work runs, see `pmlkit.blocks.executor`; by default on the current Dask client, if there is one. The
            workers must reach the files under the same paths.
        checkpoint : str or path, optional
            See `RowBlocks`.

        Returns
        -------
        rows : RowBlocks
        """
        place = Executor(current_client()) if place is None else place
        if self._rows is not None and (place, checkpoint) == self._where:
            return self._rows
        self._where = place, checkpoint
        engine = place.engine(len(self.paths), checkpoint)
        absolute = engine.of([str(path.absolute()) for path in self.paths])
        opening: dict[str, Any] = {"options": self._options, "like": self._like}
        facts = engine.reduce(_survey, absolute, first=self.paths[0].name, columns=self._needed, **opening)
        reader, names = self._reader, None
        if reader is not None:
            names = _union([fact["labels"] for fact in facts], is_set=facts[0]["is_set"])
            sizes = [fact["n_rows"] for fact in facts]
            step = max(1, -(-sum(sizes) // _SAMPLE_ROWS))
            starts = engine.of(np.cumsum([0, *sizes[:-1]]).tolist())
            parts = engine.reduce(_sample, absolute, starts, step=step, reader=reader, **opening)
            _fit_reader(reader, parts, self._options.get("vectorizer"), self.name)
        read = engine.map(_read, absolute, reader=reader, names=names, **opening)
        X, Y, self._ids = (engine.map(_item, read, place=k, keep=False) for k in range(3))
        self._rows = RowBlocks.of_states(X, None if names is None else Y, label_names=names, table=self)
        return self._rows

    @property
    def _needed(self) -> list[str]:
        return [*self.feature_columns.names, *([self.id_column] if self.id_column else [])]

    @property
    def _blocks(self) -> RowBlocks:
        return self.to_blocks() if self._rows is None else self._rows

    @property
    def n_rows(self) -> int:
        """How many rows all files have."""
        return self._blocks.n_rows

    @property
    def label_names(self) -> tuple[str, ...]:
        """One name per label of any file."""
        return tuple(self._blocks.label_names)

    @cached_property
    def row_names(self) -> tuple[Any, ...] | None:
        """One name per row, or None where no column names them."""
        if self.id_column is None:
            return None
        self._blocks  # noqa: B018  reads the files
        assert self._ids is not None
        return tuple(name for block in self._ids for name in block)

    @property
    def table_reader(self) -> TableReader | None:
        """What made the numbers of the columns; a model that is fitted to the files keeps it."""
        self._blocks  # noqa: B018  fits it
        return self._reader if self._like is None else getattr(self._like, "table_reader_", None)

    @property
    def features(self) -> list[str]:
        """How each feature column became numbers, one line per column."""
        reader = self.table_reader
        return [] if reader is None else reader.describe()

    def write(self, folder: str | os.PathLike[str], Y: Any, *, force: bool = False) -> None:
        """Write every file with other labels into a folder, under its own name: only label cells are touched.

        Parameters
        ----------
        folder : path
            It is made if it is not there. Files in it are replaced only with `force`, the table's own never.
        Y : indicator of shape (n_rows, n_labels)
            The labels that stay, such as ``result.cleaned()``; none is added.
        force : bool, default=False
        """
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        kept, start = sparse.csr_array(Y), 0
        position = {name: k for k, name in enumerate(self.label_names)}
        for path in self.paths:
            table = _opened(path, self._options, None)
            rows = kept[start : start + table.n_rows]
            start += table.n_rows
            table.write(target / path.name, rows[:, [position[name] for name in table.label_names]], force=force)


def _opened(path: str | Path, options: Mapping[str, Any], like: Any) -> Any:
    from pmlkit.data.files.table import open_table

    try:
        return open_table(Path(path), like=like, **options)
    except FileNotFoundError as error:
        raise DataError(
            f"There is no file {str(path)!r} where it is to be read: workers need the files under the same paths."
        ) from error


def _survey(path: str, *, first: str, columns: list[str], options: Mapping[str, Any], like: Any) -> list[Any]:
    table = _opened(path, options, like)
    if absent := [name for name in columns if name not in table.columns]:
        raise DataError(
            f"the table has no column {absent[0]!r}, which {first} has: all files need the same columns.",
            column=absent[0],
            path=table.name,
        )
    labels = (None, False) if like is not None else (table.label_names, table.has_label_sets)
    return [{"n_rows": table.n_rows, "labels": labels[0], "is_set": labels[1]}]


def _sample(path: str, start: int, *, step: int, reader: TableReader, options: Mapping[str, Any], like: Any) -> Any:
    """Return the feature columns of every step-th of all rows, and how many features are not columns of the table."""
    table = _opened(path, options, like)
    frame = table.feature_frame(reader)
    return [(frame.iloc[(-start) % step :: step], table.n_side_features)]


def _fit_reader(reader: TableReader, parts: list[Any], settings: Any, name: str) -> None:
    import pandas as pd

    try:
        reader.fit_frame(pd.concat([frame for frame, _ in parts], ignore_index=True), parts[0][1], settings)
    except DataError as error:
        raise (error if error.path else error.replace(path=name)) from error


def _read(path: str, *, reader: Any, names: Any, options: Mapping[str, Any], like: Any) -> Any:
    table = _opened(path, options, like)
    X = table.X if like is not None else table.numbers(reader)
    if names is None:
        Y = None
    else:
        position = {name: k for k, name in enumerate(names)}
        Y = move_columns(table.Y, [position[name] for name in table.label_names], len(names))
    return X if sparse.issparse(X) else np.asarray(X), Y, table.row_names


def _union(found: list[tuple[str, ...]], *, is_set: bool) -> list[str]:
    names = dict.fromkeys(name for labels in found for name in labels)
    return sorted(names) if is_set else list(names)


def _item(values: tuple[Any, ...], *, place: int) -> Any:
    return values[place]
