"""Means and deviations as CSV that can be compared byte for byte."""

import csv
import io
import math
from collections import Counter

import numpy as np
import pandas as pd

from pmlkit._measures import MEASURES
from pmlkit.bench.results import case_keys, collect, method_names

__all__ = ["means_csv"]


def means_csv(cells: pd.DataFrame) -> str:
    """Return means and standard deviations, one line for each case and method, sorted, without times.

    Two runs of one plan give the same text.

    Parameters
    ----------
    cells : DataFrame
        One row per cell, see :func:`pmlkit.bench.store.load_cells`.

    Returns
    -------
    text : str
        The nine measures have nine decimals; a field is empty where there is no finished cell, or only one for a
        deviation.

    Examples
    --------
    >>> import pandas as pd
    >>> from pmlkit.bench.means import means_csv
    >>> cell = {"data": "toy", "noise": "uniform", "ratio": 0.5, "repeat": 0, "method": "MLkNN", "params": "{}"}
    >>> text = means_csv(pd.DataFrame([cell | {"status": "done", "one_error": 0.25}]))
    >>> text.splitlines()[1]
    'toy,uniform,0.5,MLkNN,{},1,0,,,,,0.250000000,,,,,,,,,,,,,'
    """
    cells = cells.assign(name=method_names(cells))
    results = collect(cells)
    known = results.measures()
    tables = {measure.key: (results.mean(measure.key), results.deviation(measure.key)) for measure in known}
    unknown = (np.full((len(results.cases), len(results.methods)), np.nan),) * 2
    params = dict(zip(cells["name"], cells["params"], strict=True))
    counts = Counter(zip(case_keys(cells), cells["name"], cells["status"], strict=True))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["data", "noise", "ratio", "method", "params", "done", "failed"]
        + [f"{measure.key}_{part}" for measure in MEASURES for part in ("mean", "std")]
    )
    for c, case in enumerate(results.cases):
        for m, name in enumerate(results.methods):
            n_done, n_failed = (counts[case.key, name, status] for status in ("done", "failed"))
            if n_done + n_failed:
                numbers = [_shown(table[c, m]) for measure in MEASURES for table in tables.get(measure.key, unknown)]
                ratio = "" if math.isnan(case.ratio) else f"{case.ratio:g}"
                writer.writerow([case.data, case.noise, ratio, name, params[name], n_done, n_failed, *numbers])
    return text.getvalue()


def _shown(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.9f}"
