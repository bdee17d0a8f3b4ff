"""Draw docs/images/idea.png: what goes in and what comes out, on the digit strips."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import pmlkit
from pmlkit.data import load_digit_strips

BLUE, RED = "#1b4f8a", "#b3261e"


def main() -> None:
    """Judge 1,600 pictures and draw three of them with their labels: the most decided ones."""
    strips = load_digit_strips(1600, random_state=0)
    result = pmlkit.clean(strips.X, strips.Y, label_names=strips.label_names)
    confidence = result.confidence.toarray()
    given = strips.Y.toarray() > 0
    decided = np.where(given, np.abs(confidence - 0.5), 1).min(axis=1)
    doubted = (given & (confidence < 0.5)).sum(axis=1)
    rows = [np.flatnonzero((given.sum(axis=1) == n) & (doubted > 1)) for n in (4, 6, 8)]
    chosen = [candidates[np.argmax(decided[candidates])] for candidates in rows]
    figure, axes = plt.subplots(
        len(chosen), 3, figsize=(9.6, 3.7), layout="constrained", width_ratios=[1.05, 1.2, 1.75], facecolor="white"
    )
    figure.get_layout_engine().set(hspace=0.1)
    for line, row in zip(axes, chosen, strict=True):
        line[0].imshow(strips.media[row], cmap="gray", aspect="auto", interpolation="bicubic")
        for axis in line:
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_visible(axis is line[0])
            axis.spines[:].set_color("0.7")
        for axis in line[1:]:
            axis.set(xlim=(-0.7, 7.7), ylim=(-0.7, 0.6))
        for place, k in enumerate(np.flatnonzero(given[row])):
            name, sure = strips.label_names[k], confidence[row, k]
            chip = {"ha": "center", "va": "center", "fontsize": 16}
            line[1].text(place, 0, name, color="0.15", bbox={"boxstyle": "round", "fc": "#eef1f5", "ec": "0.7"}, **chip)
            color = BLUE if sure > 0.5 else RED
            box = {"boxstyle": "round", "fc": "white", "ec": color, "lw": 1.8}
            line[2].text(place, 0.12, name, color=color, bbox=box, **chip)
            if color == RED:
                line[2].plot([place - 0.24, place + 0.24], [-0.06, 0.3], color=RED, lw=1.8, zorder=5)
            line[2].text(place, -0.52, f"{sure:.0%}", color=color, ha="center", va="center", fontsize=12.5)
    titles = ("a row", "its labels, as given", "how likely each is true")
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, fontsize=15, color="0.25", loc="left")
    target = Path(__file__).resolve().parent.parent / "images" / "idea.png"
    figure.savefig(target, dpi=130)
    truth = strips.truth.toarray()
    for row in chosen:
        print(row, [strips.label_names[k] for k in np.flatnonzero(truth[row])], "are true")
    print(f"wrote {target.name}")


if __name__ == "__main__":
    main()
