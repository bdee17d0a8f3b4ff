import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import pmlkit
from pmlkit.cli.app import EXAMPLES, app

NAMES = [str(command.name) for command in app.registered_commands]


def test_all_commands_are_there():
    models = ["demo", "evaluate", "fit", "methods", "predict"]
    answers = ["apply", "audit", "export", "import-answers", "review"]
    others = ["bench", "clean", "convert", "info", "noise", "report", "reproduce"]
    assert sorted(NAMES) == sorted([*answers, *models, *others])


@pytest.mark.parametrize("name", NAMES)
def test_help_teaches_by_examples_and_names_the_common_options(run, name):
    result = run(name, "--help")
    assert result.exit_code == 0
    examples = result.stdout.partition("Examples")[2]
    assert f"pmlkit {name}" in examples
    for option in ("--json", "--verbose", "--debug"):
        assert option in result.stdout


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_understood_by_the_parser(run, name, tmp_path, monkeypatch):
    """No example may hold an unknown option: all fail at most for want of their files."""
    monkeypatch.chdir(tmp_path)  # where the demo has not been, or they would run in earnest, too
    lines = [line for line in EXAMPLES.split("\n") if line.split()[1:2] == [name]]
    assert lines
    for line in lines:
        words = line.partition(" | ")[0].replace("'", "").split()[1:]
        if words[0] in ("bench", "demo", "methods", "reproduce"):  # They would run in earnest.
            words.append("--help")
        result = run(*words)
        assert result.exit_code in (0, 1), (line, result.stderr)


def test_without_words_the_help_is_shown(run):
    result = run()
    assert result.exit_code == 0
    assert "pmlkit demo" in result.stdout
    assert result.stderr == ""


def test_version(run):
    assert run("--version").stdout == f"pmlkit {pmlkit.__version__}\n"


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["inof", "x"], "'info'"),
        (["info", "x", "--lables", "y"], "'--labels'"),
        (["fit", "x", "--outptu", "y"], "'--output'"),
    ],
)
def test_a_slip_of_the_pen_is_answered_with_the_near_word(run, words, near):
    result = run(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert f"Did you mean {near}?" in result.stderr


@pytest.mark.parametrize("word", ["ignore", "delimiter", "truth"])
def test_an_option_of_a_format_is_named_as_one(run, word):
    result = run("clean", "posts.csv", f"--{word}", "x")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: No such option: --{word}. Write --option {word}=VALUE.")
    assert "Write" not in run("demo", f"--{word}", "x").stderr  # a command that reads no file


def test_a_missing_argument_is_misuse(run):
    result = run("evaluate", "model.skops")
    assert result.exit_code == 2
    assert result.stderr == "error: Missing argument 'FILE'. See 'pmlkit evaluate --help'.\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["noise", "a.npz", "b.npz", "--ratio", "-1"], "--ratio must be at least 0, got '-1'."),
        (["fit", "a.csv", "--jobs", "two"], "--jobs must be a whole number, got 'two'."),
        (["fit", "a.csv", "--jobs", "1.5"], "--jobs must be a whole number, got '1.5'."),
        (["audit", "a.csv", "--precision", "x"], "--precision must be a number, got 'x'."),
        (
            ["audit", "a.csv", "--precision", "90 %"],
            "--precision must be a number, got '90 %'. For 90 % write --precision 0.9.",
        ),
    ],
)
def test_a_number_that_cannot_be_used_is_misuse(run, words, sentence):
    result = run(*words)
    assert result.exit_code == 2
    assert result.stderr == f"error: {sentence} See 'pmlkit {words[0]} --help'.\n"


def test_completion_script_is_offered(run):
    assert "--show-completion" in run("--help").stdout


def test_help_imports_nothing_heavy():
    """Only the command line's own modules: the package's __init__ is stood in for by an empty one."""
    script = """
        import sys, types
        stand_in = types.ModuleType("pmlkit")
        stand_in.__path__, stand_in.__version__ = [sys.argv[1]], "0"
        sys.modules["pmlkit"] = stand_in
        import pmlkit.cli.app
        heavy = {"numpy", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib", "skops"}
        sys.exit(", ".join(sorted(heavy & set(sys.modules))) or 0)
    """
    folder = str(Path(pmlkit.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_module_runs_like_the_command(shell):
    done = shell("fit", "nowhere.npz", "-o", "m.skops", "-m", "MLkN")
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.decode().startswith("error: There is no method 'MLkN'. Did you mean 'MLkNN'?")


def test_a_terminal_without_arrows_is_no_failure(shell, small_npz, model):
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "pmlkit", "evaluate", str(model), str(small_npz)],
        capture_output=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert b"Hamming loss ?" in done.stdout
