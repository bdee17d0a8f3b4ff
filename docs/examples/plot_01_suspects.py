"""
Which labels are probably wrong?
================================

**Question.** People tagged a thousand pictures, and too generously: about half of the tags are false. Nobody can look
at all of them. Which ones should be looked at first?

**Answer.** Those with the lowest confidence. **On these pictures nearly all of the first hundred are false, where a
random hundred would hold about fifty.**
"""

import matplotlib.pyplot as plt
import numpy as np

import pmlkit
from pmlkit.data import load_digit_strips

# %%
# The data
# --------
# Strips of two to four handwritten digits. `Y` holds the candidates: 1 where a label was given, rightly or not. The
# truth is known for these pictures; only the last step of this example uses it.
strips = load_digit_strips(1000, random_state=0)
n, n_labels = strips.n_samples, strips.Y.nnz
print(f"{n} pictures, {n_labels} labels, {n_labels / n:.1f} per picture")

# %%
# The judgement
# -------------
# `clean` judges every label by models that did not see its row. A confidence of 0.07 reads: an
# estimated seven of a hundred labels like this one are right.
result = pmlkit.clean(strips.X, strips.Y, label_names=strips.label_names, media=strips.media)
suspects = result.suspects
print(suspects[["row", "label", "confidence"]].head().round(3))

# %%
# Each suspect comes with reasons for and against: its score beside the typical score of the label, the labels of the
# ten most similar rows, and the labels that it usually comes with.
first = suspects.iloc[0]
print(first["reasons"])

# %%
# Look at them
# ------------
# The most suspicious labels of twelve different pictures. Decide for yourself whether the digit is there.
shown = suspects.drop_duplicates("row").head(12)
names = np.array(strips.label_names)
figure, axes = plt.subplots(3, 4, figsize=(9, 3.9), layout="constrained")
for axis, (_, suspect) in zip(axes.flat, shown.iterrows(), strict=True):
    row = suspect["row"]
    given = names[strips.Y[[row]].indices]
    axis.imshow(strips.media[row], cmap="gray", aspect="equal")
    axis.set_title(f"labelled {' '.join(given)}\nsuspect: {suspect['label']}", fontsize=9)
    axis.set(xticks=[], yticks=[])
figure.suptitle("Does the picture show the suspect digit?", fontsize=11)

# %%
# Against the truth
# -----------------
# How many of the first are false, and how many would a random choice have found?
truth = strips.truth.toarray()
wrong = truth[result.rows[result.order], result.Y.indices[result.order]] == 0
for n in (100, 500, 1000, 2000):
    print(f"first {n:4d}: {wrong[:n].mean():.0%} false, at random {wrong.mean():.0%}")

# %%
# What follows
# ------------
# The order is good; how far down the list one may go is another question, and the labels alone do not answer it:
# `clean` removes nothing here. :ref:`Three hundred answers <sphx_glr_gallery_plot_05_answers.py>` do.
print(result.advice())
plt.show()
