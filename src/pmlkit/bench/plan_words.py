"""The words of a plan, one by one: which are allowed, and what to say of the others."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from pmlkit import methods
from pmlkit._words import did_you_mean
from pmlkit.data.noise import NoiseKind
from pmlkit.exceptions import MethodError
from pmlkit.methods import find_method

__all__ = [
    "Noise",
    "PlanError",
    "check_kinds",
    "check_list",
    "check_noise",
    "check_params",
    "is_whole",
    "load_method",
    "stem",
]

Noise = float | Literal["own"]


class PlanError(ValueError):
    """A plan that cannot be meant.

    Parameters
    ----------
    message : str
        One sentence for a person.
    section : str
        The key of the plan in which it went wrong.
    word : str
        The word that is wrong, for whoever wants to point at it.
    """

    def __init__(self, message: str, section: str = "", word: str = "") -> None:
        super().__init__(message)
        self.section = section
        self.word = word


def load_method(name: str) -> Any:
    """Return a method's class by its name or ``module:Class``."""
    try:
        return find_method(name)
    except MethodError as error:
        raise PlanError(str(error), "methods", name) from error


def check_params(method: Any, params: Mapping[str, Any]) -> None:
    """Refuse parameters that a method does not have, and values that it does not take."""
    try:
        for key, value in params.items():
            if not isinstance(value, bool | int | float | str | None):
                raise MethodError(
                    f"{key} must be a number, a word, true or false, got {value!r}; several values go into grid.", key
                )
        methods.check_params(method, params)
    except MethodError as error:
        raise PlanError(str(error), "methods", error.word) from error


def check_list(given: Any, key: str) -> list[Any]:
    """Return what must be a list as one."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise PlanError(f"{key} must be a list, got {given!r}.", key, key)
    return list(given)


def check_noise(given: Any, section: str) -> tuple[Noise, ...]:
    """Return noise ratios, and ``own``, as a tuple."""
    values: list[Noise] = []
    for value in check_list(given, section):
        is_ratio = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
        if not is_ratio and value != "own":
            raise PlanError(
                f"noise is false candidates per true label, 0 or more, or 'own', got {value!r}.", section, str(value)
            )
        values.append("own" if value == "own" else float(value))
    if not values or len(set(values)) < len(values):
        raise PlanError(f"noise must list at least one ratio, and none twice, got {values}.", section, "noise")
    return tuple(values)


def check_kinds(given: Any, section: str) -> tuple[NoiseKind, ...]:
    """Return kinds of noise as a tuple."""
    known = get_args(NoiseKind)
    kinds = tuple(check_list(given, section))
    for kind in kinds:
        if kind not in known:
            raise PlanError(
                f"There is no noise kind {kind!r}.{did_you_mean(str(kind), known)} There are {', '.join(known)}.",
                section,
                str(kind),
            )
    if not kinds or len(set(kinds)) < len(kinds):
        raise PlanError(
            f"kinds must list at least one kind of noise, and none twice, got {list(kinds)}.", section, "kinds"
        )
    return kinds


def is_whole(value: Any, at_least: int) -> bool:
    """Tell whether a value is a whole number that is large enough."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= at_least


def stem(path: str) -> str:
    """Return the name of a file without its endings."""
    name = os.path.basename(path)
    for suffix in (".gz", ".bz2"):
        name = name.removesuffix(suffix)
    return os.path.splitext(name)[0] or name
