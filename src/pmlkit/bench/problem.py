"""Training and test rows of a cell, and the candidates of the training rows."""

import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits

from pmlkit._typing import CSR, Features, IntArray
from pmlkit._words import did_you_mean
from pmlkit.bench.fingerprints import canonical_json, derive_seed, digest
from pmlkit.bench.plan_entries import DIGIT_STRIPS, DataEntry, PlanError
from pmlkit.data import PMLDataset, add_noise, data_home, load_digit_strips, read, train_test_rows
from pmlkit.exceptions import DataError

__all__ = ["Problem", "Source", "find_source", "make_problem"]

_TRAIN_SHARE, _TEST_SHARE = 0.8, 0.2
_KEPT = 3  # data sets, splits and problems cached per process; cells come in order


@dataclass(frozen=True)
class Source:
    """Description of a data set, without its values.

    - `recipe`: how to load it, as canonical JSON.
    - `fingerprint`: digest of its content.
    - `has_own`: whether it has candidates of its own, besides the truth.
    - `has_truth`: whether it has the truth.
    - `n_rows`, `n_features`, `n_labels`: size.
    """

    recipe: str
    fingerprint: str
    has_own: bool
    has_truth: bool
    n_rows: int
    n_features: int
    n_labels: int


@dataclass(frozen=True)
class Problem:
    """Training rows with candidates, test rows, and the truth of both."""

    X: Features
    Y: CSR
    truth: CSR
    X_test: Features
    truth_test: CSR


def find_source(entry: DataEntry) -> Source:
    """Read a data set and describe it.

    Examples
    --------
    >>> from pmlkit.bench.plan_entries import DataEntry
    >>> from pmlkit.bench.problem import find_source
    >>> source = find_source(DataEntry("digit-strips:100"))
    >>> source.n_rows, source.n_labels, source.has_own
    (100, 10, True)
    """
    if (n_strips := entry.n_strips) is not None:
        recipe = canonical_json({DIGIT_STRIPS: n_strips})
        scans = load_digits().data
        fingerprint = digest(DIGIT_STRIPS, n_strips, hashlib.sha256(scans.tobytes()).hexdigest())
        shape = load_digit_strips(10).X.shape[1], 10
        return Source(recipe, fingerprint, True, True, n_strips, *shape)
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
    has_own = data.truth is not None and data.Y.nnz > data.truth.nnz
    has_truth = data.truth is not None
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
    words = json.loads(recipe)
    state = Path(words["path"]).stat() if Path(words["path"]).exists() else None
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


def make_problem(source: Source, *, noise: str, ratio: float | None, seed: int) -> Problem:
    """Split the rows and add the candidates of the training rows.

    - `noise` ({"own", "uniform", "correlated", "confusable"}): the data set's own candidates, or the kind of noise
      added to the truth.
    - `ratio`: false candidates per true label; None for ``own``.
    - `seed`: seed of the cell, from which those of split and noise are derived.
    """
    if _n_strips(source.recipe) is not None:
        return _add_candidates(source.recipe, None, noise, ratio, seed)
    _, fingerprint = _load(source.recipe)
    if fingerprint != source.fingerprint:
        raise DataError("The file of the data set changed while the run was going: run it again.")
    return _add_candidates(source.recipe, fingerprint, noise, ratio, seed)


def _n_strips(recipe: str) -> int | None:
    n_strips: int | None = json.loads(recipe).get(DIGIT_STRIPS)
    return n_strips


@functools.lru_cache(maxsize=_KEPT)
def _add_candidates(recipe: str, fingerprint: str | None, noise: str, ratio: float | None, seed: int) -> Problem:
    split = _split(recipe, fingerprint, seed)
    if noise == "own":
        return split
    X = split.X if noise == "confusable" else None
    random_state = derive_seed(seed, "noise", noise, ratio)
    Y = add_noise(split.truth, ratio, noise, random_state=random_state, X=X)  # type: ignore[arg-type]
    return Problem(split.X, Y, split.truth, split.X_test, split.truth_test)


@functools.lru_cache(maxsize=_KEPT)
def _split(recipe: str, fingerprint: str | None, seed: int) -> Problem:
    """Return the split with the data set's own candidates."""
    train: IntArray
    test: IntArray
    if (n_strips := _n_strips(recipe)) is not None:
        # Strips share scans, so that a random split would leak them into the test rows; draw new strips instead.
        data = load_digit_strips(n_strips, random_state=derive_seed(seed, "split"))
        rows = np.arange(data.n_samples)
        n_train = int(_TRAIN_SHARE * data.n_samples)
        train, test = rows[:n_train], rows[n_train:]
    else:
        data = _load(recipe)[0]
        train, test = train_test_rows(data.n_samples, test_size=_TEST_SHARE, random_state=derive_seed(seed, "split"))
    X, Y = data.X, data.Y
    truth = Y if data.truth is None else data.truth
    return Problem(X[train], Y[train], truth[train], X[test], truth[test])
