import io
import re

import pytest
from rich.console import Console

from pmlkit.bench import Plan
from pmlkit.bench.cells import expand
from pmlkit.bench.sandbox import Outcome
from pmlkit.cli import bench_progress as module
from pmlkit.cli.bench_progress import Display


@pytest.fixture
def cells(small_npz):
    methods = ["bench_methods:Fast", "bench_methods:Raises"]
    return expand(Plan([small_npz], methods, noise=[0.5], repeats=2))


def test_without_a_terminal_there_are_lines(cells, monkeypatch):
    monkeypatch.setattr(module, "_LINE_EVERY", 0.0)
    stream = io.StringIO()
    display = Display(Console(file=stream, width=80))
    display.begin(n_cells=4, n_finished=0, jobs=2)
    for cell in cells:
        display.cell_started(cell)
    display.cell_finished(cells[0], Outcome({}, None, 0.0))
    display.cell_finished(cells[1], Outcome(None, "bad\x1b[31m\nluck", 0.0))
    display.others_finished(1, 1)
    display.end()
    assert stream.getvalue().splitlines() == [
        "bench: 4 cells, 4 to do with 2 jobs",
        "bench: 1 of 4 cells, 0 s so far, about 0 s left",
        "bench: failed: small, uniform 0.5, Raises, repeat 0: bad[31m luck",
        "bench: 2 of 4 cells, 1 failed, 0 s so far, about 0 s left",
        "bench: 3 of 4 cells, 1 failed, 1 in another run, 0 s so far, about 0 s left",
    ]


def test_on_a_terminal_there_is_a_picture_that_goes_away(cells):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, force_interactive=True, width=100)
    display = Display(console)
    display.begin(n_cells=4, n_finished=1, jobs=2)
    display.cell_started(cells[0])
    display.cell_started(cells[1])
    display.cell_finished(cells[1], Outcome(None, "no luck", 0.0))
    with console.capture() as captured:
        console.print(display._render())
    picture = re.sub(r"\x1b\[[0-9;]*m", "", captured.get())
    assert picture.splitlines()[1].strip().startswith("2 of 4 cells, 1 failed, 0 s so far, about ")
    assert "0 s  small, uniform 0.5, Fast, repeat 0" in picture
    assert "failed: small, uniform 0.5, Raises, repeat 0: no luck" in picture
    display.end()
    assert stream.getvalue().endswith("\x1b[2K")
