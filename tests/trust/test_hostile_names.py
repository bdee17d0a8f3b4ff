"""Labels, ids, columns, texts and file names of a stranger's table, through every command and every kind of output."""

import csv
import io
import json
import os
import re
import select
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from markdown_it import MarkdownIt
from typer.testing import CliRunner

import forked
from bench_cells import fail, make_cells
from pmlkit import clean, open_table
from pmlkit._words import unguarded
from pmlkit.bench.formatting import latex_tables
from pmlkit.bench.reporting import render_report
from pmlkit.bench.summary import means_csv, summarize
from pmlkit.cli.app import app
from pmlkit.data import PMLDataset, read, write
from pmlkit.persistence import load

pty = pytest.importorskip("pty")

_NAMES = {
    "html": '</title></style></td><hostile onx="1">\'"&lt{{ 7*7 }}',
    "formula": "=HYPERLINK(1)",
    "at": "@SUM(1)",
    "ansi": "\x1b[31mred\x1b]0 title\x07",
    "c1": "\x9b31mred\x85\x90q\x9c",
    "bidi": "a\u202egnp.exe\u2066b\u2069",
    "markdown": "[a](javascript:b) ![c](d) `e` *f* _g_ <hostile> # h\n\n# i",
    "latex": r"\input{a} $b$ % _c^d ~ & #",
}
_STARTS = ("=", "+", "-", "@", "\t", "\r")
_STEERING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_N_ROWS = 40


class _Page(HTMLParser):
    """Elements and attributes of a page, and its text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements += [tag, *(name for name, _ in attributes)]
        self.elements += [value for name, value in attributes if name in ("href", "src")]

    def handle_data(self, data):
        self.text += data


def _check_page(page, name):
    parsed = _Page(page)
    assert not [word for word in parsed.elements if word and ("hostile" in word or "onx" in word)]
    assert not [word for word in parsed.elements if word and word.startswith("javascript")]
    assert not _STEERING.search(page)
    shown = " ".join(_STEERING.sub("", name).split())
    assert shown in " ".join(parsed.text.split()) or shown.split("\n")[0][:20] in parsed.text
    assert "{{" in parsed.text or "{{" not in name


def _check_cells(text):
    for line in csv.reader(io.StringIO(text)):
        for cell in line:
            if cell.startswith(_STARTS):
                float(cell)


def _check_markdown(text):
    assert not _STEERING.search(text)
    made = _Page(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))
    assert not {"hostile", "img", "a", "em"} & set(made.elements)
    assert "i" not in re.findall(r"<h1>(.*?)</h1>", text)


@pytest.fixture(scope="module", params=list(_NAMES))
def name(request):
    return _NAMES[request.param]


@pytest.fixture(scope="module")
def made(name, tmp_path_factory):
    """A table whose names are all hostile; its path, the name, and its labels."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    labels = [f"{name}{k}" for k in range(3)]
    rows = []
    for i in range(_N_ROWS):
        true, other = int(rng.integers(3)), int(rng.integers(3))
        words = " ".join(f"word{true}{w}" for w in rng.integers(4, size=6))
        rows.append([f"{name}{i}", f"{words} {name}", "|".join(labels[k] for k in sorted({true, other}))])
    table = folder / (re.sub(r"[/\x00]", "", name) + ".csv")
    with table.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([_columns(name), *rows])
    return table, name, labels


def _columns(name):
    start = "" if name[0] != "@" else "c"  # an option @NAME is a file of names
    return [f"{start}{name} {what}" for what in ("id", "body", "tags")]


def _options(name):
    row, body, tags = _columns(name)
    return ["--labels", tags, "--sep", "|", "--text", body, "--id", row]


def _run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.stderr
    for said in (result.stdout, result.stderr):
        assert all(char in "\n\t" or char.isprintable() for char in said), said
    return result.stdout


def test_info_convert_and_noise(made, tmp_path):
    table, name, labels = made
    _run("info", table, *_options(name))
    json.loads(_run("info", table, *_options(name), "--json"))
    _run("convert", table, tmp_path / "d.npz", *_options(name))
    assert list(read(tmp_path / "d.npz").label_names) == labels
    true = PMLDataset(np.eye(6), np.eye(6, 3, dtype=int), truth=np.eye(6, 3, dtype=int), label_names=labels, name=name)
    np_path = tmp_path / "t.npz"
    write(true, np_path)
    _run("noise", np_path, tmp_path / "n.npz")
    for ending in ("csv", "arff", "parquet"):
        _run("convert", np_path, tmp_path / f"t.{ending}")
        assert list(read(tmp_path / f"t.{ending}").label_names) == labels
    _check_page(true._repr_html_(), name)


def test_clean(made, tmp_path):
    table, name, labels = made
    out = {key: tmp_path / key for key in ("o.csv", "log.csv", "suspects.csv", "missing.csv", "report.html")}
    outputs = [word for key, path in out.items() for word in (f"--{key.partition('.')[0]}", path)][2:]
    _run("clean", table, *_options(name), "-o", out["o.csv"], *outputs)
    for key in ("log.csv", "suspects.csv", "missing.csv"):
        _check_cells(out[key].read_text(encoding="utf-8"))
    _check_page(out["report.html"].read_text(encoding="utf-8"), name)
    suspects = pd.read_csv(out["suspects.csv"], keep_default_na=False)
    assert set(map(unguarded, suspects["label"])) <= {" ".join(label.split()) for label in labels} | set(labels)


def test_fit_predict_and_model_card(made, tmp_path):
    table, name, labels = made
    model = tmp_path / "m.skops"
    _run("fit", table, *_options(name), "-m", "CandidateLogistic", "-o", model)
    for k, words in enumerate([[], ["--scores"], ["--top", "2"]]):
        _run("predict", model, table, *words, "-o", tmp_path / f"{k}.csv")
        _check_cells((tmp_path / f"{k}.csv").read_text(encoding="utf-8"))
    _run("info", model)
    json.loads(_run("info", model, "--json"))
    _check_markdown(load(model).card())
    assert list(load(model).label_names_) == labels


@pytest.mark.parametrize("tool", ["label-studio", "argilla", "prodigy"])
def test_exports(made, tmp_path, tool):
    table, name, labels = made
    _run("export", table, *_options(name), "--to", tool, "-o", tmp_path / "tasks", "--top", 5)
    text = (tmp_path / "tasks").read_text(encoding="utf-8")
    tasks = [json.loads(line) for line in text.split("\n") if line] if tool == "prodigy" else json.loads(text)
    assert len(tasks) == 5
    of = {"label-studio": "data", "argilla": "metadata", "prodigy": None}[tool]
    assert {(task[of] if of else task)["label"] for task in tasks} <= set(labels)


def test_answers_that_come_back(made, tmp_path):
    _, name, labels = made
    tasks = [{"data": {"row": k, "label": label}} for k, label in enumerate(labels)]
    chosen = [{"type": "choices", "value": {"choices": ["wrong"]}}]
    for task in tasks:
        task["annotations"] = [{"result": chosen, "completed_by": {"email": name}, "created_at": name}]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    _run("import-answers", tmp_path / "tasks.json", "--from", "label-studio", "-o", tmp_path / "a.csv")
    _check_cells((tmp_path / "a.csv").read_text(encoding="utf-8"))
    _run("import-answers", tmp_path / "a.csv", "--from", "csv", "-o", tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_hugging_face_and_notebooks(made, tmp_path):
    table, name, labels = made
    _run("export", table, *_options(name), "--to", "huggingface", "-o", tmp_path / "t.parquet", "--top", 5)
    assert set(pd.read_parquet(tmp_path / "t.parquet")["label"]) <= set(labels)
    row, body, tags = _columns(name)
    opened = open_table(table, labels=[tags], sep="|", text=[body], id=row)
    _check_page(clean(opened.X, opened.Y, label_names=opened.label_names)._repr_html_(), name)


def test_reports_of_a_benchmark(name):
    cases = [(name, "uniform", ratio) for ratio in (0.1, 1.0)]
    cells = fail(make_cells(methods={"a": 0.8, "b": 0.6}, cases=cases, labels={"a": name}), [0], reason=name)
    summary = summarize(cells, reference=name)
    _check_page(render_report(summary, title=name, commands=[name]), name)
    _check_cells(means_csv(cells))
    text = latex_tables(summary)
    assert not _STEERING.search(text)
    lines = [line for line in text.split("\n") if not line.startswith("%")]
    assert not [line for line in lines if "\\input{a}" in line or "$b$" in line or "# i" in line.replace("\\#", "")]


def test_an_audit_in_a_terminal(made, tmp_path):
    table, name, _ = made
    master, slave = pty.openpty()
    words = ["audit", table, *_options(name), "--answers", tmp_path / "a.csv", "--who", name.replace("\x00", "")]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "200", "LINES": "60"}
    process = forked.Popen(words, stdin=slave, stdout=slave, stderr=slave, cwd=tmp_path, env=environment)
    os.close(slave)
    shown, n_answers = "", 0
    while select.select([master], [], [], 120)[0]:
        try:
            part = os.read(master, 65536)
        except OSError:  # its end
            break
        shown += part.decode(errors="replace")
        if shown.count("q stop and save") > n_answers:
            n_answers += 1
            os.write(master, b"x" if n_answers < 3 else b"q")
    os.close(master)
    assert process.wait() == 0, shown
    assert n_answers == 3
    own = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", shown)  # colours and the cursor
    assert not _STEERING.search(own), own
    assert "\x1b[31mred" not in shown
    _check_cells((tmp_path / "a.csv").read_text(encoding="utf-8"))
