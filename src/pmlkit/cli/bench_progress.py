"""Progress of a benchmark: a live display on a terminal, a line every ten seconds elsewhere."""

import threading
import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pmlkit._words import printable
from pmlkit.bench.cells import Cell
from pmlkit.bench.runner import ProgressCallback
from pmlkit.bench.sandbox import Outcome

_LINE_EVERY = 10.0  # seconds between two lines where there is no terminal
_SHOWN_CELLS = 8
_SHOWN_FAILURES = 3


class Display(ProgressCallback):
    """Display of finished and remaining cells, the time left, the cells under way and the failures."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._guard = threading.RLock()
        self._live: Live | None = None
        self._n_cells = self._n_finished = self._n_here = self._n_elsewhere = 0
        self._n_failed = 0
        self._jobs = 1
        self._under_way: dict[str, tuple[Cell, float]] = {}
        self._failures: list[Text] = []
        self._started = self._last_line = time.monotonic()

    def stage(self, name: str) -> None:
        """Print the name of a part."""
        self._console.print(Text.assemble(("now:", "bold"), " ", printable(name)), soft_wrap=True)

    def begin(self, n_cells: int, n_finished: int, jobs: int) -> None:
        """Start the display."""
        self._n_cells, self._n_finished, self._jobs = n_cells, n_finished, jobs
        self._n_failed = self._n_here = self._n_elsewhere = 0
        self._started = self._last_line = time.monotonic()
        before = f", {n_finished:,} of them finished before" if n_finished else ""
        with_jobs = f"{jobs} job{'s' if jobs > 1 else ''}"
        self._line(f"{n_cells:,} cells{before}, {n_cells - n_finished:,} to do with {with_jobs}")
        if self._console.is_terminal and n_finished < n_cells:
            self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=4, transient=True)
            self._live.start()

    def cell_started(self, cell: Cell) -> None:
        """Show a cell as being run."""
        with self._guard:
            self._under_way[cell.key] = cell, time.monotonic()

    def cell_finished(self, cell: Cell, outcome: Outcome) -> None:
        """Count a cell, and show it if it failed."""
        with self._guard:
            self._under_way.pop(cell.key)
            self._n_finished += 1
            self._n_here += 1
            if outcome.answer is None:
                self._n_failed += 1
                self._failures.append(Text(printable(f"{cell.title}: {outcome.reason}")))
                if self._live is None:
                    self._line(f"failed: {self._failures[-1]}")
            self._line_at_intervals()

    def others_finished(self, n_cells: int, n_running: int) -> None:
        """Count cells of another run, and show how many it still runs."""
        with self._guard:
            self._n_finished += n_cells
            self._n_elsewhere = n_running
            self._line_at_intervals()

    def end(self) -> None:
        """Stop the display."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _line_at_intervals(self) -> None:
        if self._live is None and time.monotonic() - self._last_line >= _LINE_EVERY:
            self._last_line = time.monotonic()
            self._line(self._summary())

    def _line(self, text: str) -> None:
        self._console.print(Text.assemble(("bench:", "bold"), " ", text), soft_wrap=True)

    def _summary(self) -> str:
        parts = [f"{self._n_finished:,} of {self._n_cells:,} cells"]
        if self._n_failed:
            parts.append(f"{self._n_failed:,} failed")
        if self._n_elsewhere:
            parts.append(f"{self._n_elsewhere:,} in another run")
        parts.append(f"{_duration(time.monotonic() - self._started)} so far")
        left = self._seconds_left()
        if left is not None:
            parts.append(f"about {_duration(left)} left")
        return ", ".join(parts)

    def _seconds_left(self) -> float | None:
        """Estimate the time left from the pace so far."""
        if not self._n_here:
            return None
        pace = (time.monotonic() - self._started) / self._n_here
        return pace * (self._n_cells - self._n_finished)

    def _render(self) -> RenderableType:
        with self._guard:
            now = time.monotonic()
            head = Table.grid()
            head.add_row(ProgressBar(total=max(self._n_cells, 1), completed=self._n_finished, width=40))
            head.add_row(Text(self._summary()))
            cells = Table.grid(padding=(0, 2))
            oldest = sorted(self._under_way.values(), key=lambda item: item[1])
            for cell, started in oldest[: max(self._jobs, 1)][:_SHOWN_CELLS]:
                cells.add_row(Text(_duration(now - started), style="dim"), Text(printable(cell.title)))
            failures = [Text.assemble(("failed: ", "bold red"), text) for text in self._failures[-_SHOWN_FAILURES:]]
            return Group(head, cells, *failures)


def _duration(seconds: float) -> str:
    """Return a duration in words."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
