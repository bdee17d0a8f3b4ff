"""Which words of a text speak for and against a label: smoothed log ratios of document frequencies."""

import re
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from scipy import sparse

from pmlkit._typing import CSR, FloatArray

__all__ = ["MarkedText", "WordEvidence"]

MarkedText = list[tuple[str, str]]
"""Pieces of a text in order, each with ``"for"``, ``"against"`` or ``""``."""

_WORD = re.compile(r"\b\w\w+\b")
_MAX_ROWS, _MAX_WORDS = 50_000, 50_000
_MAX_TEXT = 20_000
_MIN_ROWS = 3  # rows that must hold a word before it can speak
_SMOOTHING = 2.0
_LEAST = 0.7  # log ratio from which a word is marked
_N_MARKED = 12
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
    >>> from pmlkit.cleaning.review.words import WordEvidence
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
        self._cache: OrderedDict[int, FloatArray] = OrderedDict()

    def marked(self, text: str, label: int) -> MarkedText:
        """Return a text in pieces, the words that say most about a label marked."""
        text = text[:_MAX_TEXT]
        ratio = self._log_ratio(label)
        found = [(match, self._number.get(match[0].lower())) for match in _WORD.finditer(text)]
        strength = {number: ratio[number] for _, number in found if number is not None}
        strongest = sorted(strength, key=lambda number: -abs(strength[number]))[:_N_MARKED]
        told = {number for number in strongest if abs(strength[number]) >= _LEAST}
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

    def _log_ratio(self, label: int) -> FloatArray:
        if label in self._cache:
            self._cache.move_to_end(label)
            return self._cache[label]
        rows = self._Y.indices[self._Y.indptr[label] : self._Y.indptr[label + 1]]
        n_with, n_all = len(rows), self._words.shape[0]
        inside = np.asarray(self._words[rows].sum(axis=0)).ravel()
        share = self._count / max(n_all, 1)
        rate_with = (inside + _SMOOTHING * share) / (n_with + _SMOOTHING)
        rate_without = (self._count - inside + _SMOOTHING * share) / (n_all - n_with + _SMOOTHING)
        ratio: FloatArray = np.log(np.maximum(rate_with, 1e-12) / np.maximum(rate_without, 1e-12))
        self._cache[label] = ratio
        if len(self._cache) > _N_CACHED:
            self._cache.popitem(last=False)
        return ratio
