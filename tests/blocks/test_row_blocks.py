"""Rows in blocks: what is accepted, how it is cut, and one sentence for what is not."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from pmlkit import ClearPML, MLkNN
from pmlkit.blocks import RowBlocks, holds_blocks
from pmlkit.exceptions import DataError

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 4))
Y = (rng.uniform(size=(30, 3)) < 0.5).astype(int)
CUTS = [slice(0, 10), slice(10, 12), slice(12, 30)]


def stacked(state):
    blocks = [block.toarray() if sparse.issparse(block) else block for block in state]
    return np.vstack(blocks)


@pytest.mark.parametrize("kind", ["arrays", "sparse", "frames", "npy", "npz", "functions"])
def test_blocks_of_any_kind_are_the_same_rows(kind, tmp_path):
    def save(table, name):
        if kind == "npy":
            np.save(tmp_path / f"{name}.npy", table)
            return str(tmp_path / f"{name}.npy")
        sparse.save_npz(tmp_path / f"{name}.npz", sparse.csr_array(table))
        return tmp_path / f"{name}.npz"

    make = {
        "arrays": lambda table, name: table,
        "sparse": lambda table, name: sparse.csr_array(table),
        "frames": lambda table, name: pd.DataFrame(table, columns=[f"c{k}" for k in range(table.shape[1])]),
        "npy": save,
        "npz": save,
        "functions": lambda table, name: lambda: table,
    }[kind]
    blocks = RowBlocks(
        [make(X[cut], f"x{i}") for i, cut in enumerate(CUTS)], [make(Y[cut], f"y{i}") for i, cut in enumerate(CUTS)]
    )
    assert blocks.sizes == (10, 2, 18)
    assert np.array_equal(stacked(blocks.X), X)
    assert np.array_equal(stacked(blocks.Y), Y)
    assert blocks.label_names == (("c0", "c1", "c2") if kind == "frames" else ("label_0", "label_1", "label_2"))
    assert np.array_equal(blocks.take_rows(blocks.X, [3, 11, 29]) + np.zeros((3, 4)), X[[3, 11, 29]])


def test_names_of_late_blocks_are_labels_of_all():
    blocks = RowBlocks([X[:2], X[2:4]], [[["sea"], []], [["sun", "sea"], ["beach"]]])
    assert blocks.label_names == ("beach", "sea", "sun")
    assert stacked(blocks.Y).tolist() == [[0, 1, 0], [0, 0, 0], [0, 1, 1], [1, 0, 0]]


def test_a_budget_cuts_an_array_and_a_memory_map_is_an_array(tmp_path):
    blocks = RowBlocks(X, Y, memory_budget="1MB")
    assert len(blocks.sizes) == 6
    assert np.array_equal(stacked(blocks.X), X)
    mapped = np.memmap(tmp_path / "x", dtype=float, mode="w+", shape=X.shape)
    mapped[:] = X
    assert not holds_blocks(mapped)
    assert len(RowBlocks(mapped, Y, memory_budget="1MB").sizes) == 6
    assert isinstance(ClearPML().fit(mapped, Y).predict(mapped), np.ndarray)


def test_blocks_without_rows_are_left_out():
    blocks = RowBlocks([X[:0], X[:10], X[10:10], X[10:]], [Y[:0], Y[:10], Y[10:10], Y[10:]])
    assert blocks.sizes == (10, 20)
    assert np.array_equal(stacked(blocks.Y), Y)


@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        ([X[:10], X[10:, :3]], [Y[:10], Y[10:]], "Block 1 of X has 3 columns and the first block 4"),
        ([X[:10], X[10:]], [Y[:10], Y[10:, :2]], "Block 1 of y has 2 columns and the first block 3"),
        ([X[:10], X[10:]], [Y[:9], Y[9:]], "Block 0 has 10 rows in X and 9 in y"),
        ([X[:10], X[10:]], [Y], "y must be a list of as many blocks"),
        ([X[:0]], [Y[:0]], "X has no rows in any block"),
        ([], [], "empty list of blocks"),
        (
            [pd.DataFrame(X, columns=list("abcd")), pd.DataFrame(X, columns=list("abdc"))],
            [Y, Y],
            "other column names than the first block",
        ),
        (["nothing.npy"], [Y], "cannot be read as .npy"),
    ],
)
def test_what_does_not_fit_together_is_told_in_one_sentence(x, y, sentence):
    with pytest.raises(DataError, match=sentence) as told:
        RowBlocks(x, y)
    assert "\n" not in str(told.value)


def test_a_wrong_budget_is_told():
    with pytest.raises(ValueError, match="such as 2GB or 500MB, got 'much'"):
        RowBlocks(X, Y, memory_budget="much")


def test_methods_in_memory_say_so():
    with pytest.raises(ValueError, match="MLkNN learns from data in memory only"):
        MLkNN().fit(RowBlocks(X, Y))
