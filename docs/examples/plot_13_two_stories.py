"""
One table, two explanations
===========================

**Question.** Can the share of wrong labels be estimated from the table alone?

**Answer.** No. The same table arises when no label is wrong and the features predict labels badly, and when labels
are wrong and the features predict the right ones well. **Nothing in the table says which is the case; some answers of
a person do.**
"""

import matplotlib.pyplot as plt
import numpy as np

import pmlkit

# %%
# The table
# ---------
# A hyperplane through the features has a near side and a far side. A label is given to 85 % of the rows on the near
# side, and to 15 % of those on the far side. Three labels, three hyperplanes.
rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 6))
side = X @ rng.normal(size=(6, 3)) > 0
given = rng.random(side.shape) < np.where(side, 0.85, 0.15)

# %%
# Two explanations
# ----------------
# **A**: every label that was given is right; 15 % of the rows on the far side really have it. No label is wrong.
#
# **B**: only rows on the near side have the label. Every label on the far side is a mistake.
wrong_a = np.zeros_like(given)
wrong_b = given & ~side

# %%
# The picture
# -----------
# The scores are the same under both, because the table is the same.
result = pmlkit.clean(X, given.astype(int), label_names=["a", "b", "c"])
score = result.scores[given]
figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.2), sharey=True, layout="constrained")
bins = np.linspace(0, 1, 31)
axes[0].hist(score, bins=bins, color="0.6")
axes[0].set_title("what the table shows", fontsize=10)
for axis, wrong, title in (
    (axes[1], wrong_a, "explanation A"),
    (axes[2], wrong_b, "explanation B"),
):
    parts = [score[~wrong[given]], score[wrong[given]]]
    axis.hist(
        parts, bins=bins, stacked=True, color=["#1b4f8a", "#d95f02"], label=["right", "wrong"]
    )
    axis.set_title(f"{title}: {wrong[given].mean():.0%} wrong", fontsize=10)
for axis in axes:
    axis.set_xlabel("out-of-fold score of a given label")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("labels")
axes[2].legend(frameon=False)

# %%
# The estimates
# -------------
# Without answers, labels that are given regardless of the features count as random mistakes. **As a single number the
# estimate is wrong under A**, and no number from this table could be right under both. The interval contains both
# because it is wide.
rate = result.noise_rate_.overall
print(f"wrong: {wrong_a[given].mean():.0%} under A, {wrong_b[given].mean():.0%} under B")
print(f"estimated without answers: {rate:.0%}, between {rate.low:.0%} and {rate.high:.0%}")

# %%
# Forty answers, given here by the truth of either explanation, tell the two apart: each interval contains the rate that
# is true and excludes the other one.
for name, wrong in (("A", wrong_a), ("B", wrong_b)):
    audit = result.audit(random_state=0)
    while audit.n_answers < 40:
        question = audit.next()
        is_wrong = wrong[question.row, result.label_names.index(question.label)]
        audit.answer(question, "wrong" if is_wrong else "right")
    rate = audit.noise_rate_
    print(f"{name}, after 40 answers: {rate:.0%}, between {rate.low:.0%} and {rate.high:.0%}")
plt.show()
