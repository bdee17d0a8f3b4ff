"""What the model commands share: methods by name, model files, rows in the form that a model knows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmlkit.cli.errors import Misuse
from pmlkit.cli.output import quoted
from pmlkit.cli.params import key_values, literal
from pmlkit.cli.reading import Reading
from pmlkit.exceptions import DataError, MethodError

if TYPE_CHECKING:
    from pmlkit._typing import CSR, Features
    from pmlkit.data import PMLDataset
    from pmlkit.methods.base import BasePML

__all__ = ["ModelFile", "Rows", "build_model", "find_method", "load_model", "matching_truth", "read_rows", "rows_of"]

ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model that `pmlkit fit` wrote.", show_default=False)
]


@dataclass(frozen=True)
class Rows:
    """Features in the form that a model knows, and how the user names the rows."""

    X: "Features"
    ids: Sequence[int | str] | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])


def find_method(name: str) -> "type[BasePML]":
    """Return a method by its name, in any case and with or without hyphens."""
    from pmlkit import methods

    try:
        found: type[BasePML] = methods.find_method(name)
    except MethodError as error:
        raise Misuse(str(error)) from error
    return found


def build_model(name: str, words: Sequence[str]) -> "BasePML":
    """Return an unfitted model from a method's name and ``key=value`` words."""
    from pmlkit.methods import make_classifier

    try:
        model: BasePML = make_classifier(name, **{key: literal(v) for key, v in key_values(words, "--param").items()})
    except MethodError as error:
        raise Misuse(str(error)) from error
    return model


def load_model(path: Path) -> "BasePML":
    """Read a fitted model; anything else is refused in a sentence."""
    from sklearn.utils.validation import check_is_fitted

    from pmlkit.methods.base import BasePML
    from pmlkit.persistence import load

    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder: give the path of a model file in it.")
    if not path.exists():
        raise DataError(f"There is no model file {str(path)!r}. Make one with `pmlkit fit`.")
    model = load(path)
    if not isinstance(model, BasePML):
        raise DataError(f"{str(path)!r} holds a {type(model).__name__}, not a model that `pmlkit fit` wrote.")
    check_is_fitted(model)
    return model


def rows_of(data: "PMLDataset") -> "Features":
    """Return the features to fit on; dense ones with names as a DataFrame, so that the model remembers the names."""
    from scipy import sparse

    if not data.has_feature_names or sparse.issparse(data.X):
        return data.X
    return _frame(data.X, data.feature_names)


def _frame(X: "Features", names: Sequence[str]) -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=list(names), copy=False)


def read_rows(model: "BasePML", path: Path, reading: Reading) -> Rows:
    """Read rows to predict; a table without labels will do if the model knows its features by name."""
    from pmlkit.cli.feature_table import can_read, read_features

    names = getattr(model, "feature_names_in_", None)
    if names is not None and can_read(path, reading):
        X, ids = read_features(path, list(names), reading)
        return Rows(_frame(X, names), ids)
    return matching_rows(model, reading.read(path), path)


def matching_rows(model: "BasePML", data: "PMLDataset", path: Path) -> Rows:
    """Return the features of a data set as the model knows them: named ones are put in its order."""
    from scipy import sparse

    names = list(getattr(model, "feature_names_in_", ()))
    if names and data.has_feature_names:
        position = {name: j for j, name in enumerate(data.feature_names)}
        missing = [name for name in names if name not in position]
        if missing:
            raise DataError(f"{path.name} lacks {len(missing)} of the model's features: {quoted(missing)}.")
        X = data.X[:, [position[name] for name in names]]
        return Rows(_frame(X.toarray() if sparse.issparse(X) else X, names), data.ids)
    if data.n_features != model.n_features_in_:
        raise DataError(
            f"The model was fitted on {model.n_features_in_} features, but {path.name} has {data.n_features}. "
            "Use a file of the same kind as the one it was fitted on."
        )
    return Rows(_frame(data.X, names) if names and not sparse.issparse(data.X) else data.X, data.ids)


def matching_truth(model: "BasePML", data: "PMLDataset", path: Path) -> "CSR":
    """Return the truth with its columns in the order of the model's labels."""
    import numpy as np
    from scipy import sparse

    if data.truth is None:
        raise DataError(
            f"{path.name} has no truth, so there is nothing to measure against. In a table, name its columns: "
            "--option truth='true_*'. Most benchmark files (.npz, .mat) have it inside."
        )
    known = {str(name): k for k, name in enumerate(model.label_names_)}
    unknown = [name for name in data.label_names if name not in known]
    if unknown:
        raise DataError(
            f"{path.name} has {len(unknown)} label(s) that the model does not know: {quoted(unknown)}. "
            f"It knows {quoted(known)}."
        )
    target = np.array([known[name] for name in data.label_names])
    truth = data.truth.tocoo()
    return sparse.csr_array((truth.data, (truth.row, target[truth.col])), shape=(data.n_rows, len(known)))
