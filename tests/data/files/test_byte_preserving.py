"""Tables in and out: every byte stays but for the label cells."""

import gzip
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmlkit.data.files.arff import ArffFile
from pmlkit.data.files.delimited import DelimitedFile
from pmlkit.data.files.features import TableReader, VectorizerSettings, choose_columns
from pmlkit.data.files.json_rows import JsonFile
from pmlkit.data.files.labels import check_learnable, near_equal, read_labels
from pmlkit.data.files.parquet import ParquetFile
from pmlkit.data.files.table import open_table
from pmlkit.exceptions import DataError
from refused import refused


def written(table, edits):
    out = io.BytesIO()
    table.write(out, edits)
    return out.getvalue()


cell = st.text(alphabet=st.sampled_from('ab;, "\né\t'), max_size=6)


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.tuples(cell, cell), min_size=1, max_size=5),
    quoting=st.sampled_from([0, 1]),
    end=st.sampled_from(["\n", "\r\n"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "latin-1", "utf-16"]),
    delimiter=st.sampled_from([",", ";", "\t"]),
)
def test_text_tables_agree_with_csv_and_keep_every_byte(rows, quoting, end, encoding, delimiter):
    import csv

    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=quoting, lineterminator=end, delimiter=delimiter)
    writer.writerows([("x", "tags"), *(("k" + x, tags) for x, tags in rows)])
    raw = text.getvalue().encode(encoding)
    table = DelimitedFile(io.BytesIO(raw), delimiter=delimiter, encoding=encoding)
    assert table.cells(["x", "tags"]) == {"x": ["k" + x for x, _ in rows], "tags": [tags for _, tags in rows]}
    assert written(table, {}) == raw
    changed = written(table, {"tags": {0: "new; one"}})
    again = DelimitedFile(io.BytesIO(changed), delimiter=delimiter, encoding=encoding)
    assert again.cells(["x", "tags"]) == {
        "x": ["k" + x for x, _ in rows],
        "tags": ["new; one", *(tags for _, tags in rows[1:])],
    }


def test_only_the_changed_cell_differs_and_keeps_its_quotes():
    raw = b'"id" ,tags,n\r\n1,"a;b", 2\r\n\r\n"2",c;d,"3"\r\n'
    table = DelimitedFile(io.BytesIO(raw))
    assert written(table, {"tags": {0: "a", 1: "d"}}) == b'"id" ,tags,n\r\n1,"a", 2\r\n\r\n"2",d,"3"\r\n'


@pytest.mark.parametrize(
    ("raw", "parts"),
    [
        (b"", {"says": "empty"}),
        (b"a,a\n1,2\n", {"column": "a"}),
        (b"a,b\n1,2\n1\xff,2\n", {"line": 3, "option": "encoding"}),
        (b'a,b\n1,2\n"1,2\n3,4\n', {"line": 3}),
        (b'"a,b\n1,2\n', {"line": 1}),
        (b"a,b\n1,2,3\n", {"line": 2, "row": 0}),
        (b"a,b\n\x001,2\n", {"line": 2}),
    ],
)
def test_text_that_is_no_table_is_refused(raw, parts):
    with refused(**parts):
        DelimitedFile(io.BytesIO(raw)).cells(["a"])


def test_a_line_without_end_is_refused_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr("pmlkit.data.files.delimited._MAX_RECORD", 1000)
    with refused(line=2):
        DelimitedFile(io.BytesIO(b"a,b\n" + b"x" * 5000))
    with refused(line=2):
        DelimitedFile(io.BytesIO(b'a,b\n"x,1\n' + b"y,2\n" * 500))


def test_a_cell_of_very_many_lines_takes_no_longer_than_its_length():
    """Counting all its quotation marks again with every line took hours for 200 MB."""
    raw = b'a,b\n"' + b'one ""line""\n' * 200_000 + b'",1\n2,3\n'
    table = DelimitedFile(io.BytesIO(raw))
    assert [len(cell) for cell in table.cells(["a"])["a"]] == [200_000 * 11, 1]
    assert written(table, {}) == raw


def test_quotation_marks_inside_bare_cells_are_plain_signs():
    """Tab-separated files are often written without any quoting."""
    raw = b'body\ttags\n5" nails\ta;b\n"quoted ""one""\nand two"\tb\n6" and "7\tb;c\n'
    table = DelimitedFile(io.BytesIO(raw), delimiter="\t")
    assert table.cells(["body"])["body"] == ['5" nails', 'quoted "one"\nand two', '6" and "7']
    assert written(table, {"tags": {0: "b"}}) == raw.replace(b"a;b", b"b")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-16-be", "cp1252", "shift_jis"])
def test_no_mark_is_added_to_files_that_have_none(encoding):
    bare = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(encoding, encoding)
    raw = "body,tags\r\nx,a;b\r\n".encode(bare)
    table = DelimitedFile(io.BytesIO(raw), encoding=encoding)
    assert table.cells(["tags"]) == {"tags": ["a;b"]}
    assert written(table, {}) == raw


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_marks_are_kept_and_say_the_encoding(encoding):
    raw = "body,tags\r\né,a;b\r\n".encode(encoding)
    table = DelimitedFile(io.BytesIO(raw))
    assert table.cells(["body"]) == {"body": ["é"]}
    assert written(table, {}) == raw


@pytest.mark.parametrize("encoding", ["rot13", "base64", "klingon"])
def test_encodings_that_are_none_are_refused(encoding):
    with pytest.raises(ValueError, match="name of a text encoding"):
        DelimitedFile(io.BytesIO(b"a\n1\n"), encoding=encoding)


def test_a_long_text_in_arff_takes_no_more_memory_than_a_few_copies():
    """The pattern of quoted texts kept a way back for every letter: 200 MB took all the memory there was."""
    import tracemalloc

    text = b"@relation r\n@attribute body string\n@attribute red {0,1}\n@data\n'" + b"word " * 400_000 + b"',1\n"
    tracemalloc.start()
    table = ArffFile(io.BytesIO(text))
    assert len(table.cells(["body"])["body"][0]) == 2_000_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 * len(text)


def test_an_arff_line_without_end_is_refused(monkeypatch):
    monkeypatch.setattr("pmlkit.data.files.arff._MAX_LINE", 1000)
    with pytest.raises(DataError) as caught:
        ArffFile(io.BytesIO(b"@relation r\n@attribute a real\n" + b"%" * 2000))
    assert caught.value.line == 3


def test_json_lines_keep_every_byte_but_the_value():
    raw = '{"id":1, "tags" : ["é", "b"], "n":1.50}\n\n{"tags":"x;y","id":"\\u00e9"}\r\n'.encode()
    table = JsonFile(io.BytesIO(raw))
    assert written(table, {}) == raw
    assert table.cells(["tags", "n"]) == {"tags": [["é", "b"], "x;y"], "n": [1.5, None]}
    changed = written(table, {"tags": {0: ["é"], 1: "y"}})
    assert changed == '{"id":1, "tags" : ["é"], "n":1.50}\n\n{"tags":"y","id":"\\u00e9"}\r\n'.encode()
    assert [json.loads(line)["tags"] for line in changed.splitlines() if line] == [["é"], "y"]


@pytest.mark.parametrize("line", [b"[1]", b'{"a":1', b'{"a":1} x', b'{"a":1,"a":2}', b"{'a':1}", b"\xff"])
def test_lines_that_are_no_objects_are_refused(line):
    with pytest.raises(DataError) as caught:
        JsonFile(io.BytesIO(line + b"\n"))
    assert caught.value.line == 1


def test_parquet_keeps_types_metadata_and_compression():
    schema = pa.schema(
        [("id", pa.int16()), ("tags", pa.list_(pa.large_string())), ("day", pa.date32())], metadata={b"who": b"me"}
    )
    table = pa.table({"id": [1, 2], "tags": [["a", "b"], None], "day": [None, 3]}, schema=schema)
    stream = io.BytesIO()
    pa.parquet.write_table(table, stream, compression="zstd")
    changed = io.BytesIO(written(ParquetFile(stream), {"tags": {0: ["b"]}}))
    again = pa.parquet.read_table(changed)
    assert again.schema.equals(pa.parquet.read_table(stream).schema, check_metadata=True)
    assert again.schema.metadata == {b"who": b"me"}
    assert again["tags"].to_pylist() == [["b"], None]
    assert again.drop_columns(["tags"]).equals(table.drop_columns(["tags"]))
    assert pa.parquet.ParquetFile(changed).metadata.row_group(0).column(0).compression == "ZSTD"


def test_arff_dense_and_sparse_rows_keep_every_other_byte():
    raw = b"% note\n@relation 'r: -C 2'\n@attribute red {0,1}\n@attribute 'a b' {0,1}\n@attribute size real\n@data\n"
    raw += b"1, 1,0.50 % c\r\n{0 1, 1 1,2 3.0}\n"
    table = ArffFile(io.BytesIO(raw))
    assert written(table, {}) == raw
    assert table.cells(["a b"]) == {"a b": ["1", "1"]}
    changed = written(table, {"a b": {0: "0", 1: "0"}})
    assert changed.splitlines()[-2:] == [b"1, 0,0.50 % c", b"{0 1,2 3.0}"]


def labels_of(text, wanted=("tags",), **options):
    labels = read_labels(DelimitedFile(io.BytesIO(text.encode())), list(wanted), **options)
    check_learnable(labels)
    return labels


def test_sets_lose_a_label_and_keep_the_spelling_of_the_others():
    labels = labels_of("tags\na; b ;c\nb\n\n", sep=";")
    assert labels.names == ("a", "b", "c")
    gone = (labels.Y.indices == 0) & (np.arange(labels.Y.nnz) == 0)
    assert labels.edits(gone) == {"tags": {0: "b ;c"}}


def test_flags_are_switched_off_in_their_own_spelling():
    labels = labels_of("t_a,t_b\n1,0\n1.0,true\n0, 1\n", wanted=["t_*"])
    edits = labels.edits(np.ones(labels.Y.nnz, dtype=bool))
    assert edits == {"t_a": {0: "0", 1: "0.0"}, "t_b": {1: "false", 2: " 0"}}


def test_near_equal_names_are_merged_on_demand_into_the_most_frequent():
    text = "tags\nSky;sea\nSky\nsky ;sea\nsea;sky;Sky\n"
    assert near_equal(labels_of(text).names) == [["Sky", "sky"]]
    merged = labels_of(text, merge=True)
    assert merged.names == ("Sky", "sea")
    assert merged.edits(np.zeros(merged.Y.nnz, dtype=bool)) == {"tags": {2: "Sky;sea", 3: "sea;Sky"}}


@pytest.mark.parametrize(
    ("text", "wanted", "parts"),
    [
        ("tags\na\nb\n", [], {"option": "labels"}),
        ("tags\na;b\nb\n", ["tgas"], {"column": "tgas"}),
        ("tags\na\nb\nc\n", ["tags"], {"column": "tags", "says": "one row only"}),
        ("tags\na\na\n", ["tags"], {"column": "tags", "says": "only one label", "option": None}),
        ('x,tags\n1,"a, b"\n', ["tags"], {"column": "tags", "option": "sep", "value": "','"}),
        ("tags,x\n,1\n,1\n", ["tags"], {"column": "tags", "says": "no label"}),
        ("tags\na b\nb c\n", ["tags"], {"option": "sep", "value": "' '", "column": "tags"}),
        ("tags,x\n\"['a', 'b']\",1\n['a'],2\n['a',2\n['b'],1\n['a'],1\n['a'],1\n", ["tags"], {"row": 2}),
        ("x,tags\n1,a;b\n2,b\n", ["colour"], {"column": "colour"}),
        ("t_a,t_b\n1,0\n2,1\n", ["t_*"], {"column": "t_a", "row": 1}),
        ("t_a,t_b\n1,0\n,1\n", ["t_*"], {"column": "t_a", "row": 1}),
    ],
)
def test_labels_that_cannot_be_used_are_refused(text, wanted, parts):
    with refused(**parts):
        labels_of(text, wanted=wanted)


def test_columns_are_chosen_by_what_they_hold():
    rows = [f"{i},{i / 7},word{i} and some more words,{'ab'[i % 2]},name{i},x" for i in range(60)]
    table = DelimitedFile(io.BytesIO("\n".join(["id,size,body,kind,who,tags", *rows]).encode()))
    chosen = choose_columns(table, other=["tags"])
    assert (chosen.text, chosen.categories, chosen.numbers) == (("body",), ("kind",), ("size",))
    assert set(chosen.left_out) == {"id", "who"}
    named = choose_columns(table, text=["who"], other=["tags"])
    assert named.names == ("who",)
    with refused(column="bodi") as caught:
        choose_columns(table, text=["bodi"])
    assert "Did you mean 'body'" in str(caught.value)
    with refused(column="tags"):
        choose_columns(table, text=["tags"], other=["tags"])


def test_numbers_may_be_missing_but_not_words():
    table = DelimitedFile(io.BytesIO(b"n,m\n1,x\nNaN,2\n,3\n"))
    assert np.isnan(TableReader(numbers=("n",)).frame(table)["n"]).tolist() == [False, True, True]
    with refused(column="m", row=0):
        TableReader(numbers=("m",)).frame(table)
    with refused(option="missing", column="n", row=1):
        TableReader(numbers=("n",), missing="error").frame(table)


def test_the_vectoriser_ignores_what_it_has_not_seen():
    lines = b"body,kind,n\nred sky,a,1\nblue sky,b,\n"
    reader = TableReader(text=("body",), categories=("kind",), numbers=("n",))
    reader.fit(DelimitedFile(io.BytesIO(lines)), None, VectorizerSettings())
    new = reader.transform(DelimitedFile(io.BytesIO(b"kind,n,body\nz,,green\n")), None)
    assert np.abs(np.asarray(new.todense() if hasattr(new, "todense") else new)).sum() == 0


def test_packed_tables_and_whole_files(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"tags\na;b\nb\n"))
    table = open_table(path, labels="tags")
    target = tmp_path / "out.csv.gz"
    table.write(target, [[0, 1], [0, 1]])
    assert gzip.decompress(target.read_bytes()) == b"tags\nb\nb\n"
    path.write_bytes(gzip.compress(b"tags\na;b\n")[:-6])
    with refused("damaged", path="t.csv.gz"):
        open_table(path)


def test_a_write_that_fails_leaves_nothing(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"tags\na;b\nb\n")
    table = open_table(tmp_path / "t.csv", labels="tags")
    table._file.write = lambda stream, edits: stream.write(b"half") and 1 / 0
    with pytest.raises(ZeroDivisionError):
        table.write(tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_numbers_are_the_same_whether_or_not_their_columns_were_parsed_before(monkeypatch):
    monkeypatch.setattr("pmlkit.data.files.delimited._BLOCK_ROWS", 7)
    content = b"a;b;c\n" + b"".join(b"%d,5;%d;\n" % (k, k % 3) for k in range(20))
    file = DelimitedFile(io.BytesIO(content))
    numbers = file.numbers(["b", "a", "c"])
    file.cells(["a", "b", "c"])
    np.testing.assert_array_equal(file.numbers(["b", "a", "c"]), numbers)
    assert numbers[3].tolist()[:2] == [0.0, 3.5]
    assert np.isnan(numbers[:, 2]).all()


@pytest.mark.parametrize("first", ["sep=;", "SEP=;", '"sep=;"'])
def test_a_first_line_that_tells_spreadsheets_the_delimiter_is_no_header(first):
    raw = f"{first}\r\nx,y;tags\r\n1,5;a\r\n2,5;b\r\n".encode()
    table = DelimitedFile(io.BytesIO(raw))
    assert table.cells(["x,y", "tags"]) == {"x,y": ["1,5", "2,5"], "tags": ["a", "b"]}
    assert written(table, {}) == raw
    assert written(table, {"tags": {1: "c"}}) == raw.replace(b";b", b";c")


def test_a_broken_row_after_such_a_line_is_counted_from_the_top():
    table = DelimitedFile(io.BytesIO(b"sep=;\nx;tags\n1;a\n2;b;c\n"))
    with refused(line=4, row=1):
        table.cells(["x"])


def test_columns_that_are_not_used_are_listed_with_the_reason():
    rows = [f"{i},{i / 7},word{i} and some more words,name{i},title{i},x" for i in range(60)]
    table = DelimitedFile(io.BytesIO("\n".join(["id,size,body,who,title,tags", *rows]).encode()))
    chosen = choose_columns(table, other=["tags"])
    assert chosen.unused() == "'id' (looks like an identifier), 'who', 'title' (looks like an identifier or a name)"
    assert choose_columns(table, text=["body"], other=["tags"]).unused() == "'id', 'size', 'who', 'title'"
    assert choose_columns(table, text=["body"], other=table.columns[:2] + table.columns[3:]).unused() == ""
