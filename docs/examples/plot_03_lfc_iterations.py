"""
PML-LFC: confidences over the iterations
========================================

**Question.** How does an iterative method find out which candidates are true, when nobody tells it?

**Answer.** It starts with equal confidences within a row. In every iteration similar rows and the predictor pull them
apart: **after thirty iterations most true candidates have risen and most false ones have fallen, but nearly a third
went the wrong way**.
"""

import matplotlib.pyplot as plt
import numpy as np

from pmlkit import PMLLFC
from pmlkit.data import load_digit_strips
from pmlkit.metrics import cleaning_auc

# %%
# The data
# --------
# 800 strips of digits with about five candidates each, of which half are true. A row with five candidates starts with
# a confidence of 1/5 for each.
strips = load_digit_strips(800, random_state=0)
candidates = strips.Y.toarray() > 0
truth = strips.truth.toarray() > 0
start = candidates / candidates.sum(axis=1, keepdims=True)

# %%
# The same fit, ended earlier
# ---------------------------
# `label_confidence_` are the confidences when the fit ended. ``tol=0`` keeps it from ending by itself.
STEPS = [1, 2, 5, 10, 30]
confidence = {0: start}
for n_iter in STEPS:
    model = PMLLFC(max_iter=n_iter, tol=0, random_state=0).fit(strips.X, strips.Y)
    confidence[n_iter] = model.label_confidence_.toarray()

# %%
# Four pictures with their candidates. Dark blue: labels that the picture shows. Orange: false candidates. The method
# sees neither colour.
ROWS = [3, 8, 14, 27]
widths = [1.5, *[1] * len(confidence)]
figure, axes = plt.subplots(
    len(ROWS), len(widths), figsize=(11, 4.4), layout="constrained", width_ratios=widths
)
for line, row in zip(axes, ROWS, strict=True):
    line[0].imshow(strips.media[row], cmap="gray")
    line[0].set(xticks=[], yticks=[])
    labels = np.flatnonzero(candidates[row])
    colors = np.where(truth[row, labels], "#1b4f8a", "#e8954a")
    for axis, (n_iter, values) in zip(line[1:], confidence.items(), strict=True):
        axis.bar(range(len(labels)), values[row, labels], color=colors)
        axis.set_xticks(
            range(len(labels)), [strips.label_names[k] for k in labels], fontsize=8
        )
        axis.set(ylim=(0, 1), yticks=[])
        axis.spines[["top", "right", "left"]].set_visible(False)
        if row == ROWS[0]:
            axis.set_title("start" if n_iter == 0 else f"iteration {n_iter}", fontsize=10)
figure.suptitle("dark blue: the picture shows it; orange: false candidate", fontsize=10)

# %%
# Over all pictures
# -----------------
# The AUC says how well confidences tell false from true candidates (0.5 is chance, 1 perfect). The second figure
# counts candidates that moved the wrong way: true ones below their start, false ones above it.
for n_iter, values in confidence.items():
    moved = np.where(truth, values < start - 1e-9, values > start + 1e-9)[candidates].mean()
    auc = cleaning_auc(strips.truth, strips.Y, values)
    print(f"iteration {n_iter:2d}: AUC {auc:.3f}, {moved:3.0%} moved the wrong way")

# %%
# What follows
# ------------
# The confidences are a ranking, not probabilities. :doc:`/how-pml-lfc-works` has the formulas of an iteration beside
# the code that does them.
plt.show()
