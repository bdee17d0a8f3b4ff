import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from pmlkit.numerics.neighbors import nearest


def plain(X, k, asking=None):
    """Sort all distances, equal ones by row number."""
    answer = []
    for i, x in enumerate(X if asking is None else asking):
        pairs = sorted((np.sum((x - y) ** 2), j) for j, y in enumerate(X) if asking is not None or i != j)
        answer.append([j for _, j in pairs[:k]])
    return np.array(answer)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("own", [True, False])
def test_ties_go_to_the_lower_row(container, own):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(80, 3)).astype(float)
    asking = None if own else rng.integers(0, 3, size=(20, 3)).astype(float)
    index = NearestNeighbors().fit(container(X))
    distance, neighbor = nearest(index, 5, None if own else container(asking))
    expected = plain(X, 5, asking)
    assert_array_equal(neighbor, expected)
    rows = X if own else asking
    assert_allclose(distance, np.linalg.norm(rows[:, None] - X[expected], axis=2), atol=1e-7)


def test_more_neighbours_than_rows():
    index = NearestNeighbors().fit(np.arange(4.0)[:, None])
    assert nearest(index, 10)[1].shape == (4, 3)
    assert nearest(index, 10, np.zeros((1, 1)))[1].shape == (1, 4)
