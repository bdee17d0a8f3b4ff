"""Cells of a plan: one method on one split of one data set with one kind and ratio of noise, and the rows of each."""

import functools
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits

from pmlkit import __version__, _metric_info
from pmlkit._typing import CSR, Features, IntArray
from pmlkit._words import did_you_mean
from pmlkit.bench.fingerprints import canonical_json, code_fingerprint, derive_seed, digest
from pmlkit.bench.plan import Plan
from pmlkit.bench.plan_entries import DIGIT_STRIPS, DataEntry, PlanError, Tune, Variant, load_method
from pmlkit.data import PMLDataset, add_noise, data_home, load_digit_strips, read, train_test_rows
from pmlkit.exceptions import DataError

logger = logging.getLogger(__name__)

PROTOCOL = 1
"""Version of the evaluation of a cell; cells of an older version are not current."""

METRICS = tuple(metric.key for metric in _metric_info.METRICS)
"""Keys of the metrics of a cell."""

_SHARED_CODE = ("pmlkit.data.digits", "pmlkit.data.noise", "pmlkit.data.splits", "pmlkit.metrics")
_TEST_SHARE = 0.2
_KEPT = 3  # data sets, splits and problems cached per process; cells come in order


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

    Notes
    -----
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
    """Read a data set and describe it.

    Examples
    --------
    >>> from pmlkit.bench.cells import find_source
    >>> from pmlkit.bench.plan_entries import DataEntry
    >>> source = find_source(DataEntry("digit-strips:100"))
    >>> source.n_rows, source.n_labels, source.has_own
    (100, 10, True)
    """
    if (n_strips := entry.n_strips) is not None:
        recipe = canonical_json({DIGIT_STRIPS: n_strips})
        fingerprint = digest(DIGIT_STRIPS, n_strips, hashlib.sha256(load_digits().data.tobytes()).hexdigest())
        return Source(recipe, fingerprint, True, True, n_strips, load_digit_strips(10).n_features, 10)
    recipe = canonical_json({"path": str(_file_of(entry)), "options": dict(entry.options)})
    try:
        data, fingerprint = _load(recipe)
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


def _load(recipe: str) -> tuple[PMLDataset, str]:
    path = Path(json.loads(recipe)["path"])
    state = path.stat() if path.exists() else None
    # A file that changed is read again.
    return _read(recipe, state and (state.st_mtime_ns, state.st_size))


@functools.lru_cache(maxsize=_KEPT)
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


@dataclass(frozen=True)
class Problem:
    """Training rows with candidates, test rows, and the truth of both."""

    X: Features
    Y: CSR
    truth: CSR
    X_test: Features
    truth_test: CSR


def make_problem(source: Source, *, noise: str, ratio: float | None, seed: int) -> Problem:
    """Split the rows and add the candidates of the training rows.

    - `noise` ({"own", "uniform", "correlated", "confusable"}): the data set's own candidates, or the kind of noise
      added to the truth.
    - `ratio`: false candidates per true label; None for ``own``.
    - `seed`: seed of the cell, from which those of split and noise are derived.
    """
    if DIGIT_STRIPS not in json.loads(source.recipe) and _load(source.recipe)[1] != source.fingerprint:
        raise DataError("The file of the data set changed while the run was going: run it again.")
    return _add_candidates(source, noise, ratio, seed)


@functools.lru_cache(maxsize=_KEPT)
def _add_candidates(source: Source, noise: str, ratio: float | None, seed: int) -> Problem:
    split = _split(source, seed)
    if noise == "own":
        return split
    X = split.X if noise == "confusable" else None
    random_state = derive_seed(seed, "noise", noise, ratio)
    Y = add_noise(split.truth, ratio, noise, random_state=random_state, X=X)  # type: ignore[arg-type]
    return replace(split, Y=Y)


@functools.lru_cache(maxsize=_KEPT)
def _split(source: Source, seed: int) -> Problem:
    """Return the split with the data set's own candidates."""
    train: IntArray
    test: IntArray
    random_state = derive_seed(seed, "split")
    if DIGIT_STRIPS in json.loads(source.recipe):
        # Strips share scans, so that a random split would leak them into the test rows; draw new strips instead.
        data = load_digit_strips(source.n_rows, random_state=random_state)
        train, test = np.split(np.arange(data.n_samples), [int((1 - _TEST_SHARE) * data.n_samples)])
    else:
        data = _load(source.recipe)[0]
        train, test = train_test_rows(data.n_samples, test_size=_TEST_SHARE, random_state=random_state)
    truth = data.Y if data.truth is None else data.truth
    return Problem(data.X[train], data.Y[train], truth[train], data.X[test], truth[test])
