"""
How ClearPML corrects for noise
===============================

**Question.** How can the share of true labels be estimated if only candidates are known?

**Answer.** Rows whose features are clearly against a label still carry it now and then. How often they do is the
**noise floor**, the rate at which labels are given by mistake. Correcting for it **comes nearer to the truth where
mistakes are random, and hardly where they follow the features**.
"""

import matplotlib.pyplot as plt
import numpy as np

from pmlkit import ClearPML
from pmlkit.data import add_noise, make_pml

# %%
# The data
# --------
# One data set with as many false candidates as true labels: drawn at random, and drawn among the labels that a model
# finds likely for the row.
clean = make_pml(2000, n_features=30, n_labels=10, noise=0, random_state=0)
KINDS = {"uniform": "random mistakes", "confusable": "mistakes that follow the features"}
N_GROUPS = 12


# %%
# Groups of equal score
# ---------------------
# A fit sees candidates alone; `out_of_fold_scores_` are made without the row's own labels. All (row, label) pairs are
# put into 12 groups of equal size, by score. For each group: how many pairs were given, which the method sees, and how
# many are true, which it does not see.
def by_score(Y, model):
    """Return median score, share of given pairs and share of true pairs of each group."""
    score = model.out_of_fold_scores_.ravel()
    given, true = Y.toarray().ravel() > 0, clean.truth.toarray().ravel() > 0
    groups = np.array_split(np.argsort(score, kind="stable"), N_GROUPS)
    return np.array([[np.median(score[g]), given[g].mean(), true[g].mean()] for g in groups]).T


# %%
# The picture
# -----------
# If every label that is not true is given with probability :math:`\rho`, a share :math:`p` of given pairs means a share
# :math:`(p - \rho) / (1 - \rho)` of true ones. The mean error is the distance to the true share, before and after.
BLUE, ORANGE, GREY = "#1b4f8a", "#d95f02", "#6b7580"
figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), sharey=True, layout="constrained")
for axis, (kind, title) in zip(axes, KINDS.items(), strict=True):
    Y = add_noise(clean.truth, 1.0, kind=kind, X=clean.X, random_state=0)
    model = ClearPML().fit(clean.X, Y)
    rho = model.noise_floor_
    score, given, true = by_score(Y, model)
    concluded = np.clip((given - rho) / (1 - rho), 0, 1)
    axis.plot(score, given, "s--", color=ORANGE, label="given (seen)")
    axis.plot(score, concluded, "o-", color=BLUE, label="estimated to be true")
    axis.plot(score, true, "x:", color=GREY, label="true (not seen)")
    axis.axhline(rho, color=ORANGE, lw=0.8)
    axis.text(1, rho + 0.015, "noise floor", color=ORANGE, ha="right")
    axis.set(xlabel="score without the row's own labels", xlim=(0, 1.02), ylim=(0, 1.02))
    axis.set_title(title, fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    before, after = (np.abs(share - true).mean() for share in (given, concluded))
    print(f"{title}: noise floor {rho:.2f}\nmean error {before:.3f} before, {after:.3f} after")
axes[0].set_ylabel("share of the pairs")
axes[0].legend(frameon=False, fontsize=9, loc="upper left")

# %%
# What follows
# ------------
# On the right the table looks as if more labels were true, and nothing in it shows otherwise: :doc:`/knowable`. The
# order of the scores stays good in both cases: rankings suffer less than estimates of how many labels are wrong.
plt.show()
