"""Where the benchmark files are."""

import os
from pathlib import Path

__all__ = ["data_home"]


def data_home() -> Path:
    """Return the folder of the benchmark data sets.

    The environment variable ``PMLKIT_DATA`` names it; without it, ``../shared/data``
    seen from the working directory. The folder need not exist.
    """
    return Path(os.environ.get("PMLKIT_DATA", "../shared/data"))
