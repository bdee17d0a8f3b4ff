"""The command line: parses words, calls the other rooms, prints.

Heavy imports (scikit-learn, pandas, matplotlib) are made inside the commands that need them, so that help and
completion answer at once.
"""

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with its exit code: 0 done, 1 failed, 2 misused, 130 interrupted."""
    from pmlkit.cli.app import app

    app(prog_name="pmlkit")
