"""Entries of a plan: data sets, methods with their parameters, tuning; each is checked when it is made."""

import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pmlkit import methods
from pmlkit._words import did_you_mean
from pmlkit.data.noise import NoiseKind
from pmlkit.exceptions import MethodError
from pmlkit.methods import find_method
from pmlkit.metrics import scorers

DIGIT_STRIPS = "digit-strips"
_DEFAULT_STRIPS = 2000
Noise = float | Literal["own"]


class PlanError(ValueError):
    r"""An error in a plan.

    Parameters
    ----------
    message : str
        One sentence with cause, value and remedy.
    section : str
        Key of the plan that is wrong.
    word : str
        Word that is wrong, to find its line in a file.

    Examples
    --------
    >>> from pmlkit.bench import parse_plan
    >>> parse_plan('data = ["digit-strips"]\nmethods = ["MLkNN"]\nrepeats = 0')
    Traceback (most recent call last):
        ...
    pmlkit.bench.plan_entries.PlanError: plan, line 3: repeats must be a whole number of at least 1 ...
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
    """Return the value of a key that must be a list."""
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
    """Return whether a value is an integer of at least `at_least`."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= at_least


def stem(path: str) -> str:
    """Return the name of a file without its suffixes."""
    name = os.path.basename(path)
    for suffix in (".gz", ".bz2"):
        name = name.removesuffix(suffix)
    return os.path.splitext(name)[0] or name


@dataclass(frozen=True)
class Tune:
    """Tuning of parameters by cross-validation on the training rows.

    `folds`: number of folds. `metric`: key of `pmlkit.metrics.scorers`; computed on the candidates of the held-out
    rows, never on the truth.
    """

    folds: int = 3
    metric: str = "average_precision"

    def __post_init__(self) -> None:
        if not is_whole(self.folds, at_least=2):
            raise PlanError(f"folds must be a whole number of at least 2, got {self.folds!r}.", "tune", "folds")
        if self.metric not in scorers:
            raise PlanError(
                f"There is no metric {self.metric!r}.{did_you_mean(str(self.metric), scorers)} "
                f"There are {', '.join(scorers)}.",
                "tune",
                str(self.metric),
            )


@dataclass(frozen=True)
class DataEntry:
    """A data set of a plan.

    - `name`: name in the results. Without a `path`: ``digit-strips``, ``digit-strips:500`` (that many rows), or a file
      ``<name>.npz`` in `pmlkit.data.data_home`.
    - `path`: file for `pmlkit.data.read`.
    - `options`: options of `pmlkit.data.read`.
    - `noise`, `kinds`: override those of the plan.
    """

    name: str
    path: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    noise: tuple[Noise, ...] | None = None
    kinds: tuple[NoiseKind, ...] | None = None

    @classmethod
    def of(cls, given: Any) -> "DataEntry":
        """Return an entry for a name, a path, or a mapping of `name`, `path`, `noise`, `kinds` and options."""
        if isinstance(given, cls):
            return given
        if isinstance(given, str | os.PathLike):
            text = os.fspath(given)
            is_path = os.sep in text or os.path.isfile(text)
            return cls(stem(text), path=text) if is_path else cls(text)
        if not isinstance(given, Mapping):
            raise PlanError(f"A data set is a name, a path or a table, got {given!r}.", "data", str(given))
        options = dict(given)
        path, name = options.pop("path", None), options.pop("name", None)
        noise, kinds = options.pop("noise", None), options.pop("kinds", None)
        if name is None and path is None:
            raise PlanError(f"A data set needs a name or a path, got {dict(given)!r}.", "data", next(iter(given), ""))
        if options and path is None:
            key = next(iter(options))
            raise PlanError(
                f"A named data set has no {key!r}.{did_you_mean(key, _DATA_KEYS)} It has {', '.join(_DATA_KEYS)}; "
                "with a path also the options of pmlkit.data.read.",
                "data",
                key,
            )
        return cls(
            str(name if name is not None else stem(str(path))),
            path=None if path is None else str(path),
            options=options,
            noise=None if noise is None else check_noise(noise, "data"),
            kinds=None if kinds is None else check_kinds(kinds, "data"),
        )

    @property
    def n_strips(self) -> int | None:
        """Number of digit strips, or None for a data set from a file."""
        name, _, number = self.name.partition(":")
        if self.path is not None or name != DIGIT_STRIPS:
            return None
        if number and not (number.isdecimal() and int(number) >= 10):
            raise PlanError(
                f"{DIGIT_STRIPS}:N takes a whole number of at least 10 strips, got {self.name!r}.", "data", self.name
            )
        return int(number or _DEFAULT_STRIPS)


_DATA_KEYS = ("name", "path", "noise", "kinds")


@dataclass(frozen=True)
class Variant:
    """A method with its parameters; `grid` holds the values that are tuned over."""

    label: str
    method: str
    params: Mapping[str, Any]
    grid: Mapping[str, tuple[Any, ...]]

    @property
    def shown_params(self) -> str:
        """Parameters that differ from the defaults, as JSON with sorted keys."""
        params = {**self.params, **{key: list(values) for key, values in self.grid.items()}}
        return json.dumps(params, sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True)
class MethodEntry:
    """A method of a plan.

    - `name`: name listed by `pmlkit methods`, or ``module:Class`` for a class of your own.
    - `params`: parameters that differ from the defaults.
    - `grid`: parameters with several values: all combinations are run, or tuned over if the plan tunes.
    - `label`: name in the results; by default the method with its parameters.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    label: str | None = None

    @classmethod
    def of(cls, given: Any) -> "MethodEntry":
        """Return an entry for a name or a mapping of `name`, `params`, `grid` and `label`."""
        if isinstance(given, cls):
            return given
        values: Any = {"name": given} if isinstance(given, str) else given
        if not isinstance(values, Mapping) or not isinstance(values.get("name"), str):
            raise PlanError(f"A method is a name or a table with a name, got {given!r}.", "methods", str(given))
        known = ("name", "params", "grid", "label")
        for key in values:
            if key not in known:
                raise PlanError(
                    f"A method has no {key!r}.{did_you_mean(key, known)} It has {', '.join(known)}.", "methods", key
                )
        for key in ("params", "grid"):
            if not isinstance(values.get(key, {}), Mapping):
                raise PlanError(f"{key} must be a table, got {values[key]!r}.", "methods", key)
        method = load_method(values["name"])
        name = values["name"] if ":" in values["name"] else method.__name__
        params, grid = dict(values.get("params", {})), dict(values.get("grid", {}))
        for key, choices in grid.items():
            if isinstance(choices, str) or not isinstance(choices, Sequence) or not len(choices):
                raise PlanError(f"grid needs a list of values for {key!r}, got {choices!r}.", "methods", key)
        entry = cls(name, params, {key: tuple(choices) for key, choices in grid.items()}, values.get("label"))
        for variant in entry.variants(tuned=False):
            check_params(method, variant.params)
        return entry

    def variants(self, *, tuned: bool) -> list[Variant]:
        """Return the variants to run: one if the grid is tuned over, else all its combinations."""
        base = self.label or self.name.rpartition(":")[2]
        if tuned and self.grid:
            fixed = _words(self.params) if self.label is None else []
            return [Variant(f"{base}({', '.join([*fixed, 'tuned'])})", self.name, self.params, self.grid)]
        found = []
        for values in itertools.product(*self.grid.values()):
            chosen = dict(zip(self.grid, values, strict=True))
            params = {**self.params, **chosen}
            words = _words(params if self.label is None else chosen)
            found.append(Variant(f"{base}({', '.join(words)})" if words else base, self.name, params, {}))
        return found


def _words(params: Mapping[str, Any]) -> list[str]:
    return [f"{key}={value}" for key, value in params.items()]
