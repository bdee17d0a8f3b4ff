"""Save and load fitted models without ever unpickling a file."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import skops.io

from pmlkit._files import check_target, replacing
from pmlkit.exceptions import DataError
from pmlkit.methods.base import writing_model_file

__all__ = ["dumps", "load", "loads", "save"]

# Types that models keep in their fitted state (scikit-learn's neighbour search, our own plain records), and that skops
# does not know by itself.
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
        "pmlkit.methods.clear_pml.landmarks.LandmarkKernel",
        "pmlkit.methods.clear_pml.label_correlations.LabelCorrelations",
        "pmlkit.methods.clear_pml.score_calibration.ScoreCalibration",
        "pmlkit.methods.clear_pml.feature_weighting.FeatureWeighting",
        # A model of a table's own columns; its imputer remembers the type of its numbers.
        "pmlkit.tables.model.TableModel",
        "numpy.dtype",
    }
)


def dumps(model: Any) -> bytes:
    """Return a fitted model as bytes in skops' format.

    Left out are callbacks and what only training needs (``out_of_fold_scores_``).
    """
    token = writing_model_file.set(True)
    try:
        data: bytes = skops.io.dumps(model)
    finally:
        writing_model_file.reset(token)
    return data


def loads(data: bytes, *, trusted: Iterable[type] = ()) -> Any:
    """Return the model in `data`, refusing every type that a pmlkit model does not need.

    Parameters
    ----------
    data : bytes
    trusted : iterable of types, optional
        Further estimators of your own that may be in it.
    """
    unknown = skops.io.get_untrusted_types(data=data)
    return skops.io.loads(data, trusted=_accept(unknown, "the data", trusted))


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
    except (DataError, MemoryError):
        raise
    except Exception as error:  # skops fails in as many ways as a file can be damaged.
        raise DataError(f"{source} is not a model file of pmlkit, or it is damaged.") from error


def _accept(unknown: list[str], source: str, trusted: Iterable[type] = ()) -> list[str]:
    """Return the names if all are known by their full name: a mere prefix would let a file call any function."""
    from pmlkit.methods import METHODS

    known = _TRUSTED | {f"{kind.__module__}.{kind.__qualname__}" for kind in (*METHODS, *trusted)}
    refused = sorted(name for name in unknown if name not in known)
    if refused:
        raise DataError(f"{source} is refused: it holds types that no pmlkit model needs ({', '.join(refused)}).")
    return unknown
