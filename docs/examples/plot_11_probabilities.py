"""
Are the predicted probabilities right?
======================================

**Question.** Of the labels to which a model gives 80 %, how many are true?

**Answer.** A model that treats false candidates as true gives probabilities of being *tagged*, which are too high.
**ClearPML estimates the probability of being true. It is still too high: much less so with random noise, less
so with noise that follows the features.**
"""

import matplotlib.pyplot as plt
import numpy as np

from pmlkit import CandidateLogistic, ClearPML
from pmlkit.data import add_noise, make_pml

# %%
# The data
# --------
# As many false candidates as true labels in the training rows, drawn uniformly, or among the labels that a model finds
# likely for the row. The test rows keep their true labels.
data = make_pml(1600, n_features=40, n_labels=8, noise=0, random_state=2)
train, test = data.subset(slice(0, 800)), data.subset(slice(800, None))
truth = test.truth.toarray().ravel()
models = {"ClearPML": ClearPML, "logistic regression": CandidateLogistic}
predicted = {}
for kind in ("uniform", "confusable"):
    Y = add_noise(train.truth, 1.0, kind=kind, X=train.X, random_state=0)
    for name, method in models.items():
        predicted[kind, name] = method().fit(train.X, Y).predict_proba(test.X).ravel()


# %%
# Reliability
# -----------
# Sort the predictions into groups of equal size, and compare the mean prediction of a group with its share of true
# labels. The mean distance is the expected calibration error.
def reliability(probability, n_bins=10):
    """Return the mean probability and the share of true labels in groups of equal size."""
    groups = np.array_split(np.argsort(probability), n_bins)
    return [probability[g].mean() for g in groups], [truth[g].mean() for g in groups]


print("noise       model                calibration error")
for (kind, name), probability in predicted.items():
    mean, share = np.array(reliability(probability))
    print(f"{kind:10s}  {name:19s}  {np.abs(mean - share).mean():17.3f}")

# %%
# The picture
# -----------
# Points on the diagonal are right, points below it are too high.
STYLES = {"ClearPML": ("#1b4f8a", "-o"), "logistic regression": ("#d95f02", "--s")}
figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for (kind, name), probability in predicted.items():
    color, style = STYLES[name]
    axis = axes[int(kind == "confusable")]
    axis.plot(*reliability(probability), style, color=color, label=name, markersize=4)
for axis, kind in zip(axes, ("uniform", "confusable"), strict=True):
    axis.plot([0, 1], [0, 1], color="0.6", linewidth=0.8)
    axis.set(xlabel="predicted probability", title=f"{kind} noise", aspect="equal")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("share of true labels")
axes[0].legend(frameon=False)

# %%
# What follows
# ------------
# Use probabilities of noisy training data for ranking, and check their size on rows that a person has labelled.
plt.show()
