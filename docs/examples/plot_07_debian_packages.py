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
    """Return names, descriptions and tags of packages; nothing where there is no package index."""
    if shutil.which("apt-cache") is None:
        return [], [], []
    text = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, errors="replace").stdout
    found = {}
    for block in text.replace("\n ", " ").split("\n\n"):  # Long fields go on in lines that start with a blank.
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "Tag" in fields and "Description" in fields:
            tags = {tag.strip() for tag in fields["Tag"].split(",")}
            purpose = {tag.removeprefix("use::") for tag in tags if tag.startswith("use::") and "{" not in tag}
            if purpose:
                found[fields["Package"]] = (f"{fields['Package']}: {fields['Description']}", purpose)
    names = sorted(found)[:: max(1, len(found) // limit)][:limit]
    return names, [found[name][0] for name in names], [found[name][1] for name in names]


# %%
# The data
# --------
# The facet ``use::`` says what a package is good for: editing, viewing, monitoring ...
names, texts, tags = tagged_packages(3000)
if not names:
    print("This machine has no Debian package index with tags (apt-cache dumpavail): nothing to show.")
else:
    binarizer = MultiLabelBinarizer()
    Y = binarizer.fit_transform(tags)
    X = TfidfVectorizer(min_df=3, sublinear_tf=True).fit_transform(texts)
    result = pmlkit.clean(X, Y, label_names=list(binarizer.classes_), row_names=names, media=texts)
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
    axes.set_yticks(place, "use::" + rates["label"] + " (" + rates["candidates"].astype(str) + ")")
    axes.set(xlabel="share of the tags that is wrong, by estimate, with 90 % interval", xlim=(0, 1))
    axes.spines[["top", "right"]].set_visible(False)
    plt.show()
