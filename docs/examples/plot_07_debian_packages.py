"""
Tags of Debian's packages
=========================

**Question.** Volunteers tag the packages of Debian: what a program is for, what it is written in. Which of these tags
are wrong?

**Answer.** The truth is not known here. **What there is, is a list of tags that a person should look at first.** The
package index is on every Debian machine (``apt-cache dumpavail``); on other systems the example ends with a sentence.
"""

import shutil
import subprocess

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import MultiLabelBinarizer

import pmlkit


def tagged_packages(limit):
    """Return names, descriptions and tags of packages; nothing where there is no index."""
    if shutil.which("apt-cache") is None:
        return [], [], []
    command = ["apt-cache", "dumpavail"]
    text = subprocess.run(command, capture_output=True, text=True, errors="replace").stdout
    text = text.replace("\n ", " ")  # Long fields go on in lines that start with a blank.
    found = {}
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "Tag" in fields and "Description" in fields:
            tags = {tag.strip() for tag in fields["Tag"].split(",") if "{" not in tag}
            purpose = {tag.removeprefix("use::") for tag in tags if tag.startswith("use::")}
            name = fields["Package"]
            if purpose:
                found[name] = f"{name}: {fields['Description']}", purpose
    names = sorted(found)[:: max(1, len(found) // limit)][:limit]
    return names, [found[name][0] for name in names], [found[name][1] for name in names]


# %%
# The data
# --------
# The facet ``use::`` says what a package is good for: editing, viewing, monitoring ...
names, texts, tags = tagged_packages(3000)
if not names:
    print("This machine has no Debian package index with tags (apt-cache dumpavail).")
else:
    binarizer = MultiLabelBinarizer()
    Y = binarizer.fit_transform(tags)
    X = TfidfVectorizer(min_df=3, sublinear_tf=True).fit_transform(texts)
    kinds = list(binarizer.classes_)
    result = pmlkit.clean(X, Y, label_names=kinds, row_names=names, media=texts)
    print(f"{len(names)} packages, {Y.sum()} tags of {Y.shape[1]} kinds")
    print(result.advice())

# %%
# The most suspicious tags
# ------------------------
# Judge for yourself.
if names:
    for _, suspect in result.suspects.head(12).iterrows():
        print(f"use::{suspect['label']:14s} {texts[suspect['row']][:80]}")

# %%
# The picture
# -----------
# Which kinds of tag are most suspicious? Rare kinds are left out, because nothing can be said about them. The
# intervals are wide: without answers not more is known.
if names:
    rates = result.noise_rate_.per_label
    rates = rates[rates["cannot_tell"] == ""].sort_values("noise_rate").tail(18)
    figure, axes = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    place = np.arange(len(rates))
    axes.hlines(place, rates["low"], rates["high"], color="#1b4f8a", alpha=0.4, linewidth=4)
    axes.plot(rates["noise_rate"], place, "o", color="#1b4f8a")
    counts = " (" + rates["candidates"].astype(str) + ")"
    axes.set_yticks(place, "use::" + rates["label"] + counts)
    axes.set(xlabel="estimated share of wrong tags, with 90 % interval", xlim=(0, 1))
    axes.spines[["top", "right"]].set_visible(False)
    plt.show()
