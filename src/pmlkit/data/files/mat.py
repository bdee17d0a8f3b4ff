"""MATLAB files (up to v7) as the papers publish them: features, candidates and truth as matrices. Read only."""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from scipy import sparse

from pmlkit._typing import Features
from pmlkit.data.dataset import PMLDataset
from pmlkit.data.files.common import Source, pack
from pmlkit.data.files.mat5 import Variable, list_variables
from pmlkit.data.files.names import listing
from pmlkit.exceptions import DataError

__all__ = ["read_mat"]

logger = logging.getLogger(__name__)

# In order of preference; compared without regard to case.
_FEATURES = ("data", "train_data", "X", "features", "feature", "fea", "instances", "bags")
_CANDIDATES = (
    *("partial_labels", "partial_target", "partial_targets", "partial_label", "candidate_labels", "candidate_label"),
    *("candidates", "Y_candidate", "train_partial_target", "train_p_target", "noisy_labels", "noisy_target"),
)
_TRUTH = ("target", "targets", "train_target", "ground_truth", "labels", "label", "truth", "Y", "gnd")

Orientation = Literal["rows", "columns"]


def read_mat(
    source: Source,
    *,
    data: str | None = None,
    candidates: str | None = None,
    truth: str | None = None,
    orientation: Orientation | None = None,
) -> PMLDataset:
    """Read a MATLAB file.

    Parameters
    ----------
    source : Source
        The open file.
    data, candidates, truth : str, optional
        Names of the matrices, where they are not the usual ones (``data``; ``partial_labels`` or
        ``partial_target`` and the like; ``target`` and the like).
    orientation : {"rows", "columns"}, optional
        Whether a label matrix has one row or one column per instance. By default the shapes
        decide; needed where there are as many labels as instances.

    Returns
    -------
    dataset : PMLDataset
        With candidates and truth, if the file has both. If it has only one label matrix, that is
        both. Features are CSR where fewer than 3 cells in 10 are filled.

    Examples
    --------
    >>> import io, pathlib
    >>> from scipy.io import savemat
    >>> from pmlkit.data.files.common import Source
    >>> from pmlkit.data.files.mat import read_mat
    >>> stream = io.BytesIO()
    >>> savemat(stream, {"data": [[0.5], [2.0], [1.0]], "target": [[1, 0, 0], [0, 1, 1]]})
    >>> _ = stream.seek(0)
    >>> read_mat(Source(pathlib.Path("r.mat"), "r", stream)).truth.toarray().tolist()
    [[1, 0], [0, 1], [0, 1]]
    """
    if orientation not in (None, "rows", "columns"):
        raise ValueError(f"orientation must be 'rows' or 'columns', got {orientation!r}.")
    variables = {variable.name: variable for variable in list_variables(source.stream.read(), source.max_bytes)}
    features = _find(variables, data, _FEATURES)
    given = _find(variables, candidates, _CANDIDATES)
    target = _find(variables, truth, _TRUTH)
    labels = given or target
    if features is None or labels is None:
        raise DataError(
            f"no matrix of {'features' if features is None else 'labels'} is recognised by its name among "
            f"{listing(sorted(variables))}.",
            option="data" if features is None else "truth",
            remedy=" the name that it has",
        )
    Y = _indicator(labels)
    Y_true = None if target is None else Y if labels is target else _indicator(target)
    if Y_true is not None and Y.shape != Y_true.shape:
        raise DataError(f"the label matrices must have the same shape, got {Y.shape} and {Y_true.shape}.")
    X, is_column = _orient(features.load(), Y.shape, orientation, source)
    if is_column:
        Y, Y_true = Y.T, Y_true if Y_true is None else Y_true.T
    return PMLDataset(pack(X), Y, truth=Y_true)


def _find(variables: Mapping[str, Variable], asked: str | None, usual: Sequence[str]) -> Variable | None:
    if asked is not None:
        if asked not in variables:
            raise DataError(f"there is no matrix {asked!r}; the file has {listing(sorted(variables))}.")
        return variables[asked]
    by_lower = {name.lower(): variable for name, variable in variables.items()}
    return next((by_lower[name.lower()] for name in usual if name.lower() in by_lower), None)


def _indicator(variable: Variable) -> Any:
    """Return a label matrix of 0/1; MATLAB code often writes -1 for absent."""
    labels = variable.load()
    if sparse.issparse(labels) and labels.nnz == math.prod(labels.shape):
        labels = labels.toarray()
    if not sparse.issparse(labels) and ((labels == 1) | (labels == -1)).all():
        return labels > 0
    return labels


def _orient(
    X: Features, labels: tuple[int, int], orientation: Orientation | None, source: Source
) -> tuple[Features, bool]:
    """Return X with one row per instance, and whether the labels have one column per instance."""
    if orientation is None and labels[0] == labels[1] and labels[0] in X.shape:
        raise DataError(
            f"the label matrix is square ({labels[0]} x {labels[1]}), so its shape does not tell rows from columns.",
            option="orientation",
            value="'rows'",
            remedy=" if it has one row per instance, 'columns' if one column",
        )
    sides = {"rows": labels[0], "columns": labels[1]}
    for table, layout in ((X, "one row"), (X.T, "one column")):
        for side, n_rows in sides.items():
            if table.shape[0] == n_rows and orientation in (None, side):
                message = "%s: features read with %s per instance, labels by %s"
                logger.info(message, source.path.name, layout, side)
                return table, side == "columns"
    asked = f" by {orientation}" if orientation else ""
    raise DataError(
        f"the features ({X.shape[0]} x {X.shape[1]}) and labels{asked} ({labels[0]} x {labels[1]}) do not fit."
    )
