"""Draw docs/images/cleaning-calibration.png: estimated against true precision of the most suspicious labels."""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
from cleaning_calibration import SETS, SHARES, collect, held_out_maps, precisions

# Told apart without colour vision, and by their markers.
STYLES = {
    "uniform": ("#1b4f8a", "o"),
    "correlated": ("#1b9e77", "^"),
    "confusable": ("#d95f02", "s"),
    "real": ("#000000", "X"),
}


def main() -> None:
    """Judge every set by a map that was fitted on the other sets, and draw all of them."""
    cases = collect(SETS, "auto")
    maps = held_out_maps(cases)
    figure, panels = plt.subplots(1, len(SHARES), figsize=(11, 3.4), sharex=True, sharey=True, layout="constrained")
    for panel, share, position in zip(panels, SHARES, range(len(SHARES)), strict=True):
        panel.fill_between([0, 1], [-0.1, 0.9], [0.1, 1.1], color="0.9", linewidth=0)
        panel.plot([0, 1], [0, 1], color="0.5", linewidth=0.8)
        for kind, (color, marker) in STYLES.items():
            mine = [case for case in cases if case.is_counted and case.noise.startswith(kind)]
            points = [precisions(case, *maps[case.family]) for case in mine]
            panel.plot(
                [estimate[position] for estimate, _ in points],
                [true[position] for _, true in points],
                marker, color=color, markersize=4.5, alpha=0.75, markeredgewidth=0, label=f"{kind} noise",
            )  # fmt: skip
        panel.set(title=f"the first {share:.0%}", xlabel="estimated precision")
        panel.set(xlim=(0, 1.02), ylim=(0, 1.02), xticks=(0, 0.5, 1))
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("true precision")
    panels[0].legend(frameon=False, fontsize=8, loc="upper left")
    target = ROOT / "docs" / "images" / "cleaning-calibration.png"
    figure.savefig(target, dpi=130)
    print(f"wrote {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
