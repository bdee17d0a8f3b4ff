"""
What false labels do to a model
===============================

**Question.** Is a method for candidate labels worth it, or does plain logistic regression do?

**Answer.** It depends on how many candidates are false. **Without any there is nothing to win; with as many false
candidates as true ones, the method that doubts them ranks better and predicts better label sets.**
"""

import matplotlib.pyplot as plt

from pmlkit import CandidateLogistic, ClearPML
from pmlkit.data import add_noise, make_pml
from pmlkit.metrics import evaluate

# %%
# The data
# --------
# Made data whose truth is known: 800 rows to learn from, 400 to test on. The test rows keep their true labels.
clean = make_pml(1200, n_features=40, n_labels=8, noise=0, random_state=1)
train, test = clean.subset(slice(0, 800)), clean.subset(slice(800, None))
print(f"{clean.truth.sum() / clean.n_samples:.1f} true labels per row, of {clean.n_labels}")

# %%
# Two methods, six amounts of noise
# ---------------------------------
# False candidates are added to the training rows: a ratio of 1 means one false candidate per true label, on average.
# `CandidateLogistic` is logistic regression that takes every candidate for true; it chooses scaling and penalty by
# cross-validation, so it is no straw man.
RATIOS = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0]
METHODS = {"ClearPML": ClearPML, "logistic regression": CandidateLogistic}
METRICS = ("average_precision", "hamming_loss")
curves = {(name, metric): [] for name in METHODS for metric in METRICS}
for ratio in RATIOS:
    candidates = add_noise(train.truth, ratio, random_state=0)
    for name, method in METHODS.items():
        model = method().fit(train.X, candidates)
        scores = evaluate(test.truth, model.decision_function(test.X), model.predict(test.X))
        for metric in METRICS:
            curves[name, metric].append(scores[metric])

# %%
# The picture
# -----------
# Left: how well labels are ranked. Right: the share of wrong decisions in the predicted label sets. A model that takes
# false candidates for true ones predicts too many labels.
STYLES = {"ClearPML": ("#1b4f8a", "-", "o"), "logistic regression": ("#d95f02", "--", "s")}
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for (name, metric), values in curves.items():
    color, line, marker = STYLES[name]
    axis = axes[METRICS.index(metric)]
    axis.plot(RATIOS, values, line, color=color, marker=marker, label=name)
axes[0].set(ylabel="average precision (higher is better)")
axes[1].set(ylabel="Hamming loss (lower is better)", ylim=(0, None))
axes[0].legend(frameon=False)
for axis in axes:
    axis.set(xlabel="false candidates per true label")
    axis.spines[["top", "right"]].set_visible(False)

# %%
# The figures
# -----------
for metric in METRICS:
    print(f"{metric:22s}", " ".join(f"{ratio:5.2f}" for ratio in RATIOS))
    for name in METHODS:
        print(f"  {name:20s}", " ".join(f"{value:.3f}" for value in curves[name, metric]))

# %%
# What follows
# ------------
# Without false candidates take the simpler model. One data set and one draw of the noise are a picture, not a
# comparison: :doc:`the method's page </methods/clear-pml>` has 61 configurations of 16 data sets, losses
# included, and :doc:`/choosing` turns them into a table of decisions.
plt.show()
