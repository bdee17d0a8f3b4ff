"""Compressed or claimed content is bounded before memory is taken for it, and the bound can be raised."""

import bz2
import gzip
import io
import json
import tracemalloc
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from PIL import Image
from scipy.io import savemat

import pmlkit
from pmlkit.data import read
from pmlkit.data.files.base import FREE_BYTES, LimitedReader
from pmlkit.data.files.side_features import read_embeddings, read_images
from pmlkit.exceptions import DataError
from refused import refused

_ROWS = b"a,label:x\n" + b"1,1\n" * 6_000_000  # 24 MB of text, some 400 MB of lines


def _write(path, content):
    path.write_bytes(content)
    return path


def _mat(shape):
    stream = io.BytesIO()
    savemat(stream, {"data": np.zeros(shape), "target": np.ones((shape[0], 1))}, do_compression=True)
    return stream.getvalue()


def _npz(**arrays):
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def _parquet(n_rows):
    stream = io.BytesIO()
    one = pa.array([1], pa.int8())
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n_rows, dtype=np.int32)), one)
    pa.parquet.write_table(pa.table({"a": column, "label:x": column}), stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv.bz2", bz2.compress(_ROWS)),
        ("t.csv.gz", gzip.compress(_ROWS, mtime=0)),
        ("t.mat", _mat((35_000, 1000))),
        ("t.npz", _npz(X=np.zeros((35_000, 1000)), Y=np.ones((35_000, 1), dtype=np.uint8))),
        ("t.svm", b"3 2147483647:2\n"),
        ("csr.npz", _npz(
            X_data=np.ones(1), X_indices=np.zeros(1, dtype=np.int32), X_indptr=np.array([0, 1]),
            X_shape=np.array([1, 2**31 - 1]), Y=np.ones((1, 1), dtype=np.uint8),
        )),
        ("t.jsonl", b"".join(json.dumps({f"k{i}": 1}).encode() + b"\n" for i in range(6000))),
    ],
)  # fmt: skip
def test_a_bomb_is_refused_before_it_unfolds(tmp_path, name, content):
    path = _write(tmp_path / name, content)
    tracemalloc.start()
    try:
        with refused(option="max_bytes", path=name):
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.5 * FREE_BYTES


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv.gz", gzip.compress(b"a,label:x,label:y\n" + b"1,1,0\n" * 1000, mtime=0)),
        ("t.npz", _npz(X=np.zeros((500, 3)), Y=np.ones((500, 2), dtype=np.uint8))),
        ("t.mat", _mat((500, 3))),
        ("t.svm", b"0 2000:1\n"),
        ("t.parquet", _parquet(100_000)),
    ],
)
def test_the_limit_can_be_chosen(tmp_path, name, content):
    path = _write(tmp_path / name, content)
    with refused(option="max_bytes", path=name):
        read(path, max_bytes=1500)
    assert read(path, max_bytes=10_000_000).n_samples > 0


@pytest.mark.parametrize("limit", [0, -1, "many", True, float("nan"), float("inf")])
def test_a_limit_that_is_no_number_of_bytes(tmp_path, limit):
    path = _write(tmp_path / "t.svm", b"0 1:1\n")
    with pytest.raises(ValueError, match="max_bytes must be a number of bytes from 1"):
        read(path, max_bytes=limit)


def test_pictures_and_embeddings_have_the_limit_too(tmp_path):
    Image.new("1", (10_000, 10_000)).save(tmp_path / "big.png")
    with refused("image 'big.png'", option="max_bytes", value="500000000"):
        read_images(tmp_path, ["big.png"])
    Image.new("RGB", (5000, 3000)).save(tmp_path / "empty.png")  # 45 kB
    with refused("more than the 80 MiB", option="max_bytes", value="120000000"):
        read_images(tmp_path, ["empty.png"])
    assert read_images(tmp_path, ["empty.png"], max_bytes=2**27).shape == (1, 48, 48, 3)
    np.savez_compressed(tmp_path / "e.npz", np.zeros((35_000, 1000)))
    with refused(option="max_bytes", value="280000128"):
        read_embeddings(tmp_path / "e.npz", 35_000)
    table = _write(tmp_path / "t.csv", b"f,tags\nsmall.png,a;b\nsmall.png,a\n")
    Image.new("RGB", (50, 50)).save(tmp_path / "small.png")
    opened = pmlkit.open_table(table, labels="tags", images=("f", tmp_path), max_bytes=5000)
    with refused(option="max_bytes", value="20000", path="t.csv"):
        opened.X  # noqa: B018
    assert pmlkit.open_table(table, labels="tags", images=("f", tmp_path)).X.shape == (2, 304)


def test_an_npy_file_that_claims_more_than_it_holds(tmp_path):
    np.save(tmp_path / "e.npy", np.zeros((3, 4)))
    content = (tmp_path / "e.npy").read_bytes().replace(b"(3, 4)", b"(3,9999999999)"[:14].ljust(6))
    (tmp_path / "e.npy").write_bytes(content)
    with pytest.raises(DataError):
        read_embeddings(tmp_path / "e.npy", 3)


def test_a_stream_is_counted_once_however_often_it_is_rewound():
    stream = io.BufferedReader(LimitedReader(io.BytesIO(b"a\n" * 100), 200 + 64 * 100))
    for _ in range(5):
        stream.seek(0)
        assert stream.read() == b"a\n" * 100
    short = io.BufferedReader(LimitedReader(io.BytesIO(b"a\n" * 100), 199 + 64 * 100))
    with refused("compressed file takes more", option="max_bytes"):
        short.read()


def test_a_matrix_that_unpacks_to_more_than_its_shape(tmp_path):
    content = bytearray(_mat((4, 5)))
    start = 128 + 8
    size = int.from_bytes(content[132:136], "little")
    inside = bytearray(zlib.decompress(bytes(content[start : start + size])))
    packed = zlib.compress(bytes(inside) + bytes(10_000_000))
    path = _write(
        tmp_path / "t.mat", bytes(content[:132]) + len(packed).to_bytes(4, "little") + packed + content[start + size :]
    )
    with refused("more memory than its shape says", option="max_bytes", path="t.mat"):
        read(path)


def test_many_small_bombs_are_no_less_than_one(tmp_path):
    bomb = gzip.compress(b"body,tags\n" + b"word,a\n" * 200_000, mtime=0)  # 14 MB; a thirtieth of 256 MiB is 9 MB
    for k in range(30):
        _write(tmp_path / f"{k}.csv.gz", bomb)
    columns = {"labels": "tags", "text": "body"}
    pmlkit.open_table(tmp_path / "0.csv.gz", **columns)
    with pytest.raises(DataError) as caught:
        pmlkit.open_table(f"{tmp_path}/*.csv.gz", **columns)
    assert caught.value.option == "max_bytes"
    assert pmlkit.open_table(f"{tmp_path}/*.csv.gz", max_bytes=2**28, **columns).columns == ["body", "tags"]
