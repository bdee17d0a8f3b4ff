"""A vectoriser and a method that learned from what it makes, in one object that can be saved."""

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pmlkit._arrays import as_csr
from pmlkit._typing import Features, FloatArray
from pmlkit.exceptions import DataError
from pmlkit.tables.vectorize import FeatureColumns

__all__ = ["TableModel", "vectorized"]


def vectorized(vectorizer: Any, frame: Any, side: FloatArray | None, *, fit: bool = False) -> Features:
    """Return a frame as numbers, with features from beside the table put to the right.

    Parameters
    ----------
    vectorizer : ColumnTransformer or None
        None where there are only features from beside the table.
    frame : DataFrame
    side : array, optional
        Embeddings or pixels, one row per row.
    fit : bool, default=False
        Fit the vectoriser on the way.
    """
    parts: list[Any] = []
    if vectorizer is not None:
        try:
            parts.append(vectorizer.fit_transform(frame) if fit else vectorizer.transform(frame))
        except ValueError as error:
            if "empty vocabulary" in str(error) or "no terms remain" in str(error).lower():
                raise DataError(
                    "the text column holds no word that occurs in two rows: is it the right column?"
                ) from error
            raise
    if side is not None:
        parts.append(side)
    if len(parts) == 1:
        only = parts[0]
        return as_csr(only) if sparse.issparse(only) else np.asarray(only)
    if any(sparse.issparse(part) for part in parts):
        return as_csr(sparse.hstack([sparse.csr_array(part) for part in parts], format="csr"))
    return np.hstack(parts)


class TableModel(BaseEstimator):
    """A model of a table's own columns.

    Parameters
    ----------
    vectorizer : ColumnTransformer or None
        See `pmlkit.tables.vectorize.make_vectorizer`.
    model : estimator
        A method of pmlkit.
    text, categories, numbers : tuple of str
        The columns that it reads.
    side : {"none", "images", "embeddings"}
        What it wants beside the table.

    Attributes
    ----------
    label_names_ : array of str

    Examples
    --------
    >>> import pandas as pd
    >>> from pmlkit import MLkNN
    >>> from pmlkit.tables.model import TableModel
    >>> from pmlkit.tables.vectorize import FeatureColumns, Settings, make_vectorizer
    >>> frame = pd.DataFrame({"body": ["red sky", "blue sky", "red car", "blue car"]})
    >>> vectorizer = make_vectorizer(FeatureColumns(text=("body",)), Settings(), 4)
    >>> model = TableModel(vectorizer, MLkNN(n_neighbors=1), text=("body",))
    >>> model.fit(frame, [[1, 0], [1, 0], [0, 1], [0, 1]], label_names=["sky", "car"]).decision_function(frame).shape
    (4, 2)
    """

    def __init__(
        self,
        vectorizer: Any = None,
        model: Any = None,
        *,
        text: tuple[str, ...] = (),
        categories: tuple[str, ...] = (),
        numbers: tuple[str, ...] = (),
        side: str = "none",
    ) -> None:
        self.vectorizer = vectorizer
        self.model = model
        self.text = text
        self.categories = categories
        self.numbers = numbers
        self.side = side

    @property
    def columns(self) -> FeatureColumns:
        """The feature columns that a table must have."""
        return FeatureColumns(tuple(self.text), tuple(self.categories), tuple(self.numbers))

    def fit(self, frame: Any, Y: Any, *, side: FloatArray | None = None, label_names: Any = None) -> Self:
        """Learn from a frame and the candidates of its rows."""
        X = vectorized(self.vectorizer, frame, side, fit=True)
        self.model.fit(X, Y)
        names = label_names if label_names is not None else self.model.label_names_
        self.label_names_ = np.asarray([str(name) for name in names], dtype=object)
        return self

    def decision_function(self, frame: Any, *, side: FloatArray | None = None) -> FloatArray:
        """Score every label for every row."""
        check_is_fitted(self, "label_names_")
        return np.asarray(self.model.decision_function(vectorized(self.vectorizer, frame, side)))

    def predict(self, frame: Any, *, side: FloatArray | None = None) -> Any:
        """Give every row a set of labels."""
        check_is_fitted(self, "label_names_")
        return self.model.predict(vectorized(self.vectorizer, frame, side))
