"""
One table, two stories
======================

The same table of rows and labels can come from careful people and an unpredictable world, or from careless people and
a predictable one. **Nothing in the table tells which: the share of wrong labels cannot be known without asking
somebody.**
"""

import matplotlib.pyplot as plt
import numpy as np

import pmlkit

# %%
# A label is given to 85 % of the rows on one side of a line, and to 15 % of those on the other side. Three labels,
# three lines.
rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 6))
side = X @ rng.normal(size=(6, 3)) > 0
given = rng.random(side.shape) < np.where(side, 0.85, 0.15)

# %%
# **Story one**: everybody was careful. Every label that was given is right; the world is such that 15 % of the rows
# on the far side have it, too. No label is wrong.
wrong_one = np.zeros_like(given)

# %%
# **Story two**: the line decides. Whoever gave the label on the far side made a mistake.
wrong_two = given & ~side

# %%
# The evidence is the same, because the table is the same.
result = pmlkit.clean(X, given.astype(int), label_names=["a", "b", "c"])
score = result.scores[given]
figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.2), sharey=True, layout="constrained")
bins = np.linspace(0, 1, 31)
axes[0].hist(score, bins=bins, color="0.6")
axes[0].set_title("what the table shows", fontsize=10)
for axis, wrong, title in ((axes[1], wrong_one, "story one"), (axes[2], wrong_two, "story two")):
    parts = [score[~wrong[given]], score[wrong[given]]]
    axis.hist(parts, bins=bins, stacked=True, color=["#1b4f8a", "#d95f02"], label=["right", "wrong"])
    axis.set_title(f"{title}: {wrong[given].mean():.0%} wrong", fontsize=10)
for axis in axes:
    axis.set_xlabel("out-of-fold score of a given label")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("labels")
axes[2].legend(frameon=False)

# %%
# The estimate without answers takes labels that are given regardless of the features for random mistakes. **As a single
# number it is wrong in story one**, and no number from this table could be right in both. Its interval holds both
# stories by being wide.
rate = result.noise_rate_.overall
print(f"wrong: {wrong_one[given].mean():.0%} in story one, {wrong_two[given].mean():.0%} in story two")
print(f"estimated without answers: {rate:.0%}, between {rate.low:.0%} and {rate.high:.0%}")

# %%
# Forty answers tell the stories apart. Each is answered here by its own truth.
for name, wrong in (("one", wrong_one), ("two", wrong_two)):
    audit = result.audit(random_state=0)
    while audit.n_answers < 40:
        question = audit.next()
        is_wrong = wrong[question.row, result.label_names.index(question.label)]
        audit.answer(question, "wrong" if is_wrong else "right")
    rate = audit.noise_rate_
    print(f"story {name}, after 40 answers: {rate:.0%}, between {rate.low:.0%} and {rate.high:.0%}")
plt.show()
