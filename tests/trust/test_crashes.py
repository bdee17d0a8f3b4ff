"""A few signals of the crash harness for every command; hundreds are sent by `make torture`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).parents[1] / "torture" / "crash.py"


@pytest.mark.skipif(os.name != "posix", reason="signals are of POSIX")
def test_no_signal_leaves_anything_half_done_or_loses_what_was_acknowledged():
    done = subprocess.run([sys.executable, str(_SCRIPT), "45"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| all | 45 | | | | 0 |" in done.stdout
