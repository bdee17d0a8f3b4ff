"""Blocks on real Dask workers."""

import numpy as np
import pytest
from scipy import sparse

from pmlkit.blocks import RowBlocks
from pmlkit.exceptions import DataError

da = pytest.importorskip("dask.array")

rng = np.random.default_rng(0)
X = rng.normal(size=(90, 6))
Y = (rng.uniform(size=(90, 3)) < 0.5).astype(int)


def test_states_stay_on_the_workers(dask_client):
    blocks = RowBlocks(da.from_array(X, chunks=(20, 4)), da.from_array(Y, chunks=(30, 3)), client=dask_client)
    assert blocks.sizes == (20, 20, 20, 20, 10)
    assert np.allclose(blocks.engine.reduce(np.sum, blocks.X), X.sum())
    squares = blocks.engine.map(np.square, blocks.X)
    assert all(not isinstance(part, np.ndarray) for part in squares.parts)
    assert np.allclose(blocks.engine.reduce(np.sum, squares), (X**2).sum())
    lazy = blocks.lazy(np.add, blocks.X, squares, width=6, dtype=float)
    assert lazy.chunks == ((20, 20, 20, 20, 10), (6,))
    assert np.allclose(lazy.compute(scheduler=dask_client), X + X**2)


def test_sparse_chunks_and_rows_by_number(dask_client):
    chunks = da.from_array(X, chunks=(40, 6)).map_blocks(sparse.csr_array)
    blocks = RowBlocks(chunks, da.from_array(Y, chunks=(40, 3)), client=dask_client)
    assert all(sparse.issparse(block) for block in blocks.X)
    assert np.allclose(blocks.take_rows(blocks.X, [0, 41, 89]).toarray(), X[[0, 41, 89]])


def test_without_a_cluster_blocks_are_read_one_by_one():
    blocks = RowBlocks(da.from_array(X, chunks=(40, 6)), da.from_array(Y, chunks=(40, 3)))
    assert np.allclose(blocks.X.compute(), X)


@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        (da.from_array(X), Y, "give both in blocks"),
        (da.from_array(X), da.from_array(Y[:80]), "X has 90 rows and y 80"),
        (da.from_array(X)[da.from_array(X[:, 0] > 0)], da.from_array(Y), "X has blocks of unknown sizes"),
    ],
)
def test_wrong_collections_are_told(x, y, sentence):
    with pytest.raises(DataError, match=sentence):
        RowBlocks(x, y)
