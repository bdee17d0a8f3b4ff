"""What a refusal is about, by its parts instead of its sentence."""

import contextlib

import pytest

from pmlkit.exceptions import DataError


@contextlib.contextmanager
def refused(says=None, **parts):
    """Expect a `DataError` with these attributes, such as ``row=1``; `says`: words, where no part tells two apart."""
    with pytest.raises(DataError, match=says) as caught:
        yield caught
    assert {name: getattr(caught.value, name) for name in parts} == parts, caught.value
