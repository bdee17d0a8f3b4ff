"""Run the code blocks of pages and write what they print into the ``text`` blocks that follow them.

``python docs/refresh_outputs.py start.md clean-your-tags.md README``: after a change of results. tests/test_docs.py
runs the same blocks and compares. README stands for the end of the demo, which the README shows.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
_BLOCK = re.compile(r"^```([\w-]*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NOT_RUN = ("pip", "git", "cd")
WRAP_AT = 96


def blocks(page: str) -> list[tuple[str, str]]:
    """Return the code blocks of a page as (language, content)."""
    return _BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))


def run_shell(block: str, folder: str | Path) -> str:
    """Run the pmlkit commands of a block in a folder and return what they print."""
    printed = ""
    for command in block.replace("\\\n", " ").strip().splitlines():
        words = shlex.split(command, comments=True)
        if not words or words[0] in _NOT_RUN:
            continue
        if words[0] != "pmlkit":
            raise ValueError(f"only pmlkit commands are run, got {command!r}")
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=folder,
            capture_output=True,
            text=True,
            env={**os.environ, "COLUMNS": "80"},
        )
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stderr}")
        printed += done.stdout
    return printed


def run_python(block: str, names: dict[str, Any], folder: str | Path) -> str:
    """Run Python code in a folder and return what it prints."""
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        exec(compile(block, "page", "exec"), names)
    return printed.getvalue()


def run_page(page: str, folder: str | Path) -> Iterator[tuple[str, str, str]]:
    """Run the blocks of a page in order; yield (block, shown, printed) where the page shows an output."""
    shutil.copy(DOCS / "data" / "posts.csv", folder)
    names: dict[str, Any] = {}
    found = blocks(page)
    for (language, block), (after, shown) in zip(found, [*found[1:], ("", "")], strict=True):
        if language not in ("sh", "python"):
            continue
        printed = run_shell(block, folder) if language == "sh" else run_python(block, names, folder)
        if after == "text":
            yield block, shown, printed


def _fitting(printed: str) -> Iterator[str]:
    """Yield the lines of an output; long sentences are wrapped, which the comparison does not mind."""
    for line in printed.strip("\n").splitlines():
        is_sentence = len(line) > 100 and "  " not in line.strip()
        yield from textwrap.wrap(line, WRAP_AT) if is_sentence else [line.rstrip()]


def end_of_demo(printed: str) -> str:
    """Return the part of the demo's output that is about asking a person."""
    start, end = printed.index("Asking a person"), printed.index("Look at them in")
    return "".join(f"{line.rstrip()}\n" for line in printed[start:end].strip().splitlines())


def _refresh_readme() -> None:
    readme = DOCS.parent / "README.md"
    text = readme.read_text(encoding="utf-8")
    start = text.index("```text\n") + len("```text\n")
    with tempfile.TemporaryDirectory() as folder:
        text = text[:start] + end_of_demo(run_shell("pmlkit demo", folder)) + text[text.index("```", start) :]
    readme.write_text(text, encoding="utf-8")


def main(pages: list[str]) -> None:
    """Refresh pages in place."""
    if "README" in pages:
        _refresh_readme()
        print("refreshed README.md")
    for page in pages:
        if page == "README":
            continue
        text, place = (DOCS / page).read_text(encoding="utf-8"), 0
        with tempfile.TemporaryDirectory() as folder:
            for block, _, printed in run_page(page, folder):
                start = text.index("```text\n", text.index(block, place)) + len("```text\n")
                lines = "".join(f"{line}\n" for line in _fitting(printed))
                text = text[:start] + lines + text[text.index("```", start) :]
                place = start
        (DOCS / page).write_text(text, encoding="utf-8")
        print(f"refreshed {page}")


if __name__ == "__main__":
    main(sys.argv[1:])
