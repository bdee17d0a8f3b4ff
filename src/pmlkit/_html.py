"""Short HTML tables for notebooks."""

import html
from collections.abc import Iterable, Sequence

__all__ = ["fact_table", "grid"]

_LEFT = ' style="text-align: left; vertical-align: top; white-space: nowrap"'
_TEXT = ' style="text-align: left"'


def fact_table(caption: str, facts: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and texts; everything is escaped.

    Examples
    --------
    >>> from pmlkit._html import fact_table
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
