"""From the columns of a table to numbers: scikit-learn's parts, put together by what the columns hold."""

import json
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from pmlkit._arrays import as_csr
from pmlkit._typing import Features, FloatArray
from pmlkit._words import counted, did_you_mean, listing
from pmlkit.data.files.base import Missing, TableFile, as_number, check_column, is_missing, parse_numbers
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.compose import ColumnTransformer

logger = logging.getLogger(__name__)

_TEXT_WORDS = 3.0  # words per cell from which a column of strings is text
_N_PEEKED = 5000
_FEW_ROWS = 50
_NO_FEATURE = {
    "empty": "is empty",
    "objects": "holds lists or objects",
    "identifier": "looks like an identifier",
    "name": "looks like an identifier or a name",
}
"""Why columns of these kinds are left out."""
_NOT_NAMED = "was not named"
_MOSTLY_DISTINCT = 0.9  # share of different values from which a column called id names the rows
_IDENTIFIER_NAME = re.compile(r"(?i)(?:^|.*[_\s-])(?:id|key|uuid|guid|identifier)$")


@dataclass(frozen=True)
class VectorizerSettings:
    """How columns become numbers.

    - `max_words`: words kept of a text column, the most frequent ones.
    - `min_rows`: rows that a word or a category must be in.
    - `ngrams`: longest sequence of words that counts as one.
    - `analyzer` ({"word", "char_wb"}): words, or pieces of 3 to 5 letters (for languages without blanks, and for
      misspellings).
    - `max_categories`: values kept of a category column; the others share one.
    """

    max_words: int = 50_000
    min_rows: int = 2
    ngrams: int = 1
    analyzer: str = "word"
    max_categories: int = 100

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> "VectorizerSettings":
        """Check what a user gave by name."""
        known = [field.name for field in fields(cls)]
        for key, value in (given or {}).items():
            if key not in known:
                raise ValueError(f"vectorizer has no {key!r}.{did_you_mean(key, known)} It has {', '.join(known)}.")
            if key == "analyzer" and value not in ("word", "char_wb"):
                raise ValueError(f"vectorizer: analyzer must be word or char_wb, got {value!r}.")
            if key != "analyzer" and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise ValueError(f"vectorizer: {key} must be a whole number from 1, got {value!r}.")
        return cls(**(given or {}))


@dataclass(frozen=True)
class FeatureColumns:
    """Which columns are features, and of what kind.

    `left_out`: the other columns, and why.
    """

    text: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    left_out: Mapping[str, str] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.text, *self.categories, *self.numbers)

    def unused(self, limit: int = 6) -> str:
        """Return the columns that were left out as a list in words, with the reason where the user gave none."""
        left_out = self.left_out or {}
        reasons = dict.fromkeys(reason for reason in left_out.values() if reason != _NOT_NAMED)
        lists = [listing((name for name, why in left_out.items() if why == _NOT_NAMED), limit)]
        lists += [
            f"{listing((name for name, why in left_out.items() if why == reason), limit)} ({reason})"
            for reason in reasons
        ]
        return ", ".join(filter(None, lists))


def choose_columns(
    file: TableFile,
    *,
    text: Sequence[str] = (),
    categories: Sequence[str] = (),
    numbers: Sequence[str] = (),
    other: Collection[str] = (),
) -> FeatureColumns:
    """Return the feature columns: those that were named, else those that look like features.

    `text`, `categories`, `numbers`: columns that the user named. `other`: columns that are no features: labels,
    identifiers, ignored ones.
    """
    for names in (text, categories, numbers):
        for name in names:
            check_column(name, file.columns)
            if name in other:
                raise DataError(
                    f"the column {name!r} cannot be a feature: it holds labels or identifiers.", column=name
                )
    if text or categories or numbers:
        named = {*text, *categories, *numbers, *other}
        left_out = {name: _NOT_NAMED for name in file.columns if name not in named}
        return FeatureColumns(tuple(text), tuple(categories), tuple(numbers), left_out)
    kinds: dict[str, list[str]] = {"text": [], "category": [], "number": []}
    reasons: dict[str, str] = {}
    for name, values in file.cells(name for name in file.columns if name not in other).items():
        kind = _kind(values, file.decimal_comma)
        if kind in kinds:
            kinds[kind].append(name)
        else:
            reasons[name] = _NO_FEATURE[kind]
    chosen = FeatureColumns(tuple(kinds["text"]), tuple(kinds["category"]), tuple(kinds["number"]), reasons)
    if not chosen.names:
        raise DataError(
            f"no column looks like a feature. The columns are {listing(file.columns)}.",
            option="text",
            remedy=" the text column, or give embeddings or images",
        )
    return chosen


def _kind(values: Sequence[Any], decimal_comma: bool) -> str:
    known = [value for value in values if value is not None and value != ""]
    if not known:
        return "empty"
    if any(isinstance(value, list | dict) for value in known[:_N_PEEKED]):
        return "objects"
    distinct = len(set(map(str, known)))
    numbers = _as_numbers(known, decimal_comma)
    if numbers is not None:
        finite = numbers[np.isfinite(numbers)]
        is_whole = bool((finite[:_N_PEEKED] == np.round(finite[:_N_PEEKED])).all())
        return "identifier" if is_whole and distinct == len(known) else "number"
    words = np.mean([len(str(value).split()) for value in known[:_N_PEEKED]])
    if words >= _TEXT_WORDS:
        return "text"
    return "category" if distinct <= max(20, len(known) // 20) else "name"


def _as_numbers(known: Sequence[Any], decimal_comma: bool) -> FloatArray | None:
    first = next((value for value in known if not is_missing(value)), None)
    if as_number(first, decimal_comma=True) is None:
        return None
    try:
        return parse_numbers(known, "", decimal_comma=decimal_comma)
    except DataError:
        return None


def find_identifier(file: TableFile, candidates: Sequence[str]) -> str | None:
    """Return the column that names the rows: called ``id`` or the like, or the first, if of names.

    All differently, if there is such a column; else one that is called so and repeats only a few.
    """
    repeating = None
    for name in candidates:
        is_named_so = _IDENTIFIER_NAME.match(name) is not None
        if not is_named_so and name != file.columns[0]:
            continue
        values = file.cells([name])[name]
        kind = _kind(values, file.decimal_comma)
        n_distinct = len({str(value) for value in values})
        is_one = kind == "name" or (is_named_so and kind == "identifier")
        if (is_one or (is_named_so and kind == "category")) and n_distinct == len(values):
            return name
        is_count = kind == "number" and all(str(value).strip().isdigit() for value in values)
        could_be = is_count or kind in ("identifier", "name")
        if repeating is None and is_named_so and could_be and n_distinct >= _MOSTLY_DISTINCT * len(values):
            repeating = name
    return repeating


@dataclass
class TableReader:
    """Makes numbers of the columns of a table; a model that was fitted to a table keeps it.

    - `text`, `categories`, `numbers`: the columns that are features.
    - `side` ({"none", "images", "embeddings"}): which features are not columns of the table, and `n_side`, how many.
    - `missing` ({"mean", "zero", "error"}): what becomes of missing numbers.
    - `vectorizer`: fitted; None where no feature is a column of the table.
    - `labels`: the names or pattern of the label columns.
    - `id`: the column that was given to name the rows; None where none was.
    """

    text: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    side: str = "none"
    n_side: int = 0
    missing: Missing = "mean"
    vectorizer: Any = None
    labels: Sequence[str] = ()
    id: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        return (*self.text, *self.categories, *self.numbers)

    def fit(self, file: TableFile, side: FloatArray | None, settings: VectorizerSettings) -> Features:
        """Learn words, categories and scales, and return the numbers of the table itself."""
        frame = self.frame(file, fitting=True)
        if self.names:
            self.vectorizer = _make_vectorizer(self, settings, file.n_rows)
        self.n_side = 0 if side is None else side.shape[1]
        return self._numbers(frame, side, fit=True)

    def fit_frame(self, frame: "pd.DataFrame", n_side: int, settings: Mapping[str, Any] | None) -> None:
        """Learn words, categories and scales from the feature columns of some rows, made by `frame`."""
        self._check(frame, fitting=True)
        if self.names:
            self.vectorizer = _make_vectorizer(self, VectorizerSettings.of(settings), len(frame))
            self._numbers(frame, None, fit=True)
        self.n_side = n_side

    def transform(self, file: TableFile, side: FloatArray | None) -> Features:
        """Return the numbers of another table with these columns."""
        if absent := [name for name in self.names if name not in file.columns]:
            raise DataError(
                f"the model was fitted on columns that are not here: {', '.join(map(repr, absent))}.", column=absent[0]
            )
        width = 0 if side is None else side.shape[1]
        if width != self.n_side:
            raise DataError(
                f"the {self.side} give {width:,} numbers per row, but the model was fitted on {self.n_side:,}: use "
                "some of the same kind."
            )
        return self._numbers(self.frame(file), side)

    def frame(self, file: TableFile, *, fitting: bool = False) -> "pd.DataFrame":
        """Return the feature columns: texts and categories as str, numbers as float, NaN where absent."""
        import pandas as pd

        cells = file.cells(self.names)
        data: dict[str, Any] = {
            name: pd.Series(["" if value is None else str(value) for value in cells[name]], dtype=object)
            for name in (*self.text, *self.categories)
        }
        data |= {name: parse_numbers(cells[name], name, decimal_comma=file.decimal_comma) for name in self.numbers}
        self._check(data, fitting)
        return pd.DataFrame(data)

    def _check(self, data: Mapping[str, Any], fitting: bool) -> None:
        for name in self.text:
            if fitting and not any(map(str.strip, data[name])):
                raise DataError(f"the text column {name!r} is empty in every row.", column=name)
        for name in self.numbers:
            infinite = np.flatnonzero(np.isinf(data[name]))
            if len(infinite):
                raise DataError(
                    f"column {name!r} holds an infinite number in row {infinite[0]}.", column=name, row=int(infinite[0])
                )
            absent = int(np.isnan(data[name]).sum())
            if fitting and absent == len(data[name]):
                raise DataError(f"column {name!r} holds no number in any row.", column=name)
            if absent and self.missing == "error":
                row = int(np.flatnonzero(np.isnan(data[name]))[0])
                raise DataError(
                    f"column {name!r} lacks {counted(absent, 'number')}, the first in row {row}.",
                    option="missing",
                    value="'mean'",
                    remedy=" (or 'zero') to fill them",
                    column=name,
                    row=row,
                )
            if absent:
                filling = "the mean" if self.missing == "mean" else "zero"
                they = "it counts" if absent == 1 else "they count"
                logger.warning("column %r lacks %s: %s as %s.", name, counted(absent, "number"), they, filling)
        empty = [np.isnan(data[name]) for name in self.numbers]
        empty += [
            np.fromiter((not value.strip() for value in data[name]), bool, len(data[name]))
            for name in (*self.text, *self.categories)
        ]
        if empty and self.side == "none" and (n_empty := int(np.logical_and.reduce(empty).sum())):
            what = f"column {self.names[0]!r} is" if len(self.names) == 1 else "all feature columns are"
            note = "%s empty in %s: there is nothing to judge their labels by."
            logger.warning(note, what, counted(n_empty, "row"))

    def _numbers(self, frame: "pd.DataFrame", side: FloatArray | None, *, fit: bool = False) -> Features:
        parts: list[Any] = []
        if self.vectorizer is not None:
            try:
                parts.append(self.vectorizer.fit_transform(frame) if fit else self.vectorizer.transform(frame))
            except ValueError as error:
                if "empty vocabulary" in str(error) or "no terms remain" in str(error).lower():
                    message = "the text column holds no word that occurs in two rows: is it the right column?"
                    raise DataError(message) from error
                raise
        if side is not None:
            parts.append(side)
        if len(parts) == 1:
            return as_csr(parts[0]) if sparse.issparse(parts[0]) else np.asarray(parts[0])
        if any(sparse.issparse(part) for part in parts):
            return as_csr(sparse.hstack([sparse.csr_array(part) for part in parts], format="csr"))
        return np.hstack(parts)

    def __getstate__(self) -> dict[str, Any]:
        """Write the words of the vocabularies as one text each: a model file would hold a record per word."""
        state = self.__dict__.copy()
        if getattr(self.vectorizer, "transformers_", None) is None:
            return state
        packed, words = copy(self.vectorizer), {}
        packed.transformers_ = []
        for kind, part, names in self.vectorizer.transformers_:
            if hasattr(part, "vocabulary_"):
                part = copy(part)
                words[kind] = json.dumps(sorted(part.vocabulary_, key=part.vocabulary_.__getitem__))
                del part.vocabulary_
            packed.transformers_.append((kind, part, names))
        return state | {"vectorizer": packed, "words": words}

    def __setstate__(self, state: dict[str, Any]) -> None:
        words = state.pop("words", {})
        self.__dict__.update(state)
        for kind, part, _ in self.vectorizer.transformers_ if words else ():
            if kind in words:
                part.vocabulary_ = {word: place for place, word in enumerate(json.loads(words[kind]))}

    def describe(self) -> list[str]:
        """Describe how each column becomes numbers, one line per column."""
        lines = []
        for kind, part, names in self.vectorizer.transformers_ if self.vectorizer is not None else ():
            if kind == "categories":
                lines.append(f"{_few(names)}: {len(part.get_feature_names_out()):,} categories, one column each")
            elif kind == "numbers":
                lines.append(f"{_few(self.numbers)}: numbers, scaled")
            else:
                what = "words" if part.analyzer == "word" else "pieces of words"
                lines.append(f"{names}: TF-IDF of {len(part.vocabulary_):,} {what}")
        return lines + ([f"{self.side}: {self.n_side:,} numbers"] if self.n_side else [])


def _make_vectorizer(reader: TableReader, settings: VectorizerSettings, n_rows: int) -> "ColumnTransformer":
    """Return an unfitted transformer: TF-IDF of texts, one column per category, numbers filled and scaled."""
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    min_rows = settings.min_rows if n_rows >= _FEW_ROWS else 1  # few rows have no word twice
    parts: list[tuple[str, Any, Any]] = [
        (
            f"text {name}",
            TfidfVectorizer(
                min_df=min_rows,
                max_features=settings.max_words,
                sublinear_tf=True,
                strip_accents="unicode",
                analyzer=settings.analyzer,
                ngram_range=(1, settings.ngrams) if settings.analyzer == "word" else (3, 5),
                token_pattern=r"(?u)\b\w+\b",
                dtype=np.float32,
            ),
            name,
        )
        for name in reader.text
    ]
    if reader.categories:
        encoder = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            min_frequency=min_rows,
            max_categories=settings.max_categories,
            dtype=np.float32,
        )
        parts.append(("categories", encoder, list(reader.categories)))
    if reader.numbers:
        fill = SimpleImputer() if reader.missing == "mean" else SimpleImputer(strategy="constant", fill_value=0.0)
        # By place: scikit-learn looks each name up in a list, which takes hours for a million of columns.
        end = len(reader.names)
        places = slice(end - len(reader.numbers), end)
        parts.append(("numbers", Pipeline([("fill", fill), ("scale", StandardScaler())]), places))
    return ColumnTransformer(parts, verbose_feature_names_out=False)


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    return f"{shown} and {len(names) - 8:,} more" if len(names) > 8 else shown
