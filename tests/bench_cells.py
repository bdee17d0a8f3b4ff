"""Made-up cells for the tests of the report: what the store would return, without running anything."""

import json

import numpy as np
import pandas as pd

from pmlkit._words import METRICS

METHODS = {"good": 0.8, "fair": 0.7, "poor": 0.5}
CASES = (("scene", "uniform", 0.1), ("scene", "uniform", 0.5), ("scene", "uniform", 1.0), ("yeast", "own", np.nan))


def make_cells(methods=METHODS, cases=CASES, n_repeats=4, seed=0, labels=None):
    """Return cells whose methods have the given quality, with a little noise that the repeats share."""
    rng = np.random.default_rng(seed)
    rows = []
    for number, (data, noise, ratio) in enumerate(cases):
        for repeat in range(n_repeats):
            shared = 0.02 * rng.normal()
            for method, quality in methods.items():
                level = quality + shared - 0.05 * number
                row = {"data": data, "noise": noise, "ratio": ratio, "repeat": repeat, "method": method, "params": "{}"}
                row |= {"label": (labels or {}).get(method, method), "status": "done", "reason": None}
                for metric in METRICS:
                    value = level + 0.01 * rng.normal()
                    row[metric.key] = 1 - value if metric.lower_is_better else value
                row |= {"fit_seconds": 1 + quality, "predict_seconds": 0.1, "peak_mb": 50.0, "seed": repeat}
                row |= {"pmlkit_version": "0.1", "git_revision": "abc", "versions": json.dumps({"numpy": "2.3"})}
                row |= {"n_rows": 100, "n_features": 20, "n_labels": 5}
                rows.append(row)
    return pd.DataFrame(rows)


def fail(cells, chosen, reason="took longer than 1 s"):
    """Return the cells with some of them failed."""
    cells = cells.copy()
    keys = [metric.key for metric in METRICS] + ["fit_seconds", "predict_seconds"]
    cells.loc[chosen, "status"] = "failed"
    cells.loc[chosen, "reason"] = reason
    cells.loc[chosen, keys] = np.nan
    return cells
