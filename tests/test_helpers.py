"""Small private helpers that several modules share."""

import io

import numpy as np
import pytest
from scipy import sparse

from pmlkit._arrays import (
    LabelFormat,
    as_csr,
    generator,
    in_format,
    is_table,
    moderate,
    number_table,
    row_of_cells,
    without_cells,
)
from pmlkit._files import check_target, replacing, together
from pmlkit._words import between, fact_table, printable
from pmlkit.bench.cells import digest, find_source
from pmlkit.bench.plan_entries import DataEntry
from pmlkit.bench.sandbox import Budget, Sandbox
from pmlkit.bench.store import RunLocks
from pmlkit.cleaning import clean
from pmlkit.cli.bench_progress import _duration
from pmlkit.cli.options import check_shares, key_values
from pmlkit.cli.output import spell
from pmlkit.data import PMLDataset, load_digit_strips
from pmlkit.data.files.arff import write_arff
from pmlkit.data.files.base import allowed_bytes, as_names, format_by_name, label_key, matching_files, parse_numbers
from pmlkit.data.files.delimited import write_tsv
from pmlkit.data.files.labels import is_text
from pmlkit.data.files.libsvm import write_libsvm
from pmlkit.data.files.npz import write_npz
from pmlkit.data.files.side_features import pixel_features
from pmlkit.demo import ask_the_truth, contact_sheet, run_demo
from pmlkit.exceptions import DataError
from pmlkit.methods.threads import one_blas_thread
from pmlkit.numerics.kernels import scale_gamma
from pmlkit.numerics.products import as_dense, cells_of_thin_product, transposed_product
from refused import refused

SMALL = PMLDataset([[0.5], [0.0]], [[1, 1], [0, 1]])


def test_sparse_arrays_get_short_indices():
    parts = np.ones(1), np.zeros(1, dtype=np.int64), np.array([0, 1], dtype=np.int64)
    assert as_csr(sparse.csr_matrix(parts, shape=(1, 1))).indices.dtype == np.int32
    assert row_of_cells(sparse.csr_array([[1, 1, 0], [0, 0, 0], [0, 0, 1]])).tolist() == [0, 0, 2]
    kept = without_cells(sparse.csr_array([[1, 1], [0, 1]]), np.array([True, False, False]))
    assert kept.toarray().tolist() == [[0, 1], [0, 1]]


def test_numbers_whose_products_overflow_are_refused():
    assert moderate(np.array([[1.0, 5e-324]])).tolist() == [[1.0, 0.0]]
    with refused(r"1e\+300 .*column 1", row=0):
        moderate(np.array([[1.0, 1e300]]))


def test_data_sets_are_tables():
    assert is_table(SMALL)
    assert not is_table([[1.0]])
    assert number_table([[1, 0], [0, 1]], "Y").shape == (2, 2)


def test_label_sets_in_the_format_of_the_labels():
    sets = np.array([[True, True], [False, True]])
    assert in_format(sets, LabelFormat("list", "tuple"), ["sea", "sun"]) == [("sea", "sun"), ("sun",)]


def test_files_take_their_places_together(tmp_path):
    target = tmp_path / "note.txt"
    assert check_target(target) == target
    with pytest.raises(DataError, match="There is no folder"):
        check_target(tmp_path / "no" / "note.txt")
    with together():
        with replacing(target) as stream:
            stream.write(b"all of it")
        assert not target.exists()
    assert target.read_bytes() == b"all of it"


def test_words():
    assert printable("a\n b\x1b[31m[red]") == "a b[31m[red]"
    assert "a &amp; b" in fact_table("a & b", [("rows", "<3")])
    assert [_duration(seconds) for seconds in (5, 125, 3 * 3600 + 120)] == ["5 s", "2 min 5 s", "3 h 2 min"]
    assert spell("sep", "';'") == "--sep ';'"
    assert spell("merge_labels", "True") == "--merge-labels"
    assert spell("missing", "'mean'") == "--option missing='mean'"
    assert key_values(["alpha=10", "normalize=none"], "--param") == {"alpha": "10", "normalize": "none"}
    check_shares(precision=0.9)


def test_cells_of_a_plan():
    assert len(digest("scene", 0.5)) == 24
    assert digest("scene", 0.5) == digest("scene", 0.5)
    assert digest("a", "b") != digest("ab")
    assert DataEntry("digit-strips:500").n_strips == 500
    assert DataEntry("scene").n_strips is None
    source = find_source(DataEntry("digit-strips:100"))
    assert (source.n_rows, source.n_labels, source.has_own) == (100, 10, True)


def test_tasks_in_a_process_of_their_own():
    sandbox = Sandbox(lambda task: lambda: {"ratio": task[0] / task[1]})
    assert sandbox.run((1, 2), Budget(10, 100)).answer == {"ratio": 0.5}
    assert sandbox.run((1, 0), Budget(10, 100)).reason.startswith("ZeroDivisionError: division by zero (")
    sandbox.close()


def test_which_runs_are_alive(tmp_path):
    locks = RunLocks.of(tmp_path / "lock")
    locks.begin(1)
    assert (locks.is_alive(1), locks.is_alive(2)) == (True, False)
    locks.end(1)
    assert not locks.is_alive(1)


def test_columns_of_a_table():
    np.testing.assert_array_equal(parse_numbers(["1.5", "", "NA"], "size"), [1.5, np.nan, np.nan])
    assert parse_numbers(["True", "false"], "big").tolist() == [1.0, 0.0]
    assert (as_names("tags"), as_names(["a", "b*"]), as_names(None)) == (["tags"], ["a", "b*"], [])
    assert label_key("true_*", "true_red") == label_key(["label:red"], "label:red") == "red"
    assert is_text("é")
    assert not is_text("\ud800")


def test_formats_and_limits():
    assert (format_by_name("posts.csv.gz"), format_by_name("posts.txt")) == ("csv", None)
    assert matching_files("posts.csv") is None
    assert [path.name for path in matching_files(["b.csv", "a.csv"])] == ["b.csv", "a.csv"]
    assert (allowed_bytes(5_000), allowed_bytes(10_000_000), allowed_bytes(5_000, 1e6)) == (2**28, 2 * 10**9, 10**6)


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (
            write_arff,
            "@relation ': -C 2'\n\n@attribute label_0 {0,1}\n@attribute label_1 {0,1}\n@attribute feature_0 numeric\n\n"
            "@data\n1,1,0.5\n0,1,0\n",
        ),
        (write_libsvm, "2 1 2\n0,1 0:0.5\n1\n"),
        (write_tsv, '"feature_0"\t"label:label_0"\t"label:label_1"\n0.5\t1\t1\n0\t0\t1\n'),
        (write_npz, "PK"),
    ],
)
def test_written_text(write, expected):
    stream = io.BytesIO()
    write(SMALL, stream)
    assert stream.getvalue()[: len(expected)].decode() == expected


def test_products():
    assert pixel_features(np.zeros((2, 48, 48, 3), dtype=np.uint8)).shape == (2, 304)
    assert scale_gamma(np.array([[0.0, 2.0], [2.0, 0.0]])) == 0.5
    left, right = np.array([[1.0], [2.0]]), np.array([[3.0, 4.0]])
    assert cells_of_thin_product(left, right, sparse.csr_array(np.eye(2))).tolist() == [3.0, 8.0]
    product = transposed_product(np.array([[1.0, 2.0]]), sparse.csr_array(np.array([[0.0, 3.0]])))
    assert product.tolist() == [[0.0, 3.0], [0.0, 6.0]]
    assert as_dense(sparse.eye_array(2)).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert generator(0).integers(100) == generator(0).integers(100)
    with one_blas_thread():
        assert (np.eye(2) @ np.ones(2)).tolist() == [1.0, 1.0]


def test_the_parts_of_the_demo():
    strips = load_digit_strips(200)
    assert ask_the_truth(clean(strips.X, strips.Y), strips, n_answers=20).n_answers == 20
    demo = run_demo(100, n_suspects=2)
    assert contact_sheet(demo.data, demo.suspects, title="Two labels").count("<img") == 2


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.14, 0.23, "between 14 % and 23 %"),
        (0.0, 0.003, "between 0.0 % and 0.3 %"),
        (0.0, 0.0, "less than 0.1 %"),
        (0.496, 0.504, "between 49.6 % and 50.4 %"),
    ],
)
def test_an_interval_has_two_ends(low, high, said):
    assert between(low, high) == said
