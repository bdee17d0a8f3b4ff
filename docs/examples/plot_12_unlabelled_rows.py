"""
Rows without labels
===================

**Question.** Do rows help that nobody has labelled at all?

**Answer.** ClearPML takes rows without candidates for unlabelled, unless the features tell that they have no true
label, and learns from them. **On these pictures such rows help where fewer than 200 rows are labelled; more labelled
rows help more.** On real data the gain is smaller, and with very few labelled rows it can be a loss: :doc:`/scaling`
has seven sets.
"""

import matplotlib.pyplot as plt

from pmlkit import ClearPML
from pmlkit.data import load_digit_strips
from pmlkit.metrics import average_precision

# %%
# The data
# --------
# 600 strips to learn from, of which only the first 40 to 600 keep their candidates, and 400 to test on.
strips = load_digit_strips(1000, random_state=0)
train, test = strips.subset(slice(0, 600)), strips.subset(slice(600, None))
SIZES = [40, 60, 100, 200, 400, 600]

# %%
# Two fits per size
# -----------------
# One sees the labelled rows alone, the other all 600. ``every_row_has_a_label=True`` says that a row without
# candidates has true labels nevertheless.
alone, together = [], []
for n_labelled in SIZES:
    Y = train.Y.toarray()
    Y[n_labelled:] = 0
    model = ClearPML().fit(train.X[:n_labelled], Y[:n_labelled])
    alone.append(average_precision(test.truth, model.decision_function(test.X)))
    model = ClearPML(every_row_has_a_label=True).fit(train.X, Y)
    together.append(average_precision(test.truth, model.decision_function(test.X)))
print("labelled  alone  with the others    gain")
for size, without, with_them in zip(SIZES, alone, together, strict=True):
    print(f"{size:8d}  {without:.3f}  {with_them:15.3f}  {with_them - without:+.3f}")

# %%
# The picture
# -----------
# The gain is the distance between the lines.
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.plot(SIZES, together, "-o", color="#1b4f8a", label="with the unlabelled rows")
axes.plot(SIZES, alone, "--s", color="#d95f02", label="labelled rows alone")
axes.set(
    xscale="log",
    xlabel="labelled rows of 600 (log scale)",
    ylabel="average precision on new rows",
)
axes.set_xticks(SIZES, SIZES)
axes.minorticks_off()
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)

# %%
# What follows
# ------------
# Where unlabelled rows are at hand, compare fits with and without them on rows held out. Labels are worth more: here
# twenty more labelled rows (60 instead of 40) gain more than 560 unlabelled ones.
plt.show()
