"""Methods by name and model files, for the commands on models."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmlkit.cli.errors import Misuse
from pmlkit.cli.params import key_values, literal
from pmlkit.cli.progress import Watch
from pmlkit.exceptions import DataError, MethodError

if TYPE_CHECKING:
    from pmlkit.methods.base import BasePML

__all__ = [
    "MethodName",
    "MethodParams",
    "ModelFile",
    "build_model",
    "find_method",
    "follow",
    "load_model",
    "look_here_for_modules",
]


def _complete_method(incomplete: str) -> list[tuple[str, str]]:
    from pmlkit.methods import all_methods, summary

    lower = incomplete.lower()
    return [(name, summary(method)) for name, method in all_methods().items() if name.lower().startswith(lower)]


ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model that `pmlkit fit` wrote.", show_default=False)
]
MethodName = Annotated[
    str,
    typer.Option("--method", "-m", metavar="NAME", help="See `pmlkit methods`.", autocompletion=_complete_method),
]
MethodParams = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        "-p",
        metavar="KEY=VALUE",
        help="A parameter of the method, as often as needed; `pmlkit methods NAME` lists them.",
    ),
]


def look_here_for_modules() -> None:
    """Let ``module:Class`` name a file in the working folder."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def find_method(name: str) -> "type[BasePML]":
    """Return a method by its name, in any case and with or without hyphens."""
    from pmlkit import methods

    look_here_for_modules()
    try:
        found: type[BasePML] = methods.find_method(name)
    except MethodError as error:
        raise Misuse(str(error)) from error
    return found


def build_model(name: str, words: Sequence[str] | None) -> "BasePML":
    """Return an unfitted model from a method's name and ``key=value`` words."""
    from pmlkit.methods import make_classifier

    look_here_for_modules()
    given = {key: literal(value) for key, value in key_values(words or (), "--param").items()}
    try:
        model: BasePML = make_classifier(name, **given)
    except MethodError as error:
        raise Misuse(str(error)) from error
    return model


def follow(model: Any, watch: Watch) -> None:
    """Let a fit report its iterations, where scikit-learn (1.9 and newer) lets it."""
    from pmlkit.methods.progress import FitProgress

    if hasattr(model, "set_callbacks"):
        model.set_callbacks(FitProgress(watch))


def load_model(path: Path) -> "BasePML":
    """Read a fitted model; anything else is refused in a sentence."""
    from sklearn.utils.validation import check_is_fitted

    from pmlkit.methods.base import BasePML
    from pmlkit.persistence import load

    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder: give the path of a model file in it.")
    if not path.exists():
        raise DataError(f"There is no model file {str(path)!r}. Make one with `pmlkit fit`.")
    model = load(path)
    if not isinstance(model, BasePML):
        raise DataError(f"{str(path)!r} holds a {type(model).__name__}, not a model that `pmlkit fit` wrote.")
    check_is_fitted(model)
    return model
