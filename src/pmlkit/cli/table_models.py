"""Models of a table's own columns: what ``fit`` and ``predict`` do when texts and categories are features."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmlkit.cli.columns import Columns, is_table, open_for, read_table_rows, table_labels
from pmlkit.cli.errors import Misuse
from pmlkit.cli.models import Rows, load_model
from pmlkit.cli.output import say
from pmlkit.cli.progress import Watch
from pmlkit.cli.reading import Reading
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit.methods.base import BasePML
    from pmlkit.tables.model import TableModel

__all__ = ["TrainingTable", "load_fitted", "rows_to_predict", "wants_table"]


def wants_table(path: Path, reading: Reading, columns: Columns) -> bool:
    """Tell whether ``fit`` must make numbers of the columns itself; tables of numbers are read as ever."""
    return (columns.given and is_table(path, reading, columns)) or ".jsonl" in path.suffixes


class TrainingTable:
    """A table read for ``fit``: numbers, candidates, and what made the numbers."""

    def __init__(self, path: Path, reading: Reading, columns: Columns, *, merge: bool) -> None:
        from pmlkit.tables.model import vectorized
        from pmlkit.tables.vectorize import describe, make_vectorizer

        with Watch(f"reading {path.name}"):
            table = open_for(path, reading)
            labels = table_labels(table, path, reading, merge=merge)
            rows = read_table_rows(table, path, reading, columns, labels=labels.columns)
        self._columns, self._side = rows.columns, columns.side
        self._vectorizer = None
        if rows.columns.names:
            self._vectorizer = make_vectorizer(rows.columns, columns.settings(), table.n_rows)
        with Watch("turning columns into numbers"):
            try:
                self.X = vectorized(self._vectorizer, rows.frame, rows.side, fit=True)
            except DataError as error:
                raise DataError(f"{path.name}: {error}") from error
        self.Y, self.names = labels.Y, labels.names
        described = [] if self._vectorizer is None else describe(self._vectorizer)
        if rows.side is not None:
            described.append(f"{columns.side}: {rows.side.shape[1]:,} numbers")
        self.described = "; ".join(described)
        if rows.columns.left_out:
            say("note", f"columns that are not used: {', '.join(rows.columns.left_out)}.")

    def with_columns(self, fitted: "BasePML") -> "TableModel":
        """Return the fitted method together with the vectoriser, to be saved."""
        from pmlkit.tables.model import TableModel

        model = TableModel(
            self._vectorizer,
            fitted,
            text=self._columns.text,
            categories=self._columns.categories,
            numbers=self._columns.numbers,
            side=self._side,
        )
        model.label_names_ = fitted.label_names_
        return model


def load_fitted(path: Path) -> "BasePML | TableModel":
    """Read a model of either kind."""
    from pmlkit.persistence import load
    from pmlkit.tables.model import TableModel

    if path.is_file():
        model = load(path)
        if isinstance(model, TableModel):
            return model
    return load_model(path)


def rows_to_predict(model: "TableModel", path: Path, reading: Reading, columns: Columns) -> Rows:
    """Read the columns that a model knows and make numbers of them as it learned to."""
    from pmlkit.tables.model import vectorized

    if any((columns.text, columns.categories, columns.numbers, columns.vectorizer)):
        raise Misuse("The model knows its columns: leave --text, --categories, --numbers and --vectorizer out.")
    if columns.side != model.side:
        wanted = {"images": "--images COLUMN=DIR", "embeddings": "--embeddings PATH"}.get(
            model.side, "neither images nor embeddings"
        )
        raise Misuse(f"The model was fitted with {wanted}: give the same here.")
    with Watch(f"reading {path.name}"):
        table = open_for(path, reading)
        rows = read_table_rows(table, path, reading, columns, labels=(), wanted=model.columns)
    X: Any = vectorized(model.vectorizer, rows.frame, rows.side)
    return Rows(X, rows.ids)
