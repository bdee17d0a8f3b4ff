"""SIGTERM ends a command as Ctrl-C does: what is half written is removed, and the exit code says why."""

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

INTERRUPTED, TERMINATED = 130, 143
_received: list[int] = []


def stop_on_sigterm() -> None:
    """Let SIGTERM raise KeyboardInterrupt in this process; processes that it forks end at once, as they would."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        return
    _send_again_what_is_swallowed()
    owner = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != owner:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        _received.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)


def _send_again_what_is_swallowed() -> None:
    """Repeat an interrupt that came where none can be raised, as in compiled code that calls back or in ``__del__``.

    Python would print it and go on: the command would run to its end.
    """
    report = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            report(unraisable)
            return
        number = signal.SIGTERM if was_terminated() else signal.SIGINT
        again = threading.Timer(0.01, os.kill, (os.getpid(), number))  # not at once: we still are in that code
        again.daemon = True
        again.start()

    sys.unraisablehook = hook


def end_on_signals() -> None:
    """Let signals end this process at once, without a word: its work is done, and Python is about to end."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)


def was_terminated() -> bool:
    """Return whether SIGTERM has come."""
    return bool(_received)


def stopped_by() -> tuple[str, int]:
    """Return why a command stopped, as a sentence and as an exit code."""
    if was_terminated():
        return "terminated by a signal.", TERMINATED
    return "interrupted from the keyboard.", INTERRUPTED
