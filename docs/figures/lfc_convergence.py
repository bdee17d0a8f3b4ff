"""Draw docs/images/lfc-convergence.png: how the objective of PML-LFC falls on the digit strips."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from pmlkit import PMLLFC
from pmlkit.data import load_digit_strips

VARIANTS = {
    "penalty, as in the paper": {},
    "penalty, pair-normalised beta": {"beta_scale": "pairs"},
    "simplex": {"row_sum": "simplex"},
}
# Dark blue, orange, green: told apart without colour vision, and by their lines.
STYLES = [("#1b4f8a", "-", "o"), ("#d95f02", "--", "s"), ("#1b9e77", ":", "^")]


def main() -> None:
    """Fit three variants for thirty iterations and draw their traces."""
    strips = load_digit_strips(1500, random_state=0)
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for (label, options), (color, line, marker) in zip(VARIANTS.items(), STYLES, strict=True):
        trace = PMLLFC.as_printed(tol=0, max_iter=30, random_state=0, **options).fit(strips.X, strips.Y).objective_
        step = np.arange(len(trace)) / 2
        axes.plot(step, trace / trace[0], line, color=color, marker=marker, markevery=6, markersize=4, label=label)
    axes.axvline(10, color="0.6", linewidth=0.8)
    axes.annotate(
        "default: 10 iterations", (10, 0.6), xytext=(4, 0), textcoords="offset points", color="0.4", fontsize=9
    )
    axes.set(xlabel="outer iteration", ylabel="objective, as a share of its start", yscale="log")
    axes.legend(frameon=False, fontsize=9, loc=(0.5, 0.22))
    axes.spines[["top", "right"]].set_visible(False)
    target = Path(__file__).resolve().parent.parent / "images" / "lfc-convergence.png"
    figure.savefig(target, dpi=150)
    print(f"wrote {target.relative_to(target.parent.parent.parent)}")


if __name__ == "__main__":
    main()
