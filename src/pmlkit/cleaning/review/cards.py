"""What the page shows of a row and a question, as plain data that the browser puts in as text."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from pmlkit.cleaning.audit.answers import find_cells
from pmlkit.cleaning.review.words import WordEvidence
from pmlkit.cleaning.summary import png
from pmlkit.exceptions import DataError
from pmlkit.numerics.scaling import scaled

if TYPE_CHECKING:
    from pmlkit.cleaning import CleaningResult

__all__ = ["Cards"]

_N_SIMILAR = 3
_N_LOOKED_AT = 60
_N_FEATURES = 24
_N_CACHED = 500
_BRIEF = 220


class Cards:
    """Build the cards of a cleaning result.

    Parameters
    ----------
    result : CleaningResult
    pictures : callable, optional
        Returns the bytes and the media type of a row's picture, where these are files.
    feature_names : sequence of str, optional
    """

    def __init__(
        self,
        result: "CleaningResult",
        *,
        pictures: Callable[[int], tuple[bytes, str]] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        self.result = result
        self._pictures = pictures
        self._feature_names = feature_names
        self._cache: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def has_pictures(self) -> bool:
        """Whether rows are shown as pictures."""
        return self._pictures is not None or isinstance(self.result.media, np.ndarray)

    @cached_property
    def texts(self) -> Sequence[str] | None:
        """The rows' texts, or None."""
        media = self.result.media
        return None if media is None or isinstance(media, np.ndarray) else media

    @cached_property
    def _words(self) -> WordEvidence:
        return WordEvidence(self.texts or (), self.result.Y)

    def name(self, row: int) -> str:
        """Return how a row is called."""
        return f"row {row}" if self.result.row_names is None else str(self.result.row_names[row])

    def picture(self, row: int) -> tuple[bytes, str]:
        """Return the bytes and the media type of a row's picture."""
        if self._pictures is not None:
            return self._pictures(row)
        if not isinstance(self.result.media, np.ndarray):
            raise DataError("These rows have no pictures.")
        return png(self.result.media[row]), "image/png"

    def brief(self, row: int) -> dict[str, Any]:
        """Return a row in a few lines: a picture or the beginning of its text, and its labels."""
        Y = self.result.Y
        own = Y.indices[Y.indptr[row] : Y.indptr[row + 1]]
        shown = {"row": row, "name": self.name(row), "labels": [self.result.label_names[k] for k in own.tolist()]}
        if self.has_pictures:
            return shown | {"image": f"/api/picture?row={row}"}
        if self.texts is not None:
            text = " ".join(self.texts[row].split())
            return shown | {"text": text if len(text) <= _BRIEF else text[:_BRIEF] + "…"}
        return shown | {"text": ", ".join(f"{name} {value}" for name, value in self._features(row)[:6])}

    def card(self, cell: int) -> dict[str, Any]:
        """Return everything about a question that does not depend on answers."""
        with self._lock:
            if cell in self._cache:
                self._cache.move_to_end(cell)
                return self._cache[cell]
        built = self._build(cell)
        with self._lock:
            self._cache[cell] = built
            if len(self._cache) > _N_CACHED:
                self._cache.popitem(last=False)
        return built

    def _build(self, cell: int) -> dict[str, Any]:
        result = self.result
        row, label = int(result.rows[cell]), int(result.Y.indices[cell])
        reason = result.reasons(np.array([cell]), n_similar=0)[0]
        speaks_for, speaks_against = ([part.text for part in side] for side in (reason.in_favour, reason.against))
        similar_with, similar_without = self._similar(row, label)
        n_similar = len(similar_with) + len(similar_without)
        if similar_with:
            speaks_for.append(f"{len(similar_with)} of the {n_similar} most similar rows have it, such as:")
        if similar_without:
            speaks_against.append(f"{len(similar_without)} of the {n_similar} most similar rows lack it, such as:")
        return {
            "row": row,
            "label": result.label_names[label],
            "name": self.name(row),
            "content": self._content(row, label),
            "reasons_for": speaks_for,
            "reasons_against": speaks_against,
            "similar_with": [self.brief(other) for other in similar_with[:_N_SIMILAR]],
            "similar_without": [self.brief(other) for other in similar_without[:_N_SIMILAR]],
        }

    @cached_property
    def _unit_rows(self) -> Any:
        """The features, every row of length one, so that products are cosines."""
        return scaled(self.result.X, "unit")

    def _similar(self, row: int, label: int) -> tuple[list[int], list[int]]:
        """Return the most similar rows that have a label and those that lack it; rows without labels do not count."""
        if self.result.X is None:
            return [], []
        cosine = self._unit_rows @ self._unit_rows[[row]].T
        cosine = np.asarray(cosine.toarray() if sparse.issparse(cosine) else cosine).ravel()
        cosine[row] = 0.0
        cosine[np.diff(self.result.Y.indptr) == 0] = 0.0
        n_looked_at = min(_N_LOOKED_AT, len(cosine))
        nearest = np.argpartition(-cosine, n_looked_at - 1)[:n_looked_at]
        nearest = nearest[np.lexsort((nearest, -cosine[nearest]))]
        nearest = nearest[cosine[nearest] > 0]
        has_it = find_cells(self.result.Y, nearest, np.full(len(nearest), label)) >= 0
        return nearest[has_it].tolist(), nearest[~has_it].tolist()

    def _content(self, row: int, label: int) -> dict[str, Any]:
        if self.has_pictures:
            return {"image": f"/api/picture?row={row}", "name": self.name(row)}
        if self.texts is not None:
            return {"words": self._words.marked(self.texts[row], label)}
        return {"features": self._features(row)}

    @cached_property
    def _scale(self) -> tuple[Any, Any]:
        X = self.result.X
        if not isinstance(X, np.ndarray):
            return 0.0, 1.0
        deviation = X.std(axis=0)
        return X.mean(axis=0), np.where(deviation > 0, deviation, 1.0)

    def _features(self, row: int) -> list[tuple[str, str]]:
        """Return the features in which a row differs most from the others."""
        X = self.result.X
        if X is None:
            return []
        if isinstance(X, np.ndarray):
            values, columns = X[row], np.arange(X.shape[1])
            mean, deviation = self._scale
            strength = np.abs((values - mean) / deviation)
        else:
            columns = X.indices[X.indptr[row] : X.indptr[row + 1]]
            values = X.data[X.indptr[row] : X.indptr[row + 1]]
            strength = np.abs(values)
        first = np.argsort(-strength, kind="stable")[:_N_FEATURES]
        names = self._feature_names
        return [
            (f"feature {columns[i]}" if names is None else str(names[int(columns[i])]), f"{values[i]:.3g}")
            for i in first.tolist()
        ]
