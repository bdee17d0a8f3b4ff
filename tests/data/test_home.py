from pathlib import Path

import pytest

from pmlkit.data import data_home


@pytest.fixture
def system(monkeypatch):
    """Return a function that sets the platform and the environment."""

    def use(platform, **variables):
        monkeypatch.setattr("sys.platform", platform)
        for name in ("PMLKIT_DATA", "XDG_DATA_HOME", "LOCALAPPDATA"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return use


def test_the_variable_names_the_folder(system, tmp_path, monkeypatch):
    system("linux", PMLKIT_DATA="/data/sets", XDG_DATA_HOME="/elsewhere")
    assert data_home() == Path("/data/sets")
    monkeypatch.chdir(tmp_path)
    system("linux", PMLKIT_DATA="sets")
    assert data_home() == tmp_path / "sets"


@pytest.mark.parametrize(
    ("platform", "variables", "folder"),
    [
        ("linux", {}, Path.home() / ".local/share/pmlkit"),
        ("linux", {"XDG_DATA_HOME": "/srv/share"}, Path("/srv/share/pmlkit")),
        ("linux", {"XDG_DATA_HOME": "relative"}, Path.home() / ".local/share/pmlkit"),
        ("linux", {"PMLKIT_DATA": ""}, Path.home() / ".local/share/pmlkit"),
        ("darwin", {}, Path.home() / "Library/Application Support/pmlkit"),
        ("win32", {"LOCALAPPDATA": "/c/local"}, Path("/c/local/pmlkit")),
        ("win32", {}, Path.home() / "AppData/Local/pmlkit"),
    ],
)
def test_the_users_data_folder(system, platform, variables, folder):
    system(platform, **variables)
    assert data_home() == folder
