"""The paper of PML-lc and PML-fp: its protocol, its published figures, and ours beside them.

M.-K. Xie and S.-J. Huang, "Partial Multi-Label Learning", AAAI 2018. The paper keeps at most 15 labels of a data set
(here: the most frequent ones), drops rows without labels, fills every candidate set of training rows up to a fixed
size (4 of the 6 labels of emotions, 10 elsewhere), and predicts for every row as many labels as training rows have
true labels on average. How rows are split and features scaled is not stated: here 80/20, and columns of dense data
sets are divided by their standard deviation.
"""

import contextlib
import csv
import logging
import warnings
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pmlkit._typing import BoolArray, FloatArray
from pmlkit.data import add_noise, data_home, read, train_test_rows
from pmlkit.exceptions import DataError, PMLWarning
from pmlkit.methods import PMLFP, PMLLC, CandidateLogistic, ClearPML, RankSVM
from pmlkit.methods.base import BasePML
from pmlkit.metrics import evaluate

logger = logging.getLogger(__name__)

DATA = ("emotions", "yeast", "cal500", "genbase", "medical", "corel5k", "delicious")
METRICS = ("hamming_loss", "ranking_loss", "one_error", "coverage", "average_precision")
_MAX_LABELS = 15

PUBLISHED: dict[str, dict[str, tuple[float | None, ...]]] = {
    "average_precision": {
        "PML-lc": (0.769, 0.738, 0.567, 0.969, 0.695, 0.355, 0.611),
        "PML-fp": (0.762, 0.738, 0.568, 0.967, 0.697, 0.420, 0.611),
        "Rank-SVM": (0.625, 0.725, 0.481, 0.928, 0.685, 0.321, 0.581),
    },
    "ranking_loss": {
        "PML-lc": (0.202, 0.189, 0.329, 0.007, 0.113, None, None),
        "PML-fp": (0.212, 0.189, 0.328, 0.008, 0.113, None, None),
    },
}
"""The published figures that are known to us, in the order of `DATA`."""

XIE_HUANG_METHODS: dict[str, tuple[str | None, Callable[[Any], BasePML]]] = {
    "PML-lc, C2=0.1": ("PML-lc", lambda normalize: PMLLC(normalize=normalize)),
    "PML-lc, C2=1": ("PML-lc", lambda normalize: PMLLC(C2=1.0, normalize=normalize)),
    "PML-lc, convex": ("PML-lc", lambda normalize: PMLLC(variant="convex", normalize=normalize)),
    "PML-fp, C3=1": ("PML-fp", lambda normalize: PMLFP(C3=1.0, normalize=normalize)),
    "PML-fp, C3=10": ("PML-fp", lambda normalize: PMLFP(C3=10.0, normalize=normalize)),
    "PML-fp, convex": ("PML-fp", lambda normalize: PMLFP(variant="convex", normalize=normalize)),
    "Rank-SVM": ("Rank-SVM", lambda normalize: RankSVM(normalize=normalize)),
    "CandidateLogistic": (None, lambda normalize: CandidateLogistic()),
    "ClearPML": (None, lambda normalize: ClearPML()),
}
"""What is run: the method in the paper, if any, and the estimator for a scaling of the features."""


def protocol(name: str, *, max_rows: int | None = None) -> tuple[Any, BoolArray, int]:
    """Return features, truth and size of candidate sets of a data set of `DATA`, as the paper prepares it.

    At most `max_rows` rows, drawn with a fixed seed, and the 15 most frequent labels; every row has one.
    """
    path = data_home() / f"{name}.npz"
    if not path.is_file():
        raise DataError(f"{str(path)!r} does not exist. The environment variable PMLKIT_DATA names the folder of data.")
    data = read(path)
    assert data.truth is not None
    truth = data.truth.toarray() > 0
    kept = np.sort(np.argsort(-truth.sum(axis=0), kind="stable")[:_MAX_LABELS])
    labelled = np.flatnonzero(truth[:, kept].any(axis=1))
    if max_rows is not None and len(labelled) > max_rows:
        labelled = np.sort(np.random.default_rng(0).choice(labelled, max_rows, replace=False))
    return data.X[labelled], truth[labelled][:, kept], 4 if name == "emotions" else 10


def _top(scores: FloatArray, size: int) -> BoolArray:
    """Return the indicator of the best labels of each row."""
    chosen = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(chosen, np.argsort(-scores, axis=1, kind="stable")[:, :size], True, axis=1)
    return chosen


def reproduce_pml_lc(
    out: Path | str | None = None,
    *,
    data: Sequence[str] = DATA,
    methods: Sequence[str] = tuple(XIE_HUANG_METHODS),
    repeats: int = 5,
    max_rows: int | None = None,
    on_cell: Callable[[str, str, int], None] = lambda data, method, repeat: None,
) -> pd.DataFrame:
    """Run the protocol of the paper of PML-lc and PML-fp, and put our figures beside the published ones.

    Parameters
    ----------
    out : path, optional
        Folder for ``pml-lc.csv`` and ``pml-lc.md``. Finished fits are kept there in ``pml-lc-cells.csv``, and are not
        run again.
    data : sequence of str
        From ``emotions``, ``yeast``, ``cal500``, ``genbase``, ``medical``, ``corel5k`` and ``delicious``; by default
        all.
    methods : sequence of str
        From the keys of `pmlkit.bench.paper.pml_lc.XIE_HUANG_METHODS`; by default all.
    repeats : int, default=5
        Number of random splits, each with its own candidate sets.
    max_rows : int, optional
        Maximum number of rows of a data set, before it is split.
    on_cell : callable, optional
        Called before each fit, finished ones included, with data set, method and repeat.

    Returns
    -------
    figures : DataFrame
        One row per data set, method and metric: ``mean`` and ``std`` over the repeats, ``published`` where known.

    Notes
    -----
    No method sees the truth. The number of labels predicted per row is the paper's: the mean number of *true*
    labels of the training rows, rounded; it enters the Hamming loss only.

    Examples
    --------
    Data sets are read from the folder of `pmlkit.data.data_home`; here none is asked for.

    >>> from pmlkit.bench.paper import reproduce_pml_lc
    >>> list(reproduce_pml_lc(data=[]).columns)
    ['data', 'method', 'metric', 'mean', 'std', 'repeats', 'published']
    """
    problems = {name: protocol(name, max_rows=max_rows) for name in data}
    kept = None if out is None else Path(out) / "pml-lc-cells.csv"
    finished = {} if kept is None else _finished(kept)
    cells = []
    for repeat, name, method in product(range(repeats), data, methods):
        on_cell(name, method, repeat)
        X, truth, n_candidates = problems[name]
        key = name, method, repeat, len(truth)
        if key not in finished:
            found = _measure(X, truth, n_candidates, method, repeat)
            finished[key] = [found[metric] for metric in METRICS]
            if kept is not None:
                _keep(kept, [*key, *finished[key]])
            logger.info("%s, %s, repeat %d: %.3f", name, method, repeat, found["average_precision"])
        cells += [(name, method, metric, repeat, x) for metric, x in zip(METRICS, finished[key], strict=True)]
    table = pd.DataFrame(cells, columns=["data", "method", "metric", "repeat", "value"])
    grouped = table.groupby(["data", "method", "metric"], sort=False)["value"]
    figures = grouped.agg(mean="mean", std="std", repeats="count").reset_index()
    figures["published"] = [_published(*key) for key in zip(figures.data, figures.method, figures.metric, strict=True)]
    if out is not None:
        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        figures.round(4).to_csv(folder / "pml-lc.csv", index=False, lineterminator="\n")
        (folder / "pml-lc.md").write_text(_page(figures, repeats, max_rows), encoding="utf-8")
    return figures


def _measure(X: Any, truth: BoolArray, n_candidates: int, method: str, repeat: int) -> dict[str, float]:
    """Return the metrics of a method on one random split."""
    train, test = train_test_rows(len(truth), random_state=repeat)
    Y = add_noise(truth[train], None, random_state=repeat, avg_candidates=n_candidates)
    size = max(1, round(float(truth[train].sum(axis=1).mean())))
    model = XIE_HUANG_METHODS[method][1](None if hasattr(X, "tocsr") else "standard")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PMLWarning)
        scores = model.fit(X[train], Y).decision_function(X[test])
    return evaluate(truth[test], scores, _top(scores, size))


def _finished(path: Path) -> dict[tuple[Any, ...], list[float]]:
    """Return the metrics of finished fits; a line that an interrupted run left unfinished is not counted."""
    if not path.is_file():
        return {}
    found = {}
    with path.open(encoding="utf-8", newline="") as file:
        for line in csv.reader(file):
            with contextlib.suppress(ValueError):
                data, method, repeat, n_rows, *values, end = line
                if end == "end" and len(values) == len(METRICS):
                    found[data, method, int(repeat), int(n_rows)] = [float(value) for value in values]
    return found


def _keep(path: Path, line: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8", newline="") as file:
        file.write("\n")  # ends what an interrupted run left
        csv.writer(file, lineterminator="").writerow([*line, "end"])


def _published(data: str, method: str, metric: str) -> float:
    in_paper = XIE_HUANG_METHODS[method][0]
    value = PUBLISHED.get(metric, {}).get(in_paper or "", (None,) * len(DATA))[DATA.index(data)]
    return np.nan if value is None else value


def _page(figures: pd.DataFrame, repeats: int, max_rows: int | None) -> str:
    """Return the comparison as Markdown: ours / published."""
    rows = f", at most {max_rows:,} rows per data set" if max_rows else ""
    lines = [
        "# PML-lc and PML-fp under their paper's protocol",
        "",
        f"Made by `pmlkit reproduce pml-lc`: means over {repeats} random 80/20 splits{rows}; ours / published where",
        "known. At most 15 labels (the most frequent), rows without labels dropped, candidate sets of a fixed size",
        "(emotions 4, others 10). Hamming loss with the paper's label sets: as many labels per row as training rows",
        "have true ones on average.",
        "",
    ]
    for metric in reversed(METRICS):
        part = figures[figures.metric == metric]
        names = list(dict.fromkeys(part.data))
        lines += [f"## {metric.replace('_', ' ').capitalize()}", "", "| method | " + " | ".join(names) + " |"]
        lines.append("|---" * (len(names) + 1) + "|")
        for method in dict.fromkeys(part.method):
            values = part[part.method == method].set_index("data")
            shown = [_shown(values.loc[name]) if name in values.index else "–" for name in names]
            lines.append(f"| {method} | " + " | ".join(shown) + " |")
        lines.append("")
    return "\n".join(lines)


def _shown(figure: Any) -> str:
    ours = f"{figure['mean']:.3f}".lstrip("0")
    return ours if np.isnan(figure["published"]) else f"{ours} / {figure['published']:.3f}".replace("/ 0", "/ ")
