"""Words that people type and read: which one was meant, one or many, names of metrics, and nothing but text."""

import difflib
import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the start of the next sentence, `` Did you mean 'x'?``, or nothing.

    `word`: what was typed. `known`: what is allowed.
    """
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


def check_choice(word: str, allowed: Iterable[str], name: str) -> None:
    """Refuse a word that is none of those allowed; `name` is that of the argument or option."""
    allowed = list(allowed)
    if word not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {word!r}.{did_you_mean(str(word), allowed)}")


def letters(name: str) -> str:
    """Return a name without what people type in different ways: case, hyphens and underscores."""
    return name.lower().replace("-", "").replace("_", "")


def counted(number: int, what: str, many: str | None = None) -> str:
    """Return a number and the noun that fits it.

    `many`: the noun for any other number; by default with an s, or es after an s.
    """
    return f"{number:,} {what if number == 1 else many or what + ('es' if what.endswith('s') else 's')}"


def between(low: float, high: float) -> str:
    """Return an interval of shares in per cent, with a decimal where its ends would look the same.

    Examples
    --------
    >>> from pmlkit._words import between
    >>> between(0.1, 0.25), between(0.001, 0.002), between(0.0, 0.0001)
    ('between 10 % and 25 %', 'between 0.1 % and 0.2 %', 'less than 0.1 %')
    """
    if high < 0.0005:
        return "less than 0.1 %"
    ends = [f"{100 * share:.0f} %" for share in (low, high)]
    if ends[0] == ends[1]:
        ends = [f"{100 * share:.1f} %" for share in (low, high)]
    return f"between {ends[0]} and {ends[1]}"


def shortened(text: str, length: int) -> str:
    """Return a text, or its beginning and an ellipsis."""
    return text if len(text) <= length else text[:length] + "…"


def excerpt(text: str, width: int = 60) -> str:
    """Return the start of a text, quoted, for an error message."""
    return repr(text if len(text) <= width else text[:width] + "...")


def listing(names: Iterable[object], limit: int = 12) -> str:
    """Return the first names in quotes, long ones cut, and how many more there are."""
    items = list(names)
    shown = ", ".join(excerpt(str(name)) for name in items[:limit])
    return f"{shown} and {len(items) - limit} more" if len(items) > limit else shown


def printable(text: object) -> str:
    """Return a text that cannot control the terminal: one line, without control characters."""
    words = "".join(" " if char.isspace() else char if char.isprintable() else "" for char in str(text))
    return " ".join(words.split())


_STEERING = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def harmless(value: Any) -> Any:
    """Return a text for a page without control characters and without those that reorder what follows them."""
    return type(value)(_STEERING.sub("", value)) if isinstance(value, str) and _STEERING.search(value) else value


_LEFT = ' style="text-align: left; vertical-align: top; white-space: nowrap"'
_TEXT = ' style="text-align: left"'


def fact_table(caption: str, facts: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and texts; everything is escaped."""
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
    return f"<{tag}{style}>{html.escape(harmless(text))}</{tag}>"


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


@dataclass(frozen=True)
class MetricInfo:
    """Description of a metric.

    `key`: column of the results. `name`: name in a sentence. `short`: name as the header of a narrow column.
    """

    key: str
    name: str
    short: str
    lower_is_better: bool = False

    @property
    def arrow(self) -> str:
        """Down for losses, up otherwise."""
        return "↓" if self.lower_is_better else "↑"


FIVE = (
    MetricInfo("hamming_loss", "Hamming loss", "Hamming", lower_is_better=True),
    MetricInfo("ranking_loss", "ranking loss", "ranking", lower_is_better=True),
    MetricInfo("one_error", "one-error", "one-error", lower_is_better=True),
    MetricInfo("coverage", "coverage", "coverage", lower_is_better=True),
    MetricInfo("average_precision", "average precision", "precision"),
)
"""The five metrics that papers on partial multi-label learning report."""

F1 = (MetricInfo("micro_f1", "micro F1", "micro F1"), MetricInfo("macro_f1", "macro F1", "macro F1"))

CLEANING = (
    MetricInfo("cleaning_auc", "cleaning AUC", "AUC"),
    MetricInfo("cleaning_average_precision", "cleaning precision", "precision"),
)
"""Metrics of how well false candidates are found."""

PRECISION_AT = MetricInfo("precision_at", "share of wrong labels in the least confident tenth", "wrong in first tenth")

METRICS = (*FIVE, *F1, *CLEANING)
"""All metrics of a benchmark cell, in table order."""
