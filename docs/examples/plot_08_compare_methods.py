"""
Which method, at which price?
=============================

The bench runs methods on the same splits and the same noise, stores every result and goes on where it was interrupted.
**The newest method is not the best one, and a slow one need not be good.**
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from pmlkit import bench

# %%
# Eight methods on the digit strips, two repeats. ``bench.Plan`` takes names of data sets, files, noise ratios and
# parameters.
METHODS = ["ClearPML", "CandidateLogistic", "PMLLFC", "FPML", "MLkNN", "UPML", "NLR", "Schirn"]
plan = bench.Plan(data=["digit-strips:400"], methods=METHODS, noise=["own"], repeats=2)
with tempfile.TemporaryDirectory() as folder:
    store = Path(folder, "results.sqlite")
    summary = bench.run(plan, store)
    cells = bench.load_cells(store)
print(f"{summary.n_run} cells, {summary.n_failed} failed")

# %%
# ``load_cells`` is a DataFrame with one row per cell: metrics, times, memory, seeds and versions.
means = cells.groupby("method")[["average_precision", "hamming_loss", "fit_seconds"]].mean()
print(means.sort_values("average_precision", ascending=False).round(3))

# %%
# Quality against time. Two repeats on one small data set: differences of a few thousandths mean nothing.
figure, axes = plt.subplots(figsize=(7.5, 4), layout="constrained")
for name, line in means.iterrows():
    axes.plot(line["fit_seconds"], line["average_precision"], "o", color="#1b4f8a")
    axes.annotate(
        name, (line["fit_seconds"], line["average_precision"]), xytext=(6, 4), textcoords="offset points", fontsize=9
    )
axes.set(xscale="log", xlabel="seconds of a fit (log scale)", ylabel="average precision on new rows")
axes.margins(x=0.18)
axes.spines[["top", "right"]].set_visible(False)

# %%
# ``bench.report(store).write("report.html")`` makes a page with tests and critical-difference diagrams of a larger
# run.
plt.show()
