"""`pmlkit.open_table`: files as people have them, in and out."""

import io
import json
import sys

import numpy as np
import pytest

import pmlkit
from pmlkit import CandidateLogistic, persistence
from pmlkit.data.files.labels import read_labels
from pmlkit.exceptions import DataError
from post_tables import make_posts, write_posts
from refused import refused


@pytest.fixture(scope="module")
def posts():
    return make_posts(120)


@pytest.fixture
def posts_csv(posts, tmp_path):
    write_posts(posts, tmp_path / "posts.csv")
    return tmp_path / "posts.csv"


def save(path, text):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def without_first(table):
    """The labels of a table without the first one of each row that has two."""
    kept = table.Y.toarray()
    rows = np.flatnonzero(kept.sum(axis=1) > 1)
    kept[rows, kept[rows].argmax(axis=1)] = 0
    return kept


def test_clean_write_fit_and_predict_from_python(posts, posts_csv, tmp_path):
    table = pmlkit.open_table(posts_csv, labels="tags", text="body", id="post_id")
    result = pmlkit.clean(table)
    assert result.label_names == table.label_names
    assert result.row_names == tuple(p[0] for p in posts)
    assert result.media == tuple(p[1] for p in posts)
    table.write(tmp_path / "same.csv", result.Y)
    assert (tmp_path / "same.csv").read_bytes() == posts_csv.read_bytes()
    model = CandidateLogistic().fit(table)
    expected = CandidateLogistic().fit(table.X, table.Y)
    np.testing.assert_array_equal(model.decision_function(table), expected.decision_function(table.X))
    assert model.label_names_.tolist() == list(table.label_names)
    persistence.save(model, tmp_path / "m.skops")
    loaded = persistence.load(tmp_path / "m.skops")
    save(tmp_path / "new.csv", "n,body\n" + "".join(f"1,{p[1]}\n" for p in posts))
    new = pmlkit.open_table(tmp_path / "new.csv", like=loaded)
    np.testing.assert_array_equal(loaded.decision_function(new), expected.decision_function(table.X))
    assert not hasattr(model.fit(table.X, table.Y), "table_reader_"), "another fit forgets the table"


def test_new_rows_are_named_by_the_column_that_was_given_when_the_model_was_fitted(posts, tmp_path):
    names = ["a post", *(f"post {i}" for i in range(1, len(posts)))]
    lines = [f"{p[1]},{';'.join(p[2])},{name}\n" for p, name in zip(posts, names, strict=True)]
    path = save(tmp_path / "old.csv", "body,tags,title\n" + "".join(lines))
    models = [
        CandidateLogistic().fit(pmlkit.open_table(path, labels="tags", text="body", **given))
        for given in ({}, {"id": "title"})
    ]
    persistence.save(models[1], tmp_path / "m.skops")
    without, with_id = models[0], persistence.load(tmp_path / "m.skops")
    new = save(tmp_path / "new.csv", "n,title,body\n1,one,cook1\n1,two,music2\n")
    assert pmlkit.open_table(new, like=without).row_names is None
    assert pmlkit.open_table(new, like=with_id).row_names == ("one", "two")
    assert pmlkit.open_table(new, like=with_id, id="body").row_names == ("cook1", "music2")
    save(new, "post_id,body\np1,cook1\np2,music2\n")
    assert pmlkit.open_table(new, like=with_id).row_names == ("p1", "p2"), "without the column, as ever"
    del with_id.table_reader_.__dict__["id"]
    assert pmlkit.open_table(new, like=with_id).row_names == ("p1", "p2"), "a model of an earlier version"


def test_a_model_of_named_numbers_reads_a_table_too(tmp_path):
    import pandas as pd

    X = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": [0.0, 1.0, 0.0, 1.0]})
    model = CandidateLogistic().fit(X, [[1, 0], [0, 1], [1, 0], [0, 1]])
    new = pmlkit.open_table(save(tmp_path / "n.csv", "b;x;a\n0;q;1,5\n1;r;2\n"), like=model)
    assert new.X.to_numpy().tolist() == [[1.5, 0.0], [2.0, 1.0]]
    with pytest.raises(DataError) as caught:
        pmlkit.open_table(save(tmp_path / "n.csv", "b,x\n0,1\n"), like=model).X  # noqa: B018
    assert (caught.value.column, caught.value.path) == ("a", "n.csv")
    with pytest.raises(ValueError, match="was not fitted to a table"):
        pmlkit.open_table(tmp_path / "n.csv", like=CandidateLogistic().fit(X.to_numpy(), [[1, 0], [0, 1]] * 2))


@pytest.mark.parametrize("cell", [str, json.dumps, lambda x: json.dumps(x, separators=(",", ":"))])
def test_lists_written_as_text(posts, tmp_path, cell):
    import csv

    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([["body", "tags"], *([p[1], cell(p[2])] for p in posts), ["none", ""], ["no", "[]"]])
    path = save(tmp_path / "t.csv", stream.getvalue())
    table = pmlkit.open_table(path, labels="tags", text="body")
    names = np.array(table.label_names)
    assert [set(names[row > 0]) for row in table.Y.toarray()] == [*(set(p[2]) for p in posts), set(), set()]
    kept = without_first(table)
    table.write(tmp_path / "o.csv", kept)
    with (tmp_path / "o.csv").open(newline="") as stream:
        cells = [row["tags"] for row in csv.DictReader(stream)]
    old = [*(cell(p[2]) for p in posts), "", "[]"]
    expected = [
        before if set(names[row > 0]) == set(p[2]) else cell([t for t in p[2] if t in names[row > 0]])
        for before, row, p in zip(old, kept, [*posts, (0, 0, []), (0, 0, [])], strict=True)
    ]
    assert cells == expected


@pytest.mark.parametrize("indent", [None, 2])
def test_arrays_of_objects_keep_every_other_byte(posts, tmp_path, indent):
    rows = [{"id": p[0], "body": p[1], "tags": p[2], "é": 1.50} for p in posts]
    path = save(tmp_path / "t.json", "\ufeff" + json.dumps(rows, indent=indent, ensure_ascii=False) + "\n")
    table = pmlkit.open_table(path, labels="tags", text="body")
    assert (table.format, table.row_names[:2]) == ("json", ("p0", "p1"))
    table.write(tmp_path / "same.json")
    assert (tmp_path / "same.json").read_bytes() == path.read_bytes()
    kept = without_first(table)
    table.write(tmp_path / "o.json", kept)
    again = json.loads((tmp_path / "o.json").read_text(encoding="utf-8-sig"))
    names = np.array(table.label_names)
    assert [set(row["tags"]) for row in again] == [set(names[row > 0]) for row in kept]
    assert [{**row, "tags": 0} for row in again] == [{**row, "tags": 0} for row in rows]


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ('[{"a": 1},\n 5]', "object 2 of the array", 2),
        ('[{"a": 1}\n {"a": 2}]', "a comma is missing", 2),
        ('[{"a": 1}', "not complete", 1),
        ('[{"a": 1}] x', "something follows the array", 1),
        ("[]", "no rows", None),
    ],
)
def test_arrays_that_are_none(tmp_path, text, says, line):
    with refused(says, line=line, path="t.json"):
        pmlkit.open_table(save(tmp_path / "t.json", text))


def test_standard_input(posts, posts_csv, monkeypatch):
    class Stdin:
        buffer = io.BytesIO(posts_csv.read_bytes())

    monkeypatch.setattr(sys, "stdin", Stdin)
    table = pmlkit.open_table("-", labels="tags", text="body")
    assert (table.n_rows, table.format, table.name) == (len(posts), "csv", "standard input")


def test_separators_are_found_out_and_said(tmp_path, caplog):
    path = save(tmp_path / "t.csv", "x;tags\n1;a,b\n2;b\n3;a,c\n")
    assert pmlkit.open_table(path, labels="tags").label_names == ("a", "b", "c")
    assert "',' in 67 % of its cells: labels are split there" in caplog.text
    path = save(tmp_path / "t.csv", "x;tags\n1;science fiction\n2;drama\n3;true crime\n")
    with refused(option="sep", column="tags", path="t.csv"):
        pmlkit.open_table(path, labels="tags").Y  # noqa: B018
    assert pmlkit.open_table(path, labels="tags", sep=";").Y.nnz == 3


def test_decimal_commas_are_numbers_unless_the_comma_separates(tmp_path):
    table = pmlkit.open_table(save(tmp_path / "t.csv", "price|tags\n1,5|a\n2,5|a;b\n-0,25|b\n"), labels="tags")
    assert table.feature_columns.numbers == ("price",)
    assert table.to_dataset().X.ravel().tolist() == [1.5, 2.5, -0.25]
    path = save(tmp_path / "t.csv", 'price,kind,tags\n"1,5",p,a\n"2,25",p,a;b\n3,q,b\n')
    table = pmlkit.open_table(path, labels="tags", numbers="price")
    np.testing.assert_allclose(table.X.ravel() * np.std([1.5, 2.25, 3]) + 2.25, [1.5, 2.25, 3])
    assert pmlkit.open_table(path, labels="tags").feature_columns.numbers == ("price",)


def test_columns_of_numbers_are_found_by_place_not_by_name(tmp_path):
    # By name, scikit-learn compares each with all the others: a million columns would take hours.
    names = [f"c{k}" for k in range(300)]
    rows = [[f"{k * row % 7}.5" for k in range(300)] for row in range(4)]
    lines = [",".join(["text", *names, "tags"]), *(",".join(["two or three words", *row, "a"]) for row in rows)]
    table = pmlkit.open_table(save(tmp_path / "t.csv", "\n".join(lines)), labels="tags", text="text", numbers=names)
    chosen = {kind: places for kind, _, places in table.table_reader.vectorizer.transformers_}
    assert chosen["numbers"] == slice(1, 301)
    values = np.array(rows, dtype=float)
    spread = np.where(values.std(axis=0) > 0, values.std(axis=0), 1.0)
    np.testing.assert_allclose(table.X[:, -300:], (values - values.mean(axis=0)) / spread, atol=1e-6)
    assert table.features[-1] == "c0, c1, c2, c3, c4, c5, c6, c7 and 292 more: numbers, scaled"


def test_commas_that_may_separate_thousands_are_not_taken_for_decimal_ones(tmp_path):
    path = save(tmp_path / "t.csv", 'price,kind,tags\n"1,500",p,a\n"2,250",p,a;b\n3,q,b\n')
    assert pmlkit.open_table(path, labels="tags").feature_columns.numbers == ()
    with refused(column="price", row=0):
        pmlkit.open_table(path, labels="tags", numbers="price").X  # noqa: B018


@pytest.mark.parametrize("name", ["p{}", "10{}"])
def test_identifiers_that_repeat_a_few_times_name_rows_with_a_note(tmp_path, caplog, name):
    def table(n_repeated, column="post_id"):
        ids = [name.format(max(i, n_repeated)) for i in range(40)]
        rows = [f"{i / 3},{ids[i]},w{i} and more words,{'ab'[i % 2]};c" for i in range(40)]
        text = "\n".join([f"size,{column},body,tags", *rows])
        return pmlkit.open_table(save(tmp_path / "t.csv", text), labels="tags")

    assert list(map(str, table(3).row_names[:5])) == [name.format(i) for i in (3, 3, 3, 3, 4)]
    assert "the identifier column 'post_id' repeats 3 values." in caplog.text
    assert "post_id" not in table(3).feature_columns.names
    assert table(20).row_names is None, "a number or name that many rows share is none of theirs"
    assert table(3, "author").row_names is None


def test_rows_are_named_by_what_looks_like_an_identifier(tmp_path, caplog):
    rows = [f"user{i},{i},{i / 3},w{i} and more words,{'ab'[i % 2]};c" for i in range(40)]
    path = save(tmp_path / "t.csv", "\n".join(["name,row_id,size,body,tags", *rows]))
    assert pmlkit.open_table(path, labels="tags").id_column == "name", "the first column, of names"
    assert pmlkit.open_table(path, labels="tags", ignore="name").row_names == tuple(range(40))
    assert pmlkit.open_table(path, labels="tags", ignore=["name", "row_id"]).row_names is None
    assert "repeats" not in caplog.text
    table = pmlkit.open_table(save(path, path.read_text().replace("user1,", "user0,")), labels="tags", id="name")
    assert table.row_names[:2] == ("user0", "user0")
    assert "'name' repeats 1 value." in caplog.text


@pytest.mark.parametrize("missing", ["mean", "zero", "error"])
def test_missing_numbers_have_one_policy(tmp_path, missing, caplog):
    path = save(tmp_path / "t.csv", "n,kind,tags\n1.5,p,a\n,q,a;b\n5.5,p,b\n")
    table = pmlkit.open_table(path, labels="tags", missing=missing)
    numbers = pmlkit.open_table(path, labels="tags", missing=missing, ignore="kind")
    if missing == "error":
        for opened in (table, numbers):
            with pytest.raises(DataError) as caught:
                opened.to_dataset()
            assert (caught.value.option, caught.value.column) == ("missing", "n")
        return
    filled = np.array([1.5, {"mean": 3.5, "zero": 0.0}[missing], 5.5])
    np.testing.assert_allclose(table.X[:, -1], (filled - filled.mean()) / filled.std())
    np.testing.assert_array_equal(numbers.to_dataset().X.ravel(), filled)
    assert "lacks 1 number: it counts as" in caplog.text
    assert "1 value is missing and filled with" in caplog.text


def test_tables_that_pmlkit_wrote_need_no_option(tmp_path):
    data = pmlkit.data.PMLDataset(
        [[1.0, 2.0], [3.0, 4.0]], [[1, 1], [0, 1]], truth=[[1, 0], [0, 1]], feature_names=["id", "b"], ids=[4, 5]
    )
    pmlkit.data.write(data, tmp_path / "d.csv")
    table = pmlkit.open_table(tmp_path / "d.csv")
    assert (table.label_names, table.row_names) == (data.label_names, (4, 5))
    np.testing.assert_array_equal(table.truth.toarray(), data.truth.toarray())
    assert table.to_dataset() == data


@pytest.mark.parametrize(
    ("name", "text", "labels", "Y", "written"),
    [
        ("a.csv", "x,tags\r\n1,a; b\r\n2,\r\n3,b\r\n", "tags", [[0, 1], [1, 1], [1, 1]],
         "x,tags\r\n1,b\r\n2,a; b\r\n3,b; a\r\n"),
        ("b.csv", "x,tags\n1,['a']\n2,[]\n3,['b']\n4,\n", "tags", [[1, 1], [1, 0], [0, 1], [0, 1]],
         "x,tags\n1,\"['a', 'b']\"\n2,['a']\n3,['b']\n4,['b']\n"),
        ("c.csv", "x,t_a,t_b\n1,1,0\n2,no,YES\n3,true, false\n", "t_*", [[0, 1], [1, 1], [1, 1]],
         "x,t_a,t_b\n1,0,1\n2,yes,YES\n3,true, true\n"),
        ("d.jsonl", '{"x":1,"tags":["a","b"]}\n{"x":2, "tags": null}\n', "tags", [[0, 1], [1, 0]],
         '{"x":1,"tags":["b"]}\n{"x":2, "tags": ["a"]}\n'),
        ("e.jsonl", '{"x":1,"t_a":true,"t_b":0}\n{"x":2,"t_a":false,"t_b":1}\n', "t_*", [[1, 1], [1, 0]],
         '{"x":1,"t_a":true,"t_b":1}\n{"x":2,"t_a":true,"t_b":0}\n'),
    ],
)  # fmt: skip
def test_labels_are_added_in_the_style_of_the_table(tmp_path, name, text, labels, Y, written):
    (tmp_path / name).write_bytes(text.encode())
    pmlkit.open_table(tmp_path / name, labels=labels).write(tmp_path / f"new-{name}", Y)
    assert (tmp_path / f"new-{name}").read_bytes().decode() == written


def test_what_cannot_be_written(posts_csv, tmp_path):
    table = pmlkit.open_table(posts_csv, labels="tags", text="body")
    before = posts_csv.read_bytes()
    more = table.Y.toarray()
    for path, Y, said in (
        (posts_csv, None, "never overwritten"),
        (tmp_path / "o.json", None, "must end in .csv"),
        (tmp_path / "o.csv", more[1:], "must have the shape"),
    ):
        with pytest.raises(DataError, match=said):
            table.write(path, Y, force=True)
    table.write(tmp_path / "o.csv")
    with refused(option="force"):
        table.write(tmp_path / "o.csv")
    assert posts_csv.read_bytes() == before


def test_embeddings_may_be_an_array_or_an_npz(posts, posts_csv, tmp_path):
    vectors = np.random.default_rng(0).normal(size=(len(posts), 3))
    np.savez(tmp_path / "e.npz", vectors)
    np.savez(tmp_path / "two.npz", a=vectors, b=vectors)
    for source in (vectors, tmp_path / "e.npz"):
        table = pmlkit.open_table(posts_csv, labels="tags", embeddings=source)
        np.testing.assert_array_equal(table.X, vectors)
    with refused(r"two\.npz must hold one array, but it holds 'a', 'b'", path="posts.csv"):
        pmlkit.open_table(posts_csv, labels="tags", embeddings=tmp_path / "two.npz").X  # noqa: B018


def test_sets_agree_with_the_obvious_parser():
    """Different cells are parsed once: compare with a loop over all rows."""
    from pmlkit.data.files.delimited import DelimitedFile

    rng = np.random.default_rng(0)
    cells = ["; ".join(f"t{k}" for k in rng.integers(0, 6, rng.integers(0, 4))) for _ in range(500)]
    file = DelimitedFile(io.BytesIO(("x,tags\n" + "".join(f"1,{cell}\n" for cell in cells)).encode()))
    found = read_labels(file, "tags")
    expected = [[name in {part.strip() for part in cell.split(";")} for name in found.names] for cell in cells]
    np.testing.assert_array_equal(found.Y.toarray() > 0, expected)
    assert found.Y.has_sorted_indices


def test_a_table_without_labels_can_be_looked_at(posts_csv):
    table = pmlkit.open_table(posts_csv)
    assert table.columns == ["post_id", "body", "tags", "truth"]
    assert table.cells("post_id")[0] == "p0"
    with refused(option="labels"):
        table.Y  # noqa: B018
