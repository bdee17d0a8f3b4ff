"""Numbers out of texts, categories and numbers: scikit-learn's parts, put together by what the columns hold."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from pmlkit._words import did_you_mean
from pmlkit.data.formats._common import listing
from pmlkit.exceptions import DataError
from pmlkit.tables.base import Table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FeatureColumns", "Settings", "choose_columns", "describe", "make_vectorizer", "to_frame"]

_TEXT_WORDS = 3.0  # words per cell from which a column of strings is text
_N_PEEKED = 5000


@dataclass(frozen=True)
class Settings:
    """What a user may change of the vectoriser.

    Attributes
    ----------
    max_words : int
        Words kept of a text column, the most frequent ones.
    min_rows : int
        Rows that a word or a category must be in.
    ngrams : int
        Longest sequence of words that counts as one.
    analyzer : {"word", "char_wb"}
        Words, or pieces of 3 to 5 letters (for languages without blanks, and for misspellings).
    max_categories : int
        Values kept of a category column; the others share one.
    """

    max_words: int = 50_000
    min_rows: int = 2
    ngrams: int = 1
    analyzer: str = "word"
    max_categories: int = 100

    @classmethod
    def names(cls) -> list[str]:
        """Return what can be set."""
        return [field.name for field in fields(cls)]


@dataclass(frozen=True)
class FeatureColumns:
    """Which columns are features, and of what kind.

    Attributes
    ----------
    text, categories, numbers : tuple of str
    left_out : mapping of str to str
        The other columns, and why.
    """

    text: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    left_out: Mapping[str, str] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.text, *self.categories, *self.numbers)


def choose_columns(
    table: Table,
    *,
    text: Sequence[str] = (),
    categories: Sequence[str] = (),
    numbers: Sequence[str] = (),
    other: Collection[str] = (),
) -> FeatureColumns:
    r"""Return the feature columns: those that were named, else those that look like features.

    Parameters
    ----------
    table : Table
    text, categories, numbers : sequences of str
        Columns that the user named.
    other : collection of str
        Columns that are no features: labels, identifiers, ignored ones.

    Examples
    --------
    >>> import io
    >>> from pmlkit.tables.text_table import TextTable
    >>> from pmlkit.tables.vectorize import choose_columns
    >>> table = TextTable(io.BytesIO(b"id,size,body,tags\n7,1.5,one more word here,a\n8,2.5,and a few more words,b\n"))
    >>> chosen = choose_columns(table, other=["tags"])
    >>> chosen.text, chosen.numbers, chosen.left_out
    (('body',), ('size',), {'id': 'looks like an identifier'})
    """
    for name in (*text, *categories, *numbers):
        if name not in table.columns:
            hint = did_you_mean(name, table.columns)
            raise DataError(f"there is no column {name!r}.{hint} The columns are {listing(table.columns)}.")
        if name in other:
            raise DataError(f"the column {name!r} cannot be a feature: it holds labels or identifiers.")
    if text or categories or numbers:
        named = {*text, *categories, *numbers, *other}
        left_out = {name: "was not named" for name in table.columns if name not in named}
        return FeatureColumns(tuple(text), tuple(categories), tuple(numbers), left_out)
    kinds: dict[str, list[str]] = {"text": [], "category": [], "number": []}
    reasons: dict[str, str] = {}
    candidates = [name for name in table.columns if name not in other]
    for name, values in table.cells(candidates).items():
        kind = _kind(values)
        if kind in kinds:
            kinds[kind].append(name)
        else:
            reasons[name] = kind
    chosen = FeatureColumns(tuple(kinds["text"]), tuple(kinds["category"]), tuple(kinds["number"]), reasons)
    if not chosen.names:
        raise DataError(
            "no column looks like a feature: name the text column with text=, or give embeddings or images. "
            f"The columns are {listing(table.columns)}."
        )
    return chosen


def _kind(values: Sequence[Any]) -> str:
    known = [value for value in values if value is not None and value != ""]
    if not known:
        return "is empty"
    if any(isinstance(value, list | dict) for value in known[:_N_PEEKED]):
        return "holds lists or objects"
    distinct = len({str(value) for value in known})
    if all(_is_number(value) for value in known):
        whole = all(float(value).is_integer() for value in known[:_N_PEEKED] if np.isfinite(float(value)))
        return "looks like an identifier" if whole and distinct == len(known) else "number"
    words = np.mean([len(str(value).split()) for value in known[:_N_PEEKED]])
    if words >= _TEXT_WORDS:
        return "text"
    return "category" if distinct <= max(20, len(known) // 20) else "looks like an identifier or a name"


def _is_number(value: Any) -> bool:
    if isinstance(value, bool | int | float):
        return True
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def to_frame(table: Table, columns: FeatureColumns, *, fitting: bool = True) -> "pd.DataFrame":
    r"""Return the feature columns as a DataFrame: texts and categories as str, numbers as float, NaN where absent.

    Parameters
    ----------
    table : Table
    columns : FeatureColumns
    fitting : bool, default=True
        Whether something is to be learned, so that a column without content is refused.

    Examples
    --------
    >>> import io
    >>> from pmlkit.tables.text_table import TextTable
    >>> from pmlkit.tables.vectorize import FeatureColumns, to_frame
    >>> table = TextTable(io.BytesIO(b"size,body\n1.5,hello\n,\n"))
    >>> to_frame(table, FeatureColumns(text=("body",), numbers=("size",)))["size"].tolist()
    [1.5, nan]
    """
    import pandas as pd

    cells = table.cells(columns.names)
    data: dict[str, Any] = {
        name: pd.Series(["" if value is None else str(value) for value in cells[name]], dtype=object)
        for name in (*columns.text, *columns.categories)
    }
    data |= {name: _numbers(name, cells[name]) for name in columns.numbers}
    if fitting:
        for name in columns.text:
            if not data[name].str.strip().any():
                raise DataError(f"the text column {name!r} is empty in every row.")
        for name in columns.numbers:
            if np.isnan(data[name]).all():
                raise DataError(f"column {name!r} holds no number in any row.")
    return pd.DataFrame(data)


def _numbers(name: str, values: Sequence[Any]) -> Any:
    numbers = np.full(len(values), np.nan)
    for row, value in enumerate(values):
        if value is None or (isinstance(value, str) and value.strip().lower() in ("", "na", "nan", "null", "none")):
            continue
        if not _is_number(value):
            raise DataError(f"column {name!r} must hold numbers, but row {row} holds {str(value)[:60]!r}.")
        numbers[row] = float(value)
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        raise DataError(f"column {name!r} holds an infinite number in row {infinite[0]}.")
    return numbers


def make_vectorizer(columns: FeatureColumns, settings: Settings, n_rows: int) -> ColumnTransformer:
    """Return an unfitted transformer from the frame of `to_frame` to numbers.

    Texts become TF-IDF weights of their words, categories one column per value, numbers are filled with the mean
    and scaled.

    Examples
    --------
    >>> import pandas as pd
    >>> from pmlkit.tables.vectorize import FeatureColumns, Settings, make_vectorizer
    >>> frame = pd.DataFrame({"body": ["red sky", "blue sky"], "size": [1.0, 2.0]})
    >>> columns = FeatureColumns(text=("body",), numbers=("size",))
    >>> make_vectorizer(columns, Settings(min_rows=1), 2).fit_transform(frame).shape
    (2, 4)
    """
    # A handful of rows has no word twice.
    min_rows = settings.min_rows if n_rows >= 50 else 1
    is_word = settings.analyzer == "word"
    parts: list[tuple[str, Any, Any]] = [
        (
            f"text {name}",
            TfidfVectorizer(
                min_df=min_rows,
                max_features=settings.max_words,
                sublinear_tf=True,
                strip_accents="unicode",
                analyzer=settings.analyzer,
                ngram_range=(1, settings.ngrams) if is_word else (3, 5),
                token_pattern=r"(?u)\b\w+\b",
                dtype=np.float32,
            ),
            name,
        )
        for name in columns.text
    ]
    if columns.categories:
        encoder = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            min_frequency=min_rows,
            max_categories=settings.max_categories,
            dtype=np.float32,
        )
        parts.append(("categories", encoder, list(columns.categories)))
    if columns.numbers:
        scaler = Pipeline([("fill", SimpleImputer()), ("scale", StandardScaler())])
        parts.append(("numbers", scaler, list(columns.numbers)))
    return ColumnTransformer(parts, verbose_feature_names_out=False)


def describe(vectorizer: ColumnTransformer) -> list[str]:
    """Say what a fitted vectoriser makes of the columns, a line each.

    Examples
    --------
    >>> import pandas as pd
    >>> from pmlkit.tables.vectorize import FeatureColumns, Settings, describe, make_vectorizer
    >>> columns = FeatureColumns(text=("body",))
    >>> vectorizer = make_vectorizer(columns, Settings(), 2).fit(pd.DataFrame({"body": ["red sky", "blue sky"]}))
    >>> describe(vectorizer)
    ['body: TF-IDF of 3 words']
    """
    lines = []
    for _, part, names in vectorizer.transformers_:
        if isinstance(part, TfidfVectorizer):
            kind = "words" if part.analyzer == "word" else "pieces of words"
            lines.append(f"{names}: TF-IDF of {len(part.vocabulary_):,} {kind}")
        elif isinstance(part, OneHotEncoder):
            lines.append(f"{_few(names)}: {len(part.get_feature_names_out()):,} categories, one column each")
        elif isinstance(part, Pipeline):
            lines.append(f"{_few(names)}: numbers, scaled")
    return lines


def _few(names: Sequence[str], limit: int = 8) -> str:
    shown = ", ".join(names[:limit])
    return f"{shown} and {len(names) - limit:,} more" if len(names) > limit else shown
