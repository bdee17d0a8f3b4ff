"""Cells of a plan: one method on one split of one data set with one kind and ratio of noise, and what identifies each.

Digests of data and of code make the key of a cell and the seeds: the same input gives the same number anywhere.
"""

import ast
import functools
import hashlib
import importlib.util
import json
import logging
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits

from pmlkit import __version__, _words
from pmlkit._words import did_you_mean
from pmlkit.bench.plan import Plan
from pmlkit.bench.plan_entries import DIGIT_STRIPS, DataEntry, PlanError, Tune, Variant, load_method
from pmlkit.data import PMLDataset, data_home, load_digit_strips, read
from pmlkit.exceptions import DataError

logger = logging.getLogger(__name__)

PROTOCOL = 1
"""Version of the evaluation of a cell; cells of an older version are not current."""

METRICS = tuple(metric.key for metric in _words.METRICS)
"""Keys of the metrics of a cell."""

_SHARED_CODE = ("pmlkit.data.synthetic", "pmlkit.data.noise", "pmlkit.data.splits", "pmlkit.metrics")
KEPT = 3  # data sets, splits and problems cached per process; cells come in order


@dataclass(frozen=True)
class Source:
    """Description of a data set, without its values.

    `recipe`: how to load it, as canonical JSON. `fingerprint`: digest of its content. `has_own`: whether it has
    candidates of its own, besides the truth.
    """

    recipe: str
    fingerprint: str
    has_own: bool
    has_truth: bool
    n_rows: int
    n_features: int
    n_labels: int


@dataclass(frozen=True)
class Cell:
    """One cell, with everything that a worker needs to run it.

    `key`: digest of everything that could change the result. `group`: the same without the repeat. `ratio`: None for
    ``own``. `seed`: derived from the repeat; split, noise and method are seeded by it.
    """

    key: str
    group: str
    data: str
    source: Source
    noise: str
    ratio: float | None
    repeat: int
    seed: int
    variant: Variant
    tune: Tune | None

    @property
    def label(self) -> str:
        """Name of the method in the results."""
        return self.variant.label

    @property
    def title(self) -> str:
        """Short description."""
        noise = "own" if self.ratio is None else f"{self.noise} {self.ratio:g}"
        return f"{self.data}, {noise}, {self.label}, repeat {self.repeat}"


def expand(plan: Plan) -> list[Cell]:
    """Return the cells of a plan; cells that share a split are adjacent.

    The key of a cell is a digest of the content of the data set, the noise, the repeat and the seed of the plan, the
    method with all its parameters (defaults included), how it is tuned, the version of pmlkit and the code of the
    method, of the noise, of the splits and of the metrics.
    """
    cells = []
    variants = [(variant, _identity(variant, plan)) for variant in plan.variants()]
    for entry in plan.data:
        source = find_source(entry)
        groups = [
            (noise, ratio, variant, digest([source.fingerprint, noise, ratio, plan.seed, identity]))
            for noise, ratio in _noises(plan, entry, source)
            for variant, identity in variants
        ]
        for repeat in range(plan.repeats):
            seed = derive_seed(plan.seed, source.fingerprint, repeat)
            for noise, ratio, variant, group in groups:
                tune = plan.tune if variant.grid else None
                key = digest(group, repeat)
                cells.append(Cell(key, group, entry.name, source, noise, ratio, repeat, seed, variant, tune))
    return cells


def build_model(variant: Variant, seed: int) -> Any:
    """Return an unfitted model with `random_state=seed`, unless its parameters set it."""
    model = load_method(variant.method)(**variant.params)
    if "random_state" in model.get_params() and "random_state" not in variant.params:
        model.set_params(random_state=seed)
    return model


def _noises(plan: Plan, entry: DataEntry, source: Source) -> Iterator[tuple[str, float | None]]:
    """Yield the noise kinds and ratios of one data set."""
    wanted, kinds = entry.noise or plan.noise, entry.kinds or plan.kinds
    ratios = [float(value) for value in wanted if value != "own"]
    if "own" in wanted and source.has_own:
        yield "own", None
        if entry.noise is None:
            return
    elif "own" in wanted and not ratios:
        lacks = "candidates of its own" if source.has_truth else "truth to measure against"
        raise PlanError(f"{entry.name!r} has no {lacks}: give it a noise ratio instead of 'own'.", "noise", "own")
    elif source.has_own and entry.n_strips is None:
        logger.warning("%s has candidates of its own; they are dropped for noise added to its truth.", entry.name)
    for kind in kinds:
        for ratio in ratios:
            yield kind, ratio


def _identity(variant: Variant, plan: Plan) -> list[Any]:
    """Return everything about a variant that could change its results."""
    params = build_model(variant, seed=0).get_params()
    if "random_state" not in variant.params:
        params.pop("random_state", None)
    tuned = [plan.tune.folds, plan.tune.metric, _plain(variant.grid)] if plan.tune and variant.grid else None
    return [variant.method, _plain(params), tuned, __version__, PROTOCOL, _code(variant.method)]


@functools.cache
def _code(method: str) -> str:
    return code_fingerprint([load_method(method).__module__, *_SHARED_CODE])


def _plain(value: Any) -> Any:
    """Return a JSON value that is the same on every machine; 1 and 1.0 are equal."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return float(value)
    text = repr(value)
    if " at 0x" in text:
        raise DataError(f"The parameter value {text} has no lasting name: give the method plain values.")
    return text


def find_source(entry: DataEntry) -> Source:
    """Read a data set and describe it."""
    if (n_strips := entry.n_strips) is not None:
        recipe = canonical_json({DIGIT_STRIPS: n_strips})
        fingerprint = digest(DIGIT_STRIPS, n_strips, hashlib.sha256(load_digits().data.tobytes()).hexdigest())
        return Source(recipe, fingerprint, True, True, n_strips, load_digit_strips(10).n_features, 10)
    recipe = canonical_json({"path": str(_file_of(entry)), "options": dict(entry.options)})
    try:
        data, fingerprint = load_source(recipe)
    except DataError:
        raise
    except ValueError as error:  # an unknown option
        raise PlanError(str(error), "data", entry.name) from error
    if not data.n_features:
        raise DataError(f"{entry.name!r} has labels but no features: there is nothing to learn from.")
    if data.n_samples < 5:
        raise DataError(f"{entry.name!r} has {data.n_samples} rows: at least 5 are needed to split them.")
    has_truth = data.truth is not None
    has_own = data.truth is not None and data.Y.nnz > data.truth.nnz
    return Source(recipe, fingerprint, has_own, has_truth, data.n_samples, data.n_features, data.n_labels)


def _file_of(entry: DataEntry) -> Path:
    if entry.path is not None:
        return Path(entry.path).resolve()
    home = data_home()
    path = home / f"{entry.name}.npz"
    if path.is_file():
        return path.resolve()
    known = sorted(file.stem for file in home.glob("*.npz"))
    near = did_you_mean(entry.name, [*known, DIGIT_STRIPS])
    there = f"There are {', '.join(known)}" if known else f"The folder {str(home)!r} has no data sets"
    raise PlanError(
        f"There is no data set {entry.name!r}.{near} {there}, and the embedded {DIGIT_STRIPS}. Put {path.name} into "
        f"{str(home)!r} (PMLKIT_DATA names the folder), or give the path of a file.",
        "data",
        entry.name,
    )


def load_source(recipe: str) -> tuple[PMLDataset, str]:
    """Return a data set and its digest; a file that changed is read again."""
    path = Path(json.loads(recipe)["path"])
    state = path.stat() if path.exists() else None
    return _read(recipe, state and (state.st_mtime_ns, state.st_size))


@functools.lru_cache(maxsize=KEPT)
def _read(recipe: str, stamp: tuple[int, int] | None) -> tuple[PMLDataset, str]:
    words = json.loads(recipe)
    try:
        data = read(words["path"], **words["options"])
    except FileNotFoundError as error:
        raise DataError(str(error)) from error
    return data, _fingerprint(data)


def _fingerprint(data: PMLDataset) -> str:
    """Return a digest of features, candidates and truth."""
    found = hashlib.sha256()
    for matrix in (data.X, data.Y, data.truth):
        found.update(repr(None if matrix is None else (matrix.shape, str(matrix.dtype))).encode())
        if matrix is None:
            continue
        parts = (matrix.data, matrix.indices, matrix.indptr) if sparse.issparse(matrix) else (matrix,)
        for part in parts:
            found.update(np.ascontiguousarray(part).data)
    return found.hexdigest()[:24]


_PACKAGE = __name__.partition(".")[0]
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def canonical_json(value: Any) -> str:
    """Return a value as JSON with sorted keys."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def digest(*parts: Any) -> str:
    """Return a digest of the parts, 24 hexadecimal digits."""
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:24]


def derive_seed(*parts: Any) -> int:
    """Return a 31-bit seed derived from the parts; every kind of `random_state` accepts it."""
    return int(digest(*parts), 16) % 2**31


def code_fingerprint(modules: Iterable[str]) -> str:
    """Return a digest of the code of modules and of all modules of this package that they import.

    `modules`: dotted names. Comments, docstrings and layout do not change the digest.
    """
    parts = "\n".join(f"{name} {_source(name)[0]}" for name in sorted(_with_imports(modules)))
    return hashlib.sha256(parts.encode()).hexdigest()[:24]


def _with_imports(modules: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += _source(name)[1]
    return seen


@functools.cache
def _source(module: str) -> tuple[str, tuple[str, ...]]:
    """Return a digest of a module's code and the modules of this package that it imports."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return "", ()
    tree = ast.parse(Path(spec.origin).read_bytes())
    imports: list[str] = []
    for node in _statements(tree):
        imports += _imports(node)
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest(), tuple(imports)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a module and all its statements; `ast.walk` would visit every expression, too."""
    yield node
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, part, ()):
            yield from _statements(inner)


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if _is_ours(alias.name))
    elif isinstance(node, ast.ImportFrom) and node.module and _is_ours(node.module):
        for alias in node.names:
            # `from package import module` does not depend on the rest of the package.
            inner = f"{node.module}.{alias.name}"
            yield inner if _is_module(inner) else node.module


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == _PACKAGE


@functools.cache
def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the parent is a module, not a package
        return False


@functools.cache
def git_revision() -> str:
    """Return the git revision of this package, with ``-dirty`` for changed files; empty without git."""
    folder = Path(__file__).resolve().parent

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=20
        )
        return done.stdout.strip()

    try:
        # An installed copy may lie inside another repository: the package must be a file of the repository.
        git("ls-files", "--error-unmatch", str(folder.parent / "__init__.py"))
        return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return ""
