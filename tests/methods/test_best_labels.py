"""The best labels of each row, without sorting all; label sets of many rows and labels, without all scores."""

import numpy as np
import pytest
from scipy import sparse

from pmlkit import ClearPML
from pmlkit.data import make_pml
from pmlkit.methods import base
from pmlkit.methods.base import best_labels


@pytest.mark.parametrize("k", [1, 3, 40])
def test_best_labels_are_those_of_a_stable_sort(k):
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 30, size=(50, 60)) / 30.0  # many ties
    scores[:20] = rng.uniform(size=(20, 60))
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    best, values = best_labels(scores, k)
    assert np.array_equal(best, expected)
    assert np.array_equal(values, np.take_along_axis(scores, expected, axis=1))


@pytest.mark.parametrize("threshold", ["hamming", "f1", "size"])
@pytest.mark.parametrize("form", ["array", "sparse", "names"])
def test_label_sets_in_blocks_of_rows_are_those_of_all_rows(monkeypatch, threshold, form):
    data = make_pml(120, 8, 5, random_state=0)
    Y = data.Y.toarray()
    y = {"array": Y, "sparse": sparse.csr_array(Y), "names": [[f"tag {k}" for k in np.flatnonzero(row)] for row in Y]}[
        form
    ]
    model = ClearPML(threshold=threshold).fit(data.X, y)
    expected = model.predict(data.X)
    monkeypatch.setattr(base, "_SCORES_AT_ONCE", 35)
    found = model.predict(data.X)
    assert type(found) is type(expected)
    if form == "sparse":
        found, expected = found.toarray(), expected.toarray()
    assert found == expected if form == "names" else np.array_equal(found, expected)
    assert np.any([len(names) for names in found] if form == "names" else found)
