"""
Which labels are probably wrong?
================================

Strips of handwritten digits carry the digits that they show, and about as many that they do not. Nobody says which.
The labels with the lowest confidence are false ones: **start looking there**.
"""

import matplotlib.pyplot as plt
import numpy as np

import pmlkit
from pmlkit.data import load_digit_strips

# %%
# A data set of pictures. `Y` holds the candidates: 1 where a label was given, rightly or not. The truth is known for
# these pictures; only the last line of this example uses it.
strips = load_digit_strips(1000, random_state=0)
print(f"{strips.n_samples} pictures, {strips.Y.nnz} labels")

# %%
# `clean` judges every label by models that did not see its row.
result = pmlkit.clean(strips.X, strips.Y, label_names=strips.label_names, media=strips.media)
suspects = result.suspects
print(suspects[["row", "label", "confidence"]].head().round(3))

# %%
# Each suspect comes with reasons.
first = suspects.iloc[0]
print(first["reasons"])

# %%
# The twelve most suspicious labels, of twelve different pictures.
shown = suspects.drop_duplicates("row").head(12)
names = np.array(strips.label_names)
figure, axes = plt.subplots(3, 4, figsize=(9, 4.6), layout="constrained")
for axis, (_, suspect) in zip(axes.flat, shown.iterrows(), strict=True):
    row = suspect["row"]
    given = names[strips.Y[[row]].indices]
    axis.imshow(strips.media[row], cmap="gray", aspect="equal")
    axis.set_title(f"labelled {' '.join(given)}\nsuspect: {suspect['label']}", fontsize=9)
    axis.set(xticks=[], yticks=[])
figure.suptitle("Does the picture show the suspect digit?", fontsize=11)

# %%
# Checked against the truth: how many of the first hundred are false?
top = result.top_suspects(100)
truth = strips.truth.toarray()
columns = [strips.label_names.index(label) for label in top["label"]]
print(f"{int((truth[top['row'], columns] == 0).sum())} of the 100 most suspicious labels are false")
plt.show()
