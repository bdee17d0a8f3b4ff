"""The best labels of each row, without sorting all."""

import numpy as np
import pytest

from pmlkit.methods.in_blocks import best_labels


@pytest.mark.parametrize("k", [1, 3, 40])
def test_best_labels_are_those_of_a_stable_sort(k):
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 30, size=(50, 60)) / 30.0  # many ties
    scores[:20] = rng.uniform(size=(20, 60))
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    best, values = best_labels(scores, k)
    assert np.array_equal(best, expected)
    assert np.array_equal(values, np.take_along_axis(scores, expected, axis=1))
