"""Text of a stranger's file reaches spreadsheets, terminals and the file system only in harmless form."""

import csv
import io
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

from bench_cells import make_cells
from pmlkit._words import guarded, unguarded
from pmlkit.bench.summary import means_csv
from pmlkit.cleaning.audit import Answers
from pmlkit.cleaning.review.outputs import _csv
from pmlkit.cli.app import app
from pmlkit.cli.output import printable, printable_lines
from pmlkit.data.files.side_features import read_images
from pmlkit.exceptions import DataError

_STARTS = ("=", "+", "-", "@", "\t", "\r")
_ODD = ["=HYPERLINK(1)", "+cmd", "-minus", "@home", "'=quoted", "''@twice", "'s", "-1", "plain"]


@given(st.text(alphabet="=+-@'\t\ra1. ", max_size=8))
@settings(derandomize=True, max_examples=300)
def test_the_guard_can_be_undone_and_leaves_no_formula(text):
    assert unguarded(guarded(text)) == text
    if guarded(text).startswith(_STARTS):
        float(text)


def _table(path, n_rows=60):
    rng = np.random.default_rng(0)
    labels = ["=HYPERLINK(1)", "@home", "-minus", "plain"]
    lines = []
    for i in range(n_rows):
        kinds = rng.permutation(4)[:2]
        words = " ".join(f"word{k}" for k in kinds for _ in range(3))
        noise = rng.integers(4)
        tags = ";".join(sorted({labels[k] for k in kinds} | {labels[noise]}))
        lines.append([f"=id{i}", f"{words} and more text", tags])
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([["post_id", "body", "tags"], *lines])
    return path


def _run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.stderr
    return result


def _cells(path_or_text):
    text = path_or_text.read_text(encoding="utf-8") if hasattr(path_or_text, "read_text") else path_or_text
    return [cell for line in csv.reader(io.StringIO(text)) for cell in line]


def test_outputs_of_clean_and_predict_hold_no_formula(tmp_path):
    table = _table(tmp_path / "posts.csv")
    columns = ["--labels", "tags", "--sep", ";", "--text", "body"]
    outputs = {name: tmp_path / f"{name}.csv" for name in ("log", "suspects", "missing", "o")}
    options = [f"--{name}" for name in ("log", "suspects", "missing")]
    _run("clean", table, *columns, "-o", outputs["o"], *[x for name in options for x in (name, outputs[name[2:]])])
    _run("fit", table, *columns, "-m", "CandidateLogistic", "-o", tmp_path / "m.skops")
    made = [outputs["suspects"], outputs["log"], outputs["missing"]]
    for words in ([], ["--scores"], ["--top", "2"]):
        out = tmp_path / f"p{len(made)}.csv"
        _run("predict", tmp_path / "m.skops", table, *words, "-o", out)
        made.append(out)
    found = [cell for path in made for cell in _cells(path) if cell.startswith(_STARTS)]
    assert [cell for cell in found if not _is_number(cell)] == []
    assert any(cell.startswith("'=") for path in made for cell in _cells(path))
    # The table itself is the user's: none of its cells is changed but labels.
    assert "=HYPERLINK(1)" in outputs["o"].read_text()


def test_files_of_a_review_and_of_a_benchmark_hold_no_formula():
    assert _cells(_csv(("label",), [("=1+1",), ("-2",)]).decode()) == ["label", "'=1+1", "-2"]
    cells = make_cells(methods={"good": 0.8}, cases=[("@home", "uniform", 0.1)], labels={"good": "=1+1"})
    assert {"'@home", "'=1+1"} <= set(_cells(means_csv(cells)))


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_answers_come_back_with_the_labels_they_were_given_for(tmp_path):
    frame = pd.DataFrame({"id": [f"={k}" for k in range(len(_ODD))], "label": _ODD, "answer": "wrong"})
    answers = Answers.from_frame(frame)
    answers.write(tmp_path / "answers.csv")
    cells = _cells(tmp_path / "answers.csv")
    assert [cell for cell in cells if cell.startswith(_STARTS) and not _is_number(cell)] == []
    back = Answers.read(tmp_path / "answers.csv")
    assert back.frame["label"].tolist() == _ODD
    assert back.frame["id"].tolist() == frame["id"].tolist()


@given(st.text(max_size=40))
@settings(derandomize=True, max_examples=300)
def test_nothing_printed_can_steer_a_terminal(text):
    for shown in (printable(text), printable_lines(text)):
        assert all(char in "\n\t" or char.isprintable() for char in shown)


def test_a_debug_trace_has_no_escape_sequences(monkeypatch):
    def fail(*_, **__):
        raise ValueError("\x1b[31mred")

    monkeypatch.setattr("pmlkit.cli.data_commands._read", fail)
    result = CliRunner().invoke(app, ["info", "x.csv", "--debug"])
    assert result.exit_code == 1
    assert "\x1b" not in result.stderr
    assert "Traceback" in result.stderr


class TestImages:
    @pytest.fixture
    def folder(self, tmp_path):
        folder = tmp_path / "photos"
        (folder / "inner").mkdir(parents=True)
        for path in (tmp_path / "outside.png", folder / "inside.png", folder / "inner" / "deep.png"):
            Image.new("RGB", (4, 4)).save(path)
        (folder / "out.png").symlink_to(tmp_path / "outside.png")
        (folder / "in.png").symlink_to(folder / "inner" / "deep.png")
        (folder / "away").symlink_to(tmp_path)
        os.mkfifo(folder / "pipe.png")
        return folder

    def test_names_inside(self, folder):
        names = ["inside.png", "inner/deep.png", "in.png", "inner/../inside.png", str(folder / "inside.png")]
        assert read_images(folder, names).shape == (5, 48, 48, 3)

    @pytest.mark.parametrize("name", ["../outside.png", "out.png", "away/outside.png", "inner/../../outside.png"])
    def test_names_that_lead_out(self, folder, name):
        with pytest.raises(DataError, match="leads out of"):
            read_images(folder, [name])

    def test_absolute_names(self, folder):
        with pytest.raises(DataError, match="leads out of"):
            read_images(folder, [str(folder.parent / "outside.png")])

    @pytest.mark.parametrize("name", ["pipe.png", "inner"])
    def test_what_is_no_file(self, folder, name):
        with pytest.raises(DataError, match="is not a file"):
            read_images(folder, [name])

    def test_devices(self, folder):
        (folder / "zero").symlink_to("/dev/zero")
        with pytest.raises(DataError, match="leads out of"):
            read_images(folder, ["zero"])


def test_a_label_file_that_was_found_beside_the_data_is_never_overwritten(tmp_path):
    (tmp_path / "d.arff").write_text("@relation r\n@attribute a real\n@attribute L {0,1}\n@data\n1,0\n2,1\n")
    xml = tmp_path / "d.xml"
    xml.write_text('<labels><label name="L"/></labels>')
    result = CliRunner().invoke(app, ["convert", str(tmp_path / "d.arff"), str(xml), "--out-format", "csv", "--force"])
    assert result.exit_code == 2
    assert "is the input: it is never overwritten" in result.stderr
    assert xml.read_text() == '<labels><label name="L"/></labels>'


def test_a_report_on_a_terminal(tmp_path):
    pty = pytest.importorskip("pty")
    script = (
        "import sys, types; from pmlkit import bench; from pmlkit.cli.app import app;"
        "bench.report = lambda *_, **__: types.SimpleNamespace(text='a,\\x1b[31mb\\n');"
        f"app(['report', {str(tmp_path / 's.sqlite')!r}, '--csv'])"
    )
    (tmp_path / "s.sqlite").touch()
    master, slave = pty.openpty()
    subprocess.run([sys.executable, "-c", script], stdout=slave, stderr=subprocess.DEVNULL, check=True, timeout=120)
    os.close(slave)
    assert os.read(master, 100) == b"a,[31mb\r\n"
    os.close(master)
