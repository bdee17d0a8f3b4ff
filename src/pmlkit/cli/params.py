"""Options that several commands share: output, methods and models, ``key=value`` words, and dataclasses as groups."""

import dataclasses
import functools
import inspect
import sys
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmlkit._files import check_target
from pmlkit.cli.errors import Misuse, start_logging
from pmlkit.cli.progress import Watch
from pmlkit.exceptions import DataError, MethodError

if TYPE_CHECKING:
    from pmlkit.methods.base import BasePML

__all__ = [
    "Common",
    "Force",
    "Jobs",
    "MethodName",
    "MethodParams",
    "ModelFile",
    "build_model",
    "check_output",
    "expand",
    "find_method",
    "follow",
    "key_values",
    "limit_jobs",
    "literal",
    "load_model",
    "look_here_for_modules",
]


def check_output(target: Path, *inputs: Path, force: bool) -> None:
    """Refuse an output that cannot be written, or that is an input, before the work begins.

    `target`: where a result is to be written. `*inputs`: the files that are read; they are safe from ``--force``, too.
    `force`: whether another file that is there may be replaced.
    """
    side_files = _label_files(inputs) if target.suffix.lower() == ".xml" else []
    for source in (*inputs, *side_files):
        if target.exists() and source.exists() and target.samefile(source):
            raise Misuse(f"{str(target)!r} is the input: it is never overwritten, so choose another output.")
    check_target(target, force=force)


def _label_files(inputs: Sequence[Path]) -> list[Path]:
    """Return the label files that are read because they lie beside an ARFF file."""
    from pmlkit.data.files.arff_header import find_label_xml
    from pmlkit.data.files.registry import stem

    found = (find_label_xml(source.parent, stem(source)) for source in inputs)
    return [xml for xml in found if xml is not None]


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
        help="A parameter of the method, repeatable; `pmlkit methods NAME` lists them.",
    ),
]

Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        min=1,
        metavar="N",
        help="Processor cores to use at most, by linear algebra and by methods that have n_jobs.",
        show_default=False,
    ),
]


def limit_jobs(jobs: int | None, model: Any = None) -> None:
    """Keep the process, and the method where it works in parallel, to so many cores; `--param n_jobs=` has priority."""
    if jobs is None:
        return
    from threadpoolctl import threadpool_limits

    threadpool_limits(limits=jobs)
    if model is not None and model.get_params().get("n_jobs", 0) is None:
        model.set_params(n_jobs=jobs)


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
    """Report the iterations of a fit, if scikit-learn has callbacks (1.9 and newer)."""
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


_output_option = functools.partial(typer.Option, metavar="", rich_help_panel="Output")

Force = Annotated[bool, _output_option("--force", help="Replace an output that exists.")]


@dataclass(frozen=True)
class Common:
    """Options of every command."""

    json: Annotated[bool, _output_option("--json", help="Print the facts as JSON, for programs.")] = False
    verbose: Annotated[
        bool,
        _output_option("--verbose", "-v", help="Show what is being done.", callback=start_logging),
    ] = False
    debug: Annotated[
        bool,
        _output_option("--debug", help="Show the traceback of an error (or set PMLKIT_DEBUG=1)."),
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
