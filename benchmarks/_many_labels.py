"""Texts with thousands of tags: sparse rows whose label frequencies follow a power law."""

import numpy as np
from scipy import sparse

from pmlkit.data import PMLDataset

_LABEL_WORDS, _GROUP_WORDS = 12, 40  # words that speak for a label, and for its group of labels
_FROM_LABELS, _FROM_GROUP = 0.08, 0.06  # shares of a row's words; the others are common words
_GROUP_SIZE = 20  # labels


def many_label_texts(
    n_samples: int,
    n_features: int,
    n_labels: int,
    *,
    n_words: int = 60,
    cardinality: float = 3.0,
    noise: float = 0.5,
    seed: int = 0,
) -> PMLDataset:
    """Return rows of about `n_words` words; label k has a share of the labels in proportion to ``(k + 10) ** -0.9``.

    Labels come in groups of about 20 that stand together in rows. Of the false candidates (`noise` per true label)
    half follow the labels' frequencies and half are other labels of the row's group. X is tf-idf.
    """
    rng = np.random.default_rng(seed)
    frequency = (np.arange(n_labels) + 10.0) ** -0.9
    frequency /= frequency.sum()
    n_groups = max(1, n_labels // _GROUP_SIZE)
    group = rng.integers(n_groups, size=n_labels)
    members = _Groups(group, frequency, n_groups)

    first = rng.choice(n_labels, n_samples, p=frequency)
    more = rng.poisson(cardinality - 1.0, n_samples)
    rows = np.repeat(np.arange(n_samples), more)
    others = np.where(
        rng.random(len(rows)) < 0.7, members.draw(group[first[rows]], rng), rng.choice(n_labels, len(rows), p=frequency)
    )
    truth = _indicator(
        np.concatenate([np.arange(n_samples), rows]), np.concatenate([first, others]), n_samples, n_labels
    )

    false = np.repeat(np.arange(n_samples), rng.poisson(noise * cardinality, n_samples))
    wrong = np.where(
        rng.random(len(false)) < 0.5,
        members.draw(group[first[false]], rng),
        rng.choice(n_labels, len(false), p=frequency),
    )
    extra = _indicator(false, wrong, n_samples, n_labels)
    candidates = sparse.csr_array(((truth + extra) > 0).astype(np.uint8))
    X = _texts(truth, group, n_groups, n_features, n_words, rng)
    return PMLDataset(X, candidates, truth=truth)


class _Groups:
    """Draws labels of given groups, by their frequencies."""

    def __init__(self, group: np.ndarray, frequency: np.ndarray, n_groups: int) -> None:
        self._order = np.argsort(group, kind="stable")
        self._mass = np.cumsum(frequency[self._order])
        ends = np.cumsum(np.bincount(group, minlength=n_groups))
        total = np.concatenate([[0.0], self._mass])
        self._low, self._high = total[np.concatenate([[0], ends[:-1]])], total[ends]

    def draw(self, groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        at = self._low[groups] + rng.random(len(groups)) * (self._high[groups] - self._low[groups])
        return self._order[np.minimum(np.searchsorted(self._mass, at), len(self._order) - 1)]


def _indicator(rows: np.ndarray, labels: np.ndarray, n_samples: int, n_labels: int) -> sparse.csr_array:
    cells = sparse.csr_array((np.ones(len(rows)), (rows, labels)), shape=(n_samples, n_labels))
    return sparse.csr_array((cells > 0).astype(np.uint8))


def _texts(
    truth: sparse.csr_array, group: np.ndarray, n_groups: int, n_features: int, n_words: int, rng: np.random.Generator
) -> sparse.csr_array:
    n_samples, n_labels = truth.shape
    common = (np.arange(n_features) + 20.0) ** -1.0
    common = np.cumsum(common / common.sum())
    # A label's words are spread over the vocabulary, rare words more often than common ones.
    label_words = (n_features * rng.random((n_labels, _LABEL_WORDS)) ** 0.7).astype(np.int64)
    group_words = (n_features * rng.random((n_groups, _GROUP_WORDS))).astype(np.int64)
    length = rng.poisson(n_words, n_samples) + 5
    rows = np.repeat(np.arange(n_samples), length)
    kind = rng.random(len(rows))
    words = np.searchsorted(common, rng.random(len(rows)))
    sizes = np.diff(truth.indptr)
    which = truth.indptr[rows] + (rng.random(len(rows)) * sizes[rows]).astype(np.int64)
    label = truth.indices[which]
    own, shared = kind < _FROM_LABELS, (kind >= _FROM_LABELS) & (kind < _FROM_LABELS + _FROM_GROUP)
    words[own] = label_words[label[own], (_LABEL_WORDS * rng.random(own.sum()) ** 1.5).astype(np.int64)]
    words[shared] = group_words[group[label[shared]], (_GROUP_WORDS * rng.random(shared.sum()) ** 1.5).astype(np.int64)]
    counts = sparse.csr_array(
        (np.ones(len(rows), dtype=np.float32), (rows, np.minimum(words, n_features - 1))), shape=(n_samples, n_features)
    )
    counts.sum_duplicates()
    document = np.bincount(counts.indices, minlength=n_features)
    rarity = np.log((1.0 + n_samples) / (1.0 + document)).astype(np.float32)
    counts.data = (1.0 + np.log(counts.data)) * rarity[counts.indices]
    return counts
