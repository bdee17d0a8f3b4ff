import json
import shlex

import pytest
from typer.testing import CliRunner

from pmlkit.cleaning import clean
from pmlkit.cli.app import app
from pmlkit.data import read
from pmlkit.demo import N_STAGES, run_demo
from pmlkit.persistence import load

ROWS = 150


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A small demo: what it printed and where its files are."""
    folder = tmp_path_factory.mktemp("demo") / "new folder"
    result = CliRunner().invoke(app, ["demo", "--rows", str(ROWS), "--output", str(folder)])
    assert result.exit_code == 0, result.stderr
    return result.stdout, folder


def test_it_is_short_and_fits_eighty_columns(shown):
    lines = shown[0].splitlines()
    assert len(lines) <= 60
    commands = [line for line in lines if line.startswith("  pmlkit ")]
    assert max(len(line) for line in lines if line not in commands and str(shown[1]) not in line) <= 80
    assert len(commands) == 4


def test_it_says_what_was_measured(shown):
    demo = run_demo(ROWS)
    for method in demo.methods.values():
        assert f"{method.metrics['average_precision']:.3f}" in shown[0]
        assert f"{method.cleaning['cleaning_auc']:.3f}" in shown[0]
    for suspect in demo.suspects:
        assert f"{suspect.confidence:.3f}" in shown[0]


def test_the_files_are_the_ones_of_the_demo(shown):
    demo, folder = run_demo(ROWS), shown[1]
    assert sorted(path.name for path in folder.iterdir() if "lfc" not in path.name) == [
        "contact-sheet.html",
        "demo.npz",
        "model.skops",
    ]
    assert read(folder / "demo.npz") == demo.data
    assert type(load(folder / "model.skops")).__name__ == "ClearPML"
    page = (folder / "contact-sheet.html").read_text(encoding="utf-8")
    assert page.count('src="data:image/png;base64,') == len(demo.suspects)
    assert page.count("✗ wrong") == sum(suspect.is_wrong for suspect in demo.suspects)
    assert "http" not in page.replace("http-equiv", "")


def test_the_commands_it_suggests_work_as_printed(shown, run):
    for line in shown[0].splitlines():
        if line.startswith("  pmlkit ") and "--review" not in line:  # which serves until Ctrl-C
            result = run(*shlex.split(line.partition(" | ")[0])[1:])
            assert result.exit_code == 0, (line, result.stderr)


def test_an_earlier_demo_is_replaced_but_nothing_else(run, tmp_path):
    for seed in ("0", "1"):
        assert run("demo", "--rows", "50", "--seed", seed, "--output", tmp_path / "demo").exit_code == 0
    (tmp_path / "model.skops").write_text("mine")
    result = run("demo", "--rows", "50", "--output", tmp_path)
    assert result.exit_code == 1
    assert "--force" in result.stderr
    assert (tmp_path / "model.skops").read_text() == "mine"


def test_as_json(run, tmp_path):
    result = run("demo", "--rows", "60", "--output", tmp_path, "--json")
    facts = json.loads(result.stdout)
    assert len(facts["suspects"]) == 10
    assert set(facts["methods"]) == {"ClearPML", "CandidateLogistic", "MLkNN", "PMLLFC"}


@pytest.mark.parametrize("where", ["file", "file/below"])
def test_a_folder_that_cannot_be(run, tmp_path, where):
    (tmp_path / "file").write_text("")
    result = run("demo", "--output", tmp_path / where)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1


def test_suspects_are_those_of_clean():
    demo = run_demo(100, n_suspects=7)
    train = demo.data.subset(slice(demo.n_train))
    wanted = clean(train.X, train.Y, label_names=train.label_names).top_suspects(7)
    assert [s.row for s in demo.suspects] == wanted["row"].tolist()
    assert [train.label_names[s.label] for s in demo.suspects] == wanted["label"].tolist()
    assert [s.confidence for s in demo.suspects] == wanted["confidence"].tolist()
    truth = train.truth.toarray()
    assert [s.is_wrong for s in demo.suspects] == [truth[s.row, s.label] == 0 for s in demo.suspects]


def test_stages_are_told():
    stages = []
    run_demo(50, on_stage=stages.append)
    assert len(stages) == N_STAGES
    assert stages[-1] == "asking a simulated reviewer"


def test_the_next_commands_can_be_typed_as_printed(tmp_path, monkeypatch):
    from pmlkit.cli import demo_command

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo_command.sys, "argv", [str(tmp_path / ".venv" / "bin" / "pmlkit"), "demo"])
    monkeypatch.setattr(demo_command.shutil, "which", lambda name: None)
    assert demo_command._program() == ".venv/bin/pmlkit"
    monkeypatch.setattr(demo_command.shutil, "which", lambda name: "/usr/bin/pmlkit")
    assert demo_command._program() == "pmlkit"
