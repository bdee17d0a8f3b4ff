"""``pmlkit report`` on a store that ``pmlkit bench`` filled."""

import json

import pytest


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Two methods on the embedded strips, two ratios, two repeats."""
    from pmlkit.bench import Plan, run

    path = tmp_path_factory.mktemp("bench") / "results.sqlite"
    plan = Plan(["digit-strips:100"], ["MLkNN", "CandidateLogistic"], noise=[0.5, 1], repeats=2)
    run(plan, path, command="pmlkit bench --data digit-strips:100")
    return path


def test_page(run, store, tmp_path):
    page = tmp_path / "page.html"
    result = run("report", store, "-o", page, "--title", "Strips")
    assert result.exit_code == 0, result.stderr
    html = page.read_text(encoding="utf-8")
    assert "<h1>Strips</h1>" in html
    assert "8 cells: 2 methods on 2 cases of 1 data set, 2 repeats." in html
    assert "pmlkit bench --data digit-strips:100" in html
    assert str(page) in "".join(result.stdout.split())


def test_default_name_and_force(run, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("report", store).exit_code == 0
    assert (tmp_path / "report.html").is_file()
    again = run("report", store)
    assert again.exit_code == 1
    assert "exists already. Pass --force" in again.stderr
    assert run("report", store, "--force").exit_code == 0


def test_the_store_is_safe_from_force(run, store):
    before = store.read_bytes()
    result = run("report", store, "-o", store, "--force")
    assert result.exit_code == 2
    assert "is never overwritten" in " ".join(result.stderr.split())
    assert store.read_bytes() == before


def test_csv_goes_to_standard_output(run, store, tmp_path):
    result = run("report", store, "--csv")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 1 + 4
    assert lines[1].startswith("digit-strips:100,uniform,0.5,CandidateLogistic,{},2,0,0.")
    assert run("report", store, "--csv").stdout == result.stdout
    assert run("report", store, "--csv", "-o", tmp_path / "means.csv").exit_code == 0
    assert (tmp_path / "means.csv").read_text(encoding="utf-8") == result.stdout


def test_two_runs_give_the_same_bytes(run, store, tmp_path):
    from pmlkit import bench

    other = tmp_path / "other.sqlite"
    bench.run(bench.Plan(["digit-strips:100"], ["CandidateLogistic", "MLkNN"], noise=[1, 0.5], repeats=2), other)
    assert run("report", other, "--csv").stdout == run("report", store, "--csv").stdout


def test_latex_goes_to_standard_output(run, store):
    result = run("report", store, "--latex", "--against", "MLkNN")
    assert result.exit_code == 0
    assert result.stdout.startswith("% Made by pmlkit")
    assert r"better than MLkNN" in result.stdout


def test_json(run, store, tmp_path):
    result = run("report", store, "-o", tmp_path / "page.html", "--json")
    facts = json.loads(result.stdout)
    assert (facts["cells"], facts["cases"], facts["methods"], facts["failed"]) == (8, 2, 2, 0)


def test_misuse(run, store, tmp_path):
    both = run("report", store, "--latex", "--csv")
    assert both.exit_code == 2
    assert "one at a time" in both.stderr
    unknown = run("report", store, "--against", "MLKN", "-o", tmp_path / "page.html")
    assert unknown.exit_code == 2
    assert "Did you mean 'MLkNN'?" in unknown.stderr
    assert not (tmp_path / "page.html").exists()


def test_no_store(run, tmp_path):
    absent = run("report", tmp_path / "none.sqlite", "-o", tmp_path / "page.html")
    assert absent.exit_code == 1
    assert "There is no store" in absent.stderr
    (tmp_path / "text.sqlite").write_text("not a database, but long enough to look at")
    wrong = run("report", tmp_path / "text.sqlite", "-o", tmp_path / "page.html")
    assert wrong.exit_code == 1
    assert "is not a store" in wrong.stderr


def test_a_store_without_finished_cells(run, tmp_path):
    from pmlkit.bench.store import Store

    with Store(tmp_path / "new.sqlite"):
        pass
    result = run("report", tmp_path / "new.sqlite", "-o", tmp_path / "page.html")
    assert result.exit_code == 1
    assert "no finished cell yet" in result.stderr


def test_help_as_a_module(shell):
    result = shell("report", "--help")
    assert result.returncode == 0
    assert b"--latex" in result.stdout
