"""The command line: parses arguments, calls the library, prints.

Heavy imports (scikit-learn, pandas) are made inside the commands that need them, so that help and
completion answer at once.
"""

import sys

__all__ = ["main"]

NO_MEMORY = "there is not enough memory for this."


def lacks_memory(error: BaseException) -> bool:
    """Return whether memory ran out: also for a library that was to be loaded, or for a thread."""
    signs = ("failed to map segment", "annot allocate memory", "can't start new thread")
    return isinstance(error, MemoryError) or (
        isinstance(error, ImportError | OSError | RuntimeError) and any(sign in str(error) for sign in signs)
    )


def main() -> None:
    """Run the command line and leave with its exit code: 0 done, 1 failed, 2 misused, 130 or 143 interrupted."""
    try:
        from pmlkit.cli.stopping import end_on_signals, stop_on_sigterm

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
    except KeyboardInterrupt:  # while the modules were being read; later it is the app's affair
        from pmlkit.cli.stopping import end_on_signals, stopped_by

        end_on_signals()
        reason, code = stopped_by()
        if sys.stderr is not None:
            sys.stderr.write(f"stopped: {reason}\n")
        sys.exit(code)
