"""Fuzz every reader with inputs that coverage chooses (atheris): ``python tests/torture/guided.py [seconds]``.

Each reader runs in a process of its own for an equal share of the time. What counts as a failure is what
`tests/torture/fuzz.py` says; the valid samples and its ways to damage them are where the search begins. Where atheris
cannot be installed (it needs Linux or macOS and a Python that it has been built for) it says so and ends with 0.
"""

import contextlib
import importlib.util
import json
import logging
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path


def one_reader(name, seconds, folder):
    """Fuzz one reader; the counts go to a file, for libFuzzer never returns."""
    import atheris

    with atheris.instrument_imports(include=["pmlkit"]):
        import fuzz
    logging.disable()
    warnings.simplefilter("ignore")
    (folder / "samples").mkdir()
    reader, suffix, contents = fuzz.samples(folder / "samples")[name]
    corpus = folder / "corpus"
    corpus.mkdir()
    for k, content in enumerate(contents):
        (corpus / str(k)).write_bytes(content)
    path = folder / f"input{suffix}"
    counts = {"inputs": 0, "refused": 0, "errors": 0, "slow": 0, "found": []}
    end = time.process_time() + seconds

    def try_one(content):
        for left in folder.glob("input*"):
            left.unlink()
        path.write_bytes(content)
        counts["inputs"] += 1
        start = time.process_time()
        try:
            reader(path)
        except fuzz.OWN:
            counts["refused"] += 1
        except Exception as error:
            counts["errors"] += 1
            counts["found"] = [*counts["found"], f"{type(error).__name__}: {error}"[:200]][:5]
            Path("fuzz-found").mkdir(exist_ok=True)
            Path("fuzz-found", f"guided-{counts['inputs']}{suffix}").write_bytes(content)
        counts["slow"] += time.process_time() - start > fuzz.SECONDS
        if counts["inputs"] % 50 == 0 and time.process_time() > end:
            (folder / "counts.json").write_text(json.dumps(counts))
            os._exit(0)

    def mutate(content, largest, seed):
        chance = random.Random(seed)
        if chance.random() < 0.5:
            return atheris.Mutate(content, largest)
        return fuzz.damaged(content, chance)[:largest]

    atheris.Setup(
        [sys.argv[0], str(corpus), "-max_len=100000", "-timeout=20", "-rss_limit_mb=2000", "-verbosity=0"],
        try_one,
        custom_mutator=mutate,
    )
    atheris.Fuzz()


def main():
    """Fuzz all readers and print the table."""
    if len(sys.argv) == 4:
        one_reader(sys.argv[1], float(sys.argv[2]), Path(sys.argv[3]))
    if importlib.util.find_spec("atheris") is None:
        print("Coverage-guided fuzzing is left out: atheris is not installed (pip install atheris).")
        return 0
    import fuzz

    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 230.0
    bad = 0
    print("| reader | inputs | refused | other errors | over 2 s |\n|---|---|---|---|---|")
    for name in fuzz.READERS:
        folder = Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        words = [sys.executable, __file__, name, str(seconds / len(fuzz.READERS)), str(folder)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        counts = {"inputs": 0, "refused": 0, "errors": 1, "slow": 0, "found": [done.stderr[-400:]]}
        with contextlib.suppress(OSError):
            counts = json.loads((folder / "counts.json").read_text())
        found = counts.pop("found")
        print(f"| {name} | " + " | ".join(f"{n:,}" for n in counts.values()) + " |", flush=True)
        for sentence in found:
            print(f"  {name}: {sentence}", file=sys.stderr, flush=True)
        bad += counts["errors"] + counts["slow"]
        shutil.rmtree(folder)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
