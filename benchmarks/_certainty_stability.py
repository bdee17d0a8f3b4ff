"""How far what is said of one table differs between random samples of its rows.

Tables: `packages`, the Debian packages that ``apt-cache dumpavail`` knows, with the tags that people gave them (where
the command is there), the sets and texts of `_certainty_cases` as they are, or a CSV file with `--labels` and `--text`.
"""

import argparse
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from _certainty_cases import TEXTS, text_table
from _common import load
from pmlkit import open_table
from pmlkit.cleaning import clean

SETS = ("packages", "tmc2007_500", "delicious", "movies_two_catalogues")
_LEAST_ROWS_OF_TAG = 50


def packages() -> tuple[sparse.csr_array, sparse.csr_array] | None:
    """Return TF-IDF of the descriptions of Debian packages, and their tags."""
    if shutil.which("apt-cache") is None:
        print("  packages: skipped, there is no apt-cache")
        return None
    listed = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    texts, tags = [], []
    for record in listed.split("\n\n"):
        fields: dict[str, str] = {}
        name = ""
        for line in record.split("\n"):
            if line.startswith(" "):
                fields[name] += line
            else:
                name, _, fields[name] = line.partition(":")
        text = next((value for key, value in fields.items() if key.startswith("Description") and "md5" not in key), "")
        if "Tag" in fields and text:
            texts.append(text)
            tags.append({tag.strip() for tag in fields["Tag"].split(",")})
    count = Counter(tag for row in tags for tag in row)
    names = sorted(tag for tag, n in count.items() if n >= _LEAST_ROWS_OF_TAG)
    if not names:
        print("  packages: skipped, none has tags")
        return None
    column = {tag: k for k, tag in enumerate(names)}
    cells = [(i, column[tag]) for i, row in enumerate(tags) for tag in sorted(row) if tag in column]
    rows, columns = np.array(cells).T
    Y = sparse.csr_array((np.ones(len(rows), dtype=np.uint8), (rows, columns)), shape=(len(tags), len(names)))
    return sparse.csr_array(TfidfVectorizer(min_df=5, sublinear_tf=True).fit_transform(texts)), Y


def table_of(name: str, labels: str, text: str) -> tuple[sparse.csr_array, sparse.csr_array] | None:
    """Return features and candidates of a table, or None where it is absent."""
    if name == "packages":
        return packages()
    if Path(name).suffix:
        table = open_table(name, labels=labels, text=text)
        return table.X, table.Y
    if name in TEXTS:
        texts = text_table(name)
        return None if texts is None else texts[:2]
    data = load(name)
    return None if data is None else (data.X, data.Y)


def said_of(X: sparse.csr_array, Y: sparse.csr_array, k: int) -> dict[str, float]:
    """Return what is said of a sample."""
    found = clean(X, Y)
    return {
        "noise_rate_": float(found.noise_rate_.overall),
        "upper end": found.noise_rate_.overall.high,
        "random_mistakes_": float(found.random_mistakes_),
        f"expected_precision({k})": float(found.expected_precision(k)),
        "removed": float(found.removable().mean()),
    }


def run(options: argparse.Namespace) -> None:
    """Print what is said of each sample, and the spread."""
    for name in options.tables.split(","):
        table = table_of(name, options.labels, options.text)
        if table is None:
            continue
        X, Y = table
        lines = []
        for seed in range(options.seeds):
            rows = np.sort(np.random.default_rng(seed).permutation(Y.shape[0])[: options.max_rows])
            lines.append(said_of(X[rows], sparse.csr_array(Y[rows]), options.k))
            said = ", ".join(f"{what} {value:.3f}" for what, value in lines[-1].items())
            print(f"  {name}, sample {seed}: {said}", flush=True)
        spread = pd.DataFrame(lines).agg(["mean", "std", "min", "max"]).T
        print(f"{name}: {options.seeds} samples of {len(rows):,} of {Y.shape[0]:,} rows\n{spread.round(3).to_string()}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("tables", nargs="?", default=",".join(SETS), help="names of sets, or CSV files")
    parser.add_argument("--labels", default="tags", help="column of a CSV file")
    parser.add_argument("--text", default="text", help="column of a CSV file")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--max-rows", type=int, default=1200)
    parser.add_argument("-k", type=int, default=40, help="how many of the most suspicious expected_precision is of")
