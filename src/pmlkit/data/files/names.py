"""Names of columns: which are meant, and how they are shown in messages."""

import fnmatch
import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path

from pmlkit._words import did_you_mean
from pmlkit.exceptions import DataError

__all__ = ["Names", "as_names", "check_column", "excerpt", "likely_labels", "listing", "select"]

_LIKELY_LABELS = re.compile(r"(?i)^(labels?|tags?|categor(y|ies)|topics?|keywords?|genres?|classes)$")

Names = str | Collection[str]
"""One name or pattern, or several; ``@file`` stands for the lines of a file."""


def as_names(words: Names | None) -> list[str]:
    """Return a list of names or patterns, those of ``@file`` read from the file.

    Examples
    --------
    >>> from pmlkit.data.files.names import as_names
    >>> as_names("tags"), as_names(["a", "b*"]), as_names(None)
    (['tags'], ['a', 'b*'], [])
    """
    items = [] if words is None else [words] if isinstance(words, str | os.PathLike) else list(words)
    names: list[str] = []
    for item in map(str, items):
        names += _lines(Path(item[1:])) if item.startswith("@") and len(item) > 1 else [item]
    return names


def _lines(path: Path) -> list[str]:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except OSError as error:
        raise DataError(f"The list of names {str(path)!r} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"The list of names {str(path)!r} is not text in UTF-8.") from error
    if not any(lines):
        raise DataError(f"The list of names {str(path)!r} is empty.")
    return [line for line in lines if line]


def select(names: Sequence[str], wanted: Names, what: str = "column", *, option: str | None = None) -> list[int]:
    """Return the positions of the columns named, or matched by a glob pattern, in the order of the file."""
    positions = {name: j for j, name in enumerate(names)}
    chosen: set[int] = set()
    for item in as_names(wanted):
        if item in positions:
            chosen.add(positions[item])
            continue
        matches = {j for name, j in positions.items() if fnmatch.fnmatchcase(name, item)}
        if not matches:
            likely = [name for name in likely_labels(names) if option == "labels" and name not in as_names(wanted)]
            raise _absent(item, names, what, likely)
        chosen |= matches
    return sorted(chosen)


def check_column(name: str, columns: Sequence[str]) -> str:
    """Return the name of a column that is there, or say which are."""
    if name not in columns:
        raise _absent(name, columns, "column", ())
    return name


def _absent(name: str, names: Sequence[str], what: str, likely: Sequence[str]) -> DataError:
    hint = did_you_mean(name, names) or (f" Is it {likely[0]!r}?" if likely else "")
    return DataError(f"there is no {what} {name!r}.{hint} The {what}s are {listing(names)}.", column=name)


def likely_labels(names: Sequence[str]) -> list[str]:
    """Return the columns that are called as columns of labels often are."""
    return [name for name in names if _LIKELY_LABELS.match(name)]


def excerpt(text: str, width: int = 60) -> str:
    """Return the start of a text, quoted, for an error message."""
    return repr(text if len(text) <= width else text[:width] + "...")


def listing(names: Sequence[str], limit: int = 12) -> str:
    """Return the first names for an error message, long ones cut, and how many more there are."""
    shown = ", ".join(excerpt(str(name)) for name in names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown
