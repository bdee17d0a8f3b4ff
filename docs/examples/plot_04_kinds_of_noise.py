"""
Some mistakes are harder to see
===============================

Random mistakes stand out. Mistakes that follow the features, such as the label that a person would confuse, look more
like truth: **how many false labels are found depends on where they come from, and nobody tells you where**.

How large the difference is depends on the data. These were chosen, after six settings were tried, because they show it
clearly (AUC .963 / .933 / .914); with the first the three hardly differed (.981 / .972 / .957).
"""

import matplotlib.pyplot as plt
import numpy as np

from pmlkit import ClearPML
from pmlkit.data import add_noise, make_pml
from pmlkit.metrics import cleaning_auc

# %%
# One data set, three kinds of false candidates, as many of each: drawn uniformly, drawn among labels that often occur
# together with the true ones, and drawn among labels that a model finds likely for the row.
clean = make_pml(1000, n_features=10, n_labels=12, rank=3, noise=0, random_state=0)
KINDS = ["uniform", "correlated", "confusable"]
judged = {}
for kind in KINDS:
    Y = add_noise(clean.truth, 0.5, kind=kind, X=clean.X, random_state=0)
    confidence = ClearPML().fit(clean.X, Y).label_confidence_.toarray()
    candidates, is_true = Y.toarray() > 0, clean.truth.toarray() > 0
    auc = cleaning_auc(clean.truth, Y, confidence)
    judged[kind] = confidence[candidates & is_true], confidence[candidates & ~is_true], auc

# %%
# Where the two histograms overlap nobody can tell the labels apart by these features.
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
# That is why an estimate of "how many labels are wrong" comes with a wide interval, and why a few hundred answers of
# a person are worth more than any method: see :doc:`/knowable`.
for kind, (right, wrong, auc) in judged.items():
    print(f"{kind:11s} {len(wrong)} false of {len(right) + len(wrong)}, AUC {auc:.3f}")
plt.show()
