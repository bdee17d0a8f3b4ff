"""
Rows without labels
===================

A row without candidates is unlabelled, not a row without true labels. ClearPML learns from such rows, too. **They help
where few rows are labelled; from 200 on they change nothing, and more labelled rows always help more.**
"""

import matplotlib.pyplot as plt
import numpy as np

from pmlkit import ClearPML
from pmlkit.data import load_digit_strips
from pmlkit.metrics import average_precision

# %%
# 600 strips to learn from, of which only some keep their labels, and 400 to test on.
strips = load_digit_strips(1000, random_state=0)
train, test = strips.subset(slice(0, 600)), strips.subset(slice(600, None))
SIZES = [40, 60, 100, 200, 400, 600]
alone, together = [], []
for n_labelled in SIZES:
    Y = train.Y.toarray()
    Y[n_labelled:] = 0  # Unlabelled rows: no candidate at all.
    model = ClearPML().fit(train.X[:n_labelled], Y[:n_labelled])
    alone.append(average_precision(test.truth, model.decision_function(test.X)))
    # Rows without a candidate would tell the model that rows need not have a true label: say that they do.
    model = ClearPML(every_row_has_a_label=True).fit(train.X, Y)
    together.append(average_precision(test.truth, model.decision_function(test.X)))

# %%
# The gain is the distance between the lines.
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.plot(SIZES, together, "-o", color="#1b4f8a", label="with the unlabelled rows")
axes.plot(SIZES, alone, "--s", color="#d95f02", label="labelled rows alone")
axes.set(xscale="log", xlabel="labelled rows of 600 (log scale)", ylabel="average precision on new rows")
axes.set_xticks(SIZES, SIZES)
axes.minorticks_off()
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
for size, without, with_them in zip(SIZES, alone, together, strict=True):
    print(f"{size:3d} labelled: {without:.3f} alone, {with_them:.3f} with the others ({with_them - without:+.3f})")
print(f"mean gain {np.mean(np.subtract(together, alone)):+.4f}")
plt.show()
