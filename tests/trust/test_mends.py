"""The list of mends, which `make torture` takes out one by one, points at the code of today."""

import importlib.util
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("torture_mends", Path(__file__).parents[1] / "torture" / "mends.py")
mends = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(mends)


@pytest.mark.parametrize("entry", mends.MENDS, ids=lambda entry: entry[1])
def test_a_mend_is_where_the_list_says(entry):
    _, _, name, mend, _, tests = entry
    assert mend in (mends.ROOT / name).read_text(encoding="utf-8")
    assert (mends.ROOT / tests.split()[0]).exists()
