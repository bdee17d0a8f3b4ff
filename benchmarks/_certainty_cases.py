"""Tables with their truth: sets with added noise of several kinds and levels, and sets and texts with real noise."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from _common import load
from pmlkit._arrays import as_csr
from pmlkit.cleaning import CleaningResult
from pmlkit.data import data_home

TEXTS = ("so_emotions", "so_emotions_all", "open_relations_crowd1", "movies_two_catalogues")
KINDS = ("uniform", "confusable", "correlated")


@dataclass(frozen=True, eq=False)
class Case:
    """One table with its truth, restricted to labels that can be judged."""

    name: str
    kind: str
    level: float
    seed: int
    X: sparse.csr_array
    Y: sparse.csr_array
    truth: sparse.csr_array

    @property
    def group(self) -> str:
        """Cases that are averaged."""
        return self.kind if self.kind in ("none", "real") else f"{self.kind} {self.level:.0%}"

    def is_false(self, result: CleaningResult) -> np.ndarray:
        """Return which candidates are false, aligned with ``result.Y.data``."""
        return self.truth.toarray()[result.rows, result.Y.indices] == 0


def text_table(name: str) -> tuple[sparse.csr_array, sparse.csr_array, sparse.csr_array] | None:
    """Return TF-IDF, candidates and truth of texts whose labels were really given."""
    path: Path = data_home() / "realnoise" / f"{name}.csv"
    if not path.is_file():
        print(f"  {name}: skipped, {path} is absent")
        return None
    table = pd.read_csv(path, keep_default_na=False)
    X = TfidfVectorizer(min_df=2, sublinear_tf=True, max_features=20_000).fit_transform(table["text"])
    given, true = ([set(filter(None, cell.split(";"))) for cell in table[c]] for c in ("candidates", "truth"))
    labels = sorted(set().union(*given))
    indicators = [
        sparse.csr_array(np.array([[label in row for label in labels] for row in rows], dtype=np.uint8))
        for rows in (given, true)
    ]
    return sparse.csr_array(X), *indicators


def cases(names: list[str], levels: list[float], seeds: range, max_rows: int) -> Iterator[Case]:
    """Yield all cases: rows and noise redrawn for every seed."""
    for name in names:
        source = _Source(name)
        for seed in seeds:
            if source.is_real:
                yield source.case("real", 0.0, seed, max_rows)
                continue
            for level in levels if source.is_there else ():
                for kind in KINDS if level else ("none",):
                    yield source.case(kind, level, seed, max_rows)


def one_case(name: str, kind: str, level: float, seed: int, max_rows: int) -> Case:
    """Return one case; `kind` "real" keeps the noise of the set."""
    return _Source(name).case(kind, level, seed, max_rows)


class _Source:
    """A set or table of texts, read once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.texts = text_table(name) if name in TEXTS else None
        self.data = None if name in TEXTS else load(name)
        self.is_there = self.texts is not None or self.data is not None
        self.is_real = self.texts is not None or (self.data is not None and (self.data.truth != self.data.Y).nnz > 0)

    def case(self, kind: str, level: float, seed: int, max_rows: int) -> Case:
        rng = np.random.default_rng(seed)
        if self.texts is not None:
            rows = np.sort(rng.permutation(self.texts[0].shape[0])[:max_rows])
            return _case(self.name, kind, level, seed, *(part[rows] for part in self.texts))
        rows = np.sort(rng.permutation(self.data.n_samples)[:max_rows])
        noisy = self.data.with_noise(level, kind=kind, random_state=seed) if level else self.data
        part = noisy.subset(rows)
        return _case(self.name, kind, level, seed, part.X, part.Y, part.truth)


def _case(name: str, kind: str, level: float, seed: int, X: object, Y: object, truth: object) -> Case:
    count = np.bincount(Y.indices, minlength=Y.shape[1])
    kept = np.flatnonzero((count >= 5) & (count < Y.shape[0]))
    return Case(name, kind, level, seed, X, as_csr(Y[:, kept]), sparse.csr_array(truth[:, kept]))
