"""The folder of the benchmark data sets."""

import os
import sys
from pathlib import Path

__all__ = ["data_home"]


def data_home() -> Path:
    """Return the folder of the benchmark data sets; it need not exist.

    The environment variable ``PMLKIT_DATA`` names it. By default it is ``pmlkit`` in the user's data folder:
    ``$XDG_DATA_HOME`` or ``~/.local/share`` (Linux), ``~/Library/Application Support`` (macOS), ``%LOCALAPPDATA%``
    (Windows).

    Examples
    --------
    >>> from pmlkit.data import data_home
    >>> data_home().is_absolute()
    True
    """
    named = os.environ.get("PMLKIT_DATA")
    return Path(named).absolute() if named else _user_folder() / "pmlkit"


def _user_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    given = os.environ.get("XDG_DATA_HOME", "")
    # By the XDG rule, a relative path is to be ignored.
    return Path(given) if os.path.isabs(given) else Path.home() / ".local" / "share"
