"""What goes wrong with tables of people: one sentence, a sensible exit code, nothing touched."""

import csv
import json
import os
import signal
import sys
import zipfile
from types import ModuleType

import numpy as np
import pytest

import forked
from pmlkit.cli import main
from post_tables import TOPICS, make_posts, write_posts

pytestmark = pytest.mark.usefixtures("eager")

COLUMNS = ("--labels", "tags", "--text", "body")


@pytest.fixture(scope="module")
def posts():
    return make_posts()


@pytest.fixture(scope="module")
def module_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("posts")


@pytest.fixture(scope="module")
def posts_csv(posts, module_folder):
    write_posts(posts, module_folder / "posts.csv")
    return module_folder / "posts.csv"


def fails(result, code=1):
    """Return the one sentence of a failure."""
    errors = [line for line in result.stderr.splitlines() if not line.startswith(("note:", "warning:", "progress:"))]
    assert len(errors) == 1, result.stderr
    assert errors[0].startswith("error: ")
    assert "unexpected" not in errors[0]
    assert result.exit_code == code
    return errors[0]


def json_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("tags", "sentence"),
    [
        ({"a": 1}, "in row 9: a label must be a text or number"),
        ([["a"]], "in row 9: a label must be a text or number"),
        (["\ud800"], "which is not text"),
    ],
)
def test_labels_that_are_none(run, posts, tmp_path, tags, sentence):
    rows = [{"body": p[1], "tags": tags if i == 9 else p[2]} for i, p in enumerate(posts)]
    assert sentence in fails(run("clean", json_lines(tmp_path / "t.jsonl", rows), *COLUMNS, "--dry-run"))


@pytest.mark.parametrize("name", [["a"], "\ud800"])
def test_identifiers_that_are_none(run, posts, tmp_path, name):
    rows = [{"body": p[1], "tags": p[2], "id": name if i == 3 else i} for i, p in enumerate(posts)]
    result = run("clean", json_lines(tmp_path / "t.jsonl", rows), *COLUMNS, "--option", "id=id", "--dry-run")
    assert "in row 3 is neither text nor number" in fails(result)


@pytest.mark.parametrize(
    ("words", "sentence", "code"),
    [
        (["--labels", "zzz", "--text", "body"], "there is no column 'zzz'. Is it 'tags'?", 1),
        (["--labels", "tags,zzz", "--text", "body"], "there is no column 'zzz'. The columns", 1),
        ([*COLUMNS, "--option", "id=post_di"], "Did you mean 'post_id'?", 1),
        ([*COLUMNS, "--option", "ignore=trut"], "Did you mean 'truth'?", 1),
        ([*COLUMNS, "--images", "boddy=."], "Did you mean 'body'?", 1),
        ([*COLUMNS, "--images", "body"], "takes COLUMN=DIR", 2),
        ([*COLUMNS, "--sep", ""], "--sep must be a sign", 2),
        ([*COLUMNS, "--option", "encoding=rot13"], "name of a text encoding", 2),
        ([*COLUMNS, "--option", 'delimiter="'], "not a quotation mark", 2),
        (["--labels", "tags", "--option", "ignore=body,truth"], "Pass --text the text column, or give embeddings", 1),
    ],
)
def test_words_that_cannot_be_meant(run, posts_csv, words, sentence, code):
    assert sentence in fails(run("clean", posts_csv, *words, "--dry-run"), code)


def test_a_table_is_not_written_under_the_ending_of_a_data_set(run, posts_csv, tmp_path):
    for name in ("out.npz", "out.xlsx", "out.ods"):
        assert "must end in .csv" in fails(run("clean", posts_csv, *COLUMNS, "-o", tmp_path / name), 2)


@pytest.mark.parametrize(
    ("name", "first", "sentence"),
    [
        ("posts.xlsx", "[Content_Types].xml", "workbook of a spreadsheet program: save the sheet as CSV"),
        ("posts.ods", "mimetype", "workbook of a spreadsheet program: save the sheet as CSV"),
        ("posts.zip", "posts.csv", "zip archive: unpack it"),
        ("posts.csv", "posts.csv", "zip archive: unpack it"),
    ],
)
def test_archives_of_other_programs_are_called_by_their_names(run, tmp_path, name, first, sentence):
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        archive.writestr(first, "some text")
    assert sentence in fails(run("info", tmp_path / name, "--labels", "tags"))


def test_an_old_workbook_is_called_by_its_name(run, tmp_path):
    (tmp_path / "posts.xls").write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600))
    assert "save the sheet as CSV" in fails(run("info", tmp_path / "posts.xls", "--labels", "tags"))


def test_files_that_are_no_tables_by_their_names(run, posts_csv, tmp_path):
    plain = tmp_path / "posts.txt"
    plain.write_bytes(posts_csv.read_bytes())
    assert "Pass --format one of" in fails(run("clean", plain, *COLUMNS, "--dry-run"))
    assert run("clean", plain, *COLUMNS, "--format", "csv", "--dry-run").exit_code == 0
    assert "There is no file" in fails(run("clean", tmp_path / "nowhere.txt", *COLUMNS, "--dry-run"))


def test_inputs_are_safe_from_force(run, posts_csv, tmp_path):
    model, vectors = tmp_path / "m.skops", tmp_path / "e.npy"
    np.save(vectors, np.random.default_rng(0).normal(size=(240, 3)))
    fit = ["fit", posts_csv, *COLUMNS, "-m", "CandidateLogistic", "--embeddings", vectors]
    assert run(*fit, "-o", model).exit_code == 0
    before = {path: path.read_bytes() for path in (posts_csv, model, vectors)}
    predict = ["predict", model, posts_csv, "--embeddings", vectors]
    clean = ["clean", posts_csv, *COLUMNS, "--embeddings", vectors]
    cases = [(fit, posts_csv), (fit, vectors), (clean, posts_csv), (clean, vectors)]
    for words, target in [*cases, *((predict, path) for path in before)]:
        assert "is never overwritten" in fails(run(*words, "-o", target, "--force"), 2)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("kind", ["random", "constant"])
@pytest.mark.parametrize("method", ["auto", "CandidateLogistic"])
def test_features_that_say_nothing_remove_nothing(run, posts_csv, tmp_path, kind, method):
    """They used to make all labels look wrong, with certainty."""
    rng = np.random.default_rng(1)
    np.save(tmp_path / "e.npy", rng.normal(size=(240, 3)) if kind == "random" else np.ones((240, 3)))
    words = ["clean", posts_csv, "--labels", "tags", "--embeddings", tmp_path / "e.npy", "-m", method]
    result = run(*words, "-o", tmp_path / "out.csv")
    if kind == "constant" or result.exit_code:
        assert "do not predict the labels" in fails(result)
        assert not (tmp_path / "out.csv").exists()
    else:
        assert (tmp_path / "out.csv").read_bytes() == posts_csv.read_bytes()


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.ones((240, 2)) * 1j, "not a .npy, .npz or Parquet file of numbers"),
        (np.ones((240, 0)), "its shape is (240, 0)"),
        (np.array([["a"]] * 240), "not a .npy, .npz or Parquet file of numbers"),
        (b"hello", "not a .npy, .npz or Parquet file of numbers"),
    ],
)
def test_embeddings_that_are_none(run, posts_csv, tmp_path, array, sentence):
    path = tmp_path / "e.npy"
    path.write_bytes(array) if isinstance(array, bytes) else np.save(path, array)
    assert sentence in fails(run("clean", posts_csv, "--labels", "tags", "--embeddings", path, "--dry-run"))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [(None, "row 3 names no image"), ("", "row 3 names no image"), ("a\0b", "cannot be read"), ("x" * 999, "xxx...'")],
)
def test_images_that_are_none(run, posts, tmp_path, name, sentence):
    from PIL import Image

    Image.new("L", (4, 4)).save(tmp_path / "p.png")
    rows = [{"file": name if i == 3 else "p.png", "tags": p[2]} for i, p in enumerate(posts)]
    table = json_lines(tmp_path / "t.jsonl", rows)
    assert sentence in fails(run("clean", table, "--labels", "tags", "--images", f"file={tmp_path}", "--dry-run"))


def test_hostile_names_are_text_in_the_report_and_the_log(run, posts, tmp_path):
    evil = {"cook": "<script>alert('x')</script>", "music": "a \"b\" 'c' & d", "sport": "=1+1", "travel": "{{ 7*7 }}"}
    table = tmp_path / "t.csv"
    write_posts([(p[0], p[1] + " <b onclick='x'>", [evil[t] for t in p[2]], p[3]) for p in posts], table)
    page, log, out = tmp_path / "page.html", tmp_path / "log.csv", tmp_path / "out.csv"
    result = run("clean", table, *COLUMNS, "--report", page, "--log", log, "-o", out)
    assert result.exit_code == 0, result.stderr
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "<b onclick" not in text
    assert "&lt;script&gt;" in text
    assert "{{ 7*7 }}" in text
    with log.open(newline="", encoding="utf-8") as stream:
        # A spreadsheet must not take a label for a formula.
        expected = {f"'{name}" if name.startswith("=") else name for name in evil.values()}
        assert {line["label"] for line in csv.DictReader(stream)} <= expected


def test_arff_labels_by_number_and_by_what_the_file_says(run, posts, tmp_path):
    """The help promises both: they used to end in a TypeError."""
    table = tmp_path / "posts.arff"
    write_posts(posts, table)
    result = run("clean", table, "--labels", "-4", "--text", "body", "--dry-run", "--json")
    assert json.loads(result.stdout)["labels"] == 4
    assert "no posts.xml beside the file" in fails(run("clean", table, "--text", "body", "--dry-run"))
    lines = "".join(f'<label name="t_{topic}"></label>' for topic in TOPICS)
    xml = tmp_path / "posts.xml"
    xml.write_text(f'<labels xmlns="http://mulan.sourceforge.net/labels">{lines}</labels>')
    for words in ([], ["--labels", xml]):
        result = run("clean", table, *words, "--text", "body", "--dry-run", "--json")
        assert json.loads(result.stdout)["labels"] == 4, result.stderr
    assert "asks for -9 labels" in fails(run("clean", table, "--labels", "-9", "--text", "body", "--dry-run"))


def test_fit_finds_the_columns_of_a_table(run, posts_csv, tmp_path):
    words = ["--labels", "tags", "--option", "ignore=truth", "-m", "CandidateLogistic", "-o", tmp_path / "m.skops"]
    result = run("fit", posts_csv, *words, "--json")
    assert json.loads(result.stdout)["columns"] == "body: TF-IDF of 62 words", result.stderr


def test_json_lines_need_no_option_to_be_a_table(run, posts, tmp_path):
    lines = tmp_path / "posts.jsonl"
    write_posts(posts, lines)
    lines = lines.rename(tmp_path / "posts.ndjson")
    result = run("fit", lines, "--labels", "tags", "-m", "CandidateLogistic", "-o", tmp_path / "m.skops", "--json")
    assert json.loads(result.stdout)["columns"] == "body: TF-IDF of 62 words"


def test_a_single_row_without_text_is_predicted(run, posts_csv, tmp_path):
    model, new = tmp_path / "m.skops", tmp_path / "new.csv"
    assert run("fit", posts_csv, *COLUMNS, "-m", "CandidateLogistic", "-o", model).exit_code == 0
    new.write_text('body,n\n"",1\n')
    result = run("predict", model, new, "--scores")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 2), result.stderr


def test_embeddings_of_another_width_are_refused_before_anything_is_written(run, posts_csv, tmp_path):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(240, 4)))
    np.save(tmp_path / "b.npy", np.ones((240, 3)))
    words = [posts_csv, "--labels", "tags", "-m", "CandidateLogistic", "-o", tmp_path / "m.skops"]
    assert run("fit", *words, "--embeddings", tmp_path / "a.npy").exit_code == 0
    result = run("predict", tmp_path / "m.skops", posts_csv, "--embeddings", tmp_path / "b.npy")
    assert "give 3 numbers per row, but the model was fitted on 4" in fails(result)
    assert result.stdout == ""


def test_many_columns_are_not_all_listed(run, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 30))
    header = [f"column_with_a_long_name_{j}" for j in range(30)]
    rows = [",".join([*map("{:.3f}".format, x), "a;b" if x[0] + x[1] > 0 else "b;c" if x[2] > 0 else "c"]) for x in X]
    table = tmp_path / "t.csv"
    table.write_text("\n".join([",".join([*header, "tags"]), *rows]))
    result = run("fit", table, "--labels", "tags", "--numbers", ",".join(header), "-o", tmp_path / "m.skops", "--json")
    assert json.loads(result.stdout)["columns"].endswith("column_with_a_long_name_7 and 22 more: numbers, scaled")


def big_table(path, n_rows):
    posts = make_posts(240)
    write_posts([(f"p{i}", *posts[i % 240][1:]) for i in range(n_rows)], path)
    return path


def test_control_c_leaves_no_output(tmp_path):
    if os.name != "posix":
        pytest.skip("signals are of POSIX")
    table, out = big_table(tmp_path / "posts.csv", 300_000), tmp_path / "out"
    out.mkdir()
    before = table.read_bytes()
    words = ["clean", table, *COLUMNS, "-o", out / "o.csv", "--log", out / "log.csv", "--report", out / "page.html"]
    with forked.Popen(words, stdout=forked.PIPE, stderr=forked.PIPE) as process:
        assert process.stderr.readline().startswith(b"progress: ")
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=120)
    assert (process.returncode, stdout) == (130, b"")
    assert stderr.decode().splitlines()[-1] == "stopped: interrupted from the keyboard."
    assert b"Traceback" not in stderr
    assert list(out.iterdir()) == []
    assert table.read_bytes() == before


@pytest.fixture
def handlers_restored(monkeypatch):
    """Restore what ``main`` sets for a process of its own: how signals are handled."""
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers_restored")
def test_control_c_while_the_modules_are_being_read(monkeypatch, capsys):
    class Interrupted(ModuleType):
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "pmlkit.cli.app", Interrupted("pmlkit.cli.app"))
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 130
    assert capsys.readouterr().err == "stopped: interrupted from the keyboard.\n"


def test_an_interrupt_between_two_outputs_leaves_neither(run, posts_csv, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("pmlkit.cleaning.result.CleaningResult.report", interrupt)
    words = ["-o", tmp_path / "o.csv", "--log", tmp_path / "log.csv", "--report", tmp_path / "page.html"]
    result = run("clean", posts_csv, *COLUMNS, *words)
    assert result.exit_code == 130
    assert list(tmp_path.iterdir()) == []


def test_the_log_of_many_rows_goes_without_similar_rows(run, posts_csv, tmp_path, monkeypatch):
    monkeypatch.setattr("pmlkit.cleaning.result._BLOCK", 10)
    monkeypatch.setattr("pmlkit.cleaning.result._COMPARED_AT_LEAST", 20)
    monkeypatch.setattr("pmlkit.cleaning.result._COMPARED_PAIRS", 240)
    assert run("clean", posts_csv, *COLUMNS, "--log", tmp_path / "log.csv").exit_code == 0
    with (tmp_path / "log.csv").open(newline="", encoding="utf-8") as stream:
        reasons = [line["reasons"] for line in csv.DictReader(stream)]
    assert len(reasons) > 20
    assert ["similar rows" in text for text in reasons] == [i < 20 for i in range(len(reasons))]
    assert all(text.startswith("against: models that never saw this row score it ") for text in reasons)
