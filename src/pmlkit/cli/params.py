"""Options that every command has, dataclasses as groups of options, and ``key=value`` words."""

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from pmlkit.cli.errors import Misuse, start_logging

__all__ = ["Common", "Force", "expand", "key_values", "literal"]

_OUTPUT = "Output"

Force = Annotated[
    bool, typer.Option("--force", metavar="", help="Replace an output that exists.", rich_help_panel=_OUTPUT)
]


@dataclass(frozen=True)
class Common:
    """Options of every command."""

    json: Annotated[
        bool, typer.Option("--json", metavar="", help="Print the facts as JSON, for programs.", rich_help_panel=_OUTPUT)
    ] = False
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            metavar="",
            help="Show what is being done.",
            rich_help_panel=_OUTPUT,
            callback=start_logging,
        ),
    ] = False
    debug: Annotated[
        bool,
        typer.Option(
            "--debug",
            metavar="",
            help="Show the traceback of an error (or set PMLKIT_DEBUG=1).",
            rich_help_panel=_OUTPUT,
        ),
    ] = False


def key_values(words: Iterable[str], option: str) -> dict[str, str]:
    """Split words at their first ``=``.

    `words`: what was typed, such as ``alpha=10``. `option`: the option they were given to, for the error message.

    Examples
    --------
    >>> from pmlkit.cli.params import key_values
    >>> key_values(["alpha=10", "normalize=none"], "--param")
    {'alpha': '10', 'normalize': 'none'}
    """
    values: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key.isidentifier():
            raise Misuse(f"{option} takes KEY=VALUE, such as {option} missing=mean or {option} alpha=10; got {word!r}.")
        if key in values:
            raise Misuse(f"{option} gives {key!r} more than once.")
        values[key] = value.strip()
    return values


def literal(text: str) -> bool | int | float | str | None:
    """Return what a typed value means: a number, true, false, none, or else the text itself."""
    words: dict[str, bool | None] = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def expand(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command as typer wants it: a parameter that is a dataclass becomes one option per field.

    `function`: a command whose annotations may be dataclasses with `typer.Option` in their fields. Returns: the same
    command with a flat signature.
    """
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        kind = parameter.annotation
        if not dataclasses.is_dataclass(kind):
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[parameter.name] = kind
        hints = typing.get_type_hints(kind, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
            )
            for field in dataclasses.fields(kind)
        ]

    @functools.wraps(function)
    def command(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in dataclasses.fields(kind)})
        function(**values)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def check_shares(**shares: float) -> None:
    """Refuse options that must be shares between 0 and 1.

    Examples
    --------
    >>> from pmlkit.cli.params import check_shares
    >>> check_shares(precision=0.9)
    """
    for name, value in shares.items():
        if not 0 < value < 1:
            hint = f" For {value:g} % write --{name} {value / 100:g}." if 1 < value < 100 else ""
            raise Misuse(f"--{name} must be between 0 and 1, got {value:g}.{hint}")
