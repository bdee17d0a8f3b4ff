"""
Labels that are missing
=======================

**Question.** Labels are not only wrong, they are also forgotten. Can missing ones be found?

**Answer.** `CleaningResult.missing` lists labels that a row lacks and probably should have. **On these synthetic
data most of the first suggestions are right, on real data about half: it is a list for a person to look through.**
"""

import matplotlib.pyplot as plt
import numpy as np

import pmlkit
from pmlkit.data import make_pml

# %%
# The data
# --------
# Synthetic data without false labels; then a fifth of the true labels is deleted at random.
data = make_pml(1000, n_features=40, n_labels=8, noise=0, random_state=0)
rng = np.random.default_rng(0)
truth = data.truth.toarray() > 0
given = truth & (rng.random(truth.shape) > 0.2)
print(f"{truth.sum()} true labels, {truth.sum() - given.sum()} of them deleted")

# %%
# The suggestions
# ---------------
# The most likely first, with reasons, as suspects have them.
result = pmlkit.clean(data.X, given.astype(int), label_names=[f"topic {k}" for k in range(8)])
missing = result.missing(300)
print(missing[["row", "label", "score"]].head().round(2))
print(missing["reasons"][0])

# %%
# The picture
# -----------
# Which share of the first k suggestions are deleted true labels? The dotted line is the share among all labels that
# were not given.
column = [result.label_names.index(label) for label in missing["label"]]
right = truth[missing["row"], column]
looked_at = np.arange(1, len(right) + 1)
chance = (truth & ~given).sum() / (~given).sum()
figure, axes = plt.subplots(figsize=(7.5, 3.5), layout="constrained")
axes.plot(looked_at, np.cumsum(right) / looked_at, color="#1b4f8a", label="suggestions")
axes.axhline(chance, color="0.5", linestyle=":", label="random choice")
axes.set(xlabel="suggestions looked at", ylabel="share of them that is right", ylim=(0, 1.02))
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
print(f"right of the first 50: {right[:50].mean():.0%}, of all 300: {right.mean():.0%}")
print(f"right at random: {chance:.0%}")

# %%
# What follows
# ------------
# The list does not tell whether anything is missing at all: with nothing deleted the first scores are about as high.
# So labels are never added without a person, who has a view for them on :doc:`the review page </review>`.
whole = pmlkit.clean(data.X, truth.astype(int)).missing(300)
here, there = missing["score"][:5].mean(), whole["score"][:5].mean()
print(f"first five scores: {here:.2f} with a fifth missing, {there:.2f} with none missing")
plt.show()
