"""Draw docs/images/without-answers.png from the cases that ``benchmarks/certainty.py clean --csv`` wrote.

python benchmarks/certainty.py clean --csv docs/figures/certainty_cases.csv
python docs/figures/without_answers.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

ROOT = Path(__file__).resolve().parent.parent.parent
CASES = Path(__file__).resolve().parent / "certainty_cases.csv"

# Told apart without colour vision, and by their markers.
STYLES = {
    "uniform": ("#1b4f8a", "o"),
    "correlated": ("#1b9e77", "^"),
    "confusable": ("#d95f02", "s"),
    "real": ("#000000", "X"),
    "none": ("#888888", "D"),
}


def main() -> None:
    """Draw what was estimated against what was true, and the order before and after."""
    table = pd.read_csv(CASES)
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.7), layout="constrained")
    parts = (
        ("random", "false", "random mistakes, estimated", "share of false labels"),
        ("rate", "false", "all mistakes, guessed", "share of false labels"),
        ("ap_old", "ap", "average precision by the map alone", "with injected mistakes"),
    )
    for panel, (x, y, across, up) in zip(panels, parts, strict=True):
        panel.plot([0, 1], [0, 1], color="0.5", linewidth=0.8)
        for kind, (color, marker) in STYLES.items():
            mine = table[table["kind"] == kind].dropna(subset=[x, y])
            panel.plot(mine[x], mine[y], marker, color=color, markersize=4.5, alpha=0.75, markeredgewidth=0, label=kind)
        limit = 1.02 if x == "ap_old" else 0.82
        panel.set(xlabel=across, ylabel=up, xlim=(-0.02, limit), ylim=(-0.02, limit))
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False, fontsize=8, title="noise", title_fontsize=8)
    target = ROOT / "docs" / "images" / "without-answers.png"
    figure.savefig(target, dpi=130)
    print(f"wrote {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
