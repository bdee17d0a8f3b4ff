"""Words that people type and read: which one was meant, one or many, and nothing but text."""

import difflib
from collections.abc import Iterable

__all__ = ["counted", "did_you_mean", "letters", "printable"]


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
