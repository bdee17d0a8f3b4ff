"""The command line: parses arguments, calls the library, prints.

Heavy imports (scikit-learn, pandas) are made inside the commands that need them, so that help and completion answer at
once. This module imports inside its functions, so that Ctrl-C ends a command in one sentence from its start on.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

__all__ = ["main"]

INTERRUPTED, TERMINATED = 130, 143
NO_MEMORY = "there is not enough memory for this."
_received: list[int] = []


def main() -> None:
    """Run the command line and leave with its exit code: 0 done, 1 failed, 2 misused, 130 or 143 interrupted."""
    try:
        stop_on_sigterm()
        from pmlkit.cli.app import app

        try:
            app(prog_name="pmlkit")
        finally:
            end_on_signals()
    except (ImportError, MemoryError) as error:
        if not lacks_memory(error):
            raise
        sys.stderr.write(f"error: {NO_MEMORY}\n")
        sys.exit(1)
    except KeyboardInterrupt:  # while modules are imported; later the app handles it
        end_on_signals()
        reason, code = stopped_by()
        if sys.stderr is not None:
            sys.stderr.write(f"stopped: {reason}\n")
        sys.exit(code)


def lacks_memory(error: BaseException) -> bool:
    """Return whether memory ran out: also for a library that was to be loaded, or for a thread."""
    signs = ("failed to map segment", "annot allocate memory", "can't start new thread")
    return isinstance(error, MemoryError) or (
        isinstance(error, ImportError | OSError | RuntimeError) and any(sign in str(error) for sign in signs)
    )


def stop_on_sigterm() -> None:
    """Let SIGTERM end a command as Ctrl-C does, by KeyboardInterrupt; processes that it forks end at once."""
    import os
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        return
    owner, report = os.getpid(), sys.unraisablehook

    def stop(number: int, frame: "FrameType | None") -> None:
        if os.getpid() != owner:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        _received.append(number)
        raise KeyboardInterrupt

    def repeat(unraisable: "Any") -> None:
        """Repeat an interrupt that came where none can be raised: in compiled code that calls back, or ``__del__``.

        Python would print it and continue: the command would run to its end.
        """
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            report(unraisable)
            return
        number = signal.SIGTERM if was_terminated() else signal.SIGINT
        again = threading.Timer(0.01, os.kill, (os.getpid(), number))  # not at once: that code is still running
        again.daemon = True
        again.start()

    sys.unraisablehook = repeat
    signal.signal(signal.SIGTERM, stop)


def end_on_signals() -> None:
    """Let signals end this process silently: its work is done, and the interpreter is about to exit."""
    import signal
    import threading

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)


def was_terminated() -> bool:
    """Return whether SIGTERM was received."""
    return bool(_received)


def stopped_by() -> tuple[str, int]:
    """Return why a command stopped, as a sentence and as an exit code."""
    if was_terminated():
        return "terminated by a signal.", TERMINATED
    return "interrupted from the keyboard.", INTERRUPTED
