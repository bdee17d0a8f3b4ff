"""A report of 100,000 cells: how long reading the store, judging and writing the page take."""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from pmlkit._words import METRICS
from pmlkit.bench import Plan, load_cells
from pmlkit.bench.cells import expand
from pmlkit.bench.formatting import latex_tables
from pmlkit.bench.reporting import render_report
from pmlkit.bench.sandbox import Outcome
from pmlkit.bench.store import Store
from pmlkit.bench.summary import means_csv, summarize

N_SETS, RATIOS, N_VARIANTS, REPEATS = 20, (0.1, 0.5, 1.0, 2.0, 4.0), 20, 50


def fill(path: Path) -> int:
    """Write made-up results of a real plan into a store, by the calls that a run makes."""
    methods = [{"name": "MLkNN", "grid": {"n_neighbors": list(range(1, N_VARIANTS + 1))}}]
    data = [f"digit-strips:{100 + number}" for number in range(N_SETS)]
    cells = expand(Plan(data, methods, noise=RATIOS, repeats=REPEATS))
    rng = np.random.default_rng(0)
    values = rng.uniform(size=(len(cells), len(METRICS))) / 20
    quality = {label: rng.uniform() / 10 for label in sorted({cell.label for cell in cells})}
    with Store(path) as store:
        store.begin(cells, command="", plan="", jobs=1)
        for cell, row in zip(cells, values, strict=True):
            store.claim(cell)
            level = 0.5 + quality[cell.label]
            answer = {m.key: (1 - level if m.lower_is_better else level) + x for m, x in zip(METRICS, row, strict=True)}
            store.finish(cell, Outcome(answer | {"fit_seconds": 0.1, "predict_seconds": 0.01}, None, 100.0))
        store.end()
    return len(cells)


def main() -> None:
    """Fill a store and time each part of a report."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "results.sqlite")
        start = time.perf_counter()
        n_cells = fill(path)
        print(f"{n_cells:,} cells written in {time.perf_counter() - start:.1f} s", flush=True)
        laps = [time.perf_counter()]
        cells = load_cells(path)
        laps.append(time.perf_counter())
        summary = summarize(cells)
        laps.append(time.perf_counter())
        html = render_report(summary)
        laps.append(time.perf_counter())
        means_csv(cells)
        laps.append(time.perf_counter())
        latex_tables(summary)
        laps.append(time.perf_counter())
    parts = dict(zip(("read", "judge", "page", "csv", "latex"), np.diff(laps), strict=True))
    report = parts["read"] + parts["judge"] + parts["page"]
    print("  " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in parts.items()))
    print(f"  report: {report:.1f} s (wanted: under 20 s), {len(html) / 1e6:.1f} MB")
    if report > 20:
        sys.exit("too slow")


if __name__ == "__main__":
    main()
