"""What `make release-check` relies on, checked in every run: versions, lock file, templates."""

import importlib.util
import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

import pmlkit

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_spec = importlib.util.spec_from_file_location("release_check", ROOT / "tools" / "release_check.py")
release_check = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(release_check)


def test_code_change_log_and_citation_name_one_version():
    assert set(release_check.versions().values()) == {pmlkit.__version__}


def test_a_file_without_version_is_found(tmp_path):
    for name in release_check.versions():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    (tmp_path / "CITATION.cff").write_text("title: none\n")
    assert release_check.versions(tmp_path)["CITATION.cff"] == ""


def test_the_lock_file_has_every_dependency_in_an_allowed_version():
    lines = (ROOT / "requirements-dev.lock").read_text().splitlines()
    assert all(re.fullmatch(r"[a-z0-9._-]+(\[[a-z0-9,._-]+\])?==[0-9a-z.!+]+( ; .+)?", line) for line in lines)
    locked = dict(line.partition(" ;")[0].split("==") for line in lines)
    wanted = [
        *PROJECT["dependencies"],
        *(word for extra in PROJECT["optional-dependencies"].values() for word in extra),
    ]
    for requirement in map(Requirement, wanted):
        name = requirement.name.lower().replace("_", "-")
        if name != "pmlkit":
            assert name in locked, f"{name} is not in requirements-dev.lock: make lock"
            assert requirement.specifier.contains(locked[name]), f"{requirement}, locked {locked[name]}: make lock"
