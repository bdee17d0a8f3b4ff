import logging
import os
import signal
import subprocess
import sys

import pytest

import forked
from pmlkit._words import did_you_mean
from pmlkit.cli.options import expand, literal
from pmlkit.data import write


def test_no_traceback_unless_asked_for(run, tmp_path, monkeypatch):
    assert "Traceback" not in run("info", tmp_path / "no.npz").stderr
    assert "Traceback" in run("info", tmp_path / "no.npz", "--debug").stderr
    monkeypatch.setenv("PMLKIT_DEBUG", "1")
    assert "Traceback" in run("info", tmp_path / "no.npz").stderr
    monkeypatch.setenv("PMLKIT_DEBUG", "0")
    assert "Traceback" not in run("info", tmp_path / "no.npz").stderr


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("x"), "unexpected KeyError"),
        (MemoryError(), "not enough memory"),
        (OSError(28, "No space left on device", "/x/y"), "No space left on device: '/x/y'."),
        (RecursionError("deep\nand\ndeeper"), "unexpected RecursionError: deep and deeper"),
    ],
)
def test_what_nobody_thought_of_is_one_sentence_too(run, small_npz, monkeypatch, error, said):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("pmlkit.data.read", fail)
    result = run("info", small_npz)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_verbose_shows_the_log(run, small_npz, tmp_path):
    words = ["noise", small_npz, tmp_path / "n.npz", "--force"]
    assert run(*words).stderr == ""
    assert "pmlkit.data.noise info: uniform noise" in run(*words, "--verbose").stderr
    assert logging.getLogger("pmlkit").level == logging.DEBUG
    assert run(*words).stderr == ""


def test_errors_go_to_stderr_and_facts_to_stdout(shell, small_npz, tmp_path):
    good = shell("info", small_npz, "--json")
    assert (good.returncode, _errors(good.stderr)) == (0, [])
    bad = shell("info", tmp_path)
    assert (bad.returncode, bad.stdout) == (1, b"")
    assert [line[:7] for line in _errors(bad.stderr)] == [b"error: "]
    assert b"Traceback" not in bad.stderr


def _errors(said):
    """Return what was said but for how far the work is, which a slow machine shows."""
    return [line for line in said.splitlines() if not line.startswith(b"progress: ")]


def test_a_closed_pipe_is_no_error(model, tmp_path, small):
    import numpy as np

    many = small.subset(np.arange(20_000) % 40)
    write(many, tmp_path / "many.npz")
    words = ["predict", model, tmp_path / "many.npz", "--scores"]
    with forked.Popen(words, stdout=forked.PIPE, stderr=forked.PIPE) as process:
        assert process.stdout.readline().startswith(b"row,")
        process.stdout.close()
        said = process.stderr.read()
        process.wait(timeout=120)
    assert _errors(said) == []
    assert process.returncode == 1


def test_a_pipe_that_was_never_read_is_no_error(model, small_csv):
    """The rows fit into the buffer: the pipe is found closed only when the buffer is emptied."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "pmlkit", "predict", str(model), str(small_csv)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=120, env=environment)
    os.close(writing)
    assert (done.returncode, _errors(done.stderr)) == (1, [])


def test_control_c_ends_quietly_and_leaves_nothing_half_written(tmp_path):
    out = tmp_path / "out"
    words = ["demo", "--rows", "100000", "--output", out]
    with forked.Popen(words, stdout=forked.PIPE, stderr=forked.PIPE) as process:
        assert process.stderr.readline().startswith(b"progress: ")
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert stdout == b""
    assert stderr.decode().splitlines()[-1] == "stopped: interrupted from the keyboard."
    assert b"Traceback" not in stderr
    assert list(out.iterdir()) == []


def test_near_words():
    assert did_you_mean("mlknn", ["MLkNN"]) == " Did you mean 'MLkNN'?"
    assert did_you_mean("x", ["MLkNN"]) == ""


def test_literals():
    words = {
        "3": 3,
        "-2": -2,
        "0.5": 0.5,
        "1e-3": 0.001,
        "FALSE": False,
        "None": None,
        "null": None,
        "a b": "a b",
        "": "",
    }
    for text, value in words.items():
        assert literal(text) == value
        assert type(literal(text)) is type(value)


def test_a_dataclass_becomes_options():
    from dataclasses import dataclass
    from typing import Annotated

    import typer
    from typer.testing import CliRunner

    @dataclass(frozen=True)
    class Group:
        size: Annotated[int, typer.Option("--size")] = 3
        names: Annotated[list[str] | None, typer.Option("--name")] = None

    seen = []

    def command(word: str, group: Group, last: bool = False) -> None:
        seen.append((word, group, last))

    app = typer.Typer()
    app.command()(expand(command))
    result = CliRunner().invoke(app, ["w", "--size", "5", "--name", "a", "--name", "b", "--last"])
    assert result.exit_code == 0, result.output
    assert seen == [("w", Group(5, ["a", "b"]), True)]


@pytest.mark.parametrize(
    ("tool", "text", "said"),
    [
        ("prodigy", '{"label": "cat", "answer": "reject"}', "a task has no 'meta'"),
        ("prodigy", '{"label": "cat", "answer": "reject", "meta": {}}', "a task has no 'row'"),
        ("prodigy", '{"label": "cat", "answer": "maybe", "meta": {"row": 1}}', "answer 1 is 'maybe'"),
        ("prodigy", "row,label", "it is not JSON Lines"),
        ("label-studio", '[{"annotations": []}]', "a task has no 'data'"),
        ("label-studio", "[3]", "its tasks are built in another way"),
    ],
)
def test_what_a_file_of_another_tool_lacks(run, tmp_path, tool, text, said):
    (tmp_path / "export.txt").write_text(text)
    result = run("import-answers", tmp_path / "export.txt", "--from", tool, "-o", tmp_path / "answers.csv")
    assert result.exit_code == 1
    assert said in result.stderr
    assert "Error" not in result.stderr
