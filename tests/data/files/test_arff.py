"""ARFF: the traps of the format one by one, on files small enough to see the answer."""

import bz2
import gzip

import numpy as np
import pytest
from scipy import sparse

from pmlkit.data import read
from pmlkit.data.files.arff import quote, read_header, unquote
from pmlkit.exceptions import DataError, PMLWarning
from refused import refused

DENSE = """\
% a comment
@RELATION 'toy: -C 2 -split-number 3' %50

@Attribute red {0,1}
@attribute 'dark blue'	{0, 1}
@attribute size REAL
@ATTRIBUTE colour {low,'very high',mid}  % words
@attribute sure {NO,YES}
@attribute grade {1,2,5}
@data
% another
1,0,0.5,low,NO,1
0,1, -2e3 ,'very high',YES,5

1,1,7,mid,NO,2.0
"""


@pytest.fixture
def save(tmp_path):
    def save(text, name="toy.arff", xml=None):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        if xml is not None:
            (tmp_path / "toy.xml").write_text(
                "<labels>" + "".join(f'<label name="{name}"></label>' for name in xml) + "</labels>"
            )
        return path

    return save


def toy(relation="toy", attributes=("a {0,1}", "b {0,1}", "x numeric"), rows=("1,0,2.5", "0,1,3")):
    return "\n".join([f"@relation {relation}", *(f"@attribute {a}" for a in attributes), "@data", *rows])


def test_dense_with_everything(save):
    data = read(save(DENSE))
    assert data.label_names == ("red", "dark blue")
    assert data.feature_names == ("size", "colour", "sure", "grade")
    np.testing.assert_array_equal(data.X, [[0.5, 0, 0, 1], [-2000, 1, 1, 5], [7, 2, 0, 2]])
    np.testing.assert_array_equal(data.Y.toarray(), [[1, 0], [0, 1], [1, 1]])
    assert data.truth is None
    assert (data.name, data.provenance) == ("toy", "read from toy.arff (arff)")


def test_one_hot(save):
    data = read(save(DENSE), nominal="onehot")
    assert data.feature_names == (
        *("size", "colour=low", "colour=very high", "colour=mid", "sure", "grade=1", "grade=2", "grade=5"),
    )
    np.testing.assert_array_equal(data.X[:, 1:4], np.eye(3))
    np.testing.assert_array_equal(data.X[:, 5:], [[1, 0, 0], [0, 0, 1], [0, 1, 0]])
    packed = read(
        save(toy(attributes=("a {0,1}", "c {p,q,r}", "x real"), rows=("{0 1,1 q}", "{2 4}"))),
        labels=1,
        nominal="onehot",
    )
    assert sparse.issparse(packed.X)
    np.testing.assert_array_equal(packed.X.toarray(), [[0, 1, 0, 0], [1, 0, 0, 4]])
    assert read(save(toy(attributes=("a {0,1}",), rows=("1",))), labels=1, nominal="onehot").n_features == 0


def test_sparse_rows(save):
    rows = ("{0 1,2 2.5}", "{ }", "{}", "{1 1 , 2\t-1e-3}", "{2 4,0 1}")
    data = read(save(toy(rows=rows)), labels=2)
    assert sparse.issparse(data.X)
    np.testing.assert_array_equal(data.X.toarray(), [[2.5], [0], [0], [-1e-3], [4]])
    np.testing.assert_array_equal(data.Y.toarray(), [[1, 0], [0, 0], [0, 0], [0, 1], [1, 0]])


def test_an_omitted_sparse_value_is_the_first_of_its_list(save):
    data = read(save(toy(attributes=("a {YES,NO}", "b {NO,YES}", "x {3,4}"), rows=("{0 NO,2 4}", "{1 YES}"))), labels=2)
    np.testing.assert_array_equal(data.Y.toarray(), [[0, 0], [1, 1]])
    np.testing.assert_array_equal(data.X.toarray(), [[4], [3]])


def test_quoted_sparse_values(save):
    data = read(
        save(toy(attributes=("a {0,1}", "c {'p, q','it\\'s'}"), rows=("{0 1,1 'it\\'s'}", "{1 'p, q', 0 1}"))), labels=1
    )
    np.testing.assert_array_equal(data.X.toarray(), [[1], [0]])
    np.testing.assert_array_equal(data.Y.toarray(), [[1], [1]])


def test_labels_by_option(save, tmp_path):
    path = save(toy(relation="'r: -C 1'"))
    assert read(path).label_names == ("a",)
    assert read(path, labels=2).label_names == ("a", "b")
    assert read(path, labels=["b", "a"]).label_names == ("a", "b"), "in the order of the file"
    assert read(path, labels="[ab]").label_names == ("a", "b")
    assert read(path, labels="b").label_names == ("b",)
    assert read(save(toy(rows=("1,0,1",))), labels=-2).label_names == ("b", "x")
    other = tmp_path / "other.xml"
    other.write_text('<labels><label name="b"/></labels>')
    assert read(path, labels=other).label_names == read(path, labels=str(other)).label_names == ("b",)


def test_meka_counts_negative_from_the_end(save):
    assert read(save(toy(relation="'r: -C -1'", rows=("1,0,1",)))).label_names == ("x",)
    assert read(save(toy(relation='"r: -c 2"'))).label_names == ("a", "b")
    assert read(save(toy(relation="r:-C 2"))).label_names == ("a", "b")


def test_xml_wins_over_the_relation_name(save):
    assert read(save(toy(relation="'r: -C 1'"), xml=["b", "a"])).label_names == ("a", "b")
    assert read(save(toy(relation="'r: -C 1'"), "toy-test.arff")).label_names == ("a", "b"), (
        "the XML serves the cuts too"
    )


def test_moved_attributes_after_the_count_are_warned_of(save):
    relation = "'r: -C 2-weka.filters.unsupervised.attribute.Remove-R1-45'"
    with pytest.warns(PMLWarning) as caught:
        read(save(toy(relation=relation)))
    assert caught[0].message.option == "labels"
    assert read(save(toy(relation=relation), xml=["a"])).n_labels == 1


def test_a_backslash_is_literal_outside_quotes(save):
    attributes = (r"TAG_dise\~no {0,1}", r"TAG_m\'usica {0,1}", r"'it\'s' {0,1}", r"'a\~b' {0,1}", "x real")
    names = (r"TAG_dise\~no", r"TAG_m\'usica", "it's", r"a\~b")
    rows = ("1,0,1,0,2",)
    assert read(save(toy(attributes=attributes, rows=rows)), labels=4).label_names == names
    raw = [r"TAG_dise\~no", r"TAG_m\'usica", r"it\'s", r"a\~b"]
    assert read(save(toy(attributes=attributes, rows=rows), xml=raw)).label_names == names
    assert read(save(toy(attributes=attributes, rows=rows), xml=names)).label_names == names


def test_quote_and_unquote_are_inverse():
    for text in ("plain", "it's", 'say "x"', "back\\slash", "\\'", "a\nb\tc\r", "%", "", "?", "{0}", "\\n"):
        assert unquote(quote(text)) == text
        [attribute] = read_header(enumerate([f"@attribute {quote(text)} real", "@data"])).attributes
        assert attribute.name == text


def test_missing_values(save):
    text = toy(attributes=("a {0,1}", "x real", "c {p,q}"), rows=("1,?,q", "0,2,?", "1,4,q"))
    with refused(option="missing", column="x", row=0, path="toy.arff"):
        read(save(text), labels=1, missing="error")
    np.testing.assert_array_equal(read(save(text), labels=1).X, [[3, 1], [2, 1], [4, 1]])
    np.testing.assert_array_equal(read(save(text), labels=1, missing="zero").X, [[0, 1], [2, 0], [4, 1]])
    packed = toy(attributes=("a {0,1}", "x real"), rows=("{0 1,1 ?}", "{1 2}", "{}"))
    with refused(option="missing", column="x", row=0):
        read(save(packed), labels=1, missing="error")
    np.testing.assert_array_equal(read(save(packed), labels=1, missing="mean").X.toarray(), [[1], [2], [0]])
    np.testing.assert_array_equal(read(save(packed), labels=1, missing="zero").X.toarray(), [[0], [2], [0]])
    with refused(column="a", row=0):
        read(save(toy(rows=("?,0,1",))), labels=1, missing="zero")
    with pytest.raises(ValueError, match="'error', 'mean' or 'zero', got 'median'"):
        read(save(text), labels=1, missing="median")


def test_ignored_attributes_may_be_anything(save):
    attributes = ("key string", "a {0,1}", "x real", "day date 'yyyy'")
    rows = ("'p,1',1,2,1999", "q r,0,3,?")
    text = toy(attributes=attributes, rows=rows)
    with pytest.raises(DataError) as caught:
        read(save(text), labels=["a"])
    assert (caught.value.option, caught.value.value, caught.value.column) == ("ignore", "'key'", "key")
    data = read(save(text), labels=["a"], ignore=["key", "d*"])
    assert data.feature_names == ("x",)
    np.testing.assert_array_equal(data.X, [[2], [3]])
    packed = read(
        save(toy(attributes=attributes, rows=("{0 'p, q',1 1}", "{2 1}"))), labels=["a"], ignore=["key", "day"]
    )
    np.testing.assert_array_equal(packed.X.toarray(), [[0], [1]])


def test_odd_but_valid_files(save):
    assert read(save(toy(rows=("1 0 2.5", "0\t1\t3"))), labels=2) == read(save(toy()), labels=2), (
        "white space separates"
    )
    assert read(save(toy().replace("\n", "\r\n")), labels=2) == read(save(toy()), labels=2)
    assert read(save(b"\xef\xbb\xbf" + toy().encode()), labels=2) == read(save(toy()), labels=2), "byte order mark"
    latin = toy(attributes=("caf\xe9 {0,1}", "x real"), rows=("1,2",)).encode("latin-1")
    assert read(save(latin), labels=1).label_names == ("café",)
    assert read(save(toy(attributes=("a{0,1}", "x real"), rows=("1,2",))), labels=1).label_names == ("a",)
    assert read(save(toy(attributes=("a numeric", "x integer"), rows=("1.0,2",))), labels=1).Y.sum() == 1
    same = toy(attributes=("a {0,1}", "x real"), rows=("1,5", "1,5", "0,5"))
    assert read(save(same), labels=1).describe()["constant_features"] == 1


def test_compressed(save):
    for pack, ending in ((gzip.compress, "gz"), (bz2.compress, "bz2")):
        data = read(save(pack(DENSE.encode()), f"toy.arff.{ending}"))
        assert data == read(save(DENSE))
        assert data.name == "toy"
        assert read(save(pack(DENSE.encode()), "toy")) == data, "by content alone"
    assert read(save(gzip.compress(toy().encode()), "toy.arff.gz", xml=["b"])).label_names == ("b",)


@pytest.mark.parametrize(
    ("text", "labels", "says", "parts"),
    [
        (toy(), None, "nothing says which attributes are labels.*toy.xml", {"option": "labels"}),
        (toy(), 4, "asks for 4 labels, but there are 3", {}),
        (toy(), 0, "asks for 0 labels", {}),
        (toy(relation="'r: -C 9'"), None, "-C asks for 9 labels", {}),
        (toy(), ["zz"], "there is no attribute", {"column": "zz"}),
        (toy(), "zz*", "there is no attribute", {"column": "zz*"}),
        (toy(), "none.xml", "none.xml cannot be read", {}),
        (toy(rows=()), 1, "no rows", {}),
        (toy(rows=("1,0",)), 1, "2 values, but there are 3 attributes", {"line": 6}),
        (toy(rows=("1,0,2", "1,0,abc")), 1, "'abc', which is not a number", {"line": 7, "column": "x"}),
        (toy(rows=("2,0,1",)), 1, "'2', which is not one of {0, 1}", {"line": 6, "column": "a"}),
        (toy(rows=("{0 2}",)), 1, "the value '2'", {"line": 6, "column": "a"}),
        (toy(rows=("{0 1}", "{2 x}")), 1, "the value 'x'", {"line": 7, "column": "x"}),
        (toy(rows=("{1000000000000 1}",)), 1, "the index 1000000000000, but there are only 3", {"line": 6}),
        (toy(rows=("{" + "9" * 5000 + " 1}",)), 1, "not a sparse row", {"line": 6}),
        (toy(rows=("{-1 1}",)), 1, "not a sparse row", {"line": 6}),
        (toy(rows=("{0 1", "{1 1}")), 1, "not a sparse row.*complete", {"line": 6}),
        (toy(rows=("{0 1,}",)), 1, "not a sparse row", {"line": 6}),
        (toy(rows=("{0 1}, {0.5}",)), 1, None, {"line": 6}),
        (toy(rows=("{0 1,0 1}",)), 1, "two values", {"column": "a"}),
        (toy(rows=("1,0,inf",)), 1, "NaN or infinite", {"row": 0}),
        (toy(attributes=("a {0,1,2}", "x real"), rows=("2,1",)), 1, "the value 2", {"column": "a", "row": 0}),
        (toy(attributes=("a {0,1,2}", "x real"), rows=("{1 4}", "{0 2}")), 1, None, {"column": "a", "row": 1}),
        (toy(attributes=("a {0,1}", "a real")), 1, "attribute 'a' a second time", {"line": 3}),
        (toy(attributes=("a {0,1", "x real")), 1, "the values of attribute 'a' do not end", {"line": 2}),
        (toy(attributes=("a {0,,1}",)), 1, "empty value", {"line": 2}),
        (toy(attributes=("a {0,0}",)), 1, "lists a value twice", {"line": 2}),
        (toy(attributes=("a",)), 1, "must read '@attribute name type'", {"line": 2}),
        (toy(attributes=("a bogus",)), 1, "the type 'bogus'", {"line": 2}),
        ("@relation r\n@data\n1", 1, "before any @attribute", {"line": 2}),
        ("@relation r\n@attribute a real", 1, "no @data line", {}),
        ("@relation r\nrubbish", 1, "is neither", {"line": 2}),
    ],
)
def test_refuses(save, text, labels, says, parts):
    with refused(says, path="toy.arff", **parts):
        read(save(text), labels=labels)


def test_refuses_options(save):
    with refused("no label column"):
        read(save(toy()), labels=["a"], ignore="a")
    with pytest.raises(ValueError, match="nominal must be"):
        read(save(toy()), labels=1, nominal="binary")


def test_a_label_of_the_xml_must_be_in_the_file(save):
    with refused(option="labels", column="green"):
        read(save(toy(), xml=["a", "green", "black"]))


def test_a_name_for_a_feature_and_a_label_is_refused_on_writing(tmp_path):
    from pmlkit.data import write
    from pmlkit.data.dataset import PMLDataset

    with pytest.raises(DataError, match="'a' names a feature and a label"):
        write(PMLDataset([[1.0]], [[1]], feature_names=["a"], label_names=["a"]), tmp_path / "x.arff")
    assert not list(tmp_path.iterdir())


def test_long_files_cross_the_batches(save):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (5000, 2))
    Y = rng.integers(0, 2, 5000)
    dense = toy(
        attributes=("a {0,1}", "x real", "y real"), rows=[f"{a},{x},{y}" for a, (x, y) in zip(Y, X, strict=True)]
    )
    packed = toy(
        attributes=("a {0,1}", "x real", "y real"),
        rows=[f"{{0 {a},1 {x}}}" if y == 0 else f"{{0 {a},1 {x},2 {y}}}" for a, (x, y) in zip(Y, X, strict=True)],
    )
    data = read(save(dense), labels=1)
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.Y.toarray().ravel(), Y)
    assert read(save(packed), labels=1) == data
    for text in (dense + "\n1,2", packed + "\n{0 1,7 1}"):
        with pytest.raises(DataError) as caught:
            read(save(text), labels=1)
        assert caught.value.line == 5006
