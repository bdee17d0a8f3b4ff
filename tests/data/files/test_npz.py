"""npz: the arrays of the exchange format, and files that lie about them."""

import io
import struct
import zipfile

import numpy as np
import pytest
from scipy import sparse

from pmlkit.data import read, write
from pmlkit.data.dataset import PMLDataset
from pmlkit.data.files import npz
from pmlkit.exceptions import DataError
from refused import refused

X = np.array([[0.0, 1.5, 0.0], [2.0, 0.0, 0.0]])
Y = np.array([[1, 1], [0, 1]], dtype=np.uint8)
TRUTH = np.array([[1, 0], [0, 1]], dtype=np.uint8)
PARTS = {
    "X_data": np.array([1.5, 2.0]),
    "X_indices": np.array([1, 0], dtype=np.int32),
    "X_indptr": np.array([0, 1, 2], dtype=np.int32),
    "X_shape": np.array([2, 3]),
}


@pytest.fixture
def save(tmp_path):
    def save(**arrays):
        np.savez_compressed(tmp_path / "toy.npz", **arrays)
        return tmp_path / "toy.npz"

    return save


def test_y_is_the_truth_and_also_the_candidates(save):
    data = read(save(X=X, Y=Y))
    np.testing.assert_array_equal(data.Y.toarray(), Y)
    np.testing.assert_array_equal(data.truth.toarray(), Y)
    data = read(save(X=X, Y=TRUTH, Y_candidate=Y))
    np.testing.assert_array_equal(data.Y.toarray(), Y)
    np.testing.assert_array_equal(data.truth.toarray(), TRUTH)
    assert data.name == "toy"


def test_forms_of_x(save):
    assert read(save(Y=Y, **PARTS)) == read(save(Y=Y, X=X))
    assert read(save(Y=Y)).n_features == 0
    big_endian = {name: array.astype(array.dtype.newbyteorder(">")) for name, array in PARTS.items()}
    assert read(save(Y=Y, **big_endian)) == read(save(Y=Y, X=X))


def test_arrays_written(tmp_path):
    data = PMLDataset(X, Y, truth=TRUTH, label_names=["é", "b"])
    write(data, tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        assert sorted(arrays) == ["X", "Y", "Y_candidate", "label_names"]
        np.testing.assert_array_equal(arrays["Y"], TRUTH)
    write(data.replace(truth=None, X=sparse.csr_array(X)), tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz", allow_pickle=False) as arrays:
        assert sorted(arrays) == ["X_data", "X_indices", "X_indptr", "X_shape", "Y", "label_names", "truth_known"]
    assert read(tmp_path / "b.npz").truth is None
    write(data.replace(truth=Y), tmp_path / "c.npz")
    with np.load(tmp_path / "c.npz", allow_pickle=False) as arrays:
        assert "Y_candidate" not in arrays


def test_large_labels_are_written_sparse(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "_LARGE", 3)
    data = PMLDataset(X, Y, truth=TRUTH)
    write(data, tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        assert "Y_candidate_indices" in arrays
        assert "Y" not in arrays
    assert read(tmp_path / "a.npz") == data


def test_one_long_text_does_not_widen_the_others(tmp_path):
    media = ["x" * 1_000_000, *("short" for _ in range(999))]
    data = PMLDataset(np.zeros((1000, 1)), np.ones((1000, 1)), media=media)
    write(data, tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as arrays:
        assert sum(arrays[name].nbytes for name in arrays) < 2_000_000
    assert read(tmp_path / "a.npz") == data


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": X}, "no array Y; the file has 'X'"),
        ({"Y": Y, "X": X[:1]}, "same rows, got 1 and 2"),
        ({"Y": Y, "X": X * np.nan}, "NaN or infinite"),
        ({"Y": Y * 2}, "got the value"),
        ({"Y": Y[0]}, "Y must be a matrix of numbers"),
        ({"Y": np.array([["a"]])}, "Y must be a matrix of numbers"),
        ({"Y": Y[:0]}, "no rows"),
        ({"Y": Y[:, :0]}, "no label column"),
        ({"Y": Y, "Y_candidate": TRUTH}, "1 cell.s. of truth are not in Y"),
        ({"Y": Y, "Y_candidate": Y[:, :1]}, "same shape"),
        ({"Y": Y, "label_names": np.array(["a", "a"])}, "'a' occurs more than once"),
        ({"Y": Y, "label_names": np.array([1, 2])}, "label_names must be a list of text"),
        ({"Y": Y, "X": X, "feature_names": np.array(["u", "u", "v"])}, "'u' occurs more than once"),
        ({"Y": Y, "media": np.zeros((2, 2))}, "media must be images"),
        ({"Y": Y, "media_text": np.frombuffer(b"ab", np.uint8), "media_ends": np.array([1, 3])}, "does not divide"),
        ({"Y": Y, "media_text": np.frombuffer(b"ab", np.uint8), "media_ends": np.array([-1, 2])}, "does not divide"),
        ({"Y": Y, "media_text": np.frombuffer(b"\xff\xff", np.uint8), "media_ends": np.array([1, 2])}, "not UTF-8"),
        ({"Y": Y, "media_text": np.zeros(2), "media_ends": np.array([1, 2])}, "list of bytes"),
        ({"Y": Y, "X_indices": PARTS["X_indices"]}, "X lacks a part"),
        ({"Y": Y, **PARTS, "X_indices": np.array([1, 3])}, "X_indices must lie between 0 and 2"),
        ({"Y": Y, **PARTS, "X_indices": np.array([-1, 0])}, "X_indices must lie between"),
        ({"Y": Y, **PARTS, "X_indices": np.array([1.0, 0.0])}, "lists of numbers, whole ones"),
        ({"Y": Y, **PARTS, "X_indptr": np.array([0, 2, 1])}, "does not divide"),
        ({"Y": Y, **PARTS, "X_indptr": np.array([1, 1, 2])}, "does not divide"),
        ({"Y": Y, **PARTS, "X_indptr": np.array([0, 1, 9])}, "does not divide"),
        ({"Y": Y, **PARTS, "X_indptr": np.array([0, 1])}, "X_indptr has 2 entries"),
        ({"Y": Y, **PARTS, "X_data": np.array([1.0])}, "does not divide"),
        ({"Y": Y, **PARTS, "X_data": np.array(["a", "b"])}, "lists of numbers"),
        ({"Y": Y, **PARTS, "X_shape": np.array([10**12, 3])}, "X_indptr has 3 entries"),
        ({"Y": Y, **PARTS, "X_shape": np.array([2, 10**12])}, "claims 1000000000000 features"),
        ({"Y": Y, **PARTS, "X_shape": np.array([2, -3])}, "X_shape is 2 x -3"),
        ({"Y": Y, **PARTS, "X_shape": np.array([6])}, "lists of numbers"),
    ],
)
def test_refuses(save, arrays, message):
    with refused(message, path="toy.npz"):
        read(save(**arrays))


def test_never_unpickles(save):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    with refused("Python objects, which are never loaded", path="toy.npz"):
        read(save(Y=Y, X=np.array([[Trap()], [1]], dtype=object)))
    with refused("Python objects", path="toy.npz"):
        read(save(Y=Y, label_names=np.array(["a", "b"], dtype=object)))


def npy(shape, dtype="|u1", body=b""):
    """Return an npy file whose header claims a shape, with whatever body."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue() + body


@pytest.mark.parametrize("shape", [(10**5, 10**5), (2**62, 4), (2**62, 2**62), (3, 1)])
def test_a_header_that_claims_too_much(tmp_path, shape):
    path = tmp_path / "toy.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Y.npy", npy(shape, body=b"\1\0"))
    with refused(r"the array Y claims shape .* but 2 are there", path="toy.npz"):
        read(path)


def test_a_directory_that_claims_too_much(tmp_path):
    path = tmp_path / "toy.npz"
    member = npy((100_000, 100_000), body=bytes(100))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("Y.npy", member)
    true, false = struct.pack("<I", len(member)), struct.pack("<I", 2**32 - 2)
    content = path.read_bytes()
    start = content.rindex(b"PK\x01\x02")
    # The uncompressed size in the central directory is the second of the two sizes.
    content = content[: start + 24] + content[start + 24 :].replace(true, false, 1)
    path.write_bytes(content)
    with refused(r"the array Y claims 4294967294 bytes, but only \d+ are there", path="toy.npz"):
        read(path)


@pytest.mark.parametrize(
    "body", [b"", b"\x93NUMPY", b"\x93NUMPY\x09\x00", b"rubbish", b"\x93NUMPY\x01\x00\x05\x00{1:2}", npy((2,))[:20]]
)
def test_members_that_are_no_arrays(tmp_path, body):
    path = tmp_path / "toy.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("Y.npy", body)
    with pytest.raises(DataError):
        read(path)


def test_other_compression_is_refused(tmp_path):
    path = tmp_path / "toy.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("Y.npy", npy((2, 2), body=b"\1\0\0\1"))
    with refused("compressed in a way", path="toy.npz"):
        read(path)
