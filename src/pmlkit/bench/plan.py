"""What is to be run: data sets x noise x methods x repeats."""

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pmlkit._words import did_you_mean
from pmlkit.bench.plan_words import (
    Noise,
    PlanError,
    check_kinds,
    check_list,
    check_noise,
    check_params,
    is_whole,
    load_method,
    stem,
)
from pmlkit.bench.seeds import canonical_json
from pmlkit.data.noise import NoiseKind
from pmlkit.methods import all_methods
from pmlkit.metrics import scorers

__all__ = ["DIGIT_STRIPS", "DataEntry", "MethodEntry", "Plan", "Tune", "Variant"]

DIGIT_STRIPS = "digit-strips"
_DEFAULT_STRIPS = 2000


@dataclass(frozen=True)
class Tune:
    """How parameters are chosen inside the training rows.

    Attributes
    ----------
    folds : int
        Of the inner cross-validation.
    measure : str
        A key of `pmlkit.metrics.scorers`; it is computed on the candidates of the held-out rows, never on the truth.
    """

    folds: int = 3
    measure: str = "average_precision"

    def __post_init__(self) -> None:
        if not is_whole(self.folds, at_least=2):
            raise PlanError(f"folds must be a whole number of at least 2, got {self.folds!r}.", "tune", "folds")
        if self.measure not in scorers:
            raise PlanError(
                f"There is no measure {self.measure!r}.{did_you_mean(str(self.measure), scorers)} "
                f"There are {', '.join(scorers)}.",
                "tune",
                str(self.measure),
            )


@dataclass(frozen=True)
class DataEntry:
    """A data set of a plan.

    Attributes
    ----------
    name : str
        What results are filed under. Without a `path`: ``digit-strips``, ``digit-strips:500`` (that many rows), or
        a file ``<name>.npz`` in `pmlkit.data.data_home`.
    path : str, optional
        A file that `pmlkit.data.read` reads.
    options : dict
        Options of `pmlkit.data.read`.
    noise, kinds : tuple, optional
        Instead of those of the plan.
    """

    name: str
    path: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    noise: tuple[Noise, ...] | None = None
    kinds: tuple[NoiseKind, ...] | None = None

    @classmethod
    def of(cls, given: Any) -> "DataEntry":
        """Make one from a name, a path, or a mapping of `name`, `path`, `noise`, `kinds` and options."""
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
        """The number of digit strips, or None for a data set from a file.

        Examples
        --------
        >>> from pmlkit.bench.plan import DataEntry
        >>> DataEntry("digit-strips:500").n_strips, DataEntry("scene").n_strips
        (500, None)
        """
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
    """A method with its parameters, as it is run: `grid` is what is still to be chosen."""

    label: str
    method: str
    params: Mapping[str, Any]
    grid: Mapping[str, tuple[Any, ...]]

    @property
    def shown_params(self) -> str:
        """All that differs from the defaults, as canonical JSON."""
        return canonical_json({**self.params, **{key: list(values) for key, values in self.grid.items()}})


@dataclass(frozen=True)
class MethodEntry:
    """A method of a plan.

    Attributes
    ----------
    name : str
        As `pmlkit methods` lists it, or ``module:Class`` for one of your own.
    params : dict
        Parameters that differ from the defaults.
    grid : dict of sequences
        Parameters with several values: all combinations are run, or chosen from if the plan tunes.
    label : str, optional
        What results are filed under; by default the method with its parameters.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    label: str | None = None

    @classmethod
    def of(cls, given: Any) -> "MethodEntry":
        """Make one from a name or a mapping of `name`, `params`, `grid` and `label`."""
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
        """Return what is run: one variant if the grid is tuned over, else all its combinations."""
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


@dataclass(frozen=True)
class Plan:
    """Data sets x noise x methods x repeats.

    Parameters
    ----------
    data : sequence of str, dict or DataEntry
        Names, paths, or tables; see `DataEntry`.
    methods : sequence of str, dict or MethodEntry
        Names or tables; see `MethodEntry`. By default every method there is.
    noise : sequence of float and "own", default=("own", 0.5)
        False candidates per true label. With ``"own"`` in it, a data set that has candidates of its own is run with
        these and with nothing else, and the numbers are for the others.
    kinds : sequence of {"uniform", "correlated", "confusable"}, default=("uniform",)
        Kinds of noise.
    repeats : int, default=10
        Random splits of each data set.
    seed : int, default=0
        Where all seeds come from.
    tune : bool, dict or Tune, default=None
        Choose among the values of a method's grid inside the training rows, instead of running all of them.

    Examples
    --------
    >>> from pmlkit.bench import Plan
    >>> plan = Plan(
    ...     data=["digit-strips:100"],
    ...     methods=["MLkNN", {"name": "PMLLFC", "label": "oF", "params": {"similarity": "features"}}],
    ...     noise=[0.5, 1],
    ...     repeats=2,
    ... )
    >>> [variant.label for variant in plan.variants()]
    ['MLkNN', 'oF']
    >>> Plan(data=["scene"], methods=["PMLFC"])
    Traceback (most recent call last):
        ...
    pmlkit.bench.plan_words.PlanError: There is no method 'PMLFC'. Did you mean 'PMLLFC'? ...
    """

    data: tuple[DataEntry, ...]
    methods: tuple[MethodEntry, ...] = ()
    noise: tuple[Noise, ...] = ("own", 0.5)
    kinds: tuple[NoiseKind, ...] = ("uniform",)
    repeats: int = 10
    seed: int = 0
    tune: Tune | None = None

    def __init__(
        self,
        data: Iterable[Any],
        methods: Iterable[Any] | None = None,
        *,
        noise: Any = ("own", 0.5),
        kinds: Any = ("uniform",),
        repeats: int = 10,
        seed: int = 0,
        tune: Any = None,
    ) -> None:
        if not is_whole(repeats, at_least=1):
            raise PlanError(f"repeats must be a whole number of at least 1, got {repeats!r}.", "repeats", "repeats")
        if not is_whole(seed, at_least=0):
            raise PlanError(f"seed must be a whole number, 0 or more, got {seed!r}.", "seed", "seed")
        values = {
            "data": tuple(DataEntry.of(given) for given in check_list(data, "data")),
            "methods": tuple(
                MethodEntry.of(given)
                for given in (all_methods() if methods is None else check_list(methods, "methods"))
            ),
            "noise": check_noise(noise, "noise"),
            "kinds": check_kinds(kinds, "kinds"),
            "repeats": repeats,
            "seed": seed,
            "tune": _tune(tune),
        }
        for key, value in values.items():
            object.__setattr__(self, key, value)
        self._check()

    def _check(self) -> None:
        if not self.data or not self.methods:
            missing = "methods" if self.data else "data"
            raise PlanError(f"A plan needs {missing}: {missing} is empty.", missing, missing)
        for what, names in (("data", [d.name for d in self.data]), ("methods", [v.label for v in self.variants()])):
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                other = "name" if what == "data" else "label"
                raise PlanError(f"{twice!r} is there twice: give one of them another {other}.", what, twice)
        if self.tune and not any(entry.grid for entry in self.methods):
            raise PlanError(
                "There is nothing to tune: give at least one method a grid, such as alpha = [1, 10, 100].",
                "tune",
                "tune",
            )

    def variants(self) -> list[Variant]:
        """Return the methods with their parameters, as they are run."""
        return [variant for entry in self.methods for variant in entry.variants(tuned=self.tune is not None)]


def _words(params: Mapping[str, Any]) -> list[str]:
    return [f"{key}={value}" for key, value in params.items()]


def _tune(given: Any) -> Tune | None:
    if given is None or given is False:
        return None
    if isinstance(given, Tune):
        return given
    if given is True:
        return Tune()
    known = ("folds", "measure")
    if not isinstance(given, Mapping):
        raise PlanError(f"tune must be true, false or a table, got {given!r}.", "tune", "tune")
    for key in given:
        if key not in known:
            raise PlanError(f"tune has no {key!r}.{did_you_mean(key, known)} It has folds and measure.", "tune", key)
    return Tune(**given)
