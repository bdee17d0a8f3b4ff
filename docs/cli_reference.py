"""Every command with all its options, in Markdown, from the commands themselves: ``python docs/cli_reference.py``.

The site's page is made by this, so it cannot differ from ``--help``.
"""

import inspect
import re
from typing import Any

import typer

from pmlkit.cli.app import app

_SHARED = ("Reading the file", "Features of a table", "Output")
_INTRODUCTION = """# All options

Made from the commands themselves, so it says what `pmlkit COMMAND --help` says. [The command line](../cli.md) explains
how they are used. Commands share the options of the first three tables; each then has its own.
"""


def commands() -> dict[str, Any]:
    """Return the commands by name."""
    return dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def reference() -> str:
    """Return the page."""
    shared: dict[str, dict[str, tuple[str, str, str]]] = {panel: {} for panel in _SHARED}
    parts = []
    for name, command in commands().items():
        own, used = [], []
        for param in command.params:
            panel = getattr(param, "rich_help_panel", None)
            line = _line(param)
            if panel in _SHARED and shared[panel].setdefault(param.opts[0], line) == line:
                used += [panel] if panel not in used else []
            elif param.name != "help":
                own.append(line)
        links = [f"[{panel.lower()}](#{panel.lower().replace(' ', '-')})" for panel in used]
        also = f"\n\nAlso the options for {', '.join(links)}." if used else ""
        words = [p.metavar or p.name.upper() for p in _arguments(command)]
        words = [word if p.required else f"[{word}]" for word, p in zip(words, _arguments(command), strict=True)]
        usage = " ".join([f"pmlkit {name}", *words])
        head = f"## {name}\n\n{_text(inspect.cleandoc(command.help or ''))}\n\n`{usage} [OPTIONS]`\n"
        parts.append(head + ("\n" + _table(own) if own else "") + also)
    tables = [f"## {panel}\n\n{_table(list(shared[panel].values()))}" for panel in _SHARED]
    return "\n\n".join([_INTRODUCTION.strip(), *tables, *parts]) + "\n"


def _arguments(command: Any) -> list[Any]:
    return [param for param in command.params if param.param_type_name == "argument"]


def _line(param: Any) -> tuple[str, str, str]:
    """Return an option, its meaning and its default."""
    if param.param_type_name == "argument":
        words = f"`{param.metavar or param.name.upper()}`"
    else:
        metavar = "" if param.is_flag or not param.metavar else f" {param.metavar}"
        words = ", ".join(f"`{word}`" for word in param.opts)
        words += f" {_text(metavar.strip().replace('|', ' | '))}" if metavar else ""
    default = param.show_default if isinstance(param.show_default, str) else param.default
    shown = not (default is None or default is False or default in ((), [])) and param.show_default is not False
    meaning, _, said = (param.help or "").partition(r"\[default: ")
    text = str(default) if shown and not callable(default) else said.removesuffix("]")
    return words, _text(meaning.strip()), _text(text)


def _text(value: object) -> str:
    text = re.sub(r"(?<!\w)'([^' ]+)'(?!\w)", r"`\1`", str(value).replace("|", r"\|"))
    outside = re.split(r"(`[^`]*`)", text)  # what stands between backticks is code already
    outside[::2] = [_prose(part) for part in outside[::2]]
    return "".join(outside)


def _prose(text: str) -> str:
    text = re.sub(r"(?<![\w-])(--[a-z][a-z-]*[a-z])", r"`\1`", text.replace("<", "&lt;").replace("*", r"\*"))
    return re.sub(r"docs/([a-z-]+)\.md", r"[docs/\1.md](../\1.md)", text)


def _table(lines: list[tuple[str, str, str]]) -> str:
    rows = [("option", "meaning", "default"), ("---",) * 3, *lines]
    width = 3 if any(default for *_, default in lines) else 2  # no column without any entry
    return "\n".join(f"| {' | '.join(row[:width])} |" for row in rows)


if __name__ == "__main__":
    print(reference(), end="")
