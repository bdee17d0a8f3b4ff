"""The command ``methods``: what there is, and what each parameter means."""

import inspect
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from pmlkit.cli.output import emit, plain_table, printable
from pmlkit.cli.params import Common
from pmlkit.cli.steps import find_method

if TYPE_CHECKING:
    from pmlkit.methods.base import BasePML

__all__ = ["methods"]

_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\S.*?) : .*\n((?:[ ]{4}.*\n|\n)*)", re.MULTILINE)
_FORMULA = re.compile(r"[:.]?\s*^\.\. math::\n(?:\n|[ ]+.*\n?)*", re.MULTILINE)
_ROLE = re.compile(r":\w+:`~?([^`]*)`")


def methods(
    common: Common,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Show the parameters of this one.", show_default=False)
    ] = None,
) -> None:
    """List the methods, or show one with its parameters."""
    if name is None:
        _list_all(common)
    else:
        _show_one(find_method(name), common)


def _list_all(common: Common) -> None:
    from pmlkit.methods import all_methods, summary

    lines = {name: _plain(summary(method)) for name, method in all_methods().items()}
    table = plain_table("method", "what it does")
    for name, line in lines.items():
        table.add_row(Text(name, style="bold"), Text(line))
    hint = Text("pmlkit methods NAME shows the parameters of one.", style="dim")
    emit(
        {"methods": [{"name": name, "summary": line} for name, line in lines.items()]}, table, hint, as_json=common.json
    )


def _show_one(method: "type[BasePML]", common: Common) -> None:
    doc = inspect.cleandoc(method.__doc__ or "")
    explained = _parameters(doc)
    defaults = {name: p.default for name, p in inspect.signature(method).parameters.items()}
    about = _plain(_prose(doc))
    facts = {
        "name": method.__name__,
        "summary": about.partition("\n")[0],
        "parameters": [
            {"name": name, "default": default, "meaning": explained.get(name, "")} for name, default in defaults.items()
        ],
    }
    table = plain_table("parameter", "default", "meaning")
    for name, default in defaults.items():
        table.add_row(Text(name, style="bold"), Text(_as_typed(default)), Text(explained.get(name, "")))
    heading = Text(method.__name__, style="bold")
    example = Text(f"pmlkit fit FILE -m {method.__name__} -p {next(iter(defaults))}=... -o model.skops", style="dim")
    emit(facts, heading, Text(about), table, example, as_json=common.json)


def _prose(doc: str) -> str:
    """Return the text before the first section, without formulas."""
    first = _SECTION.search(doc)
    prose = doc[: first.start()] if first else doc
    prose = _FORMULA.sub(".\n\n", prose)
    paragraphs = [" ".join(part.split()) for part in prose.strip().split("\n\n") if part.strip()]
    return "\n".join(paragraphs)


def _parameters(doc: str) -> dict[str, str]:
    """Return the meaning of each parameter from a numpydoc docstring."""
    sections = list(_SECTION.finditer(doc))
    for position, section in enumerate(sections):
        if section[1] == "Parameters":
            end = sections[position + 1].start() if position + 1 < len(sections) else len(doc)
            body = doc[section.end() : end] + "\n"
            return {
                name.strip(): _plain(" ".join(entry[2].split()))
                for entry in _ENTRY.finditer(body)
                for name in entry[1].split(",")
            }
    return {}


def _plain(text: str) -> str:
    """Return docstring text without its markup."""
    return _ROLE.sub(r"\1", text).replace("``", "").replace("`", "")


def _as_typed(value: Any) -> str:
    """Return a default as one would type it after ``-p name=``."""
    return printable(str(value).lower() if isinstance(value, bool) or value is None else value)
