"""Odd files and outputs are refused in one sentence of our own, never by an error of a library."""

import io
import json

import numpy as np
import pytest

from pmlkit._files import check_target
from pmlkit.data import read
from pmlkit.exceptions import DataError

_X, _Y = np.zeros((2, 1)), np.ones((2, 1), dtype=np.uint8)


def _npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, X=_X, Y=_Y, **arrays)
    return stream.getvalue()


_ARFF = "@relation 'r: -C {}'\n@attribute L {{0,1}}\n@attribute a real\n@data\n{}\n"
_DIGITS = "9" * 5000


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("t.npz", _npz(ids=np.array(3)), r"ids must be a list of numbers or texts, got shape \(\)"),
        ("t.npz", _npz(ids=np.array("a")), r"ids must be a list of text, got shape \(\)"),
        ("t.npz", _npz(ids=np.zeros((2, 1), dtype=np.int64)), r"ids must be a list of numbers or texts, got"),
        ("t.npz", _npz(media=np.array("a")), "media must be an array of images or a sequence of strings"),
        ("t.npz", _npz(media=np.array([["a"], ["b"]])), "media must be an array of images or a sequence of strings"),
        (
            "t.npz",
            _npz(media_text=np.zeros(1, dtype=np.uint8), media_ends=np.zeros(0, dtype=np.int64)),
            "media_ends does not divide media_text",
        ),
        ("t.arff", _ARFF.format(_DIGITS, "1,2").encode(), "-C in the relation name asks .* 5,000 digits"),
        ("t.arff", _ARFF.format(1, f"{{{_DIGITS} 1}}").encode(), "line 5 is not a sparse row"),
        ("t.arff", _ARFF.format(1, "{² 1}").encode(), "line 5 is not a sparse row"),
        ("t.jsonl", f'{{"label:x": {_DIGITS}}}'.encode(), "line 1 .* number of thousands of digits"),
        ("t.svm", f"0 {_DIGITS}:1\n".encode(), "line 1 is not of the form"),
        ("t.svm", "0 ²:1\n".encode(), "line 1 is not of the form"),
    ],
)  # fmt: skip
def test_odd_content(tmp_path, name, content, sentence):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=sentence):
        read(path, format="libsvm" if name.endswith("svm") else None)


def test_texts_of_no_rows_divide_nothing(tmp_path):
    empty = np.zeros(0, dtype=np.uint8)
    path = tmp_path / "t.npz"
    np.savez(path, X=_X, Y=_Y, media_text=empty, media_ends=np.zeros(0, dtype=np.int64))
    with pytest.raises(DataError, match="one string for each of the 2 rows, got 0"):
        read(path)


def test_rows_without_features_may_be_counted_from_one(tmp_path):
    path = tmp_path / "t.svm"
    path.write_text("0\n1\n")
    assert read(path, zero_based=False).X.shape == (2, 0)
    path.write_text("0 0:1\n")
    with pytest.raises(DataError, match="a feature has the index 0, but zero_based=False"):
        read(path, zero_based=False)


def test_an_output_that_is_a_loop_of_links(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(DataError, match="a link that leads back to itself"):
        check_target(tmp_path / "a")


def test_numbers_of_json_that_are_fine(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"a": 10**100, "label:x": 1}) + "\n")
    assert read(path).X.tolist() == [[1e100]]
