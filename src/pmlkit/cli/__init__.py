"""The command line: parses words, calls the other rooms, prints.

Heavy imports (scikit-learn, pandas, matplotlib) are made inside the commands that need them, so that help and
completion answer at once.
"""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with its exit code: 0 done, 1 failed, 2 misused, 130 interrupted."""
    try:
        from pmlkit.cli.app import app

        app(prog_name="pmlkit")
    except KeyboardInterrupt:  # while the modules were being read; later it is the app's affair
        if sys.stderr is not None:
            sys.stderr.write("stopped: interrupted from the keyboard.\n")
        sys.exit(130)
