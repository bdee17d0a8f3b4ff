"""The comparison of all methods on real data: cells, table, ranks and diagram; run by ``rivals.py``."""

import csv
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import KFold
from sklearn.preprocessing import MultiLabelBinarizer

from _common import PAPER_SETS, load, noisy_split
from pmlkit.bench.plots import critical_difference_diagram
from pmlkit.bench.statistics import critical_distance, friedman, mean_ranks, rank_groups
from pmlkit.data import data_home, train_test_rows
from pmlkit.methods import all_methods
from pmlkit.metrics import evaluate

TEXT_SETS = ("so_emotions", "open_relations_crowd1", "movies_two_catalogues")
SETS = (*PAPER_SETS, *TEXT_SETS)
METRICS = ("hamming_loss", "ranking_loss", "one_error", "coverage", "average_precision")
COLUMNS = ("data", "split", "rows", "method", "seconds", *METRICS, "note")

PUBLISHED_YEAST = {
    "CAPML": {"YeastBP": 0.443, "YeastCC": 0.609, "YeastMF": 0.495},
    "FBD-PML": {"YeastBP": 0.406, "YeastCC": 0.584, "YeastMF": 0.431},
    "PML-LENFN": {"YeastBP": 0.423, "YeastCC": 0.603, "YeastMF": 0.484},
    "PAMB": {"YeastBP": 0.356, "YeastCC": 0.556, "YeastMF": 0.405},
    "PML-NI": {"YeastBP": 0.429, "YeastCC": 0.601, "YeastMF": 0.482},
}
"""Average precision of ten-fold cross-validation as the papers print it; CAPML's is a preprint of 2025."""

_STYLE = """</title><style>svg { background: #fff; font-family: sans-serif; fill: #222; }
path { fill: none; stroke: #777; } path.bar { stroke: #222; stroke-width: 3.5; stroke-linecap: round; }</style>"""

Problem = tuple[Any, Any, Any, Any]


def problem(name: str, split: int, n_rows: int) -> Problem | None:
    """Return X and candidates of training rows, X and truth of test rows; at most `n_rows` training rows.

    Rows without candidates are left out of the training rows before they are counted.
    """
    parts = _text_split(name, split) if name in TEXT_SETS else _stored_split(name, split)
    if parts is None:
        return None
    X, Y, X_test, truth = parts
    labelled = np.flatnonzero(np.diff(Y.indptr) > 0)
    if len(labelled) > n_rows:  # Some sets are ordered by class: the first rows would not do.
        labelled = np.sort(np.random.default_rng(split).choice(labelled, n_rows, replace=False))
    return X[labelled], Y[labelled], X_test, truth


def _stored_split(name: str, split: int) -> Problem | None:
    data = load(name)
    return None if data is None else noisy_split(data, seed=split)


def _text_split(name: str, split: int) -> Problem | None:
    path = data_home() / "realnoise" / f"{name}.csv"
    if not path.is_file():
        print(f"  {name}: skipped, {path} is absent")
        return None
    table = pd.read_csv(path, keep_default_na=False)
    sets = {
        column: [set(filter(None, cell.split(";"))) for cell in table[column]] for column in ("candidates", "truth")
    }
    binarizer = MultiLabelBinarizer(sparse_output=True).fit(sets["candidates"])
    Y, truth = (binarizer.transform(sets[column]).tocsr() for column in ("candidates", "truth"))
    train, test = train_test_rows(len(table), random_state=split)
    words = TfidfVectorizer(sublinear_tf=True, min_df=2)
    X = words.fit_transform(table["text"].iloc[train])
    return X, Y[train], words.transform(table["text"].iloc[test]), truth[test]


class BudgetSpent(Exception):
    """Raised when a fit has used its processor time."""


@contextmanager
def budget_of(seconds: float) -> Iterator[None]:
    """Raise BudgetSpent when the block has used this much processor time: a busy machine does not matter."""

    def spent(*_: Any) -> None:
        raise BudgetSpent

    before = signal.signal(signal.SIGPROF, spent)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _cell(parts: Problem, method: str, budget: float) -> dict[str, Any]:
    X, Y, X_test, truth = parts
    model = all_methods()[method]()
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with budget_of(budget):
                model.fit(X, Y)
            seconds = time.process_time() - start
            found = evaluate(truth, model.decision_function(X_test), model.predict(X_test))
        except BudgetSpent:
            return {"note": f"ended after {budget:g} s"}
        except (ValueError, MemoryError, FloatingPointError) as error:
            return {"note": f"{type(error).__name__}: {error}"}
    return {"seconds": round(seconds, 2), "rows": X.shape[0]} | {name: round(found[name], 4) for name in METRICS}


def run(
    names: Iterable[str],
    methods: Iterable[str],
    splits: Iterable[int],
    make_problem: Callable[[str, int], Problem | None],
    budget: float,
    out: Path,
) -> None:
    """Run all cells that the file does not have yet, split by split, and append each one."""
    names, methods = list(names), list(methods)
    done = set() if not out.is_file() else {(c["data"], int(c["split"]), c["method"]) for c in _read(out)}
    out.parent.mkdir(parents=True, exist_ok=True)
    if not done:
        out.write_text(",".join(COLUMNS) + "\n")
    for split in splits:
        for name in names:
            left = [method for method in methods if (name, split, method) not in done]
            parts = make_problem(name, split) if left else None
            for method in left if parts is not None else []:
                cell = {"data": name, "split": split, "method": method} | _cell(parts, method, budget)
                with out.open("a", newline="") as file:
                    csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(cell)
                print(f"  {split} {name:22} {method:20} {cell.get('average_precision', cell.get('note'))}", flush=True)


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def comparison(path: Path) -> tuple[pd.DataFrame, dict[str, float], pd.DataFrame]:
    """Return mean average precision (data set x method), mean ranks by it, and the cells that count.

    Only whole rounds count: a set and split on which every method was tried.
    """
    cells = pd.DataFrame(_read(path))
    cells["average_precision"] = pd.to_numeric(cells["average_precision"])
    tried = cells.groupby(["data", "split"])["method"].transform("nunique")
    cells = cells[tried == cells["method"].nunique()]
    table = cells.pivot_table(index=["data", "split"], columns="method", values="average_precision", dropna=False)
    table = table.dropna(how="all")
    table = table[[name for name in all_methods() if name in table and table[name].notna().any()]]
    means = table.groupby(level="data").mean().reindex([name for name in SETS if name in table.index.levels[0]])
    # A method without an answer ranks last: dropping the case would hide what it could not do.
    ranks = mean_ranks(means.fillna(-1.0).to_numpy())
    return means, dict(zip(means.columns, ranks, strict=True)), cells


def report(path: Path, diagram: Path | None) -> None:
    """Print losses of ClearPML, the table of average precision and mean ranks; draw the diagram."""
    means, rank_of, cells = comparison(path)
    methods, ranks = list(rank_of), np.array(list(rank_of.values()))
    if "ClearPML" in means:
        print("Losses of ClearPML (mean average precision over splits):")
        for name, row in means.iterrows():
            better = row[row > row["ClearPML"]].sort_values(ascending=False)
            said = ", ".join(f"{method} {value:.3f}" for method, value in better.items()) or "none"
            print(f"  {name}: ClearPML {row['ClearPML']:.3f}; better: {said}")
    filled = means.fillna(-1.0).to_numpy()
    distance = critical_distance(len(methods), len(filled))
    test = friedman(filled)
    print(f"\nFriedman p = {test.p_value:.1e} over {len(filled)} sets; critical distance {distance:.2f} (Nemenyi, 5 %)")
    print("\n| method | mean rank | " + " | ".join(means.index) + " |\n|---|---" + "|---" * len(means) + "|")
    for position in np.argsort(ranks):
        values = [f"{v:.3f}".lstrip("0") if np.isfinite(v) else "–" for v in means[methods[position]]]
        print(f"| `{methods[position]}` | {ranks[position]:.1f} | " + " | ".join(values) + " |")
    notes = cells[cells["note"].fillna("") != ""]
    for (name, method, note), group in notes.groupby(["data", "method", "note"]):
        print(f"  {name}, {method}: {note} ({len(group)} of {cells['split'].nunique()} splits)")
    if diagram is not None:
        title = f"Mean ranks by average precision on {len(means)} data sets"
        drawn = str(critical_difference_diagram(methods, ranks, rank_groups(ranks, distance), distance, title=title))
        # In a report the page has the style; a picture on its own carries it.
        drawn = drawn.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace("</title>", _STYLE, 1)
        diagram.write_text(drawn.replace('viewBox="0 0 ', 'viewBox="-8 -8 ', 1))  # with a margin


def yeast_fold(name: str, fold: int) -> Problem | None:
    """Return one of ten folds of an original Yeast set; candidates are its own."""
    data = load(name)
    if data is None:
        return None
    train, test = list(KFold(10, shuffle=True, random_state=0).split(np.arange(data.n_samples)))[fold]
    return data.X[train], data.Y[train], data.X[test], data.truth[test]


def yeast_report(path: Path) -> None:
    """Print average precision of the folds in a file, beside published figures."""
    cells = pd.DataFrame(_read(path))
    cells["average_precision"] = pd.to_numeric(cells["average_precision"])
    found = cells.groupby(["data", "method"], sort=False)["average_precision"].agg(["mean", "std", "count"])
    print("\n| data | " + " | ".join(PUBLISHED_YEAST) + " | method | ours | folds |\n|---" + "|---" * 8 + "|")
    for (name, method), row in found.iterrows():
        published = [f"{figures[name]:.3f}".lstrip("0") for figures in PUBLISHED_YEAST.values()]
        ours = f"{row['mean']:.3f} ± {row['std']:.3f}".replace("0.", ".")
        print(f"| {name} | " + " | ".join(published) + f" | `{method}` | {ours} | {row['count']:.0f} |")
