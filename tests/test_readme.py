"""The README's own words must work."""

import re
import shlex
from pathlib import Path

import numpy as np

import forked
from pmlkit.methods import all_methods

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_python_quick_starts_run(capsys):
    for code, printed in zip(blocks("python"), ("confidence", "average_precision"), strict=True):
        assert len(code.strip().splitlines()) <= 10
        exec(compile(code, "README", "exec"), {})
        assert printed in capsys.readouterr().out


def run_commands(block, folder):
    for command in block.strip().splitlines():
        program, *words = shlex.split(command, comments=True)
        assert program == "pmlkit"
        if words[0] == "reproduce":  # It takes minutes, and the data sets of the paper.
            words.append("--help")
        forked.run(words, cwd=folder, check=True, capture_output=True)


def test_cleaning_quick_start_runs(tmp_path):
    rng = np.random.default_rng(0)
    topics = {
        "sea": "wave beach sail salt tide",
        "hill": "rock climb snow peak path",
        "town": "tram shop street cafe lamp",
    }
    lines = []
    for number in range(120):
        true, other = rng.choice(list(topics), 2, replace=False)
        tags = f"{true};{other}" if number % 3 == 0 else true
        lines.append(f"{number},{' '.join(rng.choice(topics[true].split(), 4))},{tags}")
    (tmp_path / "posts.csv").write_text("\n".join(["id,body,tags", *lines]) + "\n")
    (tmp_path / "new.csv").write_text("id,body\n1,salt and tide\n2,snow on the peak\n")
    run_commands(blocks("sh")[1], tmp_path)
    assert (tmp_path / "cleaned.csv").read_text().startswith("id,body,tags\n0,")
    assert "<html" in (tmp_path / "report.html").read_text()
    predicted = (tmp_path / "labels.csv").read_text()
    assert "sea" in predicted


def test_bench_quick_start_runs(tmp_path):
    run_commands(blocks("sh")[2], tmp_path)
    assert "ClearPML" in (tmp_path / "report.html").read_text()


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
