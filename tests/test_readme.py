"""The README's own words must work."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pmlkit.methods import all_methods

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_python_quick_start_runs(capsys):
    (code,) = blocks("python")
    assert len(code.strip().splitlines()) <= 10
    exec(compile(code, "README", "exec"), {})
    assert "average_precision" in capsys.readouterr().out


def test_command_line_quick_start_runs(tmp_path, benchmark_data):
    benchmark_data("emotions")
    from pmlkit.data import data_home

    original = (data_home() / "original" / "emotions.arff").resolve()
    if not original.is_file():
        pytest.skip(f"{original} is absent")
    for name in ("data", "new"):
        (tmp_path / f"{name}.arff").symlink_to(original)
        (tmp_path / f"{name}.xml").symlink_to(original.with_suffix(".xml"))
    commands = blocks("sh")[1].strip().splitlines()
    assert len(commands) == 3
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "pmlkit"
        subprocess.run([sys.executable, "-m", "pmlkit", *words], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "labels.csv").stat().st_size > 0


def test_make_commands_exist():
    targets = re.findall(r"^make (\w+)", blocks("sh")[0], re.MULTILINE)
    assert targets == ["demo", "test"]
    assert all(f"\n{target}:" in (ROOT / "Makefile").read_text() for target in targets)


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_every_method_is_listed():
    for name in all_methods():
        assert f"`{name}`" in README
