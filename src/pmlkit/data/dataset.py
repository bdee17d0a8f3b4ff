"""The data set: features, candidate labels and, where known, true labels."""

import copy
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from pmlkit._arrays import (
    MAX_COLUMNS,
    Media,
    as_ids,
    as_indicator,
    as_media,
    as_names,
    frame_names,
    freeze,
    freeze_csr,
    move_columns,
    number_table,
    position_of,
    read_labels,
    row_hash,
)
from pmlkit._typing import CSR, BoolArray, Features, IntArray, RandomState
from pmlkit._words import fact_table, listing
from pmlkit.data.noise import NoiseKind, Rounding, add_noise
from pmlkit.exceptions import DataError

_SLOTS = {"X": "_x", "Y": "_y", "truth": "_truth", "feature_names": "_feature_names", "label_names": "_label_names"} | {
    "media": "_media", "ids": "_ids", "name": "_name", "provenance": "_provenance"
}  # fmt: skip
"""Where the arguments of the constructor are kept."""


class PMLDataset:
    """Rows with features and candidate labels, validated once and immutable.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Features, all finite. Becomes a read-only float array, or a ``csr_array`` where `X` is
        sparse; float32 and float64 are kept. May have no column at all.
    Y : array-like, sparse matrix or DataFrame of shape (n_samples, n_labels), or names per row
        The candidate labels: an indicator of 0/1, or a list (Series, object array) of label names per
        row. Becomes a ``csr_array`` of uint8 with sorted indices and no stored zeros. (Cast it before
        ``Y.T @ Y``: uint8 wraps around at 256.)
    truth : same formats as `Y`, optional
        The true labels, a subset of the candidates.
    feature_names, label_names : sequence of str, optional
        Distinct names; by default the columns of a DataFrame or the sorted names per row, else
        ``feature_0`` and ``label_0`` onwards.
    media : ndarray of uint8 of shape (n, h, w) or (n, h, w, 3), or sequence of n str, optional
        What a person sees of each row: an image or a text.
    ids : sequence of n int or str, optional
        How the user names each row.
    name, provenance : str
        Name of the data set, and where it comes from in a sentence.

    See Also
    --------
    pmlkit.data.read : Read one from a file.

    Notes
    -----
    Arrays that are still writeable elsewhere are copied. Two data sets are equal when their
    contents are (values, names, media and ids; not `name` and `provenance`, and dense equals
    sparse), so they have no hash.

    Examples
    --------
    >>> from pmlkit.data import PMLDataset
    >>> data = PMLDataset([[0.1], [0.7]], [[1, 1, 0], [0, 0, 1]], truth=[[1, 0, 0], [0, 0, 1]], name="tiny")
    >>> data
    PMLDataset 'tiny': 2 rows, 1 feature (dense float64), 3 labels, 1.50 candidates and 1.00 true labels per row
    >>> data.label_names
    ('label_0', 'label_1', 'label_2')
    >>> data.describe()["noise_ratio"]
    0.5
    >>> data.subset([1]).Y.toarray()
    array([[0, 0, 1]], dtype=uint8)
    """

    __slots__ = (*_SLOTS.values(), "__weakref__")
    __hash__ = None  # type: ignore[assignment]
    _x: Features
    _y: CSR
    _truth: CSR | None
    _feature_names: tuple[str, ...] | None
    _label_names: tuple[str, ...] | None
    _media: Media | None
    _ids: tuple[int, ...] | tuple[str, ...] | None
    _name: str
    _provenance: str

    def __init__(
        self,
        X: Any,
        Y: Any,
        *,
        truth: Any = None,
        feature_names: Iterable[str] | None = None,
        label_names: Iterable[str] | None = None,
        media: Any = None,
        ids: Sequence[Any] | None = None,
        name: str = "",
        provenance: str = "",
    ) -> None:
        features, labels = _as_features(X), read_labels(Y, names=label_names)
        candidates = labels.indicator
        if features.shape[0] != candidates.shape[0]:
            raise DataError(f"X and Y must have the same rows, got {features.shape[0]} and {candidates.shape[0]}.")
        known = label_names if label_names is not None else labels.names
        right = candidates if truth is Y else None if truth is None else as_indicator(truth, "truth", names=known)
        if right is not None and right is not candidates:
            _refuse_not_subset(right, candidates)
        n_samples, n_features = features.shape
        columns = as_names(feature_names if feature_names is not None else frame_names(X), n_features, "feature")
        called = as_names(known, candidates.shape[1], "label")
        rows_show, rows_called = as_media(media, n_samples), as_ids(ids, n_samples)
        values = (features, candidates, right, columns, called, rows_show, rows_called, str(name), str(provenance))
        for slot, value in zip(_SLOTS.values(), values, strict=True):
            object.__setattr__(self, slot, value)

    def __setattr__(self, attribute: str, value: Any = None) -> NoReturn:
        raise AttributeError(f"A PMLDataset cannot be changed: use replace({attribute}=...) to make a new one.")

    __delattr__ = __setattr__

    @property
    def X(self) -> Features:
        """Features, read-only."""
        return copy.copy(self._x) if sparse.issparse(self._x) else self._x

    @property
    def Y(self) -> CSR:
        """Candidate labels, read-only."""
        # The attributes of a csr_array can be replaced even if the old ones are read-only: return a new csr_array.
        return copy.copy(self._y)

    @property
    def truth(self) -> CSR | None:
        """True labels, read-only, or None where unknown."""
        return copy.copy(self._truth)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name per feature."""
        # Made on demand: hashed features can be hundreds of millions, without names.
        return self._feature_names or tuple(f"feature_{j}" for j in range(self.n_features))

    @property
    def label_names(self) -> tuple[str, ...]:
        """One name per label."""
        return self._label_names or tuple(f"label_{k}" for k in range(self.n_labels))

    @property
    def has_feature_names(self) -> bool:
        """Whether the features have names other than the default ones."""
        return self._feature_names is not None

    @property
    def has_label_names(self) -> bool:
        """Whether the labels have names other than the default ones."""
        return self._label_names is not None

    @property
    def media(self) -> Media | None:
        """Images (uint8 array) or texts (tuple of str) of the rows, or None."""
        return self._media

    @property
    def ids(self) -> tuple[int, ...] | tuple[str, ...] | None:
        """Identifiers of the rows, or None."""
        return self._ids

    @property
    def name(self) -> str:
        """Name of the data set."""
        return self._name

    @property
    def provenance(self) -> str:
        """Where the data set comes from."""
        return self._provenance

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return int(self._y.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self._x.shape[1])

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self._y.shape[1])

    @property
    def frame(self) -> Any:
        """The features as a DataFrame where they are dense and have names of their own, else `X`."""
        names = self._feature_names
        return self.X if names is None or sparse.issparse(self._x) else _as_frame(self._x, names)

    def features_for(self, model: Any) -> Any:
        """Return the features as a fitted model knows them: those with names in its order.

        Parameters
        ----------
        model : estimator
            With ``n_features_in_`` and, if it was fitted on named features, ``feature_names_in_``.

        Returns
        -------
        X : DataFrame, array or CSR array of shape (n_samples, ``model.n_features_in_``)

        Examples
        --------
        >>> from pmlkit import MLkNN
        >>> from pmlkit.data import PMLDataset
        >>> train = PMLDataset([[0.0, 5.0], [9.0, 5.0]], [[1, 0], [0, 1]], feature_names=["size", "age"])
        >>> new = PMLDataset([[5.0, 7.0, 9.0]], [[0, 0]], feature_names=["age", "mass", "size"])
        >>> new.features_for(MLkNN(n_neighbors=1).fit(train)).to_dict("list")
        {'size': [9.0], 'age': [5.0]}
        """
        X, names = self._x, [str(name) for name in getattr(model, "feature_names_in_", ())]
        if names and self._feature_names is not None:
            position = {name: j for j, name in enumerate(self._feature_names)}
            if absent := [name for name in names if name not in position]:
                raise lacking_features(absent, self._name or None)
            X = X[:, [position[name] for name in names]]
            return _as_frame(X.toarray() if sparse.issparse(X) else X, names)
        if X.shape[1] != model.n_features_in_:
            raise DataError(
                f"the model was fitted on {model.n_features_in_} features, but the data set has {X.shape[1]}. Use data "
                "of the same kind as the model was fitted on.",
                path=self._name or None,
            )
        return _as_frame(X, names) if names and not sparse.issparse(X) else X

    def truth_for(self, names: Sequence[str]) -> tuple[CSR, tuple[str, ...]]:
        """Return the true labels in a given order of labels, as `pmlkit.Table.truth_for` does.

        Parameters
        ----------
        names : sequence of str
            The labels, such as those of a model.

        Returns
        -------
        truth : CSR array of shape (n_samples, len(names) + n_unknown)
            Labels that are not among `names` come last.
        unknown : tuple of str
            Their names.
        """
        if self._truth is None:
            raise DataError(
                "the true labels are unknown, so there is nothing to measure against. Most benchmark files (.npz, "
                ".mat) have them inside; in a table, their columns have to be named.",
                option="truth",
                value="'true_*'",
                path=self._name or None,
            )
        unknown = tuple(name for name in self.label_names if name not in names)
        number = {name: k for k, name in enumerate([*map(str, names), *unknown])}
        return move_columns(self._truth, [number[name] for name in self.label_names], len(number)), unknown

    def replace(self, **changes: Any) -> "PMLDataset":
        """Return a data set with some of the constructor's arguments changed.

        Examples
        --------
        >>> from pmlkit.data import PMLDataset
        >>> PMLDataset([[1.0]], [[1]]).replace(name="one").name
        'one'
        """
        return PMLDataset(**{**self._arguments(), **changes})

    def subset(self, rows: IntArray | BoolArray | slice | Sequence[int]) -> "PMLDataset":
        """Return the data set of some rows, in the order given.

        Parameters
        ----------
        rows : array of int, array of bool or slice
            Positions of the rows (a position may occur more than once), or a mask of length `n_samples`.

        Examples
        --------
        >>> from pmlkit.data import PMLDataset
        >>> data = PMLDataset([[1.0], [2.0], [3.0]], [[1], [0], [1]], ids=["a", "b", "c"])
        >>> data.subset(slice(1, None)).ids
        ('b', 'c')
        """
        chosen = rows if isinstance(rows, slice) else np.asarray(rows)
        if isinstance(chosen, np.ndarray) and (chosen.ndim != 1 or (chosen.dtype.kind not in "iub" and len(chosen))):
            raise ValueError(f"rows must be a slice or a one-dimensional array of int or bool, got {rows!r}.")
        if isinstance(chosen, np.ndarray) and not len(chosen):
            chosen = slice(0)
        index = np.arange(self.n_samples)[chosen]
        if not len(index):
            raise DataError("The subset has no rows: a data set needs at least one.")
        media = self._media
        if media is not None:
            media = media[index] if isinstance(media, np.ndarray) else tuple(media[i] for i in index)
        return self.replace(
            X=self._x[index],
            Y=self._y[index],
            truth=None if self._truth is None else self._truth[index],
            media=media,
            ids=None if self._ids is None else tuple(self._ids[i] for i in index),
        )

    def with_noise(
        self,
        ratio: float | None,
        *,
        kind: NoiseKind = "uniform",
        rounding: Rounding = "stochastic",
        random_state: RandomState = None,
        **options: Any,
    ) -> "PMLDataset":
        """Return the data set with false candidates added to its true labels.

        Noise is added to the truth where it is known (present candidates are dropped), else to the
        candidates, which then become the truth.

        Parameters
        ----------
        ratio : float or None
            False candidates per true label.
        kind, rounding, random_state, **options
            As in `pmlkit.data.add_noise`; its `X` is this data set's.

        Examples
        --------
        >>> from pmlkit.data import PMLDataset
        >>> clean = PMLDataset([[1.0], [2.0]], [[1, 0, 0, 0], [0, 1, 0, 1]])
        >>> noisy = clean.with_noise(1.0, random_state=0)
        >>> noisy.Y.sum(axis=1).tolist(), noisy.truth.sum(axis=1).tolist()
        ([2, 4], [1, 2])
        """
        start = self.Y if self._truth is None else self.truth
        if kind == "confusable" and options.get("confusion") is None:
            options.setdefault("X", self.X)
        candidates = add_noise(start, ratio, kind=kind, rounding=rounding, random_state=random_state, **options)
        said = [f"ratio {ratio}"] if ratio is not None else []
        said += [f"{key} {value}" for key, value in options.items() if isinstance(value, int | float)]
        said += [f"rounding {rounding}"] if ratio is not None else []
        said += [f"seed {random_state}"] if isinstance(random_state, int | np.integer) else []
        note = f"{kind} noise added ({', '.join(said)})"
        return self.replace(
            Y=candidates, truth=start, provenance=f"{self._provenance}; {note}" if self._provenance else note
        )

    def describe(self) -> dict[str, int | float | None]:
        """Return summary counts as plain numbers; None where the truth is unknown.

        Returns
        -------
        facts : dict
            ``rows``, ``features``, ``labels``, ``density`` of X, ``candidate_cardinality`` and
            ``true_cardinality`` (labels per row), ``false_candidates``, ``noise_ratio`` (false
            candidates per true label), ``rows_without_candidates``, ``labels_without_positives``,
            ``duplicate_rows`` (rows whose features repeat an earlier row) and
            ``constant_features``.

        Examples
        --------
        >>> from pmlkit.data import PMLDataset
        >>> facts = PMLDataset([[1, 0], [1, 0]], [[1, 0], [0, 0]]).describe()
        >>> facts["density"], facts["candidate_cardinality"], facts["true_cardinality"]
        (0.5, 0.5, None)
        >>> facts["duplicate_rows"], facts["constant_features"], facts["labels_without_positives"]
        (1, 2, 1)
        """
        X, Y, truth = self._x, self._y, self._truth
        (n_samples, n_features), n_labels = X.shape, Y.shape[1]
        n_true = None if truth is None else int(truth.nnz)
        stored = X.nnz if sparse.issparse(X) else np.count_nonzero(X)
        return {
            "rows": n_samples,
            "features": n_features,
            "labels": n_labels,
            "density": float(stored / (n_samples * n_features)) if n_features else 0.0,
            "candidate_cardinality": Y.nnz / n_samples,
            "true_cardinality": None if n_true is None else n_true / n_samples,
            "false_candidates": None if n_true is None else int(Y.nnz - n_true),
            "noise_ratio": (Y.nnz - n_true) / n_true if n_true else None,
            "rows_without_candidates": int((np.diff(Y.indptr) == 0).sum()),
            "labels_without_positives": n_labels - len(np.unique(Y.indices)),
            "duplicate_rows": _count_duplicate_rows(X),
            "constant_features": _count_constant_features(X),
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PMLDataset):
            return NotImplemented
        return (
            _same_values(self._x, other._x)
            and _same_values(self._y, other._y)
            and _same_values(self._truth, other._truth)
            and self._feature_names == other._feature_names
            and self._label_names == other._label_names
            and _same_media(self._media, other._media)
            and self._ids == other._ids
        )

    def __repr__(self) -> str:
        facts = ", ".join(text for _, text in _short_facts(self))
        return f"PMLDataset {self._name!r}: {facts}" if self._name else f"PMLDataset: {facts}"

    def _repr_html_(self) -> str:
        rows = [*_short_facts(self), *([("from", self._provenance)] if self._provenance else [])]
        shown = list(self.label_names[:8]) if self.n_labels < 10**6 else []
        if shown:
            rows.append(("label names", ", ".join(shown) + (", ..." if self.n_labels > len(shown) else "")))
        return fact_table(f"PMLDataset {self._name}".strip(), rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._arguments(),)

    def _arguments(self) -> dict[str, Any]:
        return {argument: getattr(self, slot) for argument, slot in _SLOTS.items()}


def _rebuild(arguments: dict[str, Any]) -> PMLDataset:
    return PMLDataset(**arguments)


def _as_features(X: Any) -> Features:
    """Return X as a read-only float array (dense or CSR) whose values are all finite."""
    rows = number_table(X, "X")
    if rows.shape[0] == 0:
        raise DataError("X has no rows: a data set needs at least one.")
    if rows.shape[1] > MAX_COLUMNS:
        raise DataError(f"X claims {rows.shape[1]} features, more than the {MAX_COLUMNS} that can be indexed.")
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    _refuse_not_finite(rows)
    return freeze_csr(rows) if sparse.issparse(rows) else freeze(rows)


def _refuse_not_finite(X: Features) -> None:
    values = X.data if sparse.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return
    bad = np.flatnonzero(~np.isfinite(values))
    if not len(bad):
        return
    row, column = position_of(X, int(bad[0]))
    raise DataError(
        f"X holds {len(bad)} value(s) that are NaN or infinite, the first in row {row}, feature {column}. "
        "Impute or remove them first, for example with sklearn.impute.SimpleImputer.",
        row=row,
    )


def _same_values(one: Features | None, other: Features | None) -> bool:
    """Return whether two tables hold the same numbers, whatever their type and form."""
    if one is None or other is None:
        return one is other
    if one.shape != other.shape:
        return False
    if sparse.issparse(one) and sparse.issparse(other):
        parts = zip((one.indptr, one.indices, one.data), (other.indptr, other.indices, other.data), strict=True)
        return all(np.array_equal(a, b) for a, b in parts)
    if not sparse.issparse(one) and not sparse.issparse(other):
        return np.array_equal(one, other)
    dense, packed = (other, one) if sparse.issparse(one) else (one, other)
    return _same_values(sparse.csr_array(dense), packed)


def _same_media(one: Media | None, other: Media | None) -> bool:
    """Return whether two sets of images or texts are the same."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return type(one) is type(other) and one == other


def _refuse_not_subset(truth: CSR, candidates: CSR) -> None:
    """Raise unless every true label is a candidate."""
    if truth.shape != candidates.shape:
        raise DataError(f"truth and Y must have the same shape, got {truth.shape} and {candidates.shape}.")
    outside = sparse.csr_array(truth.astype(np.int8) - truth.multiply(candidates).astype(np.int8))
    outside.eliminate_zeros()
    if outside.nnz:
        row, label = (int(i[0]) for i in outside.nonzero())
        raise DataError(
            f"Every true label must be a candidate, but {outside.nnz} cell(s) of truth are not in Y, "
            f"the first in row {row}, label {label}.",
            row=row,
        )


def _as_frame(X: Features, names: Sequence[str]) -> Any:
    """Return dense features as a DataFrame, without a copy."""
    import pandas as pd

    return pd.DataFrame(X, columns=list(names), copy=False)


def lacking_features(absent: Sequence[str], path: str | None = None) -> DataError:
    """Return the error for features of a model that a table or data set does not have."""
    message = f"the table lacks {len(absent)} of the model's features: {listing(absent)}."
    return DataError(message, column=absent[0], path=path)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _short_facts(data: PMLDataset) -> list[tuple[str, str]]:
    """Return short descriptions of a data set whose cost does not grow with the number of columns."""
    X, Y, truth = data.X, data.Y, data.truth
    labels = f"{Y.nnz / Y.shape[0]:.2f} candidates"
    labels += " per row, truth unknown" if truth is None else f" and {truth.nnz / Y.shape[0]:.2f} true labels per row"
    kind = f"{'CSR' if sparse.issparse(X) else 'dense'} {X.dtype}"
    facts = [
        ("rows", _plural(data.n_samples, "row")),
        ("features", f"{_plural(data.n_features, 'feature')} ({kind})"),
        ("labels", _plural(data.n_labels, "label")),
        ("labelling", labels),
    ]
    if data.media is not None:
        facts.append(("media", "images" if isinstance(data.media, np.ndarray) else "texts"))
    return facts


def _count_duplicate_rows(X: Features) -> int:
    """Return how many rows repeat an earlier row (by a 64-bit hash of the row)."""
    if X.shape[1] == 0:
        return 0
    return int(X.shape[0] - len(np.unique(row_hash(X))))


def _count_constant_features(X: Features) -> int:
    """Return how many columns hold one value only; needs no memory for columns without stored values."""
    n_samples, n_features = X.shape
    if not sparse.issparse(X):
        return int((X.min(axis=0) == X.max(axis=0)).sum()) if n_features else 0
    used, counts = np.unique(X.indices, return_counts=True)
    full = used[counts == n_samples]
    # A column with values in some rows only is not constant; one with values in all may be.
    values = X[:, full].data.reshape(n_samples, len(full))
    return int(n_features - len(used) + (values.min(axis=0) == values.max(axis=0)).sum())
