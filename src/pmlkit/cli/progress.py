"""How far a long task is: a bar with the time left on a terminal, now and then a line elsewhere."""

import threading
import time
from datetime import timedelta
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from pmlkit.cli.output import ERR, printable, say

__all__ = ["Watch", "seconds_left"]

_PATIENCE = 2.0  # seconds that pass in silence
_LINE_EVERY = 10.0  # seconds between two lines where there is no terminal


def seconds_left(total: float, completed: float, elapsed: float, since_step: float) -> float:
    """Return an estimate that falls while a step runs, and rises when the step takes longer than those before.

    `elapsed`: until the last finished step. `since_step`: since then.
    """
    mean = elapsed / completed
    longer = max(mean, (elapsed + since_step) / (completed + 1.0))
    return (total - completed - 1.0) * longer + max(mean - since_step, 0.05 * since_step)


class _TimeLeft(ProgressColumn):
    """The time left; rich's own stands still during a long step."""

    def __init__(self, watch: "Watch") -> None:
        super().__init__()
        self._watch = watch

    def render(self, task: Task) -> Text:
        left = self._watch.left()
        return Text("-:--:--" if left is None else str(timedelta(seconds=round(left))), style="progress.remaining")


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
            _TimeLeft(self),
            console=ERR,
            transient=True,
        )
        self._task = self._bar.add_task(printable(what), total=total)
        self._has_begun = False
        self._started = self._counted_from = self._last_step = time.monotonic()
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
        self._last_step = time.monotonic() if steps else self._last_step

    def begin(self, what: str) -> None:
        """Say what comes next; what came before, if anything, is a finished step."""
        self.advance(int(self._has_begun))
        self._has_begun = True
        self._bar.update(self._task, description=printable(what))

    def expect(self, total: int | None) -> None:
        """Start again with another number of steps."""
        self._bar.reset(self._task, total=total)
        self._bar.tasks[self._task].total = total
        self._counted_from = self._last_step = time.monotonic()

    def left(self) -> float | None:
        """Return the seconds that are left, None as long as nobody knows."""
        task = self._bar.tasks[self._task]
        if not task.total or not 0 < task.completed < task.total:
            return None
        elapsed, since_step = self._last_step - self._counted_from, time.monotonic() - self._last_step
        return seconds_left(task.total, task.completed, elapsed, since_step)

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
            line += f", about {left:.0f} s left" if (left := self.left()) is not None else ""
        return line
