import json

import pytest

from pmlkit.cli.options import COLUMN_OPTIONS, FORMAT_NAMES, LITERAL_OPTIONS, Source
from pmlkit.data import read
from pmlkit.data.files.base import FORMATS


@pytest.fixture
def posts(tmp_path):
    path = tmp_path / "posts.csv"
    path.write_text("key,length,links,tags\na,120,3,spam|ad\nb,80,0,\nc,45,1,ad\n")
    return path


def test_info_tells_people_and_programs_the_same(run, small_npz, small):
    shown, told = run("info", small_npz).stdout, json.loads(run("info", small_npz, "--json").stdout)
    assert told["rows"] == small.n_samples
    assert told["false_candidates"] == small.Y.nnz - small.truth.nnz
    assert told["label_counts"] == dict(zip(small.label_names, small.Y.sum(axis=0).tolist(), strict=True))
    assert sum(told["false_candidates_by_label"].values()) == told["false_candidates"]
    assert f"noise ratio {told['noise_ratio']:.3f}" in " ".join(shown.split())
    assert "green" in shown


def test_info_shows_only_the_most_frequent_of_many_labels(run, tmp_path):
    header = ",".join(["x", *(f"tag_{k}" for k in range(30))])
    rows = [",".join(["1", *(str(int(k <= i)) for k in range(30))]) for i in range(30)]
    path = tmp_path / "many.csv"
    path.write_text("\n".join([header, *rows]))
    result = run("info", path, "--labels", "tag_*")
    assert "The 12 most frequent of 30 labels" in result.stdout
    assert "tag_11" in result.stdout
    assert "tag_12" not in result.stdout


def test_labels_of_a_table_of_numbers_are_read_once(run, tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text("length,tags\n" + '120,"spam,ad"\n80,ad\n45,"ad,spam"\n')
    assert run("info", path, "--labels", "tags").stderr.count("labels are split there") == 1


def test_reading_options_reach_the_reader(run, posts):
    words = ["--labels", "tags", "--sep", "|", "--option", "id=key", "--option", "ignore=links"]
    facts = json.loads(run("info", posts, "--json", *words).stdout)
    assert (facts["features"], list(facts["label_counts"])) == (1, ["ad", "spam"])


def test_labels_by_names_by_repetition_and_from_a_file(run, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("x,a,b,c\n1,1,0,1\n2,0,1,1\n")
    names = tmp_path / "names.txt"
    names.write_text("a\n\nb\nc\n")
    for words in (["--labels", "a,b,c"], ["--labels", "a,b", "--labels", "c"], ["--labels", f"@{names}"]):
        facts = json.loads(run("info", table, "--json", *words).stdout)
        assert list(facts["label_counts"]) == ["a", "b", "c"], words


def test_arff_labels_may_be_counted(run, tmp_path):
    path = tmp_path / "r.arff"
    path.write_text(
        "@relation r\n@attribute size real\n@attribute red {0,1}\n@attribute blue {0,1}\n@data\n1,1,0\n2,0,1\n"
    )
    facts = json.loads(run("info", path, "--labels", "-2", "--json").stdout)
    assert list(facts["label_counts"]) == ["red", "blue"]


def test_the_help_knows_every_option_of_every_reader(run):
    import inspect

    assert tuple(FORMATS) == FORMAT_NAMES
    help_text = Source.__dataclass_fields__["option"].type.__metadata__[0].help
    for name, known in FORMATS.items():
        for option, parameter in list(inspect.signature(known.load("reader")).parameters.items())[1:]:
            is_text = not any(kind in str(parameter.annotation) for kind in ("int", "bool", "Collection"))
            assert is_text or option in COLUMN_OPTIONS | LITERAL_OPTIONS, (name, option)
            assert option in ("labels", "sep") or option in help_text, (name, option)


@pytest.mark.parametrize(
    ("content", "words", "code", "said"),
    [
        (None, [], 1, "There is no file"),
        ("", [], 1, "the file is empty"),
        ("a,b\n1,2\n", [], 1, "Pass --labels its name"),
        ("a,b\n1,2\n", ["--labels", "a,b"], 1, "a label column must hold 0 or 1"),
        ("a,b\n,1\n", ["--labels", "b", "--option", "missing=error"], 1, "Pass --option missing='mean'"),
        ("a,b\nx,1\n", ["--labels", "b", "--option", "media=b"], 1, "--option ignore='a'"),
        ("a,b\n1,1\n", ["--labels", "z"], 1, "there is no column 'z'"),
        ("a,b\n1,1\n", ["--labels", ","], 2, "at least one column name"),
        ("a,b\n1,1\n", ["--labels", "@nowhere.txt"], 1, "The list of names 'nowhere.txt' cannot be read"),
        ("a,b\n1,1\n", ["--labels", "b", "--option", "colour=1"], 2, "no option 'colour'"),
        ("a,b\n1,1\n", ["--labels", "b", "--option", "missing"], 2, "takes KEY=VALUE"),
        ("a,b\n1,1\n", ["--labels", "b", "--option", "=mean"], 2, "takes KEY=VALUE"),
        ("a,b\n1,1\n", ["--labels", "b", "--option", "id=a", "--option", "id=b"], 2, "more than once"),
        ("a,b\n1,1\n", ["--labels", "b", "--option", "missing=guess"], 2, "missing"),
        ("a,b\n1,1\n", ["--format", "cvs"], 2, "must be one of arff, csv"),
    ],
)
def test_a_file_that_cannot_be_used_gives_one_sentence(run, tmp_path, content, words, code, said):
    path = tmp_path / "table.csv"
    if content is not None:
        path.write_text(content)
    result = run("info", path, *words)
    assert result.exit_code == code, result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_folder_is_no_file(run, tmp_path):
    result = run("info", tmp_path)
    assert result.exit_code == 1
    assert "is a folder" in result.stderr


def test_convert_keeps_the_data(run, small_npz, small, tmp_path):
    out = tmp_path / "small.parquet"
    result = run("convert", small_npz, out, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["bytes"] == out.stat().st_size
    assert read(out) == small


def test_convert_notes_what_the_format_leaves_out(run, small_npz, tmp_path):
    result = run("convert", small_npz, tmp_path / "small.libsvm", "--out-labels", "truth")
    assert result.exit_code == 0
    assert result.stderr.startswith("note: ")
    assert "feature names" in result.stderr


@pytest.mark.parametrize(
    ("out", "words", "said"),
    [
        ("x.mat", [], "only read"),
        ("x.what", [], "--out-format"),
        ("x.npz", ["--out-format", "npy"], "Did you mean 'npz'?"),
        ("x.arff", ["--out-labels", "both"], "candidates, truth"),
        ("x.npz", ["--out-labels", "truth"], "no option 'labels'"),
    ],
)
def test_convert_to_what_is_not_written_is_misuse(run, small_npz, tmp_path, out, words, said):
    result = run("convert", small_npz, tmp_path / out, *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (tmp_path / out).exists()


def test_an_existing_output_is_kept_without_force(run, small_npz, tmp_path):
    out = tmp_path / "out.npz"
    out.write_text("mine")
    for words in (["convert", small_npz, out], ["noise", small_npz, out]):
        result = run(*words)
        assert result.exit_code == 1
        assert "--force" in result.stderr
        assert out.read_text() == "mine"
        assert run(*words, "--force").exit_code == 0
        assert read(out).n_samples == 40
        out.write_text("mine")


@pytest.mark.parametrize("command", ["convert", "noise"])
def test_the_input_is_safe_from_force(run, small_npz, command):
    before = small_npz.read_bytes()
    result = run(command, small_npz, small_npz, "--force")
    assert result.exit_code == 2
    assert "is never overwritten" in result.stderr
    assert small_npz.read_bytes() == before


def test_a_list_of_names_is_safe_from_force(run, small_npz, tmp_path):
    table, names = tmp_path / "t.csv", tmp_path / "names.txt"
    assert run("convert", small_npz, table).exit_code == 0
    names.write_text("label_0\nlabel_1\n")
    result = run("convert", table, names, "--labels", f"@{names}", "--out-format", "csv", "--force")
    assert result.exit_code == 2
    assert "is never overwritten" in result.stderr
    assert names.read_text() == "label_0\nlabel_1\n"


def test_noise_reaches_the_ratio_and_keeps_the_truth(run, small_npz, small, tmp_path):
    out = tmp_path / "noisy.npz"
    words = ["noise", small_npz, out, "--ratio", "1", "--kind", "confusable", "--rounding", "global", "--seed", "3"]
    facts = json.loads(run(*words, "--json").stdout)
    noisy = read(out)
    assert facts["false_candidates"] == noisy.Y.nnz - noisy.truth.nnz
    assert sum(facts["false_candidates_by_label"].values()) == facts["false_candidates"]
    assert (noisy.truth != small.truth).nnz == 0
    run(*words, "--force")
    assert read(out) == noisy


def test_noise_by_extra_labels_on_some_rows(run, small_npz, tmp_path):
    out = tmp_path / "noisy.npz"
    facts = json.loads(run("noise", small_npz, out, "--extra-labels", 1, "--row-fraction", 0.5, "--json").stdout)
    assert 0 < facts["rows_touched"] <= 20


def test_noise_on_unknown_truth_says_what_it_takes_for_it(run, posts, tmp_path):
    result = run("noise", posts, tmp_path / "n.npz", "--labels", "tags", "--sep", "|", "--option", "ignore=key")
    assert result.exit_code == 0
    assert result.stderr.startswith("note: the truth of posts.csv is unknown")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--kind", "confusible"], "Did you mean 'confusable'?"),
        (["--rounding", "up"], "stochastic"),
        (["--ratio", "1", "--avg-candidates", "2"], "Only one of"),
    ],
)
def test_noise_misused(run, small_npz, tmp_path, words, said):
    result = run("noise", small_npz, tmp_path / "n.npz", *words)
    assert result.exit_code == 2
    assert said in result.stderr


def test_info_names_columns_that_are_not_used(run, tmp_path):
    path = tmp_path / "posts.csv"
    lines = [f"{i},cat{i % 2} and some more words,{1000 + i},{'a' if i % 2 else 'a;b'}" for i in range(60)]
    path.write_text("\n".join(["key,body,bytes,tags", *lines]) + "\n")
    shown = " ".join(run("info", path, "--labels", "tags").stdout.split())
    assert "not used 'bytes' (looks like an identifier)" in shown
    told = json.loads(run("info", path, "--labels", "tags", "--json").stdout)
    assert told["columns_left_out"] == {"bytes": "looks like an identifier"}
