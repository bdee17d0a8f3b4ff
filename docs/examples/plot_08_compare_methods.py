"""
Which method, at which cost?
============================

**Question.** Is a newer or a slower method a better one?

**Answer.** Not by itself. The benchmark runs all methods on the same splits with the same noise. **On these pictures
the methods of 2024 and 2026 rank labels worse than those of 2020 and 2022, and the slowest method is not the best.**
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from pmlkit import bench

# %%
# The plan
# --------
# Eight methods on 400 digit strips, two random splits. ``bench.Plan`` also takes files, noise ratios and grids of
# parameters. ``"own"`` keeps the candidates that the data come with.
YEARS = {
    "ClearPML": "pmlkit",
    "CandidateLogistic": "baseline",
    "MLkNN": "2007",
    "FPML": "2018",
    "PMLLFC": "2020",
    "UPML": "2022",
    "NLR": "2024",
    "Schirn": "2026",
}
plan = bench.Plan(data=["digit-strips:400"], methods=list(YEARS), noise=["own"], repeats=2)

# %%
# Run it
# ------
# Every result is stored as soon as it is there; the same call continues an interrupted run.
with tempfile.TemporaryDirectory() as folder:
    store = Path(folder, "results.sqlite")
    summary = bench.run(plan, store)
    cells = bench.load_cells(store)
print(f"{summary.n_run} cells, {summary.n_failed} failed")

# %%
# The cells
# ---------
# `load_cells` returns a DataFrame with one row per cell: metrics, times, memory, seeds and versions.
means = cells.groupby("method")[["average_precision", "hamming_loss", "fit_seconds"]].mean()
print(means.sort_values("average_precision", ascending=False).round(3))

# %%
# The picture
# -----------
# Quality against time. With two repeats on one small data set, differences of a few thousandths mean nothing.
figure, axes = plt.subplots(figsize=(7.5, 4), layout="constrained")
for name, line in means.iterrows():
    place = line["fit_seconds"], line["average_precision"]
    axes.plot(*place, "o", color="#1b4f8a")
    text = f"{name} ({YEARS[name]})"
    axes.annotate(text, place, xytext=(6, 4), textcoords="offset points", fontsize=9)
axes.set(
    xscale="log", xlabel="seconds of a fit (log scale)", ylabel="average precision on new rows"
)
axes.margins(x=0.35)
axes.spines[["top", "right"]].set_visible(False)

# %%
# What follows
# ------------
# A conclusion needs more data sets. ``bench.report(store).write("report.html")`` writes a page with mean ranks and
# tests; :doc:`/compare-methods` goes through it, and :doc:`/methods/README` has all methods on eleven real sets.
plt.show()
