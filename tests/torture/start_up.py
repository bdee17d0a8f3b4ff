"""Send Ctrl-C to commands while they start: ``python tests/torture/start_up.py [signals] [milliseconds]``.

Each signal comes at a random time in the first milliseconds of ``pmlkit info``. From the moment that
``pmlkit.cli.main`` runs, the command must end with one sentence and 130 (or silently by the signal itself, when its
work is done). Before that the process is Python alone: it reads its own modules and the script that the installer
wrote, and prints a traceback of its own, which no package can prevent. Prints what happened how often; exit code 1 if
a traceback shows that ``main`` ran.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pmlkit.cli

MAIN = f'File "{pmlkit.cli.__file__}", line '
KINDS = {
    "one sentence, 130": lambda said, code: said == "stopped: interrupted from the keyboard.\n" and code == 130,
    "no word, ended by the signal": lambda said, code: not said and code == -signal.SIGINT,
    "done before": lambda said, code: not said and code == 0,
    "traceback of Python's own start": lambda said, code: "init_import_site" in said or "<frozen site>" in said,
    "traceback of the installed script, before `main`": lambda said, code: _in_script(said),
    "ignored while Python imports: the command goes on": lambda said, code: "<frozen importlib" in said and code == 0,
}


def _in_script(said):
    lines = said.splitlines()
    in_main = any(line.strip().startswith(MAIN) and line.endswith("in main") for line in lines)
    return said.rstrip().endswith("KeyboardInterrupt") and not in_main


def main():
    """Send the signals and print the table."""
    n_signals, milliseconds = [*map(int, sys.argv[1:]), *(200, 50)[len(sys.argv) - 1 :]]
    command = shutil.which("pmlkit", path=str(Path(sys.executable).parent)) or sys.exit("pmlkit is not installed.")
    table = str(Path(__file__).parents[2] / "docs" / "data" / "posts.csv")
    chance, counts, other = random.Random(0), Counter(), []
    for _ in range(n_signals):
        process = subprocess.Popen(
            [command, "info", table, "--labels", "tags", "--text", "body"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        time.sleep(chance.random() * milliseconds / 1000)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
        kind = next((name for name, holds in KINDS.items() if holds(said, process.returncode)), None)
        counts[kind or "another end"] += 1
        if kind is None:
            other.append(f"{process.returncode}: {said}")
    print("| end | signals |\n|---|---|")
    for name in [*KINDS, "another end"]:
        print(f"| {name} | {counts[name]} |")
    print("\n".join(other), file=sys.stderr)
    return 1 if other else 0


if __name__ == "__main__":
    sys.exit(main())
