"""CSV, TSV and Parquet: which columns are what, and clear words where they are not."""

import datetime
import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pmlkit.data import read, write
from pmlkit.data.dataset import PMLDataset
from pmlkit.exceptions import DataError
from refused import refused

POSTS = (
    "key,length,tag_red,tag_blue,links,true_blue,true_red,body,note\n"
    '007,1.5,1,0,3,0,1,"hello, ""you""",x\n'
    '008,2,1,1,0,1,0,"two\nlines",y\n'
    "009,-3e2,0,0,1,0,0,,z\n"
)


@pytest.fixture
def save(tmp_path):
    def save(text, name="toy.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return save


@pytest.fixture
def save_frame(tmp_path):
    def save_frame(frame):
        path = tmp_path / "toy.parquet"
        pq.write_table(
            frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame, preserve_index=False), path
        )
        return path

    return save_frame


def test_all_kinds_of_columns(save):
    data = read(save(POSTS), labels="tag_*", truth="true_*", id="key", media="body", ignore="note")
    assert data.feature_names == ("length", "links")
    assert data.label_names == ("tag_red", "tag_blue")
    assert data.ids == ("007", "008", "009"), "an id keeps its zeros"
    assert data.media == ('hello, "you"', "two\nlines", "")
    np.testing.assert_array_equal(data.X, [[1.5, 3], [2, 0], [-300, 1]])
    np.testing.assert_array_equal(data.Y.toarray(), [[1, 0], [1, 1], [0, 0]])
    np.testing.assert_array_equal(data.truth.toarray(), [[1, 0], [0, 1], [0, 0]])


def test_labels_by_name(save):
    data = read(save(POSTS), labels=["tag_blue"], truth=["true_blue"], ignore=["key", "body", "note", "*red"])
    assert data.label_names == ("tag_blue",)
    assert data.feature_names == ("length", "links")
    one = read(save("a,b\n1,0.5\n0,2\n"), labels="a")
    assert (one.label_names, one.feature_names) == (("a",), ("b",))


def test_truth_without_patterns_goes_by_order(save):
    text = "a,b,ta,tb,x\n1,1,1,0,5\n1,0,1,0,5\n"
    data = read(save(text), labels=["a", "b"], truth=["ta", "tb"])
    np.testing.assert_array_equal(data.truth.toarray(), [[1, 0], [1, 0]])
    with refused("truth.*1 column.*2 labels", path="toy.csv"):
        read(save(text), labels=["a", "b"], truth=["ta"])


def test_sets(save):
    text = "x,tags,right\n1,b;a; c ,a\n2,,\n3,a;a,a\n"
    data = read(save(text), labels="tags", truth="right")
    assert data.label_names == ("a", "b", "c")
    np.testing.assert_array_equal(data.Y.toarray(), [[1, 1, 1], [0, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(data.truth.toarray(), [[1, 0, 0], [0, 0, 0], [1, 0, 0]])
    assert read(save("x,tags\n1,b|a\n"), labels="tags", sep="|").label_names == ("a", "b")
    assert read(save("x,tags\n1,3\n2,12\n"), labels="tags", sep=";").label_names == ("12", "3"), "numbers as tags"
    assert read(save("x,tags\n1,3\n2,1\n"), labels="tags").label_names == ("1", "3")
    with refused(column="right", row=1):
        read(save("x,tags,right\n1,a,a\n2,a,z\n"), labels="tags", truth="right")
    with refused("names no label", column="tags"):
        read(save("x,tags\n1,;\n"), labels="tags", sep=";")


def test_truth_columns_for_labels_in_sets(save):
    data = read(save("x,tags,b,a\n1,a;b,1,0\n2,a,0,1\n"), labels="tags", truth=["a", "b"])
    np.testing.assert_array_equal(data.truth.toarray(), [[0, 1], [1, 0]])


def test_true_and_false_are_one_and_zero(save):
    data = read(save("x,a\nTrue,true\nFalse,false\n"), labels="a")
    np.testing.assert_array_equal(data.X, [[1], [0]])
    np.testing.assert_array_equal(data.Y.toarray(), [[1], [0]])


def test_delimiters_and_encodings(save):
    plain = read(save("a,x,y\n1,2,3\n"), labels="a")
    assert read(save("a;x;y\n1;2;3\n"), labels="a") == plain
    assert read(save("a\tx\ty\n1\t2\t3\n", "toy.tsv"), labels="a") == plain
    assert read(save("a\tx\ty\n1\t2\t3\n", "toy.csv"), labels="a") == plain
    assert read(save("a|x|y\n1|2|3\n"), labels="a", delimiter="|") == plain
    assert read(save("a|x|y\n1|2|3\n"), labels="a") == plain
    np.testing.assert_array_equal(read(save("a;x;y\n1;2,5;3\n"), labels="a").X, [[2.5, 3]])
    assert read(save("a,x,y\r\n1,2,3\r\n"), labels="a") == plain
    assert read(save(b"\xef\xbb\xbfa,x,y\n1,2,3\n"), labels="a") == plain
    assert read(save("a,x,y\n1,2,3\n".encode("utf-16")), labels="a", encoding="utf-16") == plain
    assert read(save(gzip.compress(b"a,x,y\n1,2,3\n"), "toy.csv.gz"), labels="a") == plain
    assert read(save("é,x\n1,2\n".encode("latin-1")), labels="é", encoding="latin-1").label_names == ("é",)
    with refused(option="encoding", line=1):
        read(save("é,x\n1,2\n".encode("latin-1")), labels="é")
    with pytest.raises(ValueError, match="encoding must be"):
        read(save("a,x\n1,2\n"), labels="a", encoding="klingon")


def test_empty_cells(save):
    text = "a,x,y\n1,,3\n0,4,\n1,6,NA\n"
    with refused(option="missing", column="x", row=0):
        read(save(text), labels="a", missing="error")
    np.testing.assert_array_equal(read(save(text), labels="a").X, [[5, 3], [4, 3], [6, 3]])
    np.testing.assert_array_equal(read(save(text), labels="a", missing="zero").X, [[0, 3], [4, 0], [6, 0]])
    with refused(column="a", row=1):
        read(save("a,x\n1,2\n,2\n"), labels="a", missing="zero")


def test_our_own_layout_needs_no_option(tmp_path):
    data = PMLDataset(
        [[1.0, 2.0], [3.0, 4.0]],
        [[1, 1], [0, 1]],
        truth=[[1, 0], [0, 1]],
        ids=["p", "q"],
        media=["m", "n"],
        feature_names=["id", "size"],
        label_names=["red", "label:x"],
    )
    write(data, tmp_path / "a.csv")
    header = (tmp_path / "a.csv").read_text().splitlines()[0].replace('"', "").split(",")
    assert header == ["id", "media", "feature:id", "size", "label:red", "label:label:x", "truth:red", "truth:label:x"]
    assert read(tmp_path / "a.csv") == data
    shuffled = pd.read_csv(tmp_path / "a.csv")[[*header[5:][::-1], *header[:5]]]
    shuffled.to_csv(tmp_path / "b.csv", index=False)
    again = read(tmp_path / "b.csv")
    np.testing.assert_array_equal(again.Y.toarray(), data.Y.toarray()[:, [1, 0]])
    np.testing.assert_array_equal(again.truth.toarray(), data.truth.toarray()[:, [1, 0]])


def test_numbers_as_ids(save):
    assert read(save("key,a,x\n1,1,2\n30,0,2\n"), labels="a", id="key").ids == (1, 30)
    assert read(save("key,a,x\n1,1,2\n03,0,2\n"), labels="a", id="key").ids == ("1", "03")
    assert read(save(f"key,a,x\n{10**30},1,2\n"), labels="a", id="key").ids == (str(10**30),)


def test_parquet_types(save_frame):
    frame = pd.DataFrame(
        {
            "key": [5, 6],
            "f": np.array([1, 2], dtype=np.float32),
            "i": np.array([3, 4], dtype=np.int8),
            "b": [True, False],
            "tag": [1, 0],
            "text": ["t", None],
        }
    )
    data = read(save_frame(frame), labels="tag", id="key", media="text")
    assert data.ids == (5, 6)
    assert data.media == ("t", "")
    np.testing.assert_array_equal(data.X, [[1, 3, 1], [2, 4, 0]])
    assert read(save_frame(frame[["f", "tag"]]), labels="tag").X.dtype == np.float32
    lists = pa.table({"x": [1, 2], "tags": pa.array([["b", "a"], None])})
    assert read(save_frame(lists), labels="tags").label_names == ("a", "b")
    coded = pa.table({"x": [1, 2], "tags": pa.array(["b;a", "c"]).dictionary_encode()})
    assert read(save_frame(coded), labels="tags").label_names == ("a", "b", "c")
    with refused(column="when", row=0):
        read(save_frame(pa.table({"when": [datetime.date(2020, 1, 1)], "tag": [1]})), labels="tag")
    with refused(option="missing", column="x", row=1):
        read(save_frame(pa.table({"x": pa.array([1, None]), "tag": [1, 0]})), labels="tag", missing="error")


@pytest.mark.parametrize(
    ("text", "options", "parts"),
    [
        ("a,b\n1,2\n", {}, {"option": "labels"}),
        ("a,b\n1,2\n", {"labels": "c"}, {"column": "c"}),
        ("a,b\n1,2\n", {"labels": []}, {"says": "no label column"}),
        ("a,b\n1,2\n", {"labels": "a", "id": "c"}, {"column": "c"}),
        ("a,b\n1,2\n", {"labels": "a", "ignore": "z*"}, {"column": "z*"}),
        ("a,b\n1,2\n", {"labels": ["a", "b"]}, {"column": "b", "row": 0}),
        ("a,b\n1,2\n0,x\n", {"labels": "a"}, {"column": "b", "row": 1, "option": "ignore", "value": "'b'"}),
        ("a,b,b\n1,2,3\n", {"labels": "a"}, {"column": "b"}),
        ("a,b\n1,2\n1\n", {"labels": "a"}, {"row": 1, "line": 3}),
        ("a,b\n1,2\n1,2,3\n", {"labels": "a"}, {"row": 1, "line": 3}),
        ("a,b\n", {"labels": "a"}, {"says": "no rows"}),
        ("a,b\n1,inf\n", {"labels": "a"}, {"row": 0, "says": "infinite"}),
        ("a,t,x\n0,1,2\n", {"labels": "a", "truth": "t"}, {"row": 0, "says": "truth"}),
        ("\n", {"labels": "a"}, {"says": "the file is empty"}),
        (bytes(range(256)), {"labels": "a"}, {"option": "encoding", "line": 2}),
    ],
)
def test_refuses(save, text, options, parts):
    with refused(path="toy.csv", **parts):
        read(save(text), **options)


def test_refuses_double_columns_of_parquet(save_frame):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([1])], names=["a", "a"])
    with refused(column="a"):
        read(save_frame(table), labels="a")


def test_one_label_wide_and_a_row_without(save):
    data = read(save("a,x\n0,1\n0,1\n"), labels="a")
    facts = data.describe()
    assert (facts["rows_without_candidates"], facts["labels_without_positives"], facts["constant_features"]) == (
        2,
        1,
        1,
    )


def test_damage_inside_our_own_parquet_is_noticed(tmp_path):
    values = np.random.default_rng(0).normal(size=(500, 1))
    write(PMLDataset(values, np.ones((500, 1))), tmp_path / "a.parquet")
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    content[1000] ^= 0xFF
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(DataError, match="not a readable Parquet file"):
        read(tmp_path / "a.parquet")
