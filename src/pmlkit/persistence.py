"""Save and load fitted models without ever unpickling a file."""

import os
import zipfile
from pathlib import Path
from typing import Any

import skops.io

from pmlkit._files import check_target, replacing
from pmlkit.exceptions import DataError

__all__ = ["dumps", "load", "loads", "save"]

_OURS = "pmlkit.methods."
# Types that scikit-learn's neighbour search keeps in its fitted state, and that skops does not know by itself.
_TRUSTED = frozenset(
    {
        "sklearn.metrics._dist_metrics.EuclideanDistance64",
        "sklearn.metrics._dist_metrics.EuclideanDistance32",
        "sklearn.metrics._dist_metrics.newObj",
        "sklearn.neighbors._kd_tree.KDTree64",
        "sklearn.neighbors._kd_tree.KDTree",
        "sklearn.neighbors._kd_tree.newObj",
        "sklearn.neighbors._ball_tree.BallTree64",
        "sklearn.neighbors._ball_tree.BallTree",
        "sklearn.neighbors._ball_tree.newObj",
        "scipy.sparse._csr.csr_array",
    }
)


def dumps(model: Any) -> bytes:
    """Return a fitted model as bytes in skops' format."""
    data: bytes = skops.io.dumps(model)
    return data


def loads(data: bytes) -> Any:
    """Return the model in `data`, refusing every type that a pmlkit model does not need."""
    unknown = skops.io.get_untrusted_types(data=data)
    return skops.io.loads(data, trusted=_accept(unknown, "the data"))


def save(model: Any, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Write a fitted model to a file, whole or not at all.

    Parameters
    ----------
    model : estimator
    path : path
        Ends in ``.skops`` by custom.
    force : bool, default=False
        Replace a file that is there already.
    """
    target = check_target(path, force=force)
    data = dumps(model)
    with replacing(target) as stream:
        stream.write(data)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote; a file with any other type in it is refused."""
    source = Path(path)
    if not source.is_file():
        raise DataError(f"{source} is not a file.")
    try:
        unknown = skops.io.get_untrusted_types(file=source)
        return skops.io.load(source, trusted=_accept(unknown, str(source)))
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{source} is not a model file of pmlkit, or it is damaged.") from error


def _accept(unknown: list[str], source: str) -> list[str]:
    refused = sorted(name for name in unknown if not name.startswith(_OURS) and name not in _TRUSTED)
    if refused:
        raise DataError(f"{source} is refused: it holds types that no pmlkit model needs ({', '.join(refused)}).")
    return unknown
