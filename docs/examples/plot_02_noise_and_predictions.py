"""
What false labels do to a model
===============================

The more false candidates, the worse every model gets. **A method that doubts them loses less than one that takes them
for true, but with little noise there is little to win**: then plain logistic regression is enough.
"""

import matplotlib.pyplot as plt

from pmlkit import CandidateLogistic, ClearPML
from pmlkit.data import add_noise, make_pml
from pmlkit.metrics import evaluate

# %%
# Made data whose truth is known: 800 rows to learn from, 400 to test on.
clean = make_pml(1200, n_features=40, n_labels=8, noise=0, random_state=1)
train, test = clean.subset(slice(0, 800)), clean.subset(slice(800, None))

# %%
# Add false candidates to the training rows: a ratio of 1 means one false candidate per true label, on average.
RATIOS = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0]
METHODS = {"ClearPML": ClearPML, "logistic regression": CandidateLogistic}
curves = {(name, metric): [] for name in METHODS for metric in ("average_precision", "hamming_loss")}
for ratio in RATIOS:
    candidates = add_noise(train.truth, ratio, random_state=0)
    for name, method in METHODS.items():
        model = method().fit(train.X, candidates)
        scores = evaluate(test.truth, model.decision_function(test.X), model.predict(test.X))
        for metric in ("average_precision", "hamming_loss"):
            curves[name, metric].append(scores[metric])

# %%
# Ranking on the left, label sets on the right. A model that takes false candidates for true ones predicts too many
# labels.
STYLES = {"ClearPML": ("#1b4f8a", "-", "o"), "logistic regression": ("#d95f02", "--", "s")}
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for (name, metric), values in curves.items():
    color, line, marker = STYLES[name]
    axes[int(metric == "hamming_loss")].plot(RATIOS, values, line, color=color, marker=marker, label=name)
axes[0].set(xlabel="false candidates per true label", ylabel="average precision (higher is better)")
axes[1].set(xlabel="false candidates per true label", ylabel="Hamming loss (lower is better)", ylim=(0, None))
axes[0].legend(frameon=False)
for axis in axes:
    axis.spines[["top", "right"]].set_visible(False)

# %%
# One data set and one draw of the noise: a picture, not a comparison. :doc:`The method's page </methods/clear-pml>`
# has 79 configurations of nineteen data sets, losses included.
for name in METHODS:
    print(f"{name:20s}", " ".join(f"{value:.3f}" for value in curves[name, "average_precision"]))
plt.show()
