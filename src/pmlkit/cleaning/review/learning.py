"""Refit with the answers in the background, and tell how far it is."""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pmlkit._words import counted
from pmlkit.methods.progress import FitProgress

if TYPE_CHECKING:
    from pmlkit.cleaning import CleaningResult
    from pmlkit.cleaning.audit import Answers

__all__ = ["Learning"]


class Learning:
    """A refit in a thread of its own.

    Parameters
    ----------
    refit : callable
        Takes `Answers` and a function to be called with each estimator before it is fitted, and returns a result.
    on_done : callable
        Called with the new result, in the thread of the refit.

    Attributes
    ----------
    text : str
        What came of the last refit.
    """

    def __init__(self, refit: "Callable[..., CleaningResult]", on_done: "Callable[[CleaningResult], None]") -> None:
        self._refit, self._on_done = refit, on_done
        self._begun: float | None = None
        self._took: float | None = None
        self._n_answers = self._n_steps = self._step = 0
        self.text = ""

    @property
    def state(self) -> dict[str, Any] | None:
        """How far the refit is: ``share`` (None if that cannot be told) and ``text``; None if there is none."""
        begun, n_steps, step_done = self._begun, self._n_steps, self._step  # another thread may change them meanwhile
        if begun is None:
            return None
        seconds = time.monotonic() - begun
        share = min(step_done / n_steps, 1.0) if n_steps else None
        if self._took is not None:
            share = min(seconds / max(self._took, 1e-9), 0.99)
        left = "" if self._took is None else f", about {max(self._took - seconds, 1.0):.0f} s left"
        step = f", step {min(step_done + 1, n_steps)} of {n_steps}" if n_steps else ""
        return {
            "share": share,
            "text": f"Refitting with {counted(self._n_answers, 'answer')}: {seconds:.0f} s{step}{left}",
        }

    def start(self, answers: "Answers") -> None:
        """Refit, unless it is being done."""
        if self._begun is None:
            self._begun, self._n_answers, self._n_steps, self._step = time.monotonic(), len(answers), 0, 0
            threading.Thread(target=self._run, args=(answers,), name="pmlkit review learning", daemon=True).start()

    def expect(self, total: int | None) -> None:
        """Take in how many steps a fit has; what is done with its scores afterwards is one more."""
        self._n_steps, self._step = total + 1 if total else 0, 0

    def advance(self) -> None:
        """Take in that a step is done."""
        self._step += 1

    def _watch(self, model: Any) -> None:
        if hasattr(model, "set_callbacks"):
            model.set_callbacks(FitProgress(self))

    def _run(self, answers: "Answers") -> None:
        begun = self._begun or time.monotonic()
        try:
            self._on_done(self._refit(answers, self._watch))
            self.text = f"Confidences and suggestions follow {counted(len(answers), 'answer')}."
            self._took = time.monotonic() - begun
        except Exception as error:  # nobody waits for this thread: whatever happens must be told on the page
            self.text = f"It could not be refitted: {str(error) or type(error).__name__}"
        finally:
            self._begun = None
