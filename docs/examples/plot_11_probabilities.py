"""
Do the probabilities mean what they say?
========================================

A model that learns false candidates as if they were true promises too much: of the labels to which it gives 80 %, far
fewer are true. **ClearPML's predict_proba estimates the truth instead of the tags; with noise that follows the
features it, too, is too high.**
"""

import matplotlib.pyplot as plt
import numpy as np

from pmlkit import CandidateLogistic, ClearPML
from pmlkit.data import add_noise, make_pml

# %%
# As many false candidates as true labels in the training rows, drawn uniformly or as a model would confuse them.
data = make_pml(1600, n_features=40, n_labels=8, noise=0, random_state=2)
train, test = data.subset(slice(0, 800)), data.subset(slice(800, None))
truth = test.truth.toarray().ravel()
models = {"ClearPML": ClearPML, "logistic regression": CandidateLogistic}
answers = {}
for kind in ("uniform", "confusable"):
    Y = add_noise(train.truth, 1.0, kind=kind, X=train.X, random_state=0)
    for name, method in models.items():
        answers[kind, name] = method().fit(train.X, Y).predict_proba(test.X).ravel()


# %%
# Group the answers by what they say, and count how many are true.
def reliability(probability, n_bins=8):
    """Return the mean probability and the share of true labels in groups of equal size."""
    groups = np.array_split(np.argsort(probability), n_bins)
    return [probability[g].mean() for g in groups], [truth[g].mean() for g in groups]


STYLES = {"ClearPML": ("#1b4f8a", "-o"), "logistic regression": ("#d95f02", "--s")}
figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for (kind, name), probability in answers.items():
    color, style = STYLES[name]
    axes[int(kind == "confusable")].plot(*reliability(probability), style, color=color, label=name, markersize=4)
for axis, kind in zip(axes, ("uniform", "confusable"), strict=True):
    axis.plot([0, 1], [0, 1], color="0.6", linewidth=0.8)
    axis.set(xlabel="probability that the model gives", title=f"{kind} noise", aspect="equal")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("share that is true")
axes[0].legend(frameon=False)

# %%
# Mean error of the probabilities (expected calibration error).
for (kind, name), probability in answers.items():
    said, was = np.array(reliability(probability, 10))
    print(f"{kind:10s} {name:20s} {np.abs(said - was).mean():.3f}")
plt.show()
