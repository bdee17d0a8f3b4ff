"""What in a row speaks for and against a label: the words of a text, or numbers and categories."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from pmlkit._typing import CSR, Features, FloatArray

__all__ = ["FeatureEvidence", "MarkedText", "ShownFeature", "WordEvidence"]

MarkedText = list[tuple[str, str]]
"""Pieces of a text in order, each with ``"for"``, ``"against"`` or ``""``."""

ShownFeature = tuple[str, str, str]
"""A feature's name, its value, and ``"for"``, ``"against"`` or ``""``."""

_WORD = re.compile(r"\b\w\w+\b")
_MAX_ROWS, _MAX_WORDS = 50_000, 50_000
_MAX_TEXT = 20_000
_MIN_ROWS = 3  # rows that must hold a word before it can speak
_SMOOTHING = 2.0
_LEAST_RATIO = 0.7  # log ratio from which a word is marked
_N_MARKED = 12
_LEAST = 0.15  # evidence from which a feature is said to speak for or against a label
_LONG = 200
_N_CACHED = 200


class WordEvidence:
    """Word frequencies of all texts, from which the words that speak for or against a label are read.

    A word's evidence is the logarithm of the ratio of its document frequencies in the rows with and without the
    label, both smoothed towards its overall frequency. It explains the data to a reader; no judgement depends on it.

    Parameters
    ----------
    texts : sequence of str
    Y : CSR array of shape (n_samples, n_labels)

    Examples
    --------
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.review.evidence import WordEvidence
    >>> texts = ["a purring cat", "the cat sleeps", "my cat eats"] + ["the dog barks", "my dog eats", "dog days"]
    >>> evidence = WordEvidence(texts, sparse.csr_array([[1, 0]] * 3 + [[0, 1]] * 3))
    >>> evidence.marked("cat and dog", 0)
    [('cat', 'for'), (' and ', ''), ('dog', 'against')]
    """

    def __init__(self, texts: Sequence[str], Y: CSR) -> None:
        from sklearn.feature_extraction.text import CountVectorizer

        n_samples = len(texts)
        chosen = np.arange(n_samples)
        if n_samples > _MAX_ROWS:
            chosen = np.sort(np.random.default_rng(0).choice(n_samples, _MAX_ROWS, replace=False))
        counter = CountVectorizer(
            binary=True, token_pattern=_WORD.pattern, min_df=_MIN_ROWS, max_features=_MAX_WORDS, dtype=np.float32
        )
        self._Y = sparse.csc_array(Y[chosen])
        try:
            self._words = sparse.csr_array(counter.fit_transform(texts[i][:_MAX_TEXT] for i in chosen.tolist()))
            self._number: dict[str, int] = counter.vocabulary_
        except ValueError:  # no word is in enough texts
            self._words = sparse.csr_array((len(chosen), 0), dtype=np.float32)
            self._number = {}
        self._count = np.asarray(self._words.sum(axis=0)).ravel()
        self._log_ratio = lru_cache(maxsize=_N_CACHED)(self._log_ratio_of_words)

    def marked(self, text: str, label: int) -> MarkedText:
        """Return a text in pieces, the words that say most about a label marked."""
        text = text[:_MAX_TEXT]
        ratio = self._log_ratio(label)
        found = [(match, self._number.get(match[0].lower())) for match in _WORD.finditer(text)]
        strength = {number: ratio[number] for _, number in found if number is not None}
        strongest = sorted(strength, key=lambda number: -abs(strength[number]))[:_N_MARKED]
        told = {number for number in strongest if abs(strength[number]) >= _LEAST_RATIO}
        pieces: MarkedText = []
        last = 0
        for match, number in found:
            if number in told:
                if match.start() > last:
                    pieces.append((text[last : match.start()], ""))
                pieces.append((match[0], "for" if strength[number] > 0 else "against"))
                last = match.end()
        if last < len(text) or not pieces:
            pieces.append((text[last:], ""))
        return pieces

    def _log_ratio_of_words(self, label: int) -> FloatArray:
        rows = self._Y.indices[self._Y.indptr[label] : self._Y.indptr[label + 1]]
        n_with, n_all = len(rows), self._words.shape[0]
        inside = np.asarray(self._words[rows].sum(axis=0)).ravel()
        share = self._count / max(n_all, 1)
        rate_with = (inside + _SMOOTHING * share) / (n_with + _SMOOTHING)
        rate_without = (self._count - inside + _SMOOTHING * share) / (n_all - n_with + _SMOOTHING)
        return np.asarray(np.log(np.maximum(rate_with, 1e-12) / np.maximum(rate_without, 1e-12)))


class FeatureEvidence:
    """Compare the features of a row with those of the rows with and without a label.

    The evidence of a number is its distance from the mean, times the difference of the means of the rows with the label
    and without it, both in standard deviations; that of a category is the logarithm of the ratio of its shares in these
    rows. It explains the data to a reader; no judgement depends on it.

    Parameters
    ----------
    X : array or CSR array of shape (n_samples, n_features)
    Y : CSR array of shape (n_samples, n_labels)
    names : mapping of str to int
        The columns of X that are shown, by name.
    categories : mapping of str to sequence, optional
        More columns, one value per row.
    values : mapping of str to sequence, optional
        What is shown instead of the numbers in X.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.review.evidence import FeatureEvidence
    >>> X, Y = np.array([[1.0, 5.0], [1.2, 4.0], [9.0, 5.0], [8.0, 4.0]]), sparse.csr_array([[1], [1], [0], [0]])
    >>> FeatureEvidence(X, Y, {"size": 0, "age": 1}).strongest(0, 0)
    [('size', '1', 'for'), ('age', '5', '')]
    """

    def __init__(
        self,
        X: Features,
        Y: CSR,
        names: Mapping[str, int],
        *,
        categories: Mapping[str, Sequence[Any]] | None = None,
        values: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        self._X, self._Y = X, Y.tocsc()
        self._names, self._columns = list(names), np.fromiter(names.values(), np.int64, len(names))
        self._values = values or {}
        self._categories = {name: np.array([str(v) for v in cells]) for name, cells in (categories or {}).items()}
        mean = np.asarray(X.mean(axis=0)).ravel()
        square = X.multiply(X).mean(axis=0) if sparse.issparse(X) else (X * X).mean(axis=0)
        deviation = np.sqrt(np.maximum(np.asarray(square).ravel() - mean**2, 0.0))
        self._mean, self._deviation = mean, np.where(deviation > 1e-12, deviation, np.inf)
        self._difference = lru_cache(maxsize=_N_CACHED)(self._difference_of_means)

    def strongest(self, row: int, label: int, n: int = 24) -> list[ShownFeature]:
        """Return the features of a row that say most about a label, the strongest first."""
        values = self._X[[row]]
        values = np.asarray(values.toarray() if sparse.issparse(values) else values, dtype=np.float64).ravel()
        strength = ((values - self._mean) / self._deviation * self._difference(label))[self._columns]
        if sparse.issparse(self._X):
            strength[values[self._columns] == 0] = 0.0  # what a row lacks is not shown among thousands
        found = []
        for i in np.argsort(-np.abs(strength), kind="stable")[:n].tolist():
            name, column = self._names[i], int(self._columns[i])
            if sparse.issparse(self._X) and values[column] == 0:
                continue
            shown = self._values[name][row] if name in self._values else f"{values[column]:.3g}"
            found.append((abs(strength[i]), name, str(shown), strength[i]))
        for name, cells in self._categories.items():
            ratio = self._log_ratio(cells, row, label)
            found.append((abs(ratio), name, str(cells[row]), ratio))
        found.sort(key=lambda entry: -entry[0])
        return [(name, text[:_LONG], _side(value)) for _, name, text, value in found[:n]]

    def _rows_with(self, label: int) -> Any:
        return self._Y.indices[self._Y.indptr[label] : self._Y.indptr[label + 1]]

    def _difference_of_means(self, label: int) -> FloatArray:
        rows, n = self._rows_with(label), self._X.shape[0]
        if not 0 < len(rows) < n:
            return np.zeros(self._X.shape[1])
        inside = np.asarray(self._X[rows].mean(axis=0)).ravel()
        outside = (self._mean * n - inside * len(rows)) / (n - len(rows))
        return np.asarray((inside - outside) / self._deviation)

    def _log_ratio(self, cells: Any, row: int, label: int) -> float:
        rows = self._rows_with(label)
        is_same = cells == cells[row]
        n_same, n_inside, n = int(is_same.sum()), int(is_same[rows].sum()), len(cells)
        share = n_same / n
        inside = (n_inside + _SMOOTHING * share) / (len(rows) + _SMOOTHING)
        outside = (n_same - n_inside + _SMOOTHING * share) / (n - len(rows) + _SMOOTHING)
        return float(np.log(max(inside, 1e-12) / max(outside, 1e-12)))


def _side(value: float) -> str:
    return "" if abs(value) < _LEAST else "for" if value > 0 else "against"
