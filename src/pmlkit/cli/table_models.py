"""Models of a table's own columns: what ``fit``, ``predict`` and ``evaluate`` do where texts are features."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmlkit._words import did_you_mean
from pmlkit.cli.columns import Columns, is_table, open_for, option_of, read_table_rows, table_labels
from pmlkit.cli.errors import Misuse
from pmlkit.cli.models import Rows, load_model
from pmlkit.cli.output import quoted, say
from pmlkit.cli.progress import Watch
from pmlkit.cli.reading import Reading, as_typed
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    from pmlkit._typing import CSR
    from pmlkit.methods.base import BasePML
    from pmlkit.tables.base import Table
    from pmlkit.tables.model import TableModel

__all__ = ["TrainingTable", "load_fitted", "rows_to_evaluate", "rows_to_predict", "wants_table"]


def wants_table(path: Path, reading: Reading, columns: Columns) -> bool:
    """Tell whether ``fit`` must make numbers of the columns itself; tables of numbers are read as ever."""
    from pmlkit.tables.opening import table_format

    is_lines = (reading.format or table_format(path)) == "jsonl"  # which no data set of numbers is
    return is_lines or (columns.given and is_table(path, reading, columns))


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
            say("note", f"columns that are not used: {quoted(rows.columns.left_out)}.")

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
    _check_columns(model, columns)
    with Watch(f"reading {path.name}"):
        table = open_for(path, reading)
        return _rows(model, table, path, reading, columns)


def rows_to_evaluate(model: "TableModel", path: Path, reading: Reading, columns: Columns) -> tuple[Rows, "CSR"]:
    """Read the columns that a model knows, and the true labels in the order of the model's."""
    _check_columns(model, columns)
    with Watch(f"reading {path.name}"):
        table = open_for(path, reading, "truth")
        truth = _truth(model, table, path, reading)
        return _rows(model, table, path, reading, columns), truth


def _check_columns(model: "TableModel", columns: Columns) -> None:
    if any((columns.text, columns.categories, columns.numbers, columns.vectorizer)):
        raise Misuse("The model knows its columns: leave --text, --categories, --numbers and --vectorizer out.")
    if columns.side != model.side:
        wanted = {"images": "--images COLUMN=DIR", "embeddings": "--embeddings PATH"}.get(
            model.side, "neither images nor embeddings"
        )
        raise Misuse(f"The model was fitted with {wanted}: give the same here.")


def _rows(model: "TableModel", table: "Table", path: Path, reading: Reading, columns: Columns) -> Rows:
    from pmlkit.tables.model import vectorized

    rows = read_table_rows(table, path, reading, columns, labels=(), wanted=model.columns)
    X: Any = vectorized(model.vectorizer, rows.frame, rows.side)
    n_known = int(model.model.n_features_in_)
    if X.shape[1] != n_known:
        raise DataError(
            f"{path.name} and what is beside it give {X.shape[1]:,} numbers a row, but the model was fitted on "
            f"{n_known:,}: use {model.side} of the same kind."
        )
    return Rows(X, rows.ids)


def _truth(model: "TableModel", table: "Table", path: Path, reading: Reading) -> "CSR":
    """Return the true labels in the order of the model's; columns of 0/1 may be called by a pattern."""
    from scipy import sparse

    from pmlkit.data.formats._table_columns import label_key
    from pmlkit.tables.label_cells import read_indicator

    wanted = option_of(reading, path, "truth")
    if wanted is None:
        raise DataError(
            f"{path.name}: which column holds the true labels, to measure against? Name it by --option truth=COLUMN."
            f"{did_you_mean('truth', table.columns)}"
        )
    try:
        found = read_indicator(table, [wanted] if isinstance(wanted, str) else list(wanted), sep=reading.sep)
    except DataError as error:
        raise DataError(as_typed(f"{path.name}: {error}")) from error
    number = {label_key(option_of(reading, path, "labels"), str(name)): k for k, name in enumerate(model.label_names_)}
    number |= {str(name): k for k, name in enumerate(model.label_names_)}
    target = [number.get(name, number.get(label_key(wanted, name))) for name in found.names]
    unknown = [name for name, k in zip(found.names, target, strict=True) if k is None]
    if unknown:
        hint = (
            "" if found.is_set else " Where columns are called by a pattern, give the labels', too: --labels 'tag_*'."
        )
        raise DataError(
            f"{path.name} has {len(unknown)} true label(s) that the model does not know: {quoted(unknown)}. "
            f"It knows {quoted(model.label_names_)}.{hint}"
        )
    if not found.is_set and len(set(target)) < len(model.label_names_):
        missing = [name for k, name in enumerate(model.label_names_) if k not in target]
        say("note", f"{len(missing)} label(s) have no column of truth, and count as absent: {quoted(missing, 6)}.")
    cells = found.Y.tocoo()
    columns = [target[k] for k in cells.col.tolist()]
    return sparse.csr_array((cells.data, (cells.row, columns)), shape=(table.n_rows, len(model.label_names_)))
