"""The terminal recording of the README: ``python docs/figures/terminal.py`` writes docs/images/terminal.svg.

Commands are run for real in a temporary folder; their output appears line by line. Where the picture is not animated,
all of it is shown.
"""

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.text import Text

DOCS = Path(__file__).resolve().parent.parent
WIDTH = 88
COMMANDS = (
    # what is typed, and how many lines at the end of its output are left out
    ("pmlkit clean posts.csv --labels tags --text body --suspects suspects.csv", 16),
    ("pmlkit fit posts.csv --labels tags --text body -o model.skops", 0),
    ("pmlkit predict model.skops posts.csv --top 1 | head -4", 0),
)
_TYPING, _READING = 0.02, 0.03  # seconds per letter and per line


def outputs() -> list[tuple[str, list[str]]]:
    """Run the commands and return each with the lines that it prints, colours included."""
    settings = {**os.environ, "COLUMNS": str(WIDTH), "FORCE_COLOR": "1", "PYTHONWARNINGS": "ignore"}
    program = shutil.which("pmlkit") or str(Path(sys.executable).with_name("pmlkit"))
    settings["PATH"] = f"{Path(program).parent}{os.pathsep}{settings['PATH']}"
    found = []
    with tempfile.TemporaryDirectory() as folder:
        posts = pd.read_csv(DOCS / "data" / "posts.csv").drop(columns="true_tags")
        posts.to_csv(Path(folder, "posts.csv"), index=False)
        for command, last in COMMANDS:
            done = subprocess.run(
                command, shell=True, cwd=folder, env=settings, capture_output=True, text=True, check=True
            )
            lines = [line.rstrip() for line in done.stdout.rstrip("\n").split("\n")]
            found.append((command, [*lines[:-last], "[...]"] if last else lines))
    return found


def recording() -> str:
    """Return the animated picture."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    times, now = [], 0.0
    for command, lines in outputs():
        typed = Text.assemble(("$ ", "bold green"), (command, "bold"))
        for part in typed.wrap(console, WIDTH):
            console.print(part)
            times.append(now)
            now += _TYPING * len(part)
        now += 0.3
        for line in lines:
            console.print(Text.from_ansi(line), no_wrap=True, overflow="crop")
            times.append(now)
            now += _READING
        console.print()
        times.append(now)
        now += 0.6
    picture = console.export_svg(title="pmlkit", unique_id="pmlkit", font_aspect_ratio=0.61)
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)  # fonts of another host
    picture = re.sub(
        r"font-family: Fira Code, monospace", "font-family: ui-monospace, Menlo, Consolas, monospace", picture
    )
    # Each line appears when its time has come.
    rule = "@keyframes show { from { opacity: 0.45 } to { opacity: 1 } } .t { animation: show 0.01s both }"
    rule += " @media (prefers-reduced-motion: reduce) { .t { animation: none } }"
    picture = picture.replace("<style>", f"<style>{rule}", 1)

    def timed(match: re.Match[str]) -> str:
        when = times[min(int(match[3]), len(times) - 1)]
        return f'<text class="t {match[1]}" style="animation-delay:{when:.2f}s"{match[2]}'

    return re.sub(r'<text class="([^"]*)"([^>]*clip-path="url\(#pmlkit-line-(\d+)\)")', timed, picture) + "\n"


if __name__ == "__main__":
    target = DOCS / "images" / "terminal.svg"
    target.write_text(recording(), encoding="utf-8")
    print(f"wrote {target} ({target.stat().st_size:,} bytes)")
