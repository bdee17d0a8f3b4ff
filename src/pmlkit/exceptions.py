"""What pmlkit raises and warns with, beyond Python's own."""

from collections.abc import Callable
from typing import Any

__all__ = ["DataError", "MethodError", "PMLWarning"]


def _keyword(option: str, value: str | None) -> str:
    return f"{option}={value or ''}"


class _Message(Exception):
    """A sentence for a person, and what it is about as attributes.

    The message names no option itself. Where one helps, `option`, `value` and `remedy` make a last sentence
    ("Pass sep=';'."), so that each interface can spell the option as its users type it.
    """

    def __init__(
        self,
        message: str,
        *,
        option: str | None = None,
        value: str | None = None,
        remedy: str = "",
        column: str | None = None,
        line: int | None = None,
        row: int | None = None,
        path: str | None = None,
    ) -> None:
        self.message, self.option, self.value, self.remedy = message, option, value, remedy
        self.column, self.line, self.row, self.path = column, line, row, path
        super().__init__(self.sentence())

    def sentence(self, spell: Callable[[str, str | None], str] = _keyword) -> str:
        """Return the whole text; `spell` makes what the reader types of an option and its value (or None)."""
        start = f"{self.path}: " if self.path else ""
        end = f" Pass {spell(self.option, self.value)}{self.remedy}." if self.option else ""
        return f"{start}{self.message}{end}"

    def replace(self, **changes: Any) -> Any:
        """Return the same message with some attributes changed."""
        kept = {name: getattr(self, name) for name in ("option", "value", "remedy", "column", "line", "row", "path")}
        message = changes.pop("message", self.message)
        return type(self)(message, **(kept | changes))


class DataError(_Message, ValueError):
    """A file or table that cannot be used; the message is one sentence for a person.

    Parameters
    ----------
    message : str
        What is wrong.
    option, value, remedy : str, optional
        The argument that mends it, what to pass, and further words after it.
    column, line, row, path : optional
        Where it is: the column's name, the line counted from 1, the row of the table counted from 0, the name of the
        file.

    Examples
    --------
    >>> from pmlkit.exceptions import DataError
    >>> error = DataError("no cell holds ','.", option="sep", value="';'", column="tags", path="posts.csv")
    >>> print(error)
    posts.csv: no cell holds ','. Pass sep=';'.
    >>> error.option, error.column
    ('sep', 'tags')
    """


class MethodError(ValueError):
    """A method, or a parameter of one, that does not exist or has a wrong value.

    Parameters
    ----------
    message : str
        One sentence with the remedy.
    word : str
        The name of the method or parameter that is wrong.

    Examples
    --------
    >>> from pmlkit import make_classifier
    >>> make_classifier("MLkN")
    Traceback (most recent call last):
        ...
    pmlkit.exceptions.MethodError: There is no method 'MLkN'. Did you mean 'MLkNN'? ...
    """

    def __init__(self, message: str, word: str = "") -> None:
        super().__init__(message)
        self.word = word


class PMLWarning(_Message, UserWarning):
    """Something a user should know, though the result stands. The parameters are those of `DataError`.

    Examples
    --------
    >>> import warnings
    >>> from pmlkit.exceptions import PMLWarning
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warnings.warn(PMLWarning("2 columns are constant."))
    >>> print(caught[0].message)
    2 columns are constant.
    """
