"""Text in CSV files that a spreadsheet must not take for a formula."""

import re
from typing import Any

__all__ = ["guarded", "unguarded"]

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
