"""libsvm: with and without its first line, from 0 and from 1, and claims that must not be believed."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from pmlkit.data import read
from refused import refused


@pytest.fixture
def save(tmp_path):
    def save(text, name="toy.svm"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return save


def test_without_first_line(save):
    data = read(save("0,2 1:0.5 3:-1e2 \n1 2:4 # a comment\n\n 1:1\n3:7\n2\n"))
    np.testing.assert_array_equal(data.X, [[0.5, 0, -100], [0, 4, 0], [1, 0, 0], [0, 0, 7], [0, 0, 0]])
    np.testing.assert_array_equal(data.Y.toarray(), [[1, 0, 1], [0, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1]])
    assert data.truth is None
    assert data.label_names == ("label_0", "label_1", "label_2")


def test_with_first_line(save):
    data = read(save("3 4 5\n0,4 0:1 2:2\n\n1 \n"))
    assert (data.n_samples, data.n_features, data.n_labels) == (3, 4, 5)
    assert data.Y.sum(axis=1).tolist() == [2, 0, 1]
    assert read(save("3 4 5\r\n0,4 0:1 2:2\r\n\r\n1\r\n\r\n\r\n")) == data, "blank lines at the end"


def test_where_features_start(save):
    assert read(save("0 1:1 2:1")).n_features == 2
    assert read(save("0 0:1 2:1")).n_features == 3
    assert read(save("0 1:1 2:1"), zero_based=True).n_features == 3
    assert read(save("1 3 1\n0 1:1 2:1")).X.tolist() == [[0, 1, 1]], "a first line usually goes with 0-based"
    assert read(save("1 2 1\n0 1:1 2:1")).X.tolist() == [[1, 1]], "unless an index equals d"
    assert read(save("1 3 1\n0 1:1 2:1"), zero_based=False).X.tolist() == [[1, 1, 0]]
    with refused("index 0, but zero_based=False", path="toy.svm"):
        read(save("0 0:1"), zero_based=False)
    with pytest.raises(ValueError, match="True, False or 'auto'"):
        read(save("0 0:1"), zero_based="no")


def test_sizes_by_option(save):
    data = read(save("0 1:1"), n_features=7, n_labels=3)
    assert (data.n_features, data.n_labels) == (7, 3)
    with refused("n_features=1.*number 4", path="toy.svm"):
        read(save("0 5:1"), n_features=1)
    with refused("n_labels=2.*number 2", path="toy.svm"):
        read(save("2 5:1"), n_labels=2)


def test_sparse_stays_sparse_and_full_becomes_dense(save):
    assert sparse.issparse(read(save("0 1:1 9:1\n0 4:1")).X)
    assert not sparse.issparse(read(save("0 1:1 2:1\n0 1:2 2:4")).X)


def test_agrees_with_scikit_learn(save):
    rng = np.random.default_rng(1)
    lines = []
    for _ in range(9000):
        labels = np.sort(rng.choice(12, rng.integers(1, 4), replace=False)).tolist()
        features = np.sort(rng.choice(np.arange(1, 40), rng.integers(1, 9), replace=False)).tolist()
        cells = [f"{j}:{value!r}" for j, value in zip(features, rng.normal(size=len(features)).tolist(), strict=True)]
        lines.append(f"{','.join(map(str, labels))} {' '.join(cells)}")
    path = save("\n".join(lines))
    X, labels = load_svmlight_file(str(path), multilabel=True)
    data = read(path)
    np.testing.assert_array_equal(data.X.toarray(), X.toarray())
    assert [tuple(row) for row in np.split(data.Y.indices, data.Y.indptr[1:-1])] == labels


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("3000000000 4 5\n0 1:1\n", "claims 3000000000 rows, but 1 follow", None),
        ("1 999999999999 5\n0 1:1\n", "claims 999999999999 features, more than", None),
        ("1 4 999999999999\n0 1:1\n", "claims 999999999999 labels, more than", None),
        ("0 1:1 999999999999:1\n", "features, more than", None),
        ("999999999999 1:1\n", "labels, more than", None),
        ("2 4 5\n0 1:1\n", "claims 2 rows, but 1 follow. Is the file complete", None),
        ("1 4 5\n0 1:1\n0 1:1\n", "claims 1 rows, but 2 follow", None),
        ("1 2 5\n0 3:1\n", "claims 2 features, but a feature number", None),
        ("1 9 2\n3 3:1\n", "claims 2 labels, but a label number 3", None),
        ("0 1:1\n0 1:x\n", "a feature whose value is not a number: '1:x'", 2),
        ("0 1:1\n0 1:2:3 4\n", "not of the form", 2),
        ("0 1:\n", "not of the form", 1),
        ("a 1:1\n", "not of the form", 1),
        ("-1 1:1\n", "not of the form", 1),
        ("0,,1 1:1\n", "not of the form", 1),
        ("0 1.5:1\n", "not of the form", 1),
        ("0 qid:3 1:1\n", "not of the form", 1),
        ("0 1:1 1:2\n", r"1 feature given twice in the same row", None),
        ("0,0 1:1\n", r"1 label given twice", None),
        ("0 1:nan\n", "NaN or infinite", None),
        ("0 1:inf\n", "NaN or infinite", None),
        ("\n\n", "no rows", None),
        ("1 2 3\n", "claims 1 rows|no rows", None),
        (" 1:1\n", "no label column", None),
    ],
)
def test_refuses(save, text, says, line):
    with refused(says, line=line, path="toy.svm"):
        read(save(text))


def test_recognised_by_content(save):
    assert read(save("0,1 1:1 2:1\n", "toy.txt")).n_labels == 2
    assert read(save("1 2 2\n0,1 1:1\n", "toy")).n_labels == 2
    assert read(save("0 " + " ".join(f"{j}:1" for j in range(1, 40_000)), "wide.txt")).n_features == 39_999
