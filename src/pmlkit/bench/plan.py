"""A plan: data sets x noise x methods x repeats, from Python or from a TOML file."""

import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmlkit._words import did_you_mean
from pmlkit.bench.plan_entries import (
    DataEntry,
    MethodEntry,
    Noise,
    PlanError,
    Tune,
    Variant,
    check_kinds,
    check_list,
    check_noise,
    is_whole,
)
from pmlkit.data.noise import NoiseKind
from pmlkit.methods import all_methods

_KEYS = ("data", "methods", "noise", "kinds", "repeats", "seed", "tune")
_MOST_REPEATS = 1_000_000
_NAME = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_TOP = re.compile(rf"\s*(?:\[\[?\s*(?P<header>{_NAME})[^\]]*\]|(?P<key>{_NAME})[\s.\w-]*=)")


@dataclass(frozen=True)
class Plan:
    """Data sets x noise x methods x repeats.

    Parameters
    ----------
    data : sequence of str, dict or DataEntry
        Names (``"scene"``, ``"digit-strips:500"``), paths, or tables of ``name``, ``path``, ``noise``, ``kinds`` and,
        with a path, the options of `pmlkit.data.read`; see `pmlkit.bench.plan_entries.DataEntry`.
    methods : sequence of str, dict or MethodEntry
        Names or tables of ``name``, ``params``, ``grid`` and ``label``; see `pmlkit.bench.plan_entries.MethodEntry`.
        By default all methods.
    noise : sequence of float and "own", default=("own", 0.5)
        False candidates per true label. With ``"own"``, a data set that has candidates of its own is run only with
        these; the ratios are for the others.
    kinds : sequence of {"uniform", "correlated", "confusable"}, default=("uniform",)
        Kinds of noise.
    repeats : int, default=10
        Number of random splits of each data set.
    seed : int, default=0
        Seed that all other seeds are derived from.
    tune : bool, dict or Tune, default=None
        Tune over the values of a method's grid by cross-validation on the training rows, instead of running all of
        them. A dict may have ``folds`` (default 3) and ``metric``, a key of `pmlkit.metrics.scorers` (default
        ``"average_precision"``), which is computed on the candidates, never on the truth.

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
    pmlkit.bench.plan_entries.PlanError: There is no method 'PMLFC'. Did you mean 'PMLLFC'? ...
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
        if not is_whole(repeats, at_least=1) or repeats > _MOST_REPEATS:
            raise PlanError(
                f"repeats must be a whole number of at least 1 and at most {_MOST_REPEATS:,}, got {_shown(repeats)}.",
                "repeats",
                "repeats",
            )
        if not is_whole(seed, at_least=0):
            raise PlanError(f"seed must be a whole number, 0 or more, got {_shown(seed)}.", "seed", "seed")
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
        """Return the methods with their parameters."""
        return [variant for entry in self.methods for variant in entry.variants(tuned=self.tune is not None)]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _tune(given: Any) -> Tune | None:
    if given is None or given is False:
        return None
    if isinstance(given, Tune):
        return given
    if given is True:
        return Tune()
    known = ("folds", "metric")
    if not isinstance(given, Mapping):
        raise PlanError(f"tune must be true, false or a table, got {given!r}.", "tune", "tune")
    for key in given:
        if key not in known:
            raise PlanError(f"tune has no {key!r}.{did_you_mean(key, known)} It has folds and metric.", "tune", key)
    return Tune(**given)


def read_plan(path: str | os.PathLike[str]) -> Plan:
    r"""Read a plan from a TOML file; errors name the line.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    plan : Plan

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pmlkit.bench import read_plan
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "plan.toml")
    ...     _ = path.write_text('data = ["digit-strips"]\nmethods = ["MLkNN"]\nrepeats = 3')
    ...     read_plan(path).repeats
    3
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise PlanError(f"There is no plan {str(file)!r}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"The plan {str(file)!r} cannot be read: {getattr(error, 'strerror', '') or error}.") from error
    return parse_plan(text, name=file.name)


def parse_plan(text: str, *, name: str = "plan") -> Plan:
    r"""Read a plan from TOML text.

    Parameters
    ----------
    text : str
        TOML; `docs/bench.md` lists the keys.
    name : str, default="plan"
        Name of the text in errors.

    Returns
    -------
    plan : Plan

    Examples
    --------
    >>> from pmlkit.bench.plan import parse_plan
    >>> plan = parse_plan('data = ["scene"]\nmethods = ["MLkNN"]\nnoise = [0.5]\nrepeats = 2')
    >>> plan.repeats, plan.noise
    (2, (0.5,))
    >>> parse_plan('data = ["scene"]\nmetods = ["MLkNN"]')
    Traceback (most recent call last):
        ...
    pmlkit.bench.plan_entries.PlanError: plan, line 2: a plan has no 'metods'. Did you mean 'methods'? ...
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        where = f"line {line[1]}" if line else f"line {text.count(chr(10)) + 1}"
        what = str(error).partition(" (at ")[0]
        raise PlanError(f"{name}, {where}: {what[:1].lower()}{what[1:]}.") from error
    except RecursionError as error:
        raise PlanError(f"{name}: its lists and tables are nested too deeply for a plan.") from error
    except ValueError as error:  # Python converts no number of more digits
        raise PlanError(f"{name}: it has a number of more than 4,300 digits, which no plan needs.") from error
    for key in values:
        if key not in _KEYS:
            message = f"a plan has no {key!r}.{did_you_mean(key, _KEYS)} It has {', '.join(_KEYS)}."
            raise PlanError(f"{_place(name, text, key, key)}: {message}")
    if "data" not in values:
        raise PlanError(f'{name}: a plan needs data, such as data = ["scene"].')
    try:
        return Plan(**_with_none(values))
    except PlanError as error:
        where = _place(name, text, error.section, error.word)
        raise PlanError(f"{where}: {error}", error.section, error.word) from error


def _with_none(values: dict[str, Any]) -> dict[str, Any]:
    """Replace the text "none" in parameters of methods by None, which TOML does not have."""
    methods = values.get("methods")
    if isinstance(methods, list):
        values = values | {"methods": [_none_in(entry) for entry in methods]}
    return values


def _none_in(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: item if key in ("name", "label") else _none_in(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_none_in(item) for item in value]
    return None if value == "none" else value


def _place(name: str, text: str, section: str, word: str) -> str:
    line = _line_of(text, section, word)
    return f"{name}, line {line}" if line else name


def _line_of(text: str, section: str, word: str) -> int | None:
    """Return the number of the line of a word in a section of the plan."""
    lines = list(_section_lines(text, section))
    quoted = re.compile(rf"(?<![\w.-]){re.escape(word)}(?![\w.-])") if word else None
    for number, line in lines:
        if quoted and quoted.search(line):
            return number
    return lines[0][0] if lines else None


def _section_lines(text: str, section: str) -> Iterator[tuple[int, str]]:
    table = key = ""
    depth = 0
    for number, line in enumerate(text.splitlines(), start=1):
        bare = re.sub(r"(?<!\S)#.*", "", line)
        top = _TOP.match(bare) if depth == 0 else None
        if top and top["header"]:
            table = top["header"].strip("\"'")
        elif top and not table:  # below a header, keys are those of the table
            key = top["key"].strip("\"'")
        depth += len(re.findall(r"[\[{]", bare)) - len(re.findall(r"[\]}]", bare))
        if (table or key) == section:
            yield number, bare


def plan_text(plan: Plan) -> str:
    """Return a plan as TOML that `parse_plan` reads back.

    Parameters
    ----------
    plan : Plan

    Returns
    -------
    text : str

    Examples
    --------
    >>> from pmlkit.bench import Plan
    >>> from pmlkit.bench.plan import parse_plan, plan_text
    >>> plan = Plan(["scene"], [{"name": "MLkNN", "grid": {"n_neighbors": [5, 10]}}], noise=[0.5])
    >>> print(plan_text(plan))
    noise = [0.5]
    kinds = ["uniform"]
    repeats = 10
    seed = 0
    data = [
        {name = "scene"},
    ]
    methods = [
        {name = "MLkNN", grid = {n_neighbors = [5, 10]}},
    ]
    >>> parse_plan(plan_text(plan)) == plan
    True
    """
    lines = [
        f"noise = {_toml(plan.noise)}",
        f"kinds = {_toml(plan.kinds)}",
        f"repeats = {plan.repeats}",
        f"seed = {plan.seed}",
    ]
    if plan.tune:
        lines.append(f"tune = {_toml({'folds': plan.tune.folds, 'metric': plan.tune.metric})}")
    for key, entries in (("data", map(_data_table, plan.data)), ("methods", map(_method_table, plan.methods))):
        lines += [f"{key} = [", *(f"    {_toml(entry)}," for entry in entries), "]"]
    return "\n".join(lines)


def _data_table(entry: DataEntry) -> dict[str, Any]:
    table = {"name": entry.name, "path": entry.path, "noise": entry.noise, "kinds": entry.kinds}
    return {key: value for key, value in table.items() if value is not None} | dict(entry.options)


def _method_table(entry: MethodEntry) -> dict[str, Any]:
    table = {"name": entry.name, "label": entry.label, "params": entry.params, "grid": entry.grid}
    return {key: value for key, value in table.items() if value}


def _toml(value: Any) -> str:
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, int | float):
        return repr(value)
    return _quoted(str(value))


def _key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key, re.ASCII) else _quoted(key)


def _quoted(text: str) -> str:
    # JSON's escapes are TOML's, but for surrogate pairs, which ensure_ascii=False avoids, and for DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
