"""Clean a million short texts with fifty tags from the command line: seconds and peak memory.

The table is made on the spot: every post has one to three topics, words that go with them, and tags of which about a
quarter are false.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

TAGS, WORDS, COMMON = 50, 60, 2000


def make_posts(path: Path, n_rows: int, seed: int = 0) -> None:
    """Write the table."""
    rng = np.random.default_rng(seed)
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write("post_id,body,tags\n")
        for start in range(0, n_rows, 10_000):
            lines = []
            for i in range(start, min(start + 10_000, n_rows)):
                true = set(rng.integers(TAGS, size=rng.integers(1, 4)).tolist())
                given = true | ({int(rng.integers(TAGS))} if rng.random() < 0.5 else set())
                words = [f"t{k}w{w}" for k in true for w in rng.integers(WORDS, size=3)]
                words += [f"c{w}" for w in rng.integers(COMMON, size=6)]
                lines.append(f"{i},{' '.join(words)},{';'.join(f'tag{k}' for k in sorted(given))}\n")
            stream.write("".join(lines))


def main() -> None:
    """Make the table, clean it in a process of its own, print seconds and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        posts = Path(folder, "posts.csv")
        make_posts(posts, options.rows)
        words = ["clean", str(posts), "--labels", "tags", "--sep", ";", "--text", "body"]
        words += ["-o", str(Path(folder, "cleaned.csv")), "--report", str(Path(folder, "report.html"))]
        started = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-m", "pmlkit", *words])
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        code = os.waitstatus_to_exitcode(status)
        print(f"{options.rows:,} rows, {posts.stat().st_size / 1e6:.0f} MB: exit code {code},")
        print(f"{seconds:.0f} s, peak {usage.ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
