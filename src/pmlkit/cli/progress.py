"""How far a long task is: a bar with the time left on a terminal, now and then a line elsewhere."""

import threading
import time
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pmlkit.cli.output import ERR, printable, say

__all__ = ["Watch"]

_PATIENCE = 2.0  # seconds that pass in silence
_LINE_EVERY = 10.0  # seconds between two lines where there is no terminal


class Watch:
    """Show how far a task is, once it has run for two seconds; use it as a context manager.

    `total`: of how many steps; without it only the time is shown.
    """

    def __init__(self, what: str, total: int | None = None) -> None:
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=28),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=ERR,
            transient=True,
        )
        self._task = self._bar.add_task(printable(what), total=total)
        self._has_begun = False
        self._started = time.monotonic()
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._is_done.set()
        self._thread.join()
        if self._bar.live.is_started:
            self._bar.stop()

    def advance(self, steps: int = 1) -> None:
        """Report finished steps."""
        self._bar.advance(self._task, steps)

    def begin(self, what: str) -> None:
        """Say what comes next; what came before, if anything, is a finished step."""
        self.advance(int(self._has_begun))
        self._has_begun = True
        self._bar.update(self._task, description=printable(what))

    def expect(self, total: int | None) -> None:
        """Start again with another number of steps."""
        self._bar.reset(self._task, total=total)
        self._bar.tasks[self._task].total = total

    def _show(self) -> None:
        if self._is_done.wait(_PATIENCE):
            return
        if ERR.is_terminal:
            self._bar.start()
            return
        while not self._is_done.is_set():
            say("progress", self._line())
            self._is_done.wait(_LINE_EVERY)

    def _line(self) -> str:
        task = self._bar.tasks[self._task]
        line = f"{task.description}, {time.monotonic() - self._started:.0f} s"
        if task.total and task.completed:
            line += f", {task.percentage:.0f} % done"
            line += f", about {task.time_remaining:.0f} s left" if task.time_remaining else ""
        return line
