"""MATLAB files: our reader against scipy's, the shapes of the papers, and damage."""

import struct
import zlib

import numpy as np
import pytest
from scipy import sparse
from scipy.io import savemat

from pmlkit.data import read
from pmlkit.data.files.mat import list_variables
from pmlkit.exceptions import DataError
from refused import refused

X = np.array([[0.5, 1, 2], [3, 4, 5], [6, 7, 8], [9, 1, 1]])
Y = np.array([[1, 1], [0, 1], [1, 1], [0, 0]])
TRUTH = np.array([[1, 0], [0, 1], [1, 1], [0, 0]])


@pytest.fixture
def save(tmp_path):
    def save(compress=True, **matrices):
        path = tmp_path / "toy.mat"
        savemat(path, matrices, do_compression=compress)
        return path

    return save


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("pack", [np.asarray, sparse.csc_array])
@pytest.mark.parametrize("turn", [np.asarray, np.transpose])
def test_candidates_and_truth_in_either_orientation(save, compress, pack, turn):
    labels = {"partial_labels": pack(turn(Y).astype(float)), "target": pack(turn(TRUTH).astype(float))}
    data = read(save(compress, data=pack(X), **labels))
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.Y.toarray(), Y)
    np.testing.assert_array_equal(data.truth.toarray(), TRUTH)


def test_names(save):
    assert read(save(train_data=X, candidate_labels=Y)).truth is None
    data = read(save(X=X, labels=TRUTH))
    assert (data.truth != data.Y).nnz == 0
    assert read(save(Data=X, TARGET=TRUTH, partial_target=Y)).describe()["false_candidates"] == 1
    odd = save(foo=X, bar=Y, baz=TRUTH)
    with refused("'bar', 'baz', 'foo'", option="data"):
        read(odd)
    with refused(option="truth"):
        read(odd, data="foo")
    assert read(odd, data="foo", candidates="bar", truth="baz").describe()["false_candidates"] == 1
    with refused("no matrix 'zip'; the file has", path="toy.mat"):
        read(odd, data="zip")


def test_orientation_is_asked_for_where_shapes_do_not_tell(save, caplog):
    square = save(data=X, target=np.triu(np.ones((4, 4))))
    with pytest.raises(DataError) as caught:
        read(square)
    assert (caught.value.option, caught.value.value) == ("orientation", "'rows'")
    by_rows, by_columns = read(square, orientation="rows"), read(square, orientation="columns")
    np.testing.assert_array_equal(by_rows.Y.toarray(), by_columns.Y.toarray().T)
    np.testing.assert_array_equal(by_rows.Y.toarray(), np.triu(np.ones((4, 4))))
    with pytest.raises(ValueError, match="'rows' or 'columns', got 'up'"):
        read(square, orientation="up")
    with caplog.at_level("INFO", logger="pmlkit"):
        read(save(data=X, target=TRUTH.T))
    assert "labels by columns" in caplog.text
    with refused("do not fit", path="toy.mat"):
        read(save(data=X, target=TRUTH.T), orientation="rows")


def test_features_may_be_turned(save):
    np.testing.assert_array_equal(read(save(data=X.T, target=TRUTH)).X, X)
    with refused(r"features \(4 x 3\) and labels \(5 x 2\) do not fit", path="toy.mat"):
        read(save(data=X, target=np.ones((5, 2))))
    with refused("same shape", path="toy.mat"):
        read(save(data=X, target=TRUTH, partial_labels=Y.T))


def test_minus_one_is_absent(save):
    for pack in (np.asarray, sparse.csc_array):
        data = read(save(data=X, target=pack(2.0 * TRUTH - 1), partial_labels=pack(2.0 * Y - 1)))
        np.testing.assert_array_equal(data.Y.toarray(), Y)
        np.testing.assert_array_equal(data.truth.toarray(), TRUTH)
    with refused(r"got the value\(s\) -1", path="toy.mat"):
        read(save(data=X, target=np.where(TRUTH, 1, [[-1, 0]])))


def test_thin_features_become_sparse(save):
    assert sparse.issparse(read(save(data=np.eye(10), target=np.ones((10, 2)))).X)
    assert not sparse.issparse(read(save(data=sparse.csc_array(X), target=TRUTH)).X)


def test_other_variables_do_no_harm(save):
    extra = {"cells": np.array([1, "a"], dtype=object), "info": {"x": 1}, "word": "hello", "z": np.array([1j])}
    assert read(save(data=X, target=TRUTH, **extra)).n_samples == 4


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("text", "got char"),
        ({"a": 1}, "got struct"),
        (np.array([[1, "a"]], dtype=object), "got cell"),
        (X * 1j, "got complex numbers"),
        (np.zeros((2, 2, 2)), r"numeric of shape \(2, 2, 2\)"),
        (np.zeros((0, 3)), "do not fit"),
    ],
)
def test_refuses_what_is_no_matrix(save, value, message):
    with refused(message, path="toy.mat"):
        read(save(data=value, target=TRUTH))


def test_refuses_missing_numbers(save):
    with refused("NaN or infinite", row=1, path="toy.mat"):
        read(save(data=np.where(X == 5, np.nan, X), target=TRUTH))


@pytest.mark.parametrize("order", ["<", ">"])
def test_byte_order_and_number_types(order):
    """A file put together by hand, from the published description of the format."""

    def element(kind, content):
        return struct.pack(order + "II", kind, len(content)) + content + b"\0" * (-len(content) % 8)

    def matrix(name, number, kind, code, values, shape):
        body = element(6, struct.pack(order + "II", number, 0)) + element(5, struct.pack(order + "ii", *shape))
        # A name of up to four letters sits in a small element.
        body += struct.pack(order + "I", len(name) << 16 | 1)
        body += name.ljust(4, b"\0") + element(kind, struct.pack(f"{order}{len(values)}{code}", *values))
        return element(14, body)

    header = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack(order + "H", 0x0100) + (b"IM" if order == "<" else b"MI")
    content = header + matrix(b"one", 6, 3, "h", [1, -2, 3, 300], (2, 2)) + matrix(b"b", 7, 7, "f", [0.5, 4], (1, 2))
    one, b = list_variables(content)
    assert (one.name, one.load().tolist()) == ("one", [[1, 3], [-2, 300]])
    assert (b.name, b.load().tolist()) == ("b", [[0.5, 4]])


def test_refuses_other_versions_and_rubbish(tmp_path):
    path = tmp_path / "toy.mat"
    for content, message in (
        (b"MATLAB 7.3 MAT-file".ljust(126) + b"IM", "v7.3 .HDF5. file"),
        (b"\x89HDF\r\n\x1a\n" + bytes(200), "v7.3 .HDF5. file"),
        (b"MATLAB 5.0 MAT-file", "not a MATLAB file of version 5 to 7, or not all"),
        (bytes(range(256)), "not a MATLAB file"),
    ):
        path.write_bytes(content)
        with refused(message, path="toy.mat"):
            read(path)
    path.write_bytes(b"MATLAB 5.0 MAT-file".ljust(126) + b"IM")
    with refused(option="data", path="toy.mat"):
        read(path)


def _patched(path, old, new, count=1):
    content = path.read_bytes()
    assert content.count(old) >= 1
    path.write_bytes(content.replace(old, new, count))
    return path


def test_false_claims_of_size_are_found_out(save):
    path = _patched(save(False, data=X, target=TRUTH), struct.pack("<ii", 4, 3), struct.pack("<ii", 40_000, 30_000))
    with refused("'data'.*40000 x 30000.*12", path="toy.mat"):
        read(path)
    packed = sparse.csc_array(np.eye(4, 3))
    path = _patched(save(False, data=packed, target=TRUTH), struct.pack("<ii", 4, 3), struct.pack("<ii", 2**31 - 1, 3))
    with refused("cannot be right", path="toy.mat"):
        read(path)
    path = _patched(
        save(False, data=packed, target=TRUTH), struct.pack("<4i", 0, 1, 2, 3), struct.pack("<4i", 0, 1, 2, 9)
    )
    with refused("'data' claims 9 values, but 3 are there", path="toy.mat"):
        read(path)
    path = _patched(
        save(False, data=packed, target=TRUTH), struct.pack("<4i", 0, 1, 2, 3), struct.pack("<4i", 0, 2, 1, 3)
    )
    with refused("columns.*'data'", path="toy.mat"):
        read(path)
    path = _patched(save(False, data=packed, target=TRUTH), struct.pack("<3i", 0, 1, 2), struct.pack("<3i", 0, 77, 2))
    with refused("rows.*'data'", path="toy.mat"):
        read(path)


def test_a_cut_compressed_matrix(tmp_path, save):
    content = save(True, data=np.random.default_rng(0).normal(size=(40, 30)), target=np.ones((40, 2))).read_bytes()
    size = struct.unpack("<I", content[132:136])[0]
    inside = zlib.decompress(content[136 : 136 + size])
    half = zlib.compress(inside)[:-200]
    path = tmp_path / "cut.mat"
    path.write_bytes(content[:128] + struct.pack("<II", 15, len(half)) + half + content[136 + size :])
    with refused("ends too early", path="cut.mat"):
        read(path)
