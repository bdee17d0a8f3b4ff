"""The options that say which columns of a table are features, the same for ``clean`` and for models."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmlkit._words import did_you_mean
from pmlkit.cli.errors import Misuse
from pmlkit.cli.output import clean, say
from pmlkit.cli.params import key_values, literal
from pmlkit.cli.reading import Reading, _columns, as_typed
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    import pandas as pd

    from pmlkit._typing import FloatArray
    from pmlkit.tables.base import Table
    from pmlkit.tables.label_cells import TableLabels
    from pmlkit.tables.vectorize import FeatureColumns, Settings

__all__ = ["Columns", "TableRows", "is_table", "option_of", "read_table_rows", "table_labels"]

_PANEL = "Features of a table"
_TABLE_OPTIONS = frozenset({"labels", "sep", "id", "ignore", "delimiter", "encoding"})


@dataclass(frozen=True)
class Columns:
    """Which columns are features, and how they become numbers."""

    text: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Columns of text; they become TF-IDF.", rich_help_panel=_PANEL),
    ] = None
    categories: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Columns of categories; one 0/1 column each.", rich_help_panel=_PANEL),
    ] = None
    numbers: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Columns of numbers; they are scaled.", rich_help_panel=_PANEL),
    ] = None
    images: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN=DIR",
            help="The column of image file names, and the folder where they are; pixels become features.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    embeddings: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Your own features: .npy or Parquet, one row per row of the table, in the same order.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    vectorizer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Change how columns become numbers: max_words, min_rows, ngrams, analyzer (word, char_wb), "
            "max_categories; as often as needed.",
            rich_help_panel=_PANEL,
        ),
    ] = None

    @property
    def given(self) -> bool:
        """Whether any of these options was used."""
        return any((self.text, self.categories, self.numbers, self.images, self.embeddings, self.vectorizer))

    @property
    def side(self) -> str:
        """What features come from beside the table."""
        if self.images and self.embeddings:
            raise Misuse("Give --images or --embeddings, not both.")
        return "images" if self.images else "embeddings" if self.embeddings else "none"

    @property
    def files(self) -> list[Path]:
        """The files that are read beside the table."""
        return [] if self.embeddings is None else [self.embeddings]

    def settings(self) -> "Settings":
        """Return the settings of the vectoriser."""
        from pmlkit.tables.vectorize import Settings

        given = {key: literal(value) for key, value in key_values(self.vectorizer or (), "--vectorizer").items()}
        for key, value in given.items():
            if key not in Settings.names():
                known = Settings.names()
                raise Misuse(f"--vectorizer has no {key!r}.{did_you_mean(key, known)} It has {', '.join(known)}.")
            if key == "analyzer" and value not in ("word", "char_wb"):
                raise Misuse(f"--vectorizer analyzer must be word or char_wb, got {value!r}.")
            if key != "analyzer" and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise Misuse(f"--vectorizer {key} must be a whole number from 1, got {value!r}.")
        return replace(Settings(), **given)  # type: ignore[arg-type]


@dataclass(frozen=True)
class TableRows:
    """The rows of a table: feature columns as a frame, features from beside it, names and what can be looked at."""

    columns: "FeatureColumns"
    frame: "pd.DataFrame"
    side: "FloatArray | None"
    ids: Sequence[Any] | None
    media: Any


def is_table(path: Path, reading: Reading, columns: Columns) -> bool:
    """Tell whether a file is to be read as a table of people, not as a data set of numbers."""
    from pmlkit.tables.opening import TABLE_FORMATS, table_format

    chosen = reading.format or table_format(path)
    if columns.given and chosen not in TABLE_FORMATS:
        if not path.exists():
            raise DataError(f"There is no file {str(path)!r}. Check the path and the folder it starts from.")
        raise Misuse(
            f"--text and the like are for tables: if {path.name!r} is one, say by --format which of "
            f"{', '.join(TABLE_FORMATS)}."
        )
    return chosen in TABLE_FORMATS


def open_for(path: Path, reading: Reading, *more_options: str) -> "Table":
    """Open a table by the reading options, which may be `more_options`, too."""
    from pmlkit.tables.opening import open_table

    options = reading.options(path)
    allowed = _TABLE_OPTIONS | set(more_options)
    for key in options:
        if key not in allowed:
            known = sorted(allowed - {"labels", "sep"})
            raise Misuse(f"Here --option has no {key!r}.{did_you_mean(key, known)} It has {', '.join(known)}.")
    try:
        return open_table(
            path, format=reading.format, delimiter=options.get("delimiter"), encoding=options.get("encoding", "utf-8")
        )
    except DataError as error:
        raise DataError(as_typed(str(error))) from error
    except ValueError as error:
        raise Misuse(as_typed(str(error))) from error


def option_of(reading: Reading, path: Path, key: str) -> Any:
    """Return one of the reading options, or None."""
    return reading.options(path).get(key)


def table_labels(table: "Table", path: Path, reading: Reading, *, merge: bool) -> "TableLabels":
    """Read the labels of a table; say which names are nearly the same."""
    from pmlkit.tables.label_cells import near_equal, read_labels

    try:
        names = _label_columns(table, path, option_of(reading, path, "labels"))
        labels = read_labels(table, names, sep=reading.sep, merge=merge)
    except DataError as error:
        raise DataError(as_typed(f"{path.name}: {error}")) from error
    groups = near_equal(labels.names)
    if groups:
        shown = "; ".join(" and ".join(repr(name) for name in group) for group in groups[:3])
        more = f" (and {len(groups) - 3} more)" if len(groups) > 3 else ""
        advice = "" if not labels.is_set else " Use --merge-labels to take them for one."
        say("warning", f"some labels have nearly the same name: {shown}{more}.{advice}")
    if labels.merged:
        say("note", f"{len(labels.merged)} label name(s) were merged into another spelling.")
    return labels


def _label_columns(table: "Table", path: Path, wanted: Any) -> list[str]:
    """Return the names or patterns that were typed; of an ARFF file, also what its XML or relation name says."""
    header = getattr(table, "header", None)
    is_xml = isinstance(wanted, str) and wanted.lower().endswith(".xml") and wanted not in table.columns
    if header is not None and (wanted is None or isinstance(wanted, int) or is_xml):
        from pmlkit.data.formats.arff import label_positions

        stem = path.name[: path.name.lower().rfind(".arff")]
        return [table.columns[j] for j in label_positions(header, wanted, path, stem)]
    return [] if wanted is None else [wanted] if isinstance(wanted, str) else list(wanted)


def read_table_rows(
    table: "Table", path: Path, reading: Reading, columns: Columns, *, labels: Sequence[str], wanted: Any = None
) -> TableRows:
    """Read the features of a table.

    Parameters
    ----------
    table : Table
    path : path
        Its file, for messages.
    reading, columns
        The options.
    labels : sequence of str
        The label columns.
    wanted : FeatureColumns, optional
        The columns that a model knows, instead of what the options say.
    """
    from pmlkit.data.formats._common import select
    from pmlkit.tables.side_features import pixel_features, read_embeddings, read_images
    from pmlkit.tables.vectorize import FeatureColumns, choose_columns, to_frame

    id_column = option_of(reading, path, "id")
    ignored = option_of(reading, path, "ignore")
    try:
        if id_column is not None and id_column not in table.columns:
            raise _no_column(id_column, table)
        other = {*labels, *([id_column] if id_column else [])}
        if ignored:
            other |= {table.columns[j] for j in select(table.columns, ignored, "column")}
        image_column, _, folder = (columns.images or "").partition("=")
        if columns.images and not (image_column and folder):
            raise Misuse(f"--images takes COLUMN=DIR, such as --images file=photos, got {columns.images!r}.")
        if image_column:
            if image_column not in table.columns:
                raise _no_column(image_column, table)
            other.add(image_column)
        named = [_names(words) for words in (columns.text, columns.categories, columns.numbers)]
        if wanted is not None:
            missing = [name for name in wanted.names if name not in table.columns]
            if missing:
                raise DataError(f"the model was fitted on columns that are not here: {', '.join(map(repr, missing))}.")
            chosen = wanted
        elif columns.side != "none" and not any(named):
            chosen = FeatureColumns()
        else:
            chosen = choose_columns(table, text=named[0], categories=named[1], numbers=named[2], other=other)
        frame = to_frame(table, chosen, fitting=wanted is None)
        images = None
        side = None
        if columns.side == "images":
            images = read_images(folder, table.cells([image_column])[image_column])
            side = pixel_features(images)
        elif columns.embeddings is not None:
            side = read_embeddings(columns.embeddings, table.n_rows)
        ids = None if id_column is None else _distinct_ids(id_column, table.cells([id_column])[id_column])
    except DataError as error:
        raise DataError(as_typed(f"{path.name}: {error}")) from error
    media: Any = images
    if media is None and chosen.text:
        texts = [frame[name] for name in chosen.text]
        media = tuple(texts[0]) if len(texts) == 1 else tuple(" · ".join(parts) for parts in zip(*texts, strict=True))
    return TableRows(chosen, frame, side, ids, media)


def _no_column(name: str, table: "Table") -> DataError:
    from pmlkit.data.formats._common import listing

    return DataError(
        f"there is no column {name!r}.{did_you_mean(name, table.columns)} The columns are {listing(table.columns)}."
    )


def _names(words: list[str] | None) -> list[str]:
    found = _columns(words) if words else []
    return [found] if isinstance(found, str) else found


def _distinct_ids(column: str, ids: Sequence[Any]) -> Sequence[Any]:
    from pmlkit.data.formats._common import excerpt
    from pmlkit.tables.label_cells import is_text

    first: dict[Any, int] = {}
    for row, name in enumerate(ids):
        if isinstance(name, list | dict) or not is_text(str(name)):
            raise DataError(
                f"the identifier {excerpt(str(name))} in row {row} is neither text nor number: correct it first."
            )
        if name in first:
            n_repeated = len(ids) - len(set(ids))
            raise DataError(
                f"the identifier column {column!r} repeats {n_repeated} value(s): {clean(str(name))!r} stands in rows "
                f"{first[name]} and {row}. Make them distinct, or leave id= out."
            )
        first[name] = row
    return ids
