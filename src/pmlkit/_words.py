"""Words that people type and read: which one was meant, one or many, and nothing but text."""

import difflib
import html
import re
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["counted", "did_you_mean", "fact_table", "grid", "guarded", "letters", "printable", "shortened", "unguarded"]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the start of the next sentence, `` Did you mean 'x'?``, or nothing.

    `word`: what was typed. `known`: what is allowed.
    """
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


def letters(name: str) -> str:
    """Return a name without what people type in different ways: case, hyphens and underscores."""
    return name.lower().replace("-", "").replace("_", "")


def counted(number: int, what: str, many: str | None = None) -> str:
    """Return a number and the noun that fits it.

    `many`: the noun for any other number; by default with an s.
    """
    return f"{number:,} {what if number == 1 else many or what + 's'}"


def shortened(text: str, length: int) -> str:
    """Return a text, or its beginning and an ellipsis."""
    return text if len(text) <= length else text[:length] + "…"


def printable(text: object) -> str:
    r"""Return a text that cannot steer the terminal: one line, without control characters.

    Parameters
    ----------
    text : object
        Whatever came from a file or a library.

    Examples
    --------
    >>> from pmlkit._words import printable
    >>> printable("a\n b\x1b[31m[red]")
    'a b[31m[red]'
    """
    words = "".join(" " if char.isspace() else char if char.isprintable() else "" for char in str(text))
    return " ".join(words.split())


_LEFT = ' style="text-align: left; vertical-align: top; white-space: nowrap"'
_TEXT = ' style="text-align: left"'


def fact_table(caption: str, facts: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and texts; everything is escaped.

    Examples
    --------
    >>> from pmlkit._words import fact_table
    >>> "a &amp; b" in fact_table("a & b", [("rows", "<3")])
    True
    """
    return _table(
        caption, "", "".join(_cell("th", key, _LEFT) + _cell("td", text) + "</tr><tr>" for key, text in facts)
    )


def grid(caption: str, header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table with a header; everything is escaped."""
    head = "".join(_cell("th", text, _LEFT) for text in header)
    body = "".join("".join(_cell("td", text) for text in line) + "</tr><tr>" for line in lines)
    return _table(caption, f"<thead><tr>{head}</tr></thead>", body)


def _table(caption: str, head: str, body: str) -> str:
    rows = f"<tbody><tr>{body.removesuffix('</tr><tr>')}</tr></tbody>"
    return f"<table>{_cell('caption', caption, _LEFT)}{head}{rows}</table>"


def _cell(tag: str, text: str, style: str = _TEXT) -> str:
    return f"<{tag}{style}>{html.escape(text)}</{tag}>"


_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_GUARDED = re.compile(r"''*[=+\-@\t\r]")


def guarded(cell: Any) -> Any:
    """Return a cell with an apostrophe before a text that begins like a formula; numbers stay as they are."""
    if not isinstance(cell, str) or not _FORMULA.match(cell):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def unguarded(text: str) -> str:
    """Undo `guarded`."""
    return text[1:] if _GUARDED.match(text) else text
