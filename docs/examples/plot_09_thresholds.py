"""
From scores to label sets
=========================

**Question.** Every method scores labels; a threshold makes label sets of the scores. Which one, when the training rows
have false candidates?

**Answer.** A threshold that reproduces the number of candidates predicts too many labels. **On these pictures**
``threshold="hamming"``, **the default of ClearPML, has the lowest Hamming loss and also the best F1.**
"""

import matplotlib.pyplot as plt

from pmlkit import ClearPML
from pmlkit.data import load_digit_strips
from pmlkit.metrics import hamming_loss, micro_f1

# %%
# The data
# --------
# 800 pictures to learn from, 400 to test on. Training rows have twice as many candidates as true labels.
strips = load_digit_strips(1200, random_state=0)
train, test = strips.subset(slice(0, 800)), strips.subset(slice(800, None))
true_size = test.truth.sum() / test.n_samples
print(
    f"true labels per row: {true_size:.2f}, candidates: {train.Y.sum() / train.n_samples:.2f}"
)

# %%
# Six thresholds
# --------------
# A number is a fixed cut. ``"at_least_one"`` is the method's own cut, after which every row has one label or more.
# ``"cardinality"`` matches the mean number of labels that the confidences expect, ``"size"`` fits the number of
# candidates of each row, ``"hamming"`` and ``"f1"`` take the cut with the best expected metric.
STRATEGIES = ["cardinality", "at_least_one", "size", "hamming", "f1", 0.5]
found = {}
for threshold in STRATEGIES:
    predicted = ClearPML(threshold=threshold).fit(train.X, train.Y).predict(test.X)
    size = predicted.sum() / test.n_samples
    found[str(threshold)] = (
        size,
        hamming_loss(test.truth, predicted),
        micro_f1(test.truth, predicted),
    )
print("threshold     labels per row  Hamming loss  micro F1")
for name, (size, loss, f1) in found.items():
    print(f"{name:12s}  {size:14.2f}  {loss:12.3f}  {f1:8.3f}")

# %%
# The picture
# -----------
# The dashed line is the true number of labels per row: all six predict more.
figure, axes = plt.subplots(1, 3, figsize=(10, 3.3), sharey=True, layout="constrained")
TITLES = ["labels per row", "Hamming loss (lower is better)", "micro F1 (higher is better)"]
for k, (axis, title) in enumerate(zip(axes, TITLES, strict=True)):
    values = [entry[k] for entry in found.values()]
    bars = axis.barh(list(found), values, color="#1b4f8a", alpha=0.8)
    axis.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
    axis.set_title(title, fontsize=10)
    axis.margins(x=0.18)
    axis.spines[["top", "right"]].set_visible(False)
axes[0].axvline(true_size, color="#d95f02", linestyle="--")
axes[0].invert_yaxis()

# %%
# What follows
# ------------
# ``"f1"`` does not have the best F1 here: it maximises the F1 that is expected if the confidences are right, and they
# are too high. Rankings do not depend on a threshold; compare methods by average precision first.
plt.show()
