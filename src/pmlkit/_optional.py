"""Import packages that only some features need, or say in one sentence how to install them."""

import importlib
from typing import Any

from pmlkit.exceptions import DataError

# Package: (the extra of pmlkit that installs it, its name on the package index, what needs it).
_EXTRAS = {
    "pyarrow": ("parquet", "pyarrow", "Parquet files need"),
    "PIL": ("images", "Pillow", "Image files need"),
    "dask": ("dask", "Dask", "Blocks of Dask need"),
    "distributed": ("dask", "Dask", "Running on a cluster needs"),
    "cryptography": ("dask", "cryptography", "Workers on this machine need"),
    "cleanlab": ("cleanlab", "cleanlab", "CleanlabFilter needs"),
    "starlette": ("review", "starlette", "The review page needs"),
    "uvicorn": ("review", "uvicorn", "The review page needs"),
}


class MissingDependencyError(DataError, ImportError):
    """A package of an extra is not installed; the message names the command that installs it."""


def optional_import(module: str) -> Any:
    """Return a module of an optional package.

    `module`: dotted name, such as ``pyarrow.parquet``. Raises MissingDependencyError: if the package is not installed.
    """
    extra, name, purpose = _EXTRAS[module.partition(".")[0]]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"{purpose} {name}, which is not installed: run pip install 'pmlkit[{extra}]'."
        ) from error
