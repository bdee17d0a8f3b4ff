"""The report as a page: what `summarise` found, rendered by a template that escapes everything."""

import os
from importlib import resources
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined

from pmlkit._files import check_target, replacing
from pmlkit.cleaning.summary import summarise

if TYPE_CHECKING:
    from pmlkit.cleaning.audit import Audit
    from pmlkit.cleaning.result import CleaningResult

__all__ = ["render_report", "write_report"]


def render_report(summary: dict[str, Any]) -> str:
    """Return the page.

    Parameters
    ----------
    summary : dict
        From `pmlkit.cleaning.summary.summarise`.

    Examples
    --------
    >>> from pmlkit.cleaning import clean
    >>> from pmlkit.cleaning.report import render_report
    >>> from pmlkit.cleaning.summary import summarise
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(200)
    >>> page = render_report(summarise(clean(strips.X, strips.Y), title="<Strips>"))
    >>> "&lt;Strips&gt;" in page, "<Strips>" in page, "http" in page
    (True, False, False)
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"percent": _percent, "count": _count}
    source = resources.files("pmlkit.cleaning").joinpath("templates", "report.html.j2").read_text(encoding="utf-8")
    return environment.from_string(source).render(summary)


def write_report(
    result: "CleaningResult",
    path: str | os.PathLike[str],
    *,
    title: str,
    precision: float = 0.9,
    keep_at_least_one: bool = True,
    audit: "Audit | None" = None,
    force: bool = False,
) -> None:
    """Write the report of a result, whole or not at all."""
    target = check_target(path, force=force)
    page = render_report(
        summarise(result, title=title, precision=precision, keep_at_least_one=keep_at_least_one, audit=audit)
    )
    with replacing(target) as stream:
        # A lone surrogate in somebody's text must not cost the whole page.
        stream.write(page.encode("utf-8", errors="replace"))


def _percent(share: float | None) -> str:
    if share is None:
        return "–"
    return "<\u20091\u00a0%" if 0 < share < 0.005 else f"{100 * share:.0f}\u00a0%"


def _count(number: int, noun: str = "") -> str:
    shown = f"{number:,}".replace(",", "\u202f")
    return f"{shown} {noun}{'' if number == 1 else 's'}" if noun else shown
